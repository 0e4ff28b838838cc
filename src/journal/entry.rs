//! The lines of a journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::chat::Purpose;
use crate::model::{
    ArtifactId, Design, DuelRun, Enough, GateReport, LaneId, Plan, RunEvent, RunId, RunLimits,
    TreeId, Unanswered, Usage,
};

/// Version of the journal's lines. It grows with every change that an older engine can't take.
pub const JOURNAL_VERSION: u32 = 1;

/// What a model leaves that could not go on with a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The model, and what its server said.
    pub unanswered: Unanswered,
    /// What it used.
    pub usage: Usage,
    /// Jobs of its that were ended, proven.
    pub jobs_ended: u32,
    /// What of its jobs may be alive.
    pub survivors: Vec<String>,
}

/// Places at which a run looks whether it was cut off, in the order of its stages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    /// After the gates on the base.
    Base,
    /// Before the design step.
    Design,
    /// After it.
    Designed,
    /// After the workers.
    Worked,
    /// After the gates on the candidates.
    Proved,
    /// Before the skeptics.
    Doubt,
    /// Before the judges.
    Judge,
    /// Before judges are tried for length.
    Control,
    /// Before a duel.
    Duel,
    /// After the judges and what comes of their word.
    Decided,
    /// Before the synthesizer.
    Fuse,
    /// After a proposal of the synthesizer.
    Fused,
    /// Before the side calls.
    Aside,
}

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The first line: what the run is to do.
    Plan {
        /// Version of the lines that follow.
        version: u32,
        /// The plan.
        plan: Box<Plan>,
        /// The engine's version.
        engine: String,
        /// Everything else that the run was told at its beginning, as an artifact: what a resume needs.
        frame: ArtifactId,
        /// SHA-256 of the secret of the run's fences, without which none of its prompts can be made again; absent in
        /// journals of engines that did not keep it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fences: Option<ArtifactId>,
        /// The run whose candidates and gates it has: they follow, up to the line that says that it goes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rejudges: Option<RunId>,
    },
    /// A killed or stopped run goes on.
    Resumed {
        /// The engine's version.
        engine: String,
        /// The limits from here on; absent in journals of engines that did not keep them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RunLimits>,
    },
    /// A model is about to be asked. A call without its end is possibly paid.
    CallBegan {
        /// What for.
        purpose: Purpose,
        /// The provider that is asked: two servers may have a model of one name.
        #[serde(default)]
        provider: String,
        /// The request as an artifact.
        request: ArtifactId,
    },
    /// A model answered, or did not.
    CallEnded {
        /// What for.
        purpose: Purpose,
        /// The provider that was asked; empty in journals of engines that kept neither it nor the request here.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        provider: String,
        /// The request as an artifact. With the provider it says which of the open calls this is the end of:
        /// one purpose may have several, at two models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<ArtifactId>,
        /// The reply as an artifact; absent after an error.
        reply: Option<ArtifactId>,
        /// The error's class and message.
        error: Option<String>,
        /// What it used.
        usage: Usage,
        /// Whether the reply held a secret, so that what is stored is not all of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        masked: bool,
        /// Whether the server may have charged for a call that failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        maybe_charged: bool,
    },
    /// A lane's model can't be had, and the next one is about to take over.
    Fallback {
        /// The lane.
        lane: LaneId,
        /// What is left behind.
        left: LeftBehind,
    },
    /// A worker run ended: its diff, answer, claims and whole conversation, as an artifact.
    Attempt {
        /// The lane.
        lane: LaneId,
        /// What it left.
        attempt: ArtifactId,
    },
    /// Enough candidates were there. Lanes that had not ended before are not begun again.
    Enough {
        /// Which, and why they were enough.
        enough: Enough,
    },
    /// The run's time limit ended it: where its stages saw that first. It can't be derived from anything else, and a
    /// replay has no clock.
    TimedOut {
        /// The place in the order of the stages.
        at: Checkpoint,
        /// The how many-th look there, from 1.
        nth: u32,
    },
    /// The gates ran, on a candidate's tree or on the base.
    Gated {
        /// The tree; absent for the base.
        tree: Option<TreeId>,
        /// What they said.
        gates: Vec<GateReport>,
    },
    /// The base's gates in full, as an artifact: what candidates are compared with.
    BaseKept {
        /// What they said.
        gates: ArtifactId,
    },
    /// The design step ended: what workers are told, or why there is nothing. It is not made again.
    Designed {
        /// The plan.
        design: Design,
    },
    /// A duel's test ran.
    Dueled {
        /// The base with the test.
        test: TreeId,
        /// The admitted trees of the finalists, in their order.
        trees: Vec<TreeId>,
        /// The command line.
        command: String,
        /// How it ended on the base and on each finalist.
        runs: Vec<DuelRun>,
    },
    /// The run's decision is about to be written down as `record.json`. Another record beside the journal is not its own.
    Recorded {
        /// SHA-256 of that file.
        record: ArtifactId,
    },
    /// Something that listeners were told, too.
    Event {
        /// The event.
        #[serde(flatten)]
        event: Box<RunEvent>,
    },
}
