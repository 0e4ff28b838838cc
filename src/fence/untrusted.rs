//! Foreign text with the name of what it is.
//!
//! Lives here: the type and the rules for its label. Never here: fences.

use super::boundary::Boundary;
use super::escape;
use super::neutral::edits;

/// The longest label, in bytes.
const LONGEST_LABEL: usize = 64;

/// Text that others wrote. It can only be shown to a model through a [`Fencer`](super::Fencer).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Untrusted {
    label: String,
    body: String,
    /// Where U+FFFD stands in the body for a byte that is no UTF-8, in order.
    raw: Vec<(usize, u8)>,
}

impl Untrusted {
    /// Foreign text at one of the known boundaries; `which` tells two of a kind apart (`FIRST`), or
    /// is empty.
    pub fn at(boundary: Boundary, which: &str, body: impl Into<String>) -> Self {
        Self::new(&format!("{} {which}", boundary.label()), body)
    }

    /// Foreign text under a free label, for the command that fences standard input. The label is
    /// foreign itself: it is brought to at most 64 characters of `[A-Za-z0-9 ._/-]`.
    pub fn new(label: &str, body: impl Into<String>) -> Self {
        Self { label: clean(label), body: body.into(), raw: Vec::new() }
    }

    /// The same for bytes: each one that is no UTF-8 is shown as an escape of its own and can be read
    /// back.
    pub fn bytes(label: &str, bytes: &[u8]) -> Self {
        let (mut body, mut raw) = (String::with_capacity(bytes.len()), Vec::new());
        for chunk in bytes.utf8_chunks() {
            body.push_str(chunk.valid());
            for byte in chunk.invalid() {
                raw.push((body.len(), *byte));
                body.push(escape::STAND_IN);
            }
        }
        Self { label: clean(label), body, raw }
    }

    /// What it is.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The text as its author wrote it, with U+FFFD for each byte that is no UTF-8.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Where those bytes are, and which.
    pub(super) fn raw(&self) -> &[(usize, u8)] {
        &self.raw
    }

    /// The same text under its label with `suffix` behind it.
    pub(crate) fn relabelled(&self, suffix: &str) -> Self {
        let room = LONGEST_LABEL.saturating_sub(suffix.len() + 1);
        let label = self.label.get(..self.label.len().min(room)).unwrap_or_default();
        Self {
            label: clean(&format!("{label} {suffix}")),
            body: self.body.clone(),
            raw: self.raw.clone(),
        }
    }
}

/// Other characters become `_`, white space is collapsed, the end is cut.
fn clean(label: &str) -> String {
    let words: Vec<&str> = label.split_whitespace().collect();
    let keep = |c: char| if c.is_ascii_alphanumeric() || " ._/-".contains(c) { c } else { '_' };
    let cleaned: String = words.join(" ").chars().map(keep).take(LONGEST_LABEL).collect();
    let cleaned = cleaned.trim();
    if cleaned.is_empty() { "text".to_owned() } else { cleaned.to_owned() }
}

/// A label in which no block delimiter can be read.
pub(super) fn label_without(label: &str, delimiters: &[String]) -> String {
    let mut label = clean(label);
    for at in edits(&label, &[], delimiters) {
        if label.is_char_boundary(at) && at < label.len() {
            label.replace_range(at..=at, "_");
        }
    }
    label
}
