//! Uncommitted changes of the user's working tree: counted, and read as edits of `HEAD`'s tree.
//!
//! Read without running a filter, a hook or fsmonitor, and without refreshing the index on disk.
//! Ignored files are never read. Never here: a write outside the engine's own objects.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{AttrCheckFlags, AttrValue, Index, Repository, Status, StatusOptions, StatusShow};

use super::edit::Edits;
use super::eol::{self, Text};
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files;
use super::object_db::Objects;
use super::objects::{Leaf, read_blob};
use super::scan::read_below;
use super::user::UserRepo;

/// What is not committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Tracked files that differ from `HEAD`, staged or not.
    pub tracked: u32,
    /// Files that are neither tracked nor ignored.
    pub untracked: u32,
    /// The first few paths, lossily decoded.
    pub examples: Vec<String>,
}

impl Dirty {
    /// Whether everything is committed.
    pub fn is_clean(&self) -> bool {
        self.tracked == 0 && self.untracked == 0
    }
}

/// How many paths are named.
const EXAMPLES: usize = 5;
/// The largest uncommitted file that is taken along, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// The bit of an index entry that a sparse checkout sets on what it leaves out.
const SKIP_WORKTREE: u16 = 1 << 14;

impl UserRepo {
    /// Counts what is not committed.
    ///
    /// # Errors
    /// When the index or a directory can't be read.
    pub fn dirty(&self) -> Result<Dirty> {
        let mut dirty = Dirty::default();
        for (path, status) in changed(&self.repo())? {
            if status.is_wt_new() && !status.is_index_deleted() {
                dirty.untracked += 1;
            } else {
                dirty.tracked += 1;
            }
            if dirty.examples.len() < EXAMPLES {
                dirty.examples.push(lossy(&path));
            }
        }
        Ok(dirty)
    }
}

/// The paths that differ from `HEAD` in the index or the working tree.
fn changed(repo: &Repository) -> Result<Vec<(Vec<u8>, Status)>> {
    let index = repo.index().map_err(|e| index_error(repo, &e))?;
    let mut options = StatusOptions::new();
    options
        .show(StatusShow::IndexAndWorkdir)
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .include_ignored(false)
        .exclude_submodules(true)
        .update_index(false);
    let statuses = repo.statuses(Some(&mut options)).doing("compare the working tree")?;
    let mut changed = Vec::new();
    for entry in statuses.iter() {
        let (path, status) = (entry.path_bytes().to_vec(), entry.status());
        // A directory with a repository of its own is no file of this one.
        if path.ends_with(b"/") || is_left_out(&index, &path, status) {
            continue;
        }
        changed.push((path, status));
    }
    Ok(changed)
}

fn index_error(repo: &Repository, e: &git2::Error) -> RepoError {
    RepoError::Unsupported {
        path: repo.path().to_owned(),
        reason: format!(
            "its index ({}); a split or sparse index is turned off with \
             `git update-index --no-split-index` and `git sparse-checkout reapply --no-sparse-index`",
            e.message()
        ),
    }
}

/// Whether a file is missing only because a sparse checkout leaves it out.
fn is_left_out(index: &Index, path: &[u8], status: Status) -> bool {
    status == Status::WT_DELETED
        && index
            .get_path(Path::new(std::ffi::OsStr::from_bytes(path)), 0)
            .is_some_and(|entry| entry.flags_extended & SKIP_WORKTREE != 0)
}

/// The uncommitted changes as edits of `HEAD`'s tree. `put` keeps a blob in the engine's store.
pub(crate) fn edits(user: &UserRepo, put: &dyn Fn(&[u8]) -> Result<git2::Oid>) -> Result<Edits> {
    let repo = user.repo();
    let top = files::open_dir(user.top()).at("open", user.top())?;
    let index = repo.index().map_err(|e| index_error(&repo, &e))?;
    let mut edits = Edits::new();
    for (path, status) in changed(&repo)? {
        if status.is_conflicted() {
            return Err(RepoError::Conflicted { path: lossy(&path) });
        }
        let read = read_below(&top, &path, MAX_FILE).at("read", path_of(&path))?;
        let leaf = match read {
            Some((mode, bytes)) => {
                let bytes = clean(&repo, &index, &path, mode, bytes)?;
                Some(Leaf { mode, id: put(&bytes)? })
            }
            None => None,
        };
        edits.insert(path, leaf);
    }
    Ok(edits)
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// The bytes that git would store for a file: only line ends are converted; a file that needs another
/// filter is refused.
fn clean(
    repo: &Repository,
    index: &Index,
    path: &[u8],
    mode: u32,
    bytes: Vec<u8>,
) -> Result<Vec<u8>> {
    if mode == super::objects::LINK {
        return Ok(bytes);
    }
    match text_rule(repo, path)? {
        Text::Binary => Ok(bytes),
        Text::Always => Ok(eol::to_lf(bytes)),
        Text::Auto => {
            let stored = index.get_path(path_of(path), 0).map(|entry| entry.id);
            let odb = Objects::of(repo)?;
            let stored = stored.and_then(|id| read_blob(&odb, id).ok());
            let keep = eol::looks_binary(&bytes) || stored.is_some_and(|s| s.contains(&b'\r'));
            Ok(if keep { bytes } else { eol::to_lf(bytes) })
        }
    }
}

/// How a path's line ends are stored, by the attributes and configuration in force.
///
/// # Errors
/// [`RepoError::Filtered`] when something else than line ends is converted.
pub(crate) fn text_rule(repo: &Repository, path: &[u8]) -> Result<Text> {
    let attribute = |name: &str| -> Result<AttrValue<'_>> {
        let value = repo.get_attr_bytes(path_of(path), name, AttrCheckFlags::FILE_THEN_INDEX);
        Ok(AttrValue::always_bytes(value.doing("read attributes")?))
    };
    for name in ["filter", "working-tree-encoding", "ident"] {
        let filter = match attribute(name)? {
            AttrValue::Bytes(value) => lossy(value),
            AttrValue::True => name.to_owned(),
            _ => continue,
        };
        return Err(RepoError::Filtered { path: lossy(path), filter });
    }
    let auto = autocrlf(repo).is_some();
    let eol = matches!(attribute("eol")?, AttrValue::Bytes(_));
    let old = attribute("crlf")?;
    let text = match attribute("text")? {
        AttrValue::Unspecified => old,
        text => text,
    };
    Ok(match text {
        AttrValue::False => Text::Binary,
        AttrValue::True => Text::Always,
        AttrValue::Bytes(b"auto") => Text::Auto,
        AttrValue::Bytes(b"input") => Text::Always,
        _ if eol => Text::Always,
        _ if auto => Text::Auto,
        _ => Text::Binary,
    })
}

/// `core.autocrlf` where it converts: `true` or `input`.
fn autocrlf(repo: &Repository) -> Option<String> {
    let config = repo.config().and_then(|mut config| config.snapshot()).ok()?;
    let value = config.get_str("core.autocrlf").ok()?.to_lowercase();
    (!matches!(value.as_str(), "false" | "no" | "off" | "0")).then_some(value)
}

/// Whether git would check out a new text file at this path with CRLF.
///
/// # Errors
/// [`RepoError::Filtered`] when something else than line ends is converted.
pub(crate) fn wants_crlf(repo: &Repository, path: &[u8]) -> Result<bool> {
    if text_rule(repo, path)? == Text::Binary {
        return Ok(false);
    }
    let flags = AttrCheckFlags::FILE_THEN_INDEX;
    let eol = repo.get_attr_bytes(path_of(path), "eol", flags).doing("read attributes")?;
    match AttrValue::always_bytes(eol) {
        AttrValue::Bytes(b"crlf") => return Ok(true),
        AttrValue::Bytes(b"lf") => return Ok(false),
        _ => {}
    }
    let by_auto = autocrlf(repo).is_some_and(|value| value != "input");
    let by_eol = repo.config().is_ok_and(|c| c.get_string("core.eol").is_ok_and(|v| v == "crlf"));
    Ok(by_auto || by_eol)
}
