//! What the engine knows of a finalist, and what a judge is shown of it.
//!
//! Lives here: the facts, which stand outside any fence and so hold no word of a candidate's, its
//! gates' or its files': counts, verdicts, the operator's commands. Never here: wording of prompts.

use super::definition::{Judge, LooksAt};
use crate::model::{CandidateId, Claim, FileChange, Flag, GateKind, GateReport, Verdict};
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
}

/// A gate's name in prompts.
fn gate_name(gate: GateKind) -> &'static str {
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
    facts
}

/// A flag's code, which is the engine's; its path and detail may be foreign and stay out.
fn code(flag: &Flag) -> String {
    flag.code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect()
}

fn gate_fact(report: &GateReport) -> String {
    let verdict = match &report.verdict {
        Verdict::Pass => "passed",
        Verdict::Fail { .. } => "failed",
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
    let command = match report.command.is_empty() {
        true => String::new(),
        false => format!(" `{}`", inline(&report.command)),
    };
    format!("{}{command}: {verdict}{}", gate_name(report.gate), against.unwrap_or_default())
}

/// What `judge` sees of a finalist under `name`; without a judge, everything.
pub(crate) fn view(finalist: &Finalist, name: &str, judge: Option<&Judge>) -> CandidateView {
    let shows = |part| judge.is_none_or(|judge| judge.looks_at(part));
    let gates = finalist.gates.iter().filter(|report| !report.output.text.trim().is_empty());
    let gates = gates.map(|report| GateView {
        name: gate_name(report.gate).to_owned(),
        output: report.output.text.clone(),
    });
    CandidateView {
        name: name.to_owned(),
        facts: facts(finalist),
        diff: finalist.diff.clone(),
        answer: shows(LooksAt::Answer).then(|| finalist.answer.clone()),
        claims: match shows(LooksAt::Claims) {
            true => finalist.claims.iter().map(claim).collect(),
            false => Vec::new(),
        },
        gates: if shows(LooksAt::Gates) { gates.collect() } else { Vec::new() },
    }
}

fn claim(claim: &Claim) -> String {
    let place = match (&claim.path, claim.line) {
        (Some(path), Some(line)) => format!(" ({path}:{line})"),
        (Some(path), None) => format!(" ({path})"),
        (None, _) => String::new(),
    };
    format!("- {}{place}", claim.text)
}
