//! What a directory holds against a tree's listing, by contents.
//!
//! Somebody else may be changing the directory meanwhile: every step opens one name below an open
//! directory and follows no link, so that no path leads out. Never here: `.git`, whatever its case.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use git2::{ObjectType, Oid};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::edit::Change;
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files::{PAST, Stamp};
use super::ignore_rules::IgnoreRules;
use super::objects::{self, EXECUTABLE, FILE, GITLINK, Item, LINK, Leaf};
use super::output::Below;

/// The deepest nesting: each level holds a descriptor.
const MAX_DEPTH: usize = 200;
/// The most changed paths.
const MAX_CHANGES: usize = 100_000;
/// The largest untracked file, the largest tracked one, and all changed ones together, in bytes.
const MAX_FILE: u64 = 64 << 20;
const MAX_TRACKED: u64 = 1 << 30;
const MAX_TOTAL: u64 = 256 << 20;

/// So many bytes of a path are shown: one that is nested too deeply fills a screen.
const MAX_SHOWN: usize = 120;

/// A change with the new bytes.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) change: Change,
    pub(crate) bytes: Vec<u8>,
}

/// What to hold a directory against.
pub(crate) struct Scan<'a> {
    /// The tree, sorted.
    pub(crate) items: &'a [Item],
    /// The items' stamps from when they were written, in the same order: what still has its stamp is
    /// not read.
    pub(crate) stamps: Option<&'a [Stamp]>,
    /// What to do with other paths.
    pub(crate) untracked: Untracked<'a>,
}

/// Which paths that are not in the tree count.
#[derive(Clone, Copy)]
pub(crate) enum Untracked<'a> {
    /// All.
    All,
    /// None.
    None,
    /// Those that neither the rules ignore nor were there before.
    Unless(&'a IgnoreRules, &'a Below),
}

/// A walk through a directory, and what it found so far.
pub(crate) struct Walk<'a> {
    scan: &'a Scan<'a>,
    seen: Vec<bool>,
    found: Vec<Found>,
    total: u64,
}

impl Scan<'_> {
    /// All changes, sorted by path.
    pub(crate) fn run(&self, root: BorrowedFd<'_>) -> Result<Vec<Found>> {
        let mut walk = Walk::new(self);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::openat(root, c".", flags, Mode::empty());
        let top = top.at("open", std::path::Path::new("the workspace"))?;
        walk.directory(top, &mut Vec::new(), false, 0)?;
        walk.leave_out(0..self.items.len());
        Ok(walk.sorted())
    }

    fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        match self.untracked {
            Untracked::All => false,
            Untracked::None => true,
            Untracked::Unless(rules, below) => {
                rules.is_ignored(path, is_dir) || below.has(self.items, path, is_dir)
            }
        }
    }
}

impl<'a> Walk<'a> {
    /// One that has seen nothing yet.
    pub(crate) fn new(scan: &'a Scan<'a>) -> Self {
        Self { scan, seen: vec![false; scan.items.len()], found: Vec::new(), total: 0 }
    }

    pub(crate) fn items(&self) -> &'a [Item] {
        self.scan.items
    }

    pub(crate) fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        self.scan.is_ignored(path, is_dir)
    }

    /// What was found, sorted by path.
    pub(crate) fn sorted(mut self) -> Vec<Found> {
        self.found.sort_by(|a, b| a.change.path.cmp(&b.change.path));
        self.found
    }

    /// Counts a tracked file as gone: something else stands in its place.
    pub(crate) fn leave_out_file(&mut self, tracked: Option<usize>) {
        if let Some(at) = tracked {
            self.leave_out(at..at + 1);
        }
    }

    /// Counts what is tracked at and below a path and was not seen as gone.
    pub(crate) fn leave_out_unseen(&mut self, path: &[u8]) {
        self.leave_out_file(objects::find(self.scan.items, path));
        self.leave_out(objects::range_below(self.scan.items, path));
    }

    fn leave_out(&mut self, items: std::ops::Range<usize>) {
        for at in items {
            if !std::mem::replace(&mut self.seen[at], true) {
                let Item { path, leaf } = &self.scan.items[at];
                let change = Change { path: path.clone(), old: Some(*leaf), new: None };
                self.found.push(Found { change, bytes: Vec::new() });
            }
        }
    }

    /// Refuses a directory that is nested too deeply: each level holds a descriptor.
    pub(crate) fn check_depth(path: &[u8], depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_large(path, format!("{MAX_DEPTH} levels of directories")));
        }
        Ok(())
    }

    fn directory(
        &mut self,
        dir: OwnedFd,
        path: &mut Vec<u8>,
        ignored: bool,
        depth: usize,
    ) -> Result<()> {
        Self::check_depth(path, depth)?;
        for name in names(dir.as_fd(), path)? {
            let length = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            self.entry(dir.as_fd(), &name, path, ignored, depth)?;
            path.truncate(length);
        }
        Ok(())
    }

    /// Takes in what stands at a name of an open directory.
    pub(crate) fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        path: &mut Vec<u8>,
        ignored: bool,
        depth: usize,
    ) -> Result<()> {
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(e).at("read", shown(path)),
        };
        let tracked = objects::find(self.scan.items, path);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                if let Some(at) = tracked.filter(|at| self.scan.items[*at].leaf.mode == GITLINK) {
                    self.seen[at] = true;
                    return Ok(());
                }
                let ignored = ignored || self.scan.is_ignored(path, true);
                if ignored && !objects::has_below(self.scan.items, path) {
                    return Ok(());
                }
                match open_below(dir, name, OFlags::DIRECTORY) {
                    Ok(sub) => self.directory(sub, path, ignored, depth + 1),
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                    Err(e) => Err(e).at("open", shown(path)),
                }
            }
            FileType::RegularFile | FileType::Symlink => {
                let left_out = tracked.is_none() && (ignored || self.scan.is_ignored(path, false));
                if left_out { Ok(()) } else { self.leaf(dir, name, path, tracked, &stat) }
            }
            _ => Ok(()),
        }
    }

    fn leaf(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        tracked: Option<usize>,
        stat: &Stat,
    ) -> Result<()> {
        if let Some(at) = tracked {
            self.seen[at] = true;
            if self.is_unchanged(at, stat) {
                return Ok(());
            }
        }
        let old = tracked.map(|at| self.scan.items[at].leaf);
        let limit = if tracked.is_some() { MAX_TRACKED } else { MAX_FILE };
        let read = match read_leaf(dir, name, limit) {
            Ok(read) => read,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) if e.kind() == std::io::ErrorKind::FileTooLarge => {
                return Err(too_large(path, format!("{} MiB in one file", limit >> 20)));
            }
            Err(e) => return Err(e).at("read", shown(path)),
        };
        let Some((mode, bytes)) = read else {
            // It went away under our eyes.
            if let Some(at) = tracked {
                self.seen[at] = false;
            }
            return Ok(());
        };
        let id = Oid::hash_object(ObjectType::Blob, &bytes).doing("hash a file")?;
        let new = Some(Leaf { mode, id });
        if old == new {
            return Ok(());
        }
        self.total += bytes.len() as u64;
        if self.total > MAX_TOTAL {
            return Err(too_large(path, format!("{} MiB in all files", MAX_TOTAL >> 20)));
        }
        if self.found.len() >= MAX_CHANGES {
            return Err(too_large(path, format!("{MAX_CHANGES} changed files")));
        }
        self.found.push(Found { change: Change { path: path.to_vec(), old, new }, bytes });
        Ok(())
    }

    fn is_unchanged(&self, at: usize, stat: &Stat) -> bool {
        let Some(stamps) = self.scan.stamps else { return false };
        stamps[at].ino != 0 && stamps[at] == Stamp::of(stat) && is_past(stat)
    }
}

fn is_past(stat: &Stat) -> bool {
    stat.st_mtime == PAST && stat.st_mtime_nsec == 0
}

/// A path for messages.
pub(crate) fn shown(path: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path))
}

fn too_large(path: &[u8], limit: String) -> RepoError {
    let cut = &path[..path.len().min(MAX_SHOWN)];
    let path = if cut == path { lossy(path) } else { lossy(cut) + "…" };
    RepoError::ChangeTooLarge { path, limit }
}

/// What a directory holds, without what is git's own.
pub(crate) fn names(dir: BorrowedFd<'_>, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).at("list", shown(path))? {
        let entry = entry.at("list", shown(path))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !name.eq_ignore_ascii_case(b".git") {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

pub(crate) fn open_below(dir: BorrowedFd<'_>, name: &[u8], more: OFlags) -> Result<OwnedFd, Errno> {
    // Without blocking: the name may have become a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags | more, Mode::empty())
}

/// The mode and bytes of a regular file or link below an open directory; nothing for other kinds.
pub(crate) fn read_leaf(
    dir: BorrowedFd<'_>,
    name: &[u8],
    limit: u64,
) -> std::io::Result<Option<(u32, Vec<u8>)>> {
    let fd = match open_below(dir, name, OFlags::empty()) {
        Ok(fd) => fd,
        Err(Errno::LOOP) => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            return Ok(Some((LINK, target.into_bytes())));
        }
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    fs::File::from(fd).take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some((if stat.st_mode & 0o100 == 0 { FILE } else { EXECUTABLE }, bytes)))
}

/// Like [`read_leaf`] for a path of several names: no directory on the way may be a link. Nothing
/// when a part of the way is missing.
pub(crate) fn read_below(
    root: &OwnedFd,
    path: &[u8],
    limit: u64,
) -> std::io::Result<Option<(u32, Vec<u8>)>> {
    match open_parent(root.as_fd(), path) {
        Ok((dir, name)) => match read_leaf(dir.as_fd(), name, limit) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other,
        },
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Opens the directory of a path, name by name without following a link, and gives the last name.
pub(crate) fn open_parent<'p>(
    root: BorrowedFd<'_>,
    path: &'p [u8],
) -> Result<(OwnedFd, &'p [u8]), Errno> {
    let mut dir = open_below(root, b".", OFlags::DIRECTORY)?;
    let mut rest = path;
    while let Some(at) = rest.iter().position(|b| *b == b'/') {
        dir = open_below(dir.as_fd(), &rest[..at], OFlags::DIRECTORY)?;
        rest = &rest[at + 1..];
    }
    Ok((dir, rest))
}
