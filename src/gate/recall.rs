//! The base's gates of a run that was cut off: what they said is kept with the run, and what they left
//! is in the cache.
//!
//! Never here: running anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::GateError;
use super::grounds::Layer;
use super::keeper::{BaseGates, Gatekeeper};
use super::outcome::Outcome;
use crate::model::{EventSink, GateKind, GateReport};
use crate::repo::Reused;

/// The base's gates as they are kept.
#[derive(Deserialize, Serialize)]
struct Kept {
    reports: Vec<GateReport>,
    runs: BTreeMap<GateKind, Outcome>,
    rewritten: Vec<String>,
}

impl BaseGates {
    /// Everything that they said, as JSON for [`Gatekeeper::recall`]; none where it can't be said.
    pub fn kept(&self) -> Option<Vec<u8>> {
        let (reports, rewritten) = (self.reports.clone(), self.rewritten.clone());
        serde_json::to_vec(&Kept { reports, runs: self.runs.clone(), rewritten }).ok()
    }
}

impl Gatekeeper {
    /// The base's gates without running them again, from what [`BaseGates::kept`] gave. None where what
    /// they left for the candidates is gone, or was made in another way.
    ///
    /// # Errors
    /// [`GateError`] when the engine itself can't go on.
    pub async fn recall(
        &self,
        kept: &[u8],
        events: &EventSink,
    ) -> Result<Option<BaseGates>, GateError> {
        let Ok(Kept { reports, runs, rewritten }) = serde_json::from_slice(kept) else {
            return Ok(None);
        };
        let standing = self.stand(events).await?;
        let shown = self.shown(&standing);
        let (Reused::Same(_), Some(layer)) = (&standing.reused, standing.layer) else {
            return Ok(None);
        };
        let layer = Some(Arc::new(layer) as Layer);
        Ok(Some(BaseGates { reports, layer, runs, rewritten, shown }))
    }
}
