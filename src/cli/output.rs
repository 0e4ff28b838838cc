//! Writing results. A closed pipe is success: the reader has seen enough.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use super::CliError;

/// Writes bytes to standard output.
pub fn write_stdout(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::internal(format!("failed to write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON object to standard output.
pub fn write_json(value: &impl Serialize) -> Result<(), CliError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(CliError::internal)?;
    bytes.push(b'\n');
    write_stdout(&bytes)
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
