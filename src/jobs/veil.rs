//! The way of a job's bytes to whoever started it: as they are, but for the secrets that the operator typed.
//!
//! What may be the beginning of a secret is held back until it is known. A secret is found here as the bytes that were
//! typed, and escaped; not where a program writes something between its letters. Never here: text that others see
//! (`capture`).

use crate::journal::{Learnt, MASK};

/// One job's veil.
#[derive(Debug)]
pub(super) struct Veil {
    secrets: Learnt,
    held: Vec<u8>,
}

impl Veil {
    /// One that hides these secrets, and those that are learnt later.
    pub(super) fn new(secrets: Learnt) -> Self {
        Self { secrets, held: Vec::new() }
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

    /// Nothing more comes.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.tell(self.held.len(), out);
    }

    /// Tells what is held up to `open`, where one that may still become a longer secret begins.
    fn tell(&mut self, mut open: usize, out: &mut Vec<u8>) {
        let mut done = 0;
        for (start, end) in self.secrets.within(&self.held) {
            if start >= open {
                break;
            }
            out.extend_from_slice(&self.held[done..start]);
            out.extend_from_slice(MASK.as_bytes());
            done = end;
            open = open.max(end);
        }
        out.extend_from_slice(&self.held[done..open]);
        self.held.drain(..open);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(secrets: &[&str], chunks: &[&[u8]]) -> Vec<u8> {
        let learnt = Learnt::default();
        secrets.iter().for_each(|secret| assert!(learnt.add(secret)));
        let (mut veil, mut out) = (Veil::new(learnt), Vec::new());
        chunks.iter().for_each(|chunk| veil.take(chunk, &mut out));
        veil.finish(&mut out);
        out
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

    proptest! {
        #[test]
        fn without_a_secret_in_it_nothing_changes(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..9),
        ) {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            // Too long to come up by chance.
            prop_assert_eq!(told(&["not-to-be-found-in-there"], &chunks), chunks.concat());
            prop_assert_eq!(told(&[], &chunks), chunks.concat());
        }
    }
}
