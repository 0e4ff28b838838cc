//! The tool `read_file`: a text file's exact bytes, whole or a range of lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Files, MAX_FILE_BYTES, RelPath};
use super::{Tool, ToolContext, ToolOutput, args, blocking};
use crate::model::chat::ToolSpec;

/// The most bytes of a file that one answer holds.
const MAX_BODY: usize = 64 * 1024;
/// What of it is the file's beginning, when the file is cut.
const HEAD: usize = 40 * 1024;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace's top.
    path: String,
    /// The first line wanted, from 1. Default: 1.
    start_line: Option<u64>,
    /// The last line wanted, inclusive. Default: the last one.
    end_line: Option<u64>,
}

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile;

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "read_file",
            "Reads a text file of the workspace, or a range of its lines (from 1, inclusive). The text comes as it is in the file, without line numbers, so that it can be used in edit_file. When a range was asked for or the file is too long, one line in brackets before the text says which lines follow.",
        )
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("read_file", arguments)?;
            let files = Files::new(&context.workspace);
            let path = files.locate(&arguments.path).map_err(refused)?;
            if let (Some(first), last) = (arguments.start_line, arguments.end_line) {
                let (file, bytes) = files.open(&path).map_err(refused)?;
                if bytes > MAX_FILE_BYTES {
                    return stream(&path, file, first, last);
                }
            }
            let body = files.read(&path, MAX_FILE_BYTES).map_err(refused)?;
            let text = match std::str::from_utf8(&body) {
                Ok(text) => text,
                Err(error) => return Err(not_text(&path, &body, error.valid_up_to())),
            };
            show(&path, text, arguments.start_line, arguments.end_line)
        })
    }
}

/// The answer for a failure of the file layer.
pub(super) fn refused(error: super::files::FileError) -> ToolOutput {
    ToolOutput::refused(error.to_string())
}

/// The answer for bytes that are no UTF-8 text.
pub(super) fn not_text(path: &RelPath, body: &[u8], at: usize) -> ToolOutput {
    let kind = if body.contains(&0) { "a binary file" } else { "not UTF-8 text" };
    ToolOutput::refused(format!(
        "{:?} is {kind} ({} bytes; the first that is no UTF-8 is at offset {at}); it can't be shown or edited as text",
        path.display(),
        body.len()
    ))
}

/// The whole text as it is, or a notice line and the part that was asked for.
fn show(
    path: &RelPath,
    text: &str,
    start: Option<u64>,
    end: Option<u64>,
) -> Result<ToolOutput, ToolOutput> {
    let path = path.display();
    if text.is_empty() {
        return Ok(ToolOutput::ok(format!("[{path} is empty]")));
    }
    let starts = line_starts(text);
    let total = starts.len() as u64;
    let (first, last) = (start.unwrap_or(1), end.unwrap_or(total).min(total));
    if first == 0 || first > last {
        return Err(ToolOutput::refused(format!(
            "{path:?} has {total} lines; lines {first} to {} can't be shown",
            end.unwrap_or(total)
        )));
    }
    let offset = |line: u64| {
        let index = usize::try_from(line).unwrap_or(usize::MAX);
        starts.get(index).copied().unwrap_or(text.len())
    };
    let part = &text[offset(first - 1)..offset(last)];
    if part.len() > MAX_BODY {
        return Ok(ToolOutput::ok(cut(&path, part, first, total)));
    }
    if first == 1 && last == total {
        return Ok(ToolOutput::ok(part));
    }
    Ok(ToolOutput::ok(format!("[{path}: lines {first} to {last} of {total}]\n{part}")))
}

/// Lines of a file that is too large to be held: read from its beginning, and no further than they go.
fn stream(
    path: &RelPath,
    file: File,
    first: u64,
    last: Option<u64>,
) -> Result<ToolOutput, ToolOutput> {
    let name = path.display();
    let failed =
        |error: std::io::Error| ToolOutput::refused(format!("{name:?} can't be read: {error}"));
    if first == 0 || last.is_some_and(|last| last < first) {
        return Err(ToolOutput::refused(format!(
            "{name:?}: lines count from 1, and end_line is not below start_line"
        )));
    }
    let too_few = |lines: u64| {
        ToolOutput::refused(format!("{name:?} has {lines} lines; line {first} can't be shown"))
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    for line in 1..first {
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            return Err(too_few(line - 1));
        }
    }
    let mut body = Vec::new();
    let mut shown = first - 1;
    while last.is_none_or(|last| shown < last) && body.len() <= MAX_BODY {
        // One more than is shown, so that a line that is cut is known to be.
        let room = (MAX_BODY + 1).saturating_sub(body.len()) as u64;
        if reader.by_ref().take(room).read_until(b'\n', &mut body).map_err(failed)? == 0 {
            break;
        }
        shown += 1;
    }
    if shown < first {
        return Err(too_few(shown));
    }
    let cut = body.len() > MAX_BODY;
    body.truncate(MAX_BODY);
    let text = match std::str::from_utf8(&body) {
        Ok(text) => text,
        // What the cut has split is no fault of the file's.
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(not_text(path, &body, error.valid_up_to())),
    };
    let more = if cut { format!("; the rest is left out in line {shown}") } else { String::new() };
    Ok(ToolOutput::ok(format!("[{name}: lines {first} to {shown} of a large file{more}]\n{text}")))
}

/// Head and tail of a long text, each under a notice of its own, so that neither is changed.
fn cut(path: &str, part: &str, first: u64, total: u64) -> String {
    let head = &part[..head_end(part)];
    let tail = &part[tail_start(part)..];
    let head_lines = lines_in(head);
    let last = first + lines_in(part) - 1;
    let tail_first = last + 1 - lines_in(tail);
    let head_last = first + head_lines - 1;
    let hidden = part.len() - head.len() - tail.len();
    let break_after = if head.ends_with('\n') { "" } else { "\n" };
    format!(
        "[{path}: lines {first} to {head_last} of {total}; {hidden} bytes are left out before lines {tail_first} to {last}, which follow below; ask for other lines with start_line and end_line]\n{head}{break_after}[{path}: lines {tail_first} to {last} of {total}]\n{tail}"
    )
}

/// Where the head ends: after a line, when a line ends in it, else on a character boundary.
fn head_end(text: &str) -> usize {
    let most = (0..=HEAD).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..most].rfind('\n').map_or(most, |at| at + 1)
}

/// Where the tail starts: at a line, when one starts in it.
fn tail_start(text: &str) -> usize {
    let least = text.len() - (MAX_BODY - HEAD);
    let least = (least..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    match text[least..].find('\n').map(|at| least + at + 1) {
        Some(start) if start < text.len() => start,
        _ => least,
    }
}

fn lines_in(text: &str) -> u64 {
    line_starts(text).len() as u64
}

/// The offset at which each line starts; a final newline starts no line.
fn line_starts(text: &str) -> Vec<usize> {
    let after = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after).filter(|at| *at < text.len()).collect()
}
