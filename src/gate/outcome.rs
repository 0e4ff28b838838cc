//! One run of a gate's command, read: how it ended and what its tool said.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read::{self, Reading};
use crate::model::{CommandSpec, FlakyTest};
use crate::sandbox::{JobExit, JobStatus};

/// A run of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: JobStatus,
    /// What its tool said.
    pub reading: Reading,
    /// Its output as text.
    pub output: String,
    /// Bytes of output that were not kept.
    pub dropped: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What failed in one run and passed in another of the same tree.
    pub flaky: Vec<FlakyTest>,
    /// Whether nothing but flaky tests kept it from a success.
    pub excused: bool,
}

impl Outcome {
    /// Reads a job's end. `root` is the directory in which the command ran.
    pub fn of(command: &CommandSpec, exit: JobExit, root: &str) -> Self {
        let output = String::from_utf8_lossy(&exit.output).into_owned();
        let reading = read::read(command.tool, &output, root);
        Self {
            status: exit.status,
            reading,
            output,
            dropped: exit.dropped,
            elapsed: exit.elapsed,
            flaky: Vec::new(),
            excused: false,
        }
    }

    /// The exit status, when it exited by itself.
    pub fn exit(&self) -> Option<i32> {
        match self.status {
            JobStatus::Exited(status) => Some(status),
            _ => None,
        }
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        match self.status {
            JobStatus::Signalled(signal) => Some(signal),
            _ => None,
        }
    }

    /// Whether it exited with status 0, or only flaky tests kept it from that.
    pub fn is_success(&self) -> bool {
        self.exit() == Some(0) || self.excused
    }

    /// Every test that it shows, whether it passed or failed.
    pub fn ran(&self) -> impl Iterator<Item = &str> {
        let passed = self.reading.passed.keys().map(String::as_str);
        passed.chain(self.reading.failed.iter().map(|each| each.code.as_str()))
    }

    /// Whether it shows a test as failed.
    pub fn fails(&self, name: &str) -> bool {
        self.reading.failed.iter().any(|each| each.code == name)
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match self.status {
            JobStatus::Exited(status) => format!("exit status {status}"),
            JobStatus::Signalled(signal) => format!("ended by signal {signal}"),
            JobStatus::TimedOut => format!("timed out after {} s", self.elapsed.as_secs()),
            JobStatus::DiskLimit { held, left } => {
                let own = if left.is_none() { ", more than disk_mb allows" } else { "" };
                format!("stopped: {}{own}", JobStatus::disk_words(held, left))
            }
            JobStatus::Killed => "stopped by the engine".to_owned(),
        }
    }

    /// What a reader is shown of its output.
    pub fn shown(&self) -> &str {
        self.reading.shown.as_deref().unwrap_or(&self.output)
    }
}
