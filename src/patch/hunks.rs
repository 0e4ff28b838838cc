//! Hunks of a unified diff: headers, lines, and how far the counts can be trusted.
//!
//! Never here: the file that they apply to (see `locate` and `apply`).

use super::cursor::Cursor;
use super::file::{Counts, Hunk, Line, LineKind};
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// The largest number that a hunk header may hold.
const MOST: usize = 10_000_000;

/// The most blank context lines that are put back at the end of a hunk: what `git diff` writes there.
const MOST_PADDING: usize = 3;

/// The most lines that a last hunk may lack against its header before it counts as cut off.
const MOST_SHORTFALL: isize = 4;

/// The ranges of a hunk header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges {
    old_start: usize,
    old_count: usize,
    new_start: usize,
    new_count: usize,
    heading: Vec<u8>,
}

/// Reads all hunks of a section; the cursor stands at the first `@@`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Vec<Hunk>, Refusal> {
    let mut hunks = Vec::new();
    while cursor.text().starts_with(b"@@") {
        let number = hunks.len() + 1;
        let hunk = one(cursor).map_err(|refusal| refusal.hunk(number))?;
        check_ends(&hunk, hunks.last()).map_err(|refusal| refusal.hunk(number))?;
        hunks.push(hunk);
    }
    if hunks.is_empty() {
        return Err(refuse(
            "no-hunks",
            "after the `+++` line there is no hunk (`@@ -1,3 +1,4 @@`)",
        )
        .found(cursor.text()));
    }
    Ok(hunks)
}

fn one(cursor: &mut Cursor<'_>) -> Result<Hunk, Refusal> {
    let ranges = header(cursor.text()).ok_or_else(|| {
        refuse("hunk-header", "a hunk starts with `@@ -OLD,COUNT +NEW,COUNT @@`, numbers included")
            .found(cursor.text())
    })?;
    cursor.advance();
    let start = cursor.at();
    let exact = counted(cursor, &ranges);
    let hunk = match exact {
        Some((lines, end)) if !goes_on(cursor, end) => {
            cursor.move_to(end);
            make(ranges, lines, Counts::Right)
        }
        exact => recount(cursor, start, ranges, exact.map(|(lines, _)| lines.len()))?,
    };
    if hunk.lines.iter().all(|line| line.kind == LineKind::Context) {
        return Err(refuse("no-change", "the hunk adds and removes nothing"));
    }
    Ok(hunk)
}

fn make(ranges: Ranges, lines: Vec<Line>, counts: Counts) -> Hunk {
    let Ranges { old_start, new_start, heading, .. } = ranges;
    Hunk { old_start, new_start, heading, lines, counts }
}

/// `@@ -1,3 +1,4 @@ heading`.
fn header(text: &[u8]) -> Option<Ranges> {
    let (old_start, old_count, rest) = range(text.strip_prefix(b"@@ -")?)?;
    let (new_start, new_count, rest) = range(rest.strip_prefix(b" +")?)?;
    let heading = rest.strip_prefix(b" @@")?;
    let heading = heading.strip_prefix(b" ").unwrap_or(heading).to_vec();
    Some(Ranges { old_start, old_count, new_start, new_count, heading })
}

fn range(text: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        None => Some((start, 1, rest)),
        Some(rest) => {
            let (count, rest) = number(rest)?;
            Some((start, count, rest))
        }
    }
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    let value = digits.parse().ok().filter(|value| *value <= MOST)?;
    Some((value, &text[end..]))
}

/// The hunk's lines exactly as its header counts them, and where they end; none if they don't fit.
fn counted(cursor: &mut Cursor<'_>, ranges: &Ranges) -> Option<(Vec<Line>, usize)> {
    let (mut old, mut new) = (ranges.old_count, ranges.new_count);
    let mut lines: Vec<Line> = Vec::new();
    let mut at = cursor.at();
    let mut blank = false;
    while old > 0 || new > 0 {
        let text = cursor.peek(at)?;
        if cursor.is_no_newline(at) {
            strip_newline(lines.last_mut()?);
        } else {
            let kind = kind(text)?;
            old = old.checked_sub(usize::from(kind != LineKind::Add))?;
            new = new.checked_sub(usize::from(kind != LineKind::Remove))?;
            blank |= text.is_empty();
            lines.push(line(kind, text));
        }
        at += 1;
    }
    if cursor.is_no_newline(at) {
        strip_newline(lines.last_mut()?);
        at += 1;
    }
    if blank {
        cursor.repair("blank-context", "blank context lines had lost their space");
    }
    Some((lines, at))
}

fn kind(text: &[u8]) -> Option<LineKind> {
    match text.first() {
        None | Some(b' ') => Some(LineKind::Context),
        Some(b'-') => Some(LineKind::Remove),
        Some(b'+') => Some(LineKind::Add),
        Some(_) => None,
    }
}

fn line(kind: LineKind, text: &[u8]) -> Line {
    let mut text = text.get(1..).unwrap_or_default().to_vec();
    text.push(b'\n');
    Line { kind, text }
}

fn strip_newline(line: &mut Line) {
    if line.text.ends_with(b"\n") {
        line.text.pop();
    }
}

/// Whether lines that look like the hunk's follow where its counts are used up.
fn goes_on(cursor: &Cursor<'_>, at: usize) -> bool {
    let Some(text) = cursor.peek(at) else { return false };
    matches!(text.first(), Some(b' ' | b'+' | b'-' | b'\\'))
        && !cursor.is_signature(at)
        && !cursor.is_plain_header(at)
}

/// Reads the lines up to where the hunk visibly ends, and says how they relate to the header.
fn recount(
    cursor: &mut Cursor<'_>,
    start: usize,
    ranges: Ranges,
    prefix: Option<usize>,
) -> Result<Hunk, Refusal> {
    let (lines, end) = collect(cursor, start)?;
    let count = |kind| lines.iter().filter(|line| line.kind != kind).count();
    let (old, new) = (count(LineKind::Add), count(LineKind::Remove));
    let missing = (
        ranges.old_count.cast_signed() - old.cast_signed(),
        ranges.new_count.cast_signed() - new.cast_signed(),
    );
    let last = cursor.peek(end).is_none();
    let whole = cursor.ends_whole();
    cursor.move_to(end);
    let wrong = refuse(
        "hunk-counts",
        format!(
            "the header counts {} old and {} new lines, but {old} and {new} follow",
            ranges.old_count, ranges.new_count
        ),
    )
    .expected(format!("{} old and {} new lines", ranges.old_count, ranges.new_count).as_bytes())
    .found(format!("{old} old and {new} new lines").as_bytes());
    if lines.is_empty() {
        return Err(wrong);
    }
    if let Some(prefix) = prefix.filter(|prefix| *prefix < lines.len()) {
        return Ok(make(ranges, lines, Counts::Overrun(prefix)));
    }
    let padding = usize::try_from(missing.0).unwrap_or(0);
    if missing.0 == missing.1 && (1..=MOST_PADDING).contains(&padding) {
        let mut hunk = make(ranges, lines, Counts::Recounted);
        let cut = last && may_be_cut(&hunk, missing, whole);
        hunk.counts = Counts::Padded { lines: padding, cut };
        return Ok(hunk);
    }
    let hunk = make(ranges, lines, Counts::Recounted);
    if last && may_be_cut(&hunk, missing, whole) {
        let message = "the last hunk is shorter than its header says: the diff seems to be cut off";
        return Err(Refusal { code: "truncated".into(), message: message.into(), ..wrong });
    }
    Ok(hunk)
}

/// Whether a hunk at the end of the diff may be the start of a longer one. A hunk that has more lines
/// of one kind than its header counts can't be.
fn may_be_cut(hunk: &Hunk, missing: (isize, isize), whole: bool) -> bool {
    let shorter = missing.0 >= 0 && missing.1 >= 0;
    let looks_complete = whole
        && missing.0 <= MOST_SHORTFALL
        && missing.1 <= MOST_SHORTFALL
        && hunk.trailing() >= MOST_PADDING;
    shorter && !looks_complete
}

/// The lines of a hunk whose counts are wrong: up to the next header, fence, signature or the end.
fn collect(cursor: &Cursor<'_>, start: usize) -> Result<(Vec<Line>, usize), Refusal> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut at, mut end, mut blanks) = (start, start, 0);
    while let Some(text) = cursor.peek(at) {
        if cursor.is_boundary(at) {
            break;
        }
        if cursor.is_plain_header(at) {
            match cursor.in_git_section {
                true => return Err(undecided(at)),
                false => break,
            }
        }
        if text.is_empty() {
            blanks += 1;
        } else if cursor.is_no_newline(at) {
            match lines.last_mut() {
                Some(last) if blanks == 0 => strip_newline(last),
                _ => return Err(corrupt(at, text)),
            }
            end = at + 1;
        } else if let Some(kind) = kind(text) {
            lines.extend((0..blanks).map(|_| line(LineKind::Context, b"")));
            blanks = 0;
            lines.push(line(kind, text));
            end = at + 1;
        } else if blanks > 0 {
            break;
        } else {
            return Err(corrupt(at, text));
        }
        at += 1;
    }
    Ok((lines, end))
}

/// The lines of a hunk that has no counts: up to where it visibly ends.
pub(super) fn uncounted(cursor: &mut Cursor<'_>) -> Result<Vec<Line>, Refusal> {
    let (lines, end) = collect(cursor, cursor.at())?;
    cursor.move_to(end);
    Ok(lines)
}

fn undecided(at: usize) -> Refusal {
    refuse(
        "hunk-counts",
        format!(
            "the hunk's counts are wrong and line {} of the diff may be its or the next file's: \
             send the diff with right counts",
            at + 1
        ),
    )
}

fn corrupt(at: usize, text: &[u8]) -> Refusal {
    refuse(
        "corrupt-hunk",
        format!("line {} of the diff belongs to no hunk and to no header", at + 1),
    )
    .expected(b"a line that starts with a space, `+` or `-`")
    .found(text)
}

/// A line without its newline can only be the last one of its side, in the last hunk.
fn check_ends(hunk: &Hunk, before: Option<&Hunk>) -> Result<(), Refusal> {
    let open = |line: &[u8]| !line.ends_with(b"\n");
    let middle = |lines: Vec<&[u8]>| lines.iter().rev().skip(1).any(|line| open(line));
    let early = before.is_some_and(|hunk| hunk.lines.iter().any(|line| open(&line.text)));
    if early || middle(hunk.old().collect()) || middle(hunk.new_lines().collect()) {
        return Err(refuse(
            "no-newline",
            "`\\ No newline at end of file` stands where the file goes on",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::bytes;
    use super::super::rules::Rules;
    use super::*;

    fn with(text: &str, git: bool) -> Result<Vec<Hunk>, String> {
        let source = bytes::read(text.as_bytes(), &Rules::default()).unwrap();
        let mut cursor = Cursor::new(&source.lines, 0);
        cursor.in_git_section = git;
        read(&mut cursor).map_err(|refusal| refusal.code)
    }

    fn counts(text: &str) -> Result<Vec<Counts>, String> {
        with(text, true).map(|hunks| hunks.iter().map(|hunk| hunk.counts).collect())
    }

    #[test]
    fn headers_are_strict() {
        for header in [
            "@@",
            "@@ ... @@",
            "@@ -1 @@",
            "@@ --1,2 +1,2 @@",
            "@@ -1,2 +1,99999999999 @@",
            "@@ -1,2 +1,2",
            "@@ -a +b @@",
        ] {
            assert_eq!(
                counts(&format!("{header}\n-a\n+b\n")),
                Err("hunk-header".into()),
                "{header}"
            );
        }
        let hunks = with("@@ -3 +4,2 @@ fn x()\n-a\n+b\n+c\n", true).unwrap();
        assert_eq!((hunks[0].old_start, hunks[0].new_start), (3, 4));
        assert_eq!(hunks[0].heading, b"fn x()");
    }

    #[test]
    fn right_counts_end_a_hunk() {
        let text = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n- a bullet\n";
        assert_eq!(counts(text), Ok(vec![Counts::Right]));
        let mail = "@@ -1 +1 @@\n-b\n+c\n-- \n2.47.3\n";
        assert_eq!(counts(mail), Ok(vec![Counts::Right]));
        let next = "@@ -1 +1 @@\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-b\n+c\n";
        assert_eq!(counts(next), Ok(vec![Counts::Right]));
    }

    #[test]
    fn wrong_counts_are_recounted_where_the_end_is_plain() {
        let between = "@@ -1,9 +1,1 @@\n a\n-b\n c\n@@ -20,2 +20,2 @@\n-x\n+y\n z\n";
        assert_eq!(counts(between), Ok(vec![Counts::Recounted, Counts::Right]));
        let over = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n d\n";
        assert_eq!(counts(over), Ok(vec![Counts::Overrun(3)]));
        let padded = "@@ -1,4 +1,4 @@\n a\n-b\n+c\n d\n";
        assert_eq!(counts(padded), Ok(vec![Counts::Padded { lines: 1, cut: true }]));
        let both = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-b\n+c\n";
        assert_eq!(counts(&both.replace("-1,2", "-1,9")), Err("hunk-counts".into()));
        assert_eq!(
            with(&both.replace("-1,2", "-1,9"), false).unwrap()[0].counts,
            Counts::Recounted
        );
    }

    #[test]
    fn a_last_hunk_that_is_too_short_is_cut_off() {
        assert_eq!(counts("@@ -1,9 +1,12 @@\n a\n-b\n+c\n d\n"), Err("truncated".into()));
        let fenced = "@@ -1,9 +1,12 @@\n a\n-b\n+c\n d\n```\n";
        assert_eq!(counts(fenced), Ok(vec![Counts::Recounted]));
        let complete = "@@ -1,9 +1,7 @@\n a\n-b\n+c\n d\n e\n f\n";
        assert_eq!(counts(complete), Ok(vec![Counts::Recounted]));
        assert_eq!(counts(complete.trim_end()), Err("truncated".into()));
    }

    #[test]
    fn foreign_lines_and_idle_hunks_are_refused() {
        assert_eq!(counts("@@ -1,3 +1,3 @@\n a\nwrapped\n-b\n+c\n"), Err("corrupt-hunk".into()));
        assert_eq!(counts("@@ -1,2 +1,2 @@\n a\n b\n"), Err("no-change".into()));
        assert_eq!(counts("@@ -1 +1 @@\n"), Err("hunk-counts".into()));
        assert_eq!(counts("nothing\n"), Err("no-hunks".into()));
    }

    #[test]
    fn a_missing_newline_stands_at_the_end_only() {
        let note = "\\ No newline at end of file";
        let good = format!("@@ -1,2 +1,2 @@\n a\n-b\n{note}\n+c\n{note}\n");
        assert_eq!(with(&good, true).unwrap()[0].lines[2].text, b"c");
        // Git takes a cut-off note from 13 bytes on, and does not see a shorter one.
        for length in 1..=note.len() {
            let cut = format!("@@ -1 +1 @@\n-b\n+c\n{}", &note[..length]);
            match with(&cut, true) {
                Ok(hunks) => {
                    assert!(length > 12 && hunks[0].lines[1].text == b"c", "{length}");
                }
                Err(_) => assert!(length <= 12, "{length}"),
            }
        }
        let middle = format!("@@ -1,2 +1,2 @@\n a\n{note}\n-b\n+c\n");
        assert_eq!(counts(&middle), Err("no-newline".into()));
        let early = format!("@@ -1 +1 @@\n-b\n{note}\n+c\n@@ -9 +9 @@\n-b\n+c\n");
        assert_eq!(counts(&early), Err("no-newline".into()));
    }
}
