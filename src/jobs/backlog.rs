//! What a job wrote and its viewer has not seen yet.
//!
//! The sandbox hands on [`WINDOW`] bytes at most that were not allowed again, and a byte is allowed again when what
//! became of it was seen: so this stays small, and nothing of it is dropped. What is held back because it may be the
//! beginning of a secret is let on in part when the job writes nothing for a while: it may wait for who reads it. Pure.
//! Never here: the ring that everybody else reads, what is hidden of it, the time.

use std::time::Duration;

use tokio::time::Instant;

use super::capture::Capture;
use super::ring::{Piece, Reading};
use super::veil::Veil;

/// So many bytes of output may wait for their viewer before the job does.
pub(super) const WINDOW: u64 = 256 << 10;

/// How long a job writes nothing until a part of what is held back is let on.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// The output from where its viewer stands.
#[derive(Debug)]
pub(super) struct Backlog {
    /// The offset of the first byte that waits.
    start: u64,
    waiting: Vec<u8>,
    way: Way,
    /// When the job wrote last, until a part of what is held back was let on.
    wrote: Option<Instant>,
    /// How much the job wrote for what was read last, and since then.
    read: u64,
    unread: u64,
}

/// What the job's bytes go through.
#[derive(Debug)]
enum Way {
    /// They stay as they are, but for secrets.
    Bytes(Veil),
    /// They become text, as for everybody else. Its own, because nothing of a secret is let on to others.
    Text(Capture),
}

impl Backlog {
    /// For a viewer who gets the job's own bytes.
    pub(super) fn of_bytes(veil: Veil) -> Self {
        Self::of(Way::Bytes(veil))
    }

    /// For one who gets the text that is made of them.
    pub(super) fn of_text(capture: Capture) -> Self {
        Self::of(Way::Text(capture))
    }

    fn of(way: Way) -> Self {
        Self { start: 0, waiting: Vec::new(), way, wrote: None, read: 0, unread: 0 }
    }

    /// Adds what the job wrote, at this moment.
    pub(super) fn push(&mut self, bytes: &[u8], now: Instant) {
        match &mut self.way {
            Way::Bytes(veil) => veil.take(bytes, &mut self.waiting),
            Way::Text(capture) => self.waiting.extend(capture.take(bytes).into_bytes()),
        }
        self.unread += bytes.len() as u64;
        self.wrote = Some(now);
    }

    /// The job writes nothing more; adds the rest of it.
    pub(super) fn finish(&mut self) {
        match &mut self.way {
            Way::Bytes(veil) => veil.finish(&mut self.waiting),
            Way::Text(capture) => self.waiting.extend(capture.finish().into_bytes()),
        }
    }

    /// Whether there is something to read, or something that was read is to be allowed again by the next reading. A job
    /// can wait for that whatever became of its bytes.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.read + self.unread > 0 || self.lets_on().is_some_and(|at| at <= now)
    }

    /// When a part of what is held back is let on, if nothing is written until then.
    pub(super) fn lets_on(&self) -> Option<Instant> {
        let holds = match &self.way {
            Way::Bytes(veil) => veil.holds(),
            Way::Text(capture) => !capture.held().is_empty(),
        };
        self.wrote.filter(|_| holds).map(|wrote| wrote + PAUSE)
    }

    /// What came from `from` on, where the reading before has ended: all before it was seen. Gives also how many
    /// bytes of the job's are done with by that.
    pub(super) fn read(&mut self, from: u64, now: Instant) -> (Reading, u64) {
        if self.lets_on().is_some_and(|at| at <= now) {
            self.wrote = None;
            match &mut self.way {
                Way::Bytes(veil) => veil.ahead(&mut self.waiting),
                Way::Text(capture) => self.waiting.extend(capture.ahead().into_bytes()),
            }
        }
        let seen = usize::try_from(from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let seen = seen.min(self.waiting.len());
        self.waiting.drain(..seen);
        self.start += seen as u64;
        let freed = std::mem::replace(&mut self.read, std::mem::take(&mut self.unread));
        let next = self.start + self.waiting.len() as u64;
        let piece = match &self.way {
            _ if self.waiting.is_empty() => None,
            Way::Bytes(_) => Some(Piece::Bytes(self.waiting.clone())),
            Way::Text(_) => Some(Piece::Text(String::from_utf8_lossy(&self.waiting).into_owned())),
        };
        (Reading { pieces: piece.into_iter().collect(), next }, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Learnt;

    fn text(secrets: &Learnt) -> Backlog {
        Backlog::of_text(Capture::new(secrets.clone()))
    }

    fn learnt() -> Learnt {
        let learnt = Learnt::default();
        assert!(learnt.add("hunter2"));
        learnt
    }

    #[test]
    fn bytes_are_done_with_when_their_text_was_seen() {
        let (mut backlog, now) = (text(&Learnt::default()), Instant::now());
        backlog.push(b"one \xc3\xa9", now);
        // Of a sequence that is left out nothing is seen.
        backlog.push(b"\x1b[2J", now);
        let (first, freed) = backlog.read(0, now);
        assert_eq!((first.text().as_str(), first.next, freed), ("one é", 6, 0));
        backlog.push(b"two", now);
        let (second, freed) = backlog.read(first.next, now);
        assert_eq!((second.text().as_str(), second.next, freed), ("two", 9, 10));
        let (third, freed) = backlog.read(second.next, now);
        assert_eq!((third.pieces.len(), third.next, freed), (0, 9, 3));
    }

    #[test]
    fn what_nothing_is_seen_of_is_due_until_it_is_allowed_again() {
        let (mut backlog, now) = (text(&Learnt::default()), Instant::now());
        assert!(!backlog.is_due(now));
        backlog.push(&[0; 7], now);
        assert!(backlog.is_due(now));
        assert_eq!((backlog.read(0, now).1, backlog.is_due(now)), (0, true), "allowed by the next");
        assert_eq!((backlog.read(0, now).1, backlog.is_due(now)), (7, false));
    }

    #[test]
    fn a_viewer_of_bytes_gets_each_of_them_and_the_rest_at_the_end() {
        let (mut backlog, now) = (Backlog::of_bytes(Veil::new(learnt())), Instant::now());
        backlog.push(b"a\r\x1b[2J\xff\0hunt", now);
        let (first, _) = backlog.read(0, now);
        assert_eq!(first.pieces, [Piece::Bytes(b"a\r\x1b[2J\xff\0".to_vec())]);
        backlog.push(b"er2hun", now);
        assert_eq!(backlog.read(first.next, now).0.text(), "[masked]");
        backlog.finish();
        assert_eq!(backlog.read(first.next + 8, now).0.pieces, [Piece::Bytes(b"hun".to_vec())]);
    }

    #[test]
    fn what_is_held_is_let_on_in_part_when_nothing_was_written_for_a_while() {
        for mut backlog in [text(&learnt()), Backlog::of_bytes(Veil::new(learnt()))] {
            let now = Instant::now();
            backlog.push(b"big h", now);
            let first = backlog.read(0, now).0;
            assert_eq!(first.text(), "big ");
            backlog.read(first.next, now);
            assert!(!backlog.is_due(now));
            // Each byte begins the pause anew.
            backlog.push(b"u", now + PAUSE / 2);
            backlog.read(first.next, now + PAUSE / 2);
            backlog.read(first.next, now + PAUSE / 2);
            assert!(!backlog.is_due(now + PAUSE));
            let later = now + PAUSE * 3 / 2;
            assert!(backlog.lets_on() == Some(later) && backlog.is_due(later));
            let second = backlog.read(first.next, later).0;
            assert_eq!(second.text(), "h", "a quarter of seven is one");
            assert!(!backlog.is_due(later + PAUSE), "it is told once");
            backlog.push(b"g\n", later);
            assert_eq!(backlog.read(second.next, later).0.text(), "ug\n");
        }
    }
}
