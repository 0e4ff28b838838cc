//! The words that every module shares: tasks, plans, candidates, verdicts, events and records.
//!
//! Lives here: plain data with its invariants, serialised as the run's record and events.
//! Never here: IO, an async runtime, a command-line parser. Every other module may use this one.

pub mod address;
mod ballot;
mod candidate;
mod card;
pub mod chat;
mod decision;
mod duel;
mod event;
mod exit;
mod extension;
mod gate;
mod ids;
mod plan;
pub mod printable;
mod record;
mod sink;
mod steer;
mod task;
mod text;
mod usage;
mod words;

pub use ballot::{Ballot, Choice, JudgeOrigin, Order};
pub use candidate::{
    Admission, Candidate, ChangeKind, Claim, FileChange, Flag, Kind, Limit, Refusal, Refuted,
    Repair, Stop,
};
pub use card::{Card, CardKind, CardSink, CardState};
pub use decision::{Basis, Confidence, Decision, Evidence, NoWinner, Outcome};
pub use duel::{Control, ControlResult, Design, Duel, DuelResult, DuelRun, TEST_PATH};
pub use event::{EventSink, RunEvent, Stage};
pub use exit::Exit;
pub use extension::Extension;
pub use gate::{
    BaseComparison, Diagnostic, FlakyTest, GateKind, GateReport, OwnTest, OwnTests, TestEnd,
    Verdict,
};
pub use ids::{
    ArtifactId, CandidateId, CommitId, Family, JobId, JudgeId, LaneId, LeaseId, RunId, RunToken,
    TreeId,
};
pub use plan::{
    CheckTool, CommandSpec, DuelPlan, GatePlan, JudgePlan, Lane, ModelRef, NestedLimits, Origin,
    PatchPlan, Plan, RunLimits, Wire, WorkerLimits, WorkerPlan,
};
pub use record::{
    BaseRecord, CandidateRecord, Enough, LaneRecord, RECORD_VERSION, RULES_VERSION, Resumption,
    RunKind, RunRecord, SandboxRecord, Saved, Unanswered, Warning,
};
pub use sink::Sink;
pub use steer::{Fate, Sender, Steer};
pub use task::{Task, TaskSource};
pub use text::{Clipped, clip};
pub use usage::{Cost, MicroUsd, Usage};
pub use words::{duration, grouped};
