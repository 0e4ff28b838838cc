//! Identifiers, one type each, so that a tree is never taken for a commit or a lane for a candidate.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text of an identifier that was made or read elsewhere.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A run of the engine: a version 7 UUID in its hyphenated text form, so that ids sort by time.
    RunId
);
id!(
    /// A secret of one top-level worker run (32 hexadecimal digits). Every process that the worker
    /// starts is stamped with it, and the end of the worker run ends what still carries it.
    RunToken
);
id!(
    /// A worker's slot in a run: the lane's name, `/`, and its 1-based attempt (`fast/2`).
    LaneId
);
id!(
    /// A candidate of a run: `c1`, `c2`, … in the order of the plan, never of arrival.
    CandidateId
);
id!(
    /// A git tree object id in lower-case hexadecimal.
    TreeId
);
id!(
    /// A git commit object id in lower-case hexadecimal.
    CommitId
);
id!(
    /// A stored artifact: the SHA-256 of its bytes in lower-case hexadecimal.
    ArtifactId
);
id!(
    /// A process job, one id everywhere (list, attach, stop, tool results).
    JobId
);
id!(
    /// One leased workspace, told from every other one, whatever its path.
    LeaseId
);
id!(
    /// A judge definition's id (`correctness`).
    JudgeId
);
id!(
    /// A voice for the consensus: a worker kind together with its model's maker. Samples of one
    /// family are not independent of each other.
    Family
);

impl LaneId {
    /// The id of a lane's attempt. `attempt` counts from 1.
    pub fn of(name: &str, attempt: u32) -> Self {
        Self(format!("{name}/{attempt}"))
    }

    /// The one of a run's lanes that is meant by `asked`: an id, or a name of which there is one attempt.
    pub fn meant<'a>(asked: &str, lanes: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        let named = |lane: &&Self| {
            lane.0 == asked || lane.0.rsplit_once('/').is_some_and(|(name, _)| name == asked)
        };
        let mut found = lanes.into_iter().filter(named);
        found.next().filter(|_| found.next().is_none())
    }

    /// The id of the `number`th worker that this worker run handed work to.
    pub fn nested(&self, number: u32) -> Self {
        Self(format!("{self}+{number}"))
    }

    /// The worker run that this one works for: itself, unless work was handed to it.
    pub fn worker_run(&self) -> Self {
        // No lane's name holds a `+`.
        Self(self.0.split('+').next().unwrap_or_default().to_owned())
    }
}

impl CandidateId {
    /// The id of the candidate at `index` (from 0) in the plan's order.
    pub fn nth(index: usize) -> Self {
        Self(format!("c{}", index + 1))
    }
}
