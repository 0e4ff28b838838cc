//! `run_bash` with the real warden: the corpora's rows run, or don't.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bakeoff::model::{LaneId, RunToken};
use bakeoff::repo::{Store, StorePaths, UserRepo, Workspace};
use bakeoff::sandbox::{
    JobExit, JobSpec, JobStatus, Launch, Launcher, Permit, SandboxError, Warden, WardenOptions,
};
use bakeoff::tools::{Registry, ToolContext, ToolOutput, open_workspace};
use futures_util::future::BoxFuture;
use git2::{ObjectType, Oid};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/allowlist");

pub fn rows(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(CASES).join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs one of the corpora's scripts.
pub fn script(name: &str, arguments: &[&Path]) {
    let status =
        Command::new("bash").arg(Path::new(CASES).join(name)).args(arguments).status().unwrap();
    assert!(status.success(), "{name}");
}

/// A launcher over the strong tier, or what this machine has.
async fn launcher() -> Launcher {
    let warden =
        Warden::start(&WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() }).unwrap();
    let report = warden.prove().await;
    Launcher::new(warden, Permit::grant(&report, true).unwrap())
}

/// Options that are taken away to see what they hold.
const WEAKENED: [&str; 5] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-pager",
    "--no-show-signature",
    "--ignore-submodules=dirty",
];

/// Runs jobs on the bare host: what a hostile repository would start is then not held by the sandbox,
/// so that git's own hardening is what is tested. With `hardened` off only the command's words are kept.
struct Bare {
    hardened: bool,
    /// Git as if it were older than 2.41.
    old: bool,
}

impl Launch for Bare {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        let mut command = Command::new(&spec.argv[0]);
        let weak = |word: &&OsString| !WEAKENED.iter().any(|w| w == word);
        let words = spec.argv[1..].iter().filter(|word| self.hardened || weak(word));
        command.args(words).current_dir(&spec.cwd).env_clear();
        let kept = |key: &OsString| self.hardened || !key.to_string_lossy().starts_with("GIT_");
        let known = |key: &OsString| !self.old || key != "GIT_ATTR_SOURCE";
        command.envs(spec.env.iter().filter(|(key, _)| kept(key) && known(key)).cloned());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let status = JobStatus::Exited(output.status.code().unwrap_or(-1));
        let output = [output.stdout, output.stderr].concat();
        let exit = JobExit { status, output, dropped: 0, elapsed: Duration::ZERO };
        Box::pin(async move { Ok(exit) })
    }
}

struct Bench {
    dir: TempDir,
    launcher: Arc<dyn Launch>,
}

impl Bench {
    async fn new() -> Self {
        Self::with(Arc::new(launcher().await))
    }

    fn with(launcher: Arc<dyn Launch>) -> Self {
        Self { dir: TempDir::new().unwrap(), launcher }
    }

    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn context(&self, workspace: Arc<Workspace>) -> ToolContext {
        ToolContext::new(
            workspace,
            RunToken::new("0123456789abcdef0123456789abcdef"),
            Some(Arc::clone(&self.launcher)),
            CancellationToken::new(),
        )
    }

    async fn run(&self, dir: &Path, arguments: Value) -> ToolOutput {
        let context = self.context(Arc::new(open_workspace(dir).unwrap()));
        Registry::standard().call(&context, "run_bash", &arguments.to_string()).await
    }
}

/// Every legitimate row gives the exit status that it is listed with.
#[tokio::test]
async fn legitimate_rows_run() {
    let bench = Bench::new().await;
    let space = bench.path("space");
    script("make_fixture.sh", &[&space]);
    let mut failures = Vec::new();
    for row in rows("legit.jsonl") {
        let output = bench.run(&space, json!({"command": row["argv_or_line"]})).await;
        if output.is_error || !output.text.starts_with(&format!("[exit {}]", row["rc"])) {
            failures.push(format!(
                "{}: {}",
                row["argv_or_line"],
                &output.text[..output.text.len().min(300)]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// No hostile row runs, and none leaves a trace.
#[tokio::test]
async fn hostile_rows_do_not_run() {
    let bench = Bench::new().await;
    let space = bench.path("space");
    script("make_fixture.sh", &[&space]);
    let (mark, out, exe) = (bench.path("mark"), bench.path("out"), space.join("exe.sh"));
    let fill = |text: &str| {
        let text =
            text.replace("@MARK", &mark.to_string_lossy()).replace("@OUT", &out.to_string_lossy());
        text.replace("@EXE", &exe.to_string_lossy())
    };
    for row in rows("hostile.jsonl") {
        let command = match &row["argv_or_line"] {
            Value::String(line) => json!(fill(line)),
            words => json!(
                words
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|word| fill(word.as_str().unwrap()))
                    .collect::<Vec<_>>()
            ),
        };
        let output = bench.run(&space, json!({"command": command})).await;
        assert!(output.is_error && output.text.starts_with("refused: "), "{row}: {}", output.text);
    }
    assert!(!mark.exists() && !out.exists() && !space.join("MARK").exists());
}

/// The hostile repository's own git directory without a working tree.
pub const BARE: &str = "vendor/bare";

/// Runs the rows of the hostile repository; what failed, and what was started.
async fn hostile_repository(bench: &Bench) -> (Vec<String>, String) {
    let (space, mark) = (bench.path("hostile"), bench.path("mark"));
    let (mut failures, mut fired) = (Vec::new(), String::new());
    script("make_hostile_repository.sh", &[&space, &mark]);
    for row in rows("hostile_repository.jsonl") {
        let (line, cwd) = (row["line"].as_str().unwrap(), row["cwd"].as_str().unwrap());
        for (dir, arguments) in [
            (space.clone(), json!({"command": line, "dir": cwd})),
            (space.join(cwd), json!({"command": line})),
        ] {
            // A git directory is no workspace, only a directory in one.
            if dir.ends_with(BARE) {
                continue;
            }
            let _ = std::fs::remove_file(&mark);
            let output = bench.run(&dir, arguments).await;
            if output.is_error || !output.text.starts_with("[exit 0]") {
                failures.push(format!("{row}: {}", output.text));
            }
            if let Ok(started) = std::fs::read_to_string(&mark) {
                fired.push_str(&format!("{line}: {}\n", started.replace('\n', " ")));
            }
        }
    }
    (failures, fired)
}

/// Git in a repository whose own configuration, attributes and hooks try to run something.
#[tokio::test]
async fn a_hostile_repository_starts_nothing() {
    let sandboxed = Bench::new().await;
    let bare = Bench::with(Arc::new(Bare { hardened: true, old: false }));
    let old = Bench::with(Arc::new(Bare { hardened: true, old: true }));
    for bench in [sandboxed, bare, old] {
        let (failures, fired) = hostile_repository(&bench).await;
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        assert!(fired.is_empty(), "{fired}");
    }
}

/// The same rows do start things without the hardening, so that the test above can fail.
#[tokio::test]
async fn the_hostile_repository_is_hostile() {
    let (_, fired) =
        hostile_repository(&Bench::with(Arc::new(Bare { hardened: false, old: false }))).await;
    for name in [
        "fsmonitor",
        "extdiff",
        "textconv",
        "clean",
        "included",
        "gpg",
        "subfsmonitor",
        "hook-post-index-change",
    ] {
        assert!(fired.contains(name), "{name} in {fired}");
    }
}

/// A repository within the repository, whose own configuration and attributes name a filter: `git add` and
/// `git rm` would start git in it. They pass over it.
#[tokio::test]
async fn git_is_not_started_in_a_repository_within() {
    let bench = Bench::with(Arc::new(Bare { hardened: true, old: false }));
    let (space, mark) = (bench.path("space"), bench.path("mark"));
    let sub = space.join("sub");
    std::fs::create_dir_all(&sub).unwrap();
    for name in ["near", "far"] {
        std::fs::create_dir_all(space.join(name)).unwrap();
        std::fs::write(space.join(name).join("file"), "one\n").unwrap();
    }
    let git = |dir: &Path, line: &str| {
        let base = "-c advice.addEmbeddedRepo=false -c user.name=a -c user.email=a@localhost";
        let words = base.split(' ').chain(line.split(' '));
        assert!(Command::new("git").args(words).current_dir(dir).status().unwrap().success());
    };
    for dir in [&sub, &space] {
        std::fs::write(dir.join("file"), "one\n").unwrap();
        git(dir, "init -q .");
        git(dir, "add .");
        git(dir, "commit -qm one");
    }
    let filter = format!("[filter \"f\"]\n\tclean = \"echo x >> {}; cat\"\n", mark.display());
    let config = std::fs::read_to_string(sub.join(".git/config")).unwrap();
    std::fs::write(sub.join(".git/config"), config + &filter).unwrap();
    std::fs::write(sub.join(".gitattributes"), "* filter=f\n").unwrap();
    std::fs::write(space.join("new"), "").unwrap();
    // The same size: only the filter could tell whether it is the same.
    std::fs::write(sub.join("file"), "two\n").unwrap();
    let lines = ["add -A", "add .", "add -u", "add sub", "rm --cached -r --ignore-unmatch sub"];
    for line in lines {
        let output = bench.run(&space, json!({"command": format!("git {line}")})).await;
        assert!(output.text.starts_with("[exit 0]"), "{line}: {}", output.text);
        assert!(!mark.exists(), "git {line} started the filter");
    }
    let status = bench.run(&space, json!({"command": "git status --short"})).await.text;
    assert!(status.contains("A  new"), "{status}");
    // What stands within is not found in an index that only git can read.
    for (way, back) in [
        ("update-index --split-index", "update-index --no-split-index"),
        ("sparse-checkout set --cone --sparse-index near", "sparse-checkout disable"),
    ] {
        git(&space, way);
        for line in lines {
            let output = bench.run(&space, json!({"command": format!("git {line}")})).await;
            let why = "refused: it can't be told which repositories stand within";
            assert!(output.text.starts_with(why), "{way}, {line}: {}", output.text);
        }
        let status = bench.run(&space, json!({"command": "git status --short"})).await.text;
        assert!(status.starts_with("[exit 0]") && !mark.exists(), "{way}: {status}");
        git(&space, back);
    }
    git(&space, "add -A");
    assert!(mark.exists(), "without the exclusion the filter runs");
}

/// The library that reads an index for what stands within knows no other names; without a checksum it would not see that.
#[tokio::test]
async fn nothing_is_staged_by_name_where_objects_are_named_by_sha256() {
    let bench = Bench::with(Arc::new(Bare { hardened: true, old: false }));
    for skip in ["false", "true"] {
        let space = bench.path(&format!("space-{skip}"));
        std::fs::create_dir_all(&space).unwrap();
        let git = |line: &str| {
            let status = Command::new("git").args(line.split(' ')).current_dir(&space).status();
            assert!(status.unwrap().success(), "{line}");
        };
        git("init -q --object-format=sha256 .");
        git(&format!("config index.skipHash {skip}"));
        std::fs::write(space.join("file"), "one\n").unwrap();
        git("add file");
        for line in ["add -A", "add file", "rm --cached file"] {
            let output = bench.run(&space, json!({"command": format!("git {line}")})).await;
            let why = "are not run in a repository with SHA-256 object names";
            assert!(output.text.contains(why), "{line}: {}", output.text);
        }
        for line in ["status --short", "reset -q", "status --short"] {
            let output = bench.run(&space, json!({"command": format!("git {line}")})).await;
            assert!(output.text.starts_with("[exit 0]"), "{line}: {}", output.text);
        }
    }
}

/// A lane's own workspace: a linked worktree of the run's repository. Git works in it, staging too, and
/// what was staged and written is the lane's diff; another lane sees nothing of it.
#[tokio::test]
async fn a_lane_has_git_of_its_own() {
    let bench = Bench::new().await;
    let space = bench.path("space");
    script("make_fixture.sh", &[&space]);
    let user = UserRepo::discover(&space).unwrap();
    let head = user.resolve("HEAD").unwrap();
    let paths = StorePaths { cache: bench.path("cache"), run: bench.path("run") };
    let store = Store::prepare(&user, &head, false, &paths).unwrap();
    let lane = |name: &str| bench.context(Arc::new(store.lease(&LaneId::of(name, 1)).unwrap()));
    let (one, two) = (lane("one"), lane("two"));
    let call = async |context: &ToolContext, name: &str, arguments: Value| {
        let output = Registry::standard().call(context, name, &arguments.to_string()).await;
        assert!(!output.is_error, "{name} {arguments}: {}", output.text);
        output.text
    };
    let bash = async |context: &ToolContext, line: &str| {
        call(context, "run_bash", json!({"command": line})).await
    };
    assert_eq!(bash(&one, "git status --short").await, "[exit 0]\n");
    call(
        &one,
        "edit_file",
        json!({"path": "src/lib.rs", "old_string": "fn lib", "new_string": "fn changed"}),
    )
    .await;
    call(&one, "write_file", json!({"path": "src/new.rs", "content": "fn new() {}\n"})).await;
    assert_eq!(bash(&one, "git status --short").await, "[exit 0]\n M src/lib.rs\n?? src/new.rs\n");
    assert!(bash(&one, "git diff").await.contains("+fn changed"));
    for line in [
        "git add -A",
        "git log --oneline -1",
        "git show --stat HEAD",
        "git ls-files",
        "git grep changed",
        "git branch -a",
    ] {
        assert!(bash(&one, line).await.starts_with("[exit 0]"), "{line}");
    }
    assert_eq!(bash(&one, "git status --short").await, "[exit 0]\nM  src/lib.rs\nA  src/new.rs\n");
    assert!(bash(&one, "git reset -q HEAD src/lib.rs").await.starts_with("[exit 0]"));
    assert!(bash(&one, "git reset -q").await.starts_with("[exit 0]"));
    assert_eq!(bash(&one, "git status --short").await, "[exit 0]\n M src/lib.rs\n?? src/new.rs\n");
    assert!(bash(&one, "pwd").await.contains(&*one.workspace.path.to_string_lossy()));
    assert_eq!(bash(&two, "git status --short").await, "[exit 0]\n");
    // What is staged is an object of this lane alone, read by nobody else, not even by its id.
    let staged = Oid::hash_object(ObjectType::Blob, b"fn new() {}\n").unwrap();
    let read = format!("git cat-file -p {staged}");
    assert_eq!(bash(&one, &read).await, "[exit 0]\nfn new() {}\n");
    let arguments = json!({"command": read}).to_string();
    let denied = Registry::standard().call(&two, "run_bash", &arguments).await;
    assert!(denied.text.contains("exit 128"), "{}", denied.text);
    let name = staged.to_string();
    let object = format!("objects/{}/{}", &name[..2], &name[2..]);
    assert!(one.workspace.git_dir.join(&object).exists());
    assert!(!paths.run.join("repo.git").join(&object).exists());
    let diff = String::from_utf8(store.diff(&one.workspace).unwrap()).unwrap();
    assert!(diff.contains("+fn changed") && diff.contains("b/src/new.rs"), "{diff}");
    assert!(store.diff(&two.workspace).unwrap().is_empty());
}

/// The job sees the workspace read-only, and git's directory is written by staging alone.
#[tokio::test]
async fn staging_writes_the_index_and_nothing_else() {
    let bench = Bench::new().await;
    let space = bench.path("space");
    script("make_fixture.sh", &[&space]);
    let staged = |text: String| text.lines().any(|line| line.starts_with("A  .env.example"));
    std::fs::write(space.join(".env.example"), "K=\n").unwrap();
    assert!(!staged(bench.run(&space, json!({"command": "git status --short"})).await.text));
    let added = bench.run(&space, json!({"command": "git add .env.example"})).await;
    assert!(added.text.starts_with("[exit 0]"), "{}", added.text);
    assert!(staged(bench.run(&space, json!({"command": "git status --short"})).await.text));
    bench.run(&space, json!({"command": "git restore --staged .env.example"})).await;
    assert!(!staged(bench.run(&space, json!({"command": "git status --short"})).await.text));
    assert!(space.join(".env.example").exists());
}

/// Searches by `grep -r` and `git grep` pass over what the policy calls a secret and over nothing else that is in doubt.
#[tokio::test]
async fn searches_know_secrets_as_the_policy_does() {
    let bench = Bench::new().await;
    let space = bench.path("space");
    script("make_fixture.sh", &[&space]);
    let secrets = [
        ".docker/config.json",
        ".kube/config",
        "gh/hosts.yml",
        "x/.ENV",
        "srv.PEM",
        ".env.local",
        ".env.te",
    ];
    let shown = [".env.example", ".env.my-sample", "gh/other.yml", "docs/config.json", "x.pem.md"];
    for name in secrets.iter().chain(&shown) {
        let path = space.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "needle99\n").unwrap();
    }
    crate::support::place::git(&space, &["add", "-A", "-f"]);
    for line in
        ["grep -rl needle99 .", "git grep -l needle99", "git diff --cached --name-only -- '*'"]
    {
        let text = bench.run(&space, json!({"command": line})).await.text;
        for name in secrets {
            assert!(!text.contains(name), "{line} shows {name}: {text}");
        }
        for name in shown {
            assert!(text.contains(name), "{line} passes over {name}: {text}");
        }
        assert_eq!(text.contains("were not searched]"), line.starts_with("grep"), "{line}: {text}");
    }
    let remote = ["remote", "add", "origin", "https://me:s3cret@h.invalid/r.git"];
    crate::support::place::git(&space, &remote);
    for line in ["git remote -v", "git remote get-url origin"] {
        let text = bench.run(&space, json!({"command": line})).await.text;
        assert!(
            text.contains("https://[masked]@h.invalid/r.git") && !text.contains("s3cret"),
            "{text}"
        );
    }
}
