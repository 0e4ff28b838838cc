//! `bakeoff tool`: every row of the allow-list's corpora by the product's program, and how calls end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::support::place::{Done, Place};
use super::tools::{BARE, rows, script};

/// A directory with a fixture in it, and where the program keeps what is its own.
pub struct Ground {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Ground {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { top: dir.path().canonicalize().unwrap(), _dir: dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    /// One call by the program.
    pub fn call(&self, tool: &str, dir: &Path, arguments: &Value) -> Output {
        self.command(tool, dir, arguments).output().unwrap()
    }

    /// The command of one call.
    pub fn command(&self, tool: &str, dir: &Path, arguments: &Value) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command
            .args(["tool", tool, "--args", &arguments.to_string(), "-C"])
            .arg(dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("BAKEOFF_HOME", self.path("bakeoff"));
        command
    }
}

/// Judges every item, four at a time; what is wrong with them.
fn in_parallel<T: Sync>(items: &[T], judge: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::SeqCst)) {
                    wrong.lock().unwrap().extend(judge(item));
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

/// What a call printed: its status and text, when its exit code goes with them.
pub fn told(output: &Output) -> (String, String) {
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let status = answer["status"].as_str().unwrap().to_owned();
    let code = if status == "done" { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{answer}");
    (status, answer["text"].as_str().unwrap().to_owned())
}

// contract C12
#[test]
fn every_hostile_row_is_refused_by_the_program() {
    let ground = Ground::new();
    let space = ground.path("space");
    script("make_fixture.sh", &[&space]);
    let (mark, out, exe) = (ground.path("mark"), ground.path("out"), space.join("exe.sh"));
    let fill = |text: &str| {
        let text = text.replace("@MARK", &mark.to_string_lossy());
        text.replace("@OUT", &out.to_string_lossy()).replace("@EXE", &exe.to_string_lossy())
    };
    let rows = rows("hostile.jsonl");
    assert!(rows.len() >= 174);
    let wrong = in_parallel(&rows, |row| {
        let command = match &row["argv_or_line"] {
            Value::String(line) => json!(fill(line)),
            words => {
                words.as_array().unwrap().iter().map(|word| fill(word.as_str().unwrap())).collect()
            }
        };
        let output = ground.call("run_bash", &space, &json!({ "command": command }));
        let (status, text) = told(&output);
        (status != "refused" || !text.starts_with("refused: ")).then(|| format!("{row}: {text}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!mark.exists() && !out.exists() && !space.join("MARK").exists());
}

// contract C12
#[test]
fn every_legitimate_row_is_run_by_the_program() {
    let ground = Ground::new();
    let space = ground.path("space");
    script("make_fixture.sh", &[&space]);
    let rows = rows("legit.jsonl");
    assert!(rows.len() >= 75);
    let wrong = in_parallel(&rows, |row| {
        let output = ground.call("run_bash", &space, &json!({ "command": row["argv_or_line"] }));
        let (status, text) = told(&output);
        let right = status == "done" && text.starts_with(&format!("[exit {}]", row["rc"]));
        (!right).then(|| format!("{row}: {text}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_hostile_repository_starts_nothing_by_the_program() {
    let ground = Ground::new();
    let (space, mark) = (ground.path("hostile"), ground.path("mark"));
    script("make_hostile_repository.sh", &[&space, &mark]);
    let rows = rows("hostile_repository.jsonl");
    let wrong = in_parallel(&rows, |row| {
        let (line, cwd) = (&row["line"], row["cwd"].as_str().unwrap());
        let inside = ground.call("run_bash", &space, &json!({ "command": line, "dir": cwd }));
        // A git directory is no workspace, only a directory in one.
        let own = (cwd != BARE)
            .then(|| ground.call("run_bash", &space.join(cwd), &json!({ "command": line })));
        [Some(inside), own].iter().flatten().map(told).find_map(|(status, text)| {
            let right = status == "done" && text.starts_with("[exit 0]");
            (!right).then(|| format!("{row}: {text}"))
        })
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap());
}

#[test]
fn a_call_works_on_the_directory_itself() {
    let ground = Ground::new();
    let space = ground.path("space");
    script("make_fixture.sh", &[&space]);
    let done = |tool: &str, arguments: Value| {
        let (status, text) = told(&ground.call(tool, &space, &arguments));
        assert_eq!(status, "done", "{text}");
        text
    };
    let refused = |tool: &str, arguments: Value| {
        let (status, text) = told(&ground.call(tool, &space, &arguments));
        assert_eq!(status, "refused", "{text}");
        text
    };
    done("write_file", json!({"path": "new/file.txt", "content": "text\n"}));
    assert_eq!(fs::read_to_string(space.join("new/file.txt")).unwrap(), "text\n");
    assert_eq!(done("read_file", json!({"path": "README.md"})), "hello\n# TODO needle -x\nmore\n");
    refused("read_file", json!({"path": "link-to-etc/passwd"}));
    refused("read_file", json!({"path": ".env"}));
    refused("read_file", json!({"path": ".git/config"}));
    refused("write_file", json!({"path": "../out.txt", "content": ""}));
    assert!(!ground.path("out.txt").exists());
    // What a model writes can be anything: it is answered, as in a run.
    assert!(refused("read_file", json!("no object")).contains("path"));
    done("run_bash", json!({"command": "git add new/file.txt"}));
    assert!(done("run_bash", json!({"command": "git status --short"})).contains("A  new/file.txt"));
    let submitted = ground.call("submit", &space, &json!({"answer": "done", "claims": []}));
    let submitted: Value = serde_json::from_slice(&submitted.stdout).unwrap();
    assert_eq!(submitted["submission"], json!({"answer": "done", "claims": []}));
}

// contract C16 together: what strict keeps from models is the operator's to call
#[test]
fn code_and_jobs_can_be_called_and_strict_leaves_code_to_the_operator() {
    let place = Place::new();
    place.write("bakeoff.toml", "[workers]\nsandbox = \"strict\"\n");
    place.commit("strict");
    let tool = |name: &str, arguments: Value| -> Done {
        place.run(["tool", name, "--args", &arguments.to_string()])
    };
    let snippet = "print(6 * 7)\nid = call_tool('run_bash', command='cat value.txt', background=True)\nprint(id)";
    tool("code_execution", json!({"code": snippet})).exits(0).prints(&["42", "#1"]);
    tool("bash_jobs", json!({"action": "list"})).exits(0);
    tool("run_bash", json!({"command": "tail -f value.txt", "background": true}))
        .exits(0)
        .prints(&["#1"]);
    tool("run_bash", json!({"command": 5})).exits(1).prints(&["a string, or a list of strings"]);
    tool("run_bash", json!(["ls"])).exits(1).prints(&["they are no object"]);
    tool("delegate_subtask", json!({"task": "x"})).exits(2).says(&["model"]);
}

#[test]
fn what_is_not_there_is_bad_usage_and_switched_off_is_not_there() {
    let place = Place::new();
    let tool = |args: &[&str]| -> Done { place.run([&["tool"], args].concat()) };
    tool(&["no_such_tool"]).exits(2).says(&["no_such_tool", "run_bash"]);
    tool(&["read_file", "-C", "/nowhere/at/all"]).exits(2).says(&["/nowhere/at/all"]);
    tool(&[]).exits(2);
    let listed = tool(&["--list"]).exits(0).json();
    assert!(listed.as_array().unwrap().iter().any(|tool| tool["name"] == "run_bash"));
    tool(&["read_file", "--args", r#"{"path": "value.txt"}"#]).exits(0).prints(&["\"1\\n\""]);
    place.write("bakeoff.toml", "[tools]\nrun_bash = false\n");
    place.commit("no commands");
    tool(&["run_bash", "--args", r#"{"command": "ls"}"#]).exits(2).says(&["switched off"]);
}
