//! The choice among several survivors: agreement first, then skeptics, judges and duels. Never here: how
//! any of them come to their word.

use super::decide::decide;
use super::run::Run;
use super::{PipelineError, Survivor};
use crate::model::{Basis, Decision, Stage};
use crate::prompt::DIFF_BYTES;
use crate::select::Doubt;

impl Run<'_> {
    /// The choice among several survivors: agreement first, then the judges if there are any. The finalists
    /// come back with every fact that judges had.
    pub(super) async fn choose(
        &mut self,
        survivors: &[Survivor],
    ) -> Result<(Decision, Vec<Survivor>), PipelineError> {
        self.begin_stage(Stage::Weigh, Some(survivors.len() as u32))?;
        let weighed = self.phases.weigh.weigh(survivors)?;
        for (survivor, score) in survivors.iter().zip(&weighed.scores) {
            self.set_score(&survivor.id, *score);
        }
        let mut finalists = self.finalists(survivors, &weighed.scores);
        for finalist in &mut finalists {
            let at = survivors.iter().position(|survivor| survivor.id == finalist.id);
            finalist.facts = at.and_then(|at| weighed.facts.get(at)).cloned().unwrap_or_default();
        }
        self.doubt(&mut finalists).await?;
        self.warn_of_cuts(&finalists);
        let judged = self.settle(&mut finalists).await?;
        self.begin_stage(Stage::Decide, None)?;
        let mut decision = decide(weighed.choice, judged);
        decision.evidence.extend(self.duel_evidence());
        if let Some(doubt) = weighed.trust_doubt.filter(|_| is_by_evidence(&decision)) {
            self.warn("trusted-alone", doubt);
        }
        Ok((decision, finalists))
    }

    /// Nobody loses silently because a part of its change was not shown: judges are told, and so is who reads
    /// the record.
    fn warn_of_cuts(&mut self, finalists: &[Survivor]) {
        let is_cut = |one: &&Survivor| one.diff.len() > DIFF_BYTES;
        let cut = finalists
            .iter()
            .filter(is_cut)
            .map(|one| format!("{} ({} bytes)", one.id, one.diff.len()));
        let cut: Vec<String> = cut.collect();
        if !cut.is_empty() && self.phases.judge.is_some() {
            let text = format!(
                "judges saw beginning and end of these changes, {DIFF_BYTES} bytes of each: {}; `bakeoff diff` shows \
                 them whole",
                cut.join(", ")
            );
            self.warn("judged-in-part", text);
        }
    }

    /// The survivors whose gates leave the least to doubt and with the highest scores, at most as many
    /// as the plan lets meet; in plan order.
    fn finalists(&self, survivors: &[Survivor], scores: &[Option<f64>]) -> Vec<Survivor> {
        let score = |at: usize| scores.get(at).copied().flatten().unwrap_or(0.0);
        let doubt = |at: usize| {
            let doubt = Doubt::of(&survivors[at].gates, &survivors[at].flags);
            (doubt.failing(), !doubt.codes.is_empty(), doubt.shaky)
        };
        let mut order: Vec<usize> = (0..survivors.len()).collect();
        order.sort_by(|a, b| {
            doubt(*a).cmp(&doubt(*b)).then(score(*b).total_cmp(&score(*a))).then(a.cmp(b))
        });
        order.truncate(self.record.plan.judging.finalists.max(2) as usize);
        order.sort_unstable();
        order.into_iter().map(|at| survivors[at].clone()).collect()
    }
}

/// Whether agreement and trust alone chose a winner.
fn is_by_evidence(decision: &Decision) -> bool {
    decision.winner().is_some() && decision.basis == Some(Basis::Evidence)
}
