//! Standard input that is a file or a pipe, on its way into a command: bytes as they are, a piece at a time.
//!
//! The next piece is read when the one before is in its place: a command that reads slowly is waited for, and what
//! could not be put in is known. Never here: terminals, frames of other kinds.

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::terminal::Typed;
use crate::control::{MOST_POURED, Said, Speak, bytes_as_text};
use crate::jobs::Input;

/// What was put in so far.
#[derive(Debug)]
pub struct Pour {
    go: Sender<bool>,
    lost: Option<String>,
}

/// The reader's half: tells it after each piece whether more is wanted.
#[derive(Debug)]
pub struct Pump {
    go: Receiver<bool>,
    /// Whether an input in which nothing ever came is closed, too.
    empty_closes: bool,
}

impl Pour {
    /// Nothing yet.
    pub fn new(empty_closes: bool) -> (Self, Pump) {
        let (go, gone_on) = channel();
        (Self { go, lost: None }, Pump { go: gone_on, empty_closes })
    }

    /// Puts a piece in.
    pub fn give(&self, speak: &mut Speak, bytes: &[u8]) {
        // The end of the connection is told by its other half.
        let _ = speak.say(&Said::Pour { bytes: bytes_as_text(bytes) });
    }

    /// The engine's answer to a piece.
    pub fn answered(&mut self, open: bool, lost: Option<String>) {
        let open = open && lost.is_none();
        self.lost = self.lost.take().or(lost);
        // Who reads has ended already when nothing more is to come.
        let _ = self.go.send(open);
    }

    /// Standard input could not be read on.
    pub fn failed(&mut self, reason: String) {
        self.lost.get_or_insert(reason);
    }

    /// Why a part of the input did not come to the command, if one did not.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }
}

impl Pump {
    /// Reads to the end, or until no more is wanted.
    pub fn run(self, mut from: impl Read, mut each: impl FnMut(Typed) -> bool) {
        let mut bytes = vec![0; MOST_POURED];
        let mut any = false;
        loop {
            let read = match from.read(&mut bytes) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    each(Typed::Failed(format!("standard input can't be read: {error}")));
                    0
                }
            };
            if read == 0 {
                break;
            }
            any = true;
            if !each(Typed::Bytes(bytes[..read].to_vec())) || self.go.recv() != Ok(true) {
                return;
            }
        }
        if any || self.empty_closes {
            each(Typed::Input(Input::Close));
        }
        each(Typed::Over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pumped(bytes: &[u8], empty_closes: bool, wanted: usize) -> Vec<Typed> {
        let (mut pour, pump) = Pour::new(empty_closes);
        (0..wanted).for_each(|_| pour.answered(true, None));
        pour.answered(false, None);
        let mut all = Vec::new();
        pump.run(bytes, |typed| {
            all.push(typed);
            true
        });
        all
    }

    #[test]
    fn bytes_come_as_they_are_and_their_end_closes_the_input() {
        let (close, bytes) = (|| Typed::Input(Input::Close), b"a\xff\nb");
        assert_eq!(pumped(bytes, true, 1), [Typed::Bytes(bytes.to_vec()), close(), Typed::Over]);
        assert_eq!(pumped(b"", true, 1), [close(), Typed::Over]);
        assert_eq!(pumped(b"", false, 1), [Typed::Over], "what came to nothing closes nothing");
        let long = vec![7; 2 * MOST_POURED + 1];
        assert_eq!(pumped(&long, true, 9).len(), 5);
        assert_eq!(pumped(&long, true, 1).len(), 2, "more is not wanted");
    }

    #[test]
    fn the_first_loss_is_kept() {
        let (mut pour, pump) = Pour::new(true);
        pour.answered(true, Some("full".into()));
        pour.failed("later".into());
        assert_eq!((pour.lost(), pump.go.recv()), (Some("full"), Ok(false)));
    }
}
