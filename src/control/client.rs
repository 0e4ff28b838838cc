//! The operator's side of the socket.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::server::{Reply, Request};

/// The socket's name in a run's directory.
pub(super) const SOCKET: &str = "control.sock";

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a run could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no engine behind the socket.
    #[error("the run is not going on (no engine answers: {0}); `bakeoff show` tells how it ended")]
    NotRunning(std::io::Error),
    /// The engine's answer was not understood.
    #[error("the engine's answer was not understood: {0}")]
    Protocol(String),
}

/// Asks the engine of the run in this directory.
///
/// # Errors
/// When no engine answers.
pub fn ask(run: &Path, request: Request) -> Result<Reply, ControlError> {
    let talk = || -> std::io::Result<String> {
        let mut stream = with_short_path(run, |short| UnixStream::connect(short))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    };
    let answer = talk().map_err(ControlError::NotRunning)?;
    serde_json::from_str(&answer).map_err(|error| ControlError::Protocol(error.to_string()))
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

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::{Control, Watch};
    use super::*;
    use crate::model::{EventSink, RunEvent, RunId};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_run_can_be_looked_at_and_stopped_whatever_its_path() {
        let top = tempfile::tempdir().unwrap();
        let run = top.path().join("long/".repeat(30));
        std::fs::create_dir_all(&run).unwrap();
        let (watch, stop) = (Watch::default(), CancellationToken::new());
        let sink = watch.over(EventSink::none());
        let control = Control::serve(&run, watch, stop.clone()).unwrap();
        sink.send(RunEvent::Started {
            run: RunId::new("r"),
            title: "t".into(),
            attempts: 1,
            scripted: true,
        });
        let asked = |request| {
            let run = run.clone();
            tokio::task::spawn_blocking(move || ask(&run, request))
        };
        let Reply::Snapshot { snapshot } = asked(Request::Probe).await.unwrap().unwrap() else {
            panic!("no snapshot")
        };
        assert_eq!(snapshot.run, Some(RunId::new("r")));
        assert_eq!(asked(Request::Stop).await.unwrap().unwrap(), Reply::Stopping);
        assert!(stop.is_cancelled());
        drop(control);
        assert!(matches!(asked(Request::Probe).await.unwrap(), Err(ControlError::NotRunning(_))));
        assert!(std::fs::read_dir(&run).unwrap().next().is_none(), "the socket is removed");
    }
}
