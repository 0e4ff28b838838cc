//! Neutralising: the smallest edits after which nothing in a text can pass for structure.
//!
//! Lives here: the list of characters to escape, and the text with them escaped. Everything else
//! stays byte for byte. Never here: the fence's own lines.

use super::escape;
use super::fold::is_invisible;
use super::stream::{Needle, Stream};
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
    neutralise_raw(text, &[], delimiters)
}

/// The same for a text in which, at these offsets, U+FFFD stands for a byte that is no UTF-8.
pub(super) fn neutralise_raw(text: &str, raw: &[(usize, u8)], delimiters: &[String]) -> Neutral {
    let edits = edits(text, raw, delimiters);
    let mut raw = raw.iter().peekable();
    let mut neutral =
        Neutral { text: String::with_capacity(text.len() + 8 * edits.len()), ..Neutral::default() };
    let mut from = 0;
    for at in &edits {
        let Some(c) = text[*at..].chars().next() else { continue };
        neutral.text.push_str(&text[from..*at]);
        match raw.next_if(|(offset, _)| offset == at) {
            Some((_, byte)) => escape::push_byte(&mut neutral.text, *byte),
            None => escape::push(&mut neutral.text, c),
        }
        neutral.invisible += usize::from(is_invisible(c));
        from = at + c.len_utf8();
    }
    neutral.text.push_str(&text[from..]);
    neutral.edits = edits;
    neutral
}

/// Offsets of the characters to escape, in order, each once.
pub(super) fn edits(text: &str, raw: &[(usize, u8)], delimiters: &[String]) -> Vec<usize> {
    let mut edits = invisible_and_escapes(text);
    edits.extend(raw.iter().map(|(at, _)| *at));
    edits.extend(tokens::find(text));
    let stream = Stream::of(text, false);
    edits.extend(stream.markers());
    let needles: Vec<Needle> = delimiters.iter().flat_map(|name| Needle::of(name)).collect();
    let (bare, worded): (Vec<Needle>, Vec<Needle>) =
        needles.into_iter().partition(|needle| needle.prefixes);
    edits.extend(stream.delimiters(&worded));
    if !bare.is_empty() {
        edits.extend(Stream::of(text, true).delimiters(&bare));
    }
    // Each part is in order already; a stable sort merges such runs in linear time.
    edits.sort();
    edits.dedup();
    edits
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
