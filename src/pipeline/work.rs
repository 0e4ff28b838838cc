//! A loop worker's attempt: a leased workspace, a run token of its own, a prompt, and the diff it left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::adapters::GateProve;
use super::heal::{Clinic, Healer, Kept};
use super::memory::Memory;
use super::models::{Models, models_of};
use super::shells::LaneGround;
use super::{Attempt, PipelineError, Work};
use crate::fanout::LaneRun;
use crate::fence::Fencer;
use crate::jobs::{HostJobs, JobBook, JobTable, RunScope, mint_token};
use crate::journal::{Entry, JournalError, Learnt, LeftBehind, RunDir};
use crate::model::{
    CommandSpec, EventSink, GatePlan, LaneId, ModelRef, Plan, RunEvent, RunToken, Stop, Unanswered,
    Usage,
};
use crate::patch;
use crate::prompt::{GateCommand, Instructions, Templates, WorkerSystem, WorkerTask, variation};
use crate::provider::{ErrorClass, Provider};
use crate::repo::{RepoError, Store, Workspace};
use crate::sandbox::{Launch, Launcher, Reaped};
use crate::tools::{Jobs, Registry, ToolContext};
use crate::worker::{
    Attended, DelegateDesk, DelegateSubtask, Floor, LoopWorker, Review, Seat, Turns, Voice,
    WorkerInput, WorkerOutcome,
};

/// What every attempt of a run shares.
pub struct Shop {
    /// The run's store.
    pub store: Arc<Store>,
    /// The run's gates: what the base's left lies under the workspaces.
    pub prove: Arc<GateProve>,
    /// The run's models.
    pub models: Models,
    /// The tools that all workers have.
    pub registry: Registry,
    /// Which tools the config switches on or off.
    pub tools: BTreeMap<String, bool>,
    /// The background jobs of all workers.
    pub jobs: JobBook,
    /// How the engine speaks to workers.
    pub voice: Voice,
    /// Sends candidates that fail a gate back, when the plan has rounds for that.
    pub(super) clinic: Option<Arc<Clinic>>,
    /// The prompts.
    pub templates: Templates,
    /// The run's fences.
    pub fencer: Fencer,
    /// The repository's own instructions.
    pub instructions: Instructions,
    /// What earlier runs of the repository left.
    pub prior: Vec<String>,
    /// Runs inspection commands; absent when nothing may run.
    pub launcher: Option<Launcher>,
    /// The plan.
    pub plan: Plan,
    /// What is left of the turns of all workers together.
    pub turns: Turns,
    /// What the journal knows of each worker.
    pub memory: Arc<Memory>,
    /// Where it is noted that a lane goes on with another model.
    pub dir: RunDir,
    /// Where activity is told.
    pub events: EventSink,
    /// Where the operator finds the workers.
    pub floor: Floor,
    /// The operator's own commands, which may run in the workspaces.
    pub host: HostJobs,
    /// Secrets that the operator typed: no tool's answer holds one.
    pub hidden: Learnt,
}

/// Loop workers.
pub struct LoopWork(Arc<Shop>);

impl LoopWork {
    /// Workers that share `shop`.
    pub fn new(shop: Shop) -> Self {
        Self(Arc::new(shop))
    }
}

impl Work for LoopWork {
    fn attempt(&self, run: LaneRun, cancel: CancellationToken) -> BoxFuture<'static, Attempt> {
        let shop = self.0.clone();
        async move {
            let began = Instant::now();
            // The operator can stop this lane alone.
            let cancel = cancel.child_token();
            let attended = Attended::begin(&shop.floor, &run.id, cancel.clone());
            let mut attempt = shop.with_fallbacks(run, cancel, &attended).await;
            attempt.millis = began.elapsed().as_millis() as u64;
            attended.ended(attempt.stop.to_string());
            attempt
        }
        .boxed()
    }
}

type Failure = (&'static str, String);

fn workspace_failure(error: impl std::fmt::Display) -> Failure {
    ("workspace", error.to_string())
}

/// Whether an attempt failed because nobody could answer it. What another model's server would refuse
/// just the same (the budget, the context, the request's form) is not among that.
fn is_unanswered(class: &str) -> bool {
    use ErrorClass::*;
    matches!(
        ErrorClass::from_name(class),
        Some(
            Auth | Payment
                | UnknownModel
                | RateLimited
                | Overloaded
                | Unreachable
                | Timeout
                | Protocol
                | TooLong
        )
    )
}

/// What a model leaves behind whose server could not answer; `None` where another one would not help.
fn unanswered(model: &ModelRef, attempt: &Attempt) -> Option<LeftBehind> {
    // What was handed in is worth more than a beginning with another model.
    let Stop::Failed { class, message } = &attempt.stop else { return None };
    let said =
        || Unanswered { model: model.to_string(), class: class.clone(), message: message.clone() };
    (is_unanswered(class) && !attempt.stands).then(|| LeftBehind {
        unanswered: said(),
        usage: attempt.usage,
        jobs_ended: attempt.jobs_ended,
        survivors: attempt.survivors.clone(),
    })
}

fn usage_of(left: &[LeftBehind]) -> Usage {
    let mut usage = Usage::default();
    left.iter().for_each(|left| usage += left.usage);
    usage
}

/// The attempt with what was left behind before it.
fn with_left(mut attempt: Attempt, left: Vec<LeftBehind>) -> Attempt {
    let mut survivors = Vec::new();
    let usage = usage_of(&left);
    attempt.usage += usage;
    for one in left {
        attempt.jobs_ended += one.jobs_ended;
        survivors.extend(one.survivors);
        attempt.unanswered.push(one.unanswered);
    }
    survivors.append(&mut attempt.survivors);
    Attempt { survivors, ..attempt }
}

fn internal(error: &JournalError) -> Stop {
    let message = format!("the run's journal can't be written: {error}");
    Stop::Failed { class: "internal".to_owned(), message }
}

impl Shop {
    /// Runs a lane with its model, and when that can't answer, begins anew with the next one. A
    /// conversation can't be handed over: its reasoning belongs to the server that wrote it. A run that goes
    /// on knows what was left behind, and does not ask that again.
    async fn with_fallbacks(
        self: Arc<Self>,
        mut run: LaneRun,
        cancel: CancellationToken,
        attended: &Attended,
    ) -> Attempt {
        let models: Vec<ModelRef> = models_of(&run.lane).cloned().collect();
        let mut left = self.memory.left_behind(&run.id).to_vec();
        left.truncate(models.len() - 1);
        for (nth, model) in models.iter().enumerate().skip(left.len()) {
            run.lane.model = model.clone();
            let seat = attended.seat(&model.to_string());
            let ended = self.clone().attempt(run.clone(), cancel.clone(), seat).await;
            let mut attempt = ended.unwrap_or_else(|(class, message)| {
                Attempt::nothing(Stop::Failed { class: class.to_owned(), message })
            });
            let next = models.get(nth + 1).filter(|_| !cancel.is_cancelled());
            match (next, unanswered(model, &attempt)) {
                (Some(next), Some(behind)) => {
                    if let Err(error) = self.keep_fallback(&run.id, behind.clone()) {
                        attempt.stop = internal(&error);
                        return with_left(attempt, left);
                    }
                    left.push(behind);
                    self.tell_fallback(&run, attempt.turns, usage_of(&left), next);
                }
                _ => {
                    attempt.fallback = (nth > 0).then(|| model.clone());
                    return with_left(attempt, left);
                }
            }
        }
        Attempt::nothing(Stop::Cancelled)
    }

    /// Notes that the next model takes over before it is asked.
    fn keep_fallback(&self, lane: &LaneId, left: LeftBehind) -> Result<(), JournalError> {
        self.dir.append(&Entry::Fallback { lane: lane.clone(), left })
    }

    fn tell_fallback(&self, run: &LaneRun, turn: u32, usage: Usage, next: &ModelRef) {
        self.events.send(RunEvent::LaneActivity {
            lane: run.id.clone(),
            turn,
            activity: format!("{} can't answer; {next} takes over", run.lane.model),
            usage,
            context: 0,
        });
    }

    async fn attempt(
        self: Arc<Self>,
        run: LaneRun,
        cancel: CancellationToken,
        seat: Seat,
    ) -> Result<Attempt, Failure> {
        let (shop, lane) = (self.clone(), run.id.clone());
        let below = match self.prove.under_workers().await {
            Err(_) if cancel.is_cancelled() => return Ok(Attempt::nothing(Stop::Cancelled)),
            below => below.map_err(workspace_failure)?.clone(),
        };
        let workspace = blocking(move || shop.store.lease_over(&lane, &below)).await?;
        let workspace = workspace.map_err(workspace_failure)?;
        let workspace = Arc::new(workspace);
        let token = mint_token();
        let table = self.jobs.open(&run.id);
        let scope = self
            .launcher
            .clone()
            .map(|launcher| RunScope::new(token.clone(), launcher).with_table(table.clone()));
        let mut input = self
            .input(&run, (workspace.clone(), token, table), cancel, seat)
            .map_err(|error| ("internal", error.to_string()))?;
        let healer = self.clinic.clone().map(|clinic| {
            let bill = input.context.bill.clone();
            Arc::new(Healer::new(clinic, run.id.clone(), workspace.clone(), bill))
        });
        input.review = healer.clone().map(|healer| healer as Arc<dyn Review>);
        let ground = Arc::new(LaneGround::new(&workspace, &self.prove, &self.plan.gates));
        let entrance = self.host.enter(&run.id, ground);
        let outcome = LoopWorker::run(input).await;
        drop(entrance);
        let reaped = match scope {
            // What the worker left running ends before its workspace is read.
            Some(scope) => scope.finish().await,
            None => Reaped::default(),
        };
        let (kept, healed) = healer.map(|healer| healer.kept()).unwrap_or_default();
        let diff = self.clone().diff(workspace).await?;
        let attempt = match (kept, diff) {
            (Some(kept), _) if !outcome.stop.is_complete() => stands(kept, outcome),
            (_, Ok(diff)) => attempt_of(outcome, diff),
            (_, Err(error @ RepoError::ChangeTooLarge { .. })) => beyond(outcome, &error),
            (_, Err(error)) => return Err(workspace_failure(error)),
        };
        Ok(Attempt { jobs_ended: reaped.killed, survivors: reaped.survivors, healed, ..attempt })
    }

    fn input(
        &self,
        run: &LaneRun,
        (workspace, token, table): (Arc<Workspace>, RunToken, JobTable),
        cancel: CancellationToken,
        seat: Seat,
    ) -> Result<WorkerInput, PipelineError> {
        let render = |context: &dyn crate::prompt::PromptContext| {
            let rendered = self.templates.render(context, &self.fencer);
            rendered.map(|prompt| prompt.text).map_err(|e| PipelineError::Config(e.to_string()))
        };
        let launch = self.launcher.clone().map(|launcher| Arc::new(launcher) as Arc<dyn Launch>);
        let jobs = launch.is_some().then(|| Jobs { table, book: self.jobs.clone() });
        let context = ToolContext {
            jobs,
            hidden: self.hidden.clone(),
            ..ToolContext::new(workspace, token, launch, cancel.clone())
        };
        let system = render(&WorkerSystem)?;
        let provider = self.models.provider(&run.lane.model)?;
        Ok(WorkerInput {
            lane: run.id.clone(),
            toolbox: Arc::new(self.toolbox(run, provider.clone(), &system, seat.clone())),
            provider,
            model: run.lane.model.model.clone(),
            context,
            limits: self.plan.limits_of(&run.lane),
            turns: self.turns.clone(),
            system,
            voice: self.voice.clone(),
            review: None,
            task_message: render(&self.task(run))?,
            past: self.memory.conversation(&run.id, &run.lane.model.provider)?,
            seed: Some(run.seed),
            temperature: run.lane.temperature,
            events: self.events.clone(),
            seat,
            cancel,
        })
    }

    /// The tools of one worker run.
    fn toolbox(
        &self,
        run: &LaneRun,
        provider: Arc<dyn Provider>,
        system: &str,
        seat: Seat,
    ) -> Registry {
        let nested = self.plan.workers.nested;
        if nested.most == 0 || nested.depth == 0 {
            return self.registry.toggled(&self.tools);
        }
        let (memory, name) = (self.memory.clone(), run.lane.model.provider.clone());
        let desk = DelegateDesk {
            lane: run.id.clone(),
            provider,
            model: run.lane.model.model.clone(),
            limits: self.plan.limits_of(&run.lane),
            turns: self.turns.clone(),
            nested,
            system: system.to_owned(),
            task: self.plan.task.as_ref().map(|task| task.text.clone()).unwrap_or_default(),
            voice: self.voice.clone(),
            seed: Some(run.seed),
            temperature: run.lane.temperature,
            events: self.events.clone(),
            seat,
            // A conversation that can't be read is asked anew.
            past: Arc::new(move |lane| memory.conversation(lane, &name).unwrap_or_default()),
        };
        self.registry.with(Arc::new(DelegateSubtask::new(desk))).toggled(&self.tools)
    }

    fn task(&self, run: &LaneRun) -> WorkerTask {
        WorkerTask {
            task: self.plan.task.as_ref().map(|task| task.text.clone()).unwrap_or_default(),
            instructions: self.instructions.clone(),
            gates: gate_commands(&self.plan.gates),
            dir: self.plan.gates.dir.clone(),
            prior: self.prior.clone(),
            design: run.design.as_deref().map(str::to_owned),
            hint: variation(run.attempt).map(str::to_owned),
        }
    }

    /// The workspace's diff; the workspace ends with it.
    async fn diff(
        self: Arc<Self>,
        workspace: Arc<Workspace>,
    ) -> Result<Result<Vec<u8>, RepoError>, Failure> {
        let read = move || {
            let diff = self.store.diff(&workspace);
            // The last holder removes it; a tool call that was cut off may hold it a little longer.
            drop(workspace);
            diff
        };
        blocking(read).await
    }
}

/// The commands that a candidate has to pass, as models are told of them.
pub(super) fn gate_commands(gates: &GatePlan) -> Vec<GateCommand> {
    let named = [("typecheck", &gates.check), ("tests", &gates.test)];
    let gate = |(name, command): (&str, &Option<CommandSpec>)| {
        let command = command.as_ref()?;
        Some(GateCommand { name: name.to_owned(), command: command.line.clone() })
    };
    named.into_iter().filter_map(gate).collect()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ("internal", error.to_string()))
}

/// A worker that changed nothing and answered with a diff handed in that diff: models without tools
/// can do no better. It is admitted like every other.
fn attempt_of(outcome: WorkerOutcome, diff: Vec<u8>) -> Attempt {
    let answered = diff.is_empty()
        && matches!(outcome.stop, Stop::Quit | Stop::Submitted)
        && holds_diff(&outcome.answer);
    match answered {
        true => {
            let diff = outcome.answer.clone().into_bytes();
            Attempt { diff, stop: Stop::Submitted, ..ended(outcome) }
        }
        false => Attempt { diff, ..ended(outcome) },
    }
}

/// A worker whose workspace holds more than any diff may: it leaves nothing, and nothing of the engine broke.
fn beyond(outcome: WorkerOutcome, error: &RepoError) -> Attempt {
    Attempt { beyond: Some(error.to_string()), ..ended(outcome) }
}

fn ended(outcome: WorkerOutcome) -> Attempt {
    Attempt {
        answer: outcome.answer,
        claims: outcome.claims,
        stop: outcome.stop,
        why: outcome.why,
        turns: outcome.turns,
        usage: outcome.usage,
        transcript: outcome.transcript,
        ..Attempt::nothing(Stop::Submitted)
    }
}

/// A worker that was cut off while it mended what it had handed in: that stands as it was. What cut the
/// worker off is still how it ended (contracts R23 and R24); one that gave up by itself had submitted.
fn stands(kept: Kept, outcome: WorkerOutcome) -> Attempt {
    let stop = match outcome.stop {
        Stop::Quit => Stop::Submitted,
        ref other => other.clone(),
    };
    let submitted = WorkerOutcome {
        answer: kept.answer,
        claims: kept.claims,
        stop: Stop::Submitted,
        ..outcome
    };
    let stands = !kept.diff.is_empty();
    Attempt { stop, stands, ..attempt_of(submitted, kept.diff) }
}

/// Whether an answer was meant as a diff, well-formed or not: admission says what is wrong with it.
pub(super) fn holds_diff(answer: &str) -> bool {
    match patch::parse(answer.as_bytes(), &patch::Rules::default()) {
        Ok(_) => true,
        Err(refusal) => !matches!(refusal.code.as_str(), "not-a-diff" | "empty"),
    }
}
