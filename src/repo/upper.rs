//! A candidate's changes as the upper directory of an overlay: written, read back, and cleaned so that
//! it may lie under another.
//!
//! Format: the kernel's overlay file system (Documentation/filesystems/overlayfs.rst). A path that is
//! gone is a character device 0/0 ("whiteout"); a directory there merges with the one below; whatever
//! else is there hides what lies below. Never here: a mount.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use git2::{ObjectType, Oid};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::edit::{Change, Edits, lookup};
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files;
use super::object_db::Objects;
use super::objects::{self, GITLINK, Item, Leaf, TREE, parents, read_blob};
use super::scan::{open_below, read_leaf};

/// The largest file that is read back, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// Writes the changes that lead to `tree` into an empty upper directory, with times of now.
pub(crate) fn write(odb: &Objects<'_>, upper: &Path, tree: Oid, changes: &[Change]) -> Result<()> {
    let root = files::open_dir(upper).at("open", upper)?;
    for change in changes {
        if let Some(leaf) = change.new {
            let bytes = if leaf.mode == GITLINK { Vec::new() } else { read_blob(odb, leaf.id)? };
            make_parents(&root, &change.path).at("write", upper)?;
            files::write_leaf(root.as_fd(), &change.path, leaf.mode, &bytes, None)
                .at("write", upper)?;
        }
    }
    for path in whiteouts(odb, tree, changes)? {
        make_parents(&root, &path).at("write", upper)?;
        let none = Mode::empty();
        rustix::fs::mknodat(&root, path.as_slice(), FileType::CharacterDevice, none, 0)
            .at("mark as deleted in", upper)?;
    }
    Ok(())
}

/// The topmost paths that the tree no longer has: a directory of which nothing is left goes whole.
fn whiteouts(odb: &Objects<'_>, tree: Oid, changes: &[Change]) -> Result<BTreeSet<Vec<u8>>> {
    let mut gone = BTreeSet::new();
    for change in changes.iter().filter(|change| change.new.is_none()) {
        let mut top = change.path.as_slice();
        if lookup(odb, tree, top)?.is_some() {
            continue; // A directory took the file's place.
        }
        let mut replaced = false;
        for parent in parents(&change.path) {
            match lookup(odb, tree, parent)? {
                Some(leaf) => {
                    replaced = leaf.mode != TREE;
                    break;
                }
                None => top = parent,
            }
        }
        if !replaced {
            gone.insert(top.to_vec());
        }
    }
    Ok(gone)
}

fn make_parents(root: &OwnedFd, path: &[u8]) -> std::io::Result<()> {
    let mut dirs: Vec<&[u8]> = parents(path).collect();
    dirs.reverse();
    for dir in dirs {
        match rustix::fs::mkdirat(root, dir, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                let mode = Mode::from_raw_mode(0o755);
                rustix::fs::chmodat(root, dir, mode, AtFlags::empty())?;
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// What an upper directory makes of the base, by its contents alone.
pub(crate) fn read(upper: &Path, base: &[Item], expected: &[Change]) -> Result<Edits> {
    let root = files::open_dir(upper).at("open", upper)?;
    let mut reader = Reader { upper, base, expected, edits: Edits::new() };
    reader.directory(&root, &mut Vec::new())?;
    Ok(reader.edits)
}

struct Reader<'a> {
    upper: &'a Path,
    base: &'a [Item],
    expected: &'a [Change],
    edits: Edits,
}

impl Reader<'_> {
    fn directory(&mut self, dir: &OwnedFd, path: &mut Vec<u8>) -> Result<()> {
        if is_opaque(dir) {
            return Err(RepoError::Mismatch(format!("{:?} hides what lies below it", lossy(path))));
        }
        for name in names(dir, self.upper)? {
            let length = path.len();
            join(path, &name);
            self.entry(dir, &name, path)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &[u8], path: &mut Vec<u8>) -> Result<()> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.at("read", self.upper)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => self.hide(path),
            FileType::Directory => {
                if let Some(leaf) = self.expected_gitlink(path) {
                    self.hide(path);
                    self.edits.insert(path.clone(), Some(leaf));
                    return Ok(());
                }
                if objects::find(self.base, path).is_some() {
                    self.hide(path);
                }
                let sub =
                    open_below(dir.as_fd(), name, OFlags::DIRECTORY).at("open", self.upper)?;
                self.directory(&sub, path)?;
            }
            _ => {
                let read = read_leaf(dir.as_fd(), name, MAX_FILE).at("read", self.upper)?;
                let Some((mode, bytes)) = read else {
                    return Err(RepoError::Mismatch(format!("{:?} is no file", lossy(path))));
                };
                let id = Oid::hash_object(ObjectType::Blob, &bytes).doing("hash a file")?;
                self.hide(path);
                self.edits.insert(path.clone(), Some(Leaf { mode, id }));
            }
        }
        Ok(())
    }

    /// Nothing of the base is seen at or below this path.
    fn hide(&mut self, path: &[u8]) {
        let here = objects::find(self.base, path).map(|at| &self.base[at]);
        for item in here.into_iter().chain(objects::below(self.base, path)) {
            self.edits.entry(item.path.clone()).or_insert(None);
        }
    }

    /// A submodule is a bare directory on disk: which commit it means only the tree knows.
    fn expected_gitlink(&self, path: &[u8]) -> Option<Leaf> {
        let at = self.expected.binary_search_by(|c| c.path.as_slice().cmp(path)).ok()?;
        self.expected[at].new.filter(|leaf| leaf.mode == GITLINK)
    }
}

/// Takes out of an upper directory all that would show at a tracked path of the base, and gives the
/// tracked paths whose contents had been changed. What is left is output that the base does not track.
/// With `over_output` the marks stay by which it hides output in the layers below.
pub(crate) fn strip(upper: &Path, base: &[Item], over_output: bool) -> Result<Vec<Vec<u8>>> {
    let root = files::open_dir(upper).at("open", upper)?;
    let mut stripper = Stripper { base, over_output, rewritten: Vec::new() };
    stripper.directory(&root, upper, &mut Vec::new())?;
    Ok(stripper.rewritten)
}

struct Stripper<'a> {
    base: &'a [Item],
    over_output: bool,
    rewritten: Vec<Vec<u8>>,
}

impl Stripper<'_> {
    fn directory(&mut self, dir: &OwnedFd, at: &Path, path: &mut Vec<u8>) -> Result<()> {
        if is_opaque(dir) {
            self.rewritten.push(path.clone());
        }
        for mark in MARKS {
            match rustix::fs::fremovexattr(dir, *mark) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(e) => return Err(e).at("clean", at),
            }
        }
        rustix::fs::fchmod(dir, Mode::from_raw_mode(0o755)).at("clean", at)?;
        for name in names(dir, at)? {
            let length = path.len();
            join(path, &name);
            self.entry(dir, at, &name, path)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, at: &Path, name: &[u8], path: &mut Vec<u8>) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let here = at.join(std::ffi::OsStr::from_bytes(name));
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).at("read", &here)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let tracked = objects::find(self.base, path).map(|at| self.base[at].leaf);
        let tracked_dir = objects::has_below(self.base, path);
        let whiteout = kind == FileType::CharacterDevice && stat.st_rdev == 0;
        if kind == FileType::Directory && tracked_dir {
            if stat.st_mode & 0o700 != 0o700 {
                let mode = Mode::from_raw_mode(0o755);
                rustix::fs::chmodat(dir, name, mode, AtFlags::empty()).at("clean", &here)?;
            }
            let sub = open_below(dir.as_fd(), name, OFlags::DIRECTORY).at("open", &here)?;
            self.directory(&sub, &here, path)?;
            // Without any output in it, it would only outrank the mode of the one below.
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR);
            return Ok(());
        }
        let ours = tracked.is_some() || tracked_dir || (whiteout && !self.over_output);
        if !ours && !name.eq_ignore_ascii_case(b".git") {
            return Ok(());
        }
        // A mark at a path that the tree does not have is a candidate's own deletion, or hides output.
        if (tracked.is_some() || tracked_dir) && !is_same(dir, name, tracked, kind)? {
            self.rewritten.push(path.clone());
        }
        files::remove(&here).at("clean", &here)
    }
}

/// Whether what lies at a tracked path is just what the base has there.
fn is_same(dir: &OwnedFd, name: &[u8], tracked: Option<Leaf>, kind: FileType) -> Result<bool> {
    let Some(leaf) = tracked else { return Ok(false) };
    if leaf.mode == GITLINK {
        return Ok(kind == FileType::Directory);
    }
    let read = read_leaf(dir.as_fd(), name, MAX_FILE).unwrap_or(None);
    let Some((mode, bytes)) = read else { return Ok(false) };
    let id = Oid::hash_object(ObjectType::Blob, &bytes).doing("hash a file")?;
    Ok(Leaf { mode, id } == leaf)
}

/// Marks by which a directory hides, or takes another's place of, what lies below; as the kernel names
/// them for an ordinary user's mounts and for root's.
const MARKS: &[&str] = &[
    "user.overlay.opaque",
    "user.overlay.redirect",
    "trusted.overlay.opaque",
    "trusted.overlay.redirect",
];

/// Whether a directory bears a mark: it does not simply merge with the one below.
pub(crate) fn is_marked(dir: &OwnedFd) -> bool {
    is_opaque(dir)
}

fn is_opaque(dir: &OwnedFd) -> bool {
    MARKS.iter().any(|mark| rustix::fs::fgetxattr_query(dir, *mark).is_ok())
}

fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

fn names(dir: &OwnedFd, at: &Path) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).at("list", at)? {
        let name = entry.at("list", at)?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Proves that nothing in a stripped directory shows at a tracked path or hides one.
pub(crate) fn check_stripped(layer: &Path, base: &[Item]) -> Result<()> {
    let root = files::open_dir(layer).at("open", layer)?;
    check_directory(&root, layer, base, &mut Vec::new())
}

fn check_directory(dir: &OwnedFd, at: &Path, base: &[Item], path: &mut Vec<u8>) -> Result<()> {
    let bad = |path: &[u8]| {
        Err(RepoError::Mismatch(format!("the carried output covers {:?}", lossy(path))))
    };
    if is_opaque(dir) {
        return bad(path);
    }
    for name in names(dir, at)? {
        let length = path.len();
        join(path, &name);
        if objects::find(base, path).is_some() {
            return bad(path);
        }
        if objects::has_below(base, path) {
            match open_below(dir.as_fd(), &name, OFlags::DIRECTORY) {
                Ok(sub) => check_directory(&sub, at, base, path)?,
                Err(_) => return bad(path),
            }
        }
        path.truncate(length);
    }
    Ok(())
}
