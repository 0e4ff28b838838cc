//! Jobs whose output comes while they run, and what such a job is connected to.
//!
//! Here is the engine's view of one; the warden knows them as jobs without an output of their own. Never
//! here: what is done with the output.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

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
    /// What it has as its standard input behind the bytes of its description.
    pub feed: Feed,
    /// So many bytes of output are handed on until more are allowed ([`Process::allow`]): then the job waits, as
    /// with any pipe that is full. `None` for as much as it writes.
    pub credit: Option<u64>,
}

impl Live {
    /// A job with this sink, without a channel and without an open input.
    pub fn new(sink: LiveSink) -> Self {
        Self { sink, channel: None, feed: Feed::Nothing, credit: None }
    }
}

/// What a live job has as its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feed {
    /// Nothing more: it comes to its end at once.
    #[default]
    Nothing,
    /// A pipe that is open until it is closed.
    Pipe,
    /// A pseudo terminal, to which its output goes, too (contract R12).
    Terminal(TerminalSize),
}

/// How large a terminal is, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in each.
    pub columns: u16,
}

impl Default for TerminalSize {
    /// What a terminal has before anybody looks at it (contract R14).
    fn default() -> Self {
        Self { rows: 40, columns: 120 }
    }
}

/// Something that is done with a job's input.
#[derive(Clone, PartialEq, Eq)]
pub enum Feeding {
    /// Write these bytes behind those that wait.
    Write {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether a terminal may not echo them: its echo is off before the first of them is written.
        hidden: bool,
    },
    /// End the input behind what waits: a pipe is closed, a terminal gets its end-of-file character.
    /// That it is closed, or the job over, is no error (contract R17).
    Close,
    /// Give a terminal this size; its programs are told.
    Resize(TerminalSize),
    /// Only see how it stands.
    Look,
    /// See also whether a process waits to read it, which takes longer.
    Inspect,
}

impl std::fmt::Debug for Feeding {
    /// Without the bytes: they may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write { bytes, hidden } => write!(f, "Write({} bytes, {hidden})", bytes.len()),
            Self::Close => f.write_str("Close"),
            Self::Resize(size) => write!(f, "Resize({size:?})"),
            Self::Look => f.write_str("Look"),
            Self::Inspect => f.write_str("Inspect"),
        }
    }
}

/// How a job's input stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputState {
    /// Whether more can be written.
    pub open: bool,
    /// The terminal's modes, when it is one.
    pub terminal: Option<TerminalModes>,
    /// Bytes that the job has not taken yet.
    pub waiting: u64,
    /// Whether a process of the job waited to read it, where that was asked for and can be told.
    pub awaited: Option<bool>,
}

/// What a program has made of its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalModes {
    /// It shows what is typed.
    pub echo: bool,
    /// It hands input on by lines, which can be edited.
    pub canonical: bool,
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

    /// Does something with its input; the answer comes when it is in its place, not when it is read.
    ///
    /// # Errors
    /// In words, when it has no open input or can't take more.
    fn feed(&self, _: Feeding) -> BoxFuture<'_, Result<InputState, String>> {
        async { Err("it takes no input".to_owned()) }.boxed()
    }

    /// Allows so many bytes of output more, or with `None` all that it writes. For one that was started with a
    /// credit; what has ended needs none.
    fn allow(&self, _: Option<u64>) {}
}
