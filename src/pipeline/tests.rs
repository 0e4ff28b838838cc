//! The order of the stages, on phases that are made for the test: each protects the outcome.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fanout::LaneRun;
use crate::journal::{Masker, RunDir, Runs};
use crate::model::*;
use crate::worker::Floor;

/// Six workers: the better a diff looks to the judge, the worse it is.
const DIFFS: [&str; 5] = ["stale", "does not compile", "fails a test", "right", "right and better"];

struct Workers;

impl Work for Workers {
    fn attempt(&self, run: LaneRun, _: CancellationToken) -> BoxFuture<'static, Attempt> {
        async move {
            let diff = DIFFS.get(run.index).unwrap_or(&"").as_bytes().to_vec();
            Attempt { diff, turns: 1, ..Attempt::nothing(Stop::Submitted) }
        }
        .boxed()
    }
}

struct Strict {
    apply: bool,
}

impl Admit for Strict {
    fn admit(&self, diff: &[u8]) -> Result<Admission, PipelineError> {
        let text = String::from_utf8_lossy(diff).into_owned();
        if self.apply && text == "stale" {
            return Ok(Admission::Refused(Refusal {
                code: "hunk-not-found".into(),
                message: "stale".into(),
                path: None,
                hunk: None,
                expected: None,
                found: None,
            }));
        }
        let (repairs, flags, files) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Admission::Admitted { tree: TreeId::new(text), repairs, flags, files })
    }

    fn canonical(&self, tree: &TreeId) -> Result<Vec<u8>, PipelineError> {
        Ok(tree.as_str().as_bytes().to_vec())
    }
}

/// Refutes what each of its gates is there for. A stale diff that was forced in passes both: only
/// admission knows that it was made for other code.
struct Gates {
    typecheck: bool,
    test: bool,
}

impl Prove for Gates {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn candidate<'a>(
        &'a self,
        _: &'a CandidateId,
        tree: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        let gate = |on: bool, gate, refuted: &str| {
            let verdict = match on && tree.as_str() == refuted {
                true => Verdict::Fail { reason: refuted.to_owned() },
                false => Verdict::Pass,
            };
            GateReport::bare(gate, verdict)
        };
        let reports = vec![
            gate(self.typecheck, GateKind::Typecheck, "does not compile"),
            gate(self.test, GateKind::Test, "fails a test"),
        ];
        async move { Ok(reports) }.boxed()
    }
}

struct Agreement;

impl Weigh for Agreement {
    fn weigh(&self, survivors: &[Survivor]) -> Result<Weighed, PipelineError> {
        let last = survivors.iter().rev().find(|one| one.tree.as_str() == "right");
        let chosen = last.unwrap_or(&survivors[0]);
        let choice = Decision { basis: Some(Basis::Evidence), ..wins(chosen) };
        Ok(Weighed {
            scores: vec![None; survivors.len()],
            facts: Vec::new(),
            choice,
            trust_doubt: None,
        })
    }
}

fn wins(survivor: &Survivor) -> Decision {
    Decision {
        outcome: Outcome::Winner { candidate: survivor.id.clone(), tree: survivor.tree.clone() },
        basis: Some(Basis::Judges),
        confidence: Confidence::Medium,
        reason: String::new(),
        evidence: Vec::new(),
    }
}

/// A judge with the worst taste: of what it is shown it takes the worst, unless it is right.
struct BadTaste;

impl Judge for BadTaste {
    fn panel<'a>(
        &'a self,
        finalists: &'a [Survivor],
        _: &'a [crate::judge::DuelText],
    ) -> BoxFuture<'a, Result<Heard, PipelineError>> {
        let ballot = Ballot {
            judge: JudgeId::new("taste"),
            model: "m".into(),
            origin: JudgeOrigin { layer: "builtin".into(), sha256: String::new() },
            left: finalists[0].id.clone(),
            right: finalists[1].id.clone(),
            order: Order::Forward,
            choice: Choice::Left,
            vetoes: Vec::new(),
            reason: String::new(),
            evidence: Vec::new(),
            duel: None,
            usage: Usage::default(),
        };
        async move { Ok(Heard { ballots: vec![ballot], unreachable: None }) }.boxed()
    }

    fn tally(&self, finalists: &[Survivor], _: &[Ballot], _: &[Control]) -> Decision {
        let worst = finalists.iter().find(|one| !one.tree.as_str().starts_with("right"));
        let better = finalists.iter().find(|one| one.tree.as_str() == "right and better");
        wins(worst.or(better).unwrap_or(&finalists[0]))
    }
}

fn plan(attempts: u32) -> Plan {
    let model = ModelRef { provider: "p".into(), model: "m".into() };
    let lane = Lane {
        name: "l".into(),
        model,
        attempts,
        family: Family::new("f"),
        temperature: None,
        fallback: Vec::new(),
        limits: None,
    };
    Plan {
        task: Some(Task { text: "t".into(), source: TaskSource::Demo }),
        repo: "/r".into(),
        base: "HEAD".into(),
        dirty: false,
        lanes: vec![lane],
        gates: GatePlan {
            setup: None,
            setup_network: false,
            check: None,
            test: None,
            dir: String::new(),
            env: Vec::new(),
            timeout_seconds: 1,
            parallel: 2,
            memory_bytes: 0,
            flaky: 0,
            strict_tests: false,
            own_tests: true,
            protect: Vec::new(),
            disk_bytes: 0,
        },
        patch: PatchPlan::default(),
        judging: JudgePlan {
            judges: Vec::new(),
            models: Vec::new(),
            synth: None,
            finalists: 8,
            skeptics: false,
            fix_rounds: 0,
            duels: None,
        },
        workers: Default::default(),
        worker_limits: WorkerLimits {
            max_tool_iterations: 1,
            max_seconds: None,
            max_tokens: None,
            budget: None,
            max_output_tokens: 1,
        },
        limits: RunLimits { max_parallel: 2, ..RunLimits::default() },
        seed: 0,
        waive_sandbox: false,
        trust: Vec::new(),
        design: None,
        side: None,
        prior: 0,
        exclude_from_context: false,
    }
}

fn order(attempts: u32) -> Assignment {
    Assignment {
        kind: RunKind::Run,
        plan: plan(attempts),
        given: Vec::new(),
        base: BaseRecord {
            rev: "HEAD".into(),
            commit: CommitId::new("c"),
            tree: TreeId::new("t"),
            dirty: false,
            gates: Vec::new(),
        },
        sandbox: SandboxRecord {
            tier: "none".into(),
            permit: "none".into(),
            probes: Default::default(),
            workspaces: None,
        },
        scripted: true,
        warnings: Vec::new(),
        definitions: Default::default(),
        frame: crate::model::ArtifactId::new("f"),
        memory: Default::default(),
        limit: CancellationToken::new(),
        stopped: Stopped::default(),
        floor: Floor::default(),
    }
}

fn all() -> Phases {
    Phases {
        work: Some(Box::new(Workers)),
        admit: Box::new(Strict { apply: true }),
        prove: Box::new(Gates { typecheck: true, test: true }),
        weigh: Box::new(Agreement),
        judge: Some(Box::new(BadTaste)),
        fuse: None,
        duels: None,
        design: None,
        side: None,
    }
}

async fn run(phases: &Phases, attempts: u32) -> (RunRecord, tempfile::TempDir) {
    run_order(phases, order(attempts)).await
}

async fn run_order(phases: &Phases, order: Assignment) -> (RunRecord, tempfile::TempDir) {
    let state = tempfile::tempdir().unwrap();
    let dir: RunDir = Runs::new(state.path()).create(Masker::default()).unwrap();
    let tell = Teller::new(dir.clone(), EventSink::none());
    let record = execute(order, phases, &dir, tell, &CancellationToken::new()).await;
    assert_eq!(dir.record().unwrap(), *record.as_ref().unwrap(), "the record is on disk");
    (record.unwrap(), state)
}

async fn winner(phases: &Phases) -> String {
    let (record, _) = run(phases, 5).await;
    match record.decision.outcome {
        Outcome::Winner { tree, .. } => tree.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_stage_protects_the_outcome() {
    assert_eq!(winner(&all()).await, "right and better");
    let without_apply = Phases { admit: Box::new(Strict { apply: false }), ..all() };
    assert_eq!(winner(&without_apply).await, "stale");
    let without_typecheck =
        Phases { prove: Box::new(Gates { typecheck: false, test: true }), ..all() };
    assert_eq!(winner(&without_typecheck).await, "does not compile");
    let without_test = Phases { prove: Box::new(Gates { typecheck: true, test: false }), ..all() };
    assert_eq!(winner(&without_test).await, "fails a test");
    let without_judge = Phases { judge: None, ..all() };
    assert_eq!(winner(&without_judge).await, "right");
}

#[tokio::test]
async fn lanes_without_a_candidate_are_counted_and_explained() {
    let (record, _) = run(&all(), 7).await;
    assert_eq!(record.lanes.iter().filter(|lane| lane.candidate.is_none()).count(), 2);
    let warning = record.warnings.iter().find(|one| one.code == "lanes-without-candidate").unwrap();
    assert!(warning.message.starts_with("5 of 7 lanes gave a candidate"), "{}", warning.message);
    assert_eq!(record.exit, Exit::Done);
}

/// What cannot run proves nothing, and is never a winner.
struct Broken;

impl Prove for Broken {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        let verdict = Verdict::Infra { reason: "no such tool".into() };
        async { Ok(vec![GateReport::bare(GateKind::Typecheck, verdict)]) }.boxed()
    }

    fn candidate<'a>(
        &'a self,
        _: &'a CandidateId,
        _: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        panic!("a candidate was gated although the base could not be")
    }
}

#[tokio::test]
async fn gates_that_can_not_run_on_the_base_end_the_run_before_a_model_is_paid() {
    let (record, _) = run(&Phases { prove: Box::new(Broken), ..all() }, 5).await;
    assert_eq!((record.exit, record.lanes.len()), (Exit::Infra, 0));
    assert!(record.decision.reason.contains("no such tool"), "{}", record.decision.reason);
}

struct Cut;

impl Work for Cut {
    fn attempt(&self, _: LaneRun, _: CancellationToken) -> BoxFuture<'static, Attempt> {
        let stop = Stop::Limit { limit: Limit::Iterations };
        async { Attempt { diff: b"right".to_vec(), ..Attempt::nothing(stop) } }.boxed()
    }
}

/// Of its jobs something may be alive.
struct Leaving;

impl Work for Leaving {
    fn attempt(&self, run: LaneRun, _: CancellationToken) -> BoxFuture<'static, Attempt> {
        let survivors = match run.index {
            0 => vec!["sleep (process 7)".to_owned(), "make (process 9)".to_owned()],
            _ => Vec::new(),
        };
        let diff = b"right".to_vec();
        async { Attempt { diff, survivors, ..Attempt::nothing(Stop::Submitted) } }.boxed()
    }
}

// contract C3 in part: at the end of a worker run
#[tokio::test]
async fn jobs_that_may_be_alive_are_warned_of_by_name() {
    let (record, _) = run(&Phases { work: Some(Box::new(Leaving)), ..all() }, 2).await;
    let found: Vec<&Warning> =
        record.warnings.iter().filter(|one| one.code == "jobs-survived").collect();
    let [warning] = found[..] else { panic!("{:?}", record.warnings) };
    let lane = &record.lanes[0].lane;
    let said =
        format!("of the jobs of {lane} these may be alive: sleep (process 7), make (process 9)");
    assert_eq!(warning.message, said);
}

// contract R23
#[tokio::test]
async fn partial_work_never_wins_by_itself() {
    let (record, _) = run(&Phases { work: Some(Box::new(Cut)), ..all() }, 2).await;
    assert_eq!(record.exit, Exit::NoWinner);
    let Outcome::NoWinner { reason, closest } = record.decision.outcome else { panic!("a winner") };
    assert_eq!(reason, NoWinner::OnlyPartial);
    assert!(!closest.is_empty(), "it is named, so that it can be asked for");
}

fn enough(wanted: u32, attempts: u32, max_parallel: u32) -> Assignment {
    let mut order = order(attempts);
    order.plan.limits = RunLimits { max_parallel, enough: Some(wanted), ..RunLimits::default() };
    order
}

#[tokio::test]
async fn one_after_another_no_lane_is_begun_that_is_not_needed() {
    let (record, _) = run_order(&all(), enough(1, 6, 1)).await;
    let stops: Vec<&Stop> = record.lanes.iter().map(|lane| &lane.stop).collect();
    assert_eq!(
        stops[..4],
        [&Stop::Submitted; 4],
        "three that no gate lets pass, and one that is right"
    );
    assert_eq!(stops[4..], [&Stop::NotNeeded; 2]);
    let winner = record.decision.winner().unwrap();
    assert_eq!(winner.as_str(), "c4");
    let saved = record.saved.unwrap();
    assert_eq!((saved.not_begun.len(), saved.cut.len()), (2, 0));
    assert_eq!(saved.enough.candidates, std::slice::from_ref(winner));
    let without = record.warnings.iter().find(|one| one.code == "lanes-without-candidate");
    assert_eq!(without, None, "what was not needed did not fail");
}

/// Its tests can run on the right tree alone.
struct Patchy;

impl Prove for Patchy {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn candidate<'a>(
        &'a self,
        _: &'a CandidateId,
        tree: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        let verdict = match tree.as_str() {
            "right" => Verdict::Pass,
            _ => Verdict::Infra { reason: "no such tool".to_owned() },
        };
        async { Ok(vec![GateReport::bare(GateKind::Test, verdict)]) }.boxed()
    }
}

#[tokio::test]
async fn a_candidate_whose_gates_could_not_run_ends_no_fan_out() {
    let phases = Phases { prove: Box::new(Patchy), ..all() };
    let (record, _) = run_order(&phases, enough(1, 6, 1)).await;
    let winner = record.decision.winner().unwrap();
    assert_eq!(winner.as_str(), "c4", "those before it were not proved");
    assert_eq!(record.saved.unwrap().enough.candidates, std::slice::from_ref(winner));
}

/// The first two give the same right tree, the others work until they are told to stop, and leave a
/// change that no gate would refute.
struct Agreeing;

impl Work for Agreeing {
    fn attempt(&self, run: LaneRun, cancel: CancellationToken) -> BoxFuture<'static, Attempt> {
        async move {
            let stop = match run.index {
                0 | 1 => Stop::Submitted,
                _ => {
                    cancel.cancelled().await;
                    Stop::Cancelled
                }
            };
            let usage = Usage { calls: 1, input_tokens: 10, ..Usage::default() };
            Attempt { diff: b"right".to_vec(), usage, ..Attempt::nothing(stop) }
        }
        .boxed()
    }
}

#[tokio::test]
async fn lanes_at_work_are_cut_and_are_neither_failures_nor_candidates() {
    let phases = Phases { work: Some(Box::new(Agreeing)), ..all() };
    let (record, _) = run_order(&phases, enough(2, 5, 3)).await;
    assert_eq!(record.candidates.len(), 2);
    assert_eq!(record.decision.winner().unwrap().as_str(), "c1");
    let saved = record.saved.unwrap();
    assert!(saved.enough.equal);
    assert_eq!((saved.cut.len(), saved.not_begun.len()), (1, 2));
    assert_eq!(saved.tokens, 20, "two lanes of 10 tokens each; the third had used its own");
    assert_eq!(record.lanes[2].stop, Stop::NotNeeded);
    assert_eq!(record.lanes[2].candidate, None);
}

#[tokio::test]
async fn too_few_is_a_run_to_the_end() {
    let (record, _) = run_order(&all(), enough(3, 5, 2)).await;
    assert_eq!(record.saved, None);
    assert!(record.lanes.iter().all(|lane| lane.stop == Stop::Submitted));
    assert_eq!(record.candidates.len(), 5);
    let ids: Vec<&str> = record.candidates.iter().map(|row| row.candidate.id.as_str()).collect();
    assert_eq!(ids, ["c1", "c2", "c3", "c4", "c5"]);
    assert!(
        record.candidates.iter().skip(1).all(|row| !row.gates.is_empty()),
        "each is gated once"
    );
}
