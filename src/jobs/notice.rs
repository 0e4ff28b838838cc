//! What the owner of a job is told of it.

use super::entry::JobState;
use super::watch::{Matched, WatchState};
use crate::model::JobId;

/// Something that a worker is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A job ended; there is one for each.
    Ended {
        /// The job.
        id: JobId,
        /// Its command line.
        label: String,
        /// How.
        state: JobState,
        /// How much it wrote, in bytes.
        written: u64,
    },
    /// A line matched a job's watch pattern.
    Matched {
        /// The job.
        id: JobId,
        /// The line.
        matched: Matched,
    },
    /// A job's watch pattern gives no notices any more.
    Unwatched {
        /// The job.
        id: JobId,
        /// Why.
        state: WatchState,
    },
}

impl Notice {
    /// The job that it is about.
    pub fn id(&self) -> &JobId {
        match self {
            Self::Ended { id, .. } | Self::Matched { id, .. } | Self::Unwatched { id, .. } => id,
        }
    }
}

/// What ending a job came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillReport {
    /// It is ended, and that is proven.
    Proven(JobState),
    /// It had ended before.
    Over(JobState),
    /// These may be alive; the job stays listed.
    Survivors(Vec<String>),
}
