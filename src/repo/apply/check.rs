//! Whether each path of a change may be written: it must be just as the base has it, or free.
//! Never here: a write.

use std::os::fd::{AsFd, OwnedFd};

use git2::Repository;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::super::dirty::{text_rule, wants_crlf};
use super::super::edit::Change;
use super::super::eol::{self, Text};
use super::super::error::{IoContext, RepoError, Result, lossy};
use super::super::files;
use super::super::objects::{self, GITLINK, LINK, Leaf};
use super::super::scan::{open_parent, read_below};
use super::super::store::Store;
use super::super::user::UserRepo;
use super::swap::{Seen, Step};

/// The largest file that is replaced, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// The steps that make the change, deletions first.
pub(super) fn plan(user: &UserRepo, store: &Store, changes: &[Change]) -> Result<Vec<Step>> {
    let repo = user.repo();
    let top = files::open_dir(user.top()).at("open", user.top())?;
    let mut steps = Vec::new();
    for change in changes {
        let path = change.path.as_slice();
        if !path.split(|b| *b == b'/').all(objects::is_safe_name) {
            return Err(RepoError::UnsafePath { path: lossy(path) });
        }
        let sides = [change.old, change.new].into_iter().flatten();
        if sides.clone().any(|leaf| leaf.mode == GITLINK) {
            return Err(cant(path, "is a submodule"));
        }
        let old = match change.old {
            Some(leaf) => Some(seen(&repo, store, &top, path, leaf)?),
            None => {
                check_free(&top, path, changes)?;
                None
            }
        };
        steps.push(step(&repo, store, change, old)?);
    }
    steps.sort_by_key(|step| step.new.is_some());
    Ok(steps)
}

fn step(repo: &Repository, store: &Store, change: &Change, old: Option<Seen>) -> Result<Step> {
    let Some(leaf) = change.new else {
        return Ok(Step { path: change.path.clone(), old, new: None });
    };
    let bytes = store.with_odb(|odb| objects::read_blob(odb, leaf.id))?;
    let text = leaf.mode != LINK && !eol::looks_binary(&bytes);
    let crlf = match &old {
        Some(old) if change.old.is_some_and(|o| o.mode != LINK) => old.crlf,
        _ => {
            leaf.mode != LINK
                && wants_crlf(repo, &change.path).map_err(|e| filtered(e, &change.path))?
        }
    };
    let bytes = if crlf && text { eol::to_crlf(&bytes) } else { bytes };
    Ok(Step { path: change.path.clone(), old, new: Some((leaf.mode, bytes)) })
}

/// What is at a tracked path, which must be what the base has there.
fn seen(repo: &Repository, store: &Store, top: &OwnedFd, path: &[u8], base: Leaf) -> Result<Seen> {
    let shown = std::path::Path::new(std::str::from_utf8(path).unwrap_or("a file"));
    let Some((mode, bytes)) = read_below(top, path, MAX_FILE).at("read", shown)? else {
        return Err(missing(repo, path));
    };
    match line_ends(repo, store, path, base, mode, &bytes)? {
        Some(crlf) => Ok(Seen { mode, bytes, crlf }),
        None => Err(in_the_way(path, "has uncommitted changes")),
    }
}

/// Whether a file is the checked-out form of a leaf, and if so, whether its lines end in CRLF where the
/// stored ones end in LF.
fn line_ends(
    repo: &Repository,
    store: &Store,
    path: &[u8],
    leaf: Leaf,
    mode: u32,
    bytes: &[u8],
) -> Result<Option<bool>> {
    let ignores_modes = repo.config().is_ok_and(|c| c.get_bool("core.filemode") == Ok(false));
    if mode != leaf.mode && !(ignores_modes && (mode == LINK) == (leaf.mode == LINK)) {
        return Ok(None);
    }
    let stored = store.with_odb(|odb| objects::read_blob(odb, leaf.id))?;
    if bytes == stored {
        return Ok(Some(false));
    }
    // Git may have checked the file out with other line ends.
    let crlf = mode != LINK && {
        let rule = text_rule(repo, path).map_err(|e| filtered(e, path))?;
        rule != Text::Binary && eol::to_lf(bytes.to_vec()) == stored
    };
    Ok(crlf.then_some(true))
}

/// Whether the working tree holds the whole change already.
pub(super) fn is_made(user: &UserRepo, store: &Store, changes: &[Change]) -> Result<bool> {
    let repo = user.repo();
    let top = files::open_dir(user.top()).at("open", user.top())?;
    for change in changes {
        // What can't be read as a file is not the file that the change makes.
        let found = read_below(&top, &change.path, MAX_FILE).ok();
        let made = match (change.new, found) {
            (None, Some(None)) => true,
            (Some(leaf), Some(Some((mode, bytes)))) if leaf.mode != GITLINK => {
                line_ends(&repo, store, &change.path, leaf, mode, &bytes)?.is_some()
            }
            _ => false,
        };
        if !made {
            return Ok(false);
        }
    }
    Ok(true)
}

fn missing(repo: &Repository, path: &[u8]) -> RepoError {
    use std::os::unix::ffi::OsStrExt;
    let name = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
    let sparse = repo.index().ok().and_then(|index| index.get_path(name, 0));
    if sparse.is_some_and(|entry| entry.flags_extended & (1 << 14) != 0) {
        return cant(path, "is left out by the sparse checkout");
    }
    in_the_way(path, "is deleted in the working tree")
}

/// Whether a new path is free, or will be once the change's deletions are made.
fn check_free(top: &OwnedFd, path: &[u8], changes: &[Change]) -> Result<()> {
    let deleted = |path: &[u8]| {
        let at = changes.binary_search_by(|c| c.path.as_slice().cmp(path));
        at.is_ok_and(|at| changes[at].new.is_none())
    };
    for parent in objects::parents(path) {
        match stat(top, parent)? {
            Some(FileType::Directory) | None => {}
            Some(_) if deleted(parent) => return Ok(()),
            Some(_) => return Err(in_the_way(parent, "is in the way of a new directory")),
        }
    }
    match stat(top, path)? {
        None => Ok(()),
        Some(FileType::Directory) => match untracked_in(top, path, &deleted)? {
            Some(other) => {
                Err(in_the_way(&other, "is untracked, and its directory becomes a file"))
            }
            None => Ok(()),
        },
        Some(_) => Err(in_the_way(path, "is untracked and in the way of a new file")),
    }
}

fn stat(top: &OwnedFd, path: &[u8]) -> Result<Option<FileType>> {
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    let found = open_parent(top.as_fd(), path)
        .and_then(|(dir, name)| rustix::fs::statat(&dir, name, nofollow));
    match found {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(e) => Err(e).at("read", std::path::Path::new(&lossy(path))),
    }
}

/// The first file below a directory that the change does not delete.
fn untracked_in(
    top: &OwnedFd,
    dir: &[u8],
    deleted: &dyn Fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>> {
    let name = lossy(dir);
    let shown = std::path::Path::new(&name);
    let (parent, last) = open_parent(top.as_fd(), dir).at("open", shown)?;
    let flags = rustix::fs::OFlags::DIRECTORY;
    let fd = super::super::scan::open_below(parent.as_fd(), last, flags).at("open", shown)?;
    for entry in rustix::fs::Dir::read_from(&fd).at("list", shown)? {
        let entry = entry.at("list", shown)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let path = [dir, b"/", name].concat();
        let other = match stat(top, &path)? {
            Some(FileType::Directory) => untracked_in(top, &path, deleted)?,
            Some(_) if !deleted(&path) => Some(path),
            _ => None,
        };
        if other.is_some() {
            return Ok(other);
        }
    }
    Ok(None)
}

fn in_the_way(path: &[u8], why: &str) -> RepoError {
    RepoError::WouldOverwrite { path: lossy(path), why: why.into() }
}

fn cant(path: &[u8], why: &str) -> RepoError {
    RepoError::CantWrite { path: lossy(path), why: why.into() }
}

fn filtered(e: RepoError, path: &[u8]) -> RepoError {
    match e {
        RepoError::Filtered { filter, .. } => {
            cant(path, &format!("passes the filter {filter:?}, which is never run"))
        }
        other => other,
    }
}
