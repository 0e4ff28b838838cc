//! The tool `grep`: lines that match a regular expression.

use std::io;

use futures_util::future::BoxFuture;
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Files, Found, RelPath, Walk};
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking};
use crate::model::chat::ToolSpec;

/// The most matching lines of one answer.
const MAX_MATCHES: usize = 200;
/// The most bytes of one answer.
const MAX_BYTES: usize = 48 * 1024;
/// The most characters of a line that are shown.
const MAX_LINE: usize = 400;
/// The most lines of context on either side.
const MAX_CONTEXT: usize = 10;
/// The largest compiled expression, in bytes.
const MAX_REGEX: usize = 4 << 20;
/// Larger files are not searched, in bytes.
const MAX_SEARCHED: u64 = 64 << 20;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The regular expression (Rust's syntax, one line at a time).
    pattern: String,
    /// The file or directory to search, relative to the workspace's top. Default: the top.
    path: Option<String>,
    /// Search only files whose path matches this glob, for example `*.rs`.
    glob: Option<String>,
    /// Whether upper and lower case are the same. Default: false.
    ignore_case: Option<bool>,
    /// Whether the pattern is plain text instead of an expression. Default: false.
    literal: Option<bool>,
    /// Lines to show before and after each match, at most 10. Default: 0.
    context: Option<usize>,
    /// Whether to list only the paths of files that match. Default: false.
    files_only: Option<bool>,
}

/// Searches files.
#[derive(Debug)]
pub struct Grep;

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "grep",
            "Searches the workspace's files for lines that match a regular expression: `path:line:text` for a match, `path-line-text` for context. Files that .gitignore leaves out, binary files and files of secrets are not searched.",
        )
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("grep", arguments)?;
            let matcher = compile(&arguments)?;
            let filter = arguments.glob.as_deref().map(super::glob::matcher).transpose()?;
            let files = Files::new(&context.workspace);
            let top = files.locate(arguments.path.as_deref().unwrap_or(".")).map_err(refused)?;
            let found = candidates(context, &top)?;
            let mut lines = Lines::new(arguments.files_only.unwrap_or(false));
            let around = arguments.context.unwrap_or(0).min(MAX_CONTEXT);
            let mut searcher = searcher(around);
            for path in found.files.iter().filter(|path| passes(filter.as_ref(), &top, path)) {
                if lines.full || context.cancel.is_cancelled() {
                    break;
                }
                lines.search(&mut searcher, &matcher, files, path);
            }
            Ok(ToolOutput::ok(lines.answer(&arguments.pattern, &found)))
        })
    }
}

fn compile(arguments: &Arguments) -> Result<RegexMatcher, ToolOutput> {
    RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case.unwrap_or(false))
        .fixed_strings(arguments.literal.unwrap_or(false))
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_REGEX)
        .line_terminator(Some(b'\n'))
        .build(&arguments.pattern)
        .map_err(|error| {
            ToolOutput::refused(format!(
                "the pattern can't be used: {error}; set literal for plain text"
            ))
        })
}

fn searcher(around: usize) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .before_context(around)
        .after_context(around)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(16 << 20))
        .build()
}

/// The one file that was named, or what a walk finds.
fn candidates(context: &ToolContext, top: &RelPath) -> Result<Found, ToolOutput> {
    let files = Files::new(&context.workspace);
    let (resolved, stat) = files.stat(top).map_err(refused)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Walk::run(files, &resolved, &context.cancel).map_err(refused);
    }
    // Refused here, not skipped: it was asked for by name.
    files.open(top).map_err(refused)?;
    Ok(Found { files: vec![top.clone()], cut: false, secrets: 0 })
}

fn passes(filter: Option<&GlobMatcher>, top: &RelPath, path: &RelPath) -> bool {
    let Some(filter) = filter else { return true };
    let below = path.as_path().strip_prefix(top.as_path()).unwrap_or(path.as_path());
    filter.is_match(path.as_path()) || filter.is_match(below)
}

/// The answer as it grows.
struct Lines {
    files_only: bool,
    text: String,
    matches: usize,
    files: usize,
    full: bool,
}

impl Lines {
    fn new(files_only: bool) -> Self {
        Self { files_only, text: String::new(), matches: 0, files: 0, full: false }
    }

    /// Searches one file; one that can't be read or is too large is passed over.
    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        files: Files<'_>,
        path: &RelPath,
    ) {
        let Ok((file, bytes)) = files.open(path) else { return };
        if bytes > MAX_SEARCHED {
            return;
        }
        let before = self.matches;
        let sink = FileSink { lines: self, path: path.listed(), begun: false };
        // An error here is a line that is longer than the heap limit: what was found before it counts.
        let _ = searcher.search_file(matcher, &file, sink);
        if self.matches > before {
            self.files += 1;
        }
    }

    fn push(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() > MAX_BYTES {
            self.full = true;
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    fn answer(mut self, pattern: &str, found: &Found) -> String {
        if self.matches == 0 {
            self.text = format!("[no match for {pattern:?} in {} files]\n", found.files.len());
        }
        if self.full {
            self.text
                .push_str("[there are more matches; narrow the pattern, the path or the glob]\n");
        }
        if found.cut {
            self.text
                .push_str("[the tree is too large: a part of it was not searched; give a path]\n");
        }
        if found.secrets > 0 {
            let (files, were) =
                if found.secrets == 1 { ("file", "was") } else { ("files", "were") };
            self.text
                .push_str(&format!("[{} {files} of secrets {were} not searched]\n", found.secrets));
        }
        self.text
    }
}

/// Takes one file's lines.
struct FileSink<'l> {
    lines: &'l mut Lines,
    path: String,
    begun: bool,
}

impl FileSink<'_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut shown: String = text.chars().take(MAX_LINE).collect();
        if shown.len() < text.len() {
            shown.push_str(" […]");
        }
        let line = format!("{}{mark}{}{mark}{shown}", self.path, number.unwrap_or(0));
        self.lines.push(&line)
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.lines.matches == MAX_MATCHES {
            self.lines.full = true;
            return Ok(false);
        }
        self.begun = true;
        self.lines.matches += 1;
        if self.lines.files_only {
            let path = self.path.clone();
            self.lines.push(&path);
            return Ok(false);
        }
        Ok(self.line(found.line_number(), ':', found.bytes()))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.lines.files_only || matches!(found.kind(), SinkContextKind::Other) {
            return Ok(true);
        }
        self.begun = true;
        Ok(self.line(found.line_number(), '-', found.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.lines.files_only || !self.begun || self.lines.push("--"))
    }
}
