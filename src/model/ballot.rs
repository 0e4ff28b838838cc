//! What one judge said of one pair in one order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CandidateId, JudgeId, Usage};

/// The order in which a judge saw a pair.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// `left` was shown first.
    Forward,
    /// `right` was shown first.
    Reverse,
}

/// What a judge chose, in terms of the pair, not of the order shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Choice {
    /// The pair's left candidate is better.
    Left,
    /// The pair's right candidate is better.
    Right,
    /// Neither is better.
    Tie,
    /// The judge gave no valid answer, twice; its voice is not counted.
    Abstain {
        /// Why the answers were not valid.
        reason: String,
    },
}

/// Where a judge or a template was taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeOrigin {
    /// `builtin`, `user` or `repository`.
    pub layer: String,
    /// SHA-256 of the definition's and the template's bytes, in lower-case hexadecimal.
    pub sha256: String,
}

/// One judge's answer on one pair in one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ballot {
    /// Who.
    pub judge: JudgeId,
    /// Which model answered.
    pub model: String,
    /// Where the judge's definition came from.
    pub origin: JudgeOrigin,
    /// The pair's left candidate: the one with the lower id.
    pub left: CandidateId,
    /// The pair's right candidate.
    pub right: CandidateId,
    /// The order shown.
    pub order: Order,
    /// What it chose.
    pub choice: Choice,
    /// Candidates that this judge says must not ship.
    pub vetoes: Vec<CandidateId>,
    /// Its reason: a model's words.
    pub reason: String,
    /// Quotes that were found in the diff or in a gate's output.
    pub evidence: Vec<String>,
    /// The duel after which it was given anew; absent for the panel's first word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duel: Option<u32>,
    /// What the ballot cost.
    pub usage: Usage,
}
