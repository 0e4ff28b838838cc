//! What the ceilings of a run refused, as its journal tells it.
//!
//! Never here: what becomes of it (`memory`), the ceilings (`provider`).

use std::collections::BTreeMap;

use super::memory::{Asked, failure};
use crate::model::LaneId;
use crate::model::chat::Purpose;
use crate::provider::{ErrorClass, RunCeiling};

/// What did not fit under a ceiling of the run.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// Of lanes under way.
    open: BTreeMap<LaneId, RunCeiling>,
    /// Of lanes that have ended.
    lanes: BTreeMap<LaneId, RunCeiling>,
    /// Calls of judges and of everybody else but workers.
    pub(super) others: BTreeMap<Asked, RunCeiling>,
}

impl Limited {
    /// Takes a call's end to heart, if it is a refusal.
    pub(super) fn note(&mut self, purpose: &Purpose, asked: &Asked, error: Option<&str>) {
        let error = error.map(failure).filter(|error| error.class == ErrorClass::Budget);
        let Some(by) = error.and_then(|error| RunCeiling::of(&error.message)) else { return };
        match purpose {
            Purpose::Worker { lane, .. } => drop(self.open.insert(lane.clone(), by)),
            _ => drop(self.others.insert(asked.clone(), by)),
        }
    }

    /// A lane has ended: what it was refused last is why, where that is why.
    pub(super) fn ended(&mut self, lane: &LaneId) {
        self.lanes.remove(lane);
        if let Some(by) = self.open.remove(lane) {
            self.lanes.insert(lane.clone(), by);
        }
    }

    /// The lanes that ended on one of these ceilings.
    pub(super) fn lanes_ended_by(&self, raised: &[RunCeiling]) -> Vec<LaneId> {
        let fits = self.lanes.iter().filter(|(_, by)| raised.contains(by));
        fits.map(|(lane, _)| lane.clone()).collect()
    }
}
