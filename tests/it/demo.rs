//! The demo, through the product's own program, and what becomes of it with a stage taken out.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn bakeoff(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.env("BAKEOFF_HOME", home.join("state")).env("XDG_CONFIG_HOME", home.join("config"));
    command
}

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// The lane whose candidate won.
fn winner(record: &Value) -> String {
    let id = &record["decision"]["outcome"]["candidate"];
    let rows = record["candidates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["candidate"]["id"] == *id);
    row.unwrap_or_else(|| panic!("no winner: {}", record["decision"]))["candidate"]["lane"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The demo's repository and settings, laid out for `run`.
fn laid_out(home: &Path) -> std::path::PathBuf {
    let place = bakeoff::selftest::demo().unwrap().lay_out(home).unwrap();
    std::fs::create_dir_all(home.join("config/bakeoff")).unwrap();
    std::fs::write(home.join("config/bakeoff/config.toml"), &place.config.1).unwrap();
    place.repository
}

// contract C15
#[test]
fn the_demo_runs_the_main_job() {
    let home = tempfile::tempdir().unwrap();
    let record = json(bakeoff(home.path()).args(["demo", "--json", "--quiet"]));
    assert_eq!(record["scripted"], true);
    assert_eq!(record["exit"], "done");
    assert_eq!(winner(&record), "thorough/1");
    let verdict =
        |row: usize, gate: usize| &record["candidates"][row]["gates"][gate]["verdict"]["kind"];
    assert_eq!(record["candidates"][0]["admission"]["kind"], "refused");
    assert_eq!((verdict(1, 0), verdict(1, 1)), (&"pass".into(), &"fail".into()));
    assert_eq!((verdict(2, 1), verdict(2, 2)), (&"pass".into(), &"fail".into()));
    assert_eq!((verdict(3, 2), verdict(4, 2)), (&"pass".into(), &"pass".into()));
    assert_eq!(record["sandbox"]["permit"], "proof");
    // Every ballot and every lane's end is told once.
    let run = home.path().join("state/state/runs").join(record["run"].as_str().unwrap());
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let told = |event: &str| journal.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!(told("balloted"), record["ballots"].as_array().unwrap().len());
    assert_eq!(told("lane_ended"), 5);
}

#[test]
fn a_stage_that_is_taken_out_changes_the_outcome() {
    let home = tempfile::tempdir().unwrap();
    let repository = laid_out(home.path());
    let run = |flags: &[&str]| {
        let task = ["run", "make the median right", "--json", "--quiet", "--no-synth", "-C"];
        winner(&json(bakeoff(home.path()).args(task).arg(&repository).args(flags)))
    };
    assert_eq!(run(&[]), "thorough/1");
    assert_eq!(run(&["--no-judge"]), "plain/1", "without judges");
    assert_eq!(run(&["--test", "true"]), "narrow/1", "without tests");
    assert_eq!(run(&["--test", "true", "--no-check"]), "hasty/1", "without a typecheck");
}
