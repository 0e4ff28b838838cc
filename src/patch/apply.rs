//! Applying the sections of a diff to the contents of one file.
//!
//! Never here: trees, modes and paths (see `admit`).

use super::binary;
use super::chunks;
use super::file::{Body, Counts, FilePatch, Hunk, Line, LineKind};
use super::locate::{Base, Image};
use super::refuse::{Detail, refuse};
use crate::model::{ChangeKind, Refusal};

/// The new contents of a file, and what had to be mended or noted on the way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    pub bytes: Vec<u8>,
    /// Codes of repairs, with details.
    pub repairs: Vec<(&'static str, String)>,
    /// Hunks that were not where they said: number, lines away.
    pub moved: Vec<(usize, isize)>,
    /// Hunks without context were taken.
    pub bare: bool,
    /// The first hunk that has its place by its form alone: at the file's start or end, and not where
    /// its numbers say.
    pub by_form: Option<usize>,
}

impl FilePatch {
    /// Applies the section to the old contents (none when the file is not there) and gives the new ones
    /// (none for a deletion).
    pub fn apply(&self, old: Option<&[u8]>) -> Result<Option<Vec<u8>>, Refusal> {
        let applied = self.apply_to(old, Base::Unsaid, usize::MAX)?;
        Ok((self.change != ChangeKind::Deleted).then_some(applied.bytes))
    }

    /// The same with what is known of the base, a limit for binary contents, and notes.
    pub(super) fn apply_to(
        &self,
        old: Option<&[u8]>,
        base: Base,
        max_binary: usize,
    ) -> Result<Applied, Refusal> {
        let applied = self.expected_old(old).and_then(|old| self.contents(old, base, max_binary));
        let applied = applied.map_err(|refusal| refusal.at(self.path()))?;
        if self.change == ChangeKind::Deleted && !applied.bytes.is_empty() {
            let why = "the diff deletes the file but leaves some of its lines: remove every line";
            return Err(refuse("partial-deletion", why).at(self.path()));
        }
        Ok(applied)
    }

    fn expected_old<'a>(&self, old: Option<&'a [u8]>) -> Result<&'a [u8], Refusal> {
        match (old, self.change) {
            (None, ChangeKind::Added) => Ok(b""),
            (None, _) if self.may_create => Ok(b""),
            (Some(_), ChangeKind::Added) => Err(refuse(
                "already-exists",
                "the diff makes a file that is there already: change it instead",
            )),
            (None, _) => Err(refuse("no-such-file", "the diff changes a file that is not there")),
            (Some(old), _) => Ok(old),
        }
    }

    fn contents(&self, old: &[u8], base: Base, max_binary: usize) -> Result<Applied, Refusal> {
        let plain = |bytes: Vec<u8>| Applied { bytes, ..Applied::default() };
        match &self.body {
            Body::None if self.change == ChangeKind::Deleted => Ok(plain(old.to_vec())),
            Body::None => Ok(plain(old.to_vec())),
            Body::Whole(bytes) => Ok(plain(bytes.clone())),
            Body::Binary(patch) => binary::apply(patch, old, max_binary).map(plain),
            Body::Chunks(found) => chunks::apply(found, old).map(plain),
            Body::Hunks(hunks) => apply_hunks(hunks, old, base),
        }
    }
}

/// Applies hunks in order; each line of the old file belongs to one hunk at most.
fn apply_hunks(hunks: &[Hunk], old: &[u8], base: Base) -> Result<Applied, Refusal> {
    let mut image = Image::new(old, base);
    let mut applied = Applied::default();
    for (at, hunk) in hunks.iter().enumerate() {
        place(hunk, at + 1, &mut image, &mut applied).map_err(|refusal| refusal.hunk(at + 1))?;
    }
    let end = image.end();
    applied.bytes.extend(image.lines[end..].iter().copied().flatten());
    check_overrun(hunks, old, base, &applied)?;
    Ok(applied)
}

fn place(
    hunk: &Hunk,
    number: usize,
    image: &mut Image<'_>,
    applied: &mut Applied,
) -> Result<(), Refusal> {
    match hunk.counts {
        Counts::Right => put(hunk, number, image, applied),
        Counts::Recounted | Counts::Overrun(_) => {
            put(hunk, number, image, applied)?;
            applied.repairs.push(recounted(number));
            Ok(())
        }
        Counts::Padded { lines, cut } => {
            let padded = pad(hunk, lines);
            match put(&padded, number, image, applied) {
                Ok(()) => {
                    let detail =
                        format!("hunk {number} had lost {lines} blank context lines at its end");
                    applied.repairs.push(("blank-context", detail));
                    Ok(())
                }
                Err(_) if !cut => {
                    put(hunk, number, image, applied)?;
                    applied.repairs.push(recounted(number));
                    Ok(())
                }
                Err(refusal) => Err(Refusal { code: "truncated".to_owned(), ..refusal }),
            }
        }
    }
}

fn recounted(number: usize) -> (&'static str, String) {
    ("hunk-counts", format!("the line counts in the header of hunk {number} were wrong"))
}

fn pad(hunk: &Hunk, lines: usize) -> Hunk {
    let mut padded = Hunk { counts: Counts::Right, ..hunk.clone() };
    let blank = Line { kind: LineKind::Context, text: b"\n".to_vec() };
    padded.lines.extend(std::iter::repeat_n(blank, lines));
    padded
}

/// Puts one hunk at its place.
fn put(
    hunk: &Hunk,
    number: usize,
    image: &mut Image<'_>,
    applied: &mut Applied,
) -> Result<(), Refusal> {
    let old: Vec<&[u8]> = hunk.old().collect();
    let start = image.locate(hunk, &old)?;
    let is_by_form = image.is_by_form(hunk, start);
    let before = image.end();
    applied.bytes.extend(image.lines[before..start].iter().copied().flatten());
    applied.bytes.extend(hunk.new_lines().flatten());
    image.taken.push((start, start + old.len()));
    image.shift += hunk.new_count().cast_signed() - old.len().cast_signed();
    applied.bare |= hunk.is_bare() && old.len() < image.lines.len();
    if !hunk.is_bare() && is_by_form {
        applied.by_form.get_or_insert(number);
    }
    let moved = start.cast_signed() - hunk.old_start.saturating_sub(1).cast_signed();
    if moved != 0 && !old.is_empty() && hunk.old_start > 0 {
        applied.moved.push((number, moved));
    }
    Ok(())
}

/// Where a last hunk goes on after its counts are used up, git would read only the counted part. If
/// that part applies on its own and gives something else, the diff has two meanings. Only lines that
/// are nowhere show that it does not: git would choose where we refuse to, and it asks little of the
/// place of a part without context.
fn check_overrun(hunks: &[Hunk], old: &[u8], base: Base, applied: &Applied) -> Result<(), Refusal> {
    let Some((last, before)) = hunks.split_last() else { return Ok(()) };
    let Counts::Overrun(counted) = last.counts else { return Ok(()) };
    let mut short = Hunk { counts: Counts::Right, ..last.clone() };
    short.lines.truncate(counted);
    if short.lines.iter().all(|line| line.kind == LineKind::Context) {
        return Ok(());
    }
    let bare = short.is_bare();
    let mut hunks = before.to_vec();
    hunks.push(short);
    let two_meanings = bare
        || match apply_hunks(&hunks, old, base) {
            Ok(other) => other.bytes != applied.bytes,
            Err(refusal) => !matches!(refusal.code.as_str(), "hunk-not-found" | "hunk-anchor"),
        };
    match two_meanings {
        true => Err(refuse(
            "hunk-counts",
            "the header counts fewer lines than follow, and both readings apply: send right counts",
        )
        .hunk(hunks.len())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, parse};

    fn run(old: &str, hunks: &str) -> Result<String, String> {
        let diff = format!("--- a/x\n+++ b/x\n{hunks}");
        let patch = parse(diff.as_bytes(), &Rules::default()).map_err(|refusal| refusal.code)?;
        let new = patch.files()[0].apply(Some(old.as_bytes())).map_err(|refusal| refusal.code)?;
        Ok(String::from_utf8(new.unwrap()).unwrap())
    }

    fn lines(range: std::ops::RangeInclusive<u32>) -> String {
        range.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn a_moved_hunk_applies_where_its_lines_are_once() {
        let hunk = "@@ -3,3 +3,3 @@\n 8\n-9\n+nine\n 10\n";
        assert_eq!(run(&lines(1..=12), hunk), Ok(lines(1..=12).replace("9\n", "nine\n")));
        let twice = lines(1..=12).repeat(2);
        assert_eq!(run(&twice, hunk), Err("hunk-ambiguous".into()));
        let exact = hunk.replace("3,3", "8,3");
        assert!(run(&twice, &exact).unwrap().starts_with("1\n2\n3\n4\n5\n6\n7\n8\nnine\n"));
    }

    #[test]
    fn start_and_end_are_anchors() {
        let start = "@@ -1,2 +1,2 @@\n-8\n+x\n 9\n";
        assert_eq!(run(&lines(1..=12), start), Err("hunk-anchor".into()));
        let end = "@@ -8,2 +8,2 @@\n 8\n-9\n+x\n";
        assert_eq!(run(&lines(1..=12), end), Err("hunk-anchor".into()));
        assert_eq!(run(&lines(1..=9), end), Ok(lines(1..=8) + "x\n"));
        assert_eq!(run(&lines(2..=9), end), Ok(lines(2..=8) + "x\n"));
    }

    #[test]
    fn each_old_line_belongs_to_one_hunk() {
        let overlap = "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n@@ -4,3 +4,3 @@\n 4\n-5\n+y\n 6\n";
        assert_eq!(run(&lines(1..=9), overlap), Err("hunk-not-found".into()));
        let touching = overlap.replace("@@ -4,3 +4,3 @@\n 4\n", "@@ -5,2 +5,2 @@\n");
        assert_eq!(run(&lines(1..=9), &touching), Ok("1\n2\nx\n4\ny\n6\n7\n8\n9\n".into()));
    }

    #[test]
    fn hunks_without_context_stand_where_they_say_or_nowhere() {
        let change = "@@ -3 +3 @@\n-3\n+x\n";
        assert_eq!(run(&lines(1..=5), change), Ok("1\n2\nx\n4\n5\n".into()));
        assert_eq!(run(&lines(2..=5), change), Err("hunk-not-found".into()));
        assert_eq!(run(&(lines(1..=5) + "3\n"), change), Err("zero-context".into()));
        assert_eq!(run(&lines(1..=5), "@@ -3,0 +4 @@\n+x\n"), Err("zero-context".into()));
        assert_eq!(run("", "@@ -0,0 +1 @@\n+x\n"), Ok("x\n".into()));
    }

    #[test]
    fn lines_are_compared_with_their_ends() {
        let hunk = "@@ -1,2 +1,2 @@\n-a\n+x\n b\n";
        assert_eq!(run("a\nb\n", hunk), Ok("x\nb\n".into()));
        assert_eq!(run("a\nb", hunk), Err("hunk-not-found".into()));
        assert_eq!(run("a\r\nb\r\n", hunk), Err("hunk-not-found".into()));
        let open = format!("{hunk}\\ No newline at end of file\n");
        assert_eq!(run("a\nb", &open), Ok("x\nb".into()));
        assert_eq!(run("a\nb\n", &open), Err("hunk-not-found".into()));
    }

    #[test]
    fn lost_blank_context_is_put_back_or_the_counts_are_wrong() {
        let hunk = "@@ -1,3 +1,3 @@\n-a\n+x\n b\n";
        assert_eq!(run("a\nb\n\n", hunk), Ok("x\nb\n\n".into()));
        assert_eq!(run("a\nb\nc\n", hunk), Err("truncated".into()));
        let surer = "@@ -1,5 +1,5 @@\n-a\n+x\n b\n c\n d\n";
        assert_eq!(run("a\nb\nc\nd\ne\n", surer), Ok("x\nb\nc\nd\ne\n".into()));
    }

    #[test]
    fn two_readings_of_the_counts_are_refused() {
        // Git would stop after `+x` and leave the second change out.
        let short = "@@ -1,2 +1,2 @@\n 1\n-2\n+x\n 3\n";
        assert_eq!(run(&lines(1..=4), short), Ok("1\nx\n3\n4\n".into()));
        let open = "@@ -1,2 +1,2 @@\n-a\n+x\n b\n+c\n";
        assert_eq!(run("a\nb\n", open), Err("hunk-counts".into()));
        // Found by fuzzing: git puts a counted part without context where we would not.
        let bare = "@@ -8,0 +1 @@\n+x\n+y\n 1\n";
        assert_eq!(run(&lines(1..=4), bare), Err("hunk-counts".into()));
        let twice = "@@ -4,3 +9,2 @@\n b\n-s\n e\n+new\n b\n";
        assert_eq!(run(&"b\ns\ne\n".repeat(4), twice), Err("hunk-counts".into()));
        let gone = "@@ -3,2 +3,0 @@\n-3\n-4\n+x\n";
        assert_eq!(run(&lines(1..=4), gone), Err("hunk-counts".into()));
    }

    #[test]
    fn a_refusal_names_the_first_line_that_differs() {
        let diff = "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n 2\n-three\n+x\n 4\n";
        let patch = parse(diff.as_bytes(), &Rules::default()).unwrap();
        let refusal = patch.files()[0].apply(Some(lines(1..=5).as_bytes())).unwrap_err();
        assert_eq!((refusal.path.as_deref(), refusal.hunk), (Some("x"), Some(1)));
        assert_eq!(refusal.expected.as_deref(), Some("three"));
        assert_eq!(refusal.found.as_deref(), Some("3"));
        assert!(refusal.message.contains("line 3 "), "{}", refusal.message);
    }

    #[test]
    fn the_file_must_be_there_or_not() {
        let diff = |header: &str| format!("{header}@@ -0,0 +1 @@\n+x\n");
        let added = parse(diff("--- /dev/null\n+++ b/x\n").as_bytes(), &Rules::default()).unwrap();
        assert_eq!(added.files()[0].apply(Some(b"y")).unwrap_err().code, "already-exists");
        let gone = "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        let gone = parse(gone.as_bytes(), &Rules::default()).unwrap();
        assert_eq!(gone.files()[0].apply(None).unwrap_err().code, "no-such-file");
        assert_eq!(gone.files()[0].apply(Some(b"x\n")), Ok(None));
        assert_eq!(gone.files()[0].apply(Some(b"x\ny\n")).unwrap_err().code, "partial-deletion");
    }
}
