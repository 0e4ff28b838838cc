//! What a run cost, by role, and what an early end saved.

use super::page::{Page, Tone};
use super::words;
use crate::model::{CandidateId, Cost, RunRecord, Saved, duration, grouped};

/// The order in which roles are told.
const ROLES: [&str; 7] =
    ["design", "workers", "skeptics", "judges", "duels", "synthesizer", "side"];

/// Writes it.
pub fn write(page: &mut Page, record: &RunRecord) {
    page.heading("Cost");
    let asked = !record.lanes.is_empty() || !record.ballots.is_empty();
    match record.usage.calls {
        0 if !asked => page.entry("  ", "none: no model was asked", Tone::Plain),
        _ => page.entry("  ", &words::usage(&record.usage), Tone::Plain),
    }
    // One role is the whole.
    if record.roles.len() > 1 {
        for role in ROLES {
            if let Some(usage) = record.roles.get(role) {
                page.entry(&format!("  {role:<12} "), &words::usage(usage), Tone::Faint);
            }
        }
    }
    if let Some(saved) = &record.saved {
        page.entry("  saved        ", &not_spent(saved), Tone::Good);
    }
    let killed = match record.resumed {
        Some(_) => ", what engines took that were killed is not known",
        None => "",
    };
    page.entry("  ", &format!("{} in all{killed}", duration(record.millis)), Tone::Plain);
}

fn not_spent(saved: &Saved) -> String {
    let (begun, cut) = (saved.not_begun.len(), saved.cut.len());
    if begun + cut == 0 {
        return format!("nothing: no lane was left when {}", enough(saved));
    }
    let lanes = match (begun, cut) {
        (begun, 0) => format!("{begun} lane{} not begun", words::plural(begun as u64)),
        (0, cut) => format!("{cut} lane{} cut", words::plural(cut as u64)),
        (begun, cut) => format!("{begun} lane{} not begun, {cut} cut", words::plural(begun as u64)),
    };
    let money = match saved.cost {
        Cost { partly_unknown: true, known } if known.0 == 0 => "price unknown".to_owned(),
        cost => format!("about {cost}"),
    };
    format!(
        "{lanes}, because {}: about {} tokens, {money}, by what finished lanes took",
        enough(saved),
        grouped(saved.tokens)
    )
}

fn enough(saved: &Saved) -> String {
    let ids: Vec<&str> = saved.enough.candidates.iter().map(CandidateId::as_str).collect();
    let why = if saved.enough.equal { "had an equal tree" } else { "passed" };
    format!("{} {why} (--enough {})", ids.join(", "), saved.enough.wanted)
}
