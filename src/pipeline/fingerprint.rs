//! A hash over every byte, name and mode below a directory: shows that a checkout was left alone.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::PipelineError;

/// SHA-256 over the sorted paths below `dir` with their modes, contents and links, in lower-case
/// hexadecimal. Times are not part of it.
///
/// # Errors
/// When something can't be read.
pub fn fingerprint(dir: &Path) -> Result<String, PipelineError> {
    let mut hash = Sha256::new();
    add(dir, &mut hash).map_err(|error| {
        PipelineError::Internal(format!("failed to read {}: {error}", dir.display()))
    })?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add(path: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(path.as_os_str().as_bytes());
    field(&meta.mode().to_be_bytes());
    if meta.is_symlink() {
        field(fs::read_link(path)?.as_os_str().as_bytes());
    } else if meta.is_file() {
        field(&fs::read(path)?);
    } else if meta.is_dir() {
        let mut entries: Vec<_> =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        entries.sort();
        for entry in entries {
            add(&entry, hash)?;
        }
    }
    Ok(())
}
