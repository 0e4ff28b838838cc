//! The keeper over trees in memory and a launcher that answers by script.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::gate::grounds::Kept;
use crate::gate::memory::Memory;
use crate::gate::tool_of;
use crate::model::Origin;
use crate::patch::TreeStore;
use crate::repo::RepoError;
use crate::sandbox::{JobExit, JobSpec, JobStatus, Mount, Network, SandboxError};

/// Trees in memory, laid out nowhere.
struct Nowhere {
    memory: Memory,
    base: TreeId,
    laid: Mutex<Vec<(TreeId, bool)>>,
    alive: Arc<AtomicUsize>,
    wrong: bool,
}

struct Place {
    tree: TreeId,
    alive: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ground for Place {
    fn mounts(&self) -> Vec<Mount> {
        Vec::new()
    }

    fn cwd(&self, dir: &str) -> PathBuf {
        PathBuf::from("/w").join(dir)
    }

    fn verify(&self) -> Result<TreeId, RepoError> {
        Ok(self.tree.clone())
    }

    fn into_layer(self: Box<Self>) -> Result<Kept, RepoError> {
        let layer = Arc::new(()) as Arc<dyn Any + Send + Sync>;
        Ok(Kept { layer, rewritten: Vec::new() })
    }
}

impl TreeStore for Nowhere {
    fn tree(&self, id: &TreeId) -> Result<Vec<crate::patch::TreeEntry>, crate::patch::StoreError> {
        self.memory.tree(id)
    }

    fn blob(&self, id: &crate::patch::ObjectId) -> Result<Vec<u8>, crate::patch::StoreError> {
        self.memory.blob(id)
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<crate::patch::ObjectId, crate::patch::StoreError> {
        self.memory.put_blob(bytes)
    }

    fn put_tree(
        &self,
        entries: Vec<crate::patch::TreeEntry>,
    ) -> Result<TreeId, crate::patch::StoreError> {
        self.memory.put_tree(entries)
    }
}

impl Grounds for Nowhere {
    fn base(&self) -> TreeId {
        self.base.clone()
    }

    fn lay(
        &self,
        tree: &TreeId,
        layer: Option<&Layer>,
        _tier: Tier,
    ) -> Result<Box<dyn Ground>, RepoError> {
        self.laid.lock().unwrap().push((tree.clone(), layer.is_some()));
        self.alive.fetch_add(1, Ordering::SeqCst);
        let tree = if self.wrong { TreeId::new("t9999") } else { tree.clone() };
        Ok(Box::new(Place { tree, alive: self.alive.clone() }))
    }

    fn objects(&self) -> &dyn TreeStore {
        self
    }
}

type Answer = Box<dyn Fn(&JobSpec) -> Result<JobExit, SandboxError> + Send + Sync>;

/// Answers each job, and sees how many run at once.
struct Scripted {
    answer: Answer,
    jobs: Mutex<Vec<JobSpec>>,
    now: AtomicUsize,
    most: AtomicUsize,
    /// None ends before so many ran at once.
    together: AtomicUsize,
}

impl Launch for Scripted {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        async move {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            while self.most.load(Ordering::SeqCst) < self.together.load(Ordering::SeqCst) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let result = (self.answer)(&spec);
            self.jobs.lock().unwrap().push(spec);
            self.now.fetch_sub(1, Ordering::SeqCst);
            result
        }
        .boxed()
    }
}

fn exit(status: i32, output: &str) -> Result<JobExit, SandboxError> {
    Ok(JobExit {
        status: JobStatus::Exited(status),
        output: output.as_bytes().to_vec(),
        dropped: 0,
        elapsed: Duration::from_millis(5),
    })
}

struct Bench {
    grounds: Arc<Nowhere>,
    launch: Arc<Scripted>,
    keeper: Gatekeeper,
}

fn plan(setup: &str, check: &str, test: &str) -> GatePlan {
    let command = |line: &str| {
        (!line.is_empty()).then(|| CommandSpec {
            line: line.to_owned(),
            tool: tool_of(line),
            origin: Origin::Flag,
        })
    };
    GatePlan {
        setup: command(setup),
        setup_network: true,
        check: command(check),
        test: command(test),
        dir: "sub".to_owned(),
        env: vec!["NAMED".to_owned()],
        timeout_seconds: 60,
        parallel: 2,
        memory_bytes: 1 << 30,
        flaky: 0,
        strict_tests: false,
        own_tests: true,
        protect: Vec::new(),
        disk_bytes: 32 << 30,
    }
}

fn bench(
    plan: GatePlan,
    answer: impl Fn(&JobSpec) -> Result<JobExit, SandboxError> + Send + Sync + 'static,
) -> Bench {
    let memory = Memory::default();
    let base = memory.of(&[("src/a.ts", "a\n"), ("tsconfig.json", "{}")]);
    let alive = Arc::new(AtomicUsize::new(0));
    let grounds = Arc::new(Nowhere { memory, base, laid: Mutex::default(), alive, wrong: false });
    let launch = Arc::new(Scripted {
        answer: Box::new(answer),
        jobs: Mutex::default(),
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        together: AtomicUsize::new(0),
    });
    let mut keeper = Gatekeeper::new(
        grounds.clone(),
        Some(launch.clone()),
        Tier::Namespaces,
        Toolchains::default(),
        plan,
        vec![("NAMED".into(), "value".into())],
    );
    keeper.room = Room::new(Arc::new(Roomy), 1 << 30);
    Bench { grounds, launch, keeper }
}

/// A machine that always has room.
struct Roomy;

impl crate::gate::room::Gauge for Roomy {
    fn read(&self) -> crate::gate::room::Machine {
        crate::gate::room::Machine { available: None, load: None, cores: 64 }
    }
}

impl Bench {
    async fn base(&self) -> BaseGates {
        self.keeper.base(&EventSink::none(), &CancellationToken::new()).await.unwrap()
    }

    async fn candidate(&self, files: &[(&str, &str)], base: &BaseGates) -> Vec<GateReport> {
        let tree = self.grounds.memory.of(files);
        let id = CandidateId::nth(0);
        let (events, cancel) = (EventSink::none(), CancellationToken::new());
        self.keeper.candidate(&id, &tree, base, &events, &cancel).await.unwrap()
    }
}

fn told(reports: &[GateReport]) -> Vec<String> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Pass => "pass".to_owned(),
        Verdict::Fail { reason } => format!("fail: {reason}"),
        Verdict::Contested { reason } => format!("contested: {reason}"),
        Verdict::Infra { reason } => format!("infra: {reason}"),
        Verdict::Skipped { reason } => format!("skipped: {reason}"),
    };
    reports.iter().map(|r| format!("{} {}", gate_name(r.gate), word(&r.verdict))).collect()
}

const RIGHT: [(&str, &str); 2] = [("src/a.ts", "b\n"), ("tsconfig.json", "{}")];

// contract C15
#[tokio::test]
async fn a_failed_gate_skips_the_later_ones_and_every_command_has_a_tree_of_its_own() {
    let bench = bench(plan("", "tsc", "make test"), |job| match job.label.as_str() {
        "typecheck c1" => exit(2, "src/a.ts(1,1): error TS1: bad\n"),
        _ => exit(0, ""),
    });
    let base = bench.base().await;
    assert_eq!(told(&base.reports), ["typecheck pass", "test pass"]);
    let reports = bench.candidate(&RIGHT, &base).await;
    assert_eq!(
        told(&reports),
        [
            "apply pass",
            "typecheck fail: 1 new failure: src/a.ts:1: TS1: bad",
            "test skipped: the typecheck gate was not passed",
        ]
    );
    assert_eq!(reports[1].base.as_ref().unwrap().new_failures.len(), 1);
    let laid: Vec<bool> = bench.grounds.laid.lock().unwrap().iter().map(|(_, l)| *l).collect();
    // The base, the admitted tree as it is, the typecheck over the base's layer.
    assert_eq!(laid, [false, false, true]);
    assert_eq!(bench.grounds.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn jobs_get_a_whole_environment_and_only_setup_the_network() {
    let bench = bench(plan("npm ci", "tsc", ""), |_| exit(0, ""));
    let base = bench.base().await;
    bench.candidate(&RIGHT, &base).await;
    let jobs = bench.launch.jobs.lock().unwrap();
    let networks: Vec<Network> = jobs.iter().map(|job| job.network).collect();
    assert_eq!(networks, [Network::Host, Network::Off, Network::Off]);
    let last = jobs.last().unwrap();
    assert!(last.env.contains(&("NAMED".into(), "value".into())));
    assert!(last.env.contains(&("CI".into(), "true".into())));
    assert_eq!(last.cwd, PathBuf::from("/w/sub"));
    assert_eq!(last.argv, ["sh", "-c", "tsc"].map(OsString::from));
    assert!(jobs.iter().all(|job| job.token != jobs[0].token || job.label == jobs[0].label));
}

#[tokio::test]
async fn a_base_that_could_not_run_proves_nobody_and_runs_nothing_more() {
    let bench = bench(plan("", "mypy .", "make test"), |job| match job.label.as_str() {
        "typecheck base" => exit(127, "sh: 1: mypy: not found\n"),
        _ => exit(0, ""),
    });
    let base = bench.base().await;
    let reports = bench.candidate(&RIGHT, &base).await;
    assert!(told(&reports)[1].starts_with("typecheck infra: it could not run on the base"));
    assert!(told(&reports)[2].starts_with("test skipped"));
    assert_eq!(bench.launch.jobs.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_setup_that_fails_stops_the_base_and_proves_nobody() {
    let bench = bench(plan("npm ci", "tsc", ""), |_| exit(1, "npm error\n"));
    let base = bench.base().await;
    assert_eq!(
        told(&base.reports),
        ["setup infra: setup failed: exit status 1", "typecheck skipped: setup did not succeed"]
    );
    let reports = bench.candidate(&RIGHT, &base).await;
    assert!(told(&reports)[1].starts_with("typecheck infra: it did not run on the base"));
}

#[tokio::test]
async fn a_candidate_of_which_nothing_is_left_is_not_proved() {
    let bench = bench(plan("", "tsc", ""), |_| exit(0, ""));
    let base = bench.base().await;
    let hack = [("src/a.ts", "a\n"), ("tsconfig.json", "{\"exclude\": [\"src\"]}")];
    let reports = bench.candidate(&hack, &base).await;
    assert!(told(&reports)[1].contains("changes only what comes from the base"), "{reports:?}");
    let tree = bench.grounds.memory.of(&hack);
    assert_eq!(bench.keeper.flags(&tree).await.unwrap()[0].code, "touches-gate");
}

#[tokio::test]
async fn a_tree_on_disk_that_is_not_the_admitted_one_fails() {
    let mut bench = bench(plan("", "tsc", ""), |_| exit(0, ""));
    let base = bench.base().await;
    let memory = Memory::default();
    let tree = memory.of(&[("src/a.ts", "a\n"), ("tsconfig.json", "{}")]);
    let wrong =
        Nowhere { memory, base: tree, laid: Mutex::default(), alive: Arc::default(), wrong: true };
    bench.grounds = Arc::new(wrong);
    bench.keeper.grounds = bench.grounds.clone();
    let reports = bench.candidate(&RIGHT, &base).await;
    assert!(told(&reports)[0].starts_with("apply fail: the tree on disk is t9999"));
    assert!(told(&reports)[1].starts_with("typecheck skipped"));
}

// contract C18
#[tokio::test]
async fn without_a_sandbox_nothing_runs() {
    let mut bench = bench(plan("", "tsc", ""), |_| exit(0, ""));
    bench.keeper.launch = None;
    let base = bench.base().await;
    assert!(told(&base.reports)[0].starts_with("typecheck infra: no sandbox, no execution"));
    let reports = bench.candidate(&RIGHT, &base).await;
    assert!(reports[1].verdict.is_infra());
    assert!(bench.launch.jobs.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_sandbox_error_is_infra_and_a_cancelled_run_is_an_error() {
    let bench1 = bench(plan("", "tsc", ""), |job| match job.label.as_str() {
        "typecheck c1" => Err(SandboxError::Setup("no mount".to_owned())),
        _ => exit(0, ""),
    });
    let base = bench1.base().await;
    let reports = bench1.candidate(&RIGHT, &base).await;
    assert_eq!(told(&reports)[1], "typecheck infra: failed to set up the sandbox: no mount");

    let bench2 = bench(plan("", "tsc", ""), |_| Err(SandboxError::Cancelled));
    let result = bench2.keeper.base(&EventSink::none(), &CancellationToken::new()).await;
    assert!(matches!(result, Err(GateError::Cancelled)));
}

#[tokio::test]
async fn no_more_gates_run_side_by_side_than_the_plan_says() {
    let bench = bench(plan("", "tsc", "make test"), |_| exit(0, ""));
    let base = bench.base().await;
    bench.launch.together.store(2, Ordering::SeqCst);
    let runs = (0..12).map(|_| bench.candidate(&RIGHT, &base));
    let all = futures_util::future::join_all(runs).await;
    assert!(all.iter().all(|reports| reports.iter().all(|report| report.verdict.is_pass())));
    assert_eq!(bench.launch.most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn without_commands_only_the_apply_gate_speaks() {
    let bench = bench(plan("", "", ""), |_| exit(0, ""));
    let base = bench.base().await;
    assert!(base.reports.is_empty());
    assert_eq!(told(&bench.candidate(&RIGHT, &base).await), ["apply pass"]);
}

#[tokio::test]
async fn every_gate_is_told_as_an_event() {
    let bench = bench(plan("", "tsc", ""), |_| exit(0, ""));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = seen.clone();
        EventSink::new(move |event| {
            let word = match event {
                RunEvent::GateBegan { candidate, command } => {
                    format!("began {candidate:?} {command}")
                }
                RunEvent::Gated { candidate, report } => {
                    format!("gated {candidate:?} {}", gate_name(report.gate))
                }
                _ => "other".to_owned(),
            };
            seen.lock().unwrap().push(word);
        })
    };
    let cancel = CancellationToken::new();
    let base = bench.keeper.base(&sink, &cancel).await.unwrap();
    let tree = bench.grounds.memory.of(&RIGHT);
    bench.keeper.candidate(&CandidateId::nth(0), &tree, &base, &sink, &cancel).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "began None tsc",
            "gated None typecheck",
            "gated Some(CandidateId(\"c1\")) apply",
            "began Some(CandidateId(\"c1\")) tsc",
            "gated Some(CandidateId(\"c1\")) typecheck",
        ]
    );
}

#[test]
fn a_pass_counts_for_the_sources_that_were_admitted() {
    let rewrote = |paths: &[&str]| Ok(paths.iter().map(|path| (*path).to_owned()).collect());
    assert_eq!(untouched(rewrote(&[]), &[]), Verdict::Pass);
    assert_eq!(untouched(rewrote(&["Cargo.lock", "web/package-lock.json"]), &[]), Verdict::Pass);
    assert_eq!(untouched(rewrote(&["snap.txt"]), &["snap.txt".to_owned()]), Verdict::Pass);
    let verdict = untouched(rewrote(&["src/lib.rs"]), &["snap.txt".to_owned()]);
    assert!(matches!(verdict, Verdict::Fail { reason } if reason.contains("src/lib.rs")));
    let verdict = untouched(Err(RepoError::Mismatch("x".to_owned())), &[]);
    assert!(matches!(verdict, Verdict::Infra { .. }));
}

#[tokio::test]
async fn failed_tests_run_again_as_often_as_the_plan_says_and_in_fresh_trees() {
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = runs.clone();
    let mut plan = plan("", "", "pytest");
    plan.flaky = 2;
    let bench = bench(plan, move |job| {
        let summary = |text: &str| format!("== short test summary info ==\n{text}\n");
        match job.label.as_str() {
            "test base" => exit(0, &summary("PASSED t.py::a\nPASSED t.py::b")),
            _ => match seen.fetch_add(1, Ordering::SeqCst) {
                0 => exit(1, &summary("FAILED t.py::a - x\nPASSED t.py::b")),
                _ => exit(0, &summary("PASSED t.py::a\nPASSED t.py::b")),
            },
        }
    });
    let base = bench.base().await;
    // The base runs its tests as often as the plan says, to know what is flaky there.
    assert_eq!(bench.launch.jobs.lock().unwrap().len(), 3);
    let reports = bench.candidate(&RIGHT, &base).await;
    assert_eq!(told(&reports), ["apply pass", "test pass"]);
    let flaky = &reports[1].flaky[0];
    assert_eq!(
        (flaky.name.as_str(), flaky.failed, flaky.passed, flaky.on_base),
        ("t.py::a", 1, 1, false)
    );
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let laid = bench.grounds.laid.lock().unwrap().len();
    // The base, the admitted tree, and one for each run.
    assert_eq!(laid, 4);
}
