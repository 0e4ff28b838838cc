//! The document around a diff: prose, Markdown fences, mails, and where the file sections start.
//!
//! The rule: what git would skip between sections may be skipped here only where it can't hide a second
//! diff. Never here: the inside of a section (see `section`) or of an envelope (see `envelope`).

use super::bytes::{self, RawLine, Source};
use super::envelope;
use super::file::{Body, FilePatch, Patch};
use super::refuse::{Detail, refuse};
use super::rules::Rules;
use super::section;
use crate::model::{Refusal, Repair};

/// The most blank lines between two sections.
const MOST_BLANK: usize = 20;

/// Reads a diff: git's unified format in all its forms, or an `apply_patch` envelope.
///
/// Paths without a known prefix (`a/`, `b/`) stay as they are written; [`admit`](super::admit) settles
/// them against the base.
pub fn parse(diff: &[u8], rules: &Rules) -> Result<Patch, Refusal> {
    let source = bytes::read(diff, rules)?;
    refuse_foreign_formats(&source.lines)?;
    let patch = match envelope::find(&source.lines) {
        Some(_) => envelope::parse(&source)?,
        None => Document::new(&source, rules).read()?,
    };
    check_size(&patch, rules)?;
    check_paths_once(&patch)?;
    Ok(patch)
}

fn refuse_foreign_formats(lines: &[RawLine<'_>]) -> Result<(), Refusal> {
    for line in lines {
        let text = line.text;
        if text == b"***************" {
            return Err(refuse("context-diff", "context diffs are not read: use `diff -u`"));
        }
        if text.starts_with(b"diff --cc ") || text.starts_with(b"diff --combined ") {
            return Err(refuse(
                "combined-diff",
                "diffs of merges are not read: diff against one base",
            ));
        }
    }
    Ok(())
}

fn check_size(patch: &Patch, rules: &Rules) -> Result<(), Refusal> {
    if patch.files.len() > rules.max_files {
        let why = format!(
            "the diff changes {} files; at most {} are taken",
            patch.files.len(),
            rules.max_files
        );
        return Err(refuse("too-many-files", why));
    }
    let changed: usize = patch
        .files
        .iter()
        .map(|file| {
            let (added, removed) = file.counts();
            added as usize + removed as usize
        })
        .sum();
    if changed > rules.max_changed_lines {
        let why = format!(
            "the diff changes {changed} lines; at most {} are taken",
            rules.max_changed_lines
        );
        return Err(refuse("too-many-lines", why));
    }
    Ok(())
}

/// Each path is the target of at most one section. A link may take a file's place in two.
pub(super) fn check_paths_once(patch: &Patch) -> Result<(), Refusal> {
    let mut seen = std::collections::HashMap::new();
    for file in &patch.files {
        let Some(before) = seen.insert(file.path(), file) else { continue };
        if !becomes_another_kind(before, file) {
            let why = "the diff has two sections for this file: put all its hunks into one";
            return Err(refuse("path-twice", why).at(file.path()));
        }
    }
    Ok(())
}

/// Git writes a change from a file to a link as a deletion and an addition.
fn becomes_another_kind(before: &FilePatch, after: &FilePatch) -> bool {
    use super::mode::kind;
    match (before.new_path(), before.old_mode, after.old_path(), after.new_mode) {
        (None, Some(old), None, Some(new)) => kind(old) != kind(new),
        _ => false,
    }
}

/// A position in the lines of a document.
pub(super) struct Cursor<'a> {
    lines: &'a [RawLine<'a>],
    at: usize,
    repairs: Vec<Repair>,
    /// The section being read has a `diff --git` header.
    pub(super) in_git_section: bool,
    /// The most bytes that a binary section may unpack to.
    pub(super) max_binary: usize,
}

impl<'a> Cursor<'a> {
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

    /// Notes a repair, once for each code.
    pub(super) fn repair(&mut self, code: &str, detail: &str) {
        note(&mut self.repairs, code, detail);
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

fn note(repairs: &mut Vec<Repair>, code: &str, detail: &str) {
    if repairs.iter().all(|repair| repair.code != code) {
        repairs.push(Repair { code: code.to_owned(), detail: detail.to_owned() });
    }
}

/// What stood between two sections.
#[derive(Default)]
struct Gap {
    blank: usize,
    prose: bool,
    mail: bool,
    closed: bool,
    stray: Option<usize>,
}

struct Document<'a> {
    cursor: Cursor<'a>,
    mark: bool,
    crlf: bool,
    files: Vec<FilePatch>,
    gap: Gap,
    /// The character and length of the open fence.
    fence: Option<(u8, usize)>,
    /// The previous section stood in a fence.
    fenced: bool,
    several: bool,
}

impl<'a> Document<'a> {
    fn new(source: &'a Source<'a>, rules: &Rules) -> Self {
        let cursor = Cursor {
            lines: &source.lines,
            at: 0,
            repairs: Vec::new(),
            in_git_section: false,
            max_binary: rules.max_binary_bytes,
        };
        Self {
            cursor,
            mark: source.mark,
            crlf: source.crlf,
            files: Vec::new(),
            gap: Gap::default(),
            fence: None,
            fenced: false,
            several: false,
        }
    }

    fn read(mut self) -> Result<Patch, Refusal> {
        while !self.cursor.done() {
            let git = self.cursor.text().starts_with(b"diff --git ");
            if git || self.starts_plain()? {
                self.section(git)?;
            } else {
                self.between()?;
                self.cursor.advance();
            }
        }
        self.finish()
    }

    /// Whether a section without a git header starts here.
    fn starts_plain(&self) -> Result<bool, Refusal> {
        let at = self.cursor.at();
        if self.cursor.is_plain_header(at) {
            return Ok(true);
        }
        let text = self.cursor.text();
        let next = self.cursor.peek(at + 1).unwrap_or_default();
        if text.starts_with(b"--- ") && next.starts_with(b"+++ ") {
            return Err(refuse(
                "no-hunks",
                "after the `+++` line there is no hunk (`@@ -1,3 +1,4 @@`)",
            )
            .at(next.get(4..).unwrap_or_default()));
        }
        Ok(false)
    }

    fn section(&mut self, git: bool) -> Result<(), Refusal> {
        self.check_gap()?;
        let start = self.cursor.at();
        self.cursor.in_git_section = git;
        let file = match git {
            true => section::git(&mut self.cursor)?,
            false => section::plain(&mut self.cursor)?,
        };
        if self.cursor.done() && !self.cursor.ends_whole() {
            self.cursor.repair("final-newline", "the last line of the diff had no line feed");
        }
        if self.mark && start == 0 && !self.survives_mark(&file) {
            return Err(refuse(
                "byte-order-mark",
                "a byte order mark hides the first header: send plain UTF-8",
            ));
        }
        self.fenced = self.fence.is_some();
        self.files.push(file);
        self.gap = Gap::default();
        Ok(())
    }

    /// Git does not see a header behind a byte order mark, so that it must not say anything of weight.
    fn survives_mark(&self, file: &FilePatch) -> bool {
        use crate::model::ChangeKind::{Added, Deleted, Modified};
        matches!(file.change, Added | Deleted | Modified)
            && file.new_mode.is_none_or(|mode| mode == super::mode::FILE)
            && matches!(file.body, Body::Hunks(_))
    }

    /// A second section must follow the first directly, or come in a mail or a fence of its own.
    fn check_gap(&mut self) -> Result<(), Refusal> {
        if self.files.is_empty() {
            if self.gap.prose && !self.gap.mail && self.fence.is_none() {
                self.cursor.repair("prose-around", "text around the diff was left out");
            }
            return Ok(());
        }
        let own_fence = self.fenced && self.gap.closed && self.fence.is_some();
        let apart = self.gap.prose || self.gap.closed || self.fenced != self.fence.is_some();
        if self.gap.blank > MOST_BLANK || (apart && !self.gap.mail && !own_fence) {
            return Err(refuse(
                "several-diffs",
                format!(
                    "line {} starts another diff after other text: send one diff, its files one after another",
                    self.cursor.number()
                ),
            ));
        }
        self.several |= own_fence;
        Ok(())
    }

    /// Takes a line that belongs to no section.
    fn between(&mut self) -> Result<(), Refusal> {
        let text = self.cursor.text();
        if let Some(found) = fence(text) {
            return self.fence_line(found, text);
        }
        if text.starts_with(b"@@") {
            return Err(refuse("no-file-header", "a hunk has no `---` and `+++` lines before it")
                .found(text));
        }
        if text.is_empty() {
            self.gap.blank += 1;
        } else if is_mail_start(text) {
            self.gap = Gap { mail: true, ..Gap::default() };
            self.cursor.repair("mail", "the text of a mail around the diff was left out");
        } else if !is_furniture(text) {
            self.gap.prose = true;
            if is_stray(text) && !self.cursor.is_signature(self.cursor.at()) {
                self.gap.stray.get_or_insert(self.cursor.number());
            }
        }
        Ok(())
    }

    fn fence_line(&mut self, found: (u8, usize), text: &[u8]) -> Result<(), Refusal> {
        match self.fence {
            Some(open) if open.0 == found.0 && found.1 >= open.1 && text.len() == found.1 => {
                self.fence = None;
                self.gap.closed = true;
                self.check_stray()?;
                self.gap.stray = None;
            }
            Some(_) => self.gap.prose = true,
            None => {
                self.fence = Some(found);
                if self.files.is_empty() {
                    self.gap.prose = false;
                }
                self.cursor
                    .repair("markdown-fence", "a Markdown fence around the diff was taken off");
            }
        }
        Ok(())
    }

    /// Lines of a diff that belong to no hunk must not get lost in silence.
    fn check_stray(&self) -> Result<(), Refusal> {
        match self.gap.stray {
            Some(line) if !self.files.is_empty() && !self.gap.mail => Err(refuse(
                "stray-lines",
                format!("line {line} of the diff looks like a change but belongs to no hunk"),
            )),
            _ => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Patch, Refusal> {
        if self.files.is_empty() {
            return Err(refuse(
                "not-a-diff",
                "there is no diff in the answer: send git's unified format or a `*** Begin Patch` envelope",
            ));
        }
        // What follows a closed fence is prose, whatever its lines start with.
        if !self.gap.closed {
            self.check_stray()?;
        }
        if self.gap.prose && !self.gap.mail {
            self.cursor.repair("prose-around", "text around the diff was left out");
        }
        if self.mark {
            self.cursor
                .repair("byte-order-mark", "a byte order mark before the diff was taken off");
        }
        let Self { cursor, files, crlf, several, .. } = self;
        Ok(Patch { files, repairs: cursor.repairs, crlf, several })
    }
}

/// A Markdown fence at the start of a line: its character and length.
pub(super) fn fence(text: &[u8]) -> Option<(u8, usize)> {
    let first = *text.first().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = text.iter().take_while(|byte| **byte == first).count();
    (length >= 3 && !text[length..].contains(&first)).then_some((first, length))
}

/// The first line of a mail of `git format-patch`.
fn is_mail_start(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"From ") else { return false };
    let id = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    matches!(id, 40 | 64) && rest.get(id) == Some(&b' ')
}

/// Lines that other tools write before a file's header.
fn is_furniture(text: &[u8]) -> bool {
    let ruler = text.len() >= 20 && text.iter().all(|byte| *byte == b'=');
    ruler
        || text.starts_with(b"Index: ")
        || (text.starts_with(b"diff -") && !text.starts_with(b"diff --"))
}

fn is_stray(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'+' | b'-' | b'\\')) || text == b"GIT binary patch"
}
