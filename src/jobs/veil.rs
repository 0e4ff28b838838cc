//! The way of a job's bytes to whoever started it: as they are, but for the secrets that the operator typed.
//!
//! What may be the beginning of a secret is held back until it is known, but for the few characters that are let on in
//! a pause: a program may wait for who reads them. A secret is found here as the bytes that were typed, and escaped; not
//! where a program writes something between its letters. Never here: text that others see (`capture`), the time.

use crate::journal::{Learnt, MASK};

/// One job's veil.
#[derive(Debug)]
pub(super) struct Veil {
    secrets: Learnt,
    held: Vec<u8>,
    /// So many of these were told ahead.
    told: usize,
}

impl Veil {
    /// One that hides these secrets, and those that are learnt later.
    pub(super) fn new(secrets: Learnt) -> Self {
        Self { secrets, held: Vec::new(), told: 0 }
    }

    /// Takes what was written; adds to `out` what can be told of it by now.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() && self.secrets.is_empty() {
            out.extend_from_slice(bytes);
            return;
        }
        self.held.extend_from_slice(bytes);
        let open = self.held.len() - self.secrets.begun(&self.held);
        self.tell(open, out);
    }

    /// Whether something is held back.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Nothing came for a while: adds to `out` what can be told of what is held.
    pub(super) fn ahead(&mut self, out: &mut Vec<u8>) {
        let most = self.secrets.ahead(&self.held);
        if most > self.told {
            out.extend_from_slice(&self.held[self.told..most]);
            self.told = most;
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.tell(self.held.len(), out);
    }

    /// Tells what is held up to `open`, where one that may still become a longer secret begins.
    fn tell(&mut self, mut open: usize, out: &mut Vec<u8>) {
        let mut done = self.told;
        for (start, end) in self.secrets.within(&self.held) {
            if start >= open {
                break;
            }
            open = open.max(end);
            // What was told before it was known as a secret can't be taken back.
            if end > done {
                out.extend_from_slice(self.held.get(done..start).unwrap_or_default());
                out.extend_from_slice(MASK.as_bytes());
                done = end;
            }
        }
        out.extend_from_slice(self.held.get(done..open).unwrap_or_default());
        self.told = self.told.saturating_sub(open);
        self.held.drain(..open);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is told of chunks; behind those with `true` comes a pause.
    fn with_pauses(secrets: &[&str], chunks: &[(&[u8], bool)]) -> Vec<u8> {
        let learnt = Learnt::default().of_one_command();
        secrets.iter().for_each(|secret| assert!(learnt.add(secret)));
        let (mut veil, mut out) = (Veil::new(learnt), Vec::new());
        for (chunk, pause) in chunks {
            veil.take(chunk, &mut out);
            for _ in 0..2 * usize::from(*pause) {
                veil.ahead(&mut out);
            }
        }
        veil.finish(&mut out);
        out
    }

    fn told(secrets: &[&str], chunks: &[&[u8]]) -> Vec<u8> {
        let chunks: Vec<(&[u8], bool)> = chunks.iter().map(|chunk| (*chunk, false)).collect();
        with_pauses(secrets, &chunks)
    }

    #[test]
    fn secrets_are_hidden_and_every_other_byte_is_kept() {
        // contract R19 in part: what goes to whoever started a command
        let secrets = ["hunter2", "hunter2-long"];
        for (raw, seen) in [
            (&b"a\r\n\x1b[1m\xff hunter2\0"[..], &b"a\r\n\x1b[1m\xff [masked]\0"[..]),
            (b"hunter2-long hunter2-lon", b"[masked] [masked]-lon"),
            (b"hunter hunte", b"hunter hunte"),
        ] {
            assert_eq!(told(&secrets, &[raw]), seen);
            let single: Vec<&[u8]> = raw.chunks(1).collect();
            assert_eq!(told(&secrets, &single), seen, "however it is cut");
        }
    }

    #[test]
    fn in_a_pause_a_quarter_of_a_secret_is_told_at_most() {
        // contract R19 in part: what goes to whoever started a command
        let learnt = Learnt::default().of_one_command();
        assert!(["game-12", "hunter22", "abc"].iter().all(|secret| learnt.add(secret)));
        for (held, ahead, rest, seen) in [
            ("big", "big", "ger", "bigger"),
            ("g", "g", "ame-12", "g[masked]"),
            ("ga", "g", "s", "gas"),
            ("hunte", "hu", "r22", "hu[masked]"),
            ("hunte", "hu", "d", "hunted"),
            ("ab", "", "c", "[masked]"),
            ("hunter22h", "[masked]h", "unter22", "[masked]h[masked]"),
        ] {
            let (mut veil, mut out) = (Veil::new(learnt.clone()), Vec::new());
            veil.take(held.as_bytes(), &mut out);
            veil.ahead(&mut out);
            veil.ahead(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), ahead, "of {held}");
            veil.take(rest.as_bytes(), &mut out);
            veil.finish(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), seen);
        }
    }

    #[test]
    fn what_was_told_before_it_is_known_as_a_secret_is_neither_told_again_nor_masked() {
        let learnt = Learnt::default();
        assert!(learnt.add("abcdefghijkl"));
        let (mut veil, mut out) = (Veil::new(learnt.clone()), Vec::new());
        veil.take(b"xabcdef", &mut out);
        veil.ahead(&mut out);
        assert_eq!(out, b"xabc");
        assert!(learnt.add("bcde") && learnt.add("zabc"));
        veil.take(b"g", &mut out);
        veil.take(b"!", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "xabc[masked]fg!");
    }

    proptest! {
        #[test]
        fn without_a_secret_in_it_nothing_changes(
            chunks in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..9,
            ),
        ) {
            let whole: Vec<u8> = chunks.iter().flat_map(|(chunk, _)| chunk.clone()).collect();
            let chunks: Vec<(&[u8], bool)> =
                chunks.iter().map(|(chunk, pause)| (chunk.as_slice(), *pause)).collect();
            // Too long to come up by chance; what they begin with does.
            let long = ["\0\u{1}", "\u{7f}a"].map(|begin| format!("{begin}-not-to-be-found-in-there"));
            prop_assert_eq!(with_pauses(&[&long[0], &long[1]], &chunks), &whole[..]);
            prop_assert_eq!(with_pauses(&[], &chunks), &whole[..]);
        }

        #[test]
        fn however_pauses_fall_no_more_than_a_quarter_of_a_secret_stands_before_a_mask(
            pieces in proptest::collection::vec(
                (
                    proptest::sample::select(vec![
                        "hunter22", "hunter22-longer", "hunt", "er22", "hu", "h", "ababcdab", "abab", "cdab",
                        "a", "b", "é12xyzw", "é12", "xyzw", "12", "12x", "x", " ", "\n", "-", "pin",
                    ]),
                    any::<bool>(),
                ),
                0..30,
            ),
            cut in 1usize..9,
        ) {
            let secrets =
                ["hunter22", "hunter22-longer", "ababcdab", "abab", "é12xyzw", "12x", "pin 1"];
            let bytes: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.bytes()).collect();
            let chunks: Vec<(&[u8], bool)> = bytes
                .chunks(cut)
                .enumerate()
                .map(|(at, chunk)| (chunk, pieces[at % pieces.len()].1))
                .collect();
            let strict: Vec<&[u8]> = chunks.iter().map(|(chunk, _)| *chunk).collect();
            let strict = String::from_utf8(told(&secrets, &strict)).unwrap();
            let told = String::from_utf8(with_pauses(&secrets, &chunks)).unwrap();
            let (strict, told): (Vec<&str>, Vec<&str>) =
                (strict.split(MASK).collect(), told.split(MASK).collect());
            prop_assert_eq!(strict.len(), told.len(), "{:?} {:?}", strict, told);
            let last = told.len() - 1;
            for (at, (strict, told)) in strict.iter().zip(&told).enumerate() {
                let ahead = told.strip_prefix(strict);
                let few = |secret: &&str| {
                    let part = |ahead: &str| {
                        secret.starts_with(ahead)
                            && 4 * ahead.chars().count() <= secret.chars().count()
                    };
                    ahead.is_some_and(part)
                };
                prop_assert!(
                    ahead == Some("") || (at < last && secrets.iter().any(few)),
                    "{:?} of {:?}", told, strict
                );
            }
        }
    }
}
