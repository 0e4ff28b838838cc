//! A position in the lines of a document, and which lines end a section.
//!
//! Never here: what a section means.

use super::bytes::RawLine;
use crate::model::Repair;

/// A position in the lines of a document.
pub(super) struct Cursor<'a> {
    lines: &'a [RawLine<'a>],
    at: usize,
    /// What was mended so far.
    pub(super) repairs: Vec<Repair>,
    /// The section being read has a `diff --git` header.
    pub(super) in_git_section: bool,
    /// The most bytes that a binary section may unpack to.
    pub(super) max_binary: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first line.
    pub(super) fn new(lines: &'a [RawLine<'a>], max_binary: usize) -> Self {
        Self { lines, at: 0, repairs: Vec::new(), in_git_section: false, max_binary }
    }

    /// Whether the end is reached.
    pub(super) fn done(&self) -> bool {
        self.at >= self.lines.len()
    }

    /// The current line, empty at the end.
    pub(super) fn text(&self) -> &'a [u8] {
        self.peek(self.at).unwrap_or_default()
    }

    /// The line at an index.
    pub(super) fn peek(&self, at: usize) -> Option<&'a [u8]> {
        self.lines.get(at).map(|line| line.text)
    }

    /// All lines of the document.
    pub(super) fn lines(&self) -> &'a [RawLine<'a>] {
        self.lines
    }

    /// The index of the current line.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The number of the current line, from 1.
    pub(super) fn number(&self) -> usize {
        self.at + 1
    }

    /// Goes on by one line.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Goes on to an index.
    pub(super) fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Whether a line feed ends the whole document.
    pub(super) fn ends_whole(&self) -> bool {
        self.lines.last().is_some_and(|line| line.ended)
    }

    /// Whether the last line is git's note on a missing newline, which needs none itself.
    pub(super) fn ends_in_note(&self) -> bool {
        self.lines.last().is_some_and(|line| line.text.starts_with(b"\\ "))
    }

    /// Whether the line there says that the line before it has no newline. Git takes any translation of at
    /// least 12 bytes with the line's end, and wants a byte more where the diff ends with it.
    pub(super) fn is_no_newline(&self, at: usize) -> bool {
        let Some(line) = self.lines.get(at) else { return false };
        let length = line.text.len() + usize::from(line.ended);
        let is_last = at + 1 == self.lines.len();
        line.text.starts_with(b"\\ ") && length >= 12 + usize::from(is_last)
    }

    /// Notes a repair, once for each code.
    pub(super) fn repair(&mut self, code: &str, detail: &str) {
        if self.repairs.iter().all(|repair| repair.code != code) {
            self.repairs.push(Repair { code: code.to_owned(), detail: detail.to_owned() });
        }
    }

    /// Whether a line starts something else than a hunk's line.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        let Some(text) = self.peek(at) else { return true };
        text.starts_with(b"diff --git ")
            || text.starts_with(b"diff -")
            || text.starts_with(b"@@")
            || text.starts_with(b"Index: ")
            || is_mail_start(text)
            || fence(text).is_some()
            || self.is_signature(at)
    }

    /// Whether a mail signature (`-- `, then a version) stands there.
    pub(super) fn is_signature(&self, at: usize) -> bool {
        let marker = matches!(self.peek(at), Some(b"-- " | b"--"));
        let after = self.peek(at + 1).unwrap_or_default();
        marker && !matches!(after.first(), Some(b' ' | b'+' | b'-' | b'\\' | b'@'))
    }

    /// Whether a `---`, a `+++` and a `@@` line follow each other there.
    pub(super) fn is_plain_header(&self, at: usize) -> bool {
        let starts =
            |offset, with: &[u8]| self.peek(at + offset).is_some_and(|text| text.starts_with(with));
        starts(0, b"--- ") && starts(1, b"+++ ") && starts(2, b"@@")
    }
}

/// A Markdown fence at the start of a line: its character and length.
pub(super) fn fence(text: &[u8]) -> Option<(u8, usize)> {
    let first = *text.first().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = text.iter().take_while(|byte| **byte == first).count();
    (length >= 3 && !text[length..].contains(&first)).then_some((first, length))
}

/// The first line of a mail of `git format-patch`.
pub(super) fn is_mail_start(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"From ") else { return false };
    let id = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    matches!(id, 40 | 64) && rest.get(id) == Some(&b' ')
}
