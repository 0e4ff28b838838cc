//! The operator's words to the workers of a run: journaled on their way in, and kept in its record.

use std::sync::Arc;

use super::memory::Memory;
use super::run::Run;
use crate::fanout::LaneRun;
use crate::journal::Artifacts;
use crate::model::{Extension, Fate, RunEvent, Steer};

impl Run<'_> {
    /// From now on the operator can speak to the workers. What is said is journaled before it is used.
    pub(super) fn open_steering(&self, runs: &[LaneRun]) {
        let tell = self.tell.clone();
        let masker = self.dir.masker().clone();
        let keep = move |steer: &Steer| {
            let text = serde_json::to_vec(&steer.text).map_err(|error| error.to_string())?;
            let whole = masker.masked(&text).map(|_| Artifacts::plain_name(&text));
            let event = RunEvent::Steered { steer: Steer { whole, ..steer.clone() } };
            match steer.fate {
                Fate::Waiting => tell.keep(event).map_err(|error| error.to_string()),
                // What became of it is no question to anybody: a failure ends the run at the next check.
                Fate::Told { .. } | Fate::Missed => {
                    tell.send(event);
                    Ok(())
                }
            }
        };
        let lanes = runs.iter().map(|run| run.id.clone());
        self.floor.steering.open(lanes, self.memory.steers(), Arc::new(keep));
        let tell = self.tell.clone();
        let keep = move |extension: &Extension| {
            let event = RunEvent::Extended { extension: extension.clone() };
            tell.keep(event).map_err(|error| error.to_string())
        };
        self.floor.extensions.open(self.memory.extensions.clone(), Arc::new(keep));
    }

    /// What the operator said to workers. A run that did not come so far again knows it from its journal.
    pub(super) fn steers(&self) -> Vec<Steer> {
        let steers = self.floor.steering.all();
        if steers.is_empty() { self.memory.steers() } else { steers }
    }

    /// What nested workers asked for beyond their caps, and what they got. As above.
    pub(super) fn extensions(&self) -> Vec<Extension> {
        let extensions = self.floor.extensions.all();
        if extensions.is_empty() { self.memory.extensions.clone() } else { extensions }
    }
}

impl Memory {
    pub(super) fn hear(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Ended { millis, .. } => self.millis = *millis,
            RunEvent::Steered { steer } => {
                match self.steers.iter_mut().find(|known| known.id == steer.id) {
                    Some(known) => known.clone_from(steer),
                    None => self.steers.push(steer.clone()),
                }
            }
            RunEvent::Extended { extension } => self.extensions.push(extension.clone()),
            _ => {}
        }
    }

    /// What the operator said to workers, and what had become of it.
    pub(super) fn steers(&self) -> Vec<Steer> {
        self.steers.iter().map(|steer| Steer { whole: None, ..steer.clone() }).collect()
    }
}
