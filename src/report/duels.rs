//! Duels, and judges that length sways.

use super::page::{Page, Tone};
use super::words;
use crate::model::{
    Control, ControlResult, Duel, DuelResult, DuelRun, RunRecord, TestEnd, duration,
};

/// Writes them, unless there are none.
pub fn write(page: &mut Page, record: &RunRecord) {
    if !record.controls.is_empty() {
        page.heading("Judges that took the longer change each time");
    }
    for control in &record.controls {
        let (text, tone) = controlled(control);
        page.entry(&format!("  {} by {}  ", control.judge, control.model), &text, tone);
    }
    if !record.duels.is_empty() {
        page.heading("Duels");
    }
    record.duels.iter().for_each(|duel| one(page, duel));
}

fn controlled(control: &Control) -> (String, Tone) {
    match &control.result {
        ControlResult::Cleared => (
            format!("did not prefer a padded copy of {}: its word counts", control.on),
            Tone::Plain,
        ),
        ControlResult::Padded => (
            format!("preferred a copy of {} that only had inert lines more: void", control.on),
            Tone::Warn,
        ),
        ControlResult::Silent { reason } => {
            (format!("void, no valid answer: {reason}"), Tone::Warn)
        }
    }
}

fn one(page: &mut Page, duel: &Duel) {
    let [left, right] = &duel.pair;
    let (text, tone) = match &duel.result {
        DuelResult::Told { passes, fails } => {
            (format!("passes on {passes}, fails on {fails}: the judges were told"), Tone::Good)
        }
        DuelResult::Alike { pass: true } => ("passes on both".to_owned(), Tone::Plain),
        DuelResult::Alike { pass: false } => ("fails on both".to_owned(), Tone::Plain),
        DuelResult::Void { reason } => (format!("does not count: {reason}"), Tone::Warn),
        DuelResult::NotWritten { reason } => {
            (format!("no test was written: {reason}"), Tone::Plain)
        }
    };
    page.entry(&format!("  {} {left} : {right}  ", duel.number), &text, tone);
    if !duel.files.is_empty() {
        let text = format!("{} by {} — {}", duel.files.join(", "), duel.model, duel.command);
        page.entry("    test: ", &text, Tone::Plain);
    }
    for run in &duel.runs {
        page.entry("    ", &ended(run), tone_of(run));
    }
}

fn ended(run: &DuelRun) -> String {
    let whose = run.candidate.as_ref().map_or("base".to_owned(), ToString::to_string);
    let ends: Vec<&str> = run.ends.iter().map(|end| word(*end)).collect();
    let why = run.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let times = match (run.end(), ends.len()) {
        (Some(end), count) => format!("{} {count} time{}", word(end), words::plural(count as u64)),
        (None, _) => ends.join(", "),
    };
    format!("{whose}  {times}{why} ({})", duration(run.millis))
}

fn tone_of(run: &DuelRun) -> Tone {
    match run.end() {
        Some(_) => Tone::Plain,
        None => Tone::Warn,
    }
}

fn word(end: TestEnd) -> &'static str {
    match end {
        TestEnd::Passed => "passes",
        TestEnd::Failed => "fails",
        TestEnd::NotRun => "did not run",
    }
}
