//! What a run that judges another one's candidates anew has of that one: its workers and gates as they are, and
//! none of its costs.
//!
//! Never here: the judges, and how a journal is read (`memory`).

use super::limited::Limited;
use super::memory::Memory;
use crate::journal::Entry;
use crate::model::chat::Purpose;
use crate::model::{LaneId, RunEvent, RunId};

impl Memory {
    /// Without what judges and synthesizer said: for other judges.
    pub fn without_judges(entries: Vec<Entry>) -> Vec<Entry> {
        let worker = |purpose: &Purpose| matches!(purpose, Purpose::Worker { .. });
        let keeps = |entry: &Entry| match entry {
            Entry::CallBegan { purpose, .. } | Entry::CallEnded { purpose, .. } => worker(purpose),
            Entry::Event { event } => {
                matches!(**event, RunEvent::Steered { .. } | RunEvent::Extended { .. })
            }
            Entry::Plan { .. }
            | Entry::Resumed { .. }
            | Entry::TimedOut { .. }
            | Entry::Recorded { .. } => false,
            Entry::Fallback { .. }
            | Entry::Attempt { .. }
            | Entry::Enough { .. }
            | Entry::Designed { .. }
            | Entry::Dueled { .. }
            | Entry::Gated { .. }
            | Entry::BaseKept { .. } => true,
        };
        entries.into_iter().filter(keeps).collect()
    }

    /// The run whose candidates and gates it has.
    pub fn rejudges(&self) -> Option<&RunId> {
        self.rejudges.as_ref()
    }

    /// Where a run judges another one anew, what was spent so far, refused or possibly paid was that one's.
    pub(super) fn leave_costs(&mut self) {
        if self.rejudges.is_some() {
            self.past.clear();
            self.limited = Limited::default();
        }
    }

    /// Whether a lane that the other run has no end of is to be left as it is: nobody had been asked.
    pub(super) fn never_begun(&self, lane: &LaneId) -> bool {
        self.rejudges.is_some() && !self.asked.contains_key(lane)
    }
}
