//! Resolving links by hand and opening beneath the root.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat};
use rustix::io::Errno;

use super::{FileError, Files, RelPath};
use crate::tools::secrets;

/// How many links a path may go through, as the kernel has it.
const MAX_LINKS: u32 = 40;
/// How often an open is tried again when a rename elsewhere made the kernel unsure (EAGAIN).
const MAX_TRIES: u32 = 16;

impl Files<'_> {
    /// The same file by a path without symbolic links. What does not exist yet stays as it is.
    ///
    /// # Errors
    /// When a link leaves the workspace or leads into a `.git`.
    pub fn resolve(&self, path: &RelPath) -> Result<RelPath, FileError> {
        if self.open_path(path).is_ok_and(|fd| kind_of(&fd) != Some(FileType::Symlink)) {
            return Ok(path.clone());
        }
        let shown = path.display();
        let mut rest: VecDeque<OsString> = names(path.as_path()).collect();
        let mut done = RelPath::top();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                done = done.parent().ok_or_else(|| FileError::Outside { path: shown.clone() })?;
                continue;
            }
            let next = done.join(&name)?;
            let Some(target) = self.link_target(&done, &name) else {
                done = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(FileError::System { path: shown, reason: "too many links".to_owned() });
            }
            if target.is_absolute() {
                return Err(FileError::Outside { path: shown });
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(name);
            }
        }
        Ok(done)
    }

    /// Where the link `name` in the directory `parent` leads; `None` when it is no link.
    pub(super) fn link_target(&self, parent: &RelPath, name: &OsStr) -> Option<std::path::PathBuf> {
        let directory = self.open_path(parent).ok()?;
        let target = readlinkat(&directory, name, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()).into())
    }

    /// A handle without access rights, for looking at what is there; the last name is not followed.
    pub(super) fn open_path(&self, path: &RelPath) -> Result<OwnedFd, FileError> {
        self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())
    }

    /// Opens beneath the root, through no link at all.
    pub(super) fn open_at(
        &self,
        path: &RelPath,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, FileError> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // A last name that is a link may be held by a path handle: that follows nothing.
        let mut tries = 0;
        loop {
            match openat2(self.root, path.for_open(), flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < MAX_TRIES => tries += 1,
                Err(errno) => return Err(FileError::from_errno(&path.display(), errno)),
                Ok(fd) => return Ok(fd),
            }
        }
    }

    /// What `path` is, with its links resolved.
    ///
    /// # Errors
    /// As for [`Files::resolve`], and when nothing is there.
    pub fn stat(&self, path: &RelPath) -> Result<(RelPath, Stat), FileError> {
        let path = self.resolve(path)?;
        let fd = self.open_path(&path)?;
        let stat = fstat(&fd).map_err(|errno| FileError::from_errno(&path.display(), errno))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(FileError::Changed { path: path.display() });
        }
        Ok((path, stat))
    }

    /// What stands at `name` in the directory `parent`, a link as such.
    ///
    /// # Errors
    /// As for [`Files::stat`], of `parent`.
    pub fn stat_in(&self, parent: &RelPath, name: &OsStr) -> Result<(RelPath, Stat), FileError> {
        let path = self.resolve(parent)?.join(name)?;
        let fd = self.open_path(&path)?;
        let stat = fstat(&fd).map_err(|errno| FileError::from_errno(&path.display(), errno))?;
        Ok((path, stat))
    }

    /// Opens a regular file for reading; never blocks on what is none.
    ///
    /// # Errors
    /// As for [`Files::stat`], and when it is not a regular file or one of secrets.
    pub fn open(&self, path: &RelPath) -> Result<(File, u64), FileError> {
        let (resolved, stat) = self.stat(path)?;
        if secrets::is_secret(path.as_path()) || secrets::is_secret(resolved.as_path()) {
            return Err(FileError::Secret { path: path.display() });
        }
        check_regular(&resolved, &stat)?;
        // Looked at before it is opened, so that a device never is; and again after, against a swap.
        let fd = self.open_at(
            &resolved,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Mode::empty(),
        )?;
        let stat = fstat(&fd).map_err(|errno| FileError::from_errno(&resolved.display(), errno))?;
        check_regular(&resolved, &stat)?;
        Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// A regular file's bytes.
    ///
    /// # Errors
    /// As for [`Files::open`], and when it is larger than `most` bytes.
    pub fn read(&self, path: &RelPath, most: u64) -> Result<Vec<u8>, FileError> {
        let (file, bytes) = self.open(path)?;
        let too_big = |bytes| FileError::TooBig { path: path.display(), bytes, most };
        if bytes > most {
            return Err(too_big(bytes));
        }
        let mut body = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
        // The size may grow while it is read.
        file.take(most + 1).read_to_end(&mut body).map_err(|error| FileError::System {
            path: path.display(),
            reason: error.to_string(),
        })?;
        if body.len() as u64 > most {
            return Err(too_big(body.len() as u64));
        }
        Ok(body)
    }
}

/// The file type behind a handle.
fn kind_of(fd: &OwnedFd) -> Option<FileType> {
    fstat(fd).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Refuses what is not a regular file.
pub(super) fn check_regular(path: &RelPath, stat: &Stat) -> Result<(), FileError> {
    let special = |kind| Err(FileError::Special { path: path.display(), kind });
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::IsDirectory { path: path.display() }),
        FileType::Fifo => special("FIFO"),
        FileType::Socket => special("socket"),
        FileType::Symlink => Err(FileError::Changed { path: path.display() }),
        _ => special("device"),
    }
}

/// The names of a path, `..` among them.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}
