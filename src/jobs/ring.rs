//! A job's output in bounded memory: its head and its tail are kept, at absolute offsets.
//!
//! Pure. Never here: whose output it is, escape sequences.

use crate::sandbox::Output;

/// The first bytes, a gap, the last bytes. Offsets count from the job's first byte and never change.
#[derive(Debug)]
pub struct Ring(Output);

/// What a reader gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The text, in order, with what is missing between.
    pub pieces: Vec<Piece>,
    /// Where to read on.
    pub next: u64,
}

/// A part of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Output, broken UTF-8 replaced.
    Text(String),
    /// Output as it was written.
    Bytes(Vec<u8>),
    /// So many bytes are gone.
    Dropped(u64),
}

impl Ring {
    /// For at most `limit` bytes, a third of it for the head.
    pub fn new(limit: usize) -> Self {
        Self(Output::new(limit))
    }

    /// Adds what the job wrote.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    /// How many bytes the job wrote altogether.
    pub fn written(&self) -> u64 {
        self.0.written()
    }

    /// How many bytes are kept.
    pub fn kept(&self) -> usize {
        self.0.head().len() + self.0.tail().len()
    }

    /// What was written from `from` on. With `whole` nothing more will come: else a character that
    /// is not finished yet is left for the next reading.
    pub fn read(&self, from: u64, whole: bool) -> Reading {
        let (head, tail, written) = (self.0.head(), self.0.tail(), self.0.written());
        let (head_end, tail_start) = (head.len() as u64, written - tail.len() as u64);
        let gap = tail_start > head_end;
        let mut reading = Reading { pieces: Vec::new(), next: written.max(from) };
        let mut missing = 0;
        if from < head_end {
            let bytes = &head[usize_of(from)..];
            let cut = if gap { unfinished(bytes) } else { 0 };
            let joined = (!gap).then(|| tail.iter().copied());
            let rest = if from > 0 { orphans(bytes).min(bytes.len() - cut) } else { 0 };
            let mut bytes = bytes[rest..bytes.len() - cut].to_vec();
            bytes.extend(joined.into_iter().flatten());
            missing += cut as u64;
            reading.add(bytes, !gap && !whole);
        }
        if gap || from >= head_end {
            missing += tail_start.saturating_sub(from.max(head_end));
            let start = usize_of(from.saturating_sub(tail_start)).min(tail.len());
            let bytes: Vec<u8> = tail.range(start..).copied().collect();
            // Only where something is gone, or not asked for, can the first character have lost its beginning.
            let cut = if missing > 0 || from > head_end { orphans(&bytes) } else { 0 };
            if missing > 0 {
                reading.pieces.push(Piece::Dropped(missing + cut as u64));
            }
            reading.add(bytes[cut..].to_vec(), !whole);
        }
        reading
    }
}

impl Reading {
    fn add(&mut self, mut bytes: Vec<u8>, goes_on: bool) {
        if goes_on {
            let cut = unfinished(&bytes);
            bytes.truncate(bytes.len() - cut);
            self.next -= cut as u64;
        }
        if !bytes.is_empty() {
            self.pieces.push(Piece::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
    }

    /// The text with a note in brackets for what is gone.
    pub fn text(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Piece::Dropped(bytes) => format!("\n[{bytes} bytes of output are gone]\n"),
        };
        self.pieces.iter().map(piece).collect()
    }
}

fn usize_of(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// How many bytes at the end begin a character without finishing it.
fn unfinished(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        // A chunk's invalid part at the very end is unfinished when more bytes could make it valid.
        Some(chunk) if !chunk.invalid().is_empty() => {
            let invalid = chunk.invalid();
            match std::str::from_utf8(invalid) {
                Err(error) if error.error_len().is_none() => invalid.len(),
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// How many bytes at the beginning are the rest of a character, at most 3.
fn orphans(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| *byte & 0b1100_0000 == 0b1000_0000).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(limit: usize, chunks: &[&[u8]]) -> Ring {
        let mut ring = Ring::new(limit);
        chunks.iter().for_each(|chunk| ring.push(chunk));
        ring
    }

    #[test]
    fn what_is_gone_is_said_and_offsets_go_on() {
        let ring = ring(9, &[b"abcdefghij", b"klmnop"]);
        let reading = ring.read(0, true);
        let expected = [Piece::Text("abc".into()), Piece::Dropped(7), Piece::Text("klmnop".into())];
        assert_eq!((reading.pieces.as_slice(), reading.next), (expected.as_slice(), 16));
        assert_eq!(ring.read(12, true).pieces, [Piece::Text("mnop".into())]);
        assert_eq!(ring.read(5, true).pieces, [Piece::Dropped(5), Piece::Text("klmnop".into())]);
        let nothing = ring.read(16, true);
        assert_eq!((nothing.pieces.len(), nothing.next), (0, 16));
        assert_eq!(ring.read(99, false).next, 99);
    }

    #[test]
    fn a_character_in_the_making_is_waited_for_and_one_cut_by_a_seam_is_dropped_whole() {
        let euro = "€".as_bytes();
        let half = ring(90, &[b"a", &euro[..2]]);
        assert_eq!((half.read(0, false).text(), half.read(0, false).next), ("a".into(), 1));
        assert_eq!(half.read(0, true).text(), "a\u{fffd}");
        // Head of 4 holds one and a third, the tail of 8 begins within one.
        let seams = ring(12, &["€€€€€€€".as_bytes()]);
        let reading = seams.read(0, false);
        let expected = [Piece::Text("€".into()), Piece::Dropped(12), Piece::Text("€€".into())];
        assert_eq!(reading.pieces, expected);
        // A reader who begins within a character does not get its rest; nor a seam's.
        let whole = ring(90, &["a€b€".as_bytes()]);
        for (from, text) in
            [(0, "a€b€"), (1, "€b€"), (2, "b€"), (3, "b€"), (4, "b€"), (6, ""), (8, "")]
        {
            assert_eq!(whole.read(from, true).text(), text, "{from}");
        }
        assert_eq!(seams.read(14, true).text(), "€€");
        assert_eq!(ring(90, &[b"a\xff\xc3(z"]).read(0, false).text(), "a\u{fffd}\u{fffd}(z");
    }

    proptest! {
        #[test]
        fn readings_in_any_steps_give_the_same_text(
            chunks in proptest::collection::vec(".{0,12}", 0..20),
            cut in 1usize..9,
        ) {
            let all: Vec<u8> = chunks.concat().into_bytes();
            let mut ring = Ring::new(1 << 20);
            let (mut text, mut next) = (String::new(), 0);
            for part in all.chunks(cut) {
                ring.push(part);
                let reading = ring.read(next, false);
                text += &reading.text();
                next = reading.next;
            }
            text += &ring.read(next, true).text();
            prop_assert_eq!(text.as_bytes(), &all[..]);
        }

        #[test]
        fn nothing_is_kept_beyond_the_limit_and_every_byte_is_accounted_for(
            chunks in proptest::collection::vec(proptest::collection::vec(0u8..128, 0..40), 0..20),
            limit in 0usize..100,
            from in 0u64..200,
        ) {
            let all: Vec<u8> = chunks.concat();
            let mut ring = Ring::new(limit);
            chunks.iter().for_each(|chunk| ring.push(chunk));
            prop_assert_eq!(ring.kept(), all.len().min(limit));
            let counted = ring.read(from, true).pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.len() as u64,
                Piece::Bytes(bytes) => bytes.len() as u64,
                Piece::Dropped(bytes) => *bytes,
            }).sum::<u64>();
            prop_assert_eq!(counted, (all.len() as u64).saturating_sub(from));
        }
    }
}
