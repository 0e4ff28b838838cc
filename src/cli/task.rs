//! The task's text: from an argument, a file or standard input.

use std::io::Read;
use std::path::Path;

use super::CliError;
use super::flags::TaskFlags;
use crate::model::{Task, TaskSource};

/// Reads the task, if one was given.
pub fn read(flags: &TaskFlags) -> Result<Option<Task>, CliError> {
    let (bytes, source) = match (&flags.task, &flags.task_file) {
        (None, None) => return Ok(None),
        (_, Some(path)) if path == Path::new("-") => (stdin()?, TaskSource::Stdin),
        (_, Some(path)) => {
            let source = TaskSource::File { path: path.display().to_string() };
            (file(path)?, source)
        }
        (Some(text), None) if text == "-" => (stdin()?, TaskSource::Stdin),
        (Some(text), None) => (text.clone().into_bytes(), TaskSource::Argument),
    };
    check(bytes, source).map(Some)
}

fn check(bytes: Vec<u8>, source: TaskSource) -> Result<Task, CliError> {
    if bytes.len() > Task::MAX_BYTES {
        return Err(CliError::usage(format!(
            "the task has more than {} bytes; give the essence and let the workers read the rest in the repository",
            Task::MAX_BYTES
        )));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| CliError::usage(format!("the task is not UTF-8 text: {error}")))?;
    if text.trim().is_empty() {
        return Err(CliError::usage(
            "the task is empty; say what to do: bakeoff run \"fix X\", or --task-file FILE, or - for standard input",
        ));
    }
    Ok(Task { text, source })
}

fn file(path: &Path) -> Result<Vec<u8>, CliError> {
    let open = std::fs::File::open(path).map_err(|error| {
        CliError::usage(format!("failed to read the task file {}: {error}", path.display()))
    })?;
    limited(open).map_err(|error| {
        CliError::usage(format!("failed to read the task file {}: {error}", path.display()))
    })
}

fn stdin() -> Result<Vec<u8>, CliError> {
    limited(std::io::stdin().lock()).map_err(|error| {
        CliError::usage(format!("failed to read the task from standard input: {error}"))
    })
}

/// One byte more than is allowed is enough to know.
fn limited(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(Task::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<Option<Task>, CliError> {
        read(&TaskFlags { task: Some(text.to_owned()), task_file: None })
    }

    #[test]
    fn empty_and_huge_tasks_are_refused_with_the_next_step() {
        assert!(text(" \n").unwrap_err().message.contains("--task-file"));
        assert!(text(&"x".repeat(10 << 20)).unwrap_err().message.contains("1048576 bytes"));
        assert_eq!(text("fix it").unwrap().unwrap().source, TaskSource::Argument);
        assert_eq!(read(&TaskFlags::default()).unwrap(), None);
    }
}
