//! Why something about a repository could not be done, each with what to do next.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::{CommitId, LaneId};

/// Why the user's repository, the engine's store or a workspace could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// There is no repository at or above the directory.
    #[error("{} is not inside a git repository; run `git init` there and commit, or name the repository with --repo", .0.display())]
    NotARepository(PathBuf),
    /// The directory can't be entered or read.
    #[error("failed to read {}: {reason}; name an existing directory with --repo", path.display())]
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The repository has no working tree.
    #[error("{} is a bare repository; make a working tree of it with `git worktree add` or `git clone` and name that with --repo", .0.display())]
    Bare(PathBuf),
    /// `HEAD` has no commit yet.
    #[error("{} has no commit yet; commit something first, a change needs a base to stand on", .0.display())]
    Empty(PathBuf),
    /// A revision is not there.
    #[error("revision {rev:?} is not in the repository{hint}")]
    UnknownRevision {
        /// As it was given.
        rev: String,
        /// What may have been meant, from a semicolon on; empty when nothing is near.
        hint: String,
    },
    /// The repository names its objects by SHA-256.
    #[error("{} uses SHA-256 object names, which are not supported; convert a copy with `git fast-export --all` into a fresh SHA-1 repository", .0.display())]
    Sha256(PathBuf),
    /// Another part of the repository's format is not supported.
    #[error("{} can't be read: {reason}", path.display())]
    Unsupported {
        /// The repository.
        path: PathBuf,
        /// What is not supported, and a way out.
        reason: String,
    },
    /// The repository's configuration puts its working tree elsewhere.
    #[error("{} says that its working tree is {}, which does not hold it; remove `core.worktree` from its configuration", git_dir.display(), work_tree.display())]
    ForeignWorkTree {
        /// The repository's git directory.
        git_dir: PathBuf,
        /// What it claims.
        work_tree: PathBuf,
    },
    /// Objects that the base needs are not there.
    #[error(
        "object {id} of {what} is missing; a partial clone fetches what is missing with `git fetch --refetch --no-filter`, otherwise see `git fsck`"
    )]
    MissingObject {
        /// The object, or what the library could say of it.
        id: String,
        /// What needed it.
        what: String,
    },
    /// A tree holds a name that no checkout may write.
    #[error("the tree holds the unsafe path {path:?}; such a repository is not checked out")]
    UnsafePath {
        /// The path, lossily decoded.
        path: String,
    },
    /// A tree is beyond what is handled.
    #[error("{what} is too large: more than {limit}")]
    TooLarge {
        /// What.
        what: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// What stands in a directory is no change that is handled: too large, too many or too deep.
    #[error(
        "the change at {path:?} is too large: more than {limit}; remove it, or keep it where the repository's \
         ignore rules leave it out"
    )]
    ChangeTooLarge {
        /// Where, lossily decoded; a long path is cut.
        path: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// Uncommitted changes belong on top of `HEAD` only.
    #[error("uncommitted changes can only be included on top of HEAD; leave out --dirty or --base")]
    DirtyNeedsHead,
    /// Paths with merge conflicts can't be included.
    #[error("{path:?} has merge conflicts; resolve them or leave out --dirty")]
    Conflicted {
        /// The first such path, lossily decoded.
        path: String,
    },
    /// A changed file passes a filter that is never run.
    #[error(
        "{path:?} is changed and passes the filter {filter:?}, which is never run; commit it, or leave out --dirty"
    )]
    Filtered {
        /// The path, lossily decoded.
        path: String,
        /// The filter's name.
        filter: String,
    },
    /// Another live run works in this workspace.
    #[error("the workspace of lane {0} is in use by a running engine; wait for it or stop it")]
    Busy(LaneId),
    /// Another command of git's works on the index.
    #[error("another git command works on the index; wait for it, or remove {} if none runs", .0.display())]
    IndexLocked(PathBuf),
    /// A git command left an object that is damaged, or none that is taken.
    #[error("git left {0} that is not what its name says; nothing was staged")]
    BadObject(String),
    /// What lies on disk is not what was admitted.
    #[error("the tree on disk is not the admitted one: {0}")]
    Mismatch(String),
    /// Applying would lose uncommitted work.
    #[error("{path:?} {why}; commit or move it, then apply again")]
    WouldOverwrite {
        /// The path, lossily decoded.
        path: String,
        /// Why it is in the way.
        why: String,
    },
    /// A path can't be written the way that git would.
    #[error("{path:?} {why}; apply to a branch instead (--branch)")]
    CantWrite {
        /// The path, lossily decoded.
        path: String,
        /// Why not.
        why: String,
    },
    /// A step of applying failed, and so did taking back the steps before it.
    #[error("{cause}; taking it back failed too ({reason}): the files as they were lie in {}", kept.display())]
    HalfApplied {
        /// What failed first.
        cause: String,
        /// What failed then.
        reason: String,
        /// Where the originals are.
        kept: PathBuf,
    },
    /// The base moved and the change does not fit any more.
    #[error(
        "the repository moved from {base} to {now} and the change does not apply there: conflicts in {paths}; run again on the new base, or apply to a branch"
    )]
    Moved {
        /// The run's base.
        base: CommitId,
        /// The current commit.
        now: CommitId,
        /// The paths in conflict.
        paths: String,
    },
    /// A branch can't be made.
    #[error("failed to make branch {name:?}: {reason}")]
    Branch {
        /// The name asked for.
        name: String,
        /// Why not, with what to do.
        reason: String,
    },
    /// A commit can't be made.
    #[error("failed to commit: {0}")]
    Commit(String),
    /// A workspace's overlay could not be mounted.
    #[error("failed to make a workspace: {0}; `bakeoff doctor` shows which kinds work here")]
    Mount(#[from] crate::sandbox::SandboxError),
    /// The system refused something.
    #[error("failed to {action} {}: {source}", path.display())]
    Io {
        /// What was done.
        action: &'static str,
        /// To which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// libgit2 refused something.
    #[error("failed to {action}: {}", source.message())]
    Git {
        /// What was done.
        action: String,
        /// What it said.
        source: git2::Error,
    },
}

/// Short for this module's results.
pub type Result<T, E = RepoError> = std::result::Result<T, E>;

/// Says what was being done to which path when the system refused.
pub(crate) trait IoContext<T> {
    /// Turns a system error into [`RepoError::Io`].
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|e| RepoError::Io { action, path: path.to_owned(), source: e.into() })
    }
}

/// Says what was being done when libgit2 refused.
pub(crate) trait GitContext<T> {
    /// Turns a libgit2 error into [`RepoError::Git`], or [`RepoError::MissingObject`].
    fn doing(self, action: &str) -> Result<T>;
}

impl<T> GitContext<T> for std::result::Result<T, git2::Error> {
    fn doing(self, action: &str) -> Result<T> {
        self.map_err(|source| {
            let missing = source.code() == git2::ErrorCode::NotFound
                && matches!(source.class(), git2::ErrorClass::Odb | git2::ErrorClass::Object);
            if missing {
                return RepoError::MissingObject {
                    id: source.message().to_owned(),
                    what: action.to_owned(),
                };
            }
            RepoError::Git { action: action.to_owned(), source }
        })
    }
}

/// A path for messages.
pub(crate) fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
