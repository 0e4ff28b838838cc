//! What the engine knows of a finalist, and what a judge is shown of it.
//!
//! Lives here: the facts, which stand outside any fence and so hold no word of a candidate's, its
//! gates' or its files': counts, verdicts, the operator's commands. Never here: wording of prompts.

use super::definition::{Judge, LooksAt};
use crate::model::{
    CandidateId, Claim, FileChange, Flag, GateKind, GateReport, Refuted, TestEnd, Verdict,
};
use crate::prompt::{CandidateView, GateView, inline};

/// A candidate that meets others before the judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalist {
    /// Its id. No judge sees it.
    pub id: CandidateId,
    /// The diff, lossily decoded. Best the engine's own diff from base to admitted tree: in one form
    /// for all, so that neither the order of files nor the format hints at who made it.
    pub diff: String,
    /// Its author's closing words: foreign.
    pub answer: String,
    /// What its author claims: foreign.
    pub claims: Vec<Claim>,
    /// The paths it changes.
    pub files: Vec<FileChange>,
    /// What admission flagged.
    pub flags: Vec<Flag>,
    /// Its gates' reports.
    pub gates: Vec<GateReport>,
    /// Whether its author was cut off before it was done.
    pub partial: bool,
    /// Further facts of the engine, in its own words, without any foreign text.
    pub facts: Vec<String>,
    /// What of its author's claims was refuted.
    pub refuted: Vec<Refuted>,
}

/// A gate's name in prompts.
pub(crate) fn gate_name(gate: GateKind) -> &'static str {
    match gate {
        GateKind::Setup => "setup",
        GateKind::Apply => "apply",
        GateKind::Typecheck => "typecheck",
        GateKind::Test => "tests",
    }
}

/// The facts on a finalist, one sentence each.
pub fn facts(finalist: &Finalist) -> Vec<String> {
    let added: u64 = finalist.files.iter().map(|file| u64::from(file.added)).sum();
    let removed: u64 = finalist.files.iter().map(|file| u64::from(file.removed)).sum();
    let count = finalist.files.len();
    let mut facts =
        vec![format!("changes {count} file(s), {added} line(s) added, {removed} removed")];
    facts.extend(finalist.gates.iter().map(gate_fact));
    facts.extend(finalist.flags.iter().map(|flag| format!("flagged at admission: {}", code(flag))));
    if finalist.partial {
        facts.push("its author was cut off before it was done (PARTIAL)".to_owned());
    }
    facts.extend(finalist.facts.iter().cloned());
    facts.extend(finalist.refuted.iter().map(refuted_fact));
    facts
}

/// What was looked up stands in the engine's words; a skeptic's own are in a fence.
fn refuted_fact(refuted: &Refuted) -> String {
    let number = refuted.claim;
    match &refuted.by {
        None => format!("claim {number} of its author is untrue: {}", refuted.reason),
        Some(_) => format!(
            "claim {number} of its author is doubted by a skeptic; of what it points to, {} text(s) do stand in the              change or a gate's output, and {} stand in no added line",
            refuted.quotes.len(),
            refuted.absent.len()
        ),
    }
}

/// What skeptics wrote, and what they point to.
fn refutations(finalist: &Finalist) -> Vec<String> {
    let said = finalist.refuted.iter().filter(|refuted| refuted.by.is_some());
    said.map(|refuted| {
        let quotes = refuted.quotes.iter().map(|quote| format!("\n   there: {quote}"));
        let absent = refuted.absent.iter().map(|text| format!("\n   in no added line: {text}"));
        let texts: String = quotes.chain(absent).collect();
        format!("{}. {}{texts}", refuted.claim, refuted.reason)
    })
    .collect()
}

/// The author's claims with their numbers.
pub(super) fn numbered(finalist: &Finalist) -> Vec<String> {
    let one = |(at, each): (usize, &Claim)| format!("{}. {}", at + 1, claim(each));
    finalist.claims.iter().enumerate().map(one).collect()
}

/// What the gates printed.
pub(super) fn gate_views(finalist: &Finalist) -> Vec<GateView> {
    let gates = finalist.gates.iter().filter(|report| !report.output.text.trim().is_empty());
    let gates = gates.map(|report| GateView {
        name: gate_name(report.gate).to_owned(),
        output: report.output.text.clone(),
    });
    gates.chain(finalist.gates.iter().filter_map(tests_view)).collect()
}

/// A flag's code, which is the engine's; its path and detail may be foreign and stay out.
fn code(flag: &Flag) -> String {
    flag.code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect()
}

/// A gate's report in one sentence.
pub(crate) fn gate_fact(report: &GateReport) -> String {
    let verdict = match &report.verdict {
        Verdict::Pass => "passed",
        Verdict::Fail { .. } => "failed",
        Verdict::Contested { .. } => "contested: only tests fail that it changed itself",
        Verdict::Infra { .. } => "could not run, so it proves nothing",
        Verdict::Skipped { .. } => "was not run",
    };
    let against = report.base.as_ref().map(|base| {
        let before = if base.base_passed { "passed on the base" } else { "failed on the base" };
        format!(
            " ({before}; new failures {}, failures of the base that are gone {}, still there {})",
            base.new_failures.len(),
            base.fixed.len(),
            base.unchanged
        )
    });
    let tests = tests_fact(report);
    let command = match report.command.is_empty() {
        true => String::new(),
        false => format!(" `{}`", inline(&report.command)),
    };
    format!("{}{command}: {verdict}{}{tests}", gate_name(report.gate), against.unwrap_or_default())
}

/// Contested, flaky and own tests, by their numbers.
fn tests_fact(report: &GateReport) -> String {
    let contested = report.base.as_ref().map_or(0, |base| base.contested.len());
    let flaky = report.flaky.iter().filter(|test| !test.on_base).count();
    let mut text = String::new();
    if contested > 0 {
        text.push_str(&format!(
            "; tests of the base that it changed and that fail on it {contested}"
        ));
    }
    if flaky > 0 {
        text.push_str(&format!("; tests that fail on it only now and then {flaky}"));
    }
    if let Some(own) = &report.own {
        text.push_str(&format!(
            "; of the tests that it adds or changes, {} pass with it and not without it, {} fail on it",
            own.evidence, own.failing
        ));
    }
    text
}

/// Names of the tests that the numbers speak of: foreign text, for a fence.
fn tests_view(report: &GateReport) -> Option<GateView> {
    let mut lines: Vec<String> = Vec::new();
    let contested = report.base.iter().flat_map(|base| &base.contested);
    lines.extend(contested.take(NAMED).map(|each| {
        format!("contested (the base's version fails on it): {} {}", each.code, each.message)
    }));
    let flaky = report.flaky.iter().filter(|test| !test.on_base);
    lines.extend(flaky.take(NAMED).map(|test| {
        format!("flaky: {} (failed {}, passed {})", test.name, test.failed, test.passed)
    }));
    for test in report.own.iter().flat_map(|own| &own.tests).take(NAMED) {
        let on_base = test.on_base.map_or("not tried", end);
        lines.push(format!(
            "its own: {}: {} with it, {on_base} without it",
            test.name,
            end(test.here)
        ));
    }
    (!lines.is_empty())
        .then(|| GateView { name: "tests told apart".to_owned(), output: lines.join("\n") })
}

/// Tests named to a judge, of each kind.
const NAMED: usize = 20;

fn end(end: TestEnd) -> &'static str {
    match end {
        TestEnd::Passed => "passes",
        TestEnd::Failed => "fails",
        TestEnd::NotRun => "does not run",
    }
}

/// What `judge` sees of a finalist under `name`; without a judge, everything.
pub(crate) fn view(finalist: &Finalist, name: &str, judge: Option<&Judge>) -> CandidateView {
    let shows = |part| judge.is_none_or(|judge| judge.looks_at(part));
    CandidateView {
        name: name.to_owned(),
        facts: facts(finalist),
        diff: finalist.diff.clone(),
        answer: shows(LooksAt::Answer).then(|| finalist.answer.clone()),
        claims: match shows(LooksAt::Claims) {
            true => numbered(finalist),
            false => Vec::new(),
        },
        refuted: refutations(finalist),
        gates: if shows(LooksAt::Gates) { gate_views(finalist) } else { Vec::new() },
    }
}

fn claim(claim: &Claim) -> String {
    let place = match (&claim.path, claim.line) {
        (Some(path), Some(line)) => format!(" ({path}:{line})"),
        (Some(path), None) => format!(" ({path})"),
        (None, _) => String::new(),
    };
    format!("{}{place}", claim.text)
}
