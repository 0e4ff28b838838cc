//! The tool `delegate_subtask`: a nested worker does a part of the task.
//!
//! It has the parent's model, tools, token, workspace and what is left of its limits, and a cap of rounds of
//! its own. Its answer is foreign to the parent and comes in a fence. Never here: the loop itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::voice::Voice;
use super::{Denied, LoopWorker, Seat, Turns, WorkerInput, WorkerOutcome};
use crate::jobs::{JobView, KillReport};
use crate::model::chat::{Message, ToolSpec};
use crate::model::{EventSink, LaneId, Limit, NestedLimits, RunEvent, Stop, WorkerLimits};
use crate::prompt::{Subtask, SubtaskResult};
use crate::provider::Provider;
use crate::tools::{Bill, Registry, Tool, ToolContext, ToolOutput, parse_arguments, tool_spec};

const NAME: &str = "delegate_subtask";

/// Gives the conversation of a nested worker as it went before.
pub type Past = Arc<dyn Fn(&LaneId) -> Vec<Message> + Send + Sync>;

/// What the nested workers of one worker run share.
pub struct DelegateDesk {
    /// The worker run's lane.
    pub lane: LaneId,
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The model's name on its server.
    pub model: String,
    /// The limits of the worker run.
    pub limits: WorkerLimits,
    /// The turns of the whole run.
    pub turns: Turns,
    /// How many there may be, how deep, and how long each.
    pub nested: NestedLimits,
    /// The system prompt: the same for all, so that its prefix is shared.
    pub system: String,
    /// The operator's task.
    pub task: String,
    /// How the engine speaks.
    pub voice: Voice,
    /// A seed for servers that take one.
    pub seed: Option<u64>,
    /// Sampling temperature, when the operator set one.
    pub temperature: Option<f64>,
    /// Where activity is told.
    pub events: EventSink,
    /// The worker run's seat.
    pub seat: Seat,
    /// A nested worker's conversation as it went before the run was cut off.
    pub past: Past,
}

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What the other worker is to do, with all that it needs to know: it sees the operator's task and this
    /// text, not your conversation.
    task: String,
    /// Let it look only. Default: false.
    read_only: Option<bool>,
    /// The most tool rounds that it may take. Default and most: what the operator allows.
    max_turns: Option<u32>,
}

/// Hands work to nested workers.
pub struct DelegateSubtask {
    desk: Arc<DelegateDesk>,
    /// How many there were in this worker run.
    count: Arc<AtomicU32>,
    tools: Registry,
}

impl DelegateSubtask {
    /// The tool's name, and its key.
    pub const NAME: &'static str = NAME;

    /// For one worker run.
    pub fn new(desk: DelegateDesk) -> Self {
        Self { desk: Arc::new(desk), count: Arc::default(), tools: Registry::empty() }
    }

    async fn run(&self, context: &ToolContext, arguments: Value) -> Result<ToolOutput, ToolOutput> {
        let arguments: Arguments = parse_arguments(NAME, arguments)?;
        let number = self.admit(context, &arguments).map_err(|why| {
            ToolOutput::refused(format!("refused: {why}; nothing was delegated, do it yourself"))
        })?;
        let cap = arguments.max_turns.unwrap_or(u32::MAX).clamp(1, self.desk.nested.turns);
        let input = self.input(context, arguments, number, cap);
        let outcome = LoopWorker::run(input).await;
        let (jobs, killed) = settle(context, number, &outcome.stop).await;
        let how = how(&outcome, cap);
        let is_error = !outcome.stop.is_complete();
        let result = SubtaskResult { number, how, jobs, killed, answer: outcome.answer };
        Ok(ToolOutput { is_error, ..ToolOutput::ok(self.desk.voice.say(&result)) })
    }

    /// A number for one more, if there may be one.
    fn admit(&self, context: &ToolContext, arguments: &Arguments) -> Result<u32, String> {
        let NestedLimits { most, depth, .. } = self.desk.nested;
        if arguments.task.trim().is_empty() {
            return Err("task is empty".to_owned());
        }
        if context.depth >= depth {
            return Err(format!("a subtask of depth {depth} can't delegate further"));
        }
        let more = |count: u32| (count < most).then_some(count + 1);
        match self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(before) => Ok(before + 1),
            Err(_) => Err(format!("this worker run had its {most} subtasks")),
        }
    }

    fn input(
        &self,
        parent: &ToolContext,
        arguments: Arguments,
        number: u32,
        cap: u32,
    ) -> WorkerInput {
        let desk = &self.desk;
        let read_only = parent.read_only || arguments.read_only == Some(true);
        let lane = desk.lane.nested(number);
        let told =
            Subtask { task: desk.task.clone(), description: arguments.task, read_only, turns: cap };
        let context = ToolContext {
            number,
            depth: parent.depth + 1,
            read_only,
            bill: Bill::under(&parent.bill),
            ..parent.clone()
        };
        WorkerInput {
            past: (desk.past)(&lane),
            events: relayed(&desk.events, &desk.lane, parent, number),
            seat: desk.seat.nested(number),
            lane,
            provider: desk.provider.clone(),
            model: desk.model.clone(),
            toolbox: Arc::new(self.tools.bound()),
            limits: limits(&desk.limits, parent, cap),
            turns: desk.turns.clone(),
            system: desk.system.clone(),
            task_message: desk.voice.say(&told),
            voice: desk.voice.clone(),
            review: None,
            seed: desk.seed,
            temperature: desk.temperature,
            cancel: parent.cancel.clone(),
            context,
        }
    }
}

impl Tool for DelegateSubtask {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            NAME,
            "Hands a part of the task to another worker, which has your tools and your workspace, and waits for its answer. Use it for what would fill your context: a search through many files, one of several independent edits. What it changed is there when it returns; read it before you rely on it.",
        )
    }

    fn within(&self, others: &Registry) -> Option<Arc<dyn Tool>> {
        let (desk, count) = (self.desk.clone(), self.count.clone());
        Some(Arc::new(Self { desk, count, tools: others.clone() }))
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        async move { self.run(context, arguments).await.unwrap_or_else(|refusal| refusal) }.boxed()
    }
}

/// What is left of the parent's limits, with a cap of its own on the rounds.
fn limits(whole: &WorkerLimits, parent: &ToolContext, cap: u32) -> WorkerLimits {
    let left = |until: Instant| until.saturating_duration_since(Instant::now()).as_secs().max(1);
    let seconds = parent.until.map(left);
    let used = parent.bill.total().tokens();
    WorkerLimits {
        max_tool_iterations: cap,
        max_seconds: seconds,
        max_tokens: whole.max_tokens.map(|most| most.saturating_sub(used)),
        // The ledger of the worker run counts what its subtasks spend.
        budget: whole.budget,
        max_output_tokens: whole.max_output_tokens,
    }
}

/// Its activity as its parent's: one lane, one row.
fn relayed(events: &EventSink, lane: &LaneId, parent: &ToolContext, number: u32) -> EventSink {
    let (events, lane, bill) = (events.clone(), lane.clone(), parent.bill.clone());
    EventSink::new(move |event| match event {
        RunEvent::LaneActivity { turn, activity, context, .. } => {
            events.send(RunEvent::LaneActivity {
                lane: lane.clone(),
                turn,
                activity: format!("subtask {number}: {activity}"),
                usage: bill.total(),
                context,
            })
        }
        other => events.send(other),
    })
}

/// What becomes of its jobs (contract C8): they go on as the parent's when it is done, and are ended when
/// it was stopped, failed or cut off. Gives the ids of each kind.
async fn settle(context: &ToolContext, number: u32, stop: &Stop) -> (Vec<String>, Vec<String>) {
    let Some(jobs) = &context.jobs else { return Default::default() };
    let id = |job: JobView| job.id.to_string();
    if stop.is_complete() {
        let live = jobs.table.hand_over(number, context.number);
        return (live.into_iter().map(id).collect(), Vec::new());
    }
    let ended = jobs.table.kill_of(number).await;
    // What may have survived stays in sight.
    jobs.table.hand_over(number, context.number);
    let ended = ended.into_iter().filter_map(|(id, report)| match report {
        KillReport::Proven(_) => Some(id.to_string()),
        KillReport::Survivors(_) => Some(format!("{id} (not proven)")),
        KillReport::Over(_) => None,
    });
    (Vec::new(), ended.collect())
}

/// How it ended, in the engine's own words (contracts R23, R24 and R26).
fn how(outcome: &WorkerOutcome, cap: u32) -> String {
    match &outcome.stop {
        Stop::Submitted => "done".to_owned(),
        Stop::Limit { limit: Limit::Iterations }
            if outcome.rounds >= cap.saturating_add(outcome.granted) =>
        {
            let more = match outcome.granted {
                0 => String::new(),
                granted => format!(", with {granted} more that the operator granted,"),
            };
            let denied = match outcome.denied {
                Denied::NotAsked => "",
                Denied::Nobody => ", and nobody is there to grant more",
                Denied::Refused => ", and more was asked for and not granted",
            };
            format!("PARTIAL: its cap of {cap} tool rounds{more} cut it off{denied}")
        }
        Stop::Limit { limit: Limit::Iterations } => {
            "PARTIAL: the turns of all workers of the run together are used up".to_owned()
        }
        Stop::Limit { limit } => {
            format!("PARTIAL: its {} limit cut it off", format!("{limit:?}").to_lowercase())
        }
        Stop::Cancelled => "PARTIAL: it was stopped".to_owned(),
        Stop::Failed { class, .. } => format!("it failed ({class})"),
        _ => "PARTIAL: it ended without submitting".to_owned(),
    }
}
