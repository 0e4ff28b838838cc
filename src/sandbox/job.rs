//! What a sandboxed process may see and use, and how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::live::{Live, Process};
use crate::model::RunToken;

/// Something to mount into a job's private view of the file system, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// `from` of the host, read-only, at `at`.
    ReadOnly {
        /// Host path.
        from: PathBuf,
        /// Path in the job's view.
        at: PathBuf,
    },
    /// `from` of the host, writable, at `at`.
    ReadWrite {
        /// Host path.
        from: PathBuf,
        /// Path in the job's view.
        at: PathBuf,
    },
    /// An empty writable directory in memory.
    Tmp {
        /// Path in the job's view.
        at: PathBuf,
        /// Its largest size in bytes.
        bytes: u64,
    },
    /// Nothing: the file or directory that an earlier mount shows there is seen empty and can't be changed,
    /// moved or removed. A symbolic link there is refused, and all of it in a tier without mounts.
    Covered {
        /// Path in the job's view.
        at: PathBuf,
    },
    /// An overlay. Only one job at a time may use an `upper`.
    Overlay {
        /// Read-only layers, topmost first.
        lower: Vec<PathBuf>,
        /// The layer that takes writes.
        upper: PathBuf,
        /// The overlay's own work directory, on the same file system as `upper`.
        work: PathBuf,
        /// Path in the job's view.
        at: PathBuf,
    },
}

/// Whether a job may reach a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Loopback of its own only.
    Off,
    /// The host's network: only for the operator's own setup command.
    Host,
}

/// Limits of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time.
    pub wall: Duration,
    /// Address space of each process, in bytes.
    pub memory_bytes: u64,
    /// Processes at once.
    pub processes: u64,
    /// The largest file that it may write, in bytes.
    pub file_bytes: u64,
    /// Output kept, in bytes, head and tail; the rest is counted and dropped.
    pub output_bytes: usize,
    /// What it may hold on disk altogether, in bytes, in all that it can write; an entry counts at
    /// least 4 KiB. It is looked at while the job runs, so that a fast one can be over it for an instant.
    pub disk_bytes: u64,
    /// When the file system has less than this left, in bytes, the job that holds most is ended.
    pub free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(600),
            memory_bytes: 8 << 30,
            processes: 1024,
            file_bytes: 4 << 30,
            output_bytes: 1 << 20,
            disk_bytes: 32 << 30,
            free_bytes: FREE_BYTES,
        }
    }
}

/// A process to run.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The run token that it is stamped with.
    pub token: RunToken,
    /// What it is, for lists (`typecheck c3`).
    pub label: String,
    /// The program and its arguments. The program is looked up in the job's own `PATH`.
    pub argv: Vec<OsString>,
    /// Its whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory, in its view.
    pub cwd: PathBuf,
    /// What it sees beside the system's read-only directories, `/proc`, `/dev` and a private `/tmp`.
    pub mounts: Vec<Mount>,
    /// Network.
    pub network: Network,
    /// Limits.
    pub limits: Limits,
    /// Bytes for its standard input; closed at once when empty.
    pub stdin: Vec<u8>,
}

/// What stays free of the file system that jobs write to, in bytes (256 MiB).
const FREE_BYTES: u64 = 256 << 20;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStatus {
    /// It exited by itself.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its wall-clock limit ended it.
    TimedOut,
    /// What it wrote ended it.
    DiskLimit {
        /// What it held on disk, in bytes, when that was found.
        held: u64,
        /// Bytes that the file system had left, when that was the reason and not the job's own limit.
        left: Option<u64>,
    },
    /// The engine ended it.
    Killed,
}

impl JobStatus {
    /// Why what was written ended a job: what it held, or that the file system was full. In bytes, as of
    /// [`JobStatus::DiskLimit`].
    pub fn disk_words(held: u64, left: Option<u64>) -> String {
        let held = held >> 20;
        match left {
            None => format!("it held {held} MiB on disk"),
            Some(left) => format!(
                "only {} MiB of the disk were free, less than the {} MiB that stay free, and it held {held} MiB",
                left >> 20,
                FREE_BYTES >> 20
            ),
        }
    }
}

/// A job's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// How.
    pub status: JobStatus,
    /// Standard output and error, interleaved as they came, head and tail kept.
    pub output: Vec<u8>,
    /// Bytes of output that were dropped from its middle.
    pub dropped: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a job could not be run. Never the job's own failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// No sandbox could be proved and no waiver was given.
    #[error("no sandbox, no execution: {0}")]
    NotPermitted(String),
    /// A namespace, a mount or another part could not be set up.
    #[error("failed to set up the sandbox: {0}")]
    Setup(String),
    /// The program is not there or can't be executed.
    #[error("failed to start {program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// The warden ended or can't be reached.
    #[error("the sandbox's warden is gone: {0}")]
    WardenGone(String),
    /// It ran, but what it left is not taken.
    #[error("it ran, but what it left is not taken: {0}")]
    NotTaken(String),
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// Something that runs jobs under a permit that it holds: the warden's launcher, or a test's double.
pub trait Launch: Send + Sync {
    /// Runs a job to its end.
    ///
    /// # Errors
    /// A [`SandboxError`] when the job could not be run; a job that fails is a [`JobExit`].
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>>;

    /// Starts a job whose output comes while it runs, and returns at once. Its exit holds no output.
    ///
    /// # Errors
    /// A [`SandboxError`] when it can't be started; one that can't be run is told at its end.
    fn start_live(&self, _: JobSpec, _: Live) -> Result<Box<dyn Process>, SandboxError> {
        Err(SandboxError::NotPermitted("this launcher only runs jobs to their end".into()))
    }
}
