//! The folded stream of a text, and the markers and block delimiters that can be read in it.
//!
//! Lives here: folding a text with white space, invisible characters and line prefixes left out, so
//! that a marker is found however it is spelt, spaced or split over lines. Never here: edits.

use std::ops::Range;
use std::sync::OnceLock;

use bstr::{ByteSlice, Finder};

use super::escape;
use super::fold::{Glyph, ascii_glyph, glyph};
use super::spelt::{self, Spelt};

/// ASCII classes of a text, each with the byte offset of the character it came from.
pub(super) struct Stream {
    bytes: Vec<u8>,
    at: Vec<u32>,
}

/// Characters that begin lines without being part of what they say: diff signs, quotes, comments.
const LINE_PREFIX: [char; 8] = ['+', '-', '>', '|', '#', '*', '/', ';'];

/// Where in a line a folding stands.
struct Line {
    /// Nothing but blanks and prefixes came yet.
    begins: bool,
    /// Whether prefixes count.
    prefixes: bool,
}

/// Stands between parts that are read one after the other, and in no text that is folded.
const BETWEEN: &[u8] = b"\x01";

/// The longest words between a marker's brackets and `UNTRUSTED`, in folded bytes.
const LONGEST_WORD: usize = 24;

/// The most brackets of one marker that are escaped; those further off stay, they open nothing.
const MOST_BRACKETS: usize = 8;

/// The longest delimiter that is looked for, in folded bytes.
const LONGEST: usize = 256;

/// The longest marker, in folded bytes: brackets, a word, `end`, `untrusted`, `id=`.
pub(super) const LONGEST_MARKER: usize = MOST_BRACKETS + LONGEST_WORD + 3 + 9 + 3;

impl Stream {
    /// Folds `text` as it stands, where only brackets count that are spelt out. `prefixes` says whether the signs that
    /// begin a line are kept.
    pub(super) fn of(text: &str, prefixes: bool) -> Self {
        let mut stream = Self::with_room(text.len());
        stream.read(text, 0..text.len(), prefixes, spelt::bracket);
        stream
    }

    /// The same of `text` as readers take it who decode what is spelt out in one way, and who decode all of it; as far as a
    /// structure of up to `longest` folded bytes can hold some of that. Each reading counts: `&#x4END` is a letter and `ND`
    /// to some, and `END` to others.
    pub(super) fn decoded(&self, text: &str, prefixes: bool, longest: usize) -> Vec<Self> {
        let way = |begins| self.decoded_from(begins, text, prefixes, longest);
        let mut all: Vec<Self> = spelt::WAYS.into_iter().filter_map(way).collect();
        // Who decodes in one way alone reads what those read who decode all.
        if all.len() > 1 {
            all.extend(way(spelt::ALL));
        }
        all
    }

    /// A reading that decodes what begins with one of these bytes; nothing where nothing does.
    fn decoded_from(
        &self,
        begins: &[u8],
        text: &str,
        prefixes: bool,
        longest: usize,
    ) -> Option<Self> {
        let windows = self.around_spelt(begins, text.as_bytes(), longest);
        let last = windows.last()?.end;
        let mut stream = Self::with_room(windows.iter().map(Range::len).sum());
        for window in windows {
            stream.push(BETWEEN, window.start);
            stream.read(text, window, prefixes, |bytes| match begins.contains(&bytes[0]) {
                true => spelt::spelt_out(bytes),
                // It is one in the other ways of reading, too.
                false => spelt::bracket(bytes),
            });
        }
        if last < text.len() {
            stream.push(BETWEEN, last);
        }
        Some(stream)
    }

    /// The parts of a text, by offsets of characters, that hold something spelt out with `reach` folded bytes on both
    /// sides.
    fn around_spelt(&self, begins: &[u8], bytes: &[u8], reach: usize) -> Vec<Range<usize>> {
        let mut windows: Vec<Range<usize>> = Vec::new();
        let (mut from, mut index) = (0, 0);
        while let Some(found) = bytes.get(from..).and_then(|rest| rest.find_byteset(begins)) {
            let at = from + found;
            from = at + 1;
            let Some((_, length)) = spelt::spelt_out(&bytes[at..]) else { continue };
            from = at + length;
            let behind = |index: usize, offset: usize| {
                let rest = self.at.get(index..).unwrap_or_default();
                index + rest.iter().take_while(|at| (**at as usize) < offset).count()
            };
            index = behind(index, at);
            let start = index.checked_sub(reach).map_or(0, |index| self.offset(index));
            let end = self.at.get(behind(index, from) + reach);
            let end = end.map_or(bytes.len(), |end| (*end as usize).max(from));
            match windows.last_mut().filter(|last| start <= last.end) {
                Some(last) => last.end = last.end.max(end),
                None => windows.push(start..end),
            }
        }
        windows
    }

    fn with_room(length: usize) -> Self {
        Self { bytes: Vec::with_capacity(length), at: Vec::with_capacity(length) }
    }

    #[inline]
    fn read(
        &mut self,
        text: &str,
        part: Range<usize>,
        prefixes: bool,
        spelt_out: impl Fn(&[u8]) -> Option<(Spelt, usize)>,
    ) {
        let (bytes, quick) = (text.as_bytes().get(..part.end).unwrap_or_default(), quick());
        // A part begins with something that is read, behind which no line begins.
        let mut line = Line { begins: part.start == 0, prefixes };
        let mut at = part.start;
        while let Some(byte) = bytes.get(at) {
            let class = quick[usize::from(*byte)];
            if class != 0 && !line.begins {
                self.push_one(class, at);
                at += 1;
                continue;
            }
            if spelt::begins(*byte)
                && let Some((spelt, length)) = spelt_out(&bytes[at..])
            {
                spelt.chars().for_each(|c| self.take(glyph(c), c, at, &mut line));
                at += length;
                continue;
            }
            let (glyph, c) = match byte {
                0..=0x7f => (ascii_glyph(*byte), char::from(*byte)),
                _ if escape::is_stand_in(&bytes[at..]) => {
                    at += escape::STAND_IN.len_utf8();
                    continue;
                }
                _ => {
                    let Some(c) = text[at..].chars().next() else { break };
                    (glyph(c), c)
                }
            };
            self.take(glyph, c, at, &mut line);
            at += c.len_utf8();
        }
    }

    /// Takes in a character that stands, or begins to be spelt out, at an offset.
    #[inline]
    fn take(&mut self, glyph: Glyph, c: char, at: usize, line: &mut Line) {
        match glyph {
            Glyph::Line => line.begins = true,
            Glyph::Space | Glyph::Nothing => {}
            Glyph::Text(_) if line.begins && !line.prefixes && LINE_PREFIX.contains(&c) => {}
            Glyph::Text(classes) => {
                line.begins = false;
                self.push(classes.as_bytes(), at);
            }
            Glyph::Foreign => {
                line.begins = false;
                self.push(b"\0", at);
            }
        }
    }

    fn push(&mut self, classes: &[u8], at: usize) {
        classes.iter().for_each(|class| self.push_one(*class, at));
    }

    fn push_one(&mut self, class: u8, at: usize) {
        self.bytes.push(class);
        self.at.push(u32::try_from(at).unwrap_or(u32::MAX));
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
        let other = before
            .iter()
            .rev()
            .take(LONGEST_WORD)
            .take_while(|byte| !b"<\x01".contains(*byte))
            .count();
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

/// The class of every byte that has one of a single byte and can begin nothing spelt out; 0 for the others.
fn quick() -> &'static [u8; 256] {
    static TABLE: OnceLock<[u8; 256]> = OnceLock::new();
    TABLE.get_or_init(|| {
        std::array::from_fn(|code| match ascii_glyph(code as u8) {
            Glyph::Text(class) if class.len() == 1 && !spelt::begins(code as u8) => {
                class.as_bytes().first().copied().unwrap_or(0)
            }
            _ => 0,
        })
    })
}

/// How many brackets `bytes` ends with, at most [`MOST_BRACKETS`].
fn trailing_brackets(bytes: &[u8]) -> usize {
    bytes.iter().rev().take(MOST_BRACKETS).take_while(|byte| **byte == b'<').count()
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
