//! What the run decided, and what speaks for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CandidateId, TreeId};

/// Why nothing won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoWinner {
    /// There was no candidate at all.
    NoCandidates,
    /// No diff was admitted.
    NothingApplied,
    /// No admitted tree passed the gates.
    NothingPassed,
    /// The gates could not run, so that nothing could be proved.
    GatesCouldNotRun,
    /// Survivors were there, but nothing told them apart well enough.
    NoConfidentChoice,
    /// Only PARTIAL candidates passed; they are shown and never chosen by themselves.
    OnlyPartial,
    /// Every lane failed on its model's server.
    ModelsUnreachable,
    /// No lane left a change, and at least one failed on this machine (disk, workspace, engine).
    LanesFailed,
    /// A limit of the run ended it before a winner.
    LimitReached,
    /// The operator stopped the run.
    Cancelled,
}

/// What the choice among the survivors rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Only one tree passed the gates.
    OnlySurvivor,
    /// Judges' ballots, over the evidence.
    Judges,
    /// No judge spoke: gates and agreement of independent families alone.
    Evidence,
}

/// How sure the choice is. It orders review; it never applies a diff by itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Look at it closely.
    Low,
    /// Some independent support.
    Medium,
    /// Tests or several independent families or all judges agree.
    High,
}

/// Whether there is a winner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// This one.
    Winner {
        /// The candidate that stands for the tree.
        candidate: CandidateId,
        /// The tree.
        tree: TreeId,
    },
    /// `gate`: nothing was to be chosen, each diff stands for itself.
    Gated {
        /// Those that passed every gate.
        passed: Vec<CandidateId>,
        /// Those that were refused, failed, or could not be proved.
        others: Vec<CandidateId>,
    },
    /// None.
    NoWinner {
        /// Why.
        reason: NoWinner,
        /// The best two, when there were any, for a person to look at.
        closest: Vec<CandidateId>,
    },
}

/// One line of evidence for or against a candidate, stated by the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Whom it speaks of.
    pub candidate: CandidateId,
    /// In words.
    pub text: String,
    /// Its weight in the score it belongs to, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The run's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Winner or not.
    pub outcome: Outcome,
    /// What it rests on; absent when nothing survived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// How sure.
    pub confidence: Confidence,
    /// One sentence for a reader.
    pub reason: String,
    /// What speaks for and against.
    pub evidence: Vec<Evidence>,
}

impl Decision {
    /// The winning candidate, if there is one.
    pub fn winner(&self) -> Option<&CandidateId> {
        match &self.outcome {
            Outcome::Winner { candidate, .. } => Some(candidate),
            Outcome::NoWinner { .. } | Outcome::Gated { .. } => None,
        }
    }
}
