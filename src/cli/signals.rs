//! SIGINT and SIGTERM stop a run; which one it was decides the exit code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::CliError;
use crate::model::Exit;

/// What has been caught so far.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<AtomicU8>);

impl Signals {
    /// The exit of the first signal that came, if one did.
    pub fn caught(&self) -> Option<Exit> {
        match self.0.load(Ordering::SeqCst) {
            130 => Some(Exit::Interrupted),
            143 => Some(Exit::Terminated),
            _ => None,
        }
    }
}

/// Cancels `cancel` at the first signal. A second one ends the process at once: the warden sees its
/// socket close and takes every job with it.
pub fn watch(cancel: CancellationToken) -> Result<Signals, CliError> {
    let caught = Signals::default();
    for (kind, exit) in
        [(SignalKind::interrupt(), Exit::Interrupted), (SignalKind::terminate(), Exit::Terminated)]
    {
        let mut stream = signal(kind)
            .map_err(|error| CliError::internal(format!("failed to watch for signals: {error}")))?;
        let (caught, cancel) = (caught.clone(), cancel.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if cancel.is_cancelled() && caught.caught().is_some() {
                    std::process::exit(i32::from(exit.code()));
                }
                caught.0.store(exit.code(), Ordering::SeqCst);
                cancel.cancel();
            }
        });
    }
    Ok(caught)
}
