//! The operator's side of an attachment.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::client::{ControlError, ask, connect, message, read};
use super::proto::{Frame, Reply, Request, Said, Wish, line};
use crate::jobs::Size;
use crate::model::Card;

/// How long the engine may take until it sends the first line.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the start of a command may take: git's index may have to be made for it.
const STARTING: Duration = Duration::from_secs(60);

/// What an operator is attached to. Dropping both halves leaves it, and stops nothing.
#[derive(Debug)]
pub struct Follow {
    stream: BufReader<UnixStream>,
    texts: bool,
    terminal: bool,
}

/// The way in.
#[derive(Debug)]
pub struct Speak(UnixStream);

/// Attaches to what has this id in the run in this directory.
///
/// # Errors
/// When no engine answers, or there is nothing of that id.
pub fn attach(
    run: &Path,
    id: &str,
    size: Option<Size>,
) -> Result<(Card, Follow, Speak), ControlError> {
    let request = Request::Attach { id: id.to_owned(), size };
    let mut stream = connect(run, &request, Some(PATIENCE))?;
    let (card, texts, terminal) = match read(&mut stream)? {
        Reply::Attached { card, texts, terminal } => (card, texts, terminal),
        other => return Err(ControlError::Protocol(format!("{other:?} to attach"))),
    };
    // From here on it may be silent for as long as it likes.
    stream.get_ref().set_read_timeout(None)?;
    let speak = Speak(stream.get_ref().try_clone()?);
    Ok((card, Follow { stream, texts, terminal }, speak))
}

/// What became of a command of the operator's.
#[derive(Debug)]
pub enum ShellAnswer {
    /// It runs, and goes on alone.
    Detached {
        /// It.
        card: Card,
        /// How long it runs, in words.
        told: String,
    },
    /// It runs, and ends with whoever holds this: frames end with [`Frame::Exit`].
    Attached {
        /// It.
        card: Card,
        /// What it does.
        follow: Follow,
        /// The way in.
        speak: Speak,
    },
}

/// Starts a command of the operator's in the run in this directory.
///
/// # Errors
/// When no engine answers, or the command can't be started.
pub fn shell(run: &Path, wish: Wish) -> Result<ShellAnswer, ControlError> {
    // An engine that stands still is told as such soon, and before it has anything to do. The command's own beginning
    // may take longer.
    ask(run, &Request::Probe)?;
    let mut stream = connect(run, &Request::Shell { wish }, Some(STARTING))?;
    match read(&mut stream)? {
        Reply::Detached { card, told } => Ok(ShellAnswer::Detached { card, told }),
        Reply::Attached { card, texts, terminal } => {
            stream.get_ref().set_read_timeout(None)?;
            let speak = Speak(stream.get_ref().try_clone()?);
            Ok(ShellAnswer::Attached { card, follow: Follow { stream, texts, terminal }, speak })
        }
        other => Err(ControlError::Protocol(format!("{other:?} to a command"))),
    }
}

impl Follow {
    /// Whether what is put in is read as texts: lines, no bytes.
    pub fn takes_texts(&self) -> bool {
        self.texts
    }

    /// Whether it has a terminal of its own, which shows what is typed once more.
    pub fn has_terminal(&self) -> bool {
        self.terminal
    }

    /// Waits for the next frame; `None` when the engine is gone.
    ///
    /// # Errors
    /// When it is not understood, or the connection broke.
    pub fn frame(&mut self) -> Result<Option<Frame>, ControlError> {
        message(&mut self.stream)
    }
}

impl Speak {
    /// Says something.
    ///
    /// # Errors
    /// When the engine is gone.
    pub fn say(&mut self, said: &Said) -> Result<(), ControlError> {
        let line = line(said).map_err(|error| ControlError::Protocol(error.to_string()))?;
        Ok(self.0.write_all(&line)?)
    }
}
