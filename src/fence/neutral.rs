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
    let edits = edits(text, delimiters);
    let mut neutral =
        Neutral { text: String::with_capacity(text.len() + 8 * edits.len()), ..Neutral::default() };
    let mut from = 0;
    for at in &edits {
        let Some(c) = text[*at..].chars().next() else { continue };
        neutral.text.push_str(&text[from..*at]);
        escape::push(&mut neutral.text, c);
        neutral.invisible += usize::from(is_invisible(c));
        from = at + c.len_utf8();
    }
    neutral.text.push_str(&text[from..]);
    neutral.edits = edits;
    neutral
}

/// Offsets of the characters to escape, in order, each once.
pub(super) fn edits(text: &str, delimiters: &[String]) -> Vec<usize> {
    let mut edits = invisible_and_escapes(text);
    edits.extend(tokens::find(text));
    let stream = Stream::of(text, false);
    edits.extend(stream.markers());
    let needles: Vec<Needle> = delimiters.iter().flat_map(|name| Needle::of(name)).collect();
    let with_prefixes =
        needles.iter().any(|needle| needle.prefixes).then(|| Stream::of(text, true));
    for needle in &needles {
        let stream = with_prefixes.as_ref().filter(|_| needle.prefixes).unwrap_or(&stream);
        edits.extend(stream.delimiter(&needle.bytes));
    }
    edits.sort_unstable();
    edits.dedup();
    edits
}

fn invisible_and_escapes(text: &str) -> Vec<usize> {
    let is_hit = |at: usize, c: char| match c {
        '<' => escape::parse(&text.as_bytes()[at..]).is_some(),
        _ => is_invisible(c),
    };
    text.char_indices().filter(|(at, c)| is_hit(*at, *c)).map(|(at, _)| at).collect()
}
