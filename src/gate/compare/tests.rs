//! The rules of the comparison, one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{base_verdict as base_verdict_of, candidate_verdict as verdict_of, *};
use crate::gate::tool_of;
use crate::model::{CommandSpec, Origin};
use crate::sandbox::JobExit;

fn run(line: &str, status: JobStatus, output: &str) -> Outcome {
    let command = CommandSpec { line: line.to_owned(), tool: tool_of(line), origin: Origin::Flag };
    let exit = JobExit {
        status,
        output: output.as_bytes().to_vec(),
        dropped: 0,
        elapsed: Duration::from_secs(1),
    };
    Outcome::of(&command, exit, "/w")
}

fn tsc(status: i32, output: &str) -> Outcome {
    run("tsc --noEmit", JobStatus::Exited(status), output)
}

fn pytest(status: i32, summary: &str) -> Outcome {
    let output = format!("== short test summary info ==\n{summary}\n");
    run("pytest", JobStatus::Exited(status), &output)
}

fn other(status: i32) -> Outcome {
    run("make test", JobStatus::Exited(status), "something\n")
}

fn candidate_verdict(base: &Outcome, run: &Outcome) -> (Verdict, BaseComparison) {
    let tests = Tests::default();
    verdict_of(base, run, &terms(&tests, &BTreeSet::new()))
}

fn base_verdict(run: &Outcome) -> Verdict {
    base_verdict_of(run, false)
}

fn terms<'a>(tests: &'a Tests, dependencies: &'a BTreeSet<String>) -> Terms<'a> {
    Terms { strict: false, limit: Duration::from_secs(60), tests, dependencies, own: None }
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail { .. } => "fail",
        Verdict::Contested { .. } => "contested",
        Verdict::Infra { .. } => "infra",
        Verdict::Skipped { .. } => "skipped",
    }
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Pass => "",
        Verdict::Fail { reason }
        | Verdict::Contested { reason }
        | Verdict::Infra { reason }
        | Verdict::Skipped { reason } => reason,
    }
}

#[test]
fn a_new_error_fails_and_an_old_one_that_moved_does_not() {
    let base = tsc(2, "a.ts(3,1): error TS1: old\n");
    let moved = tsc(2, "a.ts(9,1): error TS1: old\n");
    let (verdict, told) = candidate_verdict(&base, &moved);
    assert_eq!((kind(&verdict), told.unchanged, told.by_diagnostic), ("pass", 1, true));
    assert!(!told.base_passed && told.new_failures.is_empty());

    let twice = tsc(2, "a.ts(9,1): error TS1: old\na.ts(12,1): error TS1: old\n");
    let (verdict, told) = candidate_verdict(&base, &twice);
    assert_eq!((kind(&verdict), told.new_failures.len(), told.unchanged), ("fail", 1, 1));

    let (verdict, told) = candidate_verdict(&base, &tsc(0, ""));
    assert_eq!((kind(&verdict), told.fixed.len()), ("pass", 1));

    let (verdict, _) = candidate_verdict(&tsc(0, ""), &tsc(2, "b.ts(1,2): error TS9: new\n"));
    assert_eq!(reason(&verdict), "1 new failure: b.ts:1: TS9: new");
}

#[test]
fn tests_are_compared_by_name() {
    let base = pytest(1, "PASSED t.py::a\nFAILED t.py::b - assert 1 == 2");
    let same = pytest(1, "PASSED t.py::a\nFAILED t.py::b - assert 5 == 2");
    let (verdict, told) = candidate_verdict(&base, &same);
    assert_eq!((kind(&verdict), told.unchanged), ("pass", 1));
    let broke = pytest(1, "PASSED t.py::b\nFAILED t.py::a - assert 1 == 2");
    let (verdict, told) = candidate_verdict(&base, &broke);
    assert_eq!((kind(&verdict), told.fixed.len()), ("fail", 1));
    assert!(reason(&verdict).contains("t.py::a"));
    let mended = pytest(0, "PASSED t.py::a\nPASSED t.py::b");
    assert_eq!(kind(&candidate_verdict(&base, &mended).0), "pass");
}

#[test]
fn a_test_of_the_base_that_does_not_run_is_a_failure_even_with_exit_0() {
    let base = pytest(0, "PASSED t.py::a\nPASSED t.py::p[1-2]");
    let (verdict, _) = candidate_verdict(&base, &run("pytest", JobStatus::Exited(0), ""));
    assert_eq!(reason(&verdict), "tests of the base did not run: t.py::a, t.py::p");
    // Parameters may change; the test is still there.
    let (verdict, _) = candidate_verdict(&base, &pytest(0, "PASSED t.py::a\nPASSED t.py::p[3]"));
    assert_eq!(kind(&verdict), "pass");
    // A failing test that is gone is not mended.
    let failing = pytest(1, "FAILED t.py::a - assert False");
    assert_eq!(kind(&candidate_verdict(&failing, &pytest(0, "")).0), "fail");
    // Output that was not kept whole can't show every test.
    let mut long = run("pytest", JobStatus::Exited(0), "");
    long.dropped = 10;
    assert_eq!(kind(&candidate_verdict(&base, &long).0), "infra");
}

#[test]
fn a_runner_that_names_only_failures_is_asked_for_its_count() {
    let quiet = |status, text: &str| run("python3 -m pytest -q", JobStatus::Exited(status), text);
    let failing =
        "F.\n== short test summary info ==\nFAILED t.py::a - no\n1 failed, 1 passed in 0.1s\n";
    let base = quiet(1, failing);
    let (verdict, told) = candidate_verdict(&base, &quiet(0, "..\n2 passed in 0.1s\n"));
    assert_eq!((kind(&verdict), told.fixed.len()), ("pass", 1));
    let (verdict, _) = candidate_verdict(&base, &quiet(0, ".\n1 passed in 0.1s\n"));
    assert_eq!(
        reason(&verdict),
        "tests of the base did not run: the base runs 2, this run counts 1"
    );
    assert_eq!(kind(&candidate_verdict(&base, &quiet(0, "")).0), "fail");
    // The same failure stands, nothing is gone.
    assert_eq!(kind(&candidate_verdict(&base, &quiet(1, failing)).0), "pass");
    // Runners that no reader knows by name are counted too; a run that stops early ends with 0.
    let npm = |text: &str| run("npm test --silent", JobStatus::Exited(0), text);
    assert_eq!(kind(&candidate_verdict(&npm("# pass 2\n# fail 0\n"), &npm("")).0), "fail");
    assert_eq!(kind(&candidate_verdict(&npm("# pass 2\n"), &npm("# pass 3\n")).0), "pass");
    let cargo = |status, text: &str| run("cargo test -q", JobStatus::Exited(status), text);
    let before = cargo(101, "test result: FAILED. 1 passed; 1 failed; 0 ignored\n");
    let after = cargo(0, "test result: ok. 2 passed; 0 failed; 0 ignored\n");
    assert_eq!(kind(&candidate_verdict(&before, &after).0), "pass");
    assert_eq!(kind(&candidate_verdict(&before, &cargo(0, "")).0), "fail");
}

#[test]
fn where_only_exit_statuses_speak_a_failing_base_proves_nothing() {
    let (verdict, told) = candidate_verdict(&other(0), &other(1));
    assert_eq!((kind(&verdict), told.by_diagnostic), ("fail", false));
    let (verdict, _) = candidate_verdict(&other(1), &other(1));
    assert_eq!(kind(&verdict), "infra");
    assert!(reason(&verdict).contains("proves nothing"), "{}", reason(&verdict));
    assert_eq!(kind(&candidate_verdict(&other(1), &other(0)).0), "pass");
    // Errors that are gone without a success: something else broke.
    let base = tsc(2, "a.ts(3,1): error TS1: old\n");
    assert_eq!(kind(&candidate_verdict(&base, &tsc(1, "Segmentation fault\n")).0), "infra");
}

#[test]
fn a_timeout_that_the_base_did_not_have_fails() {
    let slow = run("make test", JobStatus::TimedOut, "");
    let (verdict, _) = candidate_verdict(&other(0), &slow);
    assert_eq!(reason(&verdict), "timed out after 1 s; the base took 1.0 s");
    assert_eq!(kind(&base_verdict(&slow)), "infra");
}

#[test]
fn what_could_not_run_is_nobodys_failure() {
    let missing = run("mypy .", JobStatus::Exited(127), "sh: 1: mypy: not found\n");
    assert_eq!(kind(&base_verdict(&missing)), "infra");
    // The tool was there for the base: the candidate broke the command.
    let base = run("mypy .", JobStatus::Exited(0), "");
    assert_eq!(kind(&candidate_verdict(&base, &missing).0), "fail");

    let offline =
        "error: no matching package named `zz` found\nyou're using offline mode (--offline)\n";
    let fine = run("cargo check", JobStatus::Exited(0), "");
    let offline = run("cargo check", JobStatus::Exited(101), offline);
    let (verdict, _) = candidate_verdict(&fine, &offline);
    assert_eq!(kind(&verdict), "infra");
    assert!(reason(&verdict).contains("cargo fetch"));

    let killed = run("make test", JobStatus::Signalled(9), "");
    assert_eq!(kind(&candidate_verdict(&other(0), &killed).0), "infra");
    let crashed = run("make test", JobStatus::Signalled(11), "");
    assert_eq!(kind(&candidate_verdict(&other(0), &crashed).0), "fail");
}

#[test]
fn errors_in_test_targets_alone_fail_nobody() {
    let soft = include_str!("../../../tests/fixtures/gate/cargocheck_soft.txt");
    let hard = include_str!("../../../tests/fixtures/gate/cargocheck_hard.txt");
    let check = |status, output| run("cargo check", JobStatus::Exited(status), output);
    let fine = check(0, "");
    assert_eq!(kind(&candidate_verdict(&fine, &check(101, soft)).0), "pass");
    assert_eq!(kind(&candidate_verdict(&fine, &check(101, hard)).0), "fail");
    assert_eq!(kind(&candidate_verdict(&check(101, soft), &check(101, hard)).0), "fail");
    assert_eq!(kind(&base_verdict(&check(101, soft))), "pass");
    assert_eq!(kind(&base_verdict(&check(101, hard))), "fail");
}

#[test]
fn a_failed_test_counts_whatever_the_exit_status() {
    let base = pytest(0, "PASSED t.py::a");
    let (verdict, _) = candidate_verdict(&base, &pytest(0, "FAILED t.py::a - no"));
    assert_eq!(reason(&verdict), "1 new failure: t.py::a: no");
    // A compiler that says that all is well may print what looks like an error.
    let fine = tsc(0, "a.ts(3,1): error TS1: only printed\n");
    assert_eq!(kind(&candidate_verdict(&tsc(0, ""), &fine).0), "pass");
}

#[test]
fn a_timeout_where_the_base_was_nearly_as_slow_is_the_machines() {
    let slow = run("make test", JobStatus::TimedOut, "");
    let mut base = other(0);
    base.elapsed = Duration::from_secs(40);
    assert_eq!(kind(&candidate_verdict(&base, &slow).0), "infra");
}

#[test]
fn a_strict_plan_counts_errors_in_test_targets() {
    let soft = include_str!("../../../tests/fixtures/gate/cargocheck_soft.txt");
    let check = |status, output| run("cargo check", JobStatus::Exited(status), output);
    let (tests, none) = (Tests::default(), BTreeSet::new());
    let strict = Terms { strict: true, ..terms(&tests, &none) };
    let told = verdict_of(&check(0, ""), &check(101, soft), &strict);
    assert_eq!((kind(&told.0), told.1.new_failures.len()), ("fail", 2));
    assert_eq!(kind(&base_verdict_of(&check(101, soft), true)), "fail");
    assert_eq!(kind(&verdict_of(&check(101, soft), &check(101, soft), &strict).0), "pass");
}

#[test]
fn a_package_that_only_the_candidate_asks_for_is_nobodys_failure() {
    let tests = Tests::default();
    let wants: BTreeSet<String> = ["left-pad".to_owned(), "foo-bar".to_owned()].into();
    let terms = terms(&tests, &wants);
    let missing = tsc(
        2,
        "a.ts(1,1): error TS2307: Cannot find module 'left-pad/x' or its corresponding type declarations.\n",
    );
    let (verdict, _) = verdict_of(&tsc(0, ""), &missing, &terms);
    assert!(kind(&verdict) == "infra" && reason(&verdict).contains("left-pad/x"), "{verdict:?}");
    let base = pytest(0, "PASSED t.py::a");
    let broken = run(
        "pytest",
        JobStatus::Exited(2),
        "E   ModuleNotFoundError: No module named 'foo_bar'\n== short test summary info ==\nERROR t.py\n",
    );
    assert_eq!(kind(&verdict_of(&base, &broken, &terms).0), "infra");
    // One that nobody asked for in a manifest is the candidate's mistake.
    let wrong = tsc(2, "a.ts(1,1): error TS2307: Cannot find module './gone'.\n");
    assert_eq!(kind(&verdict_of(&tsc(0, ""), &wrong, &terms).0), "fail");
}

#[test]
fn tests_that_the_candidate_changed_are_contested() {
    let file = "def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert f() == 1\n";
    let changed = crate::gate::protect::ChangedTest {
        path: "t.py".to_owned(),
        base: Some(file.to_owned()),
        now: Some(file.replacen("== 1", "== 2", 1)),
    };
    let tests = Tests { changed: vec![changed], ..Tests::default() };
    let none = BTreeSet::new();
    let terms = terms(&tests, &none);
    let base = pytest(0, "PASSED t.py::test_a\nPASSED t.py::test_b");
    let one = pytest(1, "FAILED t.py::test_a - no\nPASSED t.py::test_b");
    let (verdict, told) = verdict_of(&base, &one, &terms);
    assert_eq!(
        (kind(&verdict), told.contested.len(), told.new_failures.len()),
        ("contested", 1, 0)
    );
    let both = pytest(1, "FAILED t.py::test_a - no\nFAILED t.py::test_b - no");
    assert_eq!(kind(&verdict_of(&base, &both, &terms).0), "fail");
    // Its own version of the file lets the other one pass: a helper changed.
    let own = pytest(0, "PASSED t.py::test_a\nPASSED t.py::test_b");
    let helped = Terms { own: Some(&own), ..terms };
    assert_eq!(kind(&verdict_of(&base, &both, &helped).0), "contested");
}

#[test]
fn a_job_that_filled_the_disk_is_told_as_such() {
    let fine = run("make test", JobStatus::Exited(0), "");
    let own = JobStatus::DiskLimit { held: 40 << 30, left: None };
    let full = JobStatus::DiskLimit { held: 1 << 30, left: Some(200 << 20) };
    for (status, want, not) in [
        (own.clone(), "raise disk_mb", "make room"),
        (full.clone(), "only 200 MiB of the disk", "disk_mb"),
    ] {
        let verdict = base_verdict(&run("make test", status, ""));
        let Verdict::Infra { reason } = &verdict else { panic!("{verdict:?}") };
        assert!(reason.contains(want) && !reason.contains(not), "{reason}");
    }
    let (verdict, _) = candidate_verdict(&fine, &run("make test", own, ""));
    assert!(
        matches!(&verdict, Verdict::Fail { reason } if reason.contains("40960 MiB")),
        "{verdict:?}"
    );
    let (verdict, _) = candidate_verdict(&fine, &run("make test", full, ""));
    assert!(
        matches!(&verdict, Verdict::Infra { reason } if reason.contains("only 200 MiB of the disk were free")),
        "{verdict:?}"
    );
}
