//! Writing results. A closed pipe is success: the reader has seen enough.

use std::io::{self, Write};
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

/// Writes a result to a file, whole or not at all, or to standard output for `-`.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    if path == Path::new("-") {
        return write_stdout(bytes);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write()
        .map_err(|error| CliError::internal(format!("failed to write {}: {error}", path.display())))
}
