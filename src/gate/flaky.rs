//! Runs of one tree, weighed against each other: what failed in one and passed in another is flaky.
//!
//! A test that fails in every run stays failed, however often it ran.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use crate::model::{Diagnostic, FlakyTest};

/// The first run with what the later ones say. `known` are the tests that the base's own runs know as
/// flaky.
pub fn settle(first: &Outcome, later: &[Outcome], known: &[FlakyTest]) -> Outcome {
    let runs: Vec<&Outcome> = std::iter::once(first).chain(later).collect();
    let names: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| run.reading.failed.iter().map(|each| each.code.as_str()))
        .collect();
    let mut settled = first.clone();
    settled.flaky = names.iter().filter_map(|name| flaky(name, &runs, known)).collect();
    let is_flaky = |each: &Diagnostic| settled.flaky.iter().any(|test| test.name == each.code);
    let mut failed: Vec<Diagnostic> = Vec::new();
    for each in runs.iter().flat_map(|run| &run.reading.failed) {
        if !is_flaky(each) && !failed.iter().any(|other| other.code == each.code) {
            failed.push(each.clone());
        }
    }
    // An error that is not always there is a flaky test's: its package or file is called failed, too.
    let always = |each: &&Diagnostic| runs.iter().all(|run| run.reading.errors.contains(each));
    settled.reading.errors = first.reading.errors.iter().filter(always).cloned().collect();
    settled.reading.failed = failed;
    for run in later {
        for (name, count) in &run.reading.passed {
            settled.reading.passed.entry(name.clone()).or_insert(*count);
        }
    }
    settled.reading.count = runs.iter().filter_map(|run| run.reading.count).max();
    excuse(&mut settled, first, later, known);
    settled
}

/// Whether what is left is a success.
fn excuse(settled: &mut Outcome, first: &Outcome, later: &[Outcome], known: &[FlakyTest]) {
    if first.is_success() || first.exit().is_none() || !settled.reading.is_clean() {
        return;
    }
    let named = !first.reading.is_clean();
    let passes = later.iter().filter(|run| run.is_success()).count();
    if !named && passes > 0 {
        // A runner that names nothing is known by its exit status alone.
        let failed = 1 + later.len() - passes;
        settled.flaky.push(FlakyTest {
            name: String::new(),
            failed: u32::try_from(failed).unwrap_or(u32::MAX),
            passed: u32::try_from(passes).unwrap_or(u32::MAX),
            on_base: known.iter().any(|test| test.name.is_empty()),
        });
    }
    settled.excused = !settled.flaky.is_empty() && (named || passes > 0);
}

fn flaky(name: &str, runs: &[&Outcome], known: &[FlakyTest]) -> Option<FlakyTest> {
    let count = |is: &dyn Fn(&Outcome) -> bool| {
        u32::try_from(runs.iter().filter(|run| is(run)).count()).unwrap_or(u32::MAX)
    };
    let failed = count(&|run| run.fails(name));
    let passed = count(&|run| passes(run, name));
    (passed > 0).then(|| FlakyTest {
        name: name.to_owned(),
        failed,
        passed,
        on_base: known.iter().any(|test| test.name == name),
    })
}

/// Whether a run shows a test as passed. A quiet runner does so by succeeding, or by naming other
/// failures alone and counting its tests to the end.
fn passes(run: &Outcome, name: &str) -> bool {
    if run.fails(name) {
        return false;
    }
    let quiet = run.reading.passed.is_empty();
    run.reading.passed.contains_key(name)
        || (quiet && (run.is_success() || (run.reading.count.is_some() && !run.reading.is_clean())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gate::tool_of;
    use crate::model::{CommandSpec, Origin};
    use crate::sandbox::{JobExit, JobStatus};

    fn run(line: &str, status: i32, output: &str) -> Outcome {
        let command =
            CommandSpec { line: line.to_owned(), tool: tool_of(line), origin: Origin::Flag };
        let exit = JobExit {
            status: JobStatus::Exited(status),
            output: output.as_bytes().to_vec(),
            dropped: 0,
            elapsed: Duration::from_secs(1),
        };
        Outcome::of(&command, exit, "/w")
    }

    fn pytest(status: i32, summary: &str) -> Outcome {
        run("pytest", status, &format!("== short test summary info ==\n{summary}\n"))
    }

    #[test]
    fn what_passes_once_is_flaky_and_what_never_does_stays_failed() {
        let first = pytest(1, "PASSED t.py::a\nFAILED t.py::b - x\nFAILED t.py::c - y");
        let second = pytest(1, "PASSED t.py::a\nPASSED t.py::b\nFAILED t.py::c - y");
        let settled = settle(&first, std::slice::from_ref(&second), &[]);
        let told = FlakyTest { name: "t.py::b".into(), failed: 1, passed: 1, on_base: false };
        assert_eq!(settled.flaky, std::slice::from_ref(&told));
        assert!(!settled.is_success() && settled.fails("t.py::c") && !settled.fails("t.py::b"));
        assert!(settled.reading.passed.contains_key("t.py::b"));
        let third = pytest(1, "PASSED t.py::a\nFAILED t.py::b - x\nPASSED t.py::c");
        let settled = settle(&first, &[second, third], std::slice::from_ref(&told));
        assert!(settled.is_success());
        assert_eq!((settled.flaky[0].failed, settled.flaky[0].on_base), (2, true));
        let same = settle(&first, &[first.clone(), first.clone()], &[]);
        assert!(same.flaky.is_empty() && !same.is_success());
    }

    #[test]
    fn a_run_that_only_stops_early_does_not_let_a_failure_pass() {
        let first = pytest(1, "PASSED t.py::a\nFAILED t.py::b - x");
        let cut = pytest(0, "PASSED t.py::a");
        assert!(settle(&first, &[cut], &[]).fails("t.py::b"));
    }

    #[test]
    fn a_silent_command_is_flaky_as_a_whole() {
        let (bad, good) = (run("make test", 1, "x\n"), run("make test", 0, "x\n"));
        let settled = settle(&bad, &[bad.clone(), good], &[]);
        assert!(settled.is_success());
        assert_eq!((settled.flaky[0].failed, settled.flaky[0].passed), (2, 1));
        assert!(!settle(&bad, &[bad.clone()], &[]).is_success());
    }
}
