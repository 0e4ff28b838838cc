//! Chunks of an `apply_patch` envelope: lines that are found by their text, not by numbers.
//!
//! A chunk must be found at exactly one place. An anchor (the text after `@@`) names a line before it,
//! which must itself be unique; then the first place after it counts. Nothing is ever compared loosely.

use bstr::ByteSlice;

use super::file::{Line, LineKind};
use super::locate::difference;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// A run of changed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Texts of lines that stand before it, outermost first.
    pub anchors: Vec<Vec<u8>>,
    /// The lines; each text ends in a line feed.
    pub lines: Vec<Line>,
    /// It must stand at the end of the file.
    pub at_end: bool,
}

/// The line that an `@@` header names, from what follows its first `@@`; none when it names none. Line
/// numbers with whatever stands behind them are another format's and say nothing here.
pub(super) fn anchor_of(rest: &[u8]) -> Option<Vec<u8>> {
    let text = rest.trim_ascii();
    if text.starts_with(b"-") && text.contains(&b'+') && text.contains_str(b"@@") {
        return None;
    }
    let named = |part: &[u8]| {
        let part = part.trim_ascii();
        let says = !part.is_empty() && part != b"..." && part != "…".as_bytes();
        says.then(|| part.to_vec())
    };
    match delimiter(text) {
        Some(at) => named(&text[..at]).or_else(|| named(&text[at + 2..])),
        None => named(text),
    }
}

/// The second `@@` of a header: one that no word goes on from (`@@count` is a name in Ruby).
fn delimiter(text: &[u8]) -> Option<usize> {
    let ends = |at: &usize| text.get(at + 2).is_none_or(u8::is_ascii_whitespace);
    text.find_iter(b"@@").find(ends)
}

/// Applies chunks in order.
pub(super) fn apply(chunks: &[Chunk], old: &[u8]) -> Result<Vec<u8>, Refusal> {
    let lines: Vec<&[u8]> = old.split_inclusive(|&byte| byte == b'\n').collect();
    let (mut out, mut done) = (Vec::new(), 0);
    for (at, chunk) in chunks.iter().enumerate() {
        let (start, end) = locate(chunk, &lines, done).map_err(|refusal| refusal.hunk(at + 1))?;
        out.extend(lines[done..start].iter().copied().flatten());
        for line in chunk.lines.iter().filter(|line| line.kind != LineKind::Remove) {
            if !out.is_empty() && !out.ends_with(b"\n") {
                out.push(b'\n');
            }
            out.extend_from_slice(&line.text);
        }
        let open = end == lines.len() && end > start && lines[end - 1].last() != Some(&b'\n');
        if open && out.ends_with(b"\n") {
            // The file had no newline at its end, and the envelope can't say that it gets one.
            out.pop();
        }
        done = end;
    }
    out.extend(lines[done..].iter().copied().flatten());
    Ok(out)
}

/// The old lines that the chunk takes.
fn locate(chunk: &Chunk, lines: &[&[u8]], done: usize) -> Result<(usize, usize), Refusal> {
    let old: Vec<&[u8]> = chunk
        .lines
        .iter()
        .filter(|line| line.kind != LineKind::Add)
        .map(|line| &line.text[..])
        .collect();
    let after = anchor(chunk, lines)?;
    if old.is_empty() {
        return match chunk.at_end || lines.is_empty() {
            true => Ok((lines.len(), lines.len())),
            false => Err(refuse(
                "hunk-not-found",
                "a chunk that only adds needs a context line to stand by",
            )),
        };
    }
    let from = done.max(after.unwrap_or(0));
    let places: Vec<usize> = (0..=lines.len().saturating_sub(old.len()))
        .filter(|at| fits(lines, *at, &old) && (!chunk.at_end || at + old.len() == lines.len()))
        .collect();
    let mut ahead = places.iter().copied().filter(|at| *at >= from);
    match (ahead.next(), places.len()) {
        (Some(at), 1) => Ok((at, at + old.len())),
        (Some(at), _) if after.is_some() => Ok((at, at + old.len())),
        (Some(at), count) => Err(refuse(
            "hunk-ambiguous",
            format!(
                "the chunk's lines are at line {} and at {} other places: give more context or an `@@` line",
                at + 1,
                count - 1
            ),
        )
        .expected(old[0])),
        (None, 0) => Err(missed(&old, lines, from)),
        (None, _) => Err(refuse(
            "hunks-out-of-order",
            "the chunk's lines stand before the chunk or `@@` line above it",
        )
        .expected(old[0])),
    }
}

fn fits(lines: &[&[u8]], at: usize, old: &[&[u8]]) -> bool {
    let Some(there) = lines.get(at..at + old.len()) else { return false };
    there.iter().zip(old).all(|(have, want)| same(have, want))
}

/// The last line of a file may lack its newline.
fn same(have: &[u8], want: &[u8]) -> bool {
    have.strip_suffix(b"\n").unwrap_or(have) == want.strip_suffix(b"\n").unwrap_or(want)
}

/// The index after the last anchor; none without anchors.
fn anchor(chunk: &Chunk, lines: &[&[u8]]) -> Result<Option<usize>, Refusal> {
    let mut after = None;
    for text in &chunk.anchors {
        let from = after.unwrap_or(0);
        let exact = |line: &&[u8]| line.trim() == text.trim();
        let starts = |line: &&[u8]| line.trim().starts_with(text.trim());
        let one = |test: &dyn Fn(&&[u8]) -> bool| {
            let mut found = (from..lines.len()).filter(|at| test(&lines[*at]));
            found.next().map(|at| (at, found.next().is_none()))
        };
        after = match one(&exact).or_else(|| one(&starts)) {
            Some((at, true)) => Some(at + 1),
            Some((_, false)) => {
                return Err(refuse(
                    "anchor-ambiguous",
                    "the line of an `@@` anchor is there more than once",
                )
                .expected(text));
            }
            None => {
                return Err(refuse(
                    "anchor-not-found",
                    "no line of the file is the one of the `@@` anchor",
                )
                .expected(text));
            }
        };
    }
    Ok(after)
}

fn missed(old: &[&[u8]], lines: &[&[u8]], from: usize) -> Refusal {
    let best = (0..lines.len())
        .map(|start| {
            let same =
                old.iter().zip(&lines[start..]).take_while(|(want, have)| same(have, want)).count();
            (same, std::cmp::Reverse(start.abs_diff(from)), start)
        })
        .max();
    let (same, start) = best.map_or((0, 0), |(same, _, start)| (same, start));
    let line = start + same;
    let why = match (old.get(same), lines.get(line)) {
        (Some(want), Some(have)) => difference(line, want, have),
        _ => format!("the file ends before line {}", line + 1),
    };
    refuse("hunk-not-found", format!("the chunk's lines are nowhere in the file; {why}"))
        .expected(old.get(same).copied().unwrap_or_default())
        .found(lines.get(start + same).copied().unwrap_or(b"the end of the file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(anchors: &[&str], lines: &[&str]) -> Chunk {
        let lines = lines.iter().map(|line| {
            let kind = match line.as_bytes()[0] {
                b'-' => LineKind::Remove,
                b'+' => LineKind::Add,
                _ => LineKind::Context,
            };
            Line { kind, text: format!("{}\n", &line[1..]).into_bytes() }
        });
        let anchors = anchors.iter().map(|anchor| anchor.as_bytes().to_vec()).collect();
        Chunk { anchors, lines: lines.collect(), at_end: false }
    }

    fn run(chunks: &[Chunk], old: &str) -> Result<String, String> {
        apply(chunks, old.as_bytes())
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn one_place_or_none() {
        let change = chunk(&[], &[" a", "-b", "+c"]);
        assert_eq!(run(std::slice::from_ref(&change), "x\na\nb\n").as_deref(), Ok("x\na\nc\n"));
        assert_eq!(
            run(std::slice::from_ref(&change), "a\nb\na\nb\n"),
            Err("hunk-ambiguous".into())
        );
        assert_eq!(run(&[change], "a\n b\n"), Err("hunk-not-found".into()));
    }

    #[test]
    fn anchors_choose_among_places() {
        let text = "fn a\n  x\nfn b\n  x\n";
        assert_eq!(
            run(&[chunk(&["fn b"], &["-  x", "+  y"])], text).as_deref(),
            Ok("fn a\n  x\nfn b\n  y\n")
        );
        assert_eq!(run(&[chunk(&["fn"], &["-  x", "+  y"])], text), Err("anchor-ambiguous".into()));
        assert_eq!(
            run(&[chunk(&["fn c"], &["-  x", "+  y"])], text),
            Err("anchor-not-found".into())
        );
        assert_eq!(
            run(&[chunk(&["fn b"], &["-fn a", "+fn z"])], text),
            Err("hunks-out-of-order".into())
        );
    }

    #[test]
    fn a_header_names_a_line_or_nothing() {
        let name =
            |rest: &str| anchor_of(rest.as_bytes()).map(|name| String::from_utf8(name).unwrap());
        for rest in ["", " @@", " ... @@", " ...", " … @@", " -1,2 +1,2 @@", " -5,3 +5,3 @@ fn f"]
        {
            assert_eq!(name(rest), None, "{rest}");
        }
        for rest in [" fn f", " fn f @@", " @@ fn f", " ... @@ fn f", "fn f"] {
            assert_eq!(name(rest).as_deref(), Some("fn f"), "{rest}");
        }
        assert_eq!(name(" @@count = 1").as_deref(), Some("@@count = 1"));
    }

    #[test]
    fn a_miss_says_what_is_different() {
        let change = [chunk(&[], &[" a", "-b", "+c"])];
        let told = |old: &str| apply(&change, old.as_bytes()).unwrap_err().message;
        assert!(told("a\nx\n").contains("line 2 of the file is not"), "{}", told("a\nx\n"));
        assert!(told("a\n  b\n").contains("white space"));
        assert!(told("a\r\nb\r\n").contains("CR LF"));
        assert!(told("a\n").contains("ends before line 2"));
    }

    #[test]
    fn chunks_go_forward_and_do_not_overlap() {
        let two = [chunk(&[], &["-a", "+A"]), chunk(&[], &["-c", "+C"])];
        assert_eq!(run(&two, "a\nb\nc\n").as_deref(), Ok("A\nb\nC\n"));
        let overlap = [chunk(&[], &[" a", "-b"]), chunk(&[], &[" b", "+x"])];
        assert_eq!(run(&overlap, "a\nb\n"), Err("hunks-out-of-order".into()));
    }

    #[test]
    fn a_missing_newline_stays_missing() {
        assert_eq!(run(&[chunk(&[], &["-b", "+c"])], "a\nb").as_deref(), Ok("a\nc"));
        let end = Chunk { at_end: true, ..chunk(&[], &["+c"]) };
        assert_eq!(run(&[end], "a\n").as_deref(), Ok("a\nc\n"));
        assert_eq!(run(&[chunk(&[], &["+c"])], "a\n"), Err("hunk-not-found".into()));
    }
}
