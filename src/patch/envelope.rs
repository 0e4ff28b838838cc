//! `*** Begin Patch` envelopes, the format of the tool `apply_patch`.
//!
//! Never here: finding a chunk's place (see `chunks`).

use super::bytes::{RawLine, Source};
use super::chunks::{Chunk, anchor_of};
use super::cursor;
use super::file::{Body, FilePatch, Line, LineKind, Patch, Prefix};
use super::mode;
use super::packed;
use super::refuse::{Detail, refuse};
use crate::model::{ChangeKind, Refusal, Repair};

const BEGIN: &[u8] = b"*** Begin Patch";
const END: &[u8] = b"*** End Patch";
const END_OF_FILE: &[u8] = b"*** End of File";

/// The index of the line that opens an envelope.
pub(super) fn find(lines: &[RawLine<'_>]) -> Option<usize> {
    lines.iter().position(|line| line.text.trim_ascii_end() == BEGIN)
}

/// Reads the envelope of a document, or several that follow each other with nothing but blank lines and
/// Markdown fences between them.
pub(super) fn parse(source: &Source<'_>) -> Result<Patch, Refusal> {
    let lines = &source.lines;
    let mut files = Vec::new();
    let mut outside: Vec<&RawLine<'_>> = Vec::new();
    let (mut at, mut count) = (0, 0);
    while let Some(begin) = find(&lines[at..]).map(|found| at + found) {
        let between = &lines[at..begin];
        if count > 0 && !between.iter().all(is_between) {
            return Err(several());
        }
        outside.extend(between);
        let end = lines[begin..].iter().position(|line| line.text.trim_ascii_end() == END);
        let end = begin + end.ok_or_else(cut_off)?;
        files.extend(Reader { lines: &lines[begin + 1..end], at: 0, first: begin + 2 }.files()?);
        (at, count) = (end + 1, count + 1);
    }
    outside.extend(&lines[at..]);
    let other = |line: &&&RawLine<'_>| {
        line.text.starts_with(b"diff --git ")
            || line.text.starts_with(b"+++ ")
            || line.text.starts_with(b"*** ")
            || packed::is_in(line.text)
    };
    if outside.iter().any(|line| other(&line)) {
        return Err(several());
    }
    let mut repairs = repairs(outside.into_iter());
    if source.mark {
        let detail = "a byte order mark before the diff was taken off".to_owned();
        repairs.push(Repair { code: "byte-order-mark".to_owned(), detail });
    }
    Ok(Patch { files, repairs, crlf: source.crlf, several: count > 1 })
}

fn is_between(line: &RawLine<'_>) -> bool {
    line.text.trim_ascii().is_empty() || cursor::fence(line.text).is_some()
}

fn several() -> Refusal {
    refuse(
        "several-diffs",
        "beside the envelope there is another diff: send one, or envelopes right after each other",
    )
}

fn cut_off() -> Refusal {
    refuse("truncated", "the envelope has no `*** End Patch`: the diff seems to be cut off")
}

fn repairs<'a>(outside: impl Iterator<Item = &'a RawLine<'a>>) -> Vec<Repair> {
    let mut repairs = Vec::new();
    let mut note = |code: &str, detail: &str| {
        if repairs.iter().all(|repair: &Repair| repair.code != code) {
            repairs.push(Repair { code: code.to_owned(), detail: detail.to_owned() });
        }
    };
    for line in outside {
        if cursor::fence(line.text).is_some() {
            note("markdown-fence", "a Markdown fence around the diff was taken off");
        } else if !line.text.trim_ascii().is_empty() {
            note("prose-around", "text around the diff was left out");
        }
    }
    repairs
}

struct Reader<'a> {
    lines: &'a [RawLine<'a>],
    at: usize,
    /// The number of the first line in the document.
    first: usize,
}

impl<'a> Reader<'a> {
    fn text(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).map(|line| line.text)
    }

    fn files(mut self) -> Result<Vec<FilePatch>, Refusal> {
        let mut files = Vec::new();
        while let Some(text) = self.text() {
            self.at += 1;
            if text.trim_ascii().is_empty() {
                continue;
            }
            let file = self.file(text)?;
            files.push(file);
        }
        match files.is_empty() {
            true => Err(refuse("empty", "the envelope changes no file")),
            false => Ok(files),
        }
    }

    fn file(&mut self, text: &[u8]) -> Result<FilePatch, Refusal> {
        let path = |rest: &[u8]| rest.trim_ascii().to_vec();
        if let Some(rest) = text.strip_prefix(b"*** Add File: ") {
            let path = path(rest);
            let body = self.whole().map_err(|refusal| refusal.at(&path))?;
            return Ok(file(None, Some(path), ChangeKind::Added, Body::Whole(body)));
        }
        if let Some(rest) = text.strip_prefix(b"*** Delete File: ") {
            return Ok(file(Some(path(rest)), None, ChangeKind::Deleted, Body::Whole(Vec::new())));
        }
        let Some(rest) = text.strip_prefix(b"*** Update File: ") else {
            self.at -= 1;
            return Err(
                self.bad("should be `*** Add File: `, `*** Update File: ` or `*** Delete File: `")
            );
        };
        let old = path(rest);
        let to = self.text().and_then(|text| text.strip_prefix(b"*** Move to: ")).map(path);
        self.at += usize::from(to.is_some());
        let chunks = self.chunks().map_err(|refusal| refusal.at(&old))?;
        let body = if chunks.is_empty() { Body::None } else { Body::Chunks(chunks) };
        match (to, &body) {
            (None, Body::None) => Err(refuse("no-hunks", "the update changes nothing").at(&old)),
            (None, _) => Ok(file(Some(old.clone()), Some(old), ChangeKind::Modified, body)),
            (Some(to), _) if to == old => {
                Err(refuse("contradiction", "the file moves to itself").at(&old))
            }
            (Some(to), _) => Ok(file(Some(old), Some(to), ChangeKind::Renamed, body)),
        }
    }

    /// The contents of a new file: added lines only.
    fn whole(&mut self) -> Result<Vec<u8>, Refusal> {
        let mut body = Vec::new();
        let mut ended = false;
        while let Some(text) = self.text().filter(|text| !text.starts_with(b"*** ")) {
            match text.strip_prefix(b"+") {
                // It may be a line of the file that lost its sign, or nothing.
                Some(_) if ended => {
                    return Err(self
                        .bad("follows an empty line: an empty line of a new file is a `+` alone"));
                }
                Some(line) => {
                    body.extend_from_slice(line);
                    body.push(b'\n');
                }
                None if text.is_empty() => ended = true,
                None => {
                    return Err(self.bad("should start with `+`, as all lines of a new file do"));
                }
            }
            self.at += 1;
        }
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<Chunk>, Refusal> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut chunk = Chunk::default();
        // Lines at the end without even the space of a context line.
        let mut empty = 0;
        while let Some(text) = self.text() {
            empty = if text.is_empty() { empty + 1 } else { 0 };
            if text == END_OF_FILE {
                chunk.at_end = true;
                chunks.push(std::mem::take(&mut chunk));
            } else if text.starts_with(b"*** ") {
                break;
            } else if let Some(rest) = text.strip_prefix(b"@@") {
                if !chunk.lines.is_empty() {
                    chunks.push(std::mem::take(&mut chunk));
                }
                chunk.anchors.extend(anchor_of(rest));
            } else {
                chunk.lines.push(self.line(text)?);
            }
            self.at += 1;
        }
        // An empty line before the next file is no context.
        chunk.lines.truncate(chunk.lines.len().saturating_sub(empty));
        if !chunk.lines.is_empty() {
            chunks.push(chunk);
        } else if !chunk.anchors.is_empty() {
            return Err(self.bad("should follow an `@@` line with a change"));
        }
        let idle = |chunk: &Chunk| chunk.lines.iter().all(|line| line.kind == LineKind::Context);
        match chunks.iter().position(idle) {
            Some(at) => Err(refuse("no-change", "the chunk adds and removes nothing").hunk(at + 1)),
            None => Ok(chunks),
        }
    }

    fn line(&self, text: &[u8]) -> Result<Line, Refusal> {
        let kind = match text.first() {
            None | Some(b' ') => LineKind::Context,
            Some(b'-') => LineKind::Remove,
            Some(b'+') => LineKind::Add,
            Some(_) => return Err(self.bad("should start with a space, `+`, `-` or `@@`")),
        };
        let mut text = text.get(1..).unwrap_or_default().to_vec();
        text.push(b'\n');
        Ok(Line { kind, text })
    }

    fn bad(&self, why: &str) -> Refusal {
        refuse("bad-envelope", format!("line {} of the diff {why}", self.first + self.at))
            .found(self.text().unwrap_or(END))
    }
}

fn file(old: Option<Vec<u8>>, new: Option<Vec<u8>>, change: ChangeKind, body: Body) -> FilePatch {
    FilePatch {
        old_path: old,
        new_path: new,
        change,
        old_mode: None,
        new_mode: (change == ChangeKind::Added).then_some(mode::FILE),
        index: None,
        body,
        prefix: Prefix::Stripped,
        may_create: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, parse};
    use super::*;

    fn read(diff: &str) -> Result<Patch, String> {
        parse(diff.as_bytes(), &Rules::default()).map_err(|refusal| refusal.code)
    }

    #[test]
    fn all_kinds_of_sections_are_read() {
        let patch = read(
            "text\n*** Begin Patch\n*** Add File: n\n+one\n+\n*** Delete File: d\n*** Update File: a\n\
             *** Move to: b\n@@ class A\n@@ fn f\n x\n-y\n+z\n@@\n+end\n*** End of File\n*** End Patch\n",
        )
        .unwrap();
        let kinds: Vec<_> = patch.files().iter().map(FilePatch::change).collect();
        assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Deleted, ChangeKind::Renamed]);
        assert_eq!(patch.files()[0].apply(None).unwrap().unwrap(), b"one\n\n");
        assert_eq!(patch.files()[1].apply(Some(b"x")).unwrap(), None);
        let old = b"class A\nfn f\nx\ny\n";
        assert_eq!(
            patch.files()[2].apply(Some(old)).unwrap().unwrap(),
            b"class A\nfn f\nx\nz\nend\n"
        );
        assert_eq!(patch.repairs()[0].code, "prose-around");
        let marked = read("\u{feff}*** Begin Patch\n*** Delete File: d\n*** End Patch\n").unwrap();
        assert_eq!(marked.repairs()[0].code, "byte-order-mark");
    }

    #[test]
    fn a_blank_context_line_counts_and_an_empty_one_before_the_next_file_does_not() {
        let update = |tail: &str| {
            let text =
                format!("*** Begin Patch\n*** Update File: a\n-x\n+y\n{tail}*** End Patch\n");
            let patch = read(&text).unwrap();
            patch.files()[0].apply(Some(b"x\nz\n")).map_err(|refusal| refusal.code)
        };
        assert_eq!(update("\n\n"), Ok(Some(b"y\nz\n".to_vec())));
        assert_eq!(update(" \n"), Err("hunk-not-found".into()));
    }

    #[test]
    fn form_is_strict() {
        let wrap = |inside: &str| format!("*** Begin Patch\n{inside}*** End Patch\n");
        assert_eq!(read("*** Begin Patch\n*** Delete File: x\n"), Err("truncated".into()));
        assert_eq!(read(&wrap("")), Err("empty".into()));
        assert_eq!(read(&wrap("*** Add File: x\nplain\n")), Err("bad-envelope".into()));
        assert_eq!(read(&wrap("*** Update File: x\n")), Err("no-hunks".into()));
        assert_eq!(read(&wrap("*** Update File: x\n a\n")), Err("no-change".into()));
        assert_eq!(read(&wrap("junk\n")), Err("bad-envelope".into()));
        let two = wrap("*** Delete File: x\n") + "\n" + &wrap("*** Delete File: y\n");
        assert_eq!(read(&two).map(|patch| (patch.files().len(), patch.several)), Ok((2, true)));
        let same = wrap("*** Delete File: x\n").repeat(2);
        assert_eq!(read(&same), Err("path-twice".into()));
        let choice = two.replace("\n\n", "\nOr instead:\n");
        assert_eq!(read(&choice), Err("several-diffs".into()));
        let beside = two.replace("\n\n", "\n+++ b/x\n");
        assert_eq!(read(&beside), Err("several-diffs".into()));
        assert_eq!(read(&wrap("*** Add File: x\n+a\n\n+b\n")), Err("bad-envelope".into()));
        assert!(read(&wrap("*** Add File: x\n+a\n\n*** Delete File: y\n")).is_ok());
        assert_eq!(
            read(&wrap("*** Delete File: x\n*** Delete File: x\n")),
            Err("path-twice".into())
        );
    }
}
