//! The tool `edit_file`: one exact replacement in one file.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Files, MAX_FILE_BYTES, RelPath};
use super::read_file::{not_text, refused};
use super::{Tool, ToolContext, ToolOutput, args, blocking, edit};
use crate::model::chat::ToolSpec;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace's top.
    path: String,
    /// The exact text to replace, blanks and line ends included.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every place instead of the only one. Default: false.
    replace_all: Option<bool>,
}

/// Edits a file.
#[derive(Debug)]
pub struct EditFile;

impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "edit_file",
            "Replaces text in a file of the workspace. old_string must be exactly what the file holds and stand there once (or set replace_all); otherwise nothing is changed and the answer says what was found.",
        )
    }

    fn writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("edit_file", arguments)?;
            let files = Files::new(&context.workspace);
            let (path, text) = read_text(&files, &arguments.path)?;
            let all = arguments.replace_all.unwrap_or(false);
            let done = edit::replace(&text, &arguments.old_string, &arguments.new_string, all)
                .map_err(|found| ToolOutput::refused(format!("{}: {found}", path.display())))?;
            files.write(&path, done.text.as_bytes(), None).map_err(refused)?;
            Ok(ToolOutput::ok(format!("edited {}: {}", path.display(), told(&done.lines))))
        })
    }
}

/// A file to edit, as text.
pub(super) fn read_text(files: &Files<'_>, path: &str) -> Result<(RelPath, String), ToolOutput> {
    let path = files.locate(path).map_err(refused)?;
    // Told before anything else when it may not be written: a link, a directory.
    files.mode(&path).map_err(refused)?;
    let body = files.read(&path, MAX_FILE_BYTES).map_err(refused)?;
    match String::from_utf8(body) {
        Ok(text) => Ok((path, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(not_text(&path, error.as_bytes(), at))
        }
    }
}

/// `1 place (line 3)`.
pub(super) fn told(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(20).map(ToString::to_string).collect();
    let more = if lines.len() > 20 { ", …" } else { "" };
    match lines.len() {
        1 => format!("1 place (line {})", shown.join(", ")),
        count => format!("{count} places (lines {}{more})", shown.join(", ")),
    }
}
