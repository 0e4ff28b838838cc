//! The tool `list_dir`: one directory's entries.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Entry, EntryKind, Files, listed};
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking};
use crate::model::chat::ToolSpec;

/// The most entries of one answer.
const MAX_ENTRIES: usize = 1000;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory, relative to the workspace's top. Default: the top.
    path: Option<String>,
}

/// Lists a directory.
#[derive(Debug)]
pub struct ListDir;

impl Tool for ListDir {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "list_dir",
            "Lists one directory of the workspace, one entry a line: directories end in /, links show where they lead, files their size in bytes. Git's own directory is left out.",
        )
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("list_dir", arguments)?;
            let files = Files::new(&context.workspace);
            let path = files.locate(arguments.path.as_deref().unwrap_or(".")).map_err(refused)?;
            let (entries, more) = files.list(&path, MAX_ENTRIES).map_err(refused)?;
            let mut lines: Vec<String> = entries.iter().map(line).collect();
            if lines.is_empty() {
                lines.push(format!("[{} is empty]", path.display()));
            }
            if more {
                lines.push(format!("[more than {MAX_ENTRIES} entries: the rest is left out; use glob with a pattern]"));
            }
            Ok(ToolOutput::ok(lines.join("\n")))
        })
    }
}

fn line(entry: &Entry) -> String {
    let name = listed(&entry.name);
    match &entry.kind {
        EntryKind::File(bytes) => format!("{name}  {bytes}"),
        EntryKind::Directory => format!("{name}/"),
        EntryKind::Link(target) => format!("{name} -> {}", target.to_string_lossy().escape_debug()),
        EntryKind::Special => format!("{name}  (special)"),
    }
}
