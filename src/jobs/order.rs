//! What a job is started with, and the bounds of the table that it stands in.

use std::time::Duration;

use super::watch::Watch;
use crate::model::LeaseId;
use crate::sandbox::JobSpec;

/// Bounds of one table.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// The longest that a job may run.
    pub ceiling: Duration,
    /// How long the output of an ended job stays readable, from its exit.
    pub retention: Duration,
    /// Jobs at once.
    pub running: usize,
    /// Ended jobs that are kept; the one that ended first goes first.
    pub ended: usize,
    /// Output that is kept of each, in bytes.
    pub output: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            ceiling: Duration::from_secs(1800),
            retention: Duration::from_secs(600),
            running: 16,
            ended: 32,
            output: 256 << 10,
        }
    }
}

/// A job to start.
pub struct Order {
    /// The process.
    pub spec: JobSpec,
    /// The workspace that it works in.
    pub lease: LeaseId,
    /// Its command line, for lists.
    pub label: String,
    /// Which worker of the run starts it: 0 is the top.
    pub by: u32,
    /// A pattern to watch for.
    pub watch: Option<Watch>,
}
