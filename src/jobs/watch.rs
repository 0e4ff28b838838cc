//! Watch patterns on a job's output (contract R37): a line that matches is a notice, seldom and not for
//! ever; a pattern that matches all the time is switched off.
//!
//! Pure but for the time that is handed in. Never here: who is told.

use std::time::{Duration, Instant};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

/// The shortest time between two notices of one pattern.
pub const PAUSE: Duration = Duration::from_secs(5);
/// The most notices of one pattern.
pub const MOST: u32 = 8;
/// So many matches within one pause are a flood.
pub const FLOOD: u32 = 50;
/// The longest line that is looked at; the rest of a longer one is passed over.
const LONGEST: usize = 4096;
/// The most memory that a pattern may take, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// A pattern over the lines of one job.
#[derive(Debug)]
pub struct Watch {
    pattern: RegexMatcher,
    line: Vec<u8>,
    /// How many bytes of the line there are, those that are passed over with them.
    length: usize,
    given: u32,
    last: Option<Instant>,
    within: u32,
    state: WatchState,
}

/// A line that is worth a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// The line, or its beginning: foreign.
    pub line: String,
    /// How long it is in all, in bytes, if that is the beginning.
    pub of: Option<usize>,
}

/// How a pattern stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It gives notices.
    On,
    /// It gave as many as it may.
    Spent,
    /// It matched all the time.
    Flooded,
}

impl WatchState {
    /// Why it gives no notices any more, if it does not.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::On => None,
            Self::Spent => Some("its watch pattern gave as many notices as it may, and is off"),
            Self::Flooded => Some("its watch pattern matched too often, and is off"),
        }
    }
}

impl Watch {
    /// Watches for a regular expression.
    ///
    /// # Errors
    /// In words, when it is none or too large.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let built = RegexMatcherBuilder::new().size_limit(PATTERN_BYTES).build(pattern);
        let pattern = built.map_err(|error| format!("watch is no regular expression: {error}"))?;
        let (line, last, state) = (Vec::new(), None, WatchState::On);
        Ok(Self { pattern, line, length: 0, given: 0, last, within: 0, state })
    }

    /// How it stands.
    pub fn state(&self) -> WatchState {
        self.state
    }

    /// Takes what the job wrote at `now`; gives the lines that are worth a notice.
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Vec<Matched> {
        let mut told = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.state != WatchState::On {
                break;
            }
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend(&piece[..piece.len().min(room)]);
            self.length += piece.len();
            if piece.ends_with(b"\n") {
                told.extend(self.whole_line(now));
            }
        }
        told
    }

    /// The job is over: its last line may have no end.
    pub fn finish(&mut self, now: Instant) -> Option<Matched> {
        (self.state == WatchState::On && !self.line.is_empty()).then(|| self.whole_line(now))?
    }

    fn whole_line(&mut self, now: Instant) -> Option<Matched> {
        let (line, length) = (std::mem::take(&mut self.line), std::mem::take(&mut self.length));
        let of = (length > line.len()).then_some(length);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if !self.pattern.is_match(line).unwrap_or(false) {
            return None;
        }
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.within += 1;
            if self.within >= FLOOD {
                self.state = WatchState::Flooded;
            }
            return None;
        }
        (self.last, self.within) = (Some(now), 0);
        self.given += 1;
        if self.given == MOST {
            self.state = WatchState::Spent;
        }
        Some(Matched { line: String::from_utf8_lossy(line).into_owned(), of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract R37 in part: the notices' way is tested where they are told
    #[test]
    fn matches_are_told_seldom_and_not_for_ever() {
        let mut watch = Watch::new("error|ready").unwrap();
        let begin = Instant::now();
        assert_eq!(watch.take(b"one\nread", begin), []);
        let ready = Matched { line: "ready: port 80".to_owned(), of: None };
        assert_eq!(watch.take(b"y: port 80\nerror 1\n", begin), [ready]);
        assert_eq!(watch.take(b"error 2\n", begin + PAUSE / 2), []);
        for n in 1..MOST {
            assert_eq!(watch.take(b"error\n", begin + PAUSE * n).len(), 1);
        }
        assert_eq!(watch.state(), WatchState::Spent);
        assert!(watch.take(b"error\n", begin + PAUSE * 100).is_empty());
        assert_eq!(watch.finish(begin), None);
    }

    #[test]
    fn a_flood_switches_the_pattern_off() {
        let mut watch = Watch::new(".").unwrap();
        let now = Instant::now();
        assert_eq!(watch.take("x\n".repeat(1000).as_bytes(), now).len(), 1);
        assert_eq!(watch.state(), WatchState::Flooded);
        assert!(watch.take(b"x\n", now + PAUSE * 3).is_empty());
    }

    #[test]
    fn a_last_line_without_end_counts_and_a_long_one_is_cut() {
        let mut watch = Watch::new("end$").unwrap();
        let now = Instant::now();
        assert!(watch.take(b"the end", now).is_empty());
        assert_eq!(watch.finish(now).unwrap().line, "the end");
        let mut watch = Watch::new("a").unwrap();
        let told = watch.take(&[vec![b'a'; 1 << 20], b"\n".to_vec()].concat(), now);
        assert_eq!((told[0].line.len(), told[0].of), (LONGEST, Some((1 << 20) + 1)));
        assert!(Watch::new("(").is_err() && Watch::new("(a{1000}){1000}").is_err());
    }
}
