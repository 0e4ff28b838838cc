//! One file section of a unified diff: its header and body, checked against each other.
//!
//! Never here: the text between sections (see `document`), or what the base holds (see `admit`).

use super::binary;
use super::cursor::Cursor;
use super::file::{Body, FilePatch, Hunk, Index};
use super::header::{self, Header};
use super::hunks;
use super::loose;
use super::mode;
use super::names::Name;
use super::prefix::{self, Names};
use super::refuse::{Detail, refuse};
use crate::model::{ChangeKind, Refusal};

/// Reads the section that starts at a `diff --git` line.
pub(super) fn git(cursor: &mut Cursor<'_>) -> Result<FilePatch, Refusal> {
    let header = Header::read(cursor)?;
    let names = names_of(&header)?;
    let (path, change) = (names.path().to_vec(), change_of(&header, cursor)?);
    let body = body(cursor, &header).map_err(|refusal| refusal.at(&path))?;
    let file = assemble(header, names, change, body).map_err(|refusal| refusal.at(&path))?;
    check(&file).map_err(|refusal| refusal.at(&path))?;
    Ok(file)
}

/// Reads the section that starts at a `---` line without a git header.
pub(super) fn plain(cursor: &mut Cursor<'_>) -> Result<FilePatch, Refusal> {
    let (minus, plus) = header::read_sides(cursor)?;
    let header = Header { minus, plus, ..Header::default() };
    let mut names = names_of(&header)?;
    let path = names.path().to_vec();
    if loose::is_header(cursor.text()) {
        return loose_plain(cursor, names).map_err(|refusal| refusal.at(&path));
    }
    let hunks = hunks::read(cursor).map_err(|refusal| refusal.at(&path))?;
    prefix::apply_epochs(&header, &hunks, &mut names);
    let change = match (&names.old, &names.new) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    let may_create = change == ChangeKind::Modified && creates(&hunks);
    let file = FilePatch {
        may_create,
        new_mode: (change == ChangeKind::Added).then_some(mode::FILE),
        ..empty(names, change, Body::Hunks(hunks))
    };
    check(&file).map_err(|refusal| refusal.at(&path))?;
    Ok(file)
}

/// A section whose hunks have no line numbers.
fn loose_plain(cursor: &mut Cursor<'_>, names: Names) -> Result<FilePatch, Refusal> {
    let chunks = loose::read(cursor)?;
    match (&names.old, &names.new) {
        (None, _) => {
            let bytes = loose::contents(&chunks).ok_or_else(not_only_added)?;
            let new_mode = Some(mode::FILE);
            Ok(FilePatch { new_mode, ..empty(names, ChangeKind::Added, Body::Whole(bytes)) })
        }
        (_, None) => Err(loose::numbers("a deletion has no line numbers")),
        _ => Ok(empty(names, ChangeKind::Modified, Body::Chunks(chunks))),
    }
}

fn not_only_added() -> Refusal {
    refuse("contradiction", "a new file has one hunk (`@@ -0,0 +1,N @@`) with added lines only")
}

fn empty(names: Names, change: ChangeKind, body: Body) -> FilePatch {
    FilePatch {
        old_path: names.old,
        new_path: names.new,
        prefix: names.prefix,
        change,
        old_mode: None,
        new_mode: None,
        index: None,
        body,
        may_create: false,
    }
}

fn creates(hunks: &[Hunk]) -> bool {
    matches!(hunks, [only] if only.old_start == 0 && only.old().next().is_none())
}

/// What the header says is done; contradictions are refused.
fn change_of(header: &Header, cursor: &mut Cursor<'_>) -> Result<ChangeKind, Refusal> {
    let claims = [
        (header.new_file.is_some(), ChangeKind::Added),
        (header.deleted_file.is_some(), ChangeKind::Deleted),
        (header.rename_from.is_some() || header.rename_to.is_some(), ChangeKind::Renamed),
        (header.copy_from.is_some() || header.copy_to.is_some(), ChangeKind::Copied),
    ];
    let mut made = claims.iter().filter(|(claimed, _)| *claimed).map(|(_, change)| *change);
    let change = made.next();
    let modes = header.old_mode.is_some() || header.new_mode.is_some();
    let mode_too = modes && matches!(change, Some(ChangeKind::Added | ChangeKind::Deleted));
    if made.next().is_some() || mode_too || header.old_mode.is_some() != header.new_mode.is_some() {
        return Err(refuse(
            "contradiction",
            format!("the section before line {} says two different things", cursor.number()),
        ));
    }
    match (change, &header.minus, &header.plus) {
        (Some(change), _, _) => Ok(change),
        (None, Some(Name::Nothing), _) => {
            cursor.repair("new-file-header", "the line `new file mode 100644` was missing");
            Ok(ChangeKind::Added)
        }
        (None, _, Some(Name::Nothing)) => Err(refuse(
            "bad-header",
            "a deletion needs the line `deleted file mode 100644` after `diff --git`",
        )),
        (None, ..) => Ok(ChangeKind::Modified),
    }
}

fn names_of(header: &Header) -> Result<Names, Refusal> {
    match (&header.minus, &header.plus) {
        (Some(Name::Nothing), Some(Name::Nothing)) => {
            Err(refuse("no-path", "both sides are /dev/null: name the file that changes"))
        }
        _ => prefix::names(header),
    }
}

fn body(cursor: &mut Cursor<'_>, header: &Header) -> Result<Body, Refusal> {
    let text = cursor.text();
    if text.starts_with(b"Binary files ") && text.ends_with(b" differ") {
        return Err(refuse(
            "binary-stub",
            "the diff names a binary change without its data: make it with `git diff --binary`",
        ));
    }
    if text == b"GIT binary patch" {
        return binary::read(cursor).map(Body::Binary);
    }
    match (text.starts_with(b"@@"), header.minus.is_some()) {
        (true, true) if loose::is_header(text) => loose::read(cursor).map(Body::Chunks),
        (true, true) => hunks::read(cursor).map(Body::Hunks),
        (false, false) if lost_contents(cursor, header) => Err(refuse(
            "truncated",
            "the section says that the contents change but has no hunks: the diff seems to be cut off",
        )),
        (false, false) => Ok(Body::None),
        (true, false) => {
            Err(refuse("bad-header", "the hunks have no `---` and `+++` lines before them"))
        }
        // Some tools name both sides of an empty file, too.
        (false, true) if header.deleted_file.is_some() || gives_empty(header) => Ok(Body::None),
        (false, true) => Err(no_hunks(cursor)),
    }
}

/// Whether a header without hunks says that hunks should follow, or may have lost its last lines.
fn lost_contents(cursor: &Cursor<'_>, header: &Header) -> bool {
    let moved = header.rename_from.is_some() || header.copy_from.is_some();
    if cursor.done() && !cursor.ends_whole() {
        // The names of a whole rename were held against the first line, so that they are complete.
        return !(moved && header.similarity == Some(100));
    }
    let index = header.index.as_ref().filter(|index| usable(index));
    let changes = index.is_some_and(|index| index.old != index.new);
    match (header.new_file, header.deleted_file) {
        (Some(_), _) => index.is_some() && !gives_empty(header),
        (_, Some(_)) => false,
        _ => changes || header.similarity.is_some_and(|percent| moved && percent < 100),
    }
}

/// The ids of the empty blob start with these digits, in SHA-1 and in SHA-256.
const EMPTY_BLOBS: [&str; 2] = ["e69de29", "473a0f4"];

/// Whether the header makes a new file and says by its id that it is empty.
fn gives_empty(header: &Header) -> bool {
    let empty = |index: &Index| EMPTY_BLOBS.iter().any(|id| index.new.starts_with(id));
    header.new_file.is_some() && header.index.as_ref().is_some_and(empty)
}

fn no_hunks(cursor: &Cursor<'_>) -> Refusal {
    refuse("no-hunks", "after the `+++` line there is no hunk (`@@ -1,3 +1,4 @@`)")
        .found(cursor.text())
}

fn assemble(
    header: Header,
    names: Names,
    change: ChangeKind,
    body: Body,
) -> Result<FilePatch, Refusal> {
    let (old_mode, new_mode) = match change {
        ChangeKind::Added => (None, Some(header.new_file.unwrap_or(mode::FILE))),
        ChangeKind::Deleted => (header.deleted_file, None),
        _ => (header.old_mode.or(header.index_mode), header.new_mode),
    };
    if let (Some(old), Some(new)) = (old_mode, new_mode)
        && mode::kind(old) != mode::kind(new)
    {
        return Err(refuse("mode", "a mode change can't make a file into another kind of entry"));
    }
    let change = match (change, &body) {
        // Git goes by the two lines alone, whatever mode the file has.
        (ChangeKind::Modified, Body::None) if new_mode.is_some() && old_mode == new_mode => {
            return Err(refuse("no-change", "the section changes a mode to itself"));
        }
        (ChangeKind::Modified, Body::None) if new_mode.is_some() => ChangeKind::Mode,
        (ChangeKind::Modified, Body::None) => {
            return Err(refuse("no-hunks", "the section changes nothing: it has no hunks"));
        }
        (change, _) => change,
    };
    let index = header.index.filter(usable);
    Ok(FilePatch { old_mode, new_mode, index, ..empty(names, change, body) })
}

/// Ids that were made up (`abc..def`) say nothing; real ones are at least four hexadecimal digits.
fn usable(index: &Index) -> bool {
    let hex = |id: &str| {
        (4..=64).contains(&id.len())
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    hex(&index.old) && hex(&index.new)
}

/// The hunks must fit what is done to the file.
fn check(file: &FilePatch) -> Result<(), Refusal> {
    let more = file.change != ChangeKind::Modified || file.new_mode.is_some();
    if matches!(file.body, Body::Chunks(_)) && more {
        // Git would do what the header says and leave the hunks out.
        return Err(loose::numbers(
            "the header changes more than lines, and a hunk has no numbers",
        ));
    }
    let Body::Hunks(hunks) = &file.body else { return Ok(()) };
    let old = hunks.iter().any(|hunk| hunk.old().next().is_some());
    let new = hunks.iter().any(|hunk| hunk.new_lines().next().is_some());
    match file.change {
        ChangeKind::Added if old || hunks.len() > 1 => Err(not_only_added()),
        ChangeKind::Deleted if new => {
            Err(refuse("contradiction", "a deleted file keeps no lines and gets no new ones"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, parse};
    use super::*;

    fn read(diff: &str) -> Result<FilePatch, String> {
        parse(diff.as_bytes(), &Rules::default())
            .map(|patch| patch.files()[0].clone())
            .map_err(|refusal| refusal.code)
    }

    fn git(lines: &str) -> Result<ChangeKind, String> {
        read(&format!("diff --git a/x b/x\n{lines}")).map(|file| file.change())
    }

    #[test]
    fn headers_tell_what_is_done() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(git("old mode 100644\nnew mode 100755\n"), Ok(ChangeKind::Mode));
        assert_eq!(git("new file mode 100644\nindex 0000000..e69de29\n"), Ok(ChangeKind::Added));
        assert_eq!(
            git("deleted file mode 100644\nindex e69de29..0000000\n"),
            Ok(ChangeKind::Deleted)
        );
        assert_eq!(git(&format!("--- a/x\n+++ b/x\n{hunk}")), Ok(ChangeKind::Modified));
        let moved = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n";
        assert_eq!(read(moved).unwrap().change(), ChangeKind::Renamed);
        assert_eq!(read(&moved.replace("rename", "copy")).unwrap().change(), ChangeKind::Copied);
    }

    #[test]
    fn contradictions_are_refused() {
        for lines in [
            "new file mode 100644\ndeleted file mode 100644\n",
            "old mode 100644\n",
            "new file mode 100644\nold mode 100644\nnew mode 100755\n",
            "new file mode 100644\n--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "deleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
        ] {
            assert_eq!(git(lines), Err("contradiction".into()), "{lines}");
        }
        assert_eq!(git("old mode 100644\nnew mode 120000\n"), Err("mode".into()));
        assert_eq!(git("old mode 100755\nnew mode 100755\n"), Err("no-change".into()));
    }

    #[test]
    fn a_header_that_lost_its_hunks_is_refused() {
        for lines in [
            "new file mode 100644\nindex 0000000..1234567\n",
            "new file mode 100644",
            "old mode 100644\nnew mode 100755\nindex 1234567..89abcde\n",
        ] {
            assert_eq!(git(lines), Err("truncated".into()), "{lines}");
        }
        assert_eq!(git("index 1234567..89abcde 100644\n"), Err("truncated".into()));
        assert_eq!(
            git("index 1234567..89abcde 100644\n--- a/x\n+++ b/x\n"),
            Err("no-hunks".into())
        );
        let part = "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n";
        assert_eq!(read(part).err().as_deref(), Some("truncated"));
        let whole = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y";
        assert!(read(whole).is_ok());
    }

    #[test]
    fn a_missing_new_file_line_is_put_back() {
        let diff = "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
        let patch = parse(diff.as_bytes(), &Rules::default()).unwrap();
        assert_eq!(patch.repairs()[0].code, "new-file-header");
        assert_eq!(patch.files()[0].apply(None).unwrap().unwrap(), b"a\n");
        // Git makes a file `dev/null` of this one.
        let gone = "diff --git a/x b/x\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        assert_eq!(read(gone).err().as_deref(), Some("bad-header"));
    }

    #[test]
    fn plain_diffs_know_new_and_deleted_files() {
        let added = read("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n").unwrap();
        assert_eq!(added.change(), ChangeKind::Added);
        let epoch = "--- o/x\t1970-01-01 00:00:00.000 +0000\n+++ n/x\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+a\n";
        assert_eq!(read(epoch).unwrap().change(), ChangeKind::Added);
        let open = read("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n").unwrap();
        assert!(open.may_create && open.change() == ChangeKind::Modified);
    }
}
