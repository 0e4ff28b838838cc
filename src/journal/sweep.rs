//! What a kill leaves in a run's directory: temporary files that were never renamed, and the socket of an
//! engine that is gone.
//! Only whoever holds the run's lock may take them away.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// How `tempfile` names its files.
const HALF_WRITTEN: &str = ".tmp";

/// Removes sockets in `dir`, and half-written files of it and of its artifacts. What is not there is no error.
pub(super) fn sweep(dir: &Path) -> io::Result<()> {
    for entry in entries(dir)? {
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    sweep_one(dir)?;
    let artifacts = dir.join("artifacts");
    sweep_one(&artifacts)?;
    for shard in entries(&artifacts)? {
        if shard.file_type()?.is_dir() {
            sweep_one(&shard.path())?;
        }
    }
    Ok(())
}

fn sweep_one(dir: &Path) -> io::Result<()> {
    for entry in entries(dir)? {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(HALF_WRITTEN));
        if is_ours && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_half_written_goes() {
        let dir = tempfile::tempdir().unwrap();
        let shard = dir.path().join("artifacts/ab");
        fs::create_dir_all(&shard).unwrap();
        let all = [
            "journal.jsonl",
            ".tmpX1",
            "artifacts/.tmpX2",
            "artifacts/ab/.tmpX3",
            "artifacts/ab/cd",
        ];
        all.iter().for_each(|name| fs::write(dir.path().join(name), "x").unwrap());
        let socket = dir.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        sweep(dir.path()).unwrap();
        assert!(!socket.exists());
        let left = all.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [true, false, false, false, true]);
        sweep(&dir.path().join("nothing")).unwrap();
    }
}
