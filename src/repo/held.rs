//! What a directory holds on disk. Never here: a limit, or what is done about it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// Every entry counts at least this much, as it does while a job runs.
const ENTRY_BYTES: u64 = 4096;
/// Directories are followed so deep.
const DEEPEST: usize = 256;

/// The bytes of all blocks below a directory. No link is followed, and what can't be looked at counts nothing.
pub(super) fn below(top: impl AsFd) -> u64 {
    let (mut sum, mut open) = (0_u64, Vec::new());
    open.extend(open_dir(top.as_fd(), c"."));
    while let Some(dir) = open.last_mut() {
        let Some(Ok(entry)) = dir.read() else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(fd) = dir.fd() else { continue };
        let Ok(found) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
        sum = sum.saturating_add(bytes.max(ENTRY_BYTES));
        let inner = FileType::from_raw_mode(found.st_mode).is_dir().then(|| open_dir(fd, name));
        open.extend(inner.flatten().filter(|_| open.len() < DEEPEST));
    }
    sum
}

fn open_dir(at: impl AsFd, name: impl rustix::path::Arg) -> Option<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd: OwnedFd = rustix::fs::openat(at, name, flags, Mode::empty()).ok()?;
    Dir::new(fd).ok()
}
