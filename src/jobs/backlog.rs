//! What a job wrote and its viewer has not seen yet.
//!
//! The sandbox hands on [`WINDOW`] bytes at most that were not allowed again, and a byte is allowed again when its
//! text was seen: so this stays small, and nothing of it is dropped. Pure. Never here: the ring that everybody else
//! reads.

use super::ring::{Piece, Reading};

/// So many bytes of output may wait for their viewer before the job does.
pub(super) const WINDOW: u64 = 256 << 10;

/// The output from where its viewer stands.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The offset of the first byte of the text.
    start: u64,
    text: String,
    /// How much the job wrote for what was read last, and since then.
    read: u64,
    unread: u64,
}

impl Backlog {
    /// Adds a text, and how many bytes the job wrote for it.
    pub(super) fn push(&mut self, text: &str, raw: u64) {
        self.text.push_str(text);
        self.unread += raw;
    }

    /// What came from `from` on, where the reading before has ended: all before it was seen. Gives also how many
    /// bytes of the job's are done with by that.
    pub(super) fn read(&mut self, from: u64) -> (Reading, u64) {
        let seen = usize::try_from(from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let mut seen = seen.min(self.text.len());
        while !self.text.is_char_boundary(seen) {
            seen -= 1;
        }
        self.text.drain(..seen);
        self.start += seen as u64;
        let freed = std::mem::replace(&mut self.read, std::mem::take(&mut self.unread));
        let next = self.start + self.text.len() as u64;
        let piece = (!self.text.is_empty()).then(|| Piece::Text(self.text.clone()));
        (Reading { pieces: piece.into_iter().collect(), next }, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_done_with_when_their_text_was_seen() {
        let mut backlog = Backlog::default();
        backlog.push("one é", 6);
        // Of a sequence that is left out nothing is seen.
        backlog.push("", 4);
        let (first, freed) = backlog.read(0);
        assert_eq!((first.text().as_str(), first.next, freed), ("one é", 6, 0));
        backlog.push("two", 3);
        let (second, freed) = backlog.read(first.next);
        assert_eq!((second.text().as_str(), second.next, freed), ("two", 9, 10));
        let (third, freed) = backlog.read(second.next);
        assert_eq!((third.pieces.len(), third.next, freed), (0, 9, 3));
    }
}
