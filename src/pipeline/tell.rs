//! Telling listeners and the journal the same story.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::journal::{Entry, JournalError, RunDir};
use crate::model::{EventSink, RunEvent, Warning};

use super::PipelineError;

/// A sink that journals what it passes on. The first failure to write is kept and ends the run at
/// the next stage: an event sink itself can't fail.
#[derive(Clone)]
pub struct Teller {
    sink: EventSink,
    failed: Arc<Mutex<Option<JournalError>>>,
    /// Calls that broke off and may have been charged.
    broken_off: Arc<AtomicU64>,
}

impl Teller {
    /// Passes everything to `listener`, and everything but passing activity to the journal.
    pub fn new(dir: RunDir, listener: EventSink) -> Self {
        let failed = Arc::new(Mutex::new(None));
        let keep = failed.clone();
        let sink = EventSink::new(move |event| {
            if !matches!(event, RunEvent::LaneActivity { .. })
                && let Err(error) = dir.append(&Entry::Event { event: Box::new(event.clone()) })
            {
                keep.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            // Whoever listens is no less a stranger than whoever reads the journal.
            listener.send(dir.masked(&event).unwrap_or(event));
        });
        Self { sink, failed, broken_off: Arc::default() }
    }

    /// The sink for others.
    pub fn sink(&self) -> EventSink {
        self.sink.clone()
    }

    /// Tells.
    pub fn send(&self, event: RunEvent) {
        self.sink.send(event);
    }

    /// Keeps a failure to write for the next check.
    pub fn fail(&self, error: JournalError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Counts a call that broke off after its server had begun.
    pub fn broke_off(&self) {
        self.broken_off.fetch_add(1, Ordering::SeqCst);
    }

    /// How many there were since the beginning.
    pub fn broken_off(&self) -> u64 {
        self.broken_off.load(Ordering::SeqCst)
    }

    /// Tells of a warning.
    pub fn warn(&self, warning: Warning) {
        self.send(RunEvent::Warned { warning });
    }

    /// Fails when the journal could not be written.
    ///
    /// # Errors
    /// The first failure since the last check.
    pub fn check(&self) -> Result<(), PipelineError> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
