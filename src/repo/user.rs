//! The user's repository, read and never written: revisions, trees, files, diffs between revisions.
//!
//! libgit2 runs no hook, no external filter, no text conversion and no fsmonitor, whatever the
//! repository's configuration says. Never here: a write of any kind (see `apply`), the network.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use git2::{ErrorClass, ErrorCode, Repository, RepositoryOpenFlags};

use super::error::{GitContext, RepoError, Result};
use super::object_db::Objects;
use super::objects::{GITLINK, LINK, TREE, canonical, list, oid, read_blob};
use super::{edit, gitdiff, suggest};
use crate::model::{CommitId, TreeId};

/// The repository that the user works in. Reading it changes nothing in it.
pub struct UserRepo {
    repo: Mutex<Repository>,
    top: PathBuf,
}

impl std::fmt::Debug for UserRepo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserRepo").field("top", &self.top).finish_non_exhaustive()
    }
}

impl UserRepo {
    /// Finds the repository whose working tree holds `dir`.
    ///
    /// # Errors
    /// Not a repository, a bare one, one without a commit, one in an unsupported format, or one
    /// whose configuration names a foreign working tree.
    pub fn discover(dir: &Path) -> Result<Self> {
        set_up_library();
        let dir = dir
            .canonicalize()
            .map_err(|e| RepoError::NoDirectory { path: dir.to_owned(), reason: e.to_string() })?;
        let none: &[&std::ffi::OsStr] = &[];
        let repo = Repository::open_ext(&dir, RepositoryOpenFlags::empty(), none)
            .map_err(|e| open_error(&dir, e))?;
        let top = work_tree(&repo, &dir)?;
        check_head(&repo, &top)?;
        check_index(&repo, &top)?;
        Ok(Self { repo: Mutex::new(repo), top })
    }

    /// The top of the working tree, resolved.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The commit that a revision names (`HEAD`, a branch, a tag, an object name, `HEAD~2`).
    ///
    /// # Errors
    /// [`RepoError::UnknownRevision`] with what may have been meant.
    pub fn resolve(&self, rev: &str) -> Result<CommitId> {
        let repo = self.repo();
        let commit = repo.revparse_single(rev).and_then(|object| object.peel_to_commit());
        match commit {
            Ok(commit) => Ok(CommitId::new(commit.id().to_string())),
            Err(_) => Err(RepoError::UnknownRevision {
                rev: rev.to_owned(),
                hint: suggest::revision(&repo, rev),
            }),
        }
    }

    /// A commit's tree.
    ///
    /// # Errors
    /// When the commit is not there.
    pub fn tree_of(&self, commit: &CommitId) -> Result<TreeId> {
        let id = oid(commit.as_str())?;
        let tree = self.repo().find_commit(id).doing("read the commit")?.tree_id();
        Ok(TreeId::new(tree.to_string()))
    }

    /// The bytes of a regular file in a commit; nothing when there is no regular file at `path`.
    ///
    /// # Errors
    /// When the commit or an object on the way is not there.
    pub fn file_at(&self, commit: &CommitId, path: &Path) -> Result<Option<Vec<u8>>> {
        let repo = self.repo();
        let commit = repo.find_commit(oid(commit.as_str())?).doing("read the commit")?;
        let tree = commit.tree().doing("read the base tree")?;
        let entry = match tree.get_path(path) {
            Ok(entry) => entry,
            Err(e) if e.code() == ErrorCode::NotFound => return Ok(None),
            Err(e) => return Err(e).doing("read a file of the base"),
        };
        let mode = canonical(entry.filemode().cast_unsigned());
        if entry.kind() != Some(git2::ObjectType::Blob) || mode == LINK || mode == TREE {
            return Ok(None);
        }
        let odb = Objects::of(&repo)?;
        read_blob(&odb, entry.id()).map(Some)
    }

    /// Whether a commit has a directory at `path`; the empty path is the top.
    ///
    /// # Errors
    /// When the commit or an object on the way is not there.
    pub fn has_dir(&self, commit: &CommitId, path: &Path) -> Result<bool> {
        Ok(self.dir_at(&self.repo(), commit, path)?.is_some())
    }

    /// The regular files below a directory of a commit, with paths from the top; none when there is no
    /// such directory.
    ///
    /// # Errors
    /// When an object is not there.
    pub fn files_below(&self, commit: &CommitId, dir: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let repo = self.repo();
        let Some(tree) = self.dir_at(&repo, commit, dir)? else { return Ok(Vec::new()) };
        let odb = Objects::of(&repo)?;
        let mut files = Vec::new();
        for item in list(&odb, tree)? {
            if item.leaf.mode != LINK && item.leaf.mode != GITLINK {
                let path = dir.join(std::ffi::OsStr::from_bytes(&item.path));
                files.push((path, read_blob(&odb, item.leaf.id)?));
            }
        }
        Ok(files)
    }

    fn dir_at(
        &self,
        repo: &Repository,
        commit: &CommitId,
        dir: &Path,
    ) -> Result<Option<git2::Oid>> {
        let commit = repo.find_commit(oid(commit.as_str())?).doing("read the commit")?;
        if dir.as_os_str().is_empty() || dir == Path::new(".") {
            return Ok(Some(commit.tree_id()));
        }
        match commit.tree().doing("read the base tree")?.get_path(dir) {
            Ok(entry) if entry.kind() == Some(git2::ObjectType::Tree) => Ok(Some(entry.id())),
            Ok(_) => Ok(None),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(e).doing("read a directory of the base"),
        }
    }

    /// The change that a revision or branch makes, as a git-format diff: from the newest commit that
    /// it shares with `base`, or from `base` itself where they share none.
    ///
    /// # Errors
    /// When the revision or one of its objects is not there.
    pub fn diff_from(&self, base: &CommitId, rev: &str) -> Result<Vec<u8>> {
        let rev = oid(self.resolve(rev)?.as_str())?;
        let base = oid(base.as_str())?;
        let repo = self.repo();
        let from = repo.merge_base(base, rev).unwrap_or(base);
        let odb = Objects::of(&repo)?;
        let tree = |id| repo.find_commit(id).doing("read the commit").map(|c| c.tree_id());
        let changes = edit::compare(&odb, tree(from)?, tree(rev)?)?;
        gitdiff::print(&changes, &|leaf| read_blob(&odb, leaf.id))
    }

    pub(super) fn repo(&self) -> MutexGuard<'_, Repository> {
        self.repo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the library's switches, once per process.
pub(super) fn set_up_library() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A partial clone is read like any other; what it lacks is named when it is needed. The
        // owner of a repository does not matter because nothing that its configuration names is
        // ever run.
        // SAFETY: both set globals of libgit2 that nothing else touches, before any repository is
        // opened by this module.
        unsafe {
            let _ = git2::opts::set_extensions(&["partialclone"]);
            let _ = git2::opts::set_verify_owner_validation(false);
        }
    });
}

fn open_error(dir: &Path, e: git2::Error) -> RepoError {
    let message = e.message().to_owned();
    if e.code() == ErrorCode::NotFound && e.class() == ErrorClass::Repository {
        return RepoError::NotARepository(dir.to_owned());
    }
    if message.contains("object format") || message.contains("objectformat") {
        return RepoError::Sha256(dir.to_owned());
    }
    let reason = if message.contains("refstorage") {
        "its references are stored as a reftable; convert it with `git refs migrate --ref-format=files`".into()
    } else {
        format!("{message}; check it with `git status`")
    };
    RepoError::Unsupported { path: dir.to_owned(), reason }
}

fn work_tree(repo: &Repository, dir: &Path) -> Result<PathBuf> {
    let Some(top) = repo.workdir().filter(|_| !repo.is_bare()) else {
        return Err(RepoError::Bare(repo.path().to_owned()));
    };
    let top = top
        .canonicalize()
        .map_err(|e| RepoError::NoDirectory { path: top.to_owned(), reason: e.to_string() })?;
    let git_dir = repo.path().canonicalize().unwrap_or_else(|_| repo.path().to_owned());
    // `core.worktree` of a hostile repository may name any directory of the user's.
    if !dir.starts_with(&top) && !dir.starts_with(&git_dir) {
        return Err(RepoError::ForeignWorkTree { git_dir, work_tree: top });
    }
    Ok(top)
}

/// Refuses an index that the library would read for ever, as a pipe.
fn check_index(repo: &Repository, top: &Path) -> Result<()> {
    match std::fs::metadata(repo.path().join("index")) {
        Ok(index) if !index.is_file() => Err(RepoError::Unsupported {
            path: top.to_owned(),
            reason: "its index is no regular file; move it away and run `git reset`".to_owned(),
        }),
        // Without one nothing is staged; what can't be read is told by whoever reads it.
        _ => Ok(()),
    }
}

fn check_head(repo: &Repository, top: &Path) -> Result<()> {
    match repo.head() {
        Ok(_) => Ok(()),
        Err(e) if e.code() == ErrorCode::UnbornBranch => Err(RepoError::Empty(top.to_owned())),
        Err(e) => Err(RepoError::Unsupported {
            path: top.to_owned(),
            reason: format!("HEAD can't be resolved ({}); check it with `git status`", e.message()),
        }),
    }
}
