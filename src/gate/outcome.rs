//! One run of a gate's command, read: how it ended and what its tool said.

use std::time::Duration;

use super::read::{self, Reading};
use crate::model::CommandSpec;
use crate::sandbox::{JobExit, JobStatus};

/// A run of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Outcome {
    /// Reads a job's end. `root` is the directory in which the command ran.
    pub fn of(command: &CommandSpec, exit: JobExit, root: &str) -> Self {
        let output = String::from_utf8_lossy(&exit.output).into_owned();
        let reading = read::read(command.tool, &output, root);
        Self { status: exit.status, reading, output, dropped: exit.dropped, elapsed: exit.elapsed }
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

    /// Whether it exited with status 0.
    pub fn is_success(&self) -> bool {
        self.exit() == Some(0)
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match self.status {
            JobStatus::Exited(status) => format!("exit status {status}"),
            JobStatus::Signalled(signal) => format!("ended by signal {signal}"),
            JobStatus::TimedOut => format!("timed out after {} s", self.elapsed.as_secs()),
            JobStatus::DiskLimit { held, left: None } => {
                format!("stopped: it held {} MiB on disk, more than disk_mb allows", held >> 20)
            }
            JobStatus::DiskLimit { held, left: Some(left) } => format!(
                "stopped: the file system had only {} MiB left, and it held {} MiB",
                left >> 20,
                held >> 20
            ),
            JobStatus::Killed => "stopped by the engine".to_owned(),
        }
    }

    /// What a reader is shown of its output.
    pub fn shown(&self) -> &str {
        self.reading.shown.as_deref().unwrap_or(&self.output)
    }
}
