//! The tool `apply_patch`: a whole diff over the workspace's files, all of it or nothing.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::{FileError, Files, MAX_FILE_BYTES, RelPath};
use super::read_file::refused;
use super::{Tool, ToolContext, ToolOutput, args, blocking};
use crate::model::chat::ToolSpec;
use crate::model::{ChangeKind, Refusal, clip};
use crate::patch::{self, FilePatch, Patch, Rules};

/// The most bytes of what a diff expected and what was found that an answer shows.
const MAX_SHOWN: usize = 2000;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The diff: git's unified format, or an envelope of `*** Begin Patch` and `*** End Patch`.
    patch: String,
}

/// Applies a diff.
#[derive(Debug)]
pub struct ApplyPatch;

impl Tool for ApplyPatch {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "apply_patch",
            "Applies a diff to the workspace: git's unified format (paths with a/ and b/) or a `*** Begin Patch` envelope. Its context must be exactly what the files hold. If any part of it does not apply, nothing is changed and the answer says what was found.",
        )
    }

    fn writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        blocking(context, move |context| {
            let arguments: Arguments = args::parse("apply_patch", arguments)?;
            let files = Files::new(&context.workspace);
            let patch = read(&arguments.patch)?;
            let steps: Vec<Step> =
                patch.files().iter().map(|file| plan(files, file)).collect::<Result<_, _>>()?;
            commit(files, &steps)?;
            Ok(ToolOutput::ok(summary(&patch)))
        })
    }
}

fn read(text: &str) -> Result<Patch, ToolOutput> {
    if text.lines().any(|line| line.trim_end() == "GIT binary patch") {
        let why = "binary patches are not taken; write the file in another way";
        return Err(told(refuse("binary", why)));
    }
    patch::parse(text.as_bytes(), &Rules::default()).map_err(told)
}

/// What a section of the diff does to the workspace.
struct Step {
    /// The file that goes away.
    remove: Option<RelPath>,
    /// The file that is written, with its contents and whether it may be executed.
    write: Option<(RelPath, Vec<u8>, Option<bool>)>,
}

/// Applies one section in memory.
fn plan(files: Files<'_>, file: &FilePatch) -> Result<Step, ToolOutput> {
    let old_path = file.old_path().map(|path| locate(files, path)).transpose()?;
    let new_path = file.new_path().map(|path| locate(files, path)).transpose()?;
    let source = old_path.as_ref().or(new_path.as_ref());
    let old = source.map_or(Ok(None), |path| read_if_there(files, path))?;
    let new = file.apply(old.as_deref()).map_err(told)?;
    let moves = matches!(file.change(), ChangeKind::Renamed | ChangeKind::Copied);
    if let (true, Some(target)) = (moves, &new_path)
        && files.mode(target).map_err(refused)?.is_some()
    {
        return Err(told(refuse(
            "already-exists",
            &format!("{} is there already", target.display()),
        )));
    }
    let executable = executable(files, file, source.filter(|_| moves))?;
    let gone = matches!(file.change(), ChangeKind::Deleted | ChangeKind::Renamed);
    Ok(Step {
        remove: old_path.filter(|_| gone),
        write: new_path.zip(new).map(|(path, bytes)| (path, bytes, executable)),
    })
}

fn locate(files: Files<'_>, path: &[u8]) -> Result<RelPath, ToolOutput> {
    let path = std::str::from_utf8(path).map_err(|_| {
        ToolOutput::refused("the diff names a path that is not UTF-8; nothing was changed")
    })?;
    files.locate(path).map_err(refused)
}

/// A file's bytes; `None` when it is not there. What may not be written is refused at once.
fn read_if_there(files: Files<'_>, path: &RelPath) -> Result<Option<Vec<u8>>, ToolOutput> {
    match files.mode(path).map_err(refused)? {
        Some(_) => files.read(path, MAX_FILE_BYTES).map(Some).map_err(refused),
        None => Ok(None),
    }
}

/// Whether the new file may be executed: as the diff says, or as the file that it comes from.
fn executable(
    files: Files<'_>,
    file: &FilePatch,
    source: Option<&RelPath>,
) -> Result<Option<bool>, ToolOutput> {
    match file.new_mode() {
        None => {}
        Some(mode) if file.change() != ChangeKind::Deleted => match mode {
            0o100_644 => return Ok(Some(false)),
            0o100_755 => return Ok(Some(true)),
            _ => return Err(told(refuse("mode", "only the modes 100644 and 100755 are taken"))),
        },
        Some(_) => return Ok(None),
    }
    let mode = source.map_or(Ok(None), |path| files.mode(path)).map_err(refused)?;
    Ok(mode.map(|mode| mode & 0o111 != 0))
}

/// What stood at a path before.
struct Before {
    path: RelPath,
    old: Option<(Vec<u8>, u32)>,
}

/// Writes all steps; when one fails, puts back what stood there.
fn commit(files: Files<'_>, steps: &[Step]) -> Result<(), ToolOutput> {
    let removed = steps.iter().filter_map(|step| step.remove.as_ref());
    let written = steps.iter().filter_map(|step| step.write.as_ref());
    let paths = removed.clone().chain(written.clone().map(|(path, ..)| path));
    let before: Vec<Before> = paths.map(|path| remember(files, path)).collect::<Result<_, _>>()?;
    let done = removed
        .map(|path| files.remove(path))
        .chain(
            written
                .map(|(path, bytes, executable)| files.write(path, bytes, *executable).map(drop)),
        )
        .collect::<Result<(), FileError>>();
    done.map_err(|error| {
        let back = before.iter().all(|before| put_back(files, before).is_ok());
        let rest = if back {
            "nothing was changed"
        } else {
            "some files could not be put back: look at them"
        };
        ToolOutput::refused(format!("{error}; {rest}"))
    })
}

fn remember(files: Files<'_>, path: &RelPath) -> Result<Before, ToolOutput> {
    let mode = files.mode(path).map_err(refused)?;
    let old = mode.map(|mode| files.read(path, MAX_FILE_BYTES).map(|bytes| (bytes, mode)));
    Ok(Before { path: path.clone(), old: old.transpose().map_err(refused)? })
}

fn put_back(files: Files<'_>, before: &Before) -> Result<(), FileError> {
    match &before.old {
        Some((bytes, mode)) => files.write(&before.path, bytes, Some(mode & 0o111 != 0)).map(drop),
        None => match files.remove(&before.path) {
            Err(FileError::NotFound { .. } | FileError::NotDirectory { .. }) => Ok(()),
            other => other,
        },
    }
}

fn refuse(code: &str, message: &str) -> Refusal {
    Refusal {
        code: code.to_owned(),
        message: message.to_owned(),
        path: None,
        hunk: None,
        expected: None,
        found: None,
    }
}

/// A refusal in words.
fn told(refusal: Refusal) -> ToolOutput {
    let mut text = String::new();
    if let Some(path) = &refusal.path {
        text.push_str(&format!("{path}: "));
    }
    if let Some(hunk) = refusal.hunk {
        text.push_str(&format!("hunk {hunk}: "));
    }
    text.push_str(&format!("{} ({}); nothing was changed", refusal.message, refusal.code));
    for (name, part) in [("expected", &refusal.expected), ("found", &refusal.found)] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}:\n{}", clip(part, MAX_SHOWN).text));
        }
    }
    ToolOutput::refused(text)
}

fn summary(patch: &Patch) -> String {
    let mut lines = vec![format!("applied to {} files:", patch.files().len())];
    for file in patch.files() {
        let (added, removed) = file.counts();
        let what = match file.change() {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "changed",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Renamed => "renamed",
            ChangeKind::Copied => "copied",
            ChangeKind::Mode => "mode of",
        };
        lines
            .push(format!("{what} {} (+{added} -{removed})", String::from_utf8_lossy(file.path())));
    }
    lines.extend(patch.repairs().iter().map(|repair| format!("mended: {}", repair.detail)));
    let mut text = lines.join("\n");
    if text.len() > super::MAX_OUTPUT / 2 {
        text = clip(&text, super::MAX_OUTPUT / 2).text;
    }
    text
}
