//! What a job wrote and its viewer has not seen yet.
//!
//! The sandbox hands on [`WINDOW`] bytes at most that were not allowed again, and a byte is allowed again when what
//! became of it was seen: so this stays small, and nothing of it is dropped. Pure. Never here: the ring that everybody
//! else reads, what is hidden of it.

use super::ring::{Piece, Reading};
use super::veil::Veil;

/// So many bytes of output may wait for their viewer before the job does.
pub(super) const WINDOW: u64 = 256 << 10;

/// The output from where its viewer stands.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The offset of the first byte that waits.
    start: u64,
    waiting: Vec<u8>,
    /// What the job's bytes go through when its viewer gets them as they are; without one they get the text that
    /// everybody sees.
    veil: Option<Veil>,
    /// How much the job wrote for what was read last, and since then.
    read: u64,
    unread: u64,
}

impl Backlog {
    /// For a viewer who gets the job's own bytes.
    pub(super) fn of_bytes(veil: Veil) -> Self {
        Self { veil: Some(veil), ..Self::default() }
    }

    /// Adds what the job wrote, and the text that was made of it by now.
    pub(super) fn push(&mut self, bytes: &[u8], text: &str) {
        match &mut self.veil {
            Some(veil) => veil.take(bytes, &mut self.waiting),
            None => self.waiting.extend_from_slice(text.as_bytes()),
        }
        self.unread += bytes.len() as u64;
    }

    /// The job writes nothing more; adds the rest of the text.
    pub(super) fn finish(&mut self, text: &str) {
        match &mut self.veil {
            Some(veil) => veil.finish(&mut self.waiting),
            None => self.waiting.extend_from_slice(text.as_bytes()),
        }
    }

    /// Whether there is something to read, or something that was read is to be allowed again by the next reading. A job
    /// can wait for that whatever became of its bytes.
    pub(super) fn is_due(&self) -> bool {
        self.read + self.unread > 0
    }

    /// What came from `from` on, where the reading before has ended: all before it was seen. Gives also how many
    /// bytes of the job's are done with by that.
    pub(super) fn read(&mut self, from: u64) -> (Reading, u64) {
        let seen = usize::try_from(from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let seen = seen.min(self.waiting.len());
        self.waiting.drain(..seen);
        self.start += seen as u64;
        let freed = std::mem::replace(&mut self.read, std::mem::take(&mut self.unread));
        let next = self.start + self.waiting.len() as u64;
        let piece = match &self.veil {
            _ if self.waiting.is_empty() => None,
            Some(_) => Some(Piece::Bytes(self.waiting.clone())),
            None => Some(Piece::Text(String::from_utf8_lossy(&self.waiting).into_owned())),
        };
        (Reading { pieces: piece.into_iter().collect(), next }, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Learnt;

    #[test]
    fn bytes_are_done_with_when_their_text_was_seen() {
        let mut backlog = Backlog::default();
        backlog.push(b"one \xc3\xa9", "one é");
        // Of a sequence that is left out nothing is seen.
        backlog.push(b"\x1b[2J", "");
        let (first, freed) = backlog.read(0);
        assert_eq!((first.text().as_str(), first.next, freed), ("one é", 6, 0));
        backlog.push(b"two", "two");
        let (second, freed) = backlog.read(first.next);
        assert_eq!((second.text().as_str(), second.next, freed), ("two", 9, 10));
        let (third, freed) = backlog.read(second.next);
        assert_eq!((third.pieces.len(), third.next, freed), (0, 9, 3));
    }

    #[test]
    fn what_nothing_is_seen_of_is_due_until_it_is_allowed_again() {
        let mut backlog = Backlog::default();
        assert!(!backlog.is_due());
        backlog.push(&[0; 7], "");
        assert!(backlog.is_due());
        assert_eq!((backlog.read(0).1, backlog.is_due()), (0, true), "it is allowed by the next");
        assert_eq!((backlog.read(0).1, backlog.is_due()), (7, false));
    }

    #[test]
    fn a_viewer_of_bytes_gets_each_of_them_and_the_rest_at_the_end() {
        let learnt = Learnt::default();
        assert!(learnt.add("hunter2"));
        let mut backlog = Backlog::of_bytes(Veil::new(learnt));
        backlog.push(b"a\r\x1b[2J\xff\0hunt", "a\u{fffd}");
        let (first, _) = backlog.read(0);
        assert_eq!(first.pieces, [Piece::Bytes(b"a\r\x1b[2J\xff\0".to_vec())]);
        backlog.push(b"er2hun", "");
        assert_eq!(backlog.read(first.next).0.text(), "[masked]");
        backlog.finish("hun");
        assert_eq!(backlog.read(first.next + 8).0.pieces, [Piece::Bytes(b"hun".to_vec())]);
    }
}
