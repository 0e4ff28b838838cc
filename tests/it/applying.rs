//! From a finished run into the repository: `apply`, `--apply`, `--dirty`.

use serde_json::json;

use super::commands::REFUTING;
use super::support::place::{Done, Place};

#[test]
fn apply_writes_once_and_never_over_work() {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    place.write("value.txt", "my own edit\n");
    let before = place.fingerprint();
    place.run(["apply"]).exits(2).says(&["\"value.txt\" has uncommitted changes", "apply again"]);
    assert_eq!(place.fingerprint(), before);
    place.git(&["checkout", "-q", "--", "value.txt"]);
    place.run(["apply"]).exits(0).prints(&["applied c1 to the working tree", "value.txt"]);
    assert_eq!(place.read("value.txt"), "2\n");
    let after = place.fingerprint();
    place.run(["apply"]).exits(0).prints(&["c1 is there already", "nothing was written"]);
    assert_eq!(place.run(["apply", "--json"]).exits(0).json()["paths"], json!([]));
    assert_eq!(place.fingerprint(), after);
    place.run(["apply", "--candidate", "c2"]).exits(2).says(&["has uncommitted changes"]);
    place.nothing_left("apply");
}

#[test]
fn apply_to_branches_and_commits() {
    let place = Place::new();
    place.run(["run", "raise the value\n\nand more"]).exits(0);
    place.run(["apply", "--branch", "x", "--commit"]).exits(2).says(&["cannot be used with"]);
    place.run(["apply", "--branch", "fix"]).exits(0).prints(&["commit"]);
    assert_eq!(place.git(&["show", "fix:value.txt"]), "2\n");
    assert_eq!(place.git(&["log", "-1", "--format=%s", "fix"]), "raise the value\n");
    assert_eq!(
        (place.read("value.txt").as_str(), place.git(&["status", "--porcelain"]).as_str()),
        ("1\n", "")
    );
    place.run(["apply", "--branch", "fix"]).exits(2).says(&["\"fix\"", "exists"]);
    place.run(["apply", "--branch", "no..good"]).exits(2).says(&["no valid branch name"]);
    let done = place.run(["apply", "--commit", "-m", "My words", "--json"]).exits(0).json();
    assert_eq!(place.git(&["rev-parse", "HEAD"]).trim(), done["commit"]);
    assert_eq!(place.git(&["log", "-1", "--format=%s"]), "My words\n");
    assert_eq!(
        (place.read("value.txt").as_str(), place.git(&["status", "--porcelain"]).as_str()),
        ("2\n", "")
    );
    place.run(["apply", "--commit"]).exits(0).prints(&["is there already"]);
    place.git(&["fsck", "--strict"]);
}

#[test]
fn apply_proves_again_where_the_repository_moved() {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    let id = place.record()["run"].as_str().unwrap().to_owned();
    // What the tests of the base ask for now, the change breaks.
    place.write("test.sh", "grep -qx 1 value.txt || { echo 'not the one'; exit 1; }\n");
    place.commit("want the old value");
    let before = place.fingerprint();
    place.run(["apply", &id]).exits(1).says(&[
        "moved",
        "does not pass the gates there",
        "nothing was written",
    ]);
    assert_eq!(place.fingerprint(), before);
    place.run(["show"]).exits(0).prints(&["not the one"]);
    // The gates' own run is the latest; the latest that picked is the one that has a diff to give.
    place.run(["diff"]).exits(0).prints(&["+2"]);
    place.git(&["revert", "--no-edit", "HEAD"]);
    place.write("notes.txt", "unrelated\n");
    place.commit("unrelated");
    place.run(["apply", &id]).exits(0).prints(&["value.txt"]);
    assert_eq!(place.read("value.txt"), "2\n");
    place.git(&["checkout", "-q", "--", "value.txt"]);
    place.write("value.txt", "7\n");
    place.commit("another value");
    let before = place.fingerprint();
    place.run(["apply", &id]).exits(2).says(&["does not apply there", "value.txt"]);
    assert_eq!(place.fingerprint(), before);
    place.run(["apply", &id, "--branch", "old-base"]).exits(0);
    place.nothing_left("moved");
}

#[test]
fn run_can_apply_its_winner() {
    let place = Place::new();
    place.run(["run", "x", "--apply"]).exits(0).says(&["applied c1 to the working tree"]);
    assert_eq!(place.read("value.txt"), "2\n");
    place.git(&["checkout", "-q", "--", "value.txt"]);
    place.run(["run", "x", "--apply", "--test", REFUTING]).exits(1);
    assert_eq!(place.read("value.txt"), "1\n");
    place.write("value.txt", "9\n");
    place
        .run(["run", "x", "--apply"])
        .exits(2)
        .says(&["uncommitted changes", "the run itself is kept"]);
    assert_eq!(place.read("value.txt"), "9\n");
}

// contract R23
#[test]
fn partial_work_is_applied_by_name_only() {
    let place = Place::new();
    let before = place.fingerprint();
    place.run(["run", "x", "--lane-turns", "1", "--apply"]).exits(1);
    let record = place.record();
    assert_eq!(record["decision"]["outcome"]["reason"], "only_partial");
    let passed = |gate: &serde_json::Value| gate["verdict"]["kind"] == "pass";
    assert!(record["candidates"][0]["gates"].as_array().unwrap().iter().all(passed));
    for command in [&["apply"][..], &["apply", "--branch", "partial"]] {
        place.run(command).exits(1).says(&["only partial work", "--candidate"]);
    }
    assert_eq!(place.fingerprint(), before, "nothing of it is written");
    place.run(["apply", "--candidate", "c1"]).exits(0).prints(&["applied c1", "value.txt"]);
    assert_eq!(place.read("value.txt"), "2\n");
}

#[test]
fn uncommitted_changes_are_told_and_can_be_included() {
    let place = Place::new();
    place.write("check.sh", "exit 0\n");
    place.write("new.txt", "new\n");
    place.write("value.txt", "1\n1\n");
    place.run(["run", "x"]).exits(0).says(&[
        "3 uncommitted changes",
        "check.sh",
        "--dirty includes them",
    ]);
    assert_eq!(place.record()["base"]["dirty"], false);
    place.run(["run", "x", "--dirty"]).exits(0);
    let record = place.record();
    assert_eq!(record["base"]["dirty"], true);
    let diff = place.run(["diff"]).exits(0).prints(&["-1\n-1\n+"]).out;
    let won = diff.lines().last().unwrap()[1..].to_owned() + "\n";
    place.run(["apply"]).exits(0).prints(&["value.txt"]);
    assert_eq!(
        (place.read("value.txt").as_str(), place.read("new.txt").as_str()),
        (won.as_str(), "new\n")
    );
    place.run(["run", "x", "--dirty", "--base", "HEAD~0"]).exits(0);
    place.git(&["commit", "-q", "-am", "all of it"]);
    place
        .run(["run", "x", "--dirty", "--base", "HEAD~1"])
        .exits(2)
        .says(&["included on top of HEAD"]);
}

#[test]
fn a_run_of_another_repository_is_applied_nowhere_unless_it_is_named() {
    let place = Place::new();
    place.run(["run", "x"]).exits(0);
    let other = place.dir.join("other");
    std::fs::create_dir(&other).unwrap();
    let git = |args: &[&str]| super::support::place::git(&other, args);
    git(&["clone", "-q", place.repo.to_str().unwrap(), "."]);
    let before = place.fingerprint();
    let apply = |args: &[&str]| {
        let mut command = place.bakeoff(args);
        Done::run(command.current_dir(&other))
    };
    apply(&["apply"]).exits(2).says(&["was made on", "-C"]);
    assert_eq!(place.fingerprint(), before);
    apply(&["apply", "-C", "."]).exits(0).prints(&["applied c1"]);
    assert_eq!(place.fingerprint(), before);
    assert_ne!(git(&["status", "--porcelain"]), "");
}
