//! The tool `multi_edit`: several exact replacements in one file, all or none.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::edit_file::{read_text, told};
use super::files::Files;
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking, edit};
use crate::model::chat::ToolSpec;

/// The most edits of one call.
const MAX_EDITS: usize = 200;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace's top.
    path: String,
    /// The edits, done one after the other: each sees what the ones before it left.
    edits: Vec<Edit>,
}

/// One edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The exact text to replace.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every place instead of the only one. Default: false.
    replace_all: Option<bool>,
}

/// Edits a file at several places.
#[derive(Debug)]
pub struct MultiEdit;

impl Tool for MultiEdit {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "multi_edit",
            "Does several edits (as edit_file does one) in one file of the workspace, in their order. If one of them can't be done, none is.",
        )
    }

    fn key(&self) -> String {
        "edit_file".to_owned()
    }

    fn writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("multi_edit", arguments)?;
            if arguments.edits.is_empty() || arguments.edits.len() > MAX_EDITS {
                return Err(ToolOutput::refused(format!(
                    "give from 1 to {MAX_EDITS} edits; nothing was changed"
                )));
            }
            let files = Files::new(&context.workspace);
            let (path, mut text) = read_text(&files, &arguments.path)?;
            let mut answer = format!("edited {}:", path.display());
            for (index, step) in arguments.edits.iter().enumerate() {
                let all = step.replace_all.unwrap_or(false);
                let done = edit::replace(&text, &step.old_string, &step.new_string, all).map_err(
                    |found| {
                        let number = index + 1;
                        ToolOutput::refused(format!(
                            "{}: edit {number}: {found}; no edit was done",
                            path.display()
                        ))
                    },
                )?;
                answer.push_str(&format!("\nedit {}: {}", index + 1, told(&done.lines)));
                text = done.text;
            }
            files.write(&path, text.as_bytes(), None).map_err(refused)?;
            Ok(ToolOutput::ok(answer))
        })
    }
}
