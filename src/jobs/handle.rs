//! What an operator can do with something that is live in a run, whatever it is (contract R4).
//!
//! A lane's worker, a worker's job and an operator's shell each implement [`Handle`]; who lists, shows or
//! stops them knows nothing else of them. Never here: sockets, screens, what is told to a model.

use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::ring::Reading;
use crate::model::{Card, Sender};

/// What is put into a thing (contract R16).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// These bytes as they are.
    Write {
        /// Them.
        text: String,
    },
    /// A line; its end is put behind it.
    Submit {
        /// It, without an end.
        text: String,
    },
    /// A line that is kept and shown nowhere.
    Secret {
        /// It, without an end.
        text: String,
    },
    /// The end of input. Nothing is killed.
    Close,
}

/// A secret is not printed.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { text } => f.debug_tuple("Write").field(text).finish(),
            Self::Submit { text } => f.debug_tuple("Submit").field(text).finish(),
            Self::Secret { .. } => f.write_str("Secret"),
            Self::Close => f.write_str("Close"),
        }
    }
}

/// A terminal's size, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// That of a terminal of which none is known (contract R14).
impl Default for Size {
    fn default() -> Self {
        Self { rows: 40, columns: 120 }
    }
}

/// What stopping a thing came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReport {
    /// How it ended, in a few words; or that it had ended before.
    pub how: String,
    /// What may be alive of it, by name: empty when its end is proven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<String>,
}

/// Something that is, or was until a while ago, live in a run.
pub trait Handle: Send + Sync {
    /// How it stands at this moment.
    fn card(&self) -> Card;

    /// Whether something of it is, or may be, alive.
    fn is_live(&self) -> bool {
        self.card().state.is_live()
    }

    /// Ends it with all that belongs to it, and waits for the proof.
    fn stop(&self) -> BoxFuture<'_, StopReport>;

    /// What it wrote from `offset` on, with how much of that is gone, for who attaches (contract R22).
    fn read_from(&self, offset: u64) -> Reading;

    /// Waits until it has written more than `offset` bytes or has ended.
    fn written_beyond(&self, offset: u64) -> BoxFuture<'_, ()>;

    /// Puts something in, on behalf of `from`.
    ///
    /// # Errors
    /// In words, when it takes no such input.
    fn feed_input<'a>(
        &'a self,
        _input: Input,
        _from: &'a Sender,
    ) -> BoxFuture<'a, Result<(), String>> {
        let Card { id, kind, .. } = self.card();
        let refusal = format!("{id} takes no input: this {} was started without one", kind.label());
        std::future::ready(Err(refusal)).boxed()
    }

    /// Whether what is put in is read as texts: then bytes are not for it.
    fn takes_texts(&self) -> bool {
        false
    }

    /// Whether it has a terminal of its own.
    fn has_terminal(&self) -> bool {
        false
    }

    /// Puts bytes of a file or a pipe in as they are, and waits as long as too much waits already for being read.
    /// Gives whether it reads on: one that has closed its input, or ended, has no use for them.
    ///
    /// # Errors
    /// In words, when it takes no such input: then it has none of them.
    fn pour(&self, _bytes: Vec<u8>) -> BoxFuture<'_, Result<bool, String>> {
        let Card { id, kind, .. } = self.card();
        let refusal =
            format!("{id} takes no bytes: this {} was started without an input", kind.label());
        std::future::ready(Err(refusal)).boxed()
    }

    /// A terminal is attached to it from now on, or is no more: whether somebody can answer it.
    fn attend(&self, _is_there: bool) {}

    /// What whoever put something in is to be told of that, beside that it was taken; each is given once.
    fn take_note(&self) -> Option<String> {
        None
    }

    /// Tells it the size of the terminal that it is shown on.
    ///
    /// # Errors
    /// In words, when it has no terminal.
    fn resize(&self, _size: Size) -> Result<(), String> {
        Err(format!("{} has no terminal", self.card().id))
    }
}
