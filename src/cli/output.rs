//! Writing results. A closed pipe is success: the reader has seen enough.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use super::CliError;
use super::context::Context;
use crate::model::printable::block;
use crate::report::{self, Style};

/// Writes bytes to standard output.
pub fn write_stdout(bytes: &[u8]) -> Result<(), CliError> {
    stream_stdout(bytes).map(drop)
}

/// Writes what goes on for long; false when nobody reads it any more.
pub fn stream_stdout(bytes: &[u8]) -> Result<bool, CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(CliError::internal(format!("failed to write to standard output: {error}")))
        }
    }
}

/// Writes text in which foreign words stand (names, commands and paths of a repository).
pub fn write_text(text: &str) -> Result<(), CliError> {
    write_stdout(block(text).as_bytes())
}

/// Tells standard error the same way.
pub fn tell(text: &str) {
    // Nothing is left to be done when standard error is closed.
    let _ = io::stderr().write_all(block(text).as_bytes());
}

/// Writes a diff byte for byte, so that it can be applied; to a terminal only what is safe there.
pub fn write_diff(diff: &[u8], context: &Context) -> Result<(), CliError> {
    write_stdout(&shown(diff, io::stdout().is_terminal(), &context.style()))
}

fn shown<'d>(diff: &'d [u8], terminal: bool, style: &Style) -> Cow<'d, [u8]> {
    match terminal {
        true => report::diff(diff, style).into_bytes().into(),
        false => diff.into(),
    }
}

/// Writes one JSON object to standard output.
pub fn write_json(value: &impl Serialize) -> Result<(), CliError> {
    stream_json(value).map(drop)
}

/// The same; false when nobody reads it.
pub fn stream_json(value: &impl Serialize) -> Result<bool, CliError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(CliError::internal)?;
    bytes.push(b'\n');
    stream_stdout(&bytes)
}

/// Whether a path leads to something that is written to and never replaced: a device, a pipe.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Writes a result to a file, whole or not at all, or to standard output for `-`. A link is followed,
/// and a file that is there keeps its mode.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    if path == Path::new("-") {
        return write_stdout(bytes);
    }
    let written = match is_special(path) {
        true => {
            fs::OpenOptions::new().write(true).open(path).and_then(|mut to| to.write_all(bytes))
        }
        false => replace(path, bytes),
    };
    written
        .map_err(|error| CliError::internal(format!("failed to write {}: {error}", path.display())))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A name that leads nowhere yet is taken as it stands.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = fs::metadata(&path).map(|meta| meta.permissions());
    // Without that it would be readable for its owner alone.
    let ordinary = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(ordinary).tempfile_in(dir)?;
    file.write_all(bytes)?;
    if let Ok(mode) = mode {
        file.as_file().set_permissions(mode)?;
    }
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_character_of_a_diff_and_a_pipe_gets_every_byte() {
        let diff = b"+\x1b]0;title\x07\x1b[2Jx\x9b\xe2\x80\xae\r\n";
        for colour in [false, true] {
            let style = Style { columns: 80, colour };
            assert_eq!(*shown(diff, false, &style), *diff);
            let told = String::from_utf8(shown(diff, true, &style).into_owned()).unwrap();
            assert!(!told.contains("title") && !told.contains("[2J"), "{told:?}");
            assert!(!told.contains(['\u{7}', '\r', '\u{202e}']), "{told:?}");
        }
    }
}
