//! The gates for real: the engine's own trees, the warden, cargo and a shell. Contracts C14, C15.

mod duel;
mod hacks;
mod told;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bakeoff::gate::{BaseGates, Gatekeeper, tool_of};
use bakeoff::model::{
    Admission, CandidateId, CommandSpec, EventSink, GateKind, GatePlan, GateReport, Origin, TreeId,
    Verdict,
};
use bakeoff::patch::{Rules, admit};
use bakeoff::repo::{Store, StorePaths, UserRepo};
use bakeoff::sandbox::{Launcher, Permit, Warden, WardenOptions, toolchain};
use tokio_util::sync::CancellationToken;

const CHECK: &str = "cargo check --all-targets --keep-going --message-format=json";
const TEST: &str = "cargo test --no-fail-fast";

const LIB: &str = "/// Adds.
pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Multiplies.
pub fn mul(a: i64, b: i64) -> i64 {
    a * b
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}
";

const IT: &str = "#[test]
fn multiplies() {
    assert_eq!(fixture::mul(2, 3), 6);
}
";

/// A repository with a small crate, the run's store, and gates over it.
struct Stage {
    dir: tempfile::TempDir,
    store: Arc<Store>,
    keeper: Gatekeeper,
}

fn git(top: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "-c",
            "core.autocrlf=false",
        ])
        .args(args)
        .current_dir(top)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn write(top: &Path, path: &str, text: &str) {
    let path = top.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn command(line: &str) -> Option<CommandSpec> {
    let tool = tool_of(line);
    (!line.is_empty()).then(|| CommandSpec { line: line.to_owned(), tool, origin: Origin::Flag })
}

impl Stage {
    /// The crate with some files put differently, and these gates.
    async fn of(edits: &[(&str, &str)], check: &str, test: &str, seconds: u64) -> Self {
        Self::with(edits, plan(check, test, seconds)).await
    }

    async fn with(edits: &[(&str, &str)], plan: GatePlan) -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let top = dir.path().join("user");
        fs::create_dir(&top).unwrap();
        git(&top, &["init", "-q", "-b", "main"]);
        let manifest = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        let lock = "version = 4\n\n[[package]]\nname = \"fixture\"\nversion = \"0.1.0\"\n";
        let files = [
            ("Cargo.toml", manifest),
            ("Cargo.lock", lock),
            (".gitignore", "/target/\n"),
            ("src/lib.rs", LIB),
            ("tests/it.rs", IT),
        ];
        for (path, text) in files.iter().chain(edits) {
            write(&top, path, text);
        }
        git(&top, &["add", "-A"]);
        git(&top, &["commit", "-q", "-m", "base"]);
        let user = UserRepo::discover(&top).unwrap();
        let home = dir.path().join("home");
        let paths = StorePaths { cache: home.join("cache"), run: home.join("runs/r") };
        let head = user.resolve("HEAD").unwrap();
        let store = Arc::new(Store::prepare(&user, &head, false, &paths).unwrap());
        let keeper = keeper(&store, plan).await;
        Self { dir, store, keeper }
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    /// The admitted tree of a change, made by git's own diff. An empty text takes a file away.
    fn tree(&self, edits: &[(&str, &str)]) -> TreeId {
        let top = self.top();
        for (path, text) in edits {
            if text.is_empty() {
                fs::remove_file(top.join(path)).unwrap();
            } else {
                write(&top, path, text);
            }
        }
        git(&top, &["add", "-A"]);
        let diff = git(&top, &["diff", "--cached", "--binary"]);
        git(&top, &["reset", "-q", "--hard"]);
        match admit(&diff, self.store.base_tree(), &*self.store, &Rules::default()).unwrap() {
            Admission::Admitted { tree, .. } => tree,
            Admission::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    async fn base(&self) -> BaseGates {
        self.keeper.base(&EventSink::none(), &CancellationToken::new()).await.unwrap()
    }

    async fn gate(
        &self,
        base: &BaseGates,
        index: usize,
        edits: &[(&str, &str)],
    ) -> Vec<GateReport> {
        let tree = self.tree(edits);
        self.gate_tree(base, index, &tree).await
    }

    async fn gate_tree(&self, base: &BaseGates, index: usize, tree: &TreeId) -> Vec<GateReport> {
        let (id, events, cancel) =
            (CandidateId::nth(index), EventSink::none(), CancellationToken::new());
        self.keeper.candidate(&id, tree, base, &events, &cancel).await.unwrap()
    }
}

async fn keeper(store: &Arc<Store>, plan: GatePlan) -> Gatekeeper {
    let program = env!("CARGO_BIN_EXE_bakeoff").into();
    let warden = Warden::start(&WardenOptions { program }).unwrap();
    let permit = Permit::grant(&warden.prove().await, true).unwrap();
    let launcher = Launcher::new(warden, permit);
    let tier = launcher.tier();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let tools = toolchain::discover(&path, &home);
    Gatekeeper::new(store.clone(), Some(Arc::new(launcher)), tier, tools, plan, Vec::new())
}

fn plan(check: &str, test: &str, seconds: u64) -> GatePlan {
    GatePlan {
        setup: None,
        setup_network: false,
        check: command(check),
        test: command(test),
        dir: String::new(),
        env: Vec::new(),
        timeout_seconds: seconds,
        parallel: 2,
        memory_bytes: 4 << 30,
        flaky: 0,
        strict_tests: false,
        own_tests: true,
        protect: Vec::new(),
        disk_bytes: 32 << 30,
    }
}

fn gate(reports: &[GateReport], gate: GateKind) -> &GateReport {
    reports.iter().find(|report| report.gate == gate).unwrap()
}

/// One letter for each gate: P, F, I, S.
fn verdicts(reports: &[GateReport]) -> String {
    let letter = |report: &GateReport| match report.verdict {
        Verdict::Pass => 'P',
        Verdict::Fail { .. } => 'F',
        Verdict::Contested { .. } => 'C',
        Verdict::Infra { .. } => 'I',
        Verdict::Skipped { .. } => 'S',
    };
    reports.iter().map(letter).collect()
}

fn reason(report: &GateReport) -> &str {
    match &report.verdict {
        Verdict::Pass => "",
        Verdict::Fail { reason }
        | Verdict::Contested { reason }
        | Verdict::Infra { reason }
        | Verdict::Skipped { reason } => reason,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn right_wrong_and_hostile_candidates_of_a_healthy_base() {
    let stage = Stage::of(&[], CHECK, TEST, 300).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "PP", "{:#?}", base.reports);

    let right = LIB.replace("a + b", "b + a");
    let untyped = LIB.replace("a + b", "\"x\"");
    let wrong = LIB.replace("a * b", "a - b");
    let exits = LIB.replace("a + b", "std::process::exit(0 * (a + b) as i32)");
    let compiled_out = wrong.replace("cfg(test)", "cfg(any())").replace("a + b\n", "b - a\n");
    let weak = "#[test]\nfn multiplies() {}\n";
    let trees = [
        stage.tree(&[("src/lib.rs", &right)]),
        stage.tree(&[("src/lib.rs", &untyped)]),
        stage.tree(&[("src/lib.rs", &wrong)]),
        // Its own version of the test would pass.
        stage.tree(&[("src/lib.rs", &wrong), ("tests/it.rs", weak)]),
        stage.tree(&[("src/lib.rs", &wrong), ("tests/it.rs", "")]),
        stage.tree(&[("src/lib.rs", &wrong), ("Cargo.toml", NO_TESTS)]),
        stage.tree(&[("src/lib.rs", &exits)]),
        stage.tree(&[("src/lib.rs", &compiled_out), ("tests/it.rs", "")]),
        // Nothing is left of these.
        stage.tree(&[("build.rs", "fn main() {}\n")]),
        stage.tree(&[(".cargo/config.toml", "[alias]\ntest = \"version\"\n")]),
        stage.tree(&[("tests/it.rs", weak)]),
    ];
    let expected = ["PPP", "PFS", "PPF", "PPC", "PPC", "PPF", "PPF", "PPF", "PIS", "PIS", "PPP"];
    let runs = trees.iter().enumerate().map(|(index, tree)| stage.gate_tree(&base, index, tree));
    let first = futures_util::future::join_all(runs).await;
    let told: Vec<String> = first.iter().map(|reports| verdicts(reports)).collect();
    assert_eq!(told, expected, "{first:#?}");

    assert!(reason(gate(&first[1], GateKind::Typecheck)).contains("E0308"));
    assert!(reason(gate(&first[2], GateKind::Test)).contains("tests/it.rs::multiplies"));
    assert!(reason(gate(&first[6], GateKind::Test)).contains("did not run"));
    assert_eq!(stage.keeper.flags(&trees[3]).await.unwrap()[0].code, "changes-tests");
    // Weaker tests and nothing else leave the program as it was, and are nothing to pick.
    let flags = stage.keeper.flags(&trees[10]).await.unwrap();
    assert!(flags.iter().any(|flag| flag.code == "changes-only-tests"), "{flags:?}");
    // The same trees alone and side by side get the same verdicts.
    for (index, tree) in trees.iter().enumerate().take(3) {
        assert_eq!(verdicts(&stage.gate_tree(&base, index, tree).await), expected[index]);
    }
    // The base's build output was reused: a candidate compiles what it changed.
    let output = &gate(&first[0], GateKind::Typecheck).output.text;
    assert!(output.contains("Checking fixture"), "{output}");
    // Nothing of all this is in the user's checkout.
    assert_eq!(git(&stage.top(), &["status", "--porcelain", "--ignored"]), b"");
}

const NO_TESTS: &str = "[package]
name = \"fixture\"
version = \"0.1.0\"
edition = \"2021\"
autotests = false

[lib]
test = false
";

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_test_of_the_base_is_told_from_a_regression() {
    let bug = LIB.replace("a + b", "a - b");
    let stage = Stage::of(&[("src/lib.rs", &bug)], CHECK, TEST, 300).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "PF", "{:#?}", base.reports);
    assert!(reason(&base.reports[1]).starts_with("the base itself fails: 1 failure"));

    let mended = stage.gate(&base, 0, &[("src/lib.rs", LIB)]).await;
    assert_eq!(verdicts(&mended), "PPP");
    let told = gate(&mended, GateKind::Test).base.as_ref().unwrap();
    assert_eq!((told.fixed.len(), told.unchanged, told.base_passed), (1, 0, false));

    let beside = stage.gate(&base, 1, &[("src/lib.rs", &bug.replace("a * b", "b * a"))]).await;
    assert_eq!(verdicts(&beside), "PPP");
    assert_eq!(gate(&beside, GateKind::Test).base.as_ref().unwrap().unchanged, 1);

    let worse = stage.gate(&base, 2, &[("src/lib.rs", &bug.replace("a * b", "a"))]).await;
    assert_eq!(verdicts(&worse), "PPF");
    // The failing test compiled out is not the failing test mended.
    let gone =
        stage.gate(&base, 3, &[("src/lib.rs", &bug.replace("cfg(test)", "cfg(any())"))]).await;
    assert_eq!(verdicts(&gone), "PPP");
    let told = gate(&gone, GateKind::Test).base.as_ref().unwrap();
    assert_eq!((told.fixed.len(), told.unchanged), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_does_not_compile_is_compared_by_its_errors() {
    let broken = format!("{LIB}\npub fn old() -> i64 {{\n    \"x\"\n}}\n");
    let stage = Stage::of(&[("src/lib.rs", &broken)], CHECK, "", 300).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "F");
    let mended = stage.gate(&base, 0, &[("src/lib.rs", LIB)]).await;
    let moved = stage.gate(&base, 1, &[("src/lib.rs", &format!("//! Moved.\n\n{broken}"))]).await;
    let worse = format!("{broken}\npub fn new() -> u8 {{\n    \"y\"\n}}\n");
    let worse = stage.gate(&base, 2, &[("src/lib.rs", &worse)]).await;
    assert_eq!([verdicts(&mended), verdicts(&moved), verdicts(&worse)], ["PP", "PP", "PF"]);
    // An error in tests alone is told, softly.
    let tests = IT.replace("mul(2, 3)", "none(2, 3)");
    let stage = Stage::of(&[], CHECK, "", 300).await;
    let base = stage.base().await;
    let soft = stage.gate(&base, 0, &[("tests/it.rs", &tests)]).await;
    assert_eq!(verdicts(&soft), "PP");
    let told = &gate(&soft, GateKind::Typecheck).diagnostics;
    assert!(told[0].message.starts_with("only in a test target"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_run_is_infra() {
    let stage = Stage::of(&[], "no-such-checker-anywhere .", "", 60).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "I");
    assert!(reason(&base.reports[0]).contains("no-such-checker-anywhere"));
    let right = LIB.replace("a + b", "b + a");
    assert_eq!(verdicts(&stage.gate(&base, 0, &[("src/lib.rs", &right)]).await), "PI");

    let stage = Stage::of(&[], CHECK, "", 300).await;
    let base = stage.base().await;
    let manifest = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
                    [dependencies]\nno-such-crate-of-ours = \"1\"\n";
    let reports = stage.gate(&base, 0, &[("Cargo.toml", manifest), ("src/lib.rs", &right)]).await;
    assert_eq!(verdicts(&reports), "PI", "{reports:#?}");
    assert!(reason(&reports[1]).contains("cargo fetch"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_command_sees_the_candidate_and_nothing_of_ours() {
    // Set in the environment of every cargo test, and no business of a gate.
    let check = "test -z \"$CARGO_MANIFEST_DIR\" && test \"$CI\" = true && ! grep -q slow note.txt || sleep 600";
    let stage = Stage::of(&[("note.txt", "quick\n")], check, "", 5).await;
    let base = stage.base().await;
    assert_eq!(verdicts(&base.reports), "P", "{:#?}", base.reports);
    assert_eq!(verdicts(&stage.gate(&base, 0, &[("note.txt", "other\n")]).await), "PP");
    let slow = stage.gate(&base, 1, &[("note.txt", "slow\n")]).await;
    assert_eq!(verdicts(&slow), "PF");
    assert!(reason(&slow[1]).starts_with("timed out after"), "{}", reason(&slow[1]));
}
