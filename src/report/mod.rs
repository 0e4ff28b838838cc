//! A run's record as text for people.
//!
//! Lives here: tables, colours, and the sanitising of foreign text. Never here: a call back into the
//! run, reading artifacts, printing (the caller prints).

mod sanitize;

use std::fmt::Write as _;

use crate::journal::RunSummary;
use crate::model::RunRecord;

pub use sanitize::{block, line};

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Width of the page, in columns.
    pub columns: usize,
    /// Whether escape sequences for colours may be used.
    pub colour: bool,
}

/// The whole record, as `show` prints it.
pub fn text(record: &RunRecord, _style: &Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "run {}", record.run);
    let _ = writeln!(out, "{}", line(&record.decision.reason));
    out
}

/// A diff, made safe to print on a terminal.
pub fn diff(diff: &[u8], _style: &Style) -> String {
    block(&String::from_utf8_lossy(diff))
}

/// The list of runs, one a line.
pub fn runs_table(runs: &[RunSummary], _columns: usize) -> String {
    let mut out = String::new();
    for run in runs {
        let what = match &run.record {
            Ok(record) => line(&record.decision.reason),
            Err(error) => line(error),
        };
        let _ = writeln!(out, "{}  {what}", run.run);
    }
    out
}
