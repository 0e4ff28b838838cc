//! A tally for readers: how sure it is, and its lines of evidence.
//!
//! Never here: the count.

use super::field::margin;
use super::{Standing, Tally, TallyOutcome};
use crate::model::{Confidence, Evidence, JudgeId};

impl Tally {
    /// How sure a winner is: high when every judge asked was for it in each of its pairs, medium when
    /// it has at least half of all weight over each other one.
    pub fn confidence(&self) -> Confidence {
        let TallyOutcome::Winner { candidate } = &self.outcome else { return Confidence::Low };
        let others = self.standings.iter().filter(|standing| standing.candidate != *candidate);
        let margins = others.map(|standing| margin(&self.pairs, candidate, &standing.candidate));
        match margins.min().unwrap_or(0) {
            1000.. => Confidence::High,
            500.. => Confidence::Medium,
            _ => Confidence::Low,
        }
    }

    /// What the pairs say, for the decision's evidence.
    pub fn evidence(&self) -> Vec<Evidence> {
        let line = |standing: &Standing| {
            let vetoes: Vec<&str> = standing.vetoes.iter().map(JudgeId::as_str).collect();
            let vetoed = match vetoes.is_empty() {
                true => String::new(),
                false => format!("; vetoed by {}", vetoes.join(", ")),
            };
            let met = self.standings.len() - 1;
            Evidence {
                candidate: standing.candidate.clone(),
                text: format!(
                    "judges: {} of {met} pairs won, {} lost, margins add up to {:+.2}{vetoed}",
                    standing.wins,
                    standing.losses,
                    standing.margins as f64 / 1000.0
                ),
                score: Some(standing.margins as f64 / 1000.0),
            }
        };
        self.standings.iter().map(line).collect()
    }
}
