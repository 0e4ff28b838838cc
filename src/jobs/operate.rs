//! A worker's job in the operator's hands.
//!
//! What the operator sees or ends is not told to the worker by that: its notice stays its own (contract R6).

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::board::Source;
use super::entry::{Entry, JobEnd, JobState, lock};
use super::handle::{Handle, Input, Size, StopReport};
use super::keyboard::terminal_size;
use super::notice::KillReport;
use super::ring::Reading;
use super::table::JobTable;
use crate::model::{Card, JobId, Sender};
use crate::sandbox::Feeding;

/// A job with its table. It keeps the output readable as long as somebody looks at it.
pub(super) struct JobHandle {
    table: JobTable,
    entry: Arc<Entry>,
    /// Whether the job waits for the holder of this one.
    viewer: bool,
}

impl JobHandle {
    /// A job of a table.
    pub(super) fn new(table: &JobTable, entry: Arc<Entry>) -> Self {
        Self { table: table.clone(), entry, viewer: false }
    }

    /// The same for whom the job waits.
    pub(super) fn viewer(&self) -> Self {
        Self { table: self.table.clone(), entry: self.entry.clone(), viewer: true }
    }

    /// Its id.
    pub(super) fn id(&self) -> &JobId {
        &self.entry.id
    }

    /// How it ended, once it has.
    pub(super) fn end_of(&self) -> Option<JobEnd> {
        match self.entry.state() {
            JobState::Ended(end) => Some(end),
            _ => None,
        }
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.viewer && lock(&self.entry.output).backlog.take().is_some() {
            self.entry.process.allow(None);
        }
    }
}

impl Source for JobTable {
    fn name(&self) -> String {
        format!("jobs of {}", self.lane())
    }

    fn handles(self: Arc<Self>) -> Vec<Arc<dyn Handle>> {
        let handle = |entry| Arc::new(JobHandle::new(&self, entry)) as Arc<dyn Handle>;
        self.entries().into_iter().map(handle).collect()
    }

    fn is_over(&self) -> bool {
        self.is_closed() && self.entries().is_empty()
    }
}

impl Handle for JobHandle {
    fn card(&self) -> Card {
        self.table.view(&self.entry).card()
    }

    fn is_live(&self) -> bool {
        self.entry.state().is_live()
    }

    fn stop(&self) -> BoxFuture<'_, StopReport> {
        async move {
            let (how, survivors) = match self.table.end(&self.entry).await {
                KillReport::Proven(state) => (state.words(), Vec::new()),
                KillReport::Over(state) => {
                    (format!("it had ended before: {}", state.words()), Vec::new())
                }
                KillReport::Survivors(names) => ("killed".to_owned(), names),
            };
            StopReport { how, survivors }
        }
        .boxed()
    }

    fn read_from(&self, offset: u64) -> Reading {
        let over = !self.is_live();
        let mut output = lock(&self.entry.output);
        let Some(backlog) = output.backlog.as_mut().filter(|_| self.viewer) else {
            return output.ring.read(offset, over);
        };
        let (reading, freed) = backlog.read(offset);
        drop(output);
        if freed > 0 {
            self.entry.process.allow(Some(freed));
        }
        reading
    }

    fn written_beyond(&self, offset: u64) -> BoxFuture<'_, ()> {
        self.table.written_beyond(&self.entry, offset).boxed()
    }

    fn feed_input<'a>(&'a self, input: Input, _: &'a Sender) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let taken = self.entry.put(input).await;
            self.table.changed(&self.entry);
            taken
        }
        .boxed()
    }

    fn pour(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<bool, String>> {
        async move {
            let taken = self.entry.pour(bytes).await;
            self.table.changed(&self.entry);
            taken
        }
        .boxed()
    }

    fn resize(&self, size: Size) -> Result<(), String> {
        if self.entry.keyboard.is_none() {
            return Err(format!("{} has no terminal", self.entry.id));
        }
        let (entry, size) = (self.entry.clone(), Feeding::Resize(terminal_size(size)));
        // One that has just ended, or has no terminal, needs no size.
        tokio::spawn(async move { drop(entry.process.feed(size).await) });
        Ok(())
    }
}
