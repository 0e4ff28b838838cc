//! The folded stream of a text, and the markers and block delimiters that can be read in it.
//!
//! Lives here: folding a text with white space, invisible characters and line prefixes left out, so
//! that a marker is found however it is spelt, spaced or split over lines. Never here: edits.

use std::ops::Range;

use bstr::{ByteSlice, Finder};

use super::fold::{Glyph, ascii_glyph, glyph};

/// ASCII classes of a text, each with the byte offset of the character it came from.
pub(super) struct Stream {
    bytes: Vec<u8>,
    at: Vec<u32>,
}

/// Characters that begin lines without being part of what they say: diff signs, quotes, comments.
const LINE_PREFIX: &[u8] = b"+->|#*/;";

/// The longest words between a marker's brackets and `UNTRUSTED`, in folded bytes.
const LONGEST_WORD: usize = 24;

/// The most brackets of one marker that are escaped; those further off stay, they open nothing.
const MOST_BRACKETS: usize = 8;

/// The longest delimiter that is looked for, in folded bytes.
const LONGEST: usize = 256;

impl Stream {
    /// Folds `text`. `prefixes` says whether the signs that begin a line are kept.
    pub(super) fn of(text: &str, prefixes: bool) -> Self {
        let mut stream =
            Self { bytes: Vec::with_capacity(text.len()), at: Vec::with_capacity(text.len()) };
        let bytes = text.as_bytes();
        let mut line_begins = true;
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if let Some(length) = spelt_out(&bytes[at..]) {
                stream.push(b"<", at);
                (at, line_begins) = (at + length, false);
                continue;
            }
            let (glyph, length) = match byte {
                0..=0x7f => (ascii_glyph(*byte), 1),
                _ => {
                    let Some(c) = text[at..].chars().next() else { break };
                    (glyph(c), c.len_utf8())
                }
            };
            match glyph {
                Glyph::Line => line_begins = true,
                Glyph::Space | Glyph::Nothing => {}
                Glyph::Text(_) if line_begins && !prefixes && LINE_PREFIX.contains(byte) => {}
                Glyph::Text(classes) => {
                    line_begins = false;
                    stream.push(classes.as_bytes(), at);
                }
                Glyph::Foreign => {
                    line_begins = false;
                    stream.push(b"\0", at);
                }
            }
            at += length;
        }
        stream
    }

    fn push(&mut self, classes: &[u8], at: usize) {
        for class in classes {
            self.bytes.push(*class);
            self.at.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
    }

    fn offset(&self, index: usize) -> usize {
        self.at.get(index).map_or(0, |at| *at as usize)
    }

    /// Offsets of the characters to escape so that no fence marker can be read: every bracket of a
    /// marker and the first letter of its word, and brackets at the very end of the text, which the
    /// fence's own closing line could be taken to complete.
    pub(super) fn markers(&self) -> Vec<usize> {
        let mut found = Vec::new();
        let mut done = 0;
        for word in self.bytes.find_iter("untrusted") {
            if let Some(brackets) = self.brackets_before(done, word) {
                found.extend(brackets.map(|index| self.offset(index)));
                found.push(self.offset(word));
            }
            done = word;
        }
        let length = self.bytes.len();
        found.extend((length - trailing_brackets(&self.bytes)..length).map(|at| self.offset(at)));
        found
    }

    /// The brackets that make the word at `word` a marker, looking back no further than `from`; an
    /// empty range for a bare `END UNTRUSTED id=`; `None` when it is only a word.
    fn brackets_before(&self, from: usize, word: usize) -> Option<Range<usize>> {
        let all = self.bytes.get(from..word)?;
        let before = all.strip_suffix(b"end").unwrap_or(all);
        let of = |before: &[u8]| {
            let end = from + before.len();
            end - trailing_brackets(before)..end
        };
        if of(before).len() >= 2 {
            return Some(of(before));
        }
        // Three brackets and some other word (`<<<CLOSE OF UNTRUSTED`).
        let other =
            before.iter().rev().take(LONGEST_WORD).take_while(|byte| **byte != b'<').count();
        let before_other = of(before.get(..before.len() - other)?);
        if before_other.len() >= 3 {
            return Some(before_other);
        }
        // Folded: `id=`.
        let is_bare = all.len() > before.len()
            && self.bytes.get(word + "untrusted".len()..)?.starts_with(b"ld=");
        is_bare.then_some(word..word)
    }

    /// Offsets of the first characters of every place where one of `needles` can be read, places that
    /// overlap included.
    pub(super) fn delimiters(&self, needles: &[Needle]) -> Vec<usize> {
        let mut found = Vec::new();
        for needle in needles.iter().filter(|needle| (1..=LONGEST).contains(&needle.bytes.len())) {
            let finder = Finder::new(&needle.bytes);
            let mut from = 0;
            while let Some(at) = self.bytes.get(from..).and_then(|rest| finder.find(rest)) {
                found.push(self.offset(from + at));
                from += at + 1;
            }
        }
        found
    }
}

/// How many brackets `bytes` ends with, at most [`MOST_BRACKETS`].
fn trailing_brackets(bytes: &[u8]) -> usize {
    bytes.iter().rev().take(MOST_BRACKETS).take_while(|byte| **byte == b'<').count()
}

/// The length of an entity or escape at the start of `bytes` that stands for `<`.
fn spelt_out(bytes: &[u8]) -> Option<usize> {
    if !matches!(bytes.first(), Some(b'&' | b'\\' | b'%')) {
        return None;
    }
    const FORMS: [&str; 6] = ["&lt;", "&lt", "\\x3c", "\\u003c", "\\u{3c}", "%3c"];
    let head = bytes.get(..bytes.len().min(12)).unwrap_or_default();
    let form = FORMS.iter().find(|form| {
        head.get(..form.len()).is_some_and(|head| head.eq_ignore_ascii_case(form.as_bytes()))
    });
    form.map(|form| form.len()).or_else(|| numbered(head))
}

/// `&#60;`, `&#x3c;` and their forms with leading zeros.
fn numbered(head: &[u8]) -> Option<usize> {
    let text = head.strip_prefix(b"&#")?;
    let hexadecimal = matches!(text.first(), Some(b'x' | b'X'));
    let digits = if hexadecimal { text.get(1..)? } else { text };
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let number = digits.get(zeros..zeros + 2)?;
    let wanted: &[u8] = if hexadecimal { b"3c" } else { b"60" };
    let length = 2 + usize::from(hexadecimal) + zeros + 2;
    let length = length + usize::from(head.get(length) == Some(&b';'));
    number.eq_ignore_ascii_case(wanted).then_some(length)
}

/// A delimiter as it is looked for: folded, white space gone, the rules around its words (`---`,
/// `===`) left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needle {
    /// Folded bytes.
    pub(super) bytes: Vec<u8>,
    /// Whether line prefixes count: true for a delimiter without a letter or digit.
    pub(super) prefixes: bool,
}

impl Needle {
    /// The needles of a delimiter that a caller named. One that names an end (`END MEMORY`) names
    /// the block's begin and its closing tag too.
    pub(super) fn of(delimiter: &str) -> Vec<Self> {
        let folded = Stream::of(delimiter, true).bytes;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == 0;
        if !folded.iter().any(is_word) {
            return vec![Self { bytes: folded, prefixes: true }];
        }
        let is_rule = |byte: &u8| b"-=_*#~+>:".contains(byte);
        let start = folded.iter().take_while(|byte| is_rule(byte)).count();
        let end = folded.iter().rev().take_while(|byte| is_rule(byte)).count();
        let core = folded.get(start..folded.len() - end).unwrap_or_default();
        let mut all = vec![core.to_vec()];
        if let Some(block) = core.strip_prefix(b"end").filter(|block| block.len() > 2) {
            let named = |before: &[u8]| [before, block].concat();
            // Folded: `begin` and `start`.
            all.extend([named(b"begln"), named(b"start"), named(b"</")]);
        }
        all.into_iter().map(|bytes| Self { bytes, prefixes: false }).collect()
    }
}
