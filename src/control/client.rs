//! The operator's side of the socket: one request, one answer.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::proto::{Reply, Request, line_of};

/// The socket's name in a run's directory.
pub(super) const SOCKET: &str = "control.sock";

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to end something: longer than the engine waits itself.
const STOPPING: Duration = Duration::from_secs(60);

/// Why a run could not be asked, or did not do what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no engine behind the socket.
    #[error(
        "the run is not going on (no engine answers: {0}); `bakeoff show` tells how it ended, `bakeoff resume` goes on with \
         one that was cut off"
    )]
    NotRunning(std::io::Error),
    /// The socket is not open to this user.
    #[error("the run is another user's: only that user can speak to its engine")]
    Theirs,
    /// The engine is there and says nothing.
    #[error("the run's engine does not answer; it may be stopped (ctrl-Z) or very busy: try again")]
    Silent,
    /// The engine said no.
    #[error("{0}")]
    Refused(String),
    /// The engine's answer was not understood.
    #[error("the engine's answer was not understood: {0}; use the bakeoff that made the run")]
    Protocol(String),
}

impl From<std::io::Error> for ControlError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent,
            ErrorKind::PermissionDenied => Self::Theirs,
            _ => Self::NotRunning(error),
        }
    }
}

/// Asks the engine of the run in this directory.
///
/// # Errors
/// When no engine answers, or it refuses.
pub fn ask(run: &Path, request: &Request) -> Result<Reply, ControlError> {
    let patience = match request {
        // A turn of a model may take any time.
        Request::Steer { wait: true, .. } => None,
        Request::Stop { id: Some(_) } => Some(STOPPING),
        _ => Some(PATIENCE),
    };
    read(&mut connect(run, request, patience)?)
}

/// Sends a request, and gives the stream on which its answer comes.
pub(super) fn connect(
    run: &Path,
    request: &Request,
    patience: Option<Duration>,
) -> Result<BufReader<UnixStream>, ControlError> {
    let mut stream = with_short_path(run, |short| UnixStream::connect(short))?;
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = line_of(request).map_err(|error| ControlError::Protocol(error.to_string()))?;
    stream.write_all(&line)?;
    Ok(BufReader::new(stream))
}

/// Reads a reply; a refusal is an error.
pub(super) fn read(stream: &mut BufReader<UnixStream>) -> Result<Reply, ControlError> {
    match message(stream)? {
        Some(Reply::Refused { reason }) => Err(ControlError::Refused(reason)),
        Some(reply) => Ok(reply),
        None => Err(ControlError::NotRunning(ErrorKind::UnexpectedEof.into())),
    }
}

/// Reads one message; `None` at the end.
pub(super) fn message<T: DeserializeOwned>(
    stream: &mut BufReader<UnixStream>,
) -> Result<Option<T>, ControlError> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).map_err(|error| ControlError::Protocol(error.to_string()))
}

/// Calls `work` with a path of the socket that is short enough for a socket's address (108 bytes),
/// however long the directory's own path is: through the open directory.
pub(super) fn with_short_path<T>(
    run: &Path,
    work: impl FnOnce(&Path) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let dir = std::fs::File::open(run)?;
    work(&Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(SOCKET))
}
