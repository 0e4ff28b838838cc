//! What a run tells its listeners while it goes on. Listeners never call back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sink::Sink;
use super::{
    Admission, Ballot, CandidateId, Card, Decision, Duel, Enough, Exit, Extension, GateReport,
    LaneId, RunId, Steer, Stop, Usage, Warning,
};

/// A stage of the way of the data.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Reading the base, making the engine's repository, proving the sandbox.
    Prepare,
    /// Gates on the base.
    Base,
    /// The plan for all workers.
    Design,
    /// Worker runs.
    FanOut,
    /// Admission of diffs.
    Admit,
    /// Gates on the candidates.
    Gate,
    /// Consensus without a model.
    Weigh,
    /// Judges' ballots.
    Judge,
    /// A test that is to tell two finalists apart.
    Duel,
    /// The synthesizer and its candidate's gates.
    Fuse,
    /// The decision.
    Decide,
    /// Side calls: the title and the capsule.
    Side,
}

/// Something that happened. One JSON object a line with `--events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run began.
    Started {
        /// Its id.
        run: RunId,
        /// The task's first line.
        title: String,
        /// How many worker runs or diffs there will be.
        attempts: u32,
        /// True when the models are scripted.
        scripted: bool,
    },
    /// A stage began.
    StageBegan {
        /// Which.
        stage: Stage,
        /// How many units of work it has, when known.
        units: Option<u32>,
    },
    /// A worker run began.
    LaneBegan {
        /// The lane.
        lane: LaneId,
        /// The model that answers.
        model: String,
    },
    /// A worker is doing something.
    LaneActivity {
        /// The lane.
        lane: LaneId,
        /// Turn of the conversation, from 1.
        turn: u32,
        /// In a few words (`edit_file src/lib.rs`).
        activity: String,
        /// What the lane used so far.
        usage: Usage,
        /// How long its conversation is, in tokens: what the last call read and wrote.
        #[serde(default)]
        context: u64,
    },
    /// A worker run ended.
    LaneEnded {
        /// The lane.
        lane: LaneId,
        /// How.
        stop: Stop,
        /// Whether it left a change that is handed to admission.
        left_change: bool,
        /// What it used.
        usage: Usage,
    },
    /// A worker's background job began or ended.
    Background {
        /// The job.
        card: Card,
    },
    /// The operator's word for a worker came in, was told, or came too late.
    Steered {
        /// It, and what became of it.
        steer: Steer,
    },
    /// A nested worker that its own cap alone stopped asked for more tool rounds, and has its answer.
    Extended {
        /// What was asked for, and the answer.
        extension: Extension,
    },
    /// Enough candidates are there: no further lane is begun, and those at work are cut off.
    Enough {
        /// Which, and why they are enough.
        enough: Enough,
    },
    /// A diff was admitted or refused.
    Admitted {
        /// The candidate.
        candidate: CandidateId,
        /// The lane or source it came from.
        lane: LaneId,
        /// What admission said.
        admission: Admission,
    },
    /// A gate is about to run.
    GateBegan {
        /// The candidate; absent for the base.
        candidate: Option<CandidateId>,
        /// The command line.
        command: String,
    },
    /// A gate reported.
    Gated {
        /// The candidate; absent for the base.
        candidate: Option<CandidateId>,
        /// The report.
        report: GateReport,
    },
    /// A judge gave a ballot.
    Balloted {
        /// The ballot.
        ballot: Ballot,
    },
    /// A duel was fought, or its test did not count.
    Dueled {
        /// The duel.
        duel: Box<Duel>,
    },
    /// Something that the operator should know, and that does not end the run.
    Warned {
        /// The warning.
        warning: Warning,
    },
    /// The run decided.
    Decided {
        /// The decision.
        decision: Decision,
    },
    /// The run ended; the last event.
    Ended {
        /// How.
        exit: Exit,
        /// What it used.
        usage: Usage,
        /// How long it took, in milliseconds.
        millis: u64,
    },
}

/// Where events go.
pub type EventSink = Sink<RunEvent>;
