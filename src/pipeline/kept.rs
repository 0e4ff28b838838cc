//! A worker run's end as the journal keeps it.
//!
//! Never here: whether it holds (`memory`).

use serde::{Deserialize, Serialize};

use super::Attempt;
use crate::journal::{Entry, JournalError, RunDir};
use crate::model::chat::Message;
use crate::model::{
    ArtifactId, Claim, GateReport, LaneId, ModelRef, Stop, TreeId, Unanswered, Usage,
};

/// A worker run as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptAttempt {
    pub(super) diff: ArtifactId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) beyond: Option<String>,
    pub(super) answer: String,
    pub(super) claims: Vec<Claim>,
    pub(super) stop: Stop,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stands: bool,
    pub(super) turns: u32,
    pub(super) usage: Usage,
    pub(super) millis: u64,
    pub(super) transcript: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fallback: Option<ModelRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unanswered: Vec<Unanswered>,
    #[serde(default)]
    pub(super) jobs_ended: u32,
    #[serde(default)]
    pub(super) survivors: Vec<String>,
    #[serde(default)]
    pub(super) healed: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) with_the_run: bool,
}

impl KeptAttempt {
    /// The worker run with its diff.
    pub(super) fn attempt(self, diff: Vec<u8>) -> Attempt {
        let kept = self;
        Attempt {
            diff,
            beyond: kept.beyond,
            answer: kept.answer,
            claims: kept.claims,
            stop: kept.stop,
            why: kept.why,
            stands: kept.stands,
            turns: kept.turns,
            usage: kept.usage,
            millis: kept.millis,
            transcript: kept.transcript,
            fallback: kept.fallback,
            unanswered: kept.unanswered,
            jobs_ended: kept.jobs_ended,
            survivors: kept.survivors,
            healed: kept.healed,
            with_the_run: kept.with_the_run,
        }
    }
}

/// Keeps what the gates said of a tree, or of the base, and gives it as it is kept: what follows from it must not
/// hang on what no record may hold.
pub(super) fn keep_gates(
    dir: &RunDir,
    tree: Option<&TreeId>,
    gates: Vec<GateReport>,
) -> Result<Vec<GateReport>, JournalError> {
    let gates = dir.masked(&gates).unwrap_or(gates);
    dir.append(&Entry::Gated { tree: tree.cloned(), gates: gates.clone() })?;
    Ok(gates)
}

/// Keeps a worker run's end in the journal. One whose diff would be masked is not kept: what a resume
/// took over would not be what the worker made.
pub(super) fn keep_attempt(
    dir: &RunDir,
    lane: &LaneId,
    attempt: &Attempt,
) -> Result<(), JournalError> {
    if !dir.artifacts().keeps_whole(&attempt.diff) {
        return Ok(());
    }
    let kept = KeptAttempt {
        diff: dir.artifacts().put(&attempt.diff)?,
        beyond: attempt.beyond.clone(),
        answer: attempt.answer.clone(),
        claims: attempt.claims.clone(),
        stop: attempt.stop.clone(),
        why: attempt.why.clone(),
        stands: attempt.stands,
        turns: attempt.turns,
        usage: attempt.usage,
        millis: attempt.millis,
        transcript: attempt.transcript.clone(),
        fallback: attempt.fallback.clone(),
        unanswered: attempt.unanswered.clone(),
        jobs_ended: attempt.jobs_ended,
        survivors: attempt.survivors.clone(),
        healed: attempt.healed,
        with_the_run: attempt.with_the_run,
    };
    let text = serde_json::to_vec(&kept)
        .map_err(|error| JournalError::io("write", dir.path(), error.into()))?;
    let (attempt, _) = dir.artifacts().put_json(&text)?;
    dir.append(&Entry::Attempt { lane: lane.clone(), attempt })
}
