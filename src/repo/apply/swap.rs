//! One step of applying, made in place and taken back: a file is swapped for its successor in one
//! system call, and what came out is held against what was seen when the step was planned.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::super::scan::{open_parent, read_leaf};

/// What was at a path when the change was planned.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
    /// Whether its lines end in CRLF where the stored ones end in LF.
    pub(super) crlf: bool,
}

/// One path: what was there, and what is to be there.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Seen>,
    pub(super) new: Option<(u32, Vec<u8>)>,
}

/// How to take back a step.
#[derive(Debug)]
pub(super) enum Undo {
    /// The old file lies in the stage under this name, and nothing is at the path.
    MovedOut(Vec<u8>, String),
    /// The old file lies in the stage under this name, and the new one is at the path.
    Swapped(Vec<u8>, String),
    /// The path was free.
    Created(Vec<u8>, String),
    /// This directory was made.
    MadeDir(Vec<u8>),
    /// This directory was removed when it became empty.
    RemovedDir(Vec<u8>, Mode),
}

/// The working tree and the stage inside it.
pub(super) struct Places<'a> {
    pub(super) top: &'a OwnedFd,
    pub(super) stage: &'a OwnedFd,
}

impl Places<'_> {
    /// Swaps a staged file with the one at the path. Where the file system can't do it in one call, it
    /// takes two.
    pub(super) fn swap(&self, path: &[u8], staged: &str) -> Result<(), Errno> {
        let (dir, name) = open_parent(self.top.as_fd(), path)?;
        match rustix::fs::renameat_with(self.stage, staged, &dir, name, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                let aside = format!("{staged}.old");
                self.move_out(path, &aside)?;
                if let Err(e) = self.move_in(path, staged) {
                    let _ = self.move_in(path, &aside);
                    return Err(e);
                }
                rustix::fs::renameat(self.stage, aside.as_str(), self.stage, staged)
            }
            other => other,
        }
    }

    /// Moves what is at the path into the stage.
    pub(super) fn move_out(&self, path: &[u8], staged: &str) -> Result<(), Errno> {
        let (dir, name) = open_parent(self.top.as_fd(), path)?;
        rustix::fs::renameat(&dir, name, self.stage, staged)
    }

    /// Moves a staged file to a path where nothing is.
    pub(super) fn move_in(&self, path: &[u8], staged: &str) -> Result<(), Errno> {
        let (dir, name) = open_parent(self.top.as_fd(), path)?;
        match rustix::fs::renameat_with(self.stage, staged, &dir, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => rustix::fs::renameat(self.stage, staged, &dir, name),
                    Ok(_) => Err(Errno::EXIST),
                    Err(e) => Err(e),
                }
            }
            other => other,
        }
    }

    /// Whether a file in the stage is the one that was seen.
    pub(super) fn is_seen(&self, staged: &str, seen: &Seen) -> bool {
        read_leaf(self.stage.as_fd(), staged.as_bytes(), u64::MAX - 1).is_ok_and(|read| {
            read.is_some_and(|(mode, bytes)| mode == seen.mode && bytes == seen.bytes)
        })
    }

    /// Makes a directory; nothing when it is there.
    pub(super) fn make_dir(&self, path: &[u8], mode: Mode) -> Result<bool, Errno> {
        let (dir, name) = open_parent(self.top.as_fd(), path)?;
        match rustix::fs::mkdirat(&dir, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Removes a directory if it is empty, and gives its mode.
    pub(super) fn remove_dir(&self, path: &[u8]) -> Result<Option<Mode>, Errno> {
        let (dir, name) = open_parent(self.top.as_fd(), path)?;
        let mode = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(Some(Mode::from_raw_mode(mode & 0o7777))),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Takes back one step.
    pub(super) fn undo(&self, step: &Undo) -> Result<(), Errno> {
        match step {
            Undo::MovedOut(path, staged) => self.move_in(path, staged),
            Undo::Swapped(path, staged) => self.swap(path, staged),
            Undo::Created(path, staged) => self.move_out(path, staged),
            Undo::MadeDir(path) => self.remove_dir(path).map(|_| ()),
            Undo::RemovedDir(path, mode) => self.make_dir(path, *mode).map(|_| ()),
        }
    }
}
