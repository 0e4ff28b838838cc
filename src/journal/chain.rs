//! What ties each line of a journal to those before it, so that damage is found that still reads as a line.
//!
//! A line ends in the field `chain`: the SHA-256, in lower-case hexadecimal, of the last line's `chain` (nothing for
//! the first line) and the line's own bytes before that field. It proves damage, not malice: whoever writes a whole
//! journal anew can compute it. Journals of engines that kept none have none, and go on without.
//! Never here: what a line means.

use sha2::{Digest, Sha256};

use super::artifacts::hex;

const OPEN: &[u8] = b",\"chain\":\"";
const CLOSE: &[u8] = b"\"}";
/// Bytes of a SHA-256 in hexadecimal.
const DIGITS: usize = 64;

/// The end of a journal that is gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The last line's; absent in a journal without.
    last: Option<String>,
}

impl Chain {
    /// Of a journal that has no line yet.
    pub(super) fn begin() -> Self {
        Self { last: Some(String::new()) }
    }

    /// That of a journal's first line, which says whether there is one.
    fn beginning(first: &[u8]) -> Self {
        if split(first).is_some() { Self::begin() } else { Self { last: None } }
    }

    /// The end of a journal, all of whose lines are whole.
    pub(super) fn end(journal: &[u8]) -> Self {
        let mut lines = journal.split_inclusive(|byte| *byte == b'\n').map(without_end);
        let Some(first) = lines.next() else { return Self::begin() };
        let mut chain = Self::beginning(first);
        if chain.last.is_some() {
            let last = lines.next_back().unwrap_or(first);
            chain.last = split(last).map(|(_, link)| link.to_owned());
        }
        chain
    }

    /// A line (an object without its line's end) with its link, and the chain after it.
    pub(super) fn tie(&self, mut line: Vec<u8>) -> (Vec<u8>, Self) {
        let Some(before) = &self.last else { return (line, self.clone()) };
        if line.last() == Some(&b'}') {
            line.pop();
        }
        let link = link(before, &line);
        line.extend_from_slice(OPEN);
        line.extend_from_slice(link.as_bytes());
        line.extend_from_slice(CLOSE);
        (line, Self { last: Some(link) })
    }
}

/// Follows a journal's lines from the first on.
#[derive(Debug, Default)]
pub(super) struct Follower(Option<Chain>);

impl Follower {
    /// Whether the next line (without its end) is what was written behind those before it. After one that is not,
    /// the next is held against what that one says of itself: a single fault is told once.
    pub(super) fn fits(&mut self, line: &[u8]) -> bool {
        let chain = self.0.get_or_insert_with(|| Chain::beginning(line));
        let Some(before) = &chain.last else { return split(line).is_none() };
        let Some((front, said)) = split(line) else { return false };
        let fits = link(before, front) == said;
        chain.last = Some(said.to_owned());
        fits
    }

    /// Whether the journal has a chain.
    pub(super) fn is_tied(&self) -> bool {
        self.0.as_ref().is_some_and(|chain| chain.last.is_some())
    }
}

/// A line's bytes before its link, and the link.
fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let rest = line.strip_suffix(CLOSE)?;
    let (front, link) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let hexadecimal = link.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let link = std::str::from_utf8(link).ok().filter(|_| hexadecimal)?;
    Some((front.strip_suffix(OPEN)?, link))
}

fn link(before: &str, front: &[u8]) -> String {
    hex(&Sha256::new().chain_update(before).chain_update(front).finalize())
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 4] = [
        r#"{"entry":"a"}"#,
        r#"{"entry":"b","n":1}"#,
        r#"{"entry":"c"}"#,
        r#"{"entry":"b","n":1}"#,
    ];

    fn tied() -> Vec<Vec<u8>> {
        let mut chain = Chain::begin();
        let mut tie = |line: &str| {
            let (line, next) = chain.tie(line.into());
            chain = next;
            line
        };
        LINES.map(&mut tie).into()
    }

    fn strange(lines: &[Vec<u8>]) -> Vec<usize> {
        let mut follower = Follower::default();
        let strange = |(at, line): (usize, &Vec<u8>)| (!follower.fits(line)).then_some(at);
        lines.iter().enumerate().filter_map(strange).collect()
    }

    #[test]
    fn a_line_is_the_same_object_with_one_field_more() {
        for (line, tied) in LINES.iter().zip(tied()) {
            let mut tied: serde_json::Value = serde_json::from_slice(&tied).unwrap();
            assert_eq!(
                tied.as_object_mut().unwrap().remove("chain").unwrap().as_str().unwrap().len(),
                64
            );
            assert_eq!(tied, serde_json::from_str::<serde_json::Value>(line).unwrap());
        }
    }

    #[test]
    fn every_changed_byte_and_every_line_that_goes_comes_or_moves_is_found() {
        let whole = tied();
        assert!(strange(&whole).is_empty());
        for at in 0..whole.len() {
            for byte in 0..whole[at].len() {
                let mut lines = whole.clone();
                lines[at][byte] ^= 1;
                assert!(!strange(&lines).is_empty(), "line {at}, byte {byte}");
            }
            let mut twice = whole.clone();
            twice.insert(at, whole[at].clone());
            assert!(!strange(&twice).is_empty());
            let mut swapped = whole.clone();
            swapped.swap(at, (at + 1) % LINES.len());
            assert!(!strange(&swapped).is_empty());
        }
        for at in 0..whole.len() - 1 {
            let mut lines = whole.clone();
            lines.remove(at);
            assert_eq!(strange(&lines), [at], "the line behind a gap");
        }
    }

    #[test]
    fn a_journal_goes_on_as_it_began() {
        let mut whole = tied();
        let text = |lines: &[Vec<u8>]| {
            lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect::<Vec<u8>>()
        };
        whole.push(Chain::end(&text(&whole)).tie(LINES[0].into()).0);
        assert!(strange(&whole).is_empty());
        assert_eq!(Chain::end(b""), Chain::begin());
        // One without a chain stays so, and a line with one in it is none of its own.
        let mut plain = LINES.map(Vec::from).to_vec();
        plain.push(Chain::end(&text(&plain)).tie(LINES[0].into()).0);
        assert_eq!(plain[4], LINES[0].as_bytes());
        assert!(strange(&plain).is_empty());
        plain.push(whole[2].clone());
        assert_eq!(strange(&plain), [5]);
    }
}
