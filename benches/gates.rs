//! The `cargo check` gates of eight candidates of a real Rust project, against a cold worktree for each
//! and against one worktree that is used again, in the same run: medians and ratios. Ours are timed one at a
//! time, and as a run does them by default: two at a time, which one worktree can't.
//!
//! `cargo bench --bench gates -- REPOSITORY [CANDIDATES]` works on a clone of it, whose dependencies it fetches first.
//! A candidate adds a function to one source file; the files are spread over the project.
//! `BAKEOFF_BENCH_DIR` says where it all lies.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff::gate::{BaseGates, Gatekeeper, tool_of};
use bakeoff::model::{Admission, CandidateId, CommandSpec, EventSink, GatePlan, Origin};
use bakeoff::patch::{Rules, admit};
use bakeoff::repo::{Store, StorePaths, UserRepo};
use bakeoff::sandbox::{Launcher, Permit, Warden, WardenOptions, toolchain};
use tokio_util::sync::CancellationToken;

const CANDIDATES: usize = 8;
/// Rounds of all candidates together, and gates at once in them: what a run does by default.
const ROUNDS: usize = 5;
const AT_ONCE: u32 = 2;
const CHECK: &str = "cargo check --offline";

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(given) = arguments.next() else {
        eprintln!("name a Rust project: cargo bench --bench gates -- REPOSITORY");
        return;
    };
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(CANDIDATES);
    let place = std::env::var_os("BAKEOFF_BENCH_DIR").unwrap_or("/var/tmp".into());
    let place = tempfile::tempdir_in(place).expect("a temporary directory");
    let top = place.path().join("user");
    git(place.path(), &["clone", "-q", &given, &text(&top)], b"");
    assert!(cargo(&top, &["fetch"]), "the dependencies can't be fetched");
    let diffs = candidates(&top, count);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let began = Instant::now();
    let ours = runtime.block_on(Ours::new(&top, place.path()));
    let base = began.elapsed();
    let reused = place.path().join("reused");
    worktree(&top, &reused);
    let began = Instant::now();
    assert!(check(&reused), "the base does not pass");
    let reused_base = began.elapsed();
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        times.together.push(timed(|| runtime.block_on(ours.all(&diffs))));
    }
    for (number, diff) in diffs.iter().enumerate() {
        times.ours.push(timed(|| runtime.block_on(ours.gate(number, diff))));
        times.reused.push(timed(|| again(&reused, diff)));
        times.cold.push(timed(|| cold(&top, &place.path().join("cold"), diff)));
    }
    println!("{} tracked files, {count} candidates", tracked(&top).len());
    println!(
        "the base, once: ours {base:.2?} (store, layer, probes, check), a worktree's check {reused_base:.2?}"
    );
    times.tell();
}

/// What each candidate took, in each way.
#[derive(Default)]
struct Times {
    ours: Vec<Duration>,
    /// All candidates, some at a time; one for each round.
    together: Vec<Duration>,
    reused: Vec<Duration>,
    cold: Vec<Duration>,
}

impl Times {
    fn tell(self) {
        let ours = (median(&self.ours), self.ours.iter().sum::<Duration>());
        let together = median(&self.together);
        for (name, times) in [
            ("an overlay at the same path", &self.ours),
            ("one reused worktree", &self.reused),
            ("a cold worktree each", &self.cold),
        ] {
            let (median, sum) = (median(times), times.iter().sum::<Duration>());
            println!(
                "{name:<28} median {median:>8.2?}, all {sum:>8.2?}; {:.1} and {:.1} times ours, all {:.1} times \
                 ours of {AT_ONCE} at a time",
                median.as_secs_f64() / ours.0.as_secs_f64(),
                sum.as_secs_f64() / ours.1.as_secs_f64(),
                sum.as_secs_f64() / together.as_secs_f64()
            );
        }
        println!("overlays, {AT_ONCE} at a time      all {together:>8.2?}");
    }
}

/// The engine's gates over the base's own.
struct Ours {
    store: Arc<Store>,
    keeper: Gatekeeper,
    base: BaseGates,
}

impl Ours {
    async fn new(top: &Path, place: &Path) -> Self {
        let user = UserRepo::discover(top).expect("a repository");
        let paths = StorePaths { cache: place.join("cache"), run: place.join("runs/r") };
        let head = user.resolve("HEAD").expect("a commit");
        let store = Store::prepare(&user, &head, false, &paths).expect("the engine's store");
        let store = Arc::new(store);
        let program = env!("CARGO_BIN_EXE_bakeoff").into();
        let warden = Warden::start(&WardenOptions { program }).expect("a warden");
        let permit = Permit::grant(&warden.prove().await, true).expect("a permit");
        let launcher = Launcher::new(warden, permit);
        let (tier, env) = (launcher.tier(), |name| std::env::var_os(name).unwrap_or_default());
        let tools = toolchain::discover(&env("PATH"), &PathBuf::from(env("HOME")));
        let launch = Some(Arc::new(launcher) as _);
        let keeper = Gatekeeper::new(store.clone(), launch, tier, tools, plan(), Vec::new());
        let base = keeper.base(&EventSink::none(), &CancellationToken::new()).await;
        let base = base.expect("the base's gates");
        assert!(base.reports[0].verdict.is_pass(), "{:#?}", base.reports);
        Self { store, keeper, base }
    }

    /// All candidates, as many at a time as the plan says.
    async fn all(&self, diffs: &[Vec<u8>]) {
        let gates = diffs.iter().enumerate().map(|(number, diff)| self.gate(number, diff));
        futures_util::future::join_all(gates).await;
    }

    /// Everything from a diff to its verdict.
    async fn gate(&self, number: usize, diff: &[u8]) {
        let verdict = admit(diff, self.store.base_tree(), &*self.store, &Rules::default());
        let Ok(Admission::Admitted { tree, .. }) = verdict else { panic!("{verdict:?}") };
        let (id, cancel) = (CandidateId::nth(number), CancellationToken::new());
        let events = EventSink::none();
        let gates = self.keeper.candidate(&id, &tree, &self.base, &events, &cancel).await;
        let gates = gates.expect("the gates");
        assert!(gates.iter().all(|gate| gate.verdict.is_pass()), "{gates:#?}");
    }
}

fn plan() -> GatePlan {
    let check = CommandSpec { line: CHECK.to_owned(), tool: tool_of(CHECK), origin: Origin::Flag };
    GatePlan {
        setup: None,
        setup_network: false,
        check: Some(check),
        test: None,
        dir: String::new(),
        env: Vec::new(),
        timeout_seconds: 1800,
        parallel: AT_ONCE,
        memory_bytes: 16 << 30,
        disk_bytes: 32 << 30,
        flaky: 0,
        strict_tests: false,
        own_tests: true,
        protect: Vec::new(),
    }
}

/// The plain way: a worktree, the diff, the check, and all of it thrown away.
fn cold(top: &Path, at: &Path, diff: &[u8]) {
    worktree(top, at);
    git(at, &["apply", "-"], diff);
    assert!(check(at), "a candidate does not pass");
    git(top, &["worktree", "remove", "--force", &text(at)], b"");
}

/// The clever way: a worktree that was checked before, put back to the base.
fn again(at: &Path, diff: &[u8]) {
    git(at, &["checkout", "-q", "--", "."], b"");
    git(at, &["apply", "-"], diff);
    assert!(check(at), "a candidate does not pass");
}

fn worktree(top: &Path, at: &Path) {
    git(top, &["worktree", "add", "-q", "--detach", &text(at)], b"");
}

fn check(at: &Path) -> bool {
    cargo(at, &["check", "--offline"])
}

/// Cargo as in a shell, not as in a benchmark.
fn cargo(at: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(at).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        let is_home = shown == "CARGO_HOME" || shown == "RUSTUP_HOME";
        if !is_home && (shown.starts_with("CARGO") || shown.starts_with("RUST")) {
            command.env_remove(&name);
        }
    }
    command.status().is_ok_and(|status| status.success())
}

/// Diffs that each add a function to another source file of the project's libraries and programs.
fn candidates(top: &Path, count: usize) -> Vec<Vec<u8>> {
    let is_source = |path: &String| {
        path.ends_with(".rs")
            && (path.starts_with("src/") || path.contains("/src/"))
            && fs::read_to_string(top.join(path)).is_ok_and(|text| text.ends_with("}\n"))
    };
    let files: Vec<String> = tracked(top).into_iter().filter(is_source).collect();
    assert!(files.len() >= count, "the project has too few source files");
    let step = files.len() / count;
    let chosen = files.iter().step_by(step).take(count).enumerate();
    chosen.map(|(number, file)| diff(top, file, number)).collect()
}

fn diff(top: &Path, file: &str, number: usize) -> Vec<u8> {
    let path = top.join(file);
    let text = fs::read_to_string(&path).expect("a source file");
    let added =
        format!("\n#[allow(dead_code)]\nfn candidate_{number}() -> usize {{\n    {number}\n}}\n");
    fs::write(&path, text.clone() + &added).expect("a source file");
    let diff = git(top, &["diff", "--full-index"], b"");
    git(top, &["checkout", "-q", "--", "."], b"");
    diff
}

fn tracked(top: &Path) -> Vec<String> {
    let names = String::from_utf8_lossy(&git(top, &["ls-files"], b"")).into_owned();
    names.lines().map(str::to_owned).collect()
}

fn git(dir: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is there");
    child.stdin.take().expect("a pipe").write_all(input).expect("git reads");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
