//! What goes on with somebody attached: the buffer first, then what comes; input and sizes the other way.
//!
//! Whoever leaves stops nothing (contract R22). What comes from the viewer is heard even while input waits for the
//! job to read it, and while output waits for the viewer: who is gone is noticed.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use super::proto::{Frame, Reply, Said, bytes_as_text, line, text_as_bytes};
use super::server::{Lines, next_line};
use crate::jobs::{Handle, Input, Piece, Size};
use crate::model::{CardState, Sender};

/// How often a thing is looked at that writes nothing: it may have changed its state. Until its viewer knows that it asks
/// for a secret, what is typed is seen.
const LOOK: Duration = Duration::from_millis(50);

/// How long what a viewer has left behind may take to be put in.
const SETTLING: Duration = Duration::from_secs(2);

/// So many inputs may wait for the one before them.
const MOST_INPUTS: usize = 64;

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
    let (texts, terminal) = (handle.takes_texts(), handle.has_terminal());
    let attached = Reply::Attached { card: handle.card(), texts, terminal };
    writer.write_all(&line(&attached)?).await?;
    let (answer, mut answers) = mpsc::channel(8);
    let (inputs, waiting) = mpsc::channel(MOST_INPUTS);
    let heard = hear(&*handle, lines, (inputs, answer.clone()));
    let mut fed = std::pin::pin!(feed(&*handle, waiting, sender, answer));
    let state = handle.card().state;
    let mut shown = Shown { handle: &*handle, writer, next: 0, seen: 0, state };
    tokio::select! {
        biased;
        sent = shown.follow(&mut answers) => sent?,
        left = heard => {
            // What was typed before still goes in; what nobody reads is not waited for.
            let _ = tokio::time::timeout(SETTLING, fed).await;
            return Ok(left);
        }
        () = &mut fed => return Ok(Left::Gone),
    }
    Ok(Left::Over(shown.writer))
}

/// Something for the job, in its order.
enum Given {
    Input(Input),
    Bytes(Vec<u8>),
}

/// Takes what the viewer says, until it goes.
async fn hear(
    handle: &dyn Handle,
    mut lines: Lines,
    (inputs, answers): (mpsc::Sender<Given>, mpsc::Sender<Frame>),
) -> Left {
    let too_much = "too much input waits already".to_owned();
    loop {
        let said = match next_line(&mut lines).await {
            Ok(Some(line)) if line.is_empty() => return Left::Gone,
            Ok(Some(line)) => serde_json::from_slice(&line).map_err(|error| error.to_string()),
            Ok(None) => Err("the line is too long".to_owned()),
            Err(_) => return Left::Gone,
        };
        let refusal = match said {
            Ok(Said::Input { input }) => {
                // What is typed waits for nobody's reading, so that there is room soon.
                let full = inputs.send_timeout(Given::Input(input), SETTLING).await.is_err();
                full.then(|| Frame::Refused { reason: too_much.clone() })
            }
            Ok(Said::Pour { bytes }) => {
                let given = text_as_bytes(&bytes).map(Given::Bytes);
                let taken = given.is_some_and(|given| inputs.try_send(given).is_ok());
                (!taken).then(|| Frame::Poured { open: true, lost: Some(too_much.clone()) })
            }
            Ok(Said::Resize { size }) => {
                // What has no terminal needs no size.
                let _ = handle.resize(size);
                None
            }
            Ok(Said::Leave) => return Left::Leaving,
            Err(reason) => Some(Frame::Refused { reason: format!("not understood: {reason}") }),
        };
        if let Some(refusal) = refusal
            && answers.send(refusal).await.is_err()
        {
            return Left::Gone;
        }
    }
}

/// Puts in what was given, in its order, each when there is room for it.
async fn feed(
    handle: &dyn Handle,
    mut waiting: mpsc::Receiver<Given>,
    sender: &Sender,
    answers: mpsc::Sender<Frame>,
) {
    while let Some(given) = waiting.recv().await {
        let answer = match given {
            Given::Input(input) => {
                let taken = handle.feed_input(input, sender).await;
                taken.err().map(|reason| Frame::Refused { reason })
            }
            Given::Bytes(bytes) => Some(match handle.pour(bytes).await {
                Ok(open) => Frame::Poured { open, lost: None },
                Err(reason) => Frame::Poured { open: false, lost: Some(reason) },
            }),
        };
        let note = handle.take_note().map(|text| Frame::Note { text });
        for frame in note.into_iter().chain(answer) {
            if answers.send(frame).await.is_err() {
                return;
            }
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
    async fn follow(&mut self, answers: &mut mpsc::Receiver<Frame>) -> std::io::Result<()> {
        loop {
            // In this order: what a thing that is over has written is all there.
            let over = !self.handle.is_live();
            self.seen = self.handle.card().bytes;
            self.send_output().await?;
            let card = self.handle.card();
            if over {
                self.send_what_was_said(answers).await?;
                return self.send(&Frame::Ended { card }).await;
            }
            // Its end is told below, with all that it wrote.
            if card.state != self.state && card.state.is_live() {
                self.state = card.state.clone();
                self.send(&Frame::State { card }).await?;
            }
            tokio::select! {
                () = self.handle.written_beyond(self.seen) => {}
                Some(answer) = answers.recv() => self.send(&answer).await?,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// What there is to say of the viewer's input comes before the end, also where that came at once.
    async fn send_what_was_said(
        &mut self,
        answers: &mut mpsc::Receiver<Frame>,
    ) -> std::io::Result<()> {
        while let Ok(answer) = answers.try_recv() {
            self.send(&answer).await?;
        }
        match self.handle.take_note() {
            Some(text) => self.send(&Frame::Note { text }).await,
            None => Ok(()),
        }
    }

    async fn send_output(&mut self) -> std::io::Result<()> {
        let reading = self.handle.read_from(self.next);
        self.next = reading.next;
        for piece in reading.pieces {
            let frame = match piece {
                Piece::Text(text) => Frame::Output { text },
                Piece::Bytes(bytes) => Frame::Bytes { bytes: bytes_as_text(&bytes) },
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
