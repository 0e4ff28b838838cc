//! The operator's side of an attachment.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::client::{ControlError, connect, message, read};
use super::proto::{Frame, Reply, Request, Said, line};
use crate::jobs::Size;
use crate::model::Card;

/// How long the engine may take until it sends the first line.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an operator is attached to. Dropping both halves leaves it, and stops nothing.
#[derive(Debug)]
pub struct Follow {
    stream: BufReader<UnixStream>,
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
    let card = match read(&mut stream)? {
        Reply::Attached { card } => card,
        other => return Err(ControlError::Protocol(format!("{other:?} to attach"))),
    };
    // From here on it may be silent for as long as it likes.
    stream.get_ref().set_read_timeout(None)?;
    let speak = Speak(stream.get_ref().try_clone()?);
    Ok((card, Follow { stream }, speak))
}

impl Follow {
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
