//! What the ceilings of a run refused, as its journal tells it.
//!
//! Never here: what becomes of it (`memory`), the ceilings (`provider`).

use std::collections::BTreeMap;

use super::memory::{Asked, failure};
use crate::model::chat::Purpose;
use crate::model::{LaneId, RunLimits};
use crate::provider::{ErrorClass, RunCeiling};

/// What did not fit under a ceiling of the run.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// Of lanes under way.
    open: BTreeMap<LaneId, Refused>,
    /// Of lanes that have ended.
    lanes: BTreeMap<LaneId, Refused>,
    /// Calls of judges and of everybody else but workers.
    others: BTreeMap<Asked, Refused>,
}

/// A refusal: the ceiling, and how high it was. A run that goes on may have another one each time.
#[derive(Clone, Copy, Debug)]
struct Refused {
    by: RunCeiling,
    most: Option<u64>,
}

impl Refused {
    fn is_raised(self, now: &RunLimits) -> bool {
        matches!((self.most, height(self.by, now)), (Some(was), Some(now)) if now > was)
    }
}

/// A ceiling's height, in micro-dollars or tokens.
fn height(ceiling: RunCeiling, limits: &RunLimits) -> Option<u64> {
    match ceiling {
        RunCeiling::Money => limits.budget.map(|most| most.0),
        RunCeiling::Tokens => limits.max_tokens,
    }
}

impl Limited {
    /// Takes a call's end to heart, if it is a refusal, under the limits that held then.
    pub(super) fn note(
        &mut self,
        purpose: &Purpose,
        asked: &Asked,
        error: Option<&str>,
        limits: &RunLimits,
    ) {
        let error = error.map(failure).filter(|error| error.class == ErrorClass::Budget);
        let Some(by) = error.and_then(|error| RunCeiling::of(&error.message)) else { return };
        let refused = Refused { by, most: height(by, limits) };
        match purpose {
            Purpose::Worker { lane, .. } => drop(self.open.insert(lane.clone(), refused)),
            _ => drop(self.others.insert(asked.clone(), refused)),
        }
    }

    /// A lane has ended: what it was refused last is why, where that is why.
    pub(super) fn ended(&mut self, lane: &LaneId) {
        self.lanes.remove(lane);
        if let Some(refused) = self.open.remove(lane) {
            self.lanes.insert(lane.clone(), refused);
        }
    }

    /// The lanes that ended on a ceiling that is higher now.
    pub(super) fn lanes_ended_below(&self, now: &RunLimits) -> Vec<LaneId> {
        let fits = self.lanes.iter().filter(|(_, refused)| refused.is_raised(now));
        fits.map(|(lane, _)| lane.clone()).collect()
    }

    /// The calls of others that a ceiling refused that is higher now.
    pub(super) fn refused_below(&self, now: &RunLimits) -> impl Iterator<Item = &Asked> {
        self.others.iter().filter(|(_, refused)| refused.is_raised(now)).map(|(asked, _)| asked)
    }
}
