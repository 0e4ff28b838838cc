//! The way of a job's output into its ring: made fit for reading, and without the secrets that the operator
//! typed (contracts R19 and R20).
//!
//! What may be the beginning of a secret is held back until it is known, so that no cut of the output shows one. A
//! capture whose text is kept nowhere may let a few characters on in a pause. Never here: where it is kept, the time.

use super::sanitise::Sanitiser;
use crate::journal::{Learnt, MASK};

/// The most that is held back, in bytes, colours among it; more of them are left out.
const MOST_HELD: usize = 64 << 10;

/// One job's capture.
#[derive(Debug, Default)]
pub struct Capture {
    sanitiser: Sanitiser,
    secrets: Learnt,
    held: String,
    /// So many bytes of it were told ahead.
    told: usize,
}

impl Capture {
    /// A capture that hides these secrets, and those that are learnt later.
    pub fn new(secrets: Learnt) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Takes what was written; gives what can be kept of it by now.
    pub fn take(&mut self, bytes: &[u8]) -> String {
        let text = self.sanitiser.take(bytes);
        self.hold(text, false)
    }

    /// Nothing more comes.
    pub fn finish(&mut self) -> String {
        let text = self.sanitiser.finish();
        self.hold(text, true)
    }

    /// What is held back.
    pub fn held(&self) -> &str {
        &self.held
    }

    /// Nothing came for a while: gives what can be told of what is held. Not for what is kept.
    pub fn ahead(&mut self) -> String {
        let visible = Visible::of(&self.held);
        let most = self.secrets.ahead(&visible.bytes);
        let cut = if most == visible.bytes.len() { self.held.len() } else { visible.at(most) };
        let from = self.told;
        self.told = from.max(cut);
        self.held.get(from..cut).unwrap_or_default().to_owned()
    }

    fn hold(&mut self, text: String, whole: bool) -> String {
        if self.held.is_empty() && self.secrets.is_empty() {
            return text;
        }
        self.held.push_str(&text);
        let visible = Visible::of(&self.held);
        let mut open = match whole {
            true => visible.bytes.len(),
            false => visible.bytes.len() - self.secrets.begun(&visible.bytes),
        };
        let mut out = String::with_capacity(self.held.len());
        let mut done = self.told;
        for (start, end) in self.secrets.within(&visible.bytes) {
            // One that may still become a longer one waits.
            if start >= open {
                break;
            }
            open = open.max(end);
            let (from, to) = (visible.at(start), visible.at(end - 1) + 1);
            // What was told before it was known as a secret can't be taken back.
            if to > done {
                out.push_str(self.held.get(done..from).unwrap_or_default());
                out.push_str(MASK);
                // Colours within it stay: one of them may switch off what another has switched on.
                out.extend(visible.colours(&self.held, from.max(done), to));
                done = to;
            }
        }
        let cut = if open == visible.bytes.len() { self.held.len() } else { visible.at(open) };
        out.push_str(self.held.get(done..cut).unwrap_or_default());
        self.told = self.told.saturating_sub(cut);
        self.held.drain(..cut);
        if self.held.len() > MOST_HELD {
            let plain = Visible::of(&self.held);
            self.told = plain.places.iter().take_while(|place| **place < self.told).count();
            self.held = String::from_utf8_lossy(&plain.bytes).into_owned();
        }
        out
    }
}

/// A text without its colours, and where each of its bytes stands.
struct Visible {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Visible {
    fn of(text: &str) -> Self {
        let mut visible = Self { bytes: Vec::new(), places: Vec::new() };
        let mut colour = false;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'\x1b' => colour = true,
                b'm' if colour => colour = false,
                _ if colour => {}
                byte => {
                    visible.bytes.push(byte);
                    visible.places.push(at);
                }
            }
        }
        visible
    }

    fn at(&self, index: usize) -> usize {
        self.places.get(index).copied().unwrap_or(0)
    }

    /// The colours between two places of the text.
    fn colours<'t>(&self, text: &'t str, from: usize, to: usize) -> impl Iterator<Item = &'t str> {
        let parts = text[from..to].split('\x1b').skip(1);
        parts.filter_map(move |part| {
            let end = part.find('m')?;
            let begin = part.as_ptr() as usize - text.as_ptr() as usize;
            text.get(begin - 1..=begin + end)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capture(secrets: &[&str], chunks: &[&[u8]]) -> String {
        let learnt = Learnt::default();
        secrets.iter().for_each(|secret| assert!(learnt.add(secret)));
        let mut capture = Capture::new(learnt);
        let mut out: String = chunks.iter().map(|chunk| capture.take(chunk)).collect();
        out += &capture.finish();
        out
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_printed() {
        // contract R19 in part: what a program prints back
        for (raw, told) in [
            (&b"it is hunter22!\n"[..], "it is [masked]!\n"),
            (b"hun\x1b[31mter\x1b[0m22 x", "[masked]\u{1b}[31m\u{1b}[0m x"),
            (b"h\x1b[2Ku\rn\x1b]0;t\x07ter\x0822", "[masked]"),
            (b"hunter2 hunter2", "hunter2 hunter2"),
            (b"hunter22hunter22", "[masked][masked]"),
            (b"pin 1234 of 123, 12", "pin [masked] of 123, 12"),
        ] {
            assert_eq!(capture(&["hunter22", "1234"], &[raw]), told);
            let single: Vec<&[u8]> = raw.chunks(1).collect();
            assert_eq!(capture(&["hunter22", "1234"], &single), told);
        }
        assert_eq!(
            capture(&["ababcd", "abab"], &[b"abab", b"cd abab", b" x"]),
            "[masked] [masked] x"
        );
    }

    #[test]
    fn what_may_become_a_secret_waits_and_nothing_else_does() {
        let learnt = Learnt::default();
        let mut capture = Capture::new(learnt.clone());
        assert_eq!(capture.take(b"hunt"), "hunt");
        assert!(learnt.add("hunter22"));
        assert_eq!((capture.take(b"a hunt").as_str(), capture.held()), ("a ", "hunt"));
        assert_eq!(capture.take(b"ing"), "hunting");
        capture.take(b"hunter");
        for _ in 0..3 {
            assert_eq!(capture.take(&b"\x1b[31m".repeat(9000)), "");
        }
        assert!(capture.held().len() <= MOST_HELD);
        assert!(capture.take(b"22").starts_with("[masked]"), "colours without end show nothing");
    }

    #[test]
    fn in_a_pause_a_quarter_of_a_secret_is_told_at_most_whatever_its_colours_are() {
        // contract R19 in part: what goes to whoever started a command, as text
        let learnt = Learnt::default();
        assert!(learnt.add("hunter22"));
        for (held, ahead, rest, seen) in [
            (&b"say hu"[..], "say hu", &b"sh"[..], "say hush"),
            (b"\x1b[31mh\x1b[1mun", "\x1b[31mh\x1b[1mu", b"\x1b[0mter22\n", "[masked]\x1b[0m\n"),
            (b"h\x1b[32m", "h\x1b[32m", b"unter22", "[masked]"),
        ] {
            let mut capture = Capture::new(learnt.clone());
            let mut out = capture.take(held) + &capture.ahead() + &capture.ahead();
            assert_eq!(out, ahead);
            out += &(capture.take(rest) + &capture.finish());
            let seen =
                if seen.starts_with("[m") { ahead.to_owned() + seen } else { seen.to_owned() };
            assert_eq!(out, seen);
        }
        let mut capture = Capture::new(learnt);
        assert_eq!(capture.take(b"hunte") + &capture.ahead(), "hu");
        assert_eq!(capture.take(&b"\x1b[31m".repeat(20_000)), "");
        assert_eq!(capture.ahead() + &capture.take(b"d"), "nted", "each character once");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_output_is_cut(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec!["hunter22", "hunt", "er22", "2", "12", " ", "\x1b[31m", "\x1b[2J", "\r\n", "h", "é", "x"]),
                0..30,
            ),
            cut in 1usize..9,
        ) {
            let bytes = pieces.concat().into_bytes();
            let secrets = ["hunter22", "é12x", "xé22"];
            let whole = capture(&secrets, &[&bytes]);
            let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
            let cut = capture(&secrets, &chunks);
            for text in [whole, cut] {
                let plain = Visible::of(&text).bytes;
                let plain = String::from_utf8(plain).unwrap();
                prop_assert!(!plain.contains("hunter22") && !plain.contains("é12x"), "{plain:?}");
            }
        }
    }
}
