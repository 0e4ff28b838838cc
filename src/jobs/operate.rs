//! A worker's job in the operator's hands.
//!
//! What the operator sees or ends is not told to the worker by that: its notice stays its own (contract R6).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

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

    fn attend(&self, is_there: bool) {
        let attended = &self.entry.attended;
        let _ = match is_there {
            true => attended.fetch_add(1, Ordering::SeqCst),
            false => attended.fetch_sub(1, Ordering::SeqCst),
        };
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
        let (reading, freed) = backlog.read(offset, Instant::now());
        drop(output);
        if freed > 0 {
            self.entry.process.allow(Some(freed));
        }
        reading
    }

    fn written_beyond(&self, offset: u64) -> BoxFuture<'_, ()> {
        async move {
            match self.viewer {
                true => self.table.due(&self.entry).await,
                false => self.table.written_beyond(&self.entry, offset).await,
            }
        }
        .boxed()
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

    fn has_terminal(&self) -> bool {
        self.entry.terminal
    }

    fn take_note(&self) -> Option<String> {
        self.entry.keyboard.as_ref()?.take_note()
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

#[cfg(test)]
mod tests {
    use super::super::board::Board;
    use super::super::book::JobBook;
    use super::super::order::{Alone, JobLimits, Viewer};
    use super::super::table::Opening;
    use super::super::testing::{Pretend, order};
    use super::*;
    use crate::journal::Learnt;
    use crate::model::{CardKind, CardSink, LaneId};

    #[tokio::test]
    async fn a_viewer_is_woken_by_what_leaves_no_text_until_all_of_it_is_allowed_again() {
        let table = JobBook::new(JobLimits::default()).open(&LaneId::of("one", 1));
        let opening = Opening { viewer: Viewer::Text, ..Opening::default() };
        let entry = table.start_open(&Pretend::default(), order(), opening).unwrap();
        let board = Board::default();
        board.add(Arc::new(table.clone()));
        let viewer = JobHandle::new(&table, entry.clone()).viewer();
        let woken = || viewer.written_beyond(0).now_or_never().is_some();
        assert!(!woken(), "nothing was written");
        // More than may wait, of which no text is made: the job writes on when it is allowed again.
        assert_eq!(lock(&entry.output).take(&[0; 1 << 20]), "");
        assert!(woken() && viewer.read_from(0).pieces.is_empty());
        assert!(woken() && viewer.read_from(0).pieces.is_empty(), "it is allowed by this one");
        assert!(!woken());
        let other = board.find("one/1#1").unwrap();
        assert!(other.written_beyond(0).now_or_never().is_none(), "others wait for text");
    }

    // contract R19 in part: what is kept, and what others read, is let nothing on
    #[tokio::test(start_paused = true)]
    async fn a_viewer_is_woken_by_a_pause_and_gets_a_part_of_what_is_held_back() {
        for viewer in [Viewer::Text, Viewer::Bytes] {
            let secrets = Learnt::default();
            assert!(secrets.add("hunter22"));
            let (limits, none) = (JobLimits::default(), CardSink::none());
            let table = JobTable::new(CardKind::Shell, LaneId::new("shell"), limits, none, secrets);
            let opening = Opening { viewer, ..Opening::default() };
            let entry = table.start_open(&Pretend::default(), order(), opening).unwrap();
            let handle = JobHandle::new(&table, entry.clone());
            let viewer = handle.viewer();
            lock(&entry.output).take(b"say hun");
            let (mut text, mut next) = (String::new(), 0);
            while text != "say hu" {
                viewer.written_beyond(next).await;
                let reading = viewer.read_from(next);
                (text, next) = (text + &reading.text(), reading.next);
            }
            assert_eq!(handle.read_from(0).text(), "say ");
            viewer.read_from(next);
            assert!(viewer.written_beyond(next).now_or_never().is_none(), "it is told once");
            lock(&entry.output).take(b"ter22\n");
            assert_eq!(viewer.read_from(next).text(), "[masked]\n");
            assert_eq!(handle.read_from(0).text(), "say [masked]\n");
        }
    }

    #[tokio::test]
    async fn a_terminal_that_is_attached_can_answer_what_was_started_without_one() {
        let table = JobBook::new(JobLimits::default()).open(&LaneId::of("one", 1));
        let alone = Alone { no_terminal: true, ..Alone::default() };
        let opening = Opening { alone, ..Opening::default() };
        let entry = table.start_open(&Pretend::default(), order(), opening).unwrap();
        let handle = JobHandle::new(&table, entry.clone());
        let mut seen = vec![entry.is_alone()];
        for is_there in [true, true, false, false] {
            handle.attend(is_there);
            seen.push(entry.is_alone());
        }
        assert_eq!(seen, [true, false, false, false, true]);
    }
}
