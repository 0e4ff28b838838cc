//! The lines of a journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::chat::Purpose;
use crate::model::{ArtifactId, Plan, RunEvent, Usage};

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The first line: what the run is to do.
    Plan {
        /// The plan.
        plan: Box<Plan>,
        /// The engine's version.
        engine: String,
    },
    /// A model is about to be asked. A call without its end is possibly paid.
    CallBegan {
        /// What for.
        purpose: Purpose,
        /// The request as an artifact.
        request: ArtifactId,
    },
    /// A model answered, or did not.
    CallEnded {
        /// What for.
        purpose: Purpose,
        /// The reply as an artifact; absent after an error.
        reply: Option<ArtifactId>,
        /// The error's class and message.
        error: Option<String>,
        /// What it used.
        usage: Usage,
    },
    /// A worker's whole conversation, as an artifact.
    Transcript {
        /// The lane.
        lane: crate::model::LaneId,
        /// The messages.
        messages: ArtifactId,
    },
    /// Something that listeners were told, too.
    Event {
        /// The event.
        #[serde(flatten)]
        event: RunEvent,
    },
}
