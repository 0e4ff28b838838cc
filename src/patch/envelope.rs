//! `*** Begin Patch` envelopes, the format of the tool `apply_patch`.
//!
//! Never here: finding a chunk's place (see `chunks`).

use super::bytes::{RawLine, Source};
use super::chunks::Chunk;
use super::cursor;
use super::file::{Body, FilePatch, Line, LineKind, Patch, Prefix};
use super::mode;
use super::refuse::{Detail, refuse};
use crate::model::{ChangeKind, Refusal, Repair};

const BEGIN: &[u8] = b"*** Begin Patch";
const END: &[u8] = b"*** End Patch";
const END_OF_FILE: &[u8] = b"*** End of File";

/// The index of the line that opens an envelope.
pub(super) fn find(lines: &[RawLine<'_>]) -> Option<usize> {
    lines.iter().position(|line| line.text.trim_ascii_end() == BEGIN)
}

/// Reads the only envelope of a document.
pub(super) fn parse(source: &Source<'_>) -> Result<Patch, Refusal> {
    let lines = &source.lines;
    let begin = find(lines).unwrap_or(0);
    let end = lines.iter().position(|line| line.text.trim_ascii_end() == END);
    let end = end.filter(|end| *end > begin).ok_or_else(|| {
        refuse("truncated", "the envelope has no `*** End Patch`: the diff seems to be cut off")
    })?;
    let outside = || lines[..begin].iter().chain(&lines[end + 1..]);
    let other = |line: &&RawLine<'_>| {
        line.text.starts_with(b"diff --git ")
            || line.text.starts_with(b"+++ ")
            || line.text.starts_with(b"*** ")
    };
    if outside().any(|line| other(&line)) {
        return Err(refuse("several-diffs", "beside the envelope there is another diff: send one"));
    }
    let files = Reader { lines: &lines[begin + 1..end], at: 0, first: begin + 2 }.files()?;
    let mut repairs = repairs(outside());
    if source.mark {
        let detail = "a byte order mark before the diff was taken off".to_owned();
        repairs.push(Repair { code: "byte-order-mark".to_owned(), detail });
    }
    Ok(Patch { files, repairs, crlf: source.crlf, several: false })
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
        while let Some(text) = self.text().filter(|text| !text.starts_with(b"*** ")) {
            match text.strip_prefix(b"+") {
                Some(line) => {
                    body.extend_from_slice(line);
                    body.push(b'\n');
                }
                None if text.is_empty() => {}
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
        while let Some(text) = self.text() {
            if text == END_OF_FILE {
                chunk.at_end = true;
                chunks.push(std::mem::take(&mut chunk));
            } else if text.starts_with(b"*** ") {
                break;
            } else if let Some(rest) = text.strip_prefix(b"@@") {
                if !chunk.lines.is_empty() {
                    chunks.push(std::mem::take(&mut chunk));
                }
                chunk.anchors.extend(anchor(rest));
            } else {
                chunk.lines.push(self.line(text)?);
            }
            self.at += 1;
        }
        while chunk
            .lines
            .last()
            .is_some_and(|line| line.kind == LineKind::Context && line.text == b"\n")
        {
            // A blank line before the next file is no context.
            chunk.lines.pop();
        }
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

/// The text of an `@@` line. Line numbers, which the format does not have, say nothing.
fn anchor(rest: &[u8]) -> Option<Vec<u8>> {
    let text = rest.trim_ascii();
    let numbers = text.starts_with(b"-") && text.contains(&b'+') && text.ends_with(b"@@");
    (!text.is_empty() && !numbers).then(|| text.to_vec())
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
    fn form_is_strict() {
        let wrap = |inside: &str| format!("*** Begin Patch\n{inside}*** End Patch\n");
        assert_eq!(read("*** Begin Patch\n*** Delete File: x\n"), Err("truncated".into()));
        assert_eq!(read(&wrap("")), Err("empty".into()));
        assert_eq!(read(&wrap("*** Add File: x\nplain\n")), Err("bad-envelope".into()));
        assert_eq!(read(&wrap("*** Update File: x\n")), Err("no-hunks".into()));
        assert_eq!(read(&wrap("*** Update File: x\n a\n")), Err("no-change".into()));
        assert_eq!(read(&wrap("junk\n")), Err("bad-envelope".into()));
        let two = wrap("*** Delete File: x\n").repeat(2);
        assert_eq!(read(&two), Err("several-diffs".into()));
        assert_eq!(
            read(&wrap("*** Delete File: x\n*** Delete File: x\n")),
            Err("path-twice".into())
        );
    }
}
