//! The tables of all worker runs of an engine's run.
//!
//! Never here: the operator's own jobs, so that no list that a worker sees can hold one.

use std::sync::{Arc, Mutex};

use super::board::Board;
use super::entry::{JobView, lock};
use super::order::JobLimits;
use super::table::{JobTable, WeakTable};
use crate::journal::Learnt;
use crate::model::{CardKind, CardSink, EventSink, LaneId, LeaseId, RunEvent};

/// All worker runs' tables. Clones share it.
#[derive(Clone)]
pub struct JobBook {
    limits: JobLimits,
    board: Option<Board>,
    events: EventSink,
    secrets: Learnt,
    tables: Arc<Mutex<Vec<WeakTable>>>,
}

impl std::fmt::Debug for JobBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobBook").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl JobBook {
    /// Without tables; those that it opens have these limits.
    pub fn new(limits: JobLimits) -> Self {
        Self {
            limits,
            board: None,
            events: EventSink::none(),
            secrets: Learnt::default(),
            tables: Arc::default(),
        }
    }

    /// The same, whose tables the operator finds on `board`. What their jobs do is told to `events`.
    #[must_use]
    pub fn shown(self, board: Board, events: EventSink) -> Self {
        Self { board: Some(board), events, ..self }
    }

    /// The same, in whose tables these secrets are hidden.
    #[must_use]
    pub fn hiding(self, secrets: Learnt) -> Self {
        Self { secrets, ..self }
    }

    /// Opens the table of a worker run. It is gone when nobody holds it any more; a board holds it as long
    /// as an output in it is readable.
    pub fn open(&self, lane: &LaneId) -> JobTable {
        let (lane, events) = (lane.clone(), self.events.clone());
        let cards = CardSink::new(move |card| events.send(RunEvent::Background { card }));
        let table = JobTable::new(CardKind::Job, lane, self.limits, cards, self.secrets.clone());
        if let Some(board) = &self.board {
            board.add(Arc::new(table.clone()));
        }
        let mut tables = lock(&self.tables);
        tables.retain(|known| known.upgrade().is_some());
        tables.push(table.downgrade());
        table
    }

    /// Every job of every worker run that was started from this workspace (contract C2): the lease
    /// counts and not its path, at which other workspaces may be seen, too.
    pub fn of_lease(&self, lease: &LeaseId) -> Vec<JobView> {
        let tables: Vec<JobTable> =
            lock(&self.tables).iter().filter_map(WeakTable::upgrade).collect();
        tables.iter().flat_map(|table| table.of_lease(lease)).collect()
    }

    /// Every job of every worker run.
    pub fn all(&self) -> Vec<JobView> {
        let tables: Vec<JobTable> =
            lock(&self.tables).iter().filter_map(WeakTable::upgrade).collect();
        tables.iter().flat_map(JobTable::list).collect()
    }
}
