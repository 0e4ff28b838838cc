//! Carried directories and kept output with a real cargo: what is of another branch or another base never
//! decides a verdict, and dependencies are built once.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bakeoff::gate::{BaseGates, Gatekeeper, tool_of};
use bakeoff::model::{
    Admission, CandidateId, CommandSpec, EventSink, GatePlan, GateReport, Origin, RunEvent, Verdict,
};
use bakeoff::patch::{Rules, admit};
use bakeoff::repo::{Store, StorePaths, UserRepo};
use bakeoff::sandbox::{Launcher, Permit, Tier, Warden, WardenOptions, toolchain};
use tokio_util::sync::CancellationToken;

const CHECK: &str = "cargo check --offline -v";
const LIB: &str = "pub fn one() -> u32 {\n    dep::zero() + 1\n}\n";
/// The other branch's: `one` is not there.
const OTHER: &str = "pub fn extra() -> u32 {\n    dep::zero() + 2\n}\n";
/// Candidates that call what only one of the branches has.
const RIGHT: &str = "fn main() {\n    println!(\"{}\", fixture::one());\n}\n";
const WRONG: &str = "fn main() {\n    println!(\"{}\", fixture::extra());\n}\n";

/// A crate with a dependency that needs no network, and a place for runs.
struct Yard {
    dir: tempfile::TempDir,
}

/// One run's gates.
struct Run {
    store: Arc<Store>,
    keeper: Gatekeeper,
    warnings: Arc<Mutex<Vec<String>>>,
    events: EventSink,
    tier: Tier,
}

struct Asked<'a> {
    setup: &'a str,
    check: &'a str,
    carry: &'a [&'a str],
    patience: Duration,
}

const CARGO: Asked<'_> =
    Asked { setup: "", check: CHECK, carry: &["target"], patience: Duration::from_secs(60) };

fn git(top: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false"])
        .args(args)
        .current_dir(top)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The user's own cargo, as in a shell and not as in a test.
fn cargo(top: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(top).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && text != "CARGO_HOME"
            || text.starts_with("RUST") && text != "RUSTUP_HOME"
        {
            command.env_remove(name);
        }
    }
    command
}

impl Yard {
    fn new() -> Self {
        let yard = Self { dir: tempfile::tempdir_in("/tmp").unwrap() };
        fs::create_dir(yard.top()).unwrap();
        let manifest = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
                        [dependencies]\ndep = \"1\"\n";
        let dep = "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
        let source = "[source.crates-io]\nreplace-with = \"vendored\"\n\n\
                      [source.vendored]\ndirectory = \"vendor\"\n";
        for (path, text) in [
            ("Cargo.toml", manifest),
            (".cargo/config.toml", source),
            (".gitignore", "/target/\n__pycache__/\n/out/\n"),
            ("vendor/dep/Cargo.toml", dep),
            ("vendor/dep/.cargo-checksum.json", "{\"files\":{}}"),
            ("vendor/dep/src/lib.rs", "pub fn zero() -> u32 {\n    0\n}\n"),
            ("src/lib.rs", LIB),
        ] {
            yard.write(path, text);
        }
        git(&yard.top(), &["init", "-q", "-b", "main"]);
        assert!(
            cargo(&yard.top(), &["generate-lockfile", "--offline"]).status().unwrap().success()
        );
        yard.commit("main");
        yard
    }

    /// One whose checkout has the other branch, and its build output.
    fn on_another_branch() -> Self {
        let yard = Self::new();
        git(&yard.top(), &["checkout", "-q", "-b", "other"]);
        yard.write("src/lib.rs", OTHER);
        yard.commit("other");
        yard
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("home/cache")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.top().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(&self, message: &str) {
        git(&self.top(), &["add", "-A"]);
        git(&self.top(), &["commit", "-q", "-m", message]);
    }

    async fn run(&self, name: &str, rev: &str, asked: &Asked<'_>) -> Run {
        let user = UserRepo::discover(&self.top()).unwrap();
        let paths =
            StorePaths { cache: self.cache(), run: self.dir.path().join("home/runs").join(name) };
        let base = user.resolve(rev).unwrap();
        let store = Arc::new(Store::prepare(&user, &base, false, &paths).unwrap());
        let program = env!("CARGO_BIN_EXE_bakeoff").into();
        let warden = Warden::start(&WardenOptions { program }).unwrap();
        let permit = Permit::grant(&warden.prove().await, true).unwrap();
        let launcher = Launcher::new(warden, permit);
        let tier = launcher.tier();
        let command = |line: &str| {
            let origin = Origin::Flag;
            (!line.is_empty()).then(|| CommandSpec {
                line: line.to_owned(),
                tool: tool_of(line),
                origin,
            })
        };
        let plan = GatePlan {
            setup: command(asked.setup),
            setup_network: false,
            check: command(asked.check),
            test: None,
            dir: String::new(),
            env: Vec::new(),
            timeout_seconds: 300,
            parallel: 2,
            memory_bytes: 4 << 30,
            disk_bytes: 32 << 30,
            flaky: 0,
            strict_tests: false,
            own_tests: true,
            protect: Vec::new(),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let mut tools = toolchain::discover(&path, &home);
        tools.kept.push(("of-a-test", "/home/bakeoff-job/.cache/of-a-test".into()));
        let launch = Some(Arc::new(launcher) as _);
        let keeper = Gatekeeper::new(store.clone(), launch, tier, tools, plan, Vec::new())
            .carrying(asked.carry.iter().map(|path| (*path).to_owned()).collect())
            .patient(asked.patience);
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&warnings);
        let events = EventSink::new(move |event: RunEvent| {
            if let RunEvent::Warned { warning } = event {
                heard.lock().unwrap().push(warning.message);
            }
        });
        Run { store, keeper, warnings, events, tier }
    }

    /// Moves all that was kept an hour back, as if time had passed.
    fn age(&self) {
        let dir = self.cache().join("v2/setup");
        let mut todo = vec![dir];
        while let Some(path) = todo.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if meta.is_file() {
                let then = meta.modified().unwrap() - Duration::from_secs(3600);
                fs::File::open(&path).unwrap().set_modified(then).unwrap();
            }
            if path.ends_with("setup.json") {
                let mut note: serde_json::Value =
                    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                for key in ["made", "newest"] {
                    note[key] = (note[key].as_i64().unwrap() - 3600).into();
                }
                fs::write(&path, note.to_string()).unwrap();
            }
        }
    }

    fn kept(&self) -> usize {
        let entries = fs::read_dir(self.cache().join("v2/setup")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().join("entry.json").is_file()).count()
    }
}

impl Run {
    async fn base(&self) -> BaseGates {
        self.keeper.base(&self.events, &CancellationToken::new()).await.unwrap()
    }

    /// Whether a candidate that adds a program passes the typecheck.
    async fn passes(&self, base: &BaseGates, path: &str, text: &str) -> bool {
        let report = self.checked(base, path, text).await;
        match &report.verdict {
            Verdict::Pass => true,
            Verdict::Fail { .. } => false,
            other => panic!("{other:?}: {report:#?}"),
        }
    }

    /// What the typecheck says of a candidate that adds a file.
    async fn checked(&self, base: &BaseGates, path: &str, text: &str) -> GateReport {
        let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
        let diff = format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
             @@ -0,0 +1,{} @@\n{lines}",
            text.lines().count()
        );
        let tree = self.admit(&diff);
        let (id, cancel) = (CandidateId::nth(0), CancellationToken::new());
        let reports = self.keeper.candidate(&id, &tree, base, &EventSink::none(), &cancel).await;
        reports.unwrap().swap_remove(1)
    }

    fn admit(&self, diff: &str) -> bakeoff::model::TreeId {
        let rules = Rules::default();
        let told = admit(diff.as_bytes(), self.store.base_tree(), &*self.store, &rules).unwrap();
        match told {
            Admission::Admitted { tree, .. } => tree,
            Admission::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    /// The two candidates: right and wrong.
    async fn verdicts(&self, base: &BaseGates) -> (bool, bool) {
        let right = self.passes(base, "src/main.rs", RIGHT).await;
        (right, self.passes(base, "src/main.rs", WRONG).await)
    }

    fn warnings(&self) -> String {
        self.warnings.lock().unwrap().join("\n")
    }
}

fn output(report: &GateReport) -> &str {
    &report.output.text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_another_branch_gives_dependencies_and_no_verdict() {
    let yard = Yard::on_another_branch();
    assert!(cargo(&yard.top(), &["check", "--offline"]).status().unwrap().success());
    let before = fs::read(yard.top().join("target/.rustc_info.json")).unwrap();
    let run = yard.run("r", "main", &CARGO).await;
    let base = run.base().await;
    assert!(base.reports[0].verdict.is_pass(), "{:#?}", base.reports);
    assert_eq!(run.warnings(), "");
    let told = output(&base.reports[0]);
    assert!(told.contains("Checking fixture"), "{told}");
    if run.tier.can_mount() {
        assert!(told.contains("Fresh dep"), "{told}");
    }
    assert_eq!(run.verdicts(&base).await, (true, false));
    // Nothing was written to the checkout.
    assert_eq!(git(&yard.top(), &["status", "--porcelain"]), b"");
    assert_eq!(fs::read(yard.top().join("target/.rustc_info.json")).unwrap(), before);
}

/// A build in the user's checkout, of the other branch, that stops in its build script until told to go on.
struct Build {
    child: Child,
    gate: fs::File,
}

impl Build {
    fn begin(yard: &Yard) -> Self {
        let fifo = yard.dir.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let script = format!(
            "fn main() {{\n    std::fs::read({:?}).unwrap();\n    println!(\"cargo:rerun-if-changed=src\");\n}}\n",
            fifo.display().to_string()
        );
        yard.write("build.rs", &script);
        let child = cargo(&yard.top(), &["check", "--offline"]).spawn().unwrap();
        // Opening blocks until the script reads.
        let gate = fs::File::options().write(true).open(&fifo).unwrap();
        Self { child, gate }
    }

    fn end(mut self) {
        self.gate.write_all(b"go").unwrap();
        drop(self.gate);
        assert!(self.child.wait().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_going_on_in_the_checkout_gives_no_verdict_either() {
    let yard = Yard::on_another_branch();
    let build = Build::begin(&yard);
    let impatient = Asked { patience: Duration::ZERO, ..CARGO };
    let run = yard.run("r1", "main", &impatient).await;
    let base = run.base().await;
    assert!(run.warnings().contains("a build is going on"), "{}", run.warnings());
    assert_eq!(run.verdicts(&base).await, (true, false));
    // One that ends while it is waited for, and goes on to write meanwhile.
    let run = yard.run("r2", "main", &CARGO).await;
    let (base, ()) = tokio::join!(run.base(), async {
        tokio::task::spawn_blocking(|| build.end()).await.unwrap()
    });
    assert_eq!(run.warnings(), "");
    assert_eq!(run.verdicts(&base).await, (true, false));
}

/// The trap itself: with the other branch's output in place as it is, cargo takes it for the base's. If
/// this fails, the tests above prove nothing any more.
#[test]
fn cargo_takes_newer_output_of_other_sources_for_fresh() {
    let yard = Yard::on_another_branch();
    assert!(cargo(&yard.top(), &["check", "--offline"]).status().unwrap().success());
    yard.write("src/lib.rs", LIB);
    yard.write("src/main.rs", WRONG);
    let past = std::time::UNIX_EPOCH + Duration::from_secs(1_704_067_200);
    fs::File::open(yard.top().join("src/lib.rs")).unwrap().set_modified(past).unwrap();
    assert!(cargo(&yard.top(), &["check", "--offline"]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_base_is_kept_and_lies_under_a_later_one() {
    let yard = Yard::new();
    let asked = Asked { setup: "mkdir -p out && echo $$ > out/setup", carry: &[], ..CARGO };
    let run = yard.run("r1", "main", &asked).await;
    let base = run.base().await;
    assert_eq!(base.reports.iter().filter(|report| report.reused.is_some()).count(), 0);
    assert_eq!(run.verdicts(&base).await, (true, false));
    if !run.tier.can_mount() {
        assert_eq!(yard.kept(), 0);
        return;
    }
    assert_eq!(yard.kept(), 1);
    drop((run, base));

    // The same base again: setup is left out, and everything is fresh.
    let run = yard.run("r2", "main", &asked).await;
    let base = run.base().await;
    assert!(base.reports[0].reused.as_ref().unwrap().starts_with("the same base"));
    assert!(output(&base.reports[1]).contains("Fresh fixture"), "{}", output(&base.reports[1]));
    assert_eq!(run.verdicts(&base).await, (true, false));
    // Another command has output of its own.
    let other = Asked { check: "cargo check --offline", ..asked };
    let run = yard.run("r3", "main", &other).await;
    assert_eq!(run.base().await.reports[0].reused, None);

    // A later base of the other kind: what was made of the earlier one decides nothing.
    yard.write("src/lib.rs", OTHER);
    yard.commit("renamed");
    yard.age();
    for name in ["r5", "r6"] {
        let run = yard.run(name, "main", &asked).await;
        let base = run.base().await;
        let (reused, told) = (base.reports[0].reused.clone().unwrap(), output(&base.reports[1]));
        assert_eq!(reused.starts_with("an earlier base"), name == "r5", "{reused}");
        assert!(told.contains("Fresh dep"), "{told}");
        assert_eq!(told.contains("Checking fixture"), name == "r5", "{told}");
        assert_eq!(run.verdicts(&base).await, (false, true));
    }
}

/// Python believes a compiled file when the source has the same size and time as it says. A source that
/// goes and one that comes back are told apart, too, however many bases lie under each other.
#[tokio::test(flavor = "multi_thread")]
async fn compiled_python_of_earlier_bases_is_not_believed() {
    let yard = Yard::new();
    let check = "unset PYTHONDONTWRITEBYTECODE; python3 -c 'import m; print(\"m is\", m.X)'; python3 -c 'import n; print(\"n is\", n.X)'; true";
    let asked = Asked { setup: "", check, carry: &[], ..CARGO };
    let mut shown = 0;
    for (n, other) in ["1", "", "2", "", "3", "4", "5", "6"].iter().enumerate() {
        yard.write("m.py", &format!("X = {n}\n"));
        match other.is_empty() {
            true => fs::remove_file(yard.top().join("n.py")).unwrap(),
            false => yard.write("n.py", &format!("X = {other}\n")),
        }
        yard.commit("next");
        let run = yard.run(&format!("r{n}"), "main", &asked).await;
        let base = run.base().await;
        let told = output(&base.reports[0]);
        assert!(told.contains(&format!("m is {n}\n")), "{told}");
        assert_eq!(told.contains("No module named 'n'"), other.is_empty(), "{told}");
        assert!(other.is_empty() || told.contains(&format!("n is {other}\n")), "{told}");
        if run.tier.can_mount() {
            shown += usize::from(base.reports[0].reused.is_some());
            assert_eq!(yard.kept(), n + 1);
        }
        yard.age();
        // The times that compiled files hold of their sources were not moved back with the rest: two
        // runs in one second would differ in nothing.
        let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let now = second();
        while second() == now {
            std::thread::yield_now();
        }
    }
    // Now and then the layers are too many, and all begins anew.
    assert!(shown == 0 || shown > 3, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_that_failed_or_was_cancelled_is_not_kept() {
    let yard = Yard::new();
    for (name, setup, check) in [
        ("failed", "mkdir out; exit 3", "true"),
        ("infra", "mkdir out", "no-such-program-anywhere"),
        ("rewrites", "mkdir out; echo >> src/lib.rs", "true"),
    ] {
        let run = yard.run(name, "main", &Asked { setup, check, carry: &[], ..CARGO }).await;
        run.base().await;
        assert_eq!(yard.kept(), 0, "{name}");
    }
    let run = yard
        .run("cancelled", "main", &Asked { setup: "mkdir out; sleep 600", carry: &[], ..CARGO })
        .await;
    let cancel = CancellationToken::new();
    let (stop, events) = (cancel.clone(), EventSink::new(|_| ()));
    let began = EventSink::new(move |event: RunEvent| {
        if matches!(event, RunEvent::GateBegan { .. }) {
            stop.cancel();
        }
    });
    drop(events);
    assert!(run.keeper.base(&began, &cancel).await.is_err());
    assert_eq!(yard.kept(), 0);
    let fine = Asked { setup: "mkdir out", check: "true", carry: &[], ..CARGO };
    let run = yard.run("fine", "main", &fine).await;
    run.base().await;
    assert_eq!(yard.kept(), usize::from(run.tier.can_mount()));
}

/// What a gate deletes of carried or kept output stays deleted for the candidates.
#[tokio::test(flavor = "multi_thread")]
async fn what_setup_deletes_of_carried_output_stays_deleted() {
    let yard = Yard::new();
    yard.write("out/a", "old\n");
    yard.write("out/b", "old\n");
    let check = "test -e out/new && ! test -e out/a && ! test -e out/b && ! test -e wrong";
    let asked =
        Asked { setup: "rm -r out && mkdir out && touch out/new", check, carry: &["out"], ..CARGO };
    for name in ["r1", "r2"] {
        let run = yard.run(name, "main", &asked).await;
        let base = run.base().await;
        assert!(base.reports[1].verdict.is_pass(), "{:#?}", base.reports);
        assert!(run.passes(&base, "right", "x\n").await);
        assert!(!run.passes(&base, "wrong", "x\n").await);
    }
    assert_eq!(fs::read(yard.top().join("out/a")).unwrap(), b"old\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_derived_files_are_not_carried_unless_named() {
    let yard = Yard::new();
    for path in [
        "out/.env",
        "out/.env.local",
        "out/.env.example",
        "out/sub/.npmrc",
        "out/node_modules/x/index.js",
        "out/node_modules/.cache/tsc.tsbuildinfo",
    ] {
        yard.write(path, "x\n");
    }
    fs::write(yard.top().join(".git/info/exclude"), ".env\n").unwrap();
    yard.write(".env", "SECRET=1\n");
    let check = "find out -type f | sort; ls -a";
    let run = yard.run("r1", "main", &Asked { check, carry: &["out"], ..CARGO }).await;
    let base = run.base().await;
    let told = output(&base.reports[0]);
    assert!(told.contains("out/.env.example\nout/node_modules/x/index.js\n"), "{told}");
    for left in ["out/.env\n", ".env.local", ".npmrc", ".cache", "\n.env\n"] {
        assert!(!told.contains(left), "{left} in {told}");
    }
    let run = yard
        .run("r2", "main", &Asked { check, carry: &["out", ".env", "src", "none"], ..CARGO })
        .await;
    let base = run.base().await;
    assert!(output(&base.reports[0]).contains("\n.env\n"), "{}", output(&base.reports[0]));
    assert!(
        run.warnings().contains("src of the checkout was not carried along: the base tracks it")
    );
}

/// All of a snapshot is older than every source, in the order that it was, and compiled Python goes back
/// with its source.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_older_than_every_source() {
    let yard = Yard::new();
    yard.write("out/new", "x\n");
    yard.write("out/old", "x\n");
    yard.write("out/mod.py", "X = 1\n");
    let time = |path: &str| fs::metadata(yard.top().join("out").join(path)).unwrap().mtime();
    let at = |path: &str, seconds: u64| {
        let when = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::open(yard.top().join("out").join(path)).unwrap().set_modified(when).unwrap();
    };
    at("new", 4_000_000_000);
    at("old", 3_999_999_990);
    at("mod.py", 3_999_999_995);
    let compile = "import py_compile; py_compile.compile('out/mod.py', cfile='out/mod.pyc')";
    let made = Command::new("python3").args(["-c", compile]).current_dir(yard.top()).status();
    assert!(made.unwrap().success());
    at("mod.pyc", 3_999_999_996);
    let check =
        "cd out && stat -c '%n %Y' new old mod.py ../src/lib.rs && od -An -tu4 -j8 -N4 mod.pyc";
    let run = yard.run("r", "main", &Asked { check, carry: &["out"], ..CARGO }).await;
    let base = run.base().await;
    let told = output(&base.reports[0]);
    let number = |name: &str| -> i64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert_eq!(number("new ") - number("old "), 10, "{told}");
    assert!(number("new ") < number("../src/lib.rs "), "{told}");
    let compiled: i64 = told.lines().last().unwrap().trim().parse().unwrap();
    assert_eq!(compiled, number("mod.py "), "{told}");
    assert_eq!(time("new"), 4_000_000_000);
}

/// However many directories are carried, each is a layer.
#[tokio::test(flavor = "multi_thread")]
async fn many_directories_are_carried() {
    let yard = Yard::new();
    let names: Vec<String> = (0..20).map(|n| format!("p{n}/node_modules")).collect();
    for name in &names {
        yard.write(&format!("{name}/x.js"), "x\n");
    }
    let carry: Vec<&str> = names.iter().map(String::as_str).collect();
    let check = "test $(ls p*/node_modules/x.js | wc -l) = 20";
    let run = yard.run("r", "main", &Asked { check, carry: &carry, ..CARGO }).await;
    let base = run.base().await;
    assert!(base.reports[0].verdict.is_pass(), "{:#?}", base.reports);
    assert!(run.passes(&base, "right", "x\n").await);
}

/// A cache of build output outside the tree: a candidate begins with what the base's gates left in it, and
/// what it adds goes with it. It is kept between runs, lies under later bases', and is told apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_tools_own_cache_is_the_bases_under_every_candidate() {
    let yard = Yard::new();
    let check = "cd ~/.cache/of-a-test && echo \"had: $(ls | xargs)\" && \
                 touch \"$(cat $OLDPWD/who 2>/dev/null || echo base)\"";
    let asked = Asked { check, carry: &[], ..CARGO };
    let run = yard.run("r1", "main", &asked).await;
    let base = run.base().await;
    assert_eq!(output(&base.reports[0]), "had: \n", "{:#?}", base.reports);
    let had = if run.tier.can_mount() { "had: base\n" } else { "had: \n" };
    for who in ["one", "two"] {
        let report = run.checked(&base, "who", who).await;
        assert_eq!(output(&report), had, "{report:#?}");
    }
    drop((base, run));
    let run = yard.run("r2", "main", &asked).await;
    let base = run.base().await;
    assert_eq!(output(&base.reports[0]), had, "kept between runs");
    drop((base, run));
    yard.age();
    yard.write("src/lib.rs", OTHER);
    yard.write("who", "later");
    yard.commit("later");
    let run = yard.run("r3", "main", &asked).await;
    let base = run.base().await;
    assert_eq!(output(&base.reports[0]), had, "under a later base");
    let report = run.checked(&base, "else", "x").await;
    let had = if run.tier.can_mount() { "had: base later\n" } else { "had: \n" };
    assert_eq!(output(&report), had);
    // A base whose gates changed its own sources leaves no cache either.
    let spoils = "echo spoilt > src/lib.rs; cd ~/.cache/of-a-test && ls | xargs && touch spoilt";
    let run = yard.run("r4", "main", &Asked { check: spoils, carry: &[], ..CARGO }).await;
    let base = run.base().await;
    let report = run.checked(&base, "else", "x").await;
    assert_eq!(output(&report), "\n", "{report:#?}");
}
