//! `bakeoff tool` on a repository of the operator's own: what a call may not do to its git directory, because
//! the operator's next git command, outside of every sandbox, would run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::support::place::git;
use super::tool_command::{Ground, told};

/// A repository with one commit, and the call's ground.
struct Bench {
    ground: Ground,
    repo: PathBuf,
    mark: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let ground = Ground::new();
        let (repo, mark) = (ground.path("repo"), ground.path("mark"));
        fs::create_dir_all(repo.join("sub")).unwrap();
        let bench = Self { ground, repo, mark };
        git(&bench.repo, &["init", "-q", "-b", "main", "."]);
        git(&bench.repo, &["config", "user.name", "Ada"]);
        git(&bench.repo, &["config", "user.email", "ada@localhost"]);
        fs::write(bench.repo.join("file.txt"), "one\n").unwrap();
        fs::write(bench.repo.join("sub/file.txt"), "one\n").unwrap();
        git(&bench.repo, &["add", "-A"]);
        git(&bench.repo, &["commit", "-q", "-m", "one"]);
        bench
    }

    fn code(&self, dir: &Path, code: &str) -> (String, String) {
        let code = code.replace("@MARK", &self.mark.to_string_lossy());
        told(&self.ground.call("code_execution", dir, &json!({ "code": code })))
    }

    /// What the operator does next, in each of these directories.
    fn work_on(&self, dirs: &[&Path]) {
        for dir in dirs {
            git(dir, &["status"]);
            git(
                dir,
                &[
                    "-c",
                    "user.name=A",
                    "-c",
                    "user.email=a@localhost",
                    "commit",
                    "-q",
                    "--allow-empty",
                    "-m",
                    "two",
                ],
            );
            git(dir, &["checkout", "-q", "-b", "other"]);
        }
        assert!(!self.mark.exists(), "{}", fs::read_to_string(&self.mark).unwrap());
    }
}

/// Everything that makes git run a program later, by any means that may not raise an error.
const ATTACK: &str = r#"
import os, shutil
hostile = '[core]\n\tfsmonitor = "echo fsmonitor >> @MARK; false"\n\thooksPath = hooks\n'
hook = '#!/bin/sh\necho hook >> @MARK\n'
def attempt(work):
    try:
        work()
    except OSError as error:
        print('stopped', error.errno)
def write(path, text, mode='a'):
    with open(path, mode) as out:
        out.write(text)
    os.chmod(path, 0o755)
def swap(old):
    os.rename(old, old + '.away')
    os.mkdir(old)
for top in TOPS:
    at = os.path.join(top, '.git')
    if os.path.isdir(at):
        print('holds', os.listdir(at))
        attempt(lambda: write(at + '/config', hostile))
        attempt(lambda: write(at + '/hooks/pre-commit', hook))
        attempt(lambda: write(at + '/hooks/post-checkout', hook))
        attempt(lambda: shutil.rmtree(at))
    else:
        print('holds', open(at).read())
        attempt(lambda: write(at, 'gitdir: /tmp/evil\n', 'w'))
        attempt(lambda: os.unlink(at))
    attempt(lambda: swap(at))
    attempt(lambda: os.symlink('/tmp', at))
    write('written', 'x')
"#;

fn attack(tops: &str) -> String {
    format!("TOPS = {tops}{ATTACK}")
}

#[test]
fn code_reaches_no_git_directory_of_the_operators() {
    let bench = Bench::new();
    let nested = bench.repo.join("sub/nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q", "-b", "main", "."]);
    let before = fs::read(bench.repo.join(".git/config")).unwrap();
    let (status, text) = bench.code(&bench.repo, &attack("['.', 'sub/nested']"));
    assert_eq!((status.as_str(), text.matches("holds []").count()), ("done", 2), "{text}");
    assert!(!text.contains("repository was made"), "{text}");
    assert_eq!(fs::read(bench.repo.join(".git/config")).unwrap(), before);
    assert!(bench.repo.join("written").exists());
    bench.work_on(&[&bench.repo, &nested]);
}

#[test]
fn code_can_not_lead_a_linked_worktree_to_another_git_directory() {
    let bench = Bench::new();
    let linked = bench.ground.path("linked");
    git(&bench.repo, &["worktree", "add", "-q", "-b", "linked", linked.to_str().unwrap()]);
    let before = fs::read(linked.join(".git")).unwrap();
    let (status, text) = bench.code(&linked, &attack("['.']"));
    assert_eq!((status.as_str(), text.contains("holds \n")), ("done", true), "{text}");
    assert_eq!(fs::read(linked.join(".git")).unwrap(), before);
    bench.work_on(&[&linked]);
}

#[test]
fn a_git_directory_that_can_not_be_kept_from_code_is_no_execution() {
    let bench = Bench::new();
    let store = bench.ground.path("store");
    fs::rename(bench.repo.join(".git"), &store).unwrap();
    std::os::unix::fs::symlink(&store, bench.repo.join(".git")).unwrap();
    let (status, text) = bench.code(&bench.repo, "open('made', 'w')");
    assert_eq!(
        (status.as_str(), text.contains("the code was not run")),
        ("refused", true),
        "{text}"
    );
    assert!(!bench.repo.join("made").exists());
}

#[test]
fn a_repository_that_code_makes_is_told() {
    let bench = Bench::new();
    let code = "import os; os.makedirs('new/.git'); print('done')";
    let (status, text) = bench.code(&bench.repo, code);
    assert_eq!(status, "done");
    assert!(text.contains("a git repository was made: \"new/.git\""), "{text}");
    let (_, text) = bench.code(&bench.repo, "print('done')");
    assert!(!text.contains("repository was made"), "{text}");
}

#[test]
fn a_git_directory_is_no_workspace() {
    let bench = Bench::new();
    let bare = bench.ground.path("bare.store");
    git(&bench.repo, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let hook = json!({"path": "pre-commit", "content": "x", "executable": true});
    for dir in [".git", ".git/hooks", ".git/refs/heads"].map(|dir| bench.repo.join(dir)) {
        let output = bench.ground.call("write_file", &dir, &hook);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!dir.join("pre-commit").exists());
    }
    for dir in [bare.clone(), bare.join("hooks")] {
        let output = bench.ground.call("write_file", &dir, &hook);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("is a git directory"));
    }
}

#[test]
fn a_git_directory_by_another_name_among_the_files_is_no_workspace() {
    let bench = Bench::new();
    fs::rename(bench.repo.join(".git"), bench.repo.join("store")).unwrap();
    let hook = json!({"path": "store/hooks/pre-commit", "content": "x", "executable": true});
    let refused = || {
        let output = bench.ground.call("write_file", &bench.repo, &hook);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("lies among its files"));
        assert!(!bench.repo.join("store/hooks/pre-commit").exists());
    };
    fs::write(bench.repo.join(".git"), "gitdir: store\n").unwrap();
    refused();
    fs::remove_file(bench.repo.join(".git")).unwrap();
    std::os::unix::fs::symlink("store", bench.repo.join(".git")).unwrap();
    refused();
}

#[test]
fn what_is_staged_from_a_part_of_a_repository_is_of_that_part() {
    let bench = Bench::new();
    for name in
        ["file.txt", "sub/file.txt", "new.txt", "sub/new.txt", "sub/.env", "sub/.env.example"]
    {
        fs::write(bench.repo.join(name), "two\n").unwrap();
    }
    let sub = bench.repo.join("sub");
    let run = |dir: &Path, line: &str| {
        let (status, text) = told(&bench.ground.call("run_bash", dir, &json!({ "command": line })));
        assert!(status == "done" && text.starts_with("[exit 0]"), "{line}: {text}");
    };
    let staged = || git(&bench.repo, &["diff", "--cached", "--name-only"]);
    run(&sub, "git add -u");
    assert_eq!(staged(), "sub/file.txt\n");
    // A secret is not staged, neither by its name nor with all the rest.
    for line in ["git add -A", "git add ."] {
        run(&sub, line);
        assert_eq!(staged(), "sub/.env.example\nsub/file.txt\nsub/new.txt\n");
    }
    let named = told(&bench.ground.call("run_bash", &sub, &json!({"command": "git add .env"})));
    assert_eq!(named.0, "refused");
    git(&bench.repo, &["add", "file.txt"]);
    for line in ["git reset -q", "git reset -q HEAD", "git reset -q @ --"] {
        git(&sub, &["add", "file.txt"]);
        run(&sub, line);
        assert_eq!(staged(), "file.txt\n", "{line}");
    }
    run(&bench.repo, "git add -A");
    assert_eq!(staged(), "file.txt\nnew.txt\nsub/.env.example\nsub/file.txt\nsub/new.txt\n");
}

#[test]
fn an_index_that_is_a_pipe_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    let index = bench.repo.join(".git/index");
    fs::remove_file(&index).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&index).status().unwrap();
    assert!(made.success());
    for line in ["git add file.txt", "git rm --cached file.txt", "git reset -q"] {
        let line = json!({ "command": line });
        let (status, text) = told(&bench.ground.call("run_bash", &bench.repo, &line));
        assert!(status == "refused" && text.contains("no regular file"), "{line}: {text}");
    }
}

/// Everything below a git directory, by name.
fn names_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        found.push(entry.path().to_str().unwrap().to_owned());
        if entry.file_type().unwrap().is_dir() {
            found.extend(names_below(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Git itself leaves its lock and half a pack behind when it is killed, and refuses everything after that.
#[test]
fn a_git_command_that_is_ended_while_it_stages_leaves_all_as_it_was() {
    let bench = Bench::new();
    let git_dir = bench.repo.join(".git");
    // So large that nobody waits for it.
    fs::File::create(bench.repo.join("large")).unwrap().set_len(1 << 30).unwrap();
    let line = json!({"command": "git add large"});
    let before = names_below(&git_dir);
    // What runs in the background ends with the call.
    let background = json!({"command": "git add large", "background": true});
    assert_eq!(told(&bench.ground.call("run_bash", &bench.repo, &background)).0, "done");
    assert_eq!(names_below(&git_dir), before);

    // The engine is killed in the middle. What it could not take away goes with the next command that stages.
    let mut command = bench.ground.command("run_bash", &bench.repo, &line);
    let mut engine = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_half = || names_below(&git_dir).iter().any(|name| name.contains("given/index.lock"));
    while !is_half() {
        assert!(engine.try_wait().unwrap().is_none(), "it ended before it was seen");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert!(git_dir.join("index.lock").exists());
    let stages = |path: &str| {
        let line = json!({"command": format!("git add {path}")});
        let (status, text) = told(&bench.ground.call("run_bash", &bench.repo, &line));
        assert!(status == "done" && text.starts_with("[exit 0]"), "{text}");
    };
    fs::write(bench.repo.join("small"), "small\n").unwrap();
    stages("small");
    assert_eq!(git(&bench.repo, &["diff", "--cached", "--name-only"]), "small\n");
    git(&bench.repo, &["fsck", "--strict"]);
    let left = |name: &&String| name.contains("bakeoff") || name.contains("lock");
    assert_eq!(names_below(&git_dir).iter().find(left), None);

    // Another command's lock is nobody's to take away.
    fs::write(git_dir.join("index.lock"), "").unwrap();
    let (status, text) = told(&bench.ground.call("run_bash", &bench.repo, &line));
    assert!(status == "refused" && text.contains("another git command works on the index"));
    fs::remove_file(git_dir.join("index.lock")).unwrap();
    fs::write(bench.repo.join("small"), "other\n").unwrap();
    stages("small");
    assert_eq!(git(&bench.repo, &["show", ":small"]), "other\n");
}
