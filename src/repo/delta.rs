//! What a workspace's overlay changed, at the cost of the change: its upper directory says where to
//! look, the merged view says what is there.
//!
//! A name of the upper directory that the merged view lacks was deleted. A directory of it merges with
//! the one below unless it bears a mark of the overlay file system (it hides what lies below, or was
//! renamed): such a one is read whole. So nothing here rests on the forms in which a kernel writes its
//! marks down, and a mark that a job forges only costs time. Never here: a mount.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{IoContext, Result};
use super::objects::{self, GITLINK};
use super::scan::{Found, Scan, Walk, names, open_below, shown};
use super::upper;

/// All changes of a workspace, sorted by path: the same that a scan of all its files finds.
pub(crate) fn run(
    scan: &Scan<'_>,
    root: BorrowedFd<'_>,
    upper: BorrowedFd<'_>,
) -> Result<Vec<Found>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |dir| rustix::fs::openat(dir, c".", flags, Mode::empty());
    let top = open(root).at("open", Path::new("the workspace"))?;
    let upper = open(upper).at("open", Path::new("the workspace's changes"))?;
    let mut delta = Delta { walk: Walk::new(scan) };
    if upper::is_marked(&upper) {
        return scan.run(root);
    }
    delta.directory(Pair { merged: top, upper }, &mut Vec::new(), false, 0)?;
    Ok(delta.walk.sorted())
}

/// A directory of the merged view and what the upper directory has of it.
struct Pair {
    merged: OwnedFd,
    upper: OwnedFd,
}

struct Delta<'a> {
    walk: Walk<'a>,
}

impl Delta<'_> {
    fn directory(
        &mut self,
        dirs: Pair,
        path: &mut Vec<u8>,
        ignored: bool,
        depth: usize,
    ) -> Result<()> {
        Walk::check_depth(path, depth)?;
        for name in names(dirs.upper.as_fd(), path)? {
            let length = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            self.entry(&dirs, &name, path, ignored, depth)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dirs: &Pair,
        name: &[u8],
        path: &mut Vec<u8>,
        ignored: bool,
        depth: usize,
    ) -> Result<()> {
        let kind = match rustix::fs::statat(&dirs.merged, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(e) => return Err(e).at("read", shown(path)),
        };
        if kind == Some(FileType::Directory) {
            return self.subdirectory(dirs, name, path, ignored, depth);
        }
        // A file, or what counts as nothing. What lay below it is hidden.
        self.walk.entry(dirs.merged.as_fd(), name, path, ignored, depth)?;
        self.walk.leave_out_unseen(path);
        Ok(())
    }

    fn subdirectory(
        &mut self,
        dirs: &Pair,
        name: &[u8],
        path: &mut Vec<u8>,
        ignored: bool,
        depth: usize,
    ) -> Result<()> {
        let items = self.walk.items();
        let tracked = objects::find(items, path);
        if tracked.is_some_and(|at| items[at].leaf.mode == GITLINK) {
            return Ok(());
        }
        let upper = match open_below(dirs.upper.as_fd(), name, OFlags::DIRECTORY) {
            Ok(upper) if !upper::is_marked(&upper) => upper,
            // Read whole; so is what changes under our eyes.
            Ok(_) | Err(_) => {
                self.walk.entry(dirs.merged.as_fd(), name, path, ignored, depth)?;
                self.walk.leave_out_unseen(path);
                return Ok(());
            }
        };
        self.walk.leave_out_file(tracked);
        let ignored = ignored || self.walk.is_ignored(path, true);
        if ignored && !objects::has_below(items, path) {
            return Ok(());
        }
        match open_below(dirs.merged.as_fd(), name, OFlags::DIRECTORY) {
            Ok(merged) => self.directory(Pair { merged, upper }, path, ignored, depth + 1),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.walk.leave_out_unseen(path);
                Ok(())
            }
            Err(e) => Err(e).at("open", shown(path)),
        }
    }
}
