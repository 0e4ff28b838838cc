//! A run belongs to one engine at a time.
//!
//! The system takes the lock back when its holder ends, however it ends. Never here: waiting.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::JournalError;
use crate::model::RunId;

/// The lock of a run's directory, held for as long as one of its clones lives.
#[derive(Clone, Debug)]
pub(super) struct RunLock {
    _held: Arc<File>,
}

impl RunLock {
    /// Takes it without waiting.
    ///
    /// # Errors
    /// When another engine has it, or the directory can't be opened.
    pub(super) fn take(run: &RunId, dir: &Path) -> Result<Self, JournalError> {
        // The directory itself, so that no file has to be made or removed for it.
        let file = OpenOptions::new().read(true).open(dir);
        let file = file.map_err(|error| JournalError::io("open", dir, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _held: Arc::new(file) }),
            Err(Errno::WOULDBLOCK) => Err(JournalError::Live { run: run.to_string() }),
            Err(error) => Err(JournalError::io("lock", dir, error.into())),
        }
    }
}
