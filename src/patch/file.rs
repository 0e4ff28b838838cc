//! The parsed form of a diff: files, hunks and lines, as plain data.
//!
//! Never here: reading text (see `section`) or changing files (see `apply`).

use super::binary::BinaryPatch;
use super::chunks::Chunk;
use crate::model::{ChangeKind, Repair};

/// A whole diff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub(super) files: Vec<FilePatch>,
    pub(super) repairs: Vec<Repair>,
    /// Every line of the diff ended in CR LF; the parsed lines are without the CR.
    pub(super) crlf: bool,
    /// The diff came in several fenced blocks.
    pub(super) several: bool,
}

impl Patch {
    /// The files, in the order of the diff.
    pub fn files(&self) -> &[FilePatch] {
        &self.files
    }

    /// What was mended in the diff's form so far. Admission may add to it, when a mend needs the base.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }
}

/// What kind of line a hunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// In the old and the new file.
    Context,
    /// In the old file only.
    Remove,
    /// In the new file only.
    Add,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it belongs.
    pub kind: LineKind,
    /// Its bytes with the line feed, if it has one.
    pub text: Vec<u8>,
}

/// A run of changed lines with its context. Numbers are as the header has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The first line in the old file, from 1; the line before it when there are no old lines.
    pub old_start: usize,
    /// The first line in the new file, from 1; the line before it when there are no new lines.
    pub new_start: usize,
    /// What stands after the second `@@`, without the space before it.
    pub heading: Vec<u8>,
    /// The lines.
    pub lines: Vec<Line>,
    /// How far the header's counts can be trusted.
    pub(super) counts: Counts,
}

/// How the counts of a hunk's header relate to its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counts {
    /// They are right.
    #[default]
    Right,
    /// They were wrong and the lines were counted anew.
    Recounted,
    /// The header counts this many more lines on both sides: blank context lines at the end were
    /// lost, or (unless the diff may be cut off here) the counts are wrong.
    Padded { lines: usize, cut: bool },
    /// The lines go on after the counts are used up; git would read only that many of them.
    Overrun(usize),
}

impl Hunk {
    /// The lines of the old file, in order.
    pub(super) fn old(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.kind != LineKind::Add).map(|line| &line.text[..])
    }

    /// The lines of the new file, in order.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.kind != LineKind::Remove).map(|line| &line.text[..])
    }

    /// How many lines the old file has here.
    pub fn old_count(&self) -> usize {
        self.old().count()
    }

    /// How many lines the new file has here.
    pub fn new_count(&self) -> usize {
        self.new_lines().count()
    }

    /// Whether it has no context at all, so that nothing but its numbers shows its place.
    pub(super) fn is_bare(&self) -> bool {
        self.leading() == 0 && self.trailing() == 0
    }

    /// Context lines before the first change.
    pub(super) fn leading(&self) -> usize {
        self.lines.iter().take_while(|line| line.kind == LineKind::Context).count()
    }

    /// Context lines after the last change.
    pub(super) fn trailing(&self) -> usize {
        self.lines.iter().rev().take_while(|line| line.kind == LineKind::Context).count()
    }
}

/// What a section holds for the contents of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing: the contents stay as they are (or are empty, for a new file).
    None,
    /// Hunks of a unified diff.
    Hunks(Vec<Hunk>),
    /// Chunks of an `apply_patch` envelope, found by their text.
    Chunks(Vec<Chunk>),
    /// The whole new contents, from an envelope.
    Whole(Vec<u8>),
    /// A git binary patch.
    Binary(BinaryPatch),
}

/// The `a/` and `b/` before paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// They were there and are cut off.
    Stripped,
    /// Something else stands there, or nothing: the base must tell.
    Unknown,
    /// There is none: the path has one component, or another line shows it.
    Bare,
    /// There is none in a path of one component, in a section without `diff --git`: git takes it, and the
    /// paths of all later sections, as they are.
    Single,
    /// Lines that never have one (`rename from`) name the path.
    Named,
}

/// The blob ids of an `index` line, as abbreviated there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub old: String,
    pub new: String,
}

/// What a diff does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    pub(super) old_path: Option<Vec<u8>>,
    pub(super) new_path: Option<Vec<u8>>,
    pub(super) change: ChangeKind,
    pub(super) old_mode: Option<u32>,
    pub(super) new_mode: Option<u32>,
    pub(super) index: Option<Index>,
    pub(super) body: Body,
    pub(super) prefix: Prefix,
    /// A diff without a git header that may make the file, if it is not there.
    pub(super) may_create: bool,
}

impl FilePatch {
    /// The path before the change; none for a new file.
    pub fn old_path(&self) -> Option<&[u8]> {
        self.old_path.as_deref()
    }

    /// The path after the change; none for a deletion.
    pub fn new_path(&self) -> Option<&[u8]> {
        self.new_path.as_deref()
    }

    /// What happens to the file.
    pub fn change(&self) -> ChangeKind {
        self.change
    }

    /// The path that a reader looks for: the new one, else the old one.
    pub fn path(&self) -> &[u8] {
        self.new_path().or(self.old_path()).unwrap_or_default()
    }

    /// The mode after the change, if the diff names one.
    pub fn new_mode(&self) -> Option<u32> {
        self.new_mode
    }

    /// The hunks, when the file is changed by hunks.
    pub fn hunks(&self) -> &[Hunk] {
        match &self.body {
            Body::Hunks(hunks) => hunks,
            _ => &[],
        }
    }

    /// Lines that the diff adds and removes.
    pub fn counts(&self) -> (u32, u32) {
        let (added, removed) = match &self.body {
            Body::Hunks(hunks) => count(hunks.iter().flat_map(|hunk| &hunk.lines)),
            Body::Chunks(chunks) => count(chunks.iter().flat_map(|chunk| &chunk.lines)),
            Body::Whole(bytes) => (bytes.iter().filter(|&&byte| byte == b'\n').count(), 0),
            Body::None | Body::Binary(_) => (0, 0),
        };
        (u32::try_from(added).unwrap_or(u32::MAX), u32::try_from(removed).unwrap_or(u32::MAX))
    }

    /// The lines that the diff adds, for whoever looks at new text.
    pub(super) fn added_lines(&self) -> Vec<&[u8]> {
        match &self.body {
            Body::Hunks(hunks) => added(hunks.iter().flat_map(|hunk| &hunk.lines)),
            Body::Chunks(chunks) => added(chunks.iter().flat_map(|chunk| &chunk.lines)),
            Body::Whole(bytes) => bytes.split_inclusive(|&byte| byte == b'\n').collect(),
            Body::None | Body::Binary(_) => Vec::new(),
        }
    }
}

fn count<'a>(lines: impl Iterator<Item = &'a Line>) -> (usize, usize) {
    lines.fold((0, 0), |(added, removed), line| match line.kind {
        LineKind::Context => (added, removed),
        LineKind::Add => (added + 1, removed),
        LineKind::Remove => (added, removed + 1),
    })
}

fn added<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<&'a [u8]> {
    lines.filter(|line| line.kind == LineKind::Add).map(|line| &line.text[..]).collect()
}
