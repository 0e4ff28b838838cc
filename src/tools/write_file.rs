//! The tool `write_file`: a whole file.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{Files, MAX_FILE_BYTES, Written};
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking, secrets};
use crate::model::chat::ToolSpec;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the workspace's top.
    path: String,
    /// The file's whole new contents.
    content: String,
    /// Whether the file may be executed. Default: as it was; a new file may not.
    executable: Option<bool>,
}

/// Writes a file.
#[derive(Debug)]
pub struct WriteFile;

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "write_file",
            "Writes a whole file of the workspace, new or in place of the old one; missing directories are made. To change a part of a file use edit_file.",
        )
    }

    fn writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("write_file", arguments)?;
            let files = Files::new(&context.workspace);
            let path = files.locate(&arguments.path).map_err(refused)?;
            // What it may not read it may not lose either.
            if let Ok((resolved, _)) = files.stat(&path)
                && [&path, &resolved].into_iter().any(|path| secrets::is_secret(path.as_path()))
            {
                return Err(ToolOutput::refused(format!(
                    "{} is there and holds secrets by its name: it is not replaced",
                    path.display()
                )));
            }
            let bytes = arguments.content.as_bytes();
            if bytes.len() as u64 > MAX_FILE_BYTES {
                return Err(ToolOutput::refused(format!(
                    "the content has {} bytes; at most {MAX_FILE_BYTES} are written",
                    bytes.len()
                )));
            }
            let written = files.write(&path, bytes, arguments.executable).map_err(refused)?;
            let how = match written {
                Written::Created => "created",
                Written::Replaced => "replaced",
            };
            let lines = arguments.content.lines().count();
            Ok(ToolOutput::ok(format!(
                "{how} {}: {lines} lines, {} bytes",
                path.display(),
                bytes.len()
            )))
        })
    }
}
