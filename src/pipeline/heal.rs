//! A candidate that fails a gate goes back to the worker that made it (contract C17).
//!
//! When a worker submits, its workspace is admitted and gated as its candidate will be; a failure is told
//! to it, fenced, for as many rounds as the plan has, and within its own limits. The last complete
//! submission stands: rounds that come to nothing make nothing worse. Never here: the choice among
//! candidates, which gates the same trees again from the cache.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::adapters::{GateProve, PatchAdmit};
use super::kept::keep_gates;
use super::memory::Memory;
use super::work::holds_diff;
use super::{Admit, PipelineError};
use crate::journal::RunDir;
use crate::model::{
    Admission, CandidateId, Claim, EventSink, GateKind, GateReport, LaneId, RunEvent, TreeId,
    Verdict,
};
use crate::prompt::GateFailure;
use crate::repo::{RepoError, Store, Workspace};
use crate::tools::{Bill, Submission};
use crate::worker::{Review, Voice};

/// What the healing of all workers of a run shares.
pub(super) struct Clinic {
    pub(super) prove: Arc<GateProve>,
    pub(super) admit: PatchAdmit,
    pub(super) store: Arc<Store>,
    pub(super) memory: Arc<Memory>,
    pub(super) dir: RunDir,
    pub(super) voice: Voice,
    pub(super) events: EventSink,
    pub(super) rounds: u32,
}

/// A submission as it was handed in.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) diff: Vec<u8>,
    pub(super) answer: String,
    pub(super) claims: Vec<Claim>,
}

/// The reviews of one worker run.
pub(super) struct Healer {
    pub(super) clinic: Arc<Clinic>,
    pub(super) lane: LaneId,
    pub(super) workspace: Arc<Workspace>,
    pub(super) bill: Bill,
    used: AtomicU32,
    kept: Mutex<Option<Kept>>,
}

impl Healer {
    /// For a worker run that begins.
    pub(super) fn new(
        clinic: Arc<Clinic>,
        lane: LaneId,
        workspace: Arc<Workspace>,
        bill: Bill,
    ) -> Self {
        Self { clinic, lane, workspace, bill, used: AtomicU32::new(0), kept: Mutex::default() }
    }

    /// The last complete submission, and how many rounds came after the first one.
    pub(super) fn kept(&self) -> (Option<Kept>, u32) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (kept, self.used.load(Ordering::SeqCst))
    }

    async fn fault(&self, submission: &Submission) -> Result<Option<GateFailure>, PipelineError> {
        let clinic = &self.clinic;
        let (store, workspace) = (clinic.store.clone(), self.workspace.clone());
        let diff = tokio::task::spawn_blocking(move || store.diff(&workspace)).await;
        let diff = diff.map_err(|error| PipelineError::Internal(error.to_string()))?;
        let used = self.used.load(Ordering::SeqCst);
        let left = clinic.rounds.checked_sub(used + 1);
        let mut diff = match diff {
            // There is nothing of it to keep.
            Err(error @ RepoError::ChangeTooLarge { .. }) => {
                return Ok(left.map(|left| refused("too-large", error.to_string(), left)));
            }
            diff => diff?,
        };
        if diff.is_empty() && holds_diff(&submission.answer) {
            diff = submission.answer.clone().into_bytes();
        }
        let kept = Kept {
            diff: diff.clone(),
            answer: submission.answer.clone(),
            claims: submission.claims.clone(),
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        let Some(left) = left.filter(|_| !diff.is_empty()) else { return Ok(None) };
        match clinic.admit.admit(&diff)? {
            Admission::Refused(refusal) => Ok(Some(refused(&refusal.code, refusal.message, left))),
            Admission::Admitted { tree, .. } => {
                let reports = self.gates(&tree, used + 1).await?;
                Ok(reports.iter().find(|r| r.verdict.is_fail()).map(|r| failure(r, left)))
            }
        }
    }

    /// The gates of a tree, from the journal or run and journaled, as the candidate's will be.
    async fn gates(&self, tree: &TreeId, round: u32) -> Result<Vec<GateReport>, PipelineError> {
        let clinic = &self.clinic;
        if let Some(known) = clinic.memory.gates(Some(tree)) {
            return Ok(known);
        }
        clinic.events.send(RunEvent::LaneActivity {
            lane: self.lane.clone(),
            turn: round,
            activity: format!("gates, round {round}"),
            usage: self.bill.total(),
            context: 0,
        });
        let id = CandidateId::new(format!("{} round {round}", self.lane));
        // The candidate's own gates are told when it is gated; these are a worker's affair.
        let gates = clinic.prove.gates(&id, tree, &EventSink::none()).await?;
        if gates.is_empty() {
            return Ok(gates);
        }
        Ok(keep_gates(&clinic.dir, Some(tree), gates)?)
    }
}

impl Review for Healer {
    fn review<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Option<String>> {
        async move {
            // What the engine can't do here the candidate's own gates will say.
            let failure = self.fault(submission).await.unwrap_or_else(|error| {
                tracing::warn!("{}: its submission could not be gated: {error}", self.lane);
                None
            })?;
            self.used.fetch_add(1, Ordering::SeqCst);
            Some(self.clinic.voice.say(&failure))
        }
        .boxed()
    }
}

/// What a worker is told whose workspace gives no diff that is taken.
fn refused(code: &str, message: String, rounds_left: u32) -> GateFailure {
    GateFailure {
        gate: "apply".to_owned(),
        facts: vec![format!("the diff of your workspace is refused: {code}")],
        output: message,
        rounds_left,
        ..GateFailure::default()
    }
}

/// What a worker is told of a gate that it failed: facts in the engine's words, the rest foreign.
fn failure(report: &GateReport, rounds_left: u32) -> GateFailure {
    let gate = match report.gate {
        GateKind::Setup => "setup",
        GateKind::Apply => "apply",
        GateKind::Typecheck => "typecheck",
        GateKind::Test => "tests",
    };
    let new = report.base.as_ref().map_or(0, |base| base.new_failures.len());
    let facts = [
        (new > 0).then(|| format!("{new} failures that the base does not have")),
        report.exit_status.map(|status| format!("exit status {status}")),
    ];
    let reason = match &report.verdict {
        Verdict::Fail { reason } => format!("{reason}\n\n"),
        _ => String::new(),
    };
    GateFailure {
        gate: gate.to_owned(),
        command: report.command.clone(),
        facts: facts.into_iter().flatten().collect(),
        output: reason + &report.output.text,
        rounds_left,
    }
}
