//! Gates that did not pass, with the end of their output.

use super::page::{Page, Tone};
use super::words;
use crate::model::printable::block;
use crate::model::{
    BaseComparison, FlakyTest, GateReport, OwnTests, RunRecord, TestEnd, Verdict, duration,
};

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
        .filter(|(_, report)| {
            let verdict = &report.verdict;
            verdict.is_fail() || verdict.is_infra() || verdict.is_contested()
        })
        .collect();
    if !bad.is_empty() {
        page.heading("Gates that did not pass");
    }
    for (whose, report) in &bad {
        one(page, whose, report);
    }
    tests(page, record);
}

/// Flaky, contested and own tests, by name.
fn tests(page: &mut Page, record: &RunRecord) {
    let mut lines: Vec<(String, Tone)> = Vec::new();
    let base = record.base.gates.iter().map(|report| ("base", report));
    let of = record
        .candidates
        .iter()
        .flat_map(|one| one.gates.iter().map(|report| (one.candidate.id.as_str(), report)));
    for (whose, report) in base.chain(of) {
        lines.extend(report.flaky.iter().take(MOST).map(|test| flaky(whose, test)));
        let contested = report.base.iter().flat_map(|base| &base.contested).take(MOST);
        lines.extend(contested.map(|each| {
            (format!("{whose} contested: {} {}", each.code, each.message), Tone::Warn)
        }));
        if let Some(own) = &report.own {
            lines.extend(own_tests(whose, own));
        }
    }
    if lines.is_empty() {
        return;
    }
    page.heading("Tests told apart");
    for (line, tone) in lines {
        page.entry("  ", &line, tone);
    }
}

/// Tests that are named of each kind.
const MOST: usize = 10;

fn flaky(whose: &str, test: &FlakyTest) -> (String, Tone) {
    let name = if test.name.is_empty() { "the command as a whole" } else { &test.name };
    let known = if test.on_base && whose != "base" { ", on the base too" } else { "" };
    let runs = test.failed + test.passed;
    (format!("{whose} flaky: {name} (failed {} of {runs} runs{known})", test.failed), Tone::Warn)
}

fn own_tests(whose: &str, own: &OwnTests) -> Vec<(String, Tone)> {
    let mut head = format!(
        "{whose} own tests: {} pass with it and not without it, {} fail on it",
        own.evidence, own.failing
    );
    if let Some(note) = &own.note {
        head.push_str(&format!("; {note}"));
    }
    let tone = if own.failing > 0 { Tone::Warn } else { Tone::Plain };
    let named = own.tests.iter().filter(|test| test.is_evidence() || test.here == TestEnd::Failed);
    let lines = named.take(MOST).map(|test| match test.here {
        TestEnd::Failed => (format!("  fails on it: {}", test.name), Tone::Warn),
        _ => (format!("  evidence: {}", test.name), Tone::Plain),
    });
    std::iter::once((head, tone)).chain(lines).collect()
}

fn one(page: &mut Page, whose: &str, report: &GateReport) {
    let mark = report.verdict.mark();
    let why = match &report.verdict {
        Verdict::Fail { reason } => reason.clone(),
        Verdict::Contested { reason } => format!("contested: {reason}"),
        Verdict::Infra { reason } => format!("could not run: {reason}"),
        Verdict::Pass | Verdict::Skipped { .. } => String::new(),
    };
    let head = format!("{whose} {} {mark} {why}{}", report.gate, ran(report));
    page.entry("  ", &head, words::verdict(&report.verdict));
    if let Some(base) = &report.base {
        page.entry("    ", &against(base), Tone::Plain);
    }
    if report.artifact.is_some() {
        let hint = format!("whole output: `bakeoff show --gate {whose}:{}`", report.gate);
        page.entry("    ", &hint, Tone::Faint);
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
        text.push_str(&format!("; {}", failure.text()));
    }
    text
}
