//! Whether the files that a command may be made of are still those of before: what a worker can write.
//!
//! Contents are not read: no program without root can set the time at which the kernel saw a file change. Never here:
//! what follows from it.

use std::ffi::OsStr;
use std::fs::{read_dir, symlink_metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::sandbox::Mount;

/// More files than this are not looked at.
const MOST: usize = 50_000;

/// What all files under the writable mounts are at this moment, in one value; `None` where that can't be told:
/// something can't be read, or there are too many.
pub(super) fn stamp(mounts: &[Mount]) -> Option<[u8; 32]> {
    let mut open: Vec<PathBuf> = mounts.iter().filter_map(written_at).collect();
    let (mut digest, mut seen) = (Sha256::new(), 0);
    while let Some(path) = open.pop() {
        seen += 1;
        if seen > MOST {
            return None;
        }
        if add(&mut digest, &path)? {
            let entries = read_dir(&path).ok()?.map(|entry| entry.map(|entry| entry.path()));
            let mut entries: Vec<PathBuf> = entries.collect::<Result<_, _>>().ok()?;
            entries.sort_unstable();
            open.extend(entries);
        }
    }
    Some(digest.finalize().into())
}

/// Where on the host a job's writes through a mount arrive.
fn written_at(mount: &Mount) -> Option<PathBuf> {
    match mount {
        Mount::ReadWrite { from, .. } => Some(from.clone()),
        Mount::Overlay { upper, .. } => Some(upper.clone()),
        Mount::ReadOnly { .. } | Mount::Tmp { .. } | Mount::Covered { .. } => None,
    }
}

/// Adds one file; whether it is a directory.
fn add(digest: &mut Sha256, path: &Path) -> Option<bool> {
    let meta = symlink_metadata(path).ok()?;
    let name: &OsStr = path.as_os_str();
    digest.update((name.len() as u64).to_le_bytes());
    digest.update(name.as_bytes());
    for number in [meta.ino(), meta.size(), u64::from(meta.mode())] {
        digest.update(number.to_le_bytes());
    }
    for number in [meta.ctime(), meta.ctime_nsec()] {
        digest.update(number.to_le_bytes());
    }
    Some(meta.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_every_file_that_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("a"), "one").unwrap();
        let at = PathBuf::from("/work");
        let mounts = [Mount::ReadWrite { from: dir.path().to_owned(), at: at.clone() }];
        let before = stamp(&mounts);
        assert!(before.is_some());
        assert_eq!(stamp(&mounts), before);
        std::fs::write(path.join("b"), "").unwrap();
        let with_another = stamp(&mounts);
        assert_ne!(with_another, before);
        std::fs::remove_file(path.join("b")).unwrap();
        assert_ne!(stamp(&mounts), before, "that it was there is seen in its directory");
        std::fs::remove_dir_all(&path).unwrap();
        let gone = [Mount::ReadWrite { from: path, at }];
        assert_eq!(stamp(&gone), None);
    }
}
