//! What goes on with somebody attached: the buffer first, then what comes; input and sizes the other way.
//!
//! Whoever leaves stops nothing (contract R22).

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use super::proto::{Frame, Reply, Said, line};
use super::server::{Lines, next_line};
use crate::jobs::{Handle, Piece, Size};
use crate::model::{CardState, Sender};

/// How often a thing is looked at that writes nothing: it may have changed its state.
const LOOK: Duration = Duration::from_millis(500);

/// How a showing came to its end.
pub(super) enum Left {
    /// The thing is over, and all of it was shown.
    Over(OwnedWriteHalf),
    /// The viewer said that it leaves.
    Leaving,
    /// The viewer is gone without a word.
    Gone,
}

/// Shows a thing until it has ended or its viewer left.
pub(super) async fn show(
    handle: Arc<dyn Handle>,
    size: Option<Size>,
    (lines, mut writer): (Lines, OwnedWriteHalf),
    sender: &Sender,
) -> std::io::Result<Left> {
    if let Some(size) = size {
        // What has no terminal needs no size.
        let _ = handle.resize(size);
    }
    writer.write_all(&line(&Reply::Attached { card: handle.card() })?).await?;
    let (refused, mut refusals) = mpsc::channel(8);
    let heard = hear(&*handle, lines, sender, refused);
    let state = handle.card().state;
    let mut shown = Shown { handle: &*handle, writer, next: 0, seen: 0, state };
    tokio::select! {
        biased;
        sent = shown.follow(&mut refusals) => sent?,
        left = heard => return Ok(left),
    }
    Ok(Left::Over(shown.writer))
}

/// Takes what the viewer says, until it goes.
async fn hear(
    handle: &dyn Handle,
    mut lines: Lines,
    sender: &Sender,
    refused: mpsc::Sender<String>,
) -> Left {
    loop {
        let said = match next_line(&mut lines).await {
            Ok(Some(line)) if line.is_empty() => return Left::Gone,
            Ok(Some(line)) => serde_json::from_slice(&line).map_err(|error| error.to_string()),
            Ok(None) => Err("the line is too long".to_owned()),
            Err(_) => return Left::Gone,
        };
        let taken = match said {
            Ok(Said::Input { input }) => handle.feed_input(input, sender).await,
            Ok(Said::Resize { size }) => {
                // What has no terminal needs no size.
                let _ = handle.resize(size);
                Ok(())
            }
            Ok(Said::Leave) => return Left::Leaving,
            Err(reason) => Err(format!("not understood: {reason}")),
        };
        if let Err(reason) = taken
            && refused.send(reason).await.is_err()
        {
            return Left::Gone;
        }
    }
}

/// What a viewer has been shown.
struct Shown<'a> {
    handle: &'a dyn Handle,
    writer: OwnedWriteHalf,
    next: u64,
    /// How much it had written when that was looked at: the end of a character may be awaited.
    seen: u64,
    state: CardState,
}

impl Shown<'_> {
    async fn follow(&mut self, refusals: &mut mpsc::Receiver<String>) -> std::io::Result<()> {
        loop {
            // In this order: what a thing that is over has written is all there.
            let over = !self.handle.is_live();
            self.seen = self.handle.card().bytes;
            self.send_output().await?;
            let card = self.handle.card();
            if over {
                return self.send(&Frame::Ended { card }).await;
            }
            if card.state != self.state {
                self.state = card.state.clone();
                self.send(&Frame::State { card }).await?;
            }
            tokio::select! {
                () = self.handle.written_beyond(self.seen) => {}
                Some(reason) = refusals.recv() => self.send(&Frame::Refused { reason }).await?,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn send_output(&mut self) -> std::io::Result<()> {
        let reading = self.handle.read_from(self.next);
        self.next = reading.next;
        for piece in reading.pieces {
            let frame = match piece {
                Piece::Text(text) => Frame::Output { text },
                Piece::Dropped(bytes) => Frame::Dropped { bytes },
            };
            self.send(&frame).await?;
        }
        Ok(())
    }

    async fn send(&mut self, frame: &Frame) -> std::io::Result<()> {
        self.writer.write_all(&line(frame)?).await
    }
}
