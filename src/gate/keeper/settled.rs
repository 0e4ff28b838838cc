//! What is known of a candidate without running a command: whether its tree is the admitted one, and
//! verdicts that earlier gates and the base settle.

use std::time::Instant;

use super::{BaseGates, Gatekeeper, Work, blocking, gate_name};
use crate::gate::error::GateError;
use crate::gate::protect::Gated;
use crate::model::{GateKind, GateReport, TreeId, Verdict};

impl Gatekeeper {
    /// The admitted tree on disk must be the admitted tree.
    pub(super) async fn apply(&self, tree: &TreeId) -> Result<GateReport, GateError> {
        let began = Instant::now();
        let laid = self.lay(tree.clone(), None).await;
        let seen = match laid {
            Ok(laid) => blocking(move || laid.verify().map_err(GateError::from)).await,
            Err(error) => Err(error),
        };
        let verdict = match seen {
            Ok(seen) if seen == *tree => Verdict::Pass,
            Ok(seen) => {
                let reason = format!("the tree on disk is {seen}, the admitted one is {tree}");
                Verdict::Fail { reason }
            }
            Err(GateError::Repo(error)) => {
                Verdict::Infra { reason: format!("the tree could not be laid out: {error}") }
            }
            Err(error) => return Err(error),
        };
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(GateReport { millis, ..GateReport::bare(GateKind::Apply, verdict) })
    }

    /// A verdict that is known without running the command.
    pub(super) fn settled(
        &self,
        work: &Work<'_>,
        gated: &Gated,
        base: &BaseGates,
        earlier: &[GateReport],
    ) -> Option<Verdict> {
        if let Some(report) = earlier.iter().find(|report| !report.verdict.is_pass()) {
            let gate = gate_name(report.gate);
            return Some(Verdict::Skipped { reason: format!("the {gate} gate was not passed") });
        }
        if let Some(reason) = self.hollow(work.gate, gated) {
            return Some(Verdict::Infra { reason });
        }
        match base.report(work.gate).map(|report| &report.verdict) {
            Some(Verdict::Infra { reason }) => {
                Some(Verdict::Infra { reason: format!("it could not run on the base: {reason}") })
            }
            Some(Verdict::Skipped { reason }) => {
                Some(Verdict::Infra { reason: format!("it did not run on the base: {reason}") })
            }
            Some(_) => None,
            None => Some(Verdict::Infra { reason: "it was never run on the base".to_owned() }),
        }
    }

    /// Nothing is left of a candidate that changes only what comes from the base.
    fn hollow(&self, gate: GateKind, gated: &Gated) -> Option<String> {
        let tree = if gate == GateKind::Test { &gated.test } else { &gated.check };
        // Tests alone are a change, too: they are run apart.
        let is_hollow = *tree == self.grounds.base()
            && !gated.restored.is_empty()
            && !gated.only_tests
            && (gate != GateKind::Test || gated.tests.added.is_empty());
        is_hollow.then(|| {
            let paths = gated.restored.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
            format!("it changes only what comes from the base for this gate ({paths}), so nothing of it was proved")
        })
    }
}
