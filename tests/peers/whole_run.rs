//! A whole run on a real project: `bakeoff run` on the published package of tokio 1.54.1, with lanes
//! that ask aimock in every dialect.
//!
//! `run.sh` lets cargo fetch the package (`whole_run/fetch`, pinned by checksum) and says where it is.
//! The user of this test has added a package `reproduction` with tests of a method that tokio does not
//! have, and asks for that method. What the lanes' models do is in `fixtures/whole_run.json`; most of their
//! turns are served only if the turn before got the right answer out of the tools:
//!
//! - `careful` (OpenAI chat) searches, reads, edits, looks at its diff, submits: the whole task.
//! - `thorough` (OpenAI responses) reasons, reads two files at once, and comes to the same tree.
//! - `brief` (Anthropic) has an edit refused, sends a patch, submits: right, and without documentation.
//! - `hasty` (Anthropic) typechecks, and drops the new value when the cell is empty. The judges would
//!   choose it over both others; the tests keep it from them.
//!
//! aimock can't repeat a question's nonce, so the judges' model is a server of the tests' own.

#[path = "../it/support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use server::{Reply, Request, Server};
use sha2::{Digest, Sha256};

use crate::{control, peer};

const TASK: &str = "Add `OnceCell::replace(&mut self, value: T) -> Option<T>` to tokio's `sync`: it puts a new value into \
                    the cell, whether the cell held one or not, and gives back the old one. See reproduction/tests.";

/// The environment variable and the key of each provider of the run.
const KEYS: [(&str, &str); 4] = [
    ("CHAT_KEY", "sk-chat-9f1c7be04d52a683"),
    ("MESSAGES_KEY", "sk-ant-messages-77ab03c95e18d264"),
    ("BENCH_KEY", "bench-55d0e6a91f3b8c72"),
    ("RESPONSES_KEY", "sk-responses-3c8d1e70b92f46a5"),
];

/// What tells the candidates apart, as the judges like them best first.
const HASTY: &str = "self.get_mut().map(|old| std::mem::replace(old, value))";
const CAREFUL: &str = "assert_eq!(cell.replace(2), Some(1));";
const BRIEF: &str = "*self = OnceCell::from(value);";

struct Place {
    /// Removes everything at the end of the test.
    _home: tempfile::TempDir,
    home: PathBuf,
    repository: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        for dir in ["state", "config/bakeoff", "tmp"] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        let repository = home.join("tokio");
        make_repository(&repository);
        Self { _home: temp, home, repository }
    }

    fn bakeoff(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command.args(arguments).current_dir(&self.home).envs(KEYS);
        command.env("BAKEOFF_HOME", self.home.join("state"));
        command.env("XDG_CONFIG_HOME", self.home.join("config"));
        command.env("TMPDIR", self.home.join("tmp")).output().unwrap()
    }

    fn configure(&self, judges: &str) {
        let aimock = peer("AIMOCK");
        let provider = |name: &str, wire: &str, url: &str, key: &str| {
            format!(
                "[providers.{name}]\nwire = \"{wire}\"\nbase_url = \"{url}\"\nkey_env = \"{key}\"\n"
            )
        };
        let config = provider("chat", "openai-chat", &aimock, KEYS[0].0)
            + &provider("messages", "anthropic", &aimock, KEYS[1].0)
            + &provider("bench", "openai-chat", judges, KEYS[2].0)
            + &provider("responses", "openai-responses", &aimock, KEYS[3].0);
        fs::write(self.home.join("config/bakeoff/config.toml"), config).unwrap();
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies the package as it was published, after checking it against its checksums: that of the package
/// against our lock file (cargo checked what it downloaded), that of each file against the package's.
fn copy_package(to: &Path) {
    let from = PathBuf::from(peer("PROJECT"));
    let sums = fs::read(from.join(".cargo-checksum.json")).unwrap();
    let sums: Value = serde_json::from_slice(&sums).unwrap();
    let lock = include_str!("whole_run/fetch/Cargo.lock");
    assert!(lock.contains(&format!("checksum = {}", sums["package"])), "not the pinned package");
    let files = sums["files"].as_object().unwrap();
    assert!(files.len() >= 200, "{} files", files.len());
    for (name, sum) in files {
        let bytes = fs::read(from.join(name)).unwrap();
        assert_eq!(sum.as_str(), Some(sha256(&bytes).as_str()), "{name}");
        let to = to.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
}

fn make_repository(top: &Path) {
    copy_package(top);
    git(top, &["init", "--quiet", "--initial-branch=main"]);
    commit(top, "tokio 1.54.1");
    let files = [
        ("Cargo.toml", include_str!("whole_run/reproduction/Cargo.toml.in")),
        ("Cargo.lock", include_str!("whole_run/reproduction/Cargo.lock.in")),
        ("src/lib.rs", include_str!("whole_run/reproduction/lib.rs")),
        ("tests/replace.rs", include_str!("whole_run/reproduction/replace.rs")),
        (".gitignore", "/target\n"),
    ];
    for (name, text) in files {
        let path = top.join("reproduction").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    commit(top, "What replace should do");
    // The gates have no network and see what the user's own cargo has downloaded.
    let fetched = Command::new("cargo")
        .args(["fetch", "--locked", "--quiet"])
        .current_dir(top.join("reproduction"))
        .status();
    assert!(fetched.unwrap().success());
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=user", "-c", "user.email=user@localhost", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

fn commit(top: &Path, message: &str) {
    git(top, &["add", "--all", "--force", "."]);
    git(top, &["commit", "--quiet", "--message", message]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything below a directory: mode and bytes by path, directories and links too.
fn contents(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut todo = vec![top.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().unwrap();
        let bytes = if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if meta.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        all.insert(path, (meta.permissions().mode(), bytes));
    }
    all
}

/// The judges: of two changes they prefer the one with the better liked text, and of equally liked ones the
/// shorter, so that length does not sway them. Asked for anything else they have nothing to say.
fn judge(request: &Request) -> Reply {
    let body = request.json();
    let question =
        body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let nonce = question.rsplit("\"nonce\": \"").next().unwrap().split('"').next().unwrap();
    let Some((first, second)) = question.split_once("\n# SECOND\n") else {
        return said(&body, &json!({"nonce": nonce, "refuted": []}));
    };
    let first = first.split_once("\n# FIRST\n").expect("two candidates").1;
    let texts = [HASTY, CAREFUL, BRIEF];
    let differs = texts.into_iter().find(|it| first.contains(it) != second.contains(it));
    let (liked, is_first) = match differs {
        Some(liked) => (liked, first.contains(liked)),
        None => {
            let both = texts.into_iter().find(|it| first.contains(it));
            let added = |text: &str| text.matches("\n+").count();
            (both.expect("a known change"), added(first) < added(second))
        }
    };
    let choice = if is_first { "first" } else { "second" };
    let verdict = json!({
        "nonce": nonce, "choice": choice, "reason": "It says how to use it.", "evidence": [liked], "vetoes": [],
    });
    said(&body, &verdict)
}

fn said(body: &Value, words: &Value) -> Reply {
    let message = json!({"role": "assistant", "content": words.to_string()});
    let answer = json!({
        "id": "judged", "object": "chat.completion", "created": 0, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3000, "completion_tokens": 50, "total_tokens": 3050},
    });
    Reply::json(200, &answer.to_string())
}

/// How often each model was asked at each of aimock's addresses about this test's task.
fn asked() -> BTreeMap<(String, String), u64> {
    let journal = control("GET", &format!("{}/__aimock/journal", peer("AIMOCK")), "");
    let journal: Value = serde_json::from_str(&journal).unwrap();
    let entries = journal.as_array().or_else(|| journal["entries"].as_array());
    let mut asked = BTreeMap::new();
    for entry in entries.unwrap_or_else(|| panic!("{journal}")) {
        // Other tests ask the same server at the same time.
        if !entry["body"].to_string().contains("Add `OnceCell::replace") {
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        *asked.entry((word(&entry["path"]), word(&entry["body"]["model"]))).or_default() += 1;
    }
    asked
}

/// Processes that have a text in their command line, environment or directory.
fn processes_of(needle: &str) -> Vec<String> {
    let has = |bytes: &[u8]| text(bytes).contains(needle);
    let each = |process: PathBuf| {
        let command = fs::read(process.join("cmdline")).ok()?;
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let dir = fs::read_link(process.join("cwd")).unwrap_or_default();
        (has(&command) || has(&environment) || has(dir.as_os_str().as_encoded_bytes()))
            .then(|| format!("{}: {}", process.display(), text(&command).replace('\0', " ")))
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| each(entry.ok()?.path())).collect()
}

fn candidate<'a>(record: &'a Value, lane: &str) -> &'a Value {
    let rows = record["candidates"].as_array().unwrap();
    let found = rows.iter().find(|row| row["candidate"]["lane"] == lane);
    found.unwrap_or_else(|| panic!("no candidate of {lane}: {record:#}"))
}

fn check_lanes(record: &Value) {
    assert_eq!(record["scripted"], false);
    let lanes = [
        ("careful/1", "chat:gpt-5", 4, 20_900, 470),
        ("brief/1", "messages:claude-sonnet-4-5", 4, 20_300, 480),
        ("hasty/1", "messages:claude-haiku-4-5", 3, 14_600, 270),
        ("thorough/1", "responses:gpt-5-codex", 3, 15_600, 430),
    ];
    for ((lane, model, turns, input, output), row) in
        lanes.into_iter().zip(record["lanes"].as_array().unwrap())
    {
        assert_eq!((&row["lane"], &row["model"]), (&json!(lane), &json!(model)));
        assert_eq!(row["stop"], json!({"kind": "submitted"}), "{row:#}");
        assert_eq!(row["turns"], turns, "{row:#}");
        let usage = &row["usage"];
        assert_eq!(
            (&usage["calls"], &usage["input_tokens"], &usage["output_tokens"]),
            (&json!(turns), &json!(input), &json!(output)),
            "{lane}"
        );
    }
    let asked = asked();
    let expected = [
        ("/v1/chat/completions", "gpt-5", 4),
        ("/v1/messages", "claude-haiku-4-5", 3),
        ("/v1/messages", "claude-sonnet-4-5", 4),
        ("/v1/responses", "gpt-5-codex", 3),
    ];
    let expected =
        expected.map(|(path, model, count)| ((path.to_owned(), model.to_owned()), count));
    assert_eq!(asked, BTreeMap::from(expected));
}

fn check_gates(record: &Value) {
    let verdicts = |lane: &str| {
        let gates = candidate(record, lane)["gates"].as_array().unwrap();
        let verdict = |gate: &Value| {
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            (word(&gate["gate"]), word(&gate["verdict"]["kind"]))
        };
        gates.iter().map(verdict).collect::<BTreeMap<_, _>>()
    };
    for lane in ["careful/1", "brief/1"] {
        let all = verdicts(lane);
        assert!(all.values().all(|verdict| verdict == "pass"), "{lane}: {all:?}");
        assert!(all.contains_key("typecheck") && all.contains_key("test"), "{lane}: {all:?}");
    }
    let (careful, thorough) = (candidate(record, "careful/1"), candidate(record, "thorough/1"));
    assert_eq!(thorough["admission"]["tree"], careful["admission"]["tree"]);
    assert_eq!(thorough["same_as"], careful["candidate"]["id"]);
    let hasty = verdicts("hasty/1");
    assert_eq!(
        (hasty["typecheck"].as_str(), hasty["test"].as_str()),
        ("pass", "fail"),
        "{hasty:?}"
    );
    let report = candidate(record, "hasty/1")["gates"].to_string();
    assert!(report.contains("fills_an_empty_cell"), "{report}");
}

/// Runs the task on three lanes; gives the record.
fn run(place: &Place, flags: &[&str]) -> Value {
    let lanes = [
        "careful=chat:gpt-5",
        "brief=messages:claude-sonnet-4-5",
        "hasty=messages:claude-haiku-4-5",
        "thorough=responses:gpt-5-codex",
    ];
    // The replies are recorded: there is none to a gate's words.
    let mut arguments = vec!["run", TASK, "-C", place.repository.to_str().unwrap(), "--heal", "0"];
    arguments.extend(lanes.iter().flat_map(|lane| ["--lane", lane]));
    arguments.extend(["--dir", "reproduction", "--judge-model", "bench:judge", "--no-synth"]);
    arguments.extend(["--json"].iter().chain(flags));
    let output = place.bakeoff(&arguments);
    let (record, progress) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{progress}\n{record}");
    serde_json::from_str(&record).unwrap()
}

fn check_winner(record: &Value, lane: &str) {
    let winner = &candidate(record, lane)["candidate"]["id"];
    assert_eq!(&record["decision"]["outcome"]["candidate"], winner, "{:#}", record["decision"]);
}

/// That a run left nothing behind but its own directory and the cache, and no key there.
fn check_remains(place: &Place) {
    let home = place.home.to_str().unwrap();
    assert_eq!(processes_of(home), Vec::<String>::new());
    let temporary: Vec<_> = contents(&place.home.join("tmp")).into_keys().skip(1).collect();
    assert_eq!(temporary, Vec::<PathBuf>::new());
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(home));
    let cache = place.home.join("state/cache");
    for run in fs::read_dir(place.home.join("state/state/runs")).unwrap() {
        for work in ["lanes", "gates", "leases", "lanes.git"] {
            let left = contents(&run.as_ref().unwrap().path().join(work));
            assert_eq!(left.len(), 1, "{work}: {:?}", left.keys());
        }
    }
    for (path, (_, bytes)) in contents(&place.home.join("state")) {
        let holds = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!KEYS.iter().any(|(_, key)| holds(key)), "{} holds a key", path.display());
        // The cache holds the base; anything else with the project's files is a workspace.
        let is_work = path.file_name().is_some_and(|name| name == "once_cell.rs");
        assert!(!is_work || path.starts_with(&cache), "{} is left of a workspace", path.display());
    }
}

/// The picked diff on a copy that no run has seen, by git.
fn check_diff(place: &Place, tree: &Value) {
    let picked = fs::read(place.home.join("picked.diff")).unwrap();
    let shown = place.bakeoff(&["diff"]);
    assert!(shown.status.success() && shown.stdout == picked, "{}", text(&shown.stdout));
    let clean = place.home.join("clean");
    git(&place.home, &["clone", "--quiet", place.repository.to_str().unwrap(), "clean"]);
    git(&clean, &["apply", "--index", "../picked.diff"]);
    assert_eq!(json!(git(&clean, &["write-tree"])), *tree);
    assert_eq!(git(&clean, &["diff", "--cached", "--name-only"]), "src/sync/once_cell.rs");
}

#[test]
#[ignore = "needs peers started by tests/peers/run.sh"]
fn a_real_project_in_every_dialect_to_a_diff_that_git_applies() {
    let judges = Server::start(judge);
    let place = Place::new();
    place.configure(&judges.url());
    let before = contents(&place.repository);

    let record = run(&place, &["--test", "auto", "-o", "picked.diff"]);
    check_lanes(&record);
    check_gates(&record);
    check_winner(&record, "careful/1");
    let questions = judges.requests();
    assert!(!questions.is_empty());
    assert!(questions.iter().all(|question| !text(&question.body).contains("get_mut().map(")));
    check_diff(&place, &candidate(&record, "careful/1")["admission"]["tree"]);
    check_remains(&place);

    // It was the tests that kept the wrong one from winning: without them it does.
    check_winner(&run(&place, &[]), "hasty/1");
    check_remains(&place);
    assert!(contents(&place.repository) == before, "the user's checkout has changed");
}
