//! Neutralising: the smallest edits after which nothing in a text can pass for structure.
//!
//! Lives here: the list of characters to escape, and the text with them escaped. Everything else
//! stays byte for byte. Never here: the fence's own lines.

use super::escape;
use super::fold::is_invisible;
use super::stream::{LONGEST_MARKER, Needle, Stream};
use super::tokens;

/// A text without anything that could be taken for a marker, a block delimiter or a control token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neutral {
    /// The text; [`restore`](super::restore) gives back what it was.
    pub text: String,
    /// Byte offsets, in the original, of the characters that are written as escapes, in order.
    pub edits: Vec<usize>,
    /// How many of them are control, format or other invisible characters.
    pub invisible: usize,
}

/// Neutralises `text`: fence markers, every block that `delimiters` name, control tokens, invisible
/// characters and text that looks like an escape already. Linear in the length of `text`.
pub fn neutralise(text: &str, delimiters: &[String]) -> Neutral {
    let (mut neutral, edits) = (Neutral::default(), edits(text, &[], delimiters));
    neutral.invisible = write(&mut neutral.text, text, &[], &edits);
    Neutral { edits, ..neutral }
}

/// Writes `text` behind what `to` holds, with the characters at these offsets as escapes; where `raw` says so, U+FFFD
/// stands for a byte that is no UTF-8. Gives the number of invisible characters among them.
///
/// What is written is written once: copies of texts of megabytes cost more than finding what to escape.
pub(super) fn write(to: &mut String, text: &str, raw: &[(usize, u8)], edits: &[usize]) -> usize {
    to.reserve(text.len() + 8 * edits.len());
    let mut raw = raw.iter().peekable();
    let (mut from, mut invisible) = (0, 0);
    for at in edits {
        let Some(c) = text[*at..].chars().next() else { continue };
        to.push_str(&text[from..*at]);
        match raw.next_if(|(offset, _)| offset == at) {
            Some((_, byte)) => escape::push_byte(to, *byte),
            None => escape::push(to, c),
        }
        invisible += usize::from(is_invisible(c));
        from = at + c.len_utf8();
    }
    to.push_str(&text[from..]);
    invisible
}

/// Whether a delimiter can be found at all: one of blanks alone can't.
pub fn delimits(delimiter: &str) -> bool {
    Needle::of(delimiter).iter().any(|needle| !needle.bytes.is_empty())
}

/// Offsets of the characters to escape, in order, each once.
pub(super) fn edits(text: &str, raw: &[(usize, u8)], delimiters: &[String]) -> Vec<usize> {
    let mut edits = invisible_and_escapes(text);
    edits.extend(raw.iter().map(|(at, _)| *at));
    edits.extend(tokens::find(text));
    let needles: Vec<Needle> = delimiters.iter().flat_map(|name| Needle::of(name)).collect();
    let (bare, worded): (Vec<Needle>, Vec<Needle>) =
        needles.into_iter().partition(|needle| needle.prefixes);
    let longest = needles_reach(&bare).max(needles_reach(&worded)).max(LONGEST_MARKER);
    let plain = Stream::of(text, false);
    for stream in plain.decoded(text, false, longest).iter().chain([&plain]) {
        edits.extend(stream.markers());
        edits.extend(stream.delimiters(&worded));
    }
    if !bare.is_empty() {
        let plain = Stream::of(text, true);
        for stream in plain.decoded(text, true, longest).iter().chain([&plain]) {
            edits.extend(stream.delimiters(&bare));
        }
    }
    // Each part is in order already; a stable sort merges such runs in linear time.
    edits.sort();
    edits.dedup();
    edits
}

fn needles_reach(needles: &[Needle]) -> usize {
    needles.iter().map(|needle| needle.bytes.len()).max().unwrap_or(0)
}

fn invisible_and_escapes(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'<' if escape::is_like(&bytes[at..]) => found.push(at),
            b'\n' | b'\t' | b' '..=b'~' => {}
            0..=0x7f => found.push(at),
            _ if escape::is_stand_in(&bytes[at..]) => at += escape::STAND_IN.len_utf8() - 1,
            _ => {
                let Some(c) = text[at..].chars().next() else { break };
                if is_invisible(c) {
                    found.push(at);
                }
                at += c.len_utf8();
                continue;
            }
        }
        at += 1;
    }
    found
}
