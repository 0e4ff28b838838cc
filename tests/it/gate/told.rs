//! Contested, flaky and own tests, with real runs of cargo and of a shell.

use std::fs;

use bakeoff::journal::{Masker, Runs};
use bakeoff::model::{GateKind, TestEnd};

use super::{CHECK, IT, LIB, Stage, TEST, gate, plan, reason, verdicts};

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_test_is_contested_and_its_neighbour_is_not() {
    let two = format!("{IT}\n#[test]\nfn keeps() {{\n    assert_eq!(fixture::add(1, 1), 2);\n}}\n");
    let stage = Stage::of(&[("tests/it.rs", &two)], CHECK, TEST, 300).await;
    let base = stage.base().await;
    // The meaning of one function and its test change together.
    let lib = LIB.replace("a * b", "a * b + 1");
    let test = two.replace("6);", "7);");
    let changed = stage.gate(&base, 0, &[("src/lib.rs", &lib), ("tests/it.rs", &test)]).await;
    assert_eq!(verdicts(&changed), "PPC", "{changed:#?}");
    let told = gate(&changed, GateKind::Test);
    let contested = &told.base.as_ref().unwrap().contested;
    assert_eq!(contested[0].code, "tests/it.rs::multiplies");
    let own = told.own.as_ref().unwrap();
    assert_eq!((own.evidence, own.failing, own.tests.len()), (1, 0, 1), "{own:?}");
    // A regression in a test that stands beside the changed one stays a failure.
    let lib = lib.replace("a + b", "a - b");
    let worse = stage.gate(&base, 1, &[("src/lib.rs", &lib), ("tests/it.rs", &test)]).await;
    assert_eq!(verdicts(&worse), "PPF");
    assert!(reason(gate(&worse, GateKind::Test)).contains("new failure"));
    // The base's test does not compile against a changed signature: the run with the candidate's stands
    // in for the others.
    let lib = LIB.replace("pub fn mul(a: i64, b: i64)", "pub fn mul(a: i64, b: i64, _c: u8)");
    let test = two.replace("mul(2, 3)", "mul(2, 3, 0)");
    let signature = stage.gate(&base, 2, &[("src/lib.rs", &lib), ("tests/it.rs", &test)]).await;
    assert_eq!(verdicts(&signature), "PPC", "{signature:#?}");
    let broken = lib.replace("a + b", "a - b");
    let hidden = stage.gate(&base, 3, &[("src/lib.rs", &broken), ("tests/it.rs", &test)]).await;
    assert_eq!(verdicts(&hidden), "PPF", "{hidden:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_tests_run_apart_and_have_to_fail_on_the_base() {
    let bug = LIB.replace("a + b", "a - b").replace("#[cfg(test)]", "#[cfg(all(test, unix))]");
    let bug = bug.replace("add(1, 2), 3", "add(0, 0), 0");
    let stage = Stage::of(&[("src/lib.rs", &bug)], CHECK, TEST, 300).await;
    let base = stage.base().await;
    let inline = "    #[test]\n    fn sums() {\n        assert_eq!(super::add(2, 2), 4);\n    }\n";
    let mended = bug.replace("a - b", "a + b");
    let mended = format!("{}{inline}}}\n", mended.trim_end().strip_suffix('}').unwrap());
    let more = "#[test]\nfn sums() {\n    assert_eq!(fixture::add(1, 2), 3);\n}\n\n#[test]\nfn idle() {}\n\n\
                #[test]\nfn wrong() {\n    assert_eq!(fixture::add(1, 2), 4);\n}\n";
    let right = stage.gate(&base, 0, &[("src/lib.rs", &mended), ("tests/more.rs", more)]).await;
    // Its own failing test fails nobody, and is told.
    assert_eq!(verdicts(&right), "PPP", "{right:#?}");
    let own = gate(&right, GateKind::Test).own.as_ref().unwrap();
    let ends: Vec<(&str, TestEnd, Option<TestEnd>)> =
        own.tests.iter().map(|test| (test.name.as_str(), test.here, test.on_base)).collect();
    let (passed, failed) = (TestEnd::Passed, TestEnd::Failed);
    assert_eq!(
        ends,
        [
            ("src/lib.rs::tests::sums", passed, Some(failed)),
            ("tests/more.rs::idle", passed, Some(passed)),
            ("tests/more.rs::sums", passed, Some(failed)),
            ("tests/more.rs::wrong", failed, Some(failed)),
        ]
    );
    assert_eq!((own.evidence, own.failing), (2, 1));
    // New tests that end the process, or change what others see, don't touch the base's.
    let kills = "#[test]\nfn ends() {\n    std::process::exit(0);\n}\n";
    let hostile = stage.gate(&base, 1, &[("src/lib.rs", &mended), ("tests/more.rs", kills)]).await;
    assert_eq!(verdicts(&hostile), "PPP");
    let tests = stage.gate(&base, 2, &[("tests/more.rs", more)]).await;
    assert_eq!(verdicts(&tests), "PPP");
    assert_eq!(gate(&tests, GateKind::Test).own.as_ref().unwrap().evidence, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_file_keeps_the_bases_tests() {
    let module = "pub fn neg(a: i64) -> i64 {\n    -a\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
                  fn negates() {\n        assert_eq!(super::neg(2), -2);\n        assert_eq!(super::neg(0), 0);\n    }\n}\n";
    let lib = format!("pub mod sign;\n\n{LIB}");
    let edits = [("src/lib.rs", lib.as_str()), ("src/sign.rs", module)];
    let stage = Stage::of(&edits, CHECK, TEST, 300).await;
    let base = stage.base().await;
    let moved = lib.replace("pub mod sign;", "pub mod signs;");
    let honest = [("src/lib.rs", moved.as_str()), ("src/sign.rs", ""), ("src/signs.rs", module)];
    assert_eq!(verdicts(&stage.gate(&base, 0, &honest).await), "PPP");
    let weak =
        module.replace("    -a\n", "    a\n").replace("super::neg(2), -2", "super::neg(2), 2");
    let hack =
        [("src/lib.rs", moved.as_str()), ("src/sign.rs", ""), ("src/signs.rs", weak.as_str())];
    assert_ne!(verdicts(&stage.gate(&base, 1, &hack).await), "PPP");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tests_are_run_again_and_told_as_flaky() {
    // Every other run of an unlucky candidate fails; the sandbox keeps nothing between runs, so that
    // chance has to come from outside: the run's own directory is new each time.
    let test = "echo == short test summary info ==; \
                if test -e bad.txt || { test -e odd.txt && test $(( $(date +%s%N) / 1000 % 2 )) = 1; }; \
                then echo 'FAILED t.py::a - x'; exit 1; else echo 'PASSED t.py::a'; fi #pytest";
    let mut plan = plan("true", test, 60);
    plan.test.as_mut().unwrap().tool = bakeoff::model::CheckTool::Pytest;
    plan.flaky = 20;
    let stage = Stage::with(&[], plan).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "PP");
    // A deterministic failure stays one however often it is run.
    let bad = stage.gate(&base, 0, &[("bad.txt", "x\n")]).await;
    assert_eq!(verdicts(&bad), "PPF");
    assert!(gate(&bad, GateKind::Test).flaky.is_empty());
    let odd = stage.gate(&base, 1, &[("odd.txt", "x\n")]).await;
    assert_eq!(verdicts(&odd), "PPP", "{odd:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gate_printed_is_kept_whole() {
    let stage = Stage::of(&[], "seq 1 20000", "", 60).await;
    let runs = Runs::new(&stage.dir.path().join("state"));
    let dir = runs.create(Masker::default()).unwrap();
    let keeper = super::keeper(&stage.store, plan("seq 1 20000", "", 60)).await;
    let stage = Stage { keeper: keeper.keeping(dir.artifacts().clone()), ..stage };
    let base = stage.base().await;
    let report = &base.reports[0];
    assert!(report.output.dropped_bytes > 0);
    let whole = dir.artifacts().get(report.artifact.as_ref().unwrap()).unwrap();
    assert_eq!(whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 20_000);
    assert!(fs::metadata(dir.path()).is_ok());
}
