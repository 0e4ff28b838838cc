//! A store of trees in memory, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::protect::tree::{self, Leaf};
use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

/// Trees and blobs in memory; ids are counters.
#[derive(Default)]
pub struct Memory {
    blobs: Mutex<Vec<Vec<u8>>>,
    trees: Mutex<Vec<Vec<TreeEntry>>>,
}

impl Memory {
    /// A tree of these files.
    pub fn of(&self, files: &[(&str, &str)]) -> TreeId {
        let edits: BTreeMap<Vec<u8>, Option<Leaf>> = files
            .iter()
            .map(|(path, text)| {
                let id = self.put_blob(text.as_bytes()).unwrap();
                (path.as_bytes().to_vec(), Some(Leaf { mode: 0o100_644, id }))
            })
            .collect();
        let empty = self.put_tree(Vec::new()).unwrap();
        tree::edit(self, &empty, &edits).unwrap()
    }

    /// The text of a file of a tree.
    pub fn text(&self, tree: &TreeId, path: &str) -> Option<String> {
        let empty = self.put_tree(Vec::new()).unwrap();
        let all = tree::changes(self, &empty, tree).unwrap();
        let leaf = all.into_iter().find(|change| change.path == path.as_bytes())?.now?;
        Some(String::from_utf8(self.blob(&leaf.id).unwrap()).unwrap())
    }
}

impl TreeStore for Memory {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        let index: usize = id.as_str().trim_start_matches('t').parse().unwrap();
        Ok(self.trees.lock().unwrap()[index].clone())
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let index: usize = id.as_str().trim_start_matches('b').parse().unwrap();
        Ok(self.blobs.lock().unwrap()[index].clone())
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let mut all = self.blobs.lock().unwrap();
        let index = all.iter().position(|known| known == bytes).unwrap_or_else(|| {
            all.push(bytes.to_vec());
            all.len() - 1
        });
        Ok(ObjectId::new(format!("b{index}")))
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let mut all = self.trees.lock().unwrap();
        let index = all.iter().position(|known| *known == entries).unwrap_or_else(|| {
            all.push(entries);
            all.len() - 1
        });
        Ok(TreeId::new(format!("t{index}")))
    }
}
