//! `bakeoff gc` on runs of the product's program.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::support::place::Place;

/// A place with one run, and the paths of its cache and its run.
fn with_a_run() -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    let (home, run) = (place.home(), place.runs().remove(0));
    (place, home.join("cache/v2"), run)
}

fn gc(place: &Place, args: &[&str]) -> Value {
    place.run([&["gc", "--json"], args].concat()).exits(0).json()
}

/// Names of what is listed, and whether it stays because it is in use.
fn listed(told: &Value, key: &str) -> Vec<(String, bool)> {
    let name = if key == "runs" { "run" } else { "kind" };
    let rows = told[key].as_array().unwrap().iter();
    let mut all: Vec<(String, bool)> = rows
        .map(|row| (row[name].as_str().unwrap().to_owned(), row["in_use"].as_bool().unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_dry_run_lists_with_sizes_and_removes_nothing() {
    let (place, cache, run) = with_a_run();
    let told = gc(&place, &["--dry-run", "--all-cache", "--runs-older-than", "0d"]);
    let kinds: Vec<String> = listed(&told, "cache").into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.starts_with(&["base".to_owned(), "objects".to_owned()]), "{told}");
    assert_eq!(listed(&told, "runs").len(), 1);
    assert!(told["bytes"].as_u64().unwrap() > 0 && told["dry_run"] == true);
    for row in told["cache"].as_array().unwrap().iter().chain(told["runs"].as_array().unwrap()) {
        assert!(row["bytes"].as_u64().unwrap() > 0 && row["files"].as_u64().unwrap() > 0, "{row}");
        assert!(fs::exists(row["path"].as_str().unwrap()).unwrap(), "{row}");
    }
    assert!(cache.join("base").is_dir() && run.is_dir());
    let text = place.run(["gc", "-n", "--all-cache", "--keep-runs", "0"]).exits(0).out;
    assert!(text.contains("would remove") && text.contains("the cache keeps 0 things"), "{text}");
}

#[test]
fn nothing_goes_without_a_reason_and_runs_only_when_asked_for() {
    let (place, cache, run) = with_a_run();
    let told = gc(&place, &[]);
    assert_eq!((listed(&told, "cache"), listed(&told, "runs")), (vec![], vec![]));
    // What nobody used for long goes, and so does what the config's size leaves no room for.
    let then = SystemTime::now() - Duration::from_secs(31 * 86_400);
    for lock in fs::read_dir(cache.join("base")).unwrap().map(|entry| entry.unwrap().path()) {
        if lock.extension().is_some_and(|e| e == "use") {
            File::options().write(true).open(lock).unwrap().set_modified(then).unwrap();
        }
    }
    let told = gc(&place, &[]);
    assert_eq!(listed(&told, "cache"), [("base".to_owned(), false)]);
    assert_eq!(fs::read_dir(cache.join("base")).unwrap().count(), 0);
    let told = gc(&place, &["--cache-max", "0"]);
    assert!(!listed(&told, "cache").is_empty() && told["cache_kept"]["entries"] == 0, "{told}");
    assert!(run.is_dir());
    place.run(["show"]).exits(0);
    // It is all made again.
    place.run(["run", "raise the value"]).exits(0);
    let told = gc(&place, &["--keep-runs", "1"]);
    assert_eq!(listed(&told, "runs").len(), 1);
    assert!(!run.exists());
    let told = gc(&place, &["--runs-older-than", "1w"]);
    assert_eq!(listed(&told, "runs"), []);
}

#[test]
fn what_is_live_or_locked_stays() {
    let (place, cache, run) = with_a_run();
    let base = fs::read_dir(cache.join("base")).unwrap().map(|entry| entry.unwrap().path());
    let lock = base.into_iter().find(|path| path.extension().is_some_and(|e| e == "use")).unwrap();
    let used = File::open(&lock).unwrap();
    flock(&used, FlockOperation::LockShared).unwrap();
    let live = File::open(&run).unwrap();
    flock(&live, FlockOperation::LockExclusive).unwrap();
    for args in [
        &["--all-cache", "--keep-runs", "0", "--dry-run"][..],
        &["--all-cache", "--keep-runs", "0"],
    ] {
        let told = gc(&place, args);
        assert!(listed(&told, "runs")[0].1, "{told}");
        assert!(listed(&told, "cache").contains(&("base".to_owned(), true)), "{told}");
    }
    assert!(run.join("record.json").is_file() && lock.with_extension("").join("layer").is_dir());
    drop((used, live));
    gc(&place, &["--all-cache", "--keep-runs", "0"]);
    assert!(!run.exists() && !lock.exists());
}

/// The record and the report say when output of another run was used, and it goes with the cache.
#[test]
fn a_report_says_when_kept_output_was_used() {
    let (place, cache, _) = with_a_run();
    if !cache.join("setup").is_dir() {
        return; // Nothing is kept where overlays can't be mounted.
    }
    place.run(["run", "raise the value"]).exits(0);
    let reused = |record: &Value| record["base"]["gates"][0]["reused"].as_str().map(str::to_owned);
    assert!(reused(&place.record()).unwrap().starts_with("the same base, "));
    let text = place.run(["show"]).exits(0).out;
    assert!(text.contains("over output that was kept of the same base"), "{text}");
    gc(&place, &["--all-cache"]);
    place.run(["run", "raise the value"]).exits(0);
    assert_eq!(reused(&place.record()), None);
}

#[test]
fn amounts_that_make_no_sense_are_bad_usage() {
    let place = Place::new();
    for args in [
        ["gc", "--runs-older-than", "soon"],
        ["gc", "--cache-max", "much"],
        ["gc", "--keep-runs", "-1"],
    ] {
        place.run(args).exits(2);
    }
    place.run(["gc", "--all-cache", "--cache-max", "1G"]).exits(2);
}
