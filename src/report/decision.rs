//! The decision, with its reason and evidence.

use super::page::{Page, Tone};
use super::words;
use crate::model::{Outcome, RunRecord};

/// Writes it.
pub fn write(page: &mut Page, record: &RunRecord) {
    let decision = &record.decision;
    let ids = |ids: &[crate::model::CandidateId]| {
        let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    page.heading("Decision");
    match &decision.outcome {
        Outcome::Winner { candidate, tree } => {
            let tree = words::short(tree.as_str());
            page.entry("  ", &format!("winner: {candidate} (tree {tree})"), Tone::Good);
        }
        Outcome::NoWinner { reason, closest } => {
            page.entry("  ", &format!("no winner: {}", reason), Tone::Bad);
            if !closest.is_empty() {
                page.entry("  closest: ", &ids(closest), Tone::Plain);
            }
        }
        Outcome::Gated { passed, others } => {
            page.entry("  passed: ", &ids(passed), Tone::Good);
            page.entry("  others: ", &ids(others), Tone::Plain);
        }
    }
    page.entry("  ", &decision.reason, Tone::Plain);
    if decision.winner().is_some() {
        let tone = words::confidence(decision.confidence);
        page.entry("  confidence: ", &decision.confidence.to_string(), tone);
    }
    if let Some(basis) = decision.basis {
        page.entry("  basis: ", words::basis(basis, !record.ballots.is_empty()), Tone::Plain);
    }
    for evidence in &decision.evidence {
        let score = evidence.score.map(|score| format!(" [{score:.2}]")).unwrap_or_default();
        let label = format!("    {:<4} ", super::line(evidence.candidate.as_str()));
        page.entry(&label, &format!("{}{score}", evidence.text), Tone::Plain);
    }
}
