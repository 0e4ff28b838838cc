//! A candidate's run of a gate against the base's own: what is new, what is gone, and the verdict.
//!
//! The rules, in order:
//! 1. What could not run is `Infra`: a missing dependency; a missing tool that the base missed too; a
//!    full disk or memory; a command that the system killed; a timeout that the base had too or nearly had.
//! 2. A timeout or a crash that the base did not have is a failure.
//! 3. Failures that the base does not have (by code, path and message; lines move; tests by name) are a
//!    failure, tests even where the command ends with status 0. Failures of tests that the candidate
//!    changed are *contested* instead ([`super::contest`]), if nothing else fails.
//! 4. Tests that the base runs and the candidate's run does not show are a failure, whatever the exit
//!    status: a run that stops early, or tests that were compiled out, prove nothing. A quiet runner,
//!    which names only what failed, has to count at least as many tests as on the base.
//! 5. Exit status 0 is a pass.
//! 6. Only failures of the base are left: a pass, told as unchanged. They are not the candidate's
//!    fault; which candidate mends them is what the choice looks at (`fixed`).
//! 7. The tool gave nothing to compare: a failure when the base passed, and `Infra` when the base fails
//!    too, because then the gate says nothing about this candidate.
//! 8. Errors that are only in test targets (Cargo) are told and fail nobody, unless the plan is strict.

use std::collections::BTreeMap;
use std::time::Duration;

use super::contest;
use super::infra::{self, Asker};
use super::outcome::Outcome;
use super::protect::Tests;
use crate::model::{BaseComparison, Diagnostic, Verdict};
use crate::sandbox::JobStatus;

/// What helps against a full disk: no limit of ours was reached.
const MAKE_ROOM: &str =
    "make room where bakeoff keeps its runs, or name another place with BAKEOFF_HOME";

/// What a comparison must know beside the two runs.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Whether errors in test targets alone fail a typecheck.
    pub strict: bool,
    /// The longest time that the command may take.
    pub limit: Duration,
    /// The tests that the candidate changes.
    pub tests: &'a Tests,
    /// Dependencies that only the candidate's manifests name.
    pub dependencies: &'a std::collections::BTreeSet<String>,
    /// The same command with the candidate's own tests in place, when it ran.
    pub own: Option<&'a Outcome>,
}

/// What the base's own run of a gate says. A base that fails is a failure here; it only becomes
/// nobody's fault in a comparison.
pub fn base_verdict(run: &Outcome, strict: bool) -> Verdict {
    if run.is_success() {
        return Verdict::Pass;
    }
    if let Some(reason) = could_not_run(run) {
        return Verdict::Infra { reason };
    }
    if run.status == JobStatus::TimedOut {
        let reason =
            format!("the base {}; raise timeout_seconds or name a quicker command", run.ending());
        return Verdict::Infra { reason };
    }
    if let JobStatus::DiskLimit { left, .. } = run.status {
        let advice = if left.is_none() { "raise disk_mb" } else { MAKE_ROOM };
        let reason = format!("the base was {}; {advice}", run.ending());
        return Verdict::Infra { reason };
    }
    if only_soft(run, strict) {
        return Verdict::Pass;
    }
    let failures: Vec<&Diagnostic> = run.reading.failures().chain(hard(run, strict)).collect();
    let what = if failures.is_empty() { run.ending() } else { told("failure", &failures) };
    Verdict::Fail { reason: format!("the base itself fails: {what}") }
}

/// Soft errors that count.
fn hard(run: &Outcome, strict: bool) -> impl Iterator<Item = &Diagnostic> {
    run.reading.soft.iter().filter(move |_| strict)
}

/// What keeps a failed command from having been a proof at all.
fn could_not_run(run: &Outcome) -> Option<String> {
    infra::missing_tool(run.exit(), &run.output)
        .or_else(|| missing_dependency(run, Asker::Base))
        .or_else(|| run.reading.is_clean().then(|| infra::exhausted(&run.output)).flatten())
        .or_else(|| infra::killed(run.exit(), run.signal()))
}

/// An unresolved import is a compiler's diagnostic; only a run without any can miss a dependency.
fn missing_dependency(run: &Outcome, asker: Asker) -> Option<String> {
    let silent = run.reading.is_clean() && run.reading.soft.is_empty();
    silent.then(|| infra::missing_dependency(&run.output, asker)).flatten()
}

/// A candidate's verdict and its comparison. `base` is the base's run of the same command, which was
/// neither `Infra` nor skipped.
pub fn candidate_verdict(
    base: &Outcome,
    run: &Outcome,
    terms: &Terms<'_>,
) -> (Verdict, BaseComparison) {
    let base = &renamed(base, terms.tests);
    let mut comparison = compare(base, run, terms.strict);
    let gone = contest::settle(base, run, terms, &mut comparison, vanished(base, run));
    let verdict = verdict(base, run, terms, &comparison, &gone);
    (verdict, comparison)
}

/// The base's run with the names that its tests have where their modules have moved.
fn renamed(base: &Outcome, tests: &Tests) -> Outcome {
    let mut base = base.clone();
    if !tests.moved.is_empty() {
        let passed = std::mem::take(&mut base.reading.passed);
        base.reading.passed =
            passed.into_iter().map(|(name, count)| (tests.renamed(&name), count)).collect();
        for each in &mut base.reading.failed {
            each.code = tests.renamed(&each.code);
        }
    }
    base
}

fn verdict(
    base: &Outcome,
    run: &Outcome,
    terms: &Terms<'_>,
    comparison: &BaseComparison,
    gone: &[String],
) -> Verdict {
    let fail = |reason: String| Verdict::Fail { reason };
    if run.status == JobStatus::TimedOut {
        return timed_out(base, run, terms.limit);
    }
    match run.status {
        JobStatus::DiskLimit { left: None, .. } => {
            return fail(format!("{}; the base did not", run.ending()));
        }
        // A full disk is the machine's trouble, whoever filled it.
        JobStatus::DiskLimit { left: Some(_), .. } => {
            return Verdict::Infra { reason: format!("{}; {MAKE_ROOM}", run.ending()) };
        }
        _ => {}
    }
    if let Some(reason) = unable(base, run, terms, comparison) {
        return Verdict::Infra { reason };
    }
    if !comparison.new_failures.is_empty() {
        let new: Vec<&Diagnostic> = comparison.new_failures.iter().collect();
        return fail(told("new failure", &new));
    }
    if !gone.is_empty() && run.dropped > 0 {
        return Verdict::Infra {
            reason: format!(
                "{} bytes of its output were not kept, so that not every test of the base was seen; \
                 name a quieter test command",
                run.dropped
            ),
        };
    }
    if !gone.is_empty() {
        return fail(format!("tests of the base did not run: {}", some_of(gone)));
    }
    if !comparison.contested.is_empty() {
        let contested: Vec<&Diagnostic> = comparison.contested.iter().collect();
        let reason = format!("of tests that it changed, {}", told("failure", &contested));
        return Verdict::Contested { reason };
    }
    if run.is_success() || only_soft(run, terms.strict) {
        return Verdict::Pass;
    }
    match (comparison.unchanged > 0, comparison.base_passed) {
        (true, _) => Verdict::Pass,
        (false, true) => fail(format!("{}, where the base passes", run.ending())),
        (false, false) => Verdict::Infra {
            reason: format!(
                "{}, and the base fails this gate too: its output can't be compared test by \
                 test, so it proves nothing; name a command whose tests are told apart (docs/gates.md), or \
                 one that passes on the base",
                run.ending()
            ),
        },
    }
}

/// A base that took more than half of the time leaves a candidate too little room for its own fault to be
/// told from the machine's.
fn timed_out(base: &Outcome, run: &Outcome, limit: Duration) -> Verdict {
    let took = base.elapsed.as_secs_f32();
    let reason = format!("{}; the base took {took:.1} s", run.ending());
    match base.elapsed * 2 > limit {
        true => Verdict::Infra {
            reason: format!("{reason}, which is near the limit; raise timeout_seconds"),
        },
        false => Verdict::Fail { reason },
    }
}

/// What kept the candidate's run from being a proof.
fn unable(
    base: &Outcome,
    run: &Outcome,
    terms: &Terms<'_>,
    comparison: &BaseComparison,
) -> Option<String> {
    if run.is_success() {
        return None;
    }
    // Words that the base's run prints, too, are not the machine's.
    let exhausted =
        || infra::exhausted(&base.output).is_none().then(|| infra::exhausted(&run.output));
    let asker = if comparison.base_passed { Asker::Candidate } else { Asker::Base };
    missing_dependency(run, asker)
        .or_else(|| exhausted().flatten())
        .or_else(|| infra::killed(run.exit(), run.signal()))
        .or_else(|| infra::new_dependency(run, comparison, terms.dependencies))
}

/// Whether a failed run shows errors of test targets and nothing else.
fn only_soft(run: &Outcome, strict: bool) -> bool {
    !strict && run.exit().is_some() && run.reading.is_clean() && !run.reading.soft.is_empty()
}

/// What is new, gone and unchanged.
fn compare(base: &Outcome, run: &Outcome, strict: bool) -> BaseComparison {
    let (base_says, run_says) = (&base.reading, &run.reading);
    let errors = |of: &Outcome| -> Vec<Diagnostic> {
        of.reading.errors.iter().chain(hard(of, strict)).cloned().collect()
    };
    let (base_errors, run_errors) = (errors(base), errors(run));
    let (mut new_failures, same_errors) = beyond(&run_errors, &base_errors, error_key);
    if run.is_success() {
        // A tool that says that all is well may still speak of errors: in what it printed, say.
        new_failures.clear();
    }
    let (new_tests, same_tests) = beyond(&run_says.failed, &base_says.failed, test_key);
    let (mut fixed, _) = beyond(&base_errors, &run_errors, error_key);
    let (fixed_tests, _) = beyond(&base_says.failed, &run_says.failed, test_key);
    new_failures.extend(new_tests);
    fixed.extend(fixed_tests);
    BaseComparison {
        base_passed: base.is_success() || only_soft(base, strict),
        new_failures,
        fixed,
        contested: Vec::new(),
        unchanged: same_errors + same_tests,
        by_diagnostic: !run_errors.is_empty()
            || !base_errors.is_empty()
            || !run_says.is_clean()
            || !base_says.is_clean()
            || !base_says.passed.is_empty(),
    }
}

/// What of `these` is not among `those`, and how many are. Counted, so that a second equal error in
/// one file is a new one.
fn beyond<'a>(
    these: &'a [Diagnostic],
    those: &'a [Diagnostic],
    key: fn(&'a Diagnostic) -> Key<'a>,
) -> (Vec<Diagnostic>, u64) {
    let mut left: BTreeMap<Key<'_>, u32> = BTreeMap::new();
    for each in those {
        *left.entry(key(each)).or_default() += 1;
    }
    let mut shared = 0;
    let mut extra = Vec::new();
    for each in these {
        match left.get_mut(&key(each)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                shared += 1;
            }
            _ => extra.push(each.clone()),
        }
    }
    (extra, shared)
}

type Key<'a> = (&'a str, &'a str, &'a str);

/// Lines move with every edit above them.
fn error_key(each: &Diagnostic) -> Key<'_> {
    (&each.code, &each.path, &each.message)
}

/// A failed test is known by its name alone: its message holds values.
fn test_key(each: &Diagnostic) -> Key<'_> {
    (&each.code, "", "")
}

/// Tests that the base ran, whether they passed or failed, and the candidate's run does not show: their
/// names, or how many where the runner does not name what passes.
fn vanished(base: &Outcome, run: &Outcome) -> Vec<String> {
    let names = !base.reading.passed.is_empty() || !run.reading.passed.is_empty();
    let counts = base.reading.count.is_some() || run.reading.count.is_some();
    if !names && counts {
        return missing(base, run).into_iter().collect();
    }
    let shown: Vec<&str> = run.ran().map(stem).collect();
    // A runner that shows no test at all on the base can't be asked.
    let shown: std::collections::BTreeSet<&str> = shown.into_iter().collect();
    let mut gone: Vec<String> =
        base.ran().map(stem).filter(|name| !shown.contains(name)).map(str::to_owned).collect();
    gone.sort();
    gone.dedup();
    gone
}

fn missing(base: &Outcome, run: &Outcome) -> Option<String> {
    let named = u32::try_from(base.reading.failed.len()).unwrap_or(u32::MAX);
    let wanted = base.reading.count.unwrap_or(named);
    let counted = run.reading.count.unwrap_or(0);
    (counted < wanted).then(|| format!("the base runs {wanted}, this run counts {counted}"))
}

/// A parametrised test without its parameters, which may hold anything; a Go subtest's test.
pub(super) fn stem(name: &str) -> &str {
    let name = name.split('[').next().unwrap_or(name);
    match name.rfind('.') {
        // `example/pkg.TestA/case`: a slash behind the last dot begins a subtest's name.
        Some(dot) if !name.contains("::") => match name[dot..].find('/') {
            Some(slash) => &name[..dot + slash],
            None => name,
        },
        _ => name,
    }
}

/// A few failures in words.
fn told(what: &str, failures: &[&Diagnostic]) -> String {
    let first = failures.first().map(|each| each.text()).unwrap_or_default();
    match failures.len() {
        0 | 1 => format!("1 {what}: {first}"),
        more => format!("{more} {what}s, first {first}"),
    }
}

fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 3 { format!("{shown} and {} more", names.len() - 3) } else { shown }
}

#[cfg(test)]
mod tests;
