//! Gates that did not pass, with the end of their output.

use super::page::{Page, Tone};
use super::words;
use crate::model::printable::block;
use crate::model::{BaseComparison, GateReport, RunRecord, Verdict, duration};

/// Lines of output that are shown of each.
const LINES: usize = 12;

/// Diagnostics that are named of each.
const NAMED: usize = 3;

/// Writes them; nothing when every gate passed.
pub fn write(page: &mut Page, record: &RunRecord) {
    let base = record.base.gates.iter().map(|report| ("base".to_owned(), report));
    let of = record
        .candidates
        .iter()
        .flat_map(|one| one.gates.iter().map(|report| (one.candidate.id.to_string(), report)));
    let bad: Vec<(String, &GateReport)> = base
        .chain(of)
        .filter(|(_, report)| report.verdict.is_fail() || report.verdict.is_infra())
        .collect();
    if bad.is_empty() {
        return;
    }
    page.heading("Gates that did not pass");
    for (whose, report) in bad {
        one(page, &whose, report);
    }
}

fn one(page: &mut Page, whose: &str, report: &GateReport) {
    let mark = report.verdict.mark();
    let why = match &report.verdict {
        Verdict::Fail { reason } => reason.clone(),
        Verdict::Infra { reason } => format!("could not run: {reason}"),
        Verdict::Pass | Verdict::Skipped { .. } => String::new(),
    };
    let head = format!("{whose} {} {mark} {why}{}", report.gate, ran(report));
    page.entry("  ", &head, words::verdict(&report.verdict));
    if let Some(base) = &report.base {
        page.entry("    ", &against(base), Tone::Plain);
    }
    let text = block(&report.output.text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    page.quote(&lines[lines.len().saturating_sub(LINES)..]);
}

fn ran(report: &GateReport) -> String {
    if report.command.is_empty() {
        return String::new();
    }
    let status = report.exit_status.map(|status| format!("exit {status}, ")).unwrap_or_default();
    format!(" — {} ({status}{})", report.command, duration(report.millis))
}

fn against(base: &BaseComparison) -> String {
    let before = if base.base_passed { "passed" } else { "failed, too" };
    if !base.by_diagnostic {
        return format!("the base {before}; only exit statuses could be compared");
    }
    let mut text = format!(
        "the base {before}: {} new, {} fixed, {} as before",
        base.new_failures.len(),
        base.fixed.len(),
        base.unchanged
    );
    // The verdict's own reason names the first.
    for failure in base.new_failures.iter().skip(1).take(NAMED) {
        text.push_str(&format!("; {}:{} {}", failure.path, failure.line, failure.message));
    }
    text
}
