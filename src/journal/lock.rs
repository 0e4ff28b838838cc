//! A run belongs to one engine at a time.
//!
//! The system takes the lock back when its holder ends, however it ends. Never here: waiting.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
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
            // A cleaner that had it may have taken the directory away meanwhile.
            Ok(()) if !is_still_at(&file, dir) => {
                Err(JournalError::UnknownRun { asked: run.to_string() })
            }
            Ok(()) => Ok(Self { _held: Arc::new(file) }),
            Err(Errno::WOULDBLOCK) => Err(JournalError::Live { run: run.to_string() }),
            Err(error) => Err(JournalError::io("lock", dir, error.into())),
        }
    }
}

/// Whether the opened directory is the one that the path names.
fn is_still_at(held: &File, dir: &Path) -> bool {
    match (held.metadata(), fs::metadata(dir)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_directory_that_went_away_is_worth_nothing() {
        let top = tempfile::tempdir().unwrap();
        let (dir, run) = (top.path().join("run"), RunId::new("r"));
        fs::create_dir(&dir).unwrap();
        let held = File::open(&dir).unwrap();
        assert!(is_still_at(&held, &dir));
        fs::rename(&dir, top.path().join("gone")).unwrap();
        assert!(!is_still_at(&held, &dir));
        fs::create_dir(&dir).unwrap();
        assert!(!is_still_at(&held, &dir), "another directory of that name is another run");
        let lock = RunLock::take(&run, &dir).unwrap();
        assert!(matches!(RunLock::take(&run, &dir), Err(JournalError::Live { .. })));
        drop(lock);
        assert!(RunLock::take(&run, &dir).is_ok());
    }
}
