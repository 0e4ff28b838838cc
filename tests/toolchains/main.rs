//! The gates with real tools that are not Rust's, through the program. `tests/toolchains/run.sh` installs
//! them and says in `BAKEOFF_TOOLCHAINS` where they are; without it every test here is ignored.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails may panic, and helpers of tests are no test functions"
)]

mod hacks;
mod rows;
mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Flags with which evidence picks nothing.
const SERIOUS: [&str; 8] = [
    "changes-only-tests",
    "silences-only",
    "detects-tests",
    "weakens-tests",
    "ends-the-process",
    "imitates-a-runner",
    "addresses-judge",
    "fits-tests",
];

/// A repository with tools in its checkout, and a home for the program.
struct Repo {
    dir: tempfile::TempDir,
}

/// One candidate's line of the record.
#[derive(Debug)]
struct Row {
    /// One letter for each gate: P, F, C, I, S; R alone for a refusal.
    letters: String,
    reasons: String,
    flags: Vec<String>,
    /// Of the tests: failures of the base still there, and those that are gone.
    left: u64,
    fixed: u64,
    contested: usize,
    raw: Value,
}

impl Row {
    /// Whether evidence alone would pick it.
    fn wins(&self) -> bool {
        self.letters.chars().all(|letter| letter == 'P')
            && self.left == 0
            && !self.flags.iter().any(|flag| SERIOUS.contains(&flag.as_str()))
    }
}

impl Repo {
    /// An empty one.
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let repo = Self { dir };
        fs::create_dir(repo.top()).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    /// The fixture of the cases.
    fn fixture() -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let repo = Self { dir };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/toolchains/make_fixture.sh");
        let done = Command::new("bash").arg(script).arg(repo.top()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        repo
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    fn git(&self, args: &[&str]) -> Vec<u8> {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let output = Command::new("git")
            .args(who)
            .args(args)
            .current_dir(self.top())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.top().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits these files as the base.
    fn base(self, files: &[(&str, &str)]) -> Self {
        for (path, text) in files {
            self.write(path, text);
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "base"]);
        self
    }

    /// Installs tools in the checkout, where git does not look.
    fn with(self, tools: &[&str]) -> Self {
        let from = PathBuf::from(
            std::env::var_os("BAKEOFF_TOOLCHAINS").expect("run tests/toolchains/run.sh"),
        );
        let info = self.top().join(".git/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("exclude"), "node_modules/\n.venv/\n").unwrap();
        for tool in tools {
            let (source, target) = match *tool {
                "js" => (from.join("js/node_modules"), "node_modules"),
                _ => (from.join("py"), ".venv"),
            };
            let done = Command::new("cp")
                .arg("-a")
                .arg(source)
                .arg(self.top().join(target))
                .status()
                .unwrap();
            assert!(done.success());
        }
        self
    }

    /// A diff of some files put differently, made by git; an empty text takes a file away.
    fn diff(&self, name: &str, edits: &[(&str, &str)]) -> PathBuf {
        for (path, text) in edits {
            match text.is_empty() {
                true => fs::remove_file(self.top().join(path)).unwrap(),
                false => self.write(path, text),
            }
        }
        self.git(&["add", "-A", "-f", "--", "."]);
        // What is installed is nobody's change.
        self.git(&["reset", "-q", "--", "node_modules", ".venv"]);
        for (path, text) in edits {
            if !text.is_empty() {
                self.git(&["add", "-f", "--", path]);
            }
        }
        let diff = self.git(&["diff", "--cached", "--binary"]);
        self.git(&["stash", "-q"]);
        self.git(&["stash", "drop", "-q"]);
        let file = self.dir.path().join(format!("{name}.diff"));
        fs::write(&file, diff).unwrap();
        file
    }

    /// Runs the program on diffs; gives its exit status and the record.
    fn run(&self, command: &str, args: &[&str], diffs: &[PathBuf]) -> (i32, Value) {
        let done = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
            .args([command, "--json", "--quiet", "-C"])
            .arg(self.top())
            .args(args)
            .args(diffs)
            .env("BAKEOFF_HOME", self.dir.path().join("home"))
            .output()
            .unwrap();
        let record = serde_json::from_slice(&done.stdout);
        let record = record.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)));
        (done.status.code().unwrap(), record)
    }

    /// What the gates say of each diff, by its file's name.
    fn gate(&self, args: &[&str], diffs: &[PathBuf]) -> BTreeMap<String, Row> {
        rows_of(&self.run("gate", args, diffs).1)
    }
}

/// The candidates of a record by the stems of their files.
fn rows_of(record: &Value) -> BTreeMap<String, Row> {
    let stem = |lane: &str| Path::new(lane).file_stem().unwrap().to_string_lossy().into_owned();
    let all = record["candidates"].as_array().unwrap();
    all.iter().map(|one| (stem(one["candidate"]["lane"].as_str().unwrap()), row(one))).collect()
}

fn row(one: &Value) -> Row {
    let gates = one["gates"].as_array().unwrap();
    let letter = |gate: &Value| match gate["verdict"]["kind"].as_str().unwrap() {
        "pass" => 'P',
        "fail" => 'F',
        "contested" => 'C',
        "infra" => 'I',
        _ => 'S',
    };
    let test = gates.iter().find(|gate| gate["gate"] == "test").cloned().unwrap_or_default();
    let list = |key: &str| test["base"][key].as_array().map_or(0, Vec::len);
    let admitted = one["admission"]["kind"] == "admitted";
    Row {
        letters: if admitted { gates.iter().map(letter).collect() } else { "R".to_owned() },
        reasons: gates
            .iter()
            .filter_map(|gate| gate["verdict"]["reason"].as_str())
            .collect::<Vec<_>>()
            .join("; "),
        flags: one["admission"]["flags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|flag| flag["code"].as_str().map(str::to_owned))
            .collect(),
        left: test["base"]["unchanged"].as_u64().unwrap_or(0),
        fixed: list("fixed") as u64,
        contested: list("contested"),
        raw: one.clone(),
    }
}

/// The id of the winner's candidate as the stem of its file.
fn winner(record: &Value) -> Option<String> {
    let id = record["decision"]["outcome"]["candidate"].as_str()?;
    let all = record["candidates"].as_array().unwrap();
    let one = all.iter().find(|one| one["candidate"]["id"] == id).unwrap();
    let lane = one["candidate"]["lane"].as_str().unwrap();
    Some(Path::new(lane).file_stem().unwrap().to_string_lossy().into_owned())
}
