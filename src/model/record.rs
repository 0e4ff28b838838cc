//! The record of a run: what `show` renders, and the schema that is published.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Admission, ArtifactId, Ballot, Candidate, CandidateId, CommitId, Control, Cost, Decision,
    Design, Duel, Exit, Extension, GateReport, LaneId, Plan, Refuted, RunId, Steer, Stop, TreeId,
    Usage,
};

/// Version of the record's schema. It grows with every change that an older reader can't take.
pub const RECORD_VERSION: u32 = 1;

/// Version of the rules that admit, weigh and decide. A record carries the one that decided it.
pub const RULES_VERSION: u32 = 3;

/// Which command made the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// `run` and `demo`.
    Run,
    /// `pick`.
    Pick,
    /// `gate`.
    Gate,
}

/// Something that did not end the run and that a reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable kebab-case code (`sandbox-waived`, `gates-incomplete`, `dirty-left-out`, …).
    pub code: String,
    /// In words, with what to do next.
    pub message: String,
}

/// The base of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaseRecord {
    /// The revision as it was asked for.
    pub rev: String,
    /// The commit it named.
    pub commit: CommitId,
    /// The base tree; with `--dirty` it holds the working tree's changes, too.
    pub tree: TreeId,
    /// Whether uncommitted changes are part of the tree.
    pub dirty: bool,
    /// The gates' reports on the base.
    pub gates: Vec<GateReport>,
}

/// How the sandbox stood when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRecord {
    /// `namespaces` (the strong tier), `landlock` (the weak tier), `none`.
    pub tier: String,
    /// `proof` or `waiver`; `none` when no code was to run.
    pub permit: String,
    /// Every canary probe by name, and whether its attack was stopped.
    pub probes: BTreeMap<String, bool>,
    /// How the workers' workspaces were made: `overlay-user`, `overlay-root`, `overlay-memory`,
    /// `reflink` or `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<String>,
}

/// A lane's attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneRecord {
    /// The lane.
    pub lane: LaneId,
    /// The model that answered, as `PROVIDER:MODEL`: the lane's own, or the fallback that took over.
    pub model: String,
    /// The models before it whose servers could not answer, in order; empty when the first one could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<Unanswered>,
    /// How it ended.
    pub stop: Stop,
    /// The candidate it left, if any.
    pub candidate: Option<CandidateId>,
    /// Why it left none, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_none: Option<String>,
    /// Turns of its conversation.
    pub turns: u32,
    /// What it used.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// Jobs that were still running at its end and were ended with it, proven.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jobs_ended: u32,
    /// How often a gate sent it back before it handed in what stands.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub healed: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A model that a lane left for a fallback, because its server could not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unanswered {
    /// The model, as `PROVIDER:MODEL`.
    pub model: String,
    /// The class of the last error.
    pub class: String,
    /// What the server or the network said.
    pub message: String,
}

/// A candidate with everything that was said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateRecord {
    /// The candidate.
    pub candidate: Candidate,
    /// What admission said.
    pub admission: Admission,
    /// Another candidate with an equal tree that stands for this one, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CandidateId>,
    /// The diff between the base and the admitted tree, in the engine's own printing: what `diff`
    /// prints and what any git applies, whatever had to be mended in the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<ArtifactId>,
    /// The gates' reports; empty when refused or when it is another's equal.
    pub gates: Vec<GateReport>,
    /// Its consensus score, when it was weighed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What of its author's claims was refuted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refuted: Vec<Refuted>,
}

/// What a run that was cut off took over from its journal when it went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resumption {
    /// Model calls whose recorded answer was used.
    pub reused_calls: u64,
    /// Worker runs that had ended.
    pub reused_lanes: u32,
    /// Trees, the base among them, whose gates had run.
    pub reused_gates: u32,
    /// Calls that were in flight when the run was cut off, or failed after the server may have charged:
    /// they are possibly paid, and their answer is lost.
    pub possibly_paid_calls: u64,
}

/// Why a fan-out ended early: enough candidates were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enough {
    /// How many were asked for (`--enough`).
    pub wanted: u32,
    /// Whether those that passed the gates have an equal tree.
    pub equal: bool,
    /// The candidates.
    pub candidates: Vec<CandidateId>,
}

/// What an early end of the fan-out saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// Why it ended early.
    pub enough: Enough,
    /// Lanes that no model had answered yet: most were never begun.
    pub not_begun: Vec<LaneId>,
    /// Lanes that were cut off at work.
    pub cut: Vec<LaneId>,
    /// Tokens that they would have used on: an estimate from the mean of the workers that finished,
    /// of the same lane where there is one.
    pub tokens: u64,
    /// The same in money, as far as prices are known.
    pub cost: Cost,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Version of this schema.
    pub version: u32,
    /// Version of the rules that decided.
    pub rules: u32,
    /// The engine's version.
    pub engine: String,
    /// Which command.
    pub kind: RunKind,
    /// The run's id.
    pub run: RunId,
    /// When it began, also of a run that was resumed.
    #[schemars(with = "String")]
    pub started: jiff::Timestamp,
    /// How long its engines worked, in milliseconds, without the pauses between them. How long one worked that was
    /// killed is not known, and not in it.
    pub millis: u64,
    /// What it was to do.
    pub plan: Plan,
    /// True when the models were scripted.
    pub scripted: bool,
    /// The base.
    pub base: BaseRecord,
    /// The sandbox.
    pub sandbox: SandboxRecord,
    /// The lanes.
    pub lanes: Vec<LaneRecord>,
    /// The candidates.
    pub candidates: Vec<CandidateRecord>,
    /// The judges' ballots.
    pub ballots: Vec<Ballot>,
    /// How judges that took the longer change each time stood to a change and its padded copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
    /// Tests that a model wrote to tell close finalists apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duels: Vec<Duel>,
    /// The plan that all workers were given, when there was a design step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<Design>,
    /// The decision.
    pub decision: Decision,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// What models were asked, every role together.
    pub usage: Usage,
    /// The same by role: `design`, `workers`, `skeptics`, `judges`, `duels`, `synthesizer`, `side`. A role that nobody answered in is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Usage>,
    /// How the command ended.
    pub exit: Exit,
    /// Prompts and judges that were used: name to `layer:sha256`.
    pub definitions: BTreeMap<String, String>,
    /// The run's title in a model's words, when a side call gave one: foreign text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What hands the run over, in a model's words, when a side call gave it: foreign text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capsule: Option<String>,
    /// What an early end of the fan-out saved, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
    /// What the operator said to workers under way, and what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steers: Vec<Steer>,
    /// What nested workers asked for beyond their cap, and what they got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// What was taken over, when the run was resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumption>,
    /// The run whose candidates and gates were judged anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejudges: Option<RunId>,
}

impl RunRecord {
    /// What a list calls the run: its title, else the first line of its task.
    pub fn name(&self) -> String {
        let task = || self.plan.task.as_ref().map(|task| task.title());
        self.title.clone().or_else(task).unwrap_or_default()
    }
}
