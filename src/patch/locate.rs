//! Where a hunk belongs: git's anchoring and offset search, exact lines only.
//!
//! A hunk that starts at the file's first line must match there; one without context at its end must
//! match at the file's end; any other may have moved, but to one place only. A hunk without context has
//! nothing to recognise its place by and must stand exactly where it says.

use super::file::{Counts, Hunk};
use super::refuse::{Detail, quote, refuse};
use crate::model::Refusal;

/// What is known of the file that a zero-context hunk was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The diff's `index` line names the very blob that is there.
    Proven,
    /// It names another one.
    Other,
    /// It names none.
    Unsaid,
}

/// The old file while its hunks are placed.
pub(super) struct Image<'a> {
    pub lines: Vec<&'a [u8]>,
    /// The old lines that hunks have taken, in order: start and end.
    pub taken: Vec<(usize, usize)>,
    /// New lines minus old lines of the hunks that are placed.
    pub shift: isize,
    pub base: Base,
}

impl<'a> Image<'a> {
    /// An image of the old contents.
    pub(super) fn new(old: &'a [u8], base: Base) -> Self {
        let lines = old.split_inclusive(|&byte| byte == b'\n').collect();
        Self { lines, taken: Vec::new(), shift: 0, base }
    }

    /// The end of the last placed hunk.
    pub(super) fn end(&self) -> usize {
        self.taken.last().map_or(0, |(_, end)| *end)
    }

    /// The index of the first old line of the hunk.
    pub(super) fn locate(&self, hunk: &Hunk, old: &[&[u8]]) -> Result<usize, Refusal> {
        if hunk.is_bare() {
            return self.locate_bare(hunk, old);
        }
        let (at_start, at_end) = (hunk.old_start <= 1, hunk.trailing() == 0);
        let anchored = match (at_start, at_end) {
            (true, true) => (old.len() == self.lines.len()).then_some(0),
            (true, false) => Some(0),
            (false, true) => self.lines.len().checked_sub(old.len()),
            (false, false) => return self.search(hunk, old),
        };
        match anchored.filter(|at| self.fits(*at, old)) {
            Some(at) => self.in_order(at),
            None => Err(self.missed_anchor(hunk, old, at_start)),
        }
    }

    /// Whether the lines stand there and no hunk has taken any of them.
    fn fits(&self, at: usize, old: &[&[u8]]) -> bool {
        let end = at + old.len();
        self.lines.get(at..end) == Some(old)
            && self.taken.iter().all(|(from, to)| end <= *from || *to <= at)
    }

    /// Whether a hunk stands at the file's start or end because of its form, and its numbers say another
    /// place.
    pub(super) fn is_by_form(&self, hunk: &Hunk, at: usize) -> bool {
        let (by_old, by_new) = self.stated(hunk);
        (hunk.old_start <= 1 || hunk.trailing() == 0) && (by_old != at || by_new != Some(at))
    }

    /// The index of the first old line by a hunk's old number, and by its new one.
    fn stated(&self, hunk: &Hunk) -> (usize, Option<usize>) {
        let by_new = hunk.new_start.saturating_sub(1).checked_add_signed(-self.shift);
        (hunk.old_start.saturating_sub(1), by_new)
    }

    fn search(&self, hunk: &Hunk, old: &[&[u8]]) -> Result<usize, Refusal> {
        let (by_old, by_new) = self.stated(hunk);
        // The new number is the one that git goes by; with wrong counts it can't be right.
        let stated = if hunk.counts == Counts::Right { by_new } else { Some(by_old) };
        if let Some(at) = stated.filter(|at| *at == by_old && self.fits(*at, old)) {
            return self.in_order(at);
        }
        let mut places =
            (0..=self.lines.len().saturating_sub(old.len())).filter(|at| self.fits(*at, old));
        match (places.next(), places.next()) {
            (Some(at), None) => self.in_order(at),
            (Some(first), Some(second)) => Err(refuse(
                "hunk-ambiguous",
                format!(
                    "the hunk's lines are not at line {} as it says, but at line {}, at line {} and perhaps \
                     elsewhere: give the right line number or more context",
                    hunk.old_start,
                    first + 1,
                    second + 1
                ),
            )),
            (None, _) => Err(self.missed(by_old, old)),
        }
    }

    fn in_order(&self, at: usize) -> Result<usize, Refusal> {
        match at >= self.end() {
            true => Ok(at),
            false => Err(refuse(
                "hunks-out-of-order",
                format!(
                    "the hunk belongs to line {}, before the hunk above it: sort the hunks",
                    at + 1
                ),
            )),
        }
    }

    fn locate_bare(&self, hunk: &Hunk, old: &[&[u8]]) -> Result<usize, Refusal> {
        let whole = old.len() == self.lines.len();
        if whole && self.fits(0, old) && self.taken.is_empty() {
            return Ok(0);
        }
        let before =
            |start: usize, count: usize| if count > 0 { start.checked_sub(1) } else { Some(start) };
        let by_old = before(hunk.old_start, old.len());
        let by_new = before(hunk.new_start, hunk.new_count());
        let by_new = by_new.and_then(|at| at.checked_add_signed(-self.shift));
        let at =
            by_old.filter(|at| Some(*at) == by_new && self.fits(*at, old) && *at >= self.end());
        let Some(at) = at else {
            return Err(self.missed(by_old.unwrap_or(0), old));
        };
        let why = match self.base {
            Base::Proven => return Ok(at),
            Base::Other => "the diff was made from another version of the file",
            Base::Unsaid if old.is_empty() => "nothing shows that the place is right",
            Base::Unsaid if self.fits_elsewhere(hunk, old, at) => {
                "its lines are at the end of the file, too"
            }
            Base::Unsaid => return Ok(at),
        };
        let why = format!("the hunk has no context lines, and {why}: send context");
        let found = self.lines.get(at).copied().unwrap_or(END_OF_FILE);
        Err(refuse("zero-context", why)
            .expected(b"context lines around the change")
            .found(format!("line {}: {}", at + 1, quote(found)).as_bytes()))
    }

    /// Whether plain `git apply`, which takes a missing context for the file's end, finds another place.
    fn fits_elsewhere(&self, hunk: &Hunk, old: &[&[u8]], at: usize) -> bool {
        let end = self.lines.len().saturating_sub(old.len());
        hunk.old_start > 1 && end != at && self.fits(end, old)
    }

    fn missed_anchor(&self, hunk: &Hunk, old: &[&[u8]], at_start: bool) -> Refusal {
        let at = match at_start {
            true => 0,
            false => self.lines.len().saturating_sub(old.len()),
        };
        if let Some(stated) = self.moved(hunk, old, at) {
            return stated;
        }
        self.missed(at, old)
    }

    /// The lines are there, but not where the hunk's form says that they must be.
    fn moved(&self, hunk: &Hunk, old: &[&[u8]], wanted: usize) -> Option<Refusal> {
        let at = (0..self.lines.len()).find(|at| self.fits(*at, old))?;
        let (place, instead) = match hunk.old_start <= 1 {
            // It stands at its line, but the file goes on behind it.
            true if at == wanted => ("the end", "give context lines after the change"),
            true => ("the start", "give the right line number"),
            false => ("the end", "give context lines after the change"),
        };
        let wanted = match place {
            "the end" => self.lines.len().saturating_sub(old.len()),
            _ => wanted,
        };
        let refusal = refuse(
            "hunk-anchor",
            format!(
                "the hunk says by its form that it stands at {place} of the file (line {}), but its lines \
                 are at line {}: {instead}",
                wanted + 1,
                at + 1
            ),
        );
        let found = self.lines.get(wanted).copied().unwrap_or(END_OF_FILE);
        Some(refusal.expected(old.first().copied().unwrap_or_default()).found(found))
    }

    /// Says which line differs, where the hunk fits best around its stated place.
    fn missed(&self, at: usize, old: &[&[u8]]) -> Refusal {
        if old.is_empty() {
            return refuse("hunk-not-found", format!("the file has no line {at}"));
        }
        let mut best = (0, at.min(self.lines.len()));
        for start in 0..self.lines.len() {
            let same = old
                .iter()
                .zip(&self.lines[start..])
                .take_while(|(want, have)| want == have)
                .count();
            let nearer = start.abs_diff(at) < best.1.abs_diff(at);
            if same > best.0 || (same == best.0 && same > 0 && nearer) {
                best = (same, start);
            }
        }
        let (same, start) = best;
        let line = start + same;
        let found = self.lines.get(line).copied();
        let taken = self.taken.iter().any(|(from, to)| *from <= line && line < *to);
        let message = match (found, old.get(same)) {
            (_, Some(_)) if taken => {
                format!("the hunk overlaps the one above it at line {}", line + 1)
            }
            (None, Some(_)) => {
                format!("the file ends before line {}, where the hunk goes on", line + 1)
            }
            (Some(have), Some(want)) => difference(line, want, have),
            (_, None) => {
                format!("the hunk's lines at line {} are taken by another hunk", start + 1)
            }
        };
        let refusal = refuse("hunk-not-found", message);
        let refusal = match old.get(same) {
            Some(want) => refusal.expected(want),
            None => refusal,
        };
        refusal.found(found.unwrap_or(END_OF_FILE))
    }
}

/// What is different about two lines, when it can't be seen.
pub(super) fn difference(line: usize, want: &[u8], have: &[u8]) -> String {
    let number = line + 1;
    let trimmed = |text: &'_ [u8]| text.trim_ascii().to_vec();
    if want.ends_with(b"\n") != have.ends_with(b"\n") && quote(want) == quote(have) {
        return format!("line {number} differs in its newline at the end of the file");
    }
    if have.ends_with(b"\r\n") && !want.ends_with(b"\r\n") {
        return format!("line {number} ends in CR LF in the file, but in LF in the diff");
    }
    if trimmed(want) == trimmed(have) {
        return format!("line {number} of the file differs from the diff in white space");
    }
    format!("line {number} of the file is not what the diff expects there")
}

/// What stands where a file has no more lines.
const END_OF_FILE: &[u8] = b"the end of the file";
