//! Any repository's objects, read and never written: a working tree's, a bare one's, a mirror's.
//!
//! For commands that look at a base without making a run of it. What is made on top of it lives in a
//! [`Draft`](super::Draft). Never here: references, configuration, the index.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use git2::{Repository, RepositoryOpenFlags};

use super::error::{RepoError, Result};
use super::object_db::Objects;
use super::objects::{oid, read_blob, read_tree};
use super::tree_store::{failed, outer};
use super::user::set_up_library;
use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

/// A repository that is only looked at.
pub struct Peek {
    repo: Mutex<Repository>,
}

impl std::fmt::Debug for Peek {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peek").finish_non_exhaustive()
    }
}

impl Peek {
    /// Opens the repository at `dir` itself, a working tree or a git directory; none above it is taken.
    ///
    /// # Errors
    /// When there is none, or libgit2 can't read it.
    pub fn open(dir: &Path) -> Result<Self> {
        set_up_library();
        let none: &[&std::ffi::OsStr] = &[];
        let repo = Repository::open_ext(dir, RepositoryOpenFlags::NO_SEARCH, none)
            .map_err(|_| RepoError::NotARepository(dir.to_owned()))?;
        Ok(Self { repo: Mutex::new(repo) })
    }

    /// The tree that a revision, or the name of a tree, stands for.
    ///
    /// # Errors
    /// [`RepoError::UnknownRevision`].
    pub fn tree_of(&self, revision: &str) -> Result<TreeId> {
        let repo = self.repo.lock().unwrap_or_else(PoisonError::into_inner);
        let object = repo.revparse_single(revision);
        let tree = object.and_then(|object| object.peel_to_tree());
        tree.map(|tree| TreeId::new(tree.id().to_string())).map_err(|_| {
            RepoError::UnknownRevision { rev: revision.to_owned(), hint: String::new() }
        })
    }

    fn with<T>(&self, read: impl FnOnce(&Objects<'_>) -> Result<T>) -> Result<T> {
        let repo = self.repo.lock().unwrap_or_else(PoisonError::into_inner);
        read(&Objects::of(&repo)?)
    }
}

impl TreeStore for Peek {
    fn tree(&self, id: &TreeId) -> std::result::Result<Vec<TreeEntry>, StoreError> {
        let entries = self.with(|odb| read_tree(odb, oid(id.as_str())?)).map_err(failed)?;
        Ok(entries.into_iter().map(outer).collect())
    }

    fn blob(&self, id: &ObjectId) -> std::result::Result<Vec<u8>, StoreError> {
        self.with(|odb| read_blob(odb, oid(id.as_str())?)).map_err(failed)
    }

    fn put_blob(&self, _: &[u8]) -> std::result::Result<ObjectId, StoreError> {
        Err(StoreError::Backend(READ_ONLY.to_owned()))
    }

    fn put_tree(&self, _: Vec<TreeEntry>) -> std::result::Result<TreeId, StoreError> {
        Err(StoreError::Backend(READ_ONLY.to_owned()))
    }
}

const READ_ONLY: &str = "the repository is only looked at; write to a draft over it";
