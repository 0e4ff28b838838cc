//! A run's record as text for people.
//!
//! Lives here: tables and colours, over sanitised foreign text. Never here: a call back into the run,
//! the reading of artifacts, printing (the caller prints).

mod ballots;
mod candidates;
mod cards;
mod cost;
mod decision;
mod diff;
mod duels;
mod gates;
mod gone;
mod header;
mod lanes;
mod page;
mod runs;
mod words;

use crate::model::RunRecord;
use page::{Page, Tone};

pub use crate::model::printable::{block, line};
pub use cards::cards_table;
pub use diff::diff;
pub use gone::{Gone, GoneRun, gone};
pub use runs::runs_table;

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Width of the page, in columns.
    pub columns: usize,
    /// Whether escape sequences for colours may be used.
    pub colour: bool,
}

/// The whole record, as `show` prints it. No control character of foreign text is in it.
pub fn text(record: &RunRecord, style: &Style) -> String {
    let mut page = Page::new(style);
    header::write(&mut page, record);
    design(&mut page, record);
    lanes::write(&mut page, record);
    candidates::write(&mut page, record);
    gates::write(&mut page, record);
    ballots::write(&mut page, record);
    duels::write(&mut page, record);
    decision::write(&mut page, record);
    if let Some(capsule) = &record.capsule {
        page.heading("Handed over");
        for paragraph in block(capsule).lines() {
            page.entry("  ", paragraph, Tone::Plain);
        }
    }
    if !record.warnings.is_empty() {
        page.heading("Warnings");
        for warning in &record.warnings {
            page.entry("  ! ", &format!("{}: {}", warning.code, warning.message), Tone::Warn);
        }
    }
    cost::write(&mut page, record);
    page.finish()
}

/// The plan that workers were given.
fn design(page: &mut Page, record: &RunRecord) {
    let Some(design) = &record.design else { return };
    page.heading(&format!("Plan for all workers, by {}", design.model));
    let why = design.why_none.as_ref().map(|why| format!("none: {why}"));
    let text = design.text.clone().or(why).unwrap_or_default();
    for paragraph in block(&text).lines().filter(|line| !line.trim().is_empty()) {
        page.entry("  ", paragraph, Tone::Plain);
    }
}

#[cfg(test)]
mod tests;
