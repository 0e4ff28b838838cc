//! The engine's side of the socket.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{SOCKET, with_short_path};
use super::snapshot::{Snapshot, Watch};

/// The longest request, in bytes.
const MAX_REQUEST: u64 = 4096;

/// What an operator may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A snapshot. No model is asked.
    Probe,
    /// Stop the run: what is proved by then is kept.
    Stop,
}

/// The answer: one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// The snapshot.
    Snapshot {
        /// It.
        snapshot: Box<Snapshot>,
    },
    /// The run is being stopped.
    Stopping,
    /// The request was not understood.
    Refused {
        /// Why.
        reason: String,
    },
}

/// A listening socket; dropping it ends the service and removes the socket.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    _end: DropGuard,
}

impl Control {
    /// Listens in a run's directory. `stop` is cancelled when the operator asks for it.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn serve(run: &Path, watch: Watch, stop: CancellationToken) -> std::io::Result<Self> {
        let path = run.join(SOCKET);
        // The run's lock is held: a socket that is there is of an engine that was killed.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_short_path(run, |short| {
            let listener = std::os::unix::net::UnixListener::bind(short)?;
            std::fs::set_permissions(short, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let listener = UnixListener::from_std(listener)?;
        let end = CancellationToken::new();
        let ended = end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = accept(listener, watch, stop) => {}
            }
        });
        Ok(Self { path, _end: end.drop_guard() })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A socket that is gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, watch: Watch, stop: CancellationToken) {
    while let Ok((stream, _)) = listener.accept().await {
        // The directory may be open to others; only the run's own user, and root, are served.
        let mine = stream
            .peer_cred()
            .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw() || peer.uid() == 0);
        if mine {
            tokio::spawn(answer(stream, watch.clone(), stop.clone()));
        }
    }
}

async fn answer(mut stream: UnixStream, watch: Watch, stop: CancellationToken) {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    if BufReader::new(read.take(MAX_REQUEST)).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match serde_json::from_str(&line) {
        Ok(Request::Probe) => Reply::Snapshot { snapshot: Box::new(watch.now()) },
        Ok(Request::Stop) => {
            stop.cancel();
            Reply::Stopping
        }
        Err(error) => Reply::Refused { reason: error.to_string() },
    };
    if let Ok(mut bytes) = serde_json::to_vec(&reply) {
        bytes.push(b'\n');
        // An operator who went away needs no answer.
        let _ = write.write_all(&bytes).await;
    }
}
