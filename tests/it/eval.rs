//! `bakeoff eval` as it is called: text, JSON, and what it refuses.

use std::path::Path;
use std::process::Command;

use super::support::place::Done;

const POOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pool");

fn eval(args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("eval").args(args).env_clear().env("HOME", "/nonexistent");
    Done::run(command)
}

#[test]
fn a_pool_of_two_files_is_measured_without_a_repository() {
    let (tasks, candidates) = (format!("{POOL}/tasks.jsonl"), format!("{POOL}/candidates.jsonl"));
    let done = eval(&[&tasks, &candidates, "--draws", "200"]).exits(0);
    let done = done.prints(&[
        "3 tasks, 11 diffs: 10 apply",
        "| consensus |",
        "| oracle |",
        "best single system",
    ]);
    assert!(done.err.is_empty(), "{}", done.err);
    let json = eval(&[&tasks, &candidates, "--json", "--draws", "200"]).exits(0).json();
    let consensus = &json["selectors"][0];
    assert_eq!((&consensus["name"], &consensus["resolved"]), (&"consensus".into(), &2.0.into()));
    assert_eq!(json["oracle"]["resolved"], 2);
    assert_eq!(consensus["precision"].as_array().unwrap().len(), 4);
    // The same again: nothing is drawn anew.
    assert_eq!(json, eval(&[POOL, "--json", "--draws", "200"]).exits(0).json());
}

#[test]
fn what_can_not_be_asked_is_refused_with_a_way_out() {
    eval(&[&format!("{POOL}/gone.jsonl")]).exits(2).says(&["failed to read", "gone.jsonl"]);
    eval(&[POOL, "--selector", "taste"]).exits(2).says(&["consensus, vote, core"]);
    eval(&[POOL, "--selector", "trust"]).exits(2).says(&["--trust FAMILY"]);
    eval(&[POOL, "--repos", "/nonexistent"]).exits(2).says(&["is no directory"]);
    eval(&[POOL, "--only", "no such task"]).exits(2).says(&["--only"]);
    assert!(Path::new(POOL).is_dir());
}

#[test]
fn candidates_without_a_task_are_told_on_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tasks = write("tasks.jsonl", "{\"task_id\":\"t\"}\n");
    let row = |task: &str, reported: &str| {
        format!("{{\"task_id\":\"{task}\",\"patch\":\"x\",\"reported\":\"{reported}\"}}\n")
    };
    let some = write("some.jsonl", &(row("t", "resolved") + &row("z", "resolved")));
    let done = eval(&[&tasks, &some, "--draws", "1"]).exits(0);
    done.says(&["bakeoff: warning: 1 of 2 candidates were left out", ": z"]);
    let all = write("all.jsonl", &row("z", "resolved"));
    eval(&[&tasks, &all]).exits(2).says(&["none of the 1 candidates belongs to a task"]);
    let none = write("none.jsonl", "\n");
    eval(&[&tasks, &none]).exits(2).says(&["none.jsonl holds no candidate", "candidates.jsonl"]);
    eval(&[&tasks]).exits(2).says(&["tasks.jsonl holds no candidate"]);
    let odd = write("odd.jsonl", &(row("t", "resolved") + &row("t", "banana")));
    eval(&[&tasks, &odd]).exits(2).says(&["odd.jsonl, line 2: `reported` has to be"]);
}
