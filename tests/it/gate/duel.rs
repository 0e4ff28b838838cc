//! A duel's test by a real test runner that names its tests: found by the command for all tests.

use bakeoff::gate::{DuelTest, duel_result, duel_test};
use bakeoff::model::{
    CandidateId, ChangeKind, DuelResult, DuelRun, EventSink, FileChange, TestEnd,
};
use tokio_util::sync::CancellationToken;

use super::{LIB, Stage, TEST, command};

/// A test in a new file, on candidates that pass all tests of the base.
async fn duel(stage: &Stage, text: &str, candidates: &[String; 2]) -> (DuelTest, Vec<DuelRun>) {
    let base = stage.base().await;
    let tree = stage.tree(&[("tests/duel.rs", text)]);
    let finalists: Vec<_> = candidates
        .iter()
        .enumerate()
        .map(|(at, lib)| (CandidateId::nth(at), stage.tree(&[("src/lib.rs", lib)])))
        .collect();
    let trees: Vec<_> = finalists.iter().map(|(_, tree)| tree.clone()).collect();
    let change = ChangeKind::Added;
    let files = [FileChange { path: "tests/duel.rs".to_owned(), change, added: 1, removed: 0 }];
    let (plan, command) = (super::plan("", TEST, 300), command(TEST).unwrap());
    let of = (stage.store.base_tree(), &tree);
    let test = duel_test(&*stage.store, of, &files, &trees, (&plan, &command)).unwrap().unwrap();
    let silent = (&EventSink::none(), &CancellationToken::new());
    let runs = stage.keeper.duel(&test, &finalists, &base, 2, silent).await.unwrap();
    (test, runs)
}

// contract C14 together: a test of a duel runs as a gate's
#[tokio::test(flavor = "multi_thread")]
async fn a_new_test_among_all_others_tells_two_changes_apart() {
    let stage = Stage::of(&[], "", TEST, 300).await;
    let wrong = LIB.replace("    a * b\n", "    if b == 0 { 1 } else { a * b }\n");
    let right = LIB.replace("    a * b\n", "    b * a\n");
    assert!(wrong != LIB && right != LIB);
    let candidates = [wrong, right];
    let text =
        "#[test]\nfn nothing_times_two_is_nothing() {\n    assert_eq!(fixture::mul(2, 0), 0);\n}\n";
    let (test, runs) = duel(&stage, text, &candidates).await;
    assert_eq!((test.command.line.as_str(), test.alone), (TEST, false));
    let [passed, failed] = [TestEnd::Passed, TestEnd::Failed].map(|end| vec![end; 2]);
    let ends: Vec<_> = runs.iter().map(|run| run.ends.clone()).collect();
    assert_eq!(ends, [passed.clone(), failed, passed], "{runs:#?}");
    let [c1, c2] = [0, 1].map(CandidateId::nth);
    let pair = [c1.clone(), c2.clone()];
    assert_eq!(duel_result(&pair, &runs, |_| &[]), DuelResult::Told { passes: c2, fails: c1 });
    // One that does not compile is nobody's failure, and is not run again.
    let text =
        "#[test]\nfn asks_for_what_is_not_there() {\n    assert_eq!(fixture::div(2, 1), 2);\n}\n";
    let (_, runs) = duel(&stage, text, &candidates).await;
    let DuelResult::Void { reason } = duel_result(&pair, &runs, |_| &[]) else {
        panic!("{runs:#?}")
    };
    assert!(reason.contains("does not compile"), "{reason}");
    assert!(runs.iter().all(|run| run.ends.len() == 1), "{runs:#?}");
}
