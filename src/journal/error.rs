//! Errors of the disk, each naming the path and what can be done.

use std::io;
use std::path::{Path, PathBuf};

/// Something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk refused.
    #[error("failed to {action} {path}: {source}{hint}")]
    Io {
        /// What was tried (`write`, `read`, `create`).
        action: &'static str,
        /// Where.
        path: String,
        /// What the system said.
        source: io::Error,
        /// What to do next, with a leading separator, or empty.
        hint: &'static str,
    },
    /// A record or journal line that can't be read.
    #[error("{path} is not a readable record: {reason}; its artifacts are untouched")]
    Corrupt {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// An artifact's bytes no longer match its name.
    #[error(
        "artifact {0} is damaged: its contents do not match its name; the run's other artifacts are untouched"
    )]
    Damaged(String),
    /// A record of a newer engine.
    #[error(
        "{path} was written by a newer bakeoff (record version {found}, this one reads up to {known}); upgrade to read it"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: u64,
        /// The newest version known here.
        known: u32,
    },
    /// A run that was cut off before its journal began.
    #[error("run {run} was cut off before anything was asked or saved; start it again")]
    Blank {
        /// The run.
        run: String,
    },
    /// Another engine has the run.
    #[error(
        "run {run} is going on in another process: `bakeoff probe {run}` shows what it does, `bakeoff stop {run}` ends it"
    )]
    Live {
        /// The run.
        run: String,
    },
    /// No run of that name.
    #[error("no run matches {asked:?}; `bakeoff runs` lists those there are")]
    UnknownRun {
        /// What was asked for.
        asked: String,
    },
    /// Too little of a run's id: a run that is meant by chance is none that was meant.
    #[error(
        "{asked:?} is too short for a run: give at least {least} characters of its id, as `bakeoff runs` lists it"
    )]
    ShortRun {
        /// What was asked for.
        asked: String,
        /// What would do, in characters.
        least: usize,
    },
    /// More than one run of that name.
    #[error("{asked:?} matches {count} runs; give more of the id")]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// How many match.
        count: usize,
    },
    /// The run has not ended, or was killed before it wrote its record.
    #[error(
        "run {run} has no record: it is still going on (`bakeoff jobs {run}` lists what is live) or was cut off (`bakeoff \
         resume {run}` goes on with it); its journal is {journal}"
    )]
    NoRecord {
        /// The run.
        run: String,
        /// Its journal.
        journal: PathBuf,
    },
}

impl JournalError {
    /// Wraps an IO error with the path and a hint for the common causes.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; free some space, or set BAKEOFF_HOME to a directory on another disk"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; set BAKEOFF_HOME to a directory that you can write to"
            }
            _ => "",
        };
        Self::Io { action, path: path.display().to_string(), source, hint }
    }
}
