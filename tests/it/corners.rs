//! Corners of the command line that a hostile or unlucky user finds: runs that were cut off, paths of any
//! bytes, archives that nobody may write to, settings that name what is not there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::support::place::Place;

/// An id that is newer than any.
const NEWEST: &str = "ffffffff-ffff-7fff-bfff-ffffffffffff";

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// A run with a winner, and after it one that was cut off.
fn with_a_cut_off_run() -> Place {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    let old = place.runs().remove(0);
    let new = old.with_file_name(NEWEST);
    copy(&old, &new);
    fs::remove_file(new.join("record.json")).unwrap();
    place
}

#[test]
fn the_latest_run_is_one_and_the_same_for_every_command() {
    let place = with_a_cut_off_run();
    for command in ["show", "diff", "apply", "rejudge", "replay"] {
        place.run([command]).exits(2).says(&[NEWEST, "cut off", "bakeoff resume"]);
        place.run([command, "latest"]).exits(2).says(&[NEWEST]);
    }
    assert_eq!(place.read("value.txt"), "1\n", "an older run's winner is not what is meant");
    // A gate picks nothing, so that those who want a pick go past it, and only they.
    fs::rename(place.runs().pop().unwrap(), place.home().join("aside")).unwrap();
    let diff = place.diff("two.diff", "2");
    place.run([OsStr::new("gate"), OsStr::new("-q"), diff.as_os_str()]).exits(0);
    place.run(["show"]).exits(0).prints(&["gate ", "1 of 1 passed every gate (exit 0)"]);
    place.run(["diff"]).exits(0).prints(&["+"]);
    place.run(["apply"]).exits(0);
    for command in ["show", "resume", "replay", "probe", "diff", "apply", "rejudge"] {
        place.run([command, "--help"]).exits(0).prints(&["`latest`,", "newest"]);
    }
}

#[test]
fn a_gate_run_without_a_pass_says_how_many_passed() {
    let place = Place::new();
    let diff = place.diff("bad.diff", "nonsense");
    let args = [OsStr::new("gate"), OsStr::new("-q"), diff.as_os_str()];
    let done = place.run(args).exits(1).prints(&["0 of 1 passed every gate (exit 1)"]);
    assert!(!done.out.contains("no winner"), "{}", done.out);
}

#[test]
fn a_run_that_never_began_is_started_again_and_not_resumed() {
    let place = Place::new();
    fs::create_dir_all(place.home().join("state/runs").join(NEWEST)).unwrap();
    for journal in [false, true] {
        if journal {
            fs::write(place.runs().remove(0).join("journal.jsonl"), "").unwrap();
        }
        for command in ["show", "diff", "apply"] {
            let done = place.run([command]).exits(2).says(&["start it again"]);
            assert!(!done.err.contains("resume"), "{}", done.err);
        }
    }
}

#[test]
fn a_repository_of_any_path_is_applied_to_from_elsewhere() {
    let mut place = Place::new();
    let odd = place.dir.join(OsStr::from_bytes(b"r\xe9po"));
    fs::rename(&place.repo, &odd).unwrap();
    place.repo = odd;
    place.run(["run", "raise the value"]).exits(0);
    let mut command = place.bakeoff(["apply"]);
    command.current_dir(&place.dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(place.read("value.txt"), "1\n");
}

/// Path, identity, size and a sum of the bytes.
type Row = (PathBuf, u64, usize, u64);

/// Everything in a directory: path, identity, size and a sum of the bytes. A file that is written anew
/// is another one, even with the same bytes.
fn state(dir: &Path) -> Vec<Row> {
    let mut all = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let sum = bytes
            .iter()
            .fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        all.push((path, meta.ino(), bytes.len(), sum));
    }
    all.sort();
    all
}

/// What of a directory is no longer as it was.
fn changes(dir: &Path, was: &[Row]) -> Vec<PathBuf> {
    let now = state(dir);
    let path = |row: &Row| row.0.clone();
    let gone = was.iter().filter(|row| !now.contains(row)).map(path);
    gone.chain(now.iter().filter(|row| !was.contains(row)).map(path)).collect()
}

#[test]
fn a_replay_writes_nothing_into_the_run() {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    let run = place.runs().remove(0);
    let before = state(&run);
    place.run(["replay"]).exits(0).prints(&["the same decision"]);
    assert_eq!(changes(&run, &before), Vec::<PathBuf>::new());
    // Nor does it need anything else of the run's first machine.
    let moved = place.dir.join("archive");
    copy(&run, &moved);
    fs::rename(&run, place.dir.join("gone")).unwrap();
    fs::remove_dir_all(place.home().join("cache")).unwrap();
    let before = state(&moved);
    place.run([OsStr::new("replay"), moved.as_os_str()]).exits(0);
    assert_eq!(changes(&moved, &before), Vec::<PathBuf>::new());
}

#[test]
fn a_carried_path_that_is_not_there_is_told() {
    let place = Place::new();
    let gates = "[gates]\ncheck = \"sh check.sh\"\ncarry = [\"no-such-dir\"]\n";
    place.configure(gates, "");
    let diff = place.diff("two.diff", "2");
    let args = [OsStr::new("gate"), OsStr::new("-q"), OsStr::new("--json"), diff.as_os_str()];
    let told = place.run(args).exits(0).json();
    let warnings = told["warnings"].as_array().unwrap();
    let about = |warning: &&serde_json::Value| warning["code"] == "not-carried";
    let found = warnings.iter().find(about).unwrap_or_else(|| panic!("{told}"));
    assert!(found["message"].as_str().unwrap().contains("no-such-dir"), "{found}");
}
