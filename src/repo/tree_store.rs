//! The run's store as `patch` sees it: trees and blobs by their ids.

use git2::ObjectType;

use super::error::GitContext;
use super::error::RepoError;
use super::objects::{Entry, oid, read_blob, read_tree, write_tree};
use super::store::Store;
use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

impl TreeStore for Store {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        let entries = self.with_odb(|odb| read_tree(odb, oid(id.as_str())?));
        let outer = |entry: Entry| TreeEntry {
            name: entry.name,
            mode: entry.mode,
            id: ObjectId::new(entry.id.to_string()),
        };
        Ok(entries.map_err(failed)?.into_iter().map(outer).collect())
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.with_odb(|odb| read_blob(odb, oid(id.as_str())?)).map_err(failed)
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let written = self.with_odb(|odb| odb.write(ObjectType::Blob, bytes).doing("write a blob"));
        written.map(|id| ObjectId::new(id.to_string())).map_err(failed)
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let inner = |entry: TreeEntry| {
            Ok(Entry { name: entry.name, mode: entry.mode, id: oid(entry.id.as_str())? })
        };
        let written = self.with_odb(|odb| {
            let entries: Vec<Entry> =
                entries.into_iter().map(inner).collect::<Result<_, RepoError>>()?;
            write_tree(odb, entries)
        });
        written.map(|id| TreeId::new(id.to_string())).map_err(failed)
    }
}

fn failed(error: RepoError) -> StoreError {
    match error {
        RepoError::MissingObject { id, .. } => StoreError::Missing(id),
        other => StoreError::Backend(other.to_string()),
    }
}
