//! One attempt at a task: a model and its tools, until the model submits or a limit cuts it off.
//!
//! Lives here: the loop, its history and its limits. Never here: any user interface, the choice among
//! candidates, the start of a process (tools do that, through the sandbox).

mod activity;
mod attended;
mod delegate;
mod history;
mod limits;
mod live;
mod more;
mod news;
mod run;
mod seat;
mod steering;
mod texts;
mod voice;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio_util::sync::CancellationToken;

use crate::model::chat::{Message, ToolSpec};
use crate::model::{Claim, EventSink, LaneId, Stop, Usage, WorkerLimits};
use crate::provider::Provider;
use crate::tools::{Registry, Submission, ToolContext, ToolOutput};

pub use attended::{Attended, Floor, LinedUp};
pub use delegate::{DelegateDesk, DelegateSubtask, Past};
pub use history::RESULT_CAP;
pub use limits::{SUMMARY_RESERVE_DIVISOR, Turns};
pub use more::{Denied, Extensions, KeepExtension, Questions};
pub use seat::{Scroll, Seat};
pub use steering::{Keep, Letters, MAX_TEXT, SteerError, Steering};
pub use voice::Voice;

/// The tools that a worker may call, as the loop sees them.
pub trait Toolbox: Send + Sync {
    /// The tools in registration order: the same for every lane and every request.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// Calls one by name. `arguments` is the JSON text as the model wrote it: an unknown name and
    /// invalid JSON are refusals that the model can mend, not errors.
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, ToolOutput>;
}

impl Toolbox for Registry {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Registry::specs(self)
    }

    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, ToolOutput> {
        Registry::call(self, context, name, arguments).boxed()
    }
}

/// Looks at what a worker hands in, before that is its end.
pub trait Review: Send + Sync {
    /// `None` when it stands; else what the worker is told, and it goes on within its limits.
    fn review<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Option<String>>;
}

/// Everything that one worker run is given.
pub struct WorkerInput {
    /// The lane, for events and the request's purpose.
    pub lane: LaneId,
    /// Who answers; budget, retry and journal are its decorators.
    pub provider: Arc<dyn Provider>,
    /// The model's name on its server.
    pub model: String,
    /// The tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// What the tools work on. Its own token ends its calls; the loop hands on a child of `cancel`.
    pub context: ToolContext,
    /// The worker's limits.
    pub limits: WorkerLimits,
    /// What is left of the turns of all workers together.
    pub turns: Turns,
    /// The system prompt.
    pub system: String,
    /// The first user message: the task.
    pub task_message: String,
    /// The conversation as it went before the run was cut off; empty for a new one. Tools are called
    /// again, since the workspace is new, but the model is told what it was told before.
    pub past: Vec<Message>,
    /// How the engine speaks in the conversation.
    pub voice: Voice,
    /// Who looks at a submission, if anybody does.
    pub review: Option<Arc<dyn Review>>,
    /// A seed for servers that take one.
    pub seed: Option<u64>,
    /// Sampling temperature, when the operator set one.
    pub temperature: Option<f64>,
    /// Where activity is told.
    pub events: EventSink,
    /// What ties it to its operator.
    pub seat: Seat,
    /// Ends the worker within a second with what is there.
    pub cancel: CancellationToken,
}

/// How a worker run ended and what it left, apart from its workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerOutcome {
    /// Its closing words: those of `submit`, of the last summary, or of its last text.
    pub answer: String,
    /// Claims that can be checked; only a submission makes any.
    pub claims: Vec<Claim>,
    /// How it ended. Only `Submitted` is complete (contract R23).
    pub stop: Stop,
    /// Why a limit ended it, and what allows more; `None` where none did.
    pub why: Option<String>,
    /// How many times the model answered.
    pub turns: u32,
    /// How many tool rounds it took: what its cap counts.
    pub rounds: u32,
    /// How many of them were granted beyond its cap.
    pub granted: u32,
    /// Why it got no more than that.
    pub denied: Denied,
    /// What the model's server counted.
    pub usage: Usage,
    /// The whole conversation.
    pub transcript: Vec<Message>,
}

/// The built-in worker: a loop over a model and its tools.
pub struct LoopWorker;

impl LoopWorker {
    /// Runs one worker to its end. Never fails: every way to end is an outcome.
    pub async fn run(input: WorkerInput) -> WorkerOutcome {
        run::Loop::new(input).run().await
    }
}
