//! Telling listeners and the journal the same story.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::journal::{Entry, JournalError, RunDir};
use crate::model::chat::Purpose;
use crate::model::{EventSink, RunEvent, Usage, Warning};

use super::PipelineError;

/// Journals what it passes on. The first failure to write is kept and ends the run at the next stage: an
/// event sink itself can't fail.
#[derive(Clone)]
pub struct Teller(Arc<Inner>);

struct Inner {
    dir: RunDir,
    listener: EventSink,
    failed: Mutex<Option<JournalError>>,
    /// Calls that broke off and may have been charged.
    broken_off: AtomicU64,
    /// What answers used, by role.
    used: Mutex<BTreeMap<&'static str, Usage>>,
}

impl Teller {
    /// Passes everything to `listener`, and everything but passing activity to the journal.
    pub fn new(dir: RunDir, listener: EventSink) -> Self {
        let (failed, broken_off) = (Mutex::default(), AtomicU64::default());
        let used = Mutex::default();
        Self(Arc::new(Inner { dir, listener, failed, broken_off, used }))
    }

    /// The sink for others.
    pub fn sink(&self) -> EventSink {
        let teller = self.clone();
        EventSink::new(move |event| teller.send(event))
    }

    /// Tells.
    pub fn send(&self, event: RunEvent) {
        if let Err(error) = self.0.write(&event) {
            self.fail(error);
        }
        self.0.pass_on(event);
    }

    /// Tells of something that must not have an effect before it is in the journal.
    ///
    /// # Errors
    /// When it can't be written; nobody is told then.
    pub fn keep(&self, event: RunEvent) -> Result<(), JournalError> {
        self.0.write(&event)?;
        self.0.pass_on(event);
        Ok(())
    }

    /// Keeps a failure to write for the next check.
    pub fn fail(&self, error: JournalError) {
        self.0.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Counts a call that broke off after its server had begun.
    pub fn broke_off(&self) {
        self.0.broken_off.fetch_add(1, Ordering::SeqCst);
    }

    /// How many there were since the beginning.
    pub fn broken_off(&self) -> u64 {
        self.0.broken_off.load(Ordering::SeqCst)
    }

    /// Counts an answer.
    pub fn answered(&self, purpose: &Purpose, usage: Usage) {
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used.entry(purpose.role()).or_default() += usage;
    }

    /// What answers used since the beginning, by role.
    pub fn used(&self) -> BTreeMap<&'static str, Usage> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        match self.0.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Inner {
    fn write(&self, event: &RunEvent) -> Result<(), JournalError> {
        match event {
            RunEvent::LaneActivity { .. } => Ok(()),
            event => self.dir.append(&Entry::Event { event: Box::new(event.clone()) }),
        }
    }

    /// Whoever listens is no less a stranger than whoever reads the journal.
    fn pass_on(&self, event: RunEvent) {
        self.listener.send(self.dir.masked(&event).unwrap_or(event));
    }
}
