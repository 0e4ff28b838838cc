//! Commits: on a new branch without touching the working tree, or on the current one with it.
//! Hooks are not run and nothing is signed.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{Branch, ErrorCode, Index, IndexEntry, IndexTime, Oid, Repository, RepositoryState};

use super::super::edit::Change;
use super::super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::super::object_db::Objects;
use super::super::store::{Store, copy_tree};
use super::super::{files, user::UserRepo};
use super::write_files;

/// Makes a branch with a commit of `tree` on `parent`.
pub(super) fn branch(
    user: &UserRepo,
    store: &Store,
    parent: Oid,
    tree: Oid,
    name: &str,
    message: &str,
) -> Result<Oid> {
    let refuse = |reason: &str| RepoError::Branch { name: name.into(), reason: reason.into() };
    if !Branch::name_is_valid(name).unwrap_or(false) {
        return Err(refuse("it is no valid branch name; see `git help check-ref-format`"));
    }
    let repo = user.repo();
    let full = format!("refs/heads/{name}");
    match repo.find_reference(&full) {
        Ok(_) => return Err(refuse("it exists; name another one or delete it")),
        Err(e) if e.code() == ErrorCode::NotFound => {}
        Err(e) => return Err(refuse(e.message())),
    }
    let commit = make(&repo, store, parent, tree, message)?;
    repo.reference(&full, commit, false, "bakeoff: apply")
        .map_err(|e| refuse(e.message()))
        .map(|_| commit)
}

/// Writes the change to the working tree and the index and commits it on the current branch.
pub(super) fn on_head(
    user: &UserRepo,
    store: &Store,
    parent: Oid,
    tree: Oid,
    changes: &[Change],
    message: &str,
) -> Result<Oid> {
    let (branch, commit, index_path) = {
        let repo = user.repo();
        let branch = check(&repo, changes)?;
        let commit = make(&repo, store, parent, tree, message)?;
        let index = repo.index().doing("read the index")?;
        (branch, commit, index.path().map(Path::to_owned))
    };
    let Some(index_path) = index_path else {
        return Err(RepoError::Commit("the index has no file".into()));
    };
    let index_bytes = fs::read(&index_path).at("read", &index_path)?;
    let permissions = fs::metadata(&index_path).at("read", &index_path)?.permissions();
    let stage = write_files(user, store, changes)?;
    let repo = user.repo();
    let moved = update_index(&repo, user.top(), changes).and_then(|()| {
        repo.reference_matching(&branch, commit, true, parent, "commit (bakeoff): apply").map_err(
            |e| RepoError::Commit(format!("the branch moved ({}); try again", e.message())),
        )
    });
    match moved {
        Ok(_) => stage.keep().map(|()| commit),
        Err(cause) => {
            let restored = files::replace(&index_path, &index_bytes)
                .and_then(|()| fs::set_permissions(&index_path, permissions));
            let cause = stage.abandon(cause);
            restored.at("restore", &index_path)?;
            Err(cause)
        }
    }
}

/// The current branch, when a commit may be made on it without taking staged work along or over.
fn check(repo: &Repository, changes: &[Change]) -> Result<String> {
    if repo.state() != RepositoryState::Clean {
        let why = format!("a {:?} is under way; finish or abort it first", repo.state());
        return Err(RepoError::Commit(why.to_lowercase()));
    }
    let head = repo.find_reference("HEAD").doing("read HEAD")?;
    let Ok(Some(branch)) = head.symbolic_target() else {
        return Err(RepoError::Commit(
            "HEAD is detached; check out a branch, or apply to a new one with --branch".into(),
        ));
    };
    let index = fresh_index(repo)?;
    for change in changes {
        let staged = index.get_path(path_of(change), 0).map(|entry| (entry.mode, entry.id));
        if staged != change.old.map(|leaf| (leaf.mode, leaf.id)) {
            let why = "has staged changes".into();
            return Err(RepoError::WouldOverwrite { path: lossy(&change.path), why });
        }
    }
    Ok(branch.to_owned())
}

/// The index as it is on disk now: a run is long, and the user works meanwhile.
fn fresh_index(repo: &Repository) -> Result<Index> {
    let mut index = repo.index().doing("read the index")?;
    index.read(true).doing("read the index")?;
    Ok(index)
}

fn path_of(change: &Change) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(&change.path))
}

/// Copies the tree's objects and writes the commit object; no reference moves.
fn make(repo: &Repository, store: &Store, parent: Oid, tree: Oid, message: &str) -> Result<Oid> {
    let who = repo.signature().map_err(|_| {
        RepoError::Commit(
            "git knows no name for the author; set `user.name` and `user.email`".to_owned(),
        )
    })?;
    let to = Objects::of(repo)?;
    store.with_odb(|odb| copy_tree(odb, &to, tree))?;
    let parent = repo.find_commit(parent).doing("read the base commit")?;
    let tree = repo.find_tree(tree).doing("read the new tree")?;
    repo.commit(None, &who, &who, message, &tree, &[&parent]).doing("write the commit")
}

fn update_index(repo: &Repository, top: &Path, changes: &[Change]) -> Result<()> {
    let mut index = fresh_index(repo)?;
    for change in changes.iter().filter(|change| change.new.is_none()) {
        index.remove(path_of(change), 0).doing("update the index")?;
    }
    for change in changes {
        if let Some(entry) = entry(top, change)? {
            index.add(&entry).doing("update the index")?;
        }
    }
    write(&mut index)
}

fn write(index: &mut Index) -> Result<()> {
    index.write().map_err(|e| match e.code() {
        ErrorCode::Locked => RepoError::Commit(
            "the index is locked; wait for the other git process, or remove `index.lock`".into(),
        ),
        _ => RepoError::Commit(format!("the index can't be written ({})", e.message())),
    })
}

fn entry(top: &Path, change: &Change) -> Result<Option<IndexEntry>> {
    use std::os::unix::fs::MetadataExt;
    let Some(leaf) = change.new else { return Ok(None) };
    let path = top.join(path_of(change));
    let meta = fs::symlink_metadata(&path).at("read", &path)?;
    Ok(Some(IndexEntry {
        ctime: IndexTime::new(meta.ctime() as i32, meta.ctime_nsec() as u32),
        mtime: IndexTime::new(meta.mtime() as i32, meta.mtime_nsec() as u32),
        dev: meta.dev() as u32,
        ino: meta.ino() as u32,
        mode: leaf.mode,
        uid: meta.uid(),
        gid: meta.gid(),
        file_size: meta.size() as u32,
        id: leaf.id,
        flags: 0,
        flags_extended: 0,
        path: change.path.clone(),
    }))
}
