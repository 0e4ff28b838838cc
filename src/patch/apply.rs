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
    let before = image.end();
    applied.bytes.extend(image.lines[before..start].iter().copied().flatten());
    applied.bytes.extend(hunk.new_lines().flatten());
    image.taken.push((start, start + old.len()));
    image.shift += hunk.new_count().cast_signed() - old.len().cast_signed();
    applied.bare |= hunk.leading() == 0 && hunk.trailing() == 0 && old.len() < image.lines.len();
    let moved = start.cast_signed() - hunk.old_start.saturating_sub(1).cast_signed();
    if moved != 0 && !old.is_empty() && hunk.old_start > 0 {
        applied.moved.push((number, moved));
    }
    Ok(())
}

/// Where a last hunk goes on after its counts are used up, git would read only the counted part. If
/// that part applies on its own and gives something else, the diff has two meanings.
fn check_overrun(hunks: &[Hunk], old: &[u8], base: Base, applied: &Applied) -> Result<(), Refusal> {
    let Some((last, before)) = hunks.split_last() else { return Ok(()) };
    let Counts::Overrun(counted) = last.counts else { return Ok(()) };
    let mut short = Hunk { counts: Counts::Right, ..last.clone() };
    short.lines.truncate(counted);
    if short.lines.iter().all(|line| line.kind == LineKind::Context) {
        return Ok(());
    }
    let mut hunks = before.to_vec();
    hunks.push(short);
    match apply_hunks(&hunks, old, base) {
        Ok(other) if other.bytes != applied.bytes => Err(refuse(
            "hunk-counts",
            "the header counts fewer lines than follow, and both readings apply: send right counts",
        )
        .hunk(hunks.len())),
        _ => Ok(()),
    }
}
