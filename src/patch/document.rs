//! The document around a diff: prose, Markdown fences, mails, and where the file sections start.
//!
//! The rule: what git would skip between sections may be skipped here only where it can't hide a second
//! diff. Never here: the inside of a section (see `section`) or of an envelope (see `envelope`).

use super::bytes::{self, RawLine, Source};
use super::cursor::{Cursor, fence, is_mail_start};
use super::envelope;
use super::file::{Body, FilePatch, Patch};
use super::gap::{Gap, Join};
use super::loose;
use super::packed;
use super::refuse::{Detail, refuse};
use super::rules::Rules;
use super::section;
use crate::model::{Refusal, Repair};

/// Reads a diff: git's unified format in all its forms, or an `apply_patch` envelope.
///
/// Paths without a known prefix (`a/`, `b/`) stay as they are written; [`admit`](super::admit) settles
/// them against the base.
pub fn parse(diff: &[u8], rules: &Rules) -> Result<Patch, Refusal> {
    let source = bytes::read(diff, rules)?;
    match packed::unpack(diff)? {
        Some(inner) => {
            let mut patch = read(&bytes::read(inner.as_bytes(), rules)?, rules)?;
            let detail = "the diff was a string of a JSON answer".to_owned();
            patch.repairs.insert(0, Repair { code: "json".to_owned(), detail });
            Ok(patch)
        }
        None => read(&source, rules),
    }
}

fn read(source: &Source<'_>, rules: &Rules) -> Result<Patch, Refusal> {
    refuse_foreign_formats(&source.lines)?;
    let patch = match envelope::find(&source.lines) {
        Some(_) => envelope::parse(source)?,
        None => Document::new(source, rules).read()?,
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
            "the diff changes {changed} lines; at most {} are taken: send a smaller change, or raise `max_lines` in \
             `[patch]`",
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
    /// The document is a mail.
    in_mail: bool,
    /// The number of a line outside the sections that holds a diff as a JSON string.
    packed: Option<usize>,
    /// Sections whose hunks have no line numbers.
    loose: Loose,
}

/// Which sections there are, by what git does with them when it does not read hunks without numbers.
#[derive(Default)]
struct Loose {
    /// It refuses the whole diff.
    refused: bool,
    /// It overlooks the section.
    overlooked: bool,
    /// It reads the section.
    read: bool,
}

impl Loose {
    fn note(&mut self, file: &FilePatch, git: bool) {
        match (&file.body, git) {
            (Body::Chunks(_), true) => self.refused = true,
            (Body::Chunks(_) | Body::Whole(_), _) => self.overlooked = true,
            _ => self.read = true,
        }
    }

    /// A diff that git would read in part has two meanings.
    fn check(&self) -> Result<(), Refusal> {
        match self.overlooked && self.read && !self.refused {
            true => Err(loose::numbers("some files' hunks have line numbers and some have not")),
            false => Ok(()),
        }
    }
}

impl<'a> Document<'a> {
    fn new(source: &'a Source<'a>, rules: &Rules) -> Self {
        let cursor = Cursor::new(&source.lines, rules.max_binary_bytes);
        let in_mail =
            source.lines.iter().find(|line| !line.text.is_empty()).is_some_and(is_mail_header);
        Self {
            cursor,
            mark: source.mark,
            crlf: source.crlf,
            files: Vec::new(),
            gap: Gap::default(),
            fence: None,
            fenced: false,
            several: false,
            in_mail,
            packed: None,
            loose: Loose::default(),
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
        if self.cursor.done() && !self.cursor.ends_whole() && !self.cursor.ends_in_note() {
            self.cursor.repair("final-newline", "the last line of the diff had no line feed");
        }
        if self.mark && start == 0 && !self.survives_mark(&file) {
            return Err(refuse(
                "byte-order-mark",
                "a byte order mark hides the first header: send plain UTF-8",
            ));
        }
        self.fenced = self.fence.is_some();
        self.loose.note(&file, git);
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

    /// A second section must follow the first directly, or in a way that can't hide it.
    fn check_gap(&mut self) -> Result<(), Refusal> {
        let in_fence = self.fence.is_some();
        if self.files.is_empty() {
            if self.gap.prose > 0 && !self.gap.mail {
                self.left_out();
            }
            return Ok(());
        }
        match self.gap.joins(self.fenced, in_fence, self.in_mail) {
            Join::Direct => Ok(()),
            Join::Apart => {
                self.several = true;
                self.left_out();
                Ok(())
            }
            Join::Refused => Err(refuse(
                "several-diffs",
                format!(
                    "line {} starts another diff after other text: send one diff, its files one after \
                     another",
                    self.cursor.number()
                ),
            )),
        }
    }

    fn left_out(&mut self) {
        self.cursor.repair("prose-around", "text around the diff was left out");
    }

    /// Takes a line that belongs to no section.
    fn between(&mut self) -> Result<(), Refusal> {
        let text = self.cursor.text();
        if let Some(found) = fence(text).filter(|_| !self.gap.mail) {
            return self.fence_line(found, text);
        }
        // In the message of a mail, only what git takes for a hunk can be one.
        if text.starts_with(if self.gap.mail { b"@@ -" } else { b"@@" }) {
            return Err(refuse("no-file-header", "a hunk has no `---` and `+++` lines before it")
                .found(text));
        }
        if text.is_empty() {
            self.gap.blank += 1;
        } else if is_mail_start(text) {
            self.check_stray()?;
            self.in_mail = true;
            self.gap = Gap::of_mail();
            self.cursor.repair("mail", "the text of a mail around the diff was left out");
        } else if !is_furniture(text) {
            if !self.gap.mail && packed::is_in(text) {
                self.packed.get_or_insert(self.cursor.number());
            }
            self.gap.prose(&self.cursor);
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
            Some(_) => self.gap.prose(&self.cursor),
            None => {
                self.fence = Some(found);
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
            return Err(packed::missing(self.cursor.lines()));
        }
        if let Some(line) = self.packed {
            return Err(packed::beside(line));
        }
        self.loose.check()?;
        // What follows a closed fence is prose, whatever its lines start with.
        if !self.gap.closed {
            self.check_stray()?;
        }
        if self.gap.prose > 0 && !(self.in_mail && self.gap.is_signature()) {
            self.left_out();
        }
        if self.mark {
            self.cursor
                .repair("byte-order-mark", "a byte order mark before the diff was taken off");
        }
        let Self { cursor, files, crlf, several, .. } = self;
        Ok(Patch { files, repairs: cursor.repairs, crlf, several })
    }
}

/// Lines that other tools write before a file's header.
fn is_furniture(text: &[u8]) -> bool {
    let ruler = text.len() >= 20 && text.iter().all(|byte| *byte == b'=');
    ruler
        || text.starts_with(b"Index: ")
        || (text.starts_with(b"diff -") && !text.starts_with(b"diff --"))
}

/// The first line of a mail, or a header that mails start with.
fn is_mail_header(line: &RawLine<'_>) -> bool {
    let headers = [&b"Subject: "[..], b"From: ", b"Date: ", b"To: ", b"Message-I"];
    is_mail_start(line.text) || headers.iter().any(|header| line.text.starts_with(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    const SECOND: &str = "--- a/y\n+++ b/y\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

    fn read(diff: &str) -> Result<(usize, Vec<String>), String> {
        let patch = parse(diff.as_bytes(), &Rules::default()).map_err(|refusal| refusal.code)?;
        Ok((patch.files.len(), patch.repairs.into_iter().map(|repair| repair.code).collect()))
    }

    fn codes(codes: &[&str]) -> Vec<String> {
        codes.iter().map(|code| (*code).to_owned()).collect()
    }

    #[test]
    fn files_follow_each_other() {
        assert_eq!(read(&format!("{FIRST}{SECOND}")), Ok((2, codes(&[]))));
        assert_eq!(read(&format!("{FIRST}\n\n{SECOND}")), Ok((2, codes(&[]))));
        assert_eq!(read(&format!("{FIRST}{FIRST}")), Err("path-twice".into()));
        let furniture = format!("Index: x\n{}\n{FIRST}diff -u a/y b/y\n{SECOND}", "=".repeat(67));
        assert_eq!(read(&furniture), Ok((2, codes(&[]))));
    }

    #[test]
    fn fences_and_prose_are_taken_off() {
        let fenced = format!("Here:\n\n```diff\n{FIRST}```\n- note\n");
        assert_eq!(read(&fenced), Ok((1, codes(&["markdown-fence", "prose-around"]))));
        let longer = format!("````\n{FIRST}````\n");
        assert_eq!(read(&longer), Ok((1, codes(&["markdown-fence"]))));
        let two = format!("```diff\n{FIRST}```\nand\n```diff\n{SECOND}```\n");
        assert_eq!(read(&two).unwrap().0, 2);
        let choice = two.replace("and", "Alternatively:");
        assert_eq!(read(&choice), Err("several-diffs".into()));
    }

    #[test]
    fn a_second_diff_can_not_hide() {
        let far = format!("{FIRST}{}{SECOND}", "\n".repeat(21));
        assert_eq!(read(&far), Err("several-diffs".into()));
        let outside = format!("```diff\n{FIRST}```\n{SECOND}");
        assert_eq!(read(&outside), Err("several-diffs".into()));
        let signed = format!("{FIRST}-- \nsomeone\n{SECOND}");
        assert_eq!(read(&signed), Err("several-diffs".into()));
        let message = format!("Subject: x\n\n{FIRST}\ntext\n{SECOND}");
        assert_eq!(read(&message), Err("several-diffs".into()));
        let long = format!("{FIRST}\n{}{SECOND}", "text\n".repeat(6));
        assert_eq!(read(&long), Err("several-diffs".into()));
    }

    #[test]
    fn noise_of_a_tool_between_files_is_skipped() {
        let noise = format!("{FIRST}\nNo changes detected\n{SECOND}");
        let patch = parse(noise.as_bytes(), &Rules::default()).unwrap();
        assert!(patch.several && patch.files.len() == 2);
    }

    #[test]
    fn mails_are_read_one_after_another() {
        let mail = |diff: &str| {
            format!(
                "From {} Mon Sep 17 00:00:00 2001\nSubject: x\n\n```\n@@text\n---\n x | 2 +-\n\n{diff}-- \n2.47.3\n\n",
                "1".repeat(40)
            )
        };
        let both = format!("{}{}", mail(FIRST), mail(SECOND));
        assert_eq!(read(&both), Ok((2, codes(&["mail"]))));
    }

    #[test]
    fn changes_outside_hunks_are_not_lost_in_silence() {
        assert_eq!(read(&format!("{FIRST}\n+lost\n")), Err("stray-lines".into()));
        let mail = format!("From {} Mon Sep 17 00:00:00 2001\n", "1".repeat(40));
        assert_eq!(read(&format!("{FIRST}\n+lost\n{mail}")), Err("stray-lines".into()));
        assert_eq!(read("@@ -1 +1 @@\n-a\n+b\n"), Err("no-file-header".into()));
        assert_eq!(read("--- a/x\n+++ b/x\ntext\n"), Err("no-hunks".into()));
        assert_eq!(read("just text\n"), Err("not-a-diff".into()));
        assert_eq!(read("diff --cc x\n"), Err("combined-diff".into()));
        assert_eq!(read("*** a/x\n--- b/x\n***************\n"), Err("context-diff".into()));
    }

    #[test]
    fn limits_hold() {
        let few = Rules { max_files: 1, ..Rules::default() };
        let both = format!("{FIRST}{SECOND}");
        assert_eq!(parse(both.as_bytes(), &few).unwrap_err().code, "too-many-files");
        let short = Rules { max_changed_lines: 1, ..Rules::default() };
        assert_eq!(parse(FIRST.as_bytes(), &short).unwrap_err().code, "too-many-lines");
    }

    #[test]
    fn a_byte_order_mark_goes_only_where_it_hides_nothing() {
        assert_eq!(read(&format!("\u{feff}{FIRST}")), Ok((1, codes(&["byte-order-mark"]))));
        let mode = "\u{feff}diff --git a/x b/x\nold mode 100644\nnew mode 100755\n";
        assert_eq!(read(mode), Err("byte-order-mark".into()));
    }
}
