//! SIGINT and SIGTERM stop a run; which one it was decides the exit code.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::CliError;
use crate::model::Exit;
use crate::pipeline::Stopped;

/// Cancels `cancel` at the first signal and keeps which one it was. A second one ends the process at
/// once: the warden sees its socket close and takes every job with it.
pub fn watch(cancel: &CancellationToken, stopped: &Stopped) -> Result<(), CliError> {
    for (kind, exit) in
        [(SignalKind::interrupt(), Exit::Interrupted), (SignalKind::terminate(), Exit::Terminated)]
    {
        let mut stream = signal(kind)
            .map_err(|error| CliError::internal(format!("failed to watch for signals: {error}")))?;
        let (stopped, cancel) = (stopped.clone(), cancel.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if stopped.set(exit).is_err() {
                    std::process::exit(i32::from(exit.code()));
                }
                cancel.cancel();
            }
        });
    }
    Ok(())
}
