//! A job's output: its head and its tail are kept, the middle is counted and dropped.

use std::collections::VecDeque;

/// Keeps the first third and the last two thirds of a limit.
#[derive(Debug)]
pub(crate) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    dropped: u64,
}

impl Output {
    /// For at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 3;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit,
            tail_limit: limit - head_limit,
            dropped: 0,
        }
    }

    /// Adds what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.head_limit - self.head.len());
        self.head.extend(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        let skipped = rest.len().saturating_sub(self.tail_limit);
        let rest = &rest[skipped..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
        self.dropped += (skipped + excess) as u64;
    }

    /// How many bytes were added altogether.
    pub(crate) fn written(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.dropped
    }

    /// The first bytes.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes of those that came after the head.
    pub(crate) fn tail(&self) -> &VecDeque<u8> {
        &self.tail
    }

    /// What was kept, and how many bytes are missing between the head and the tail.
    pub(crate) fn finish(self) -> (Vec<u8>, u64) {
        let mut kept = self.head;
        kept.extend(self.tail);
        (kept, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn keeps_head_and_tail_however_it_is_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(0u8..255, 0..40), 0..20),
            limit in 0usize..100,
        ) {
            let all: Vec<u8> = chunks.concat();
            let mut output = Output::new(limit);
            chunks.iter().for_each(|chunk| output.push(chunk));
            let (kept, dropped) = output.finish();
            proptest::prop_assert_eq!(kept.len() as u64 + dropped, all.len() as u64);
            proptest::prop_assert_eq!(kept.len(), all.len().min(limit));
            let head = kept.len().min(limit / 3);
            proptest::prop_assert_eq!(&kept[..head], &all[..head]);
            proptest::prop_assert!(all.ends_with(&kept[head..]));
        }
    }
}
