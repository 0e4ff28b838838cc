//! Git commands that a gate runs in the tree of a repository whose own configuration, attributes and
//! hooks try to run something.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bakeoff::gate::{Gatekeeper, tool_of};
use bakeoff::model::{CommandSpec, EventSink, GatePlan, Origin};
use bakeoff::repo::{Store, StorePaths, UserRepo};
use bakeoff::sandbox::{
    JobExit, JobSpec, JobStatus, Launch, Launcher, Permit, SandboxError, Tier, Warden,
    WardenOptions, toolchain,
};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/allowlist");

/// Runs jobs on the bare host, where nothing holds what a repository would start.
struct Bare;

impl Launch for Bare {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        let mut command = Command::new(&spec.argv[0]);
        command.args(&spec.argv[1..]).current_dir(&spec.cwd).env_clear();
        let output = command.envs(spec.env).stdin(Stdio::null()).output().unwrap();
        let status = JobStatus::Exited(output.status.code().unwrap_or(-1));
        let output = [output.stdout, output.stderr].concat();
        let exit = JobExit { status, output, dropped: 0, elapsed: Duration::ZERO };
        Box::pin(async move { Ok(exit) })
    }
}

/// A command of every row's line, each in its directory, that fails when something was started.
fn command(mark: &Path) -> String {
    let text = fs::read_to_string(Path::new(CASES).join("hostile_repository.jsonl")).unwrap();
    let line = |row: &str| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let (line, cwd) = (row["line"].as_str().unwrap(), row["cwd"].as_str().unwrap());
        format!("(cd {cwd} && {line}) >/dev/null 2>&1\n")
    };
    let lines: String = text.lines().map(line).collect();
    format!(
        "{lines}git add -A; git commit -qm x; git stash; git checkout -q -b y\ncat {0} && exit 1\necho quiet",
        mark.display()
    )
}

/// A hostile repository, whose mark a job could write in its view as well.
fn hostile() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let top = dir.path().canonicalize().unwrap().join("hostile");
    let mark = top.join("MARK");
    let script = Path::new(CASES).join("make_hostile_repository.sh");
    let made = Command::new("bash").arg(script).args([&top, &mark]).status().unwrap();
    assert!(made.success());
    // The attributes become part of the base.
    let safe = [
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "filter.fl.clean=cat",
    ];
    for args in [&["add", ".gitattributes", ".gitmodules"][..], &["commit", "-qm", "attributes"]] {
        let done = Command::new("git").args(safe).args(args).current_dir(&top).status().unwrap();
        assert!(done.success());
    }
    let _ = fs::remove_file(&mark);
    (dir, top, mark)
}

async fn check(top: &Path, run: PathBuf, mark: &Path, launch: Arc<dyn Launch>, tier: Tier) {
    let user = UserRepo::discover(top).unwrap();
    let paths = StorePaths { cache: run.with_extension("cache"), run };
    let head = user.resolve("HEAD").unwrap();
    let store = Arc::new(Store::prepare(&user, &head, false, &paths).unwrap());
    let line = command(mark);
    let plan = GatePlan {
        setup: None,
        setup_network: false,
        check: Some(CommandSpec { tool: tool_of(&line), line, origin: Origin::Flag }),
        test: None,
        dir: String::new(),
        env: Vec::new(),
        timeout_seconds: 300,
        parallel: 1,
        memory_bytes: 4 << 30,
        disk_bytes: 32 << 30,
        flaky: 0,
        strict_tests: false,
        own_tests: true,
        protect: Vec::new(),
    };
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let tools = toolchain::discover(&path, Path::new("/nonexistent"));
    let keeper = Gatekeeper::new(store, Some(launch), tier, tools, plan, Vec::new());
    let base = keeper.base(&EventSink::none(), &CancellationToken::new()).await.unwrap();
    let report = &base.reports[0];
    assert!(report.verdict.is_pass() && report.output.text.contains("quiet"), "{report:#?}");
    assert!(!mark.exists(), "{}", fs::read_to_string(mark).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn git_commands_of_a_gate_start_nothing_of_a_hostile_repository() {
    let (dir, top, mark) = hostile();
    let program = env!("CARGO_BIN_EXE_bakeoff").into();
    let warden = Warden::start(&WardenOptions { program }).unwrap();
    let permit = Permit::grant(&warden.prove().await, true).unwrap();
    let launcher = Launcher::new(warden, permit);
    let tier = launcher.tier();
    check(&top, dir.path().join("run"), &mark, Arc::new(launcher), tier).await;
    check(&top, dir.path().join("bare"), &mark, Arc::new(Bare), Tier::None).await;
    // Even with the engine's own home inside the repository.
    check(&top, top.join("home/run"), &mark, Arc::new(Bare), Tier::None).await;
}

/// The same commands do start things in the checkout itself, so that the test above can fail.
#[test]
fn the_same_commands_start_things_in_the_checkout() {
    let (_dir, top, mark) = hostile();
    let line = command(&mark);
    let done = Command::new("sh").args(["-c", &line]).current_dir(&top).output().unwrap();
    assert!(!done.status.success());
    let fired = fs::read_to_string(&mark).unwrap();
    for name in ["fsmonitor", "textconv", "clean", "hook-post-index-change"] {
        assert!(fired.contains(name), "{name} in {fired}");
    }
}
