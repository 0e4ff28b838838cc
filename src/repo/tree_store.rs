//! The run's store as `patch` sees it: trees and blobs by their ids, written at once or kept in memory
//! until somebody wants them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use git2::{ObjectType, Oid};

use super::error::GitContext;
use super::error::RepoError;
use super::objects::{Entry, oid, read_blob, read_tree, tree_bytes, write_tree};
use super::store::Store;
use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

impl TreeStore for Store {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        let entries = self.with_odb(|odb| read_tree(odb, oid(id.as_str())?));
        Ok(entries.map_err(failed)?.into_iter().map(outer).collect())
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.with_odb(|odb| read_blob(odb, oid(id.as_str())?)).map_err(failed)
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let written = self.with_odb(|odb| odb.write(ObjectType::Blob, bytes));
        written.map(|id| ObjectId::new(id.to_string())).map_err(failed)
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let written = self.with_odb(|odb| write_tree(odb, inner(entries)?));
        written.map(|id| TreeId::new(id.to_string())).map_err(failed)
    }
}

/// A store whose new objects stay in memory: a verdict on a diff that is refused leaves nothing, and one
/// that is only asked for costs no file.
pub struct Draft<'a, S: ?Sized = dyn TreeStore + 'a> {
    store: &'a S,
    fresh: Mutex<Fresh>,
}

#[derive(Debug, Default)]
struct Fresh {
    blobs: HashMap<String, Vec<u8>>,
    trees: HashMap<String, Vec<TreeEntry>>,
}

impl Store {
    /// An empty draft over this store.
    pub fn draft(&self) -> Draft<'_, Self> {
        Draft::over(self)
    }
}

impl<S: ?Sized> std::fmt::Debug for Draft<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("fresh", &self.fresh).finish_non_exhaustive()
    }
}

impl<'a, S: TreeStore + ?Sized> Draft<'a, S> {
    /// An empty draft over a store.
    pub fn over(store: &'a S) -> Self {
        Self { store, fresh: Mutex::default() }
    }
}

impl Draft<'_, Store> {
    /// Writes what is new to the store.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn keep(self) -> Result<(), StoreError> {
        let fresh = self.fresh.into_inner().unwrap_or_else(PoisonError::into_inner);
        let trees =
            fresh.trees.into_iter().map(|(id, entries)| Ok((id, tree_bytes(inner(entries)?))));
        let trees = trees.collect::<Result<Vec<_>, RepoError>>().map_err(failed)?;
        let blobs = fresh.blobs.iter().map(|(id, bytes)| (id, ObjectType::Blob, bytes));
        let trees = trees.iter().map(|(id, bytes)| (id, ObjectType::Tree, bytes));
        let named = |(id, kind, bytes): (&String, _, _)| Ok((oid(id)?, kind, Vec::as_slice(bytes)));
        // All at once, so that a tree that is there is whole.
        let all = blobs.chain(trees).map(named).collect::<Result<Vec<_>, RepoError>>();
        all.and_then(|all| self.store.objects().add(&all)).map_err(failed)
    }
}

impl<S: ?Sized> Draft<'_, S> {
    fn with<T>(&self, work: impl FnOnce(&mut Fresh) -> T) -> T {
        work(&mut self.fresh.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: TreeStore + ?Sized> TreeStore for Draft<'_, S> {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        match self.with(|fresh| fresh.trees.get(id.as_str()).cloned()) {
            Some(entries) => Ok(entries),
            None => self.store.tree(id),
        }
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        match self.with(|fresh| fresh.blobs.get(id.as_str()).cloned()) {
            Some(bytes) => Ok(bytes),
            None => self.store.blob(id),
        }
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let id = named(ObjectType::Blob, bytes)?;
        self.with(|fresh| fresh.blobs.insert(id.clone(), bytes.to_vec()));
        Ok(ObjectId::new(id))
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let id = named(ObjectType::Tree, &tree_bytes(inner(entries.clone()).map_err(failed)?))?;
        self.with(|fresh| fresh.trees.insert(id.clone(), entries));
        Ok(TreeId::new(id))
    }
}

/// The id that git gives to an object.
fn named(kind: ObjectType, bytes: &[u8]) -> Result<String, StoreError> {
    let id = Oid::hash_object(kind, bytes).doing("name an object").map_err(failed)?;
    Ok(id.to_string())
}

pub(super) fn outer(entry: Entry) -> TreeEntry {
    TreeEntry { name: entry.name, mode: entry.mode, id: ObjectId::new(entry.id.to_string()) }
}

fn inner(entries: Vec<TreeEntry>) -> Result<Vec<Entry>, RepoError> {
    let one = |entry: TreeEntry| {
        Ok(Entry { name: entry.name, mode: entry.mode, id: oid(entry.id.as_str())? })
    };
    entries.into_iter().map(one).collect()
}

pub(super) fn failed(error: RepoError) -> StoreError {
    match error {
        RepoError::MissingObject { id, .. } => StoreError::Missing(id),
        other => StoreError::Backend(other.to_string()),
    }
}
