//! What a run is doing right now, gathered from its events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::model::{EventSink, RunEvent, RunId, Stage, Stop, Usage};

/// A run at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The run; absent before it began.
    pub run: Option<RunId>,
    /// The task's first line.
    pub title: String,
    /// The stage that began last.
    pub stage: Option<Stage>,
    /// The lanes that began, by id.
    pub lanes: BTreeMap<String, LaneSnapshot>,
    /// Candidates admitted so far.
    pub admitted: u32,
    /// Gates that reported so far.
    pub gated: u32,
    /// Ballots given so far.
    pub ballots: u32,
}

/// A lane at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneSnapshot {
    /// Its model.
    pub model: String,
    /// Turn of its conversation, from 1; 0 before the first.
    pub turn: u32,
    /// What it does.
    pub activity: String,
    /// How it ended, once it did.
    pub stop: Option<Stop>,
    /// What it used so far.
    pub usage: Usage,
}

/// Keeps a snapshot up to date. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Snapshot>>);

impl Watch {
    /// A sink that updates the snapshot and passes everything on.
    pub fn over(&self, next: EventSink) -> EventSink {
        let watch = self.clone();
        EventSink::new(move |event| {
            watch.0.lock().unwrap_or_else(PoisonError::into_inner).take_in(&event);
            next.send(event);
        })
    }

    /// The snapshot as it stands.
    pub fn now(&self) -> Snapshot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Snapshot {
    fn take_in(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { run, title, .. } => {
                self.run = Some(run.clone());
                self.title.clone_from(title);
            }
            RunEvent::StageBegan { stage, .. } => self.stage = Some(*stage),
            RunEvent::LaneBegan { lane, model } => {
                self.lane(lane.as_str()).model.clone_from(model);
            }
            RunEvent::LaneActivity { lane, turn, activity, usage, .. } => {
                let lane = self.lane(lane.as_str());
                (lane.turn, lane.usage) = (*turn, *usage);
                lane.activity.clone_from(activity);
            }
            RunEvent::LaneEnded { lane, stop, usage, .. } => {
                let lane = self.lane(lane.as_str());
                (lane.stop, lane.usage) = (Some(stop.clone()), *usage);
            }
            RunEvent::Admitted { .. } => self.admitted += 1,
            RunEvent::Gated { .. } => self.gated += 1,
            RunEvent::Balloted { .. } => self.ballots += 1,
            _ => {}
        }
    }

    fn lane(&mut self, id: &str) -> &mut LaneSnapshot {
        self.lanes.entry(id.to_owned()).or_default()
    }
}
