//! Files below an open directory: written with exact bytes, modes and times, stamped, copied, removed.
//!
//! Paths are bytes and relative to a directory descriptor. Never here: git objects, and nothing in a
//! directory that somebody else may be changing (see `scan` for that).

use std::fs;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};

use super::objects::{EXECUTABLE, GITLINK, LINK};

/// The modification time of everything that the engine checks out, in seconds since 1970
/// (2024-01-01): older than any build output, so that build tools see base files as unchanged, and newer
/// than the files of dependencies (Cargo unpacks those with the date 2006-07-24), so that what is carried
/// along can be made older than a source and still newer than what it was built from.
pub(crate) const PAST: i64 = 1_704_067_200;

/// What the system knew of a file right after it was written. A change of any kind moves the change
/// time, which no ordinary process can set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) ctime: (i64, u64),
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size.cast_unsigned(),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Opens a directory for path-relative work.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The time of all checked-out files.
pub(crate) fn past() -> Timestamps {
    times_at(PAST)
}

/// A whole second, counted from 1970, as a file's times.
pub(crate) fn times_at(seconds: i64) -> Timestamps {
    let at = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(if mode == EXECUTABLE { 0o755 } else { 0o644 })
}

/// Creates a leaf of a tree at a path where nothing is. Without `times` its times are now.
pub(crate) fn write_leaf(
    root: BorrowedFd<'_>,
    path: &[u8],
    mode: u32,
    bytes: &[u8],
    times: Option<&Timestamps>,
) -> io::Result<Stamp> {
    if mode == LINK || mode == GITLINK {
        return write_special(root, path, mode, bytes, times);
    }
    let file = create(root, path, mode)?;
    (&file).write_all(bytes)?;
    finish(&file, mode, times)
}

fn create(root: BorrowedFd<'_>, path: &[u8], mode: u32) -> io::Result<fs::File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, path, flags, permissions(mode))?.into())
}

fn finish(file: &fs::File, mode: u32, times: Option<&Timestamps>) -> io::Result<Stamp> {
    rustix::fs::fchmod(file, permissions(mode))?;
    if let Some(times) = times {
        rustix::fs::futimens(file, times)?;
    }
    Ok(Stamp::of(&rustix::fs::fstat(file)?))
}

fn write_special(
    root: BorrowedFd<'_>,
    path: &[u8],
    mode: u32,
    target: &[u8],
    times: Option<&Timestamps>,
) -> io::Result<Stamp> {
    if mode == GITLINK {
        rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755))?;
    } else {
        rustix::fs::symlinkat(target, root, path)?;
        if let Some(times) = times {
            rustix::fs::utimensat(root, path, times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(Stamp::of(&rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Copies a leaf from one tree to a path of another where nothing is: shares blocks where the file
/// system can, else copies in the kernel, else by hand.
pub(crate) fn copy_leaf(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    path: &[u8],
    mode: u32,
) -> io::Result<Stamp> {
    let times = past();
    if mode == LINK {
        let target = rustix::fs::readlinkat(from, path, Vec::new())?;
        return write_special(to, path, mode, target.as_bytes(), Some(&times));
    }
    if mode == GITLINK {
        return write_special(to, path, mode, b"", None);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source: fs::File = rustix::fs::openat(from, path, flags, Mode::empty())?.into();
    let target = create(to, path, mode)?;
    copy_bytes(&source, &target)?;
    finish(&target, mode, Some(&times))
}

/// Copies a whole open file into an empty one.
pub(crate) fn copy_bytes(source: &fs::File, target: &fs::File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    // The standard library copies by copy_file_range where the kernel can.
    let (mut source, mut target) = (source, target);
    io::copy(&mut source, &mut target)?;
    Ok(())
}

/// Makes directories, parents first.
pub(crate) fn make_dirs(root: BorrowedFd<'_>, dirs: &[Vec<u8>]) -> io::Result<()> {
    for dir in dirs {
        rustix::fs::mkdirat(root, dir.as_slice(), Mode::from_raw_mode(0o755))?;
        rustix::fs::chmodat(root, dir.as_slice(), Mode::from_raw_mode(0o755), AtFlags::empty())?;
    }
    Ok(())
}

/// A stamp that is later than all that was written to the directory's file system before: what has an
/// earlier change time was not touched since.
pub(crate) fn fence(dir: &Path) -> io::Result<(i64, u64)> {
    let probe = tempfile::tempfile_in(dir)?;
    Ok(Stamp::of(&rustix::fs::fstat(&probe)?).ctime)
}

/// Writes a file in one step: other readers see the old bytes or the new ones.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Makes a directory that only its owner may enter, with its parents.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes whatever is at `path`, also where a job took away its own directories' permissions. That
/// nothing is there is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(meta) if !meta.is_dir() => return fs::remove_file(path),
        Ok(_) => {}
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Files and bytes (as allocated) below a path.
pub(crate) fn measure(path: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = fs::symlink_metadata(path) else { return (0, 0) };
    if !meta.is_dir() {
        return (1, meta.blocks() * 512);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|e| measure(&e.path())).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}
