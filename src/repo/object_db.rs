//! Objects by their ids, whoever holds them: a repository of git's, or besides it what a run made.
//!
//! The repository of a run holds the base and never changes; what candidates add goes to a file of its
//! own (`made`), so that a worker who reads its workspace's repository finds nothing of another's.
//! Never here: a working tree, an index, a reference.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use git2::{ObjectType, Odb, OdbLookupFlags, Oid, Repository};

use super::error::{GitContext, RepoError, Result};
use super::made::Made;

/// An open handle on objects; it serves one thread at a time.
pub(crate) struct Objects<'a> {
    odb: Odb<'a>,
    made: Option<&'a Made>,
}

impl<'a> Objects<'a> {
    /// Those of a repository, for reading and writing.
    pub(crate) fn of(repo: &'a Repository) -> Result<Self> {
        Ok(Self { odb: repo.odb().doing("open the object store")?, made: None })
    }

    /// An object's bytes, if it is of that kind.
    pub(crate) fn read(&self, id: Oid, kind: ObjectType) -> Result<Vec<u8>> {
        let (found, bytes) = self.read_any(id)?;
        if found != kind {
            return Err(RepoError::Mismatch(format!("object {id} is no {kind}")));
        }
        Ok(bytes)
    }

    /// An object's kind and bytes.
    pub(crate) fn read_any(&self, id: Oid) -> Result<(ObjectType, Vec<u8>)> {
        if let Some(found) = self.made.map(|made| made.read(id)).transpose()?.flatten() {
            return Ok(found);
        }
        let object = self.odb.read(id).map_err(|_| RepoError::MissingObject {
            id: id.to_string(),
            what: "the repository".to_owned(),
        })?;
        Ok((object.kind(), object.data().to_vec()))
    }

    /// Whether an object is there.
    pub(crate) fn exists(&self, id: Oid) -> bool {
        self.made.is_some_and(|made| made.has(id))
            || self.odb.exists_ext(id, OdbLookupFlags::NO_REFRESH)
    }

    /// An object's size in bytes; nothing when it is not there.
    pub(crate) fn size(&self, id: Oid) -> Option<usize> {
        let made = self.made.and_then(|made| made.size(id));
        made.or_else(|| self.odb.read_header(id).ok().map(|(size, _)| size))
    }

    /// Writes an object unless it is there.
    pub(crate) fn write(&self, kind: ObjectType, bytes: &[u8]) -> Result<Oid> {
        let Some(made) = self.made else {
            return self.odb.write(kind, bytes).doing("write an object");
        };
        let id = Oid::hash_object(kind, bytes).doing("name an object")?;
        if !self.exists(id) {
            made.add(&[(id, kind, bytes)])?;
        }
        Ok(id)
    }
}

/// All objects of a run, for any number of threads.
pub(crate) struct ObjectStore {
    git_dir: PathBuf,
    handles: Mutex<Vec<Repository>>,
    made: Made,
}

impl std::fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ObjectStore").field(&self.git_dir).finish()
    }
}

impl ObjectStore {
    /// Those of a run's repository.
    pub(crate) fn open(git_dir: &Path) -> Result<Self> {
        let repo = open(git_dir)?;
        let made = Made::open(&git_dir.join(MADE))?;
        Ok(Self { git_dir: git_dir.to_owned(), handles: Mutex::new(vec![repo]), made })
    }

    /// Runs `work` on the objects, with a handle of its own.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Objects<'_>) -> Result<T>) -> Result<T> {
        let pooled = self.handles.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repo = pooled.map_or_else(|| open(&self.git_dir), Ok)?;
        let odb = repo.odb().doing("open the run's store")?;
        let result = work(&Objects { odb, made: Some(&self.made) });
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(repo);
        result
    }

    /// Writes several objects at once, the ones that are there already left out.
    pub(crate) fn add(&self, objects: &[(Oid, ObjectType, &[u8])]) -> Result<()> {
        self.with(|known| {
            let new: Vec<_> =
                objects.iter().filter(|(id, ..)| !known.exists(*id)).copied().collect();
            self.made.add(&new)
        })
    }

    /// Runs `work` on a handle of its own whose new objects stay in memory.
    pub(crate) fn in_memory<T>(&self, work: impl FnOnce(&Repository) -> Result<T>) -> Result<T> {
        let repo = open(&self.git_dir)?;
        let odb = repo.odb().doing("open the run's store")?;
        odb.add_new_mempack_backend(BEFORE_ALL).doing("open the run's store")?;
        work(&repo)
    }
}

/// The file with what a run made, in its repository's directory.
const MADE: &str = "made.objects";

/// Higher than all of the library's own places for objects, so that it is written to.
const BEFORE_ALL: i32 = 1000;

fn open(git_dir: &Path) -> Result<Repository> {
    Repository::open_bare(git_dir).doing("open the run's store")
}
