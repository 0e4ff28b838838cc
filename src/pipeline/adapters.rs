//! The other real phases: admission, gates, consensus, judges, synthesizer.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Admit, PipelineError, Prove};
use crate::gate::{BaseGates, GateError, Gatekeeper, gated};
use crate::journal::RunDir;
use crate::model::{Admission, CandidateId, EventSink, GatePlan, GateReport, TreeId};
use crate::patch::{self, Rules};
use crate::repo::Store;

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
            let known: Vec<Option<String>> = flags.iter().map(|flag| flag.path.clone()).collect();
            flags.extend(touched.into_iter().filter(|flag| !known.contains(&flag.path)));
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
    /// Masks what the gates print: they may be given secrets by name, and judges read their reports.
    pub dir: RunDir,
}

impl GateProve {
    fn masked(&self, reports: Vec<GateReport>) -> Vec<GateReport> {
        self.dir.masked(&reports).unwrap_or(reports)
    }
}

impl Prove for GateProve {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        async move {
            let gates = self.keeper.base(&self.events, &self.cancel).await?;
            let gates = self.base.get_or_init(|| async { gates }).await;
            Ok(self.masked(gates.reports.clone()))
        }
        .boxed()
    }

    fn candidate<'a>(
        &'a self,
        id: &'a CandidateId,
        tree: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        async move {
            let base = self.base.get().ok_or_else(|| {
                PipelineError::Internal("candidates were gated before the base".to_owned())
            })?;
            match self.keeper.candidate(id, tree, base, &self.events, &self.cancel).await {
                // What was not proved stays without a report, and no report is no proof.
                Err(GateError::Cancelled) => Ok(Vec::new()),
                reports => Ok(self.masked(reports?)),
            }
        }
        .boxed()
    }
}
