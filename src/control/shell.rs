//! A command of the operator's, from its start to its end or until it is left.
//!
//! Whoever goes away without a word takes a command along that was not detached, as with any other program in a
//! terminal. While it is shown it waits for its viewer: nothing of its output is lost. Never here: where it runs (`jobs::host`).

use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;

use super::proto::{Frame, Reply, Wish, line};
use super::server::{Lines, Served};
use super::stream::{self, Left};
use crate::jobs::{Command, HostJob, Viewer};
use crate::model::Sender;

/// Starts a command and shows it.
pub(super) async fn run(
    served: &Served,
    wish: Wish,
    (lines, mut writer): (Lines, OwnedWriteHalf),
    sender: &Sender,
) -> std::io::Result<()> {
    let detach = wish.detach;
    let job = match start(served, wish).await {
        Ok(job) => job,
        Err(reason) => return writer.write_all(&line(&Reply::Refused { reason })?).await,
    };
    let handle = job.handle();
    if detach {
        let (card, told) = (handle.card(), served.host.told(job.id(), true));
        return writer.write_all(&line(&Reply::Detached { card, told })?).await;
    }
    match stream::show(job.viewer(), None, (lines, writer), sender).await {
        Ok(Left::Over(mut writer)) => {
            let told = served.host.told(job.id(), false);
            let (code, why) = match job.end() {
                Some(end) => (end.code(), end.reason()),
                None => (125, Some(handle.card().state.words())),
            };
            writer.write_all(&line(&Frame::Exit { code, why, told })?).await
        }
        Ok(Left::Leaving) => Ok(()),
        gone => {
            handle.stop().await;
            gone.map(drop)
        }
    }
}

/// Starts it where that may take a while.
async fn start(served: &Served, wish: Wish) -> Result<HostJob, String> {
    let host = served.host.clone();
    let Wish { lane, script, dir, terminal, alone, detach, bytes } = wish;
    if script.trim().is_empty() {
        return Err("there is no command".to_owned());
    }
    let lane = lane.map(|lane| match served.floor.steering.lane(&lane) {
        Some(meant) => meant.to_string(),
        None => lane,
    });
    let viewer = match bytes {
        _ if detach => Viewer::Nobody,
        true => Viewer::Bytes,
        false => Viewer::Text,
    };
    let command = Command { script, dir, terminal, alone, viewer };
    let started = tokio::task::spawn_blocking(move || host.start(lane.as_deref(), &command)).await;
    started.unwrap_or_else(|error| Err(format!("the command could not be started: {error}")))
}
