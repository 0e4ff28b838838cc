//! The other real phases: admission, gates, consensus, judges, synthesizer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::memory::Memory;
use super::{Admit, PipelineError, Prove};
use crate::gate::{BaseGates, DuelTest, GateError, Gatekeeper, gated};
use crate::journal::{Entry, RunDir};
use crate::model::{
    Admission, CandidateId, DuelRun, EventSink, Flag, GatePlan, GateReport, RunEvent, TreeId,
};
use crate::patch::{self, Rules};
use crate::repo::{GateLayer, Store};

/// Admission by `patch`, over the run's store.
pub struct PatchAdmit {
    /// The run's store.
    pub store: Arc<Store>,
    /// What a diff may do.
    pub rules: Rules,
    /// The gates: what defines them is flagged when a diff touches it.
    pub gates: GatePlan,
}

impl Admit for PatchAdmit {
    fn admit(&self, diff: &[u8]) -> Result<Admission, PipelineError> {
        let failed = |error: patch::StoreError| PipelineError::Store(error.to_string());
        let (store, base) = (&*self.store, self.store.base_tree());
        let draft = store.draft();
        let mut admission = patch::admit(diff, base, &draft, &self.rules).map_err(failed)?;
        if let Admission::Admitted { tree, flags, .. } = &mut admission {
            draft.keep().map_err(failed)?;
            let touched = gated(store, base, tree, &self.gates).map_err(failed)?.flags;
            // Admission knows gates by their names alone, so that the gates' own word is the better one.
            let same = |flag: &Flag, other: &Flag| {
                flag.path == other.path
                    && (flag.code == other.code || other.code.starts_with("touches-"))
            };
            flags.retain(|flag| {
                flag.code != "touches-gate" || !touched.iter().any(|other| same(flag, other))
            });
            flags.extend(touched);
        }
        Ok(admission)
    }

    fn canonical(&self, tree: &TreeId) -> Result<Vec<u8>, PipelineError> {
        Ok(self.store.diff_trees(self.store.base_tree(), tree)?)
    }
}

/// Gates by `gate`. The base's own result is kept for the candidates.
pub struct GateProve {
    /// Runs the gates.
    pub keeper: Gatekeeper,
    /// Where gates are told.
    pub events: EventSink,
    /// Ends them.
    pub cancel: CancellationToken,
    /// What the base gave.
    pub base: tokio::sync::OnceCell<BaseGates>,
    /// What lies under the workers' workspaces.
    pub under_workers: tokio::sync::OnceCell<GateLayer>,
    /// What the journal knows of them.
    pub memory: Arc<Memory>,
    /// Masks what the gates print: they may be given secrets by name, and judges read their reports.
    pub dir: RunDir,
    /// What was gated in this run: a submission's tree is its candidate's, too.
    pub gated: Gated,
}

/// Trees that were gated, and those that are being gated.
#[derive(Default)]
pub struct Gated {
    done: Mutex<BTreeMap<TreeId, Vec<GateReport>>>,
    /// Whoever gates a tree holds its turn.
    turns: Mutex<BTreeMap<TreeId, Arc<tokio::sync::Mutex<()>>>>,
    /// The gates that run.
    tasks: TaskTracker,
}

impl Gated {
    fn reports(&self, tree: &TreeId) -> Option<Vec<GateReport>> {
        lock(&self.done).get(tree).cloned()
    }

    /// The right to gate a tree, one at a time.
    async fn turn(&self, tree: &TreeId) -> OwnedMutexGuard<()> {
        let turn = lock(&self.turns).entry(tree.clone()).or_default().clone();
        turn.lock_owned().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GateProve {
    /// The base's own gates, run once. A resumed run takes them from its journal and from the cache, and
    /// runs them again only where what they left to the candidates is gone.
    async fn base_gates(&self) -> Result<&BaseGates, PipelineError> {
        self.base.get_or_try_init(|| self.recalled_or_run()).await
    }

    /// What lies under the workers' workspaces, found once. A run that goes on may have to run the base's
    /// gates for it.
    pub async fn under_workers(&self) -> Result<&GateLayer, PipelineError> {
        let find = || async {
            let base = self.base_gates().await?;
            Ok(self.keeper.under_workers(base, &self.events).await?)
        };
        self.under_workers.get_or_try_init(find).await
    }

    async fn recalled_or_run(&self) -> Result<BaseGates, PipelineError> {
        if let Some(kept) = self.memory.base_kept()?
            && let Some(gates) = self.keeper.recall(&kept, &self.events).await?
            && ran(&gates)
        {
            return Ok(gates);
        }
        let gates = self.keeper.base(&self.events, &self.cancel).await?;
        // What would be masked is not what candidates are compared with.
        let kept = gates.kept().filter(|kept| self.dir.artifacts().keeps_whole(kept));
        if let Some(kept) = kept.filter(|_| ran(&gates)) {
            let gates = self.dir.artifacts().put(&kept)?;
            self.dir.append(&Entry::BaseKept { gates })?;
        }
        Ok(gates)
    }

    fn masked(&self, reports: Vec<GateReport>) -> Vec<GateReport> {
        self.dir.masked(&reports).unwrap_or(reports)
    }
}

/// Whether all gates could run: those that could not are tried again.
fn ran(gates: &BaseGates) -> bool {
    !gates.reports.iter().any(|report| report.verdict.is_infra())
}

impl GateProve {
    /// The gates on a tree, told to `events`. A tree that was gated in this run is not gated again, unless
    /// a gate could not run; who asks while they run waits for what they say.
    ///
    /// They run in a task of their own: a worker that is told to stop while its submission is gated ends
    /// its wait, and the gates go on for the candidate that it left.
    pub(super) async fn gates(
        self: &Arc<Self>,
        id: &CandidateId,
        tree: &TreeId,
        events: &EventSink,
    ) -> Result<Vec<GateReport>, PipelineError> {
        let turn = self.gated.turn(tree).await;
        if let Some(reports) = self.gated.reports(tree) {
            for report in &reports {
                events
                    .send(RunEvent::Gated { candidate: Some(id.clone()), report: report.clone() });
            }
            return Ok(reports);
        }
        let (prove, id, tree, events) = (self.clone(), id.clone(), tree.clone(), events.clone());
        let task = self.gated.tasks.spawn(async move {
            let _turn = turn;
            prove.run_gates(&id, &tree, &events).await
        });
        task.await.map_err(|error| PipelineError::Internal(error.to_string()))?
    }

    async fn run_gates(
        &self,
        id: &CandidateId,
        tree: &TreeId,
        events: &EventSink,
    ) -> Result<Vec<GateReport>, PipelineError> {
        let base = match self.base_gates().await {
            Err(_) if self.cancel.is_cancelled() => return Ok(Vec::new()),
            base => base?,
        };
        let reports = match self.keeper.candidate(id, tree, base, events, &self.cancel).await {
            // What was not proved stays without a report, and no report is no proof.
            Err(GateError::Cancelled) => return Ok(Vec::new()),
            reports => self.masked(reports?),
        };
        if !reports.iter().any(|report| report.verdict.is_infra()) {
            lock(&self.gated.done).insert(tree.clone(), reports.clone());
        }
        Ok(reports)
    }

    /// A duel's test on the base and on `finalists`, `times` times each. Nothing where the run is stopped.
    pub(super) async fn duel(
        &self,
        test: &DuelTest,
        finalists: &[(CandidateId, TreeId)],
        times: u32,
    ) -> Result<Option<Vec<DuelRun>>, PipelineError> {
        let base = match self.base_gates().await {
            Err(_) if self.cancel.is_cancelled() => return Ok(None),
            base => base?,
        };
        // The base and the candidates have no gate under way that a listener could wait for.
        let silent = (&EventSink::none(), &self.cancel);
        match self.keeper.duel(test, finalists, base, times, silent).await {
            Err(GateError::Cancelled) => Ok(None),
            runs => Ok(Some(runs?)),
        }
    }
}

impl Prove for Arc<GateProve> {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        async move { Ok(self.masked(self.base_gates().await?.reports.clone())) }.boxed()
    }

    fn candidate<'a>(
        &'a self,
        id: &'a CandidateId,
        tree: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        self.gates(id, tree, &self.events).boxed()
    }

    fn known(&self, tree: &TreeId) -> Vec<GateReport> {
        self.gated.reports(tree).unwrap_or_default()
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        self.gated.tasks.close();
        self.gated.tasks.wait().boxed()
    }
}
