//! What a duel's test may be, and how its runs are read.

use std::time::Duration;

use super::*;
use crate::gate::memory::Memory;
use crate::model::{CandidateId, Clipped, Origin};
use crate::sandbox::JobExit;

fn command(line: &str) -> CommandSpec {
    CommandSpec { line: line.to_owned(), tool: tool_of(line), origin: Origin::Flag }
}

fn plan(test: &str) -> GatePlan {
    GatePlan {
        setup: None,
        setup_network: false,
        check: None,
        test: Some(command(test)),
        dir: String::new(),
        env: Vec::new(),
        timeout_seconds: 60,
        parallel: 1,
        memory_bytes: 1 << 30,
        disk_bytes: 1 << 30,
        flaky: 0,
        strict_tests: false,
        own_tests: true,
        protect: Vec::new(),
    }
}

const BASE: [(&str, &str); 3] =
    [("calc.py", "def add(a, b): ...\n"), ("tests/test_calc.py", "x\n"), ("tests/run.sh", "y\n")];

/// Asks for a test that adds these files to the base.
fn asked(
    added: &[(&str, &str)],
    candidate: &[(&str, &str)],
    line: &str,
) -> Result<DuelTest, String> {
    let store = Memory::default();
    let base = store.of(&BASE);
    let with: Vec<(&str, &str)> = BASE.iter().chain(added).copied().collect();
    let tree = store.of(&with);
    let other: Vec<(&str, &str)> = BASE.iter().chain(candidate).copied().collect();
    let candidates = [store.of(&other)];
    let file = |(path, _): &(&str, &str)| FileChange {
        path: (*path).to_owned(),
        change: match BASE.iter().any(|(known, _)| known == path) {
            true => ChangeKind::Modified,
            false => ChangeKind::Added,
        },
        added: 1,
        removed: 0,
    };
    let files: Vec<FileChange> = added.iter().map(file).collect();
    let gates = plan("pytest");
    duel_test(&store, (&base, &tree), &files, &candidates, (&gates, &command(line))).unwrap()
}

const TEST: (&str, &str) = ("tests/test_duel.py", "def test_it(): assert True\n");

#[test]
fn a_new_test_file_is_run_by_the_operators_command_alone() {
    let whole = asked(&[TEST], &[], "pytest").unwrap();
    assert_eq!((whole.command.line.as_str(), whole.alone), ("pytest", false));
    let alone = asked(&[TEST], &[], "python3 -m pytest -q {path}").unwrap();
    assert_eq!(alone.command.line, "python3 -m pytest -q tests/test_duel.py");
    assert_eq!((alone.alone, alone.files), (true, vec!["tests/test_duel.py".to_owned()]));
    assert!(
        asked(&[("tests/duel.sh", "exit 0\n")], &[], "sh {path}").is_ok(),
        "tests of any language"
    );
}

#[test]
fn what_is_more_than_a_new_test_is_refused() {
    for (added, candidate, word) in [
        (&[][..], &[][..], "something else"),
        (&[("tests/test_calc.py", "z\n")], &[], "something else than adding"),
        (&[("tests/conftest.py", "z\n")], &[], "defines a gate"),
        (&[("pytest.ini", "z\n")], &[], "defines a gate"),
        (&[("calc2.py", "z\n")], &[], "no tests are kept"),
        (&[("sitecustomize.py", "z\n")], &[], "defines a gate"),
        (&[("tests/a b.py", "z\n")], &[], "letters"),
        (&[("tests/$(id).py", "z\n")], &[], "letters"),
        (&[("tests/-x.py", "z\n")], &[], "letters"),
        (&[("tests/.hidden.py", "z\n")], &[], "letters"),
        (&[TEST, ("Makefile", "z\n")], &[], "defines a gate"),
        (&[TEST], &[TEST], "a candidate has a file"),
        (&[("tests/sub/test_x.py", "z\n")], &[("tests/sub", "file\n")], "a candidate has a file"),
    ] {
        let refused = asked(added, candidate, "pytest").unwrap_err();
        assert!(refused.contains(word), "{added:?}: {refused}");
    }
    let many: Vec<(String, &str)> = (0..5).map(|n| (format!("tests/test_{n}.py"), "z\n")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert!(asked(&many, &[], "pytest").unwrap_err().contains("more than 4"));
    let large = "#".repeat(MOST_BYTES + 1);
    assert!(asked(&[("tests/test_l.py", &large)], &[], "pytest").unwrap_err().contains("64 KiB"));
}

fn run(line: &str, status: i32, output: &str) -> Outcome {
    let exit = JobExit {
        status: JobStatus::Exited(status),
        output: output.as_bytes().to_vec(),
        dropped: 0,
        elapsed: Duration::from_secs(1),
    };
    Outcome::of(&command(line), exit, "/w")
}

fn pytest(status: i32, summary: &str) -> Outcome {
    run("pytest", status, &format!("== short test summary info ==\n{summary}\n"))
}

#[test]
fn among_all_tests_only_the_new_ones_speak() {
    use TestEnd::{Failed, Passed};
    let before = pytest(1, "PASSED t.py::a\nFAILED t.py::old - x");
    let end_of = |run: &Outcome| end(run, Some(&before), false, false);
    assert_eq!(end_of(&pytest(0, "PASSED t.py::a\nPASSED d.py::new")), Ok(Passed));
    let old = pytest(1, "PASSED t.py::a\nFAILED t.py::old - x\nPASSED d.py::new");
    assert_eq!(end_of(&old), Ok(Passed), "what failed before says nothing");
    assert_eq!(end_of(&pytest(1, "PASSED t.py::a\nFAILED d.py::new - x")), Ok(Failed));
    assert!(end_of(&pytest(0, "PASSED t.py::a")).unwrap_err().contains("did not run it"));
    // The base's own failure is not the test's.
    assert!(end_of(&pytest(1, "PASSED t.py::a\nFAILED t.py::old - x")).is_err());
}

#[test]
fn a_test_that_can_not_be_loaded_is_void_on_a_candidate_and_a_failure_on_the_base() {
    let broken = [
        run("python3 d.py", 1, "  File \"d.py\", line 1\nSyntaxError: invalid syntax\n"),
        run("python3 d.py", 1, "ModuleNotFoundError: No module named 'x'\n"),
        run("sh d.sh", 2, "d.sh: 3: Syntax error: \"fi\" unexpected\n"),
        run("python3 -m unittest d.py", 1, "ERROR: d (unittest.loader._FailedTest.d)\n"),
        run("pytest d.py", 5, "collected 0 items\nno tests ran in 0.01s\n"),
        pytest(2, "ERROR d.py - ImportError: cannot import name 'x'"),
    ];
    for run in broken {
        assert!(end(&run, None, true, false).is_err(), "{}", run.output);
        assert_eq!(end(&run, None, true, true), Ok(TestEnd::Failed), "{}", run.output);
    }
}

#[test]
fn what_could_not_run_is_void_everywhere() {
    let missing = run("pytest", 127, "sh: 1: pytest: not found\n");
    let mut late = run("sh d.sh", 0, "");
    late.status = JobStatus::TimedOut;
    for run in [missing, late] {
        assert!(end(&run, None, true, true).is_err(), "{}", run.output);
    }
    // Of a command that names nothing its exit status speaks: of this test alone, or where all is well
    // without it.
    let (good, bad) = (run("sh d.sh", 0, ""), run("sh d.sh", 1, "wrong\n"));
    assert_eq!(end(&good, None, true, false), Ok(TestEnd::Passed));
    assert_eq!(end(&bad, None, true, false), Ok(TestEnd::Failed));
    assert_eq!(end(&bad, Some(&good), false, false), Ok(TestEnd::Failed));
    assert!(end(&bad, Some(&bad), false, false).unwrap_err().contains("fails without it"));
}

fn runs(ends: [&[TestEnd]; 3]) -> Vec<DuelRun> {
    let whose = [None, Some("c1"), Some("c2")];
    let run = |(candidate, ends): (Option<&str>, &[TestEnd])| DuelRun {
        candidate: candidate.map(CandidateId::new),
        ends: ends.to_vec(),
        why: None,
        output: Clipped::default(),
        millis: 0,
    };
    whose.into_iter().zip(ends).map(run).collect()
}

#[test]
fn a_duel_counts_only_when_it_is_valid() {
    use TestEnd::{Failed, NotRun, Passed};
    let pair = ["c1", "c2"].map(CandidateId::new);
    let of = |ends| result(&pair, &runs(ends), |_| &[]);
    let (p, f) = (&[Passed, Passed][..], &[Failed, Failed][..]);
    let told = |passes: usize, fails: usize| DuelResult::Told {
        passes: pair[passes].clone(),
        fails: pair[fails].clone(),
    };
    assert_eq!(of([f, p, f]), told(0, 1));
    assert_eq!(of([f, f, p]), told(1, 0));
    assert_eq!(of([p, p, f]), told(0, 1), "a promise of the base that one breaks");
    assert_eq!(of([f, p, p]), DuelResult::Alike { pass: true });
    assert_eq!(of([p, f, f]), DuelResult::Alike { pass: false });
    let void = |ends, word: &str| match of(ends) {
        DuelResult::Void { reason } => assert!(reason.contains(word), "{reason}"),
        other => panic!("{other:?}"),
    };
    void([p, p, p], "passes everywhere");
    void([f, f, f], "fails everywhere");
    void([f, p, &[Passed, Failed]], "differs from run to run on c2");
    void([&[Failed, Passed], p, f], "differs from run to run on the base");
    void([f, p, &[NotRun]], "c2");
    let mut broken = runs([f, p, &[NotRun]]);
    broken[2].why = Some("no tool".to_owned());
    let DuelResult::Void { reason } = result(&pair, &broken, |_| &[]) else { panic!() };
    assert_eq!(reason, "on c2: no tool");
}

#[test]
fn a_tell_for_a_candidate_that_may_have_tricked_the_test_does_not_count() {
    use TestEnd::{Failed, Passed};
    let pair = ["c1", "c2"].map(CandidateId::new);
    let (p, f) = (&[Passed, Passed][..], &[Failed, Failed][..]);
    let flag = |code: &str| [Flag { code: code.to_owned(), path: None, detail: String::new() }];
    for code in ["detects-tests", "ends-the-process", "fits-tests", "imitates-a-runner"] {
        let on_first = flag(code);
        let flags = |id: &CandidateId| if *id == pair[0] { &on_first[..] } else { &[] };
        let DuelResult::Void { reason } = result(&pair, &runs([f, p, f]), flags) else {
            panic!("{code}")
        };
        assert!(reason.contains("c1") && reason.contains(code), "{reason}");
        // Against it the same flag says nothing.
        let told = DuelResult::Told { passes: pair[1].clone(), fails: pair[0].clone() };
        assert_eq!(result(&pair, &runs([f, f, p]), flags), told);
        let alike = DuelResult::Alike { pass: true };
        assert_eq!(result(&pair, &runs([f, p, p]), flags), alike);
    }
    // Flags that make no test pass are for other readers.
    let other = flag("suppresses-checks");
    let told = DuelResult::Told { passes: pair[0].clone(), fails: pair[1].clone() };
    assert_eq!(result(&pair, &runs([f, p, f]), |_| &other), told);
}

#[test]
fn a_test_of_go_that_fails_is_told_from_one_that_is_not_built() {
    let go = |status, output: &str| run("go test ./...", status, output);
    let good = go(0, "ok  \texample.com/c\t0.002s\n");
    let failed = go(
        1,
        "--- FAIL: TestLow (0.00s)\n    duel_test.go:7: got -5\nFAIL\nFAIL\texample.com/c\t0.002s\nFAIL\n",
    );
    let broken = go(
        1,
        "# example.com/c\n./duel_test.go:6:5: undefined: Clamp\nFAIL\texample.com/c [build failed]\nFAIL\n",
    );
    for alone in [false, true] {
        let end_of = |run: &Outcome, base| end(run, Some(&good), alone, base);
        assert_eq!(end_of(&good, false), Ok(TestEnd::Passed));
        assert_eq!(end_of(&failed, false), Ok(TestEnd::Failed));
        assert!(end_of(&broken, false).unwrap_err().contains("does not compile"));
        assert_eq!(end_of(&broken, true), Ok(TestEnd::Failed));
    }
}

#[test]
fn a_command_of_its_own_need_not_name_tests_where_the_test_command_does() {
    let before = pytest(0, "PASSED t.py::a");
    let alone = |run: &Outcome| end(run, Some(&before), true, false);
    let quiet = "python3 -m pytest -q d.py";
    assert_eq!(alone(&run(quiet, 0, ".\n1 passed in 0.01s\n")), Ok(TestEnd::Passed));
    let summary = "F\n=== short test summary info ===\nFAILED d.py::test_low - assert -5 == 0\n1 failed in 0.02s\n";
    assert_eq!(alone(&run(quiet, 1, summary)), Ok(TestEnd::Failed));
    for line in ["python3 d.py", "sh d.sh"] {
        assert_eq!(alone(&run(line, 0, "")), Ok(TestEnd::Passed));
        assert_eq!(alone(&run(line, 1, "AssertionError\n")), Ok(TestEnd::Failed));
    }
    // A runner that found nothing to run has shown nothing.
    let none = run("python3 -m unittest d.py", 0, "\nRan 0 tests in 0.000s\n\nOK\n");
    assert!(alone(&none).unwrap_err().contains("did not run it"));
}

#[test]
fn a_test_that_ends_its_runner_says_nothing_of_the_machine() {
    let mut killed = run("python3 d.py", 0, "");
    killed.status = JobStatus::Signalled(9);
    for run in [killed, run("sh d.sh", 137, "")] {
        let why = end(&run, None, true, true).unwrap_err();
        assert!(why.starts_with("the test's process was killed: by the test"), "{why}");
        assert!(!why.contains("most likely"), "{why}");
    }
}
