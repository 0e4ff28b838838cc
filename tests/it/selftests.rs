//! `bakeoff selftest`, by the product's program: what it tells, and what may be left out.

use std::process::Command;

use serde_json::Value;

use super::support::place::Done;

fn selftest(args: &[&str], home: &std::path::Path) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("selftest").args(args).env("BAKEOFF_HOME", home);
    Done::run(command)
}

// contract C28
// contract R19 in part: by a whole run, in all that it leaves and asks
#[test]
fn protections_are_proved_by_real_runs() {
    let home = tempfile::tempdir().unwrap();
    let names = [
        "allowlist",
        "crash-leaves-nothing",
        "duel-tells",
        "foreign-text-boundary",
        "host-jobs-stay-host",
        "pty-secret-never-stored",
        "sandbox-canaries",
    ];
    let told = selftest(&[&names[..], &["--json"]].concat(), home.path()).exits(0).json();
    let tests = told["selftests"].as_array().unwrap();
    let found: Vec<&str> = tests.iter().map(|test| test["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    let fine =
        |test: &Value| test["faults"] == Value::Array(Vec::new()) && test["skipped"] == false;
    assert!(tests.iter().all(fine), "{told}");
    assert!(tests.iter().all(|test| test["about"].as_str().unwrap().len() > 20), "{told}");
}

/// A selftest that can't run here fails, unless it is named; one that can run is not left out by being
/// named.
#[test]
fn only_what_can_not_run_may_be_left_out() {
    let home = tempfile::tempdir().unwrap();
    // The state's place is a file: that is no want of a sandbox.
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let args = ["no-judge", "--allow-skip", "no-judge"];
    selftest(&args, &file).exits(1).prints(&["FAIL no-judge"]);
    selftest(&args, home.path()).exits(0).prints(&["ok   no-judge", "1 passed, 0 failed"]);
    selftest(&["--allow-skip", "nothing-of-the-kind"], home.path())
        .exits(2)
        .says(&["nothing-of-the-kind", "sandbox-canaries"]);
}
