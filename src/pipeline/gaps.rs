//! What a run that decided warns of: what it could not prove, and what it could not count.
//!
//! Never here: what is known before it begins (`cautions`).

use super::decide::Standing;
use super::run::Run;
use crate::model::{CandidateRecord, Decision, Outcome};

impl Run<'_> {
    /// What may have been paid without being counted is said.
    pub(super) fn warn_of_broken_calls(&mut self) {
        match self.tell.broken_off() {
            0 => {}
            count => self.warn(
                "possibly-charged",
                format!(
                    "{count} calls broke off after their server had begun, and nobody knows what it charges \
                     for them: that is not in the sums, and those that were asked again may be charged twice"
                ),
            ),
        }
    }

    /// A worker's answer that held a secret is not in the journal as it was given, and is no code to go on with.
    pub(super) fn warn_of_withheld(&mut self) {
        match self.memory.withheld() {
            0 => {}
            count => self.warn(
                "asked-again",
                format!(
                    "{count} recorded answers held a secret, which no record keeps: they were asked for again, and are \
                     paid again"
                ),
            ),
        }
    }

    /// A call is asked only when the most that it may use fits under the ceilings. A server that counts more than it
    /// was allowed can't be held to them, and that is told.
    pub(super) fn warn_of_excess(&mut self) {
        let (limits, used) = (&self.record.plan.limits, &self.record.usage);
        let money = limits.budget.filter(|budget| used.cost.known > *budget);
        let tokens = limits.max_tokens.filter(|most| used.tokens() > *most);
        let excess = match (money, tokens) {
            (Some(budget), _) => format!("{} were charged under a budget of {budget}", used.cost),
            (None, Some(most)) => {
                format!("{} tokens were used under a ceiling of {most}", used.tokens())
            }
            (None, None) => return,
        };
        self.warn(
            "over-ceiling",
            format!(
                "{excess}: a server counted more than a call was allowed to use, or the ceiling was lowered on the \
                 way; nothing more was asked"
            ),
        );
    }

    /// A winner beside candidates that could not be proved is told as such.
    pub(super) fn warn_of_gaps(&mut self, decision: &Decision) {
        let unproved = |row: &&CandidateRecord| {
            Standing::of(row.admission.tree().is_some(), &row.gates) == Standing::Unproved
                && row.same_as.is_none()
        };
        let count = self.record.candidates.iter().filter(unproved).count();
        if count > 0 && matches!(decision.outcome, Outcome::Winner { .. }) {
            let text =
                format!("the gates could not run on {count} other candidates; they were left out");
            self.warn("gates-incomplete", text);
        }
    }
}
