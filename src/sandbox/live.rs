//! Jobs whose output comes while they run, and what such a job is connected to.
//!
//! Here is the engine's view of one; the warden knows them as jobs without an output of their own. Never
//! here: what is done with the output.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::identity::ProcessId;
use super::job::{JobExit, SandboxError};
use super::warden::Reaped;

/// Number of the descriptor under which a job finds its channel.
pub const CHANNEL: i32 = 6;

/// Something that happens to a job while it runs.
#[derive(Clone, Copy, Debug)]
pub enum LiveEvent<'a> {
    /// Its init is there, under this identity.
    Started(&'a ProcessId),
    /// It wrote this, to standard output or error.
    Output(&'a [u8]),
}

/// Takes what happens. It is called on the thread that hears the warden, so it must not block.
pub type LiveSink = Arc<dyn for<'a> Fn(LiveEvent<'a>) + Send + Sync>;

/// What a live job is connected to.
pub struct Live {
    /// Takes its output, in order.
    pub sink: LiveSink,
    /// A socket that the job inherits as descriptor [`CHANNEL`].
    pub channel: Option<OwnedFd>,
}

/// A started job as its owner holds it. Dropping it before its end kills it.
pub trait Process: Send + Sync {
    /// Whether the warden has not yet proven its end.
    fn is_live(&self) -> bool;

    /// Waits for the end. All output has come by then, and nothing of the job is alive.
    ///
    /// # Errors
    /// A [`SandboxError`] when the job could not be run. To be asked once.
    fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>>;

    /// Asks all of its processes to end, kills them after 2 s (contract R9), and waits for the proof.
    /// What is still alive is named.
    ///
    /// # Errors
    /// [`SandboxError::WardenGone`]; the job died with the warden then.
    fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>>;
}
