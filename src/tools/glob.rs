//! The tool `glob`: files by a pattern of their paths.

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Files, Found, Walk};
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking};
use crate::model::chat::ToolSpec;

/// The most paths of one answer.
const MAX_PATHS: usize = 500;
/// The most bytes of paths in one answer.
const MAX_BYTES: usize = 48 * 1024;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The pattern, for example `src/**/*.rs`; one without a / is looked for at every depth.
    pattern: String,
    /// The directory to look in, relative to the workspace's top. Default: the top.
    path: Option<String>,
}

/// Finds files.
#[derive(Debug)]
pub struct Glob;

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "glob",
            "Lists the workspace's files whose path matches a pattern (*, **, ?, [a-z], {a,b}), sorted, one a line. Files that .gitignore leaves out are not listed.",
        )
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("glob", arguments)?;
            let matcher = matcher(&arguments.pattern)?;
            let files = Files::new(&context.workspace);
            let top = files.locate(arguments.path.as_deref().unwrap_or(".")).map_err(refused)?;
            let top = files.resolve(&top).map_err(refused)?;
            let found = Walk::run(files, &top, &context.cancel).map_err(refused)?;
            let hits = found.files.iter().filter(|path| {
                // A pattern counts from the directory that was asked for.
                path.as_path().strip_prefix(top.as_path()).is_ok_and(|rest| matcher.is_match(rest))
            });
            let paths: Vec<String> = hits.map(super::files::RelPath::listed).collect();
            Ok(ToolOutput::ok(answer(&arguments.pattern, &paths, &found)))
        })
    }
}

/// Reads a pattern.
///
/// # Errors
/// The answer to the model when it is none.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, ToolOutput> {
    let trimmed = pattern.trim_start_matches("./");
    let whole = if trimmed.contains('/') { trimmed.to_owned() } else { format!("**/{trimmed}") };
    let glob = GlobBuilder::new(&whole).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        ToolOutput::refused(format!("the pattern {pattern:?} is no glob: {}", error.kind()))
    })
}

fn answer(pattern: &str, paths: &[String], found: &Found) -> String {
    let mut bytes = 0;
    let shown = paths.iter().take(MAX_PATHS).take_while(|path| {
        bytes += path.len() + 1;
        bytes <= MAX_BYTES
    });
    let mut lines: Vec<String> = shown.cloned().collect();
    if paths.is_empty() {
        lines.push(format!("[no file matches {pattern}]"));
    } else if lines.len() < paths.len() {
        lines.push(format!(
            "[{} of {} paths; narrow the pattern to see the rest]",
            lines.len(),
            paths.len()
        ));
    }
    if found.cut {
        lines.push(
            "[the tree is too large: a part of it was not looked at; give a path]".to_owned(),
        );
    }
    lines.join("\n")
}
