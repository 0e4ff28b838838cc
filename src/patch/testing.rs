//! A store in memory for this module's tests. Its ids are SHA-256 of the contents, cut to 40 digits.

use std::collections::HashMap;
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::tree::{Editor, ObjectId, StoreError, TreeEntry, TreeStore};
use super::{Rules, admit};
use crate::model::{Admission, TreeId};

#[derive(Default)]
pub(super) struct MemoryStore {
    blobs: Mutex<HashMap<String, Vec<u8>>>,
    trees: Mutex<HashMap<String, Vec<TreeEntry>>>,
    /// How many trees were read.
    pub reads: Mutex<usize>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

impl TreeStore for MemoryStore {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        *self.reads.lock().unwrap() += 1;
        let tree = self.trees.lock().unwrap().get(id.as_str()).cloned();
        tree.ok_or_else(|| StoreError::Missing(id.to_string()))
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let blob = self.blobs.lock().unwrap().get(id.as_str()).cloned();
        blob.ok_or_else(|| StoreError::Missing(id.as_str().to_owned()))
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let id = hash(bytes);
        self.blobs.lock().unwrap().insert(id.clone(), bytes.to_vec());
        Ok(ObjectId::new(id))
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let id = hash(format!("{entries:?}").as_bytes());
        self.trees.lock().unwrap().insert(id.clone(), entries);
        Ok(TreeId::new(id))
    }
}

impl MemoryStore {
    /// Makes a tree of regular files; a name that ends in `*` is executable, in `@` a link.
    pub(super) fn make(&self, files: &[(&str, &str)]) -> TreeId {
        let empty = self.put_tree(Vec::new()).unwrap();
        let mut editor = Editor::new(self, &empty).unwrap();
        for (name, contents) in files {
            let (name, mode) = match (name.strip_suffix('*'), name.strip_suffix('@')) {
                (Some(name), _) => (name, 0o100_755),
                (_, Some(name)) => (name, 0o120_000),
                _ => (*name, 0o100_644),
            };
            let id = self.put_blob(contents.as_bytes()).unwrap();
            editor.put(name.as_bytes(), mode, id).unwrap().unwrap();
        }
        editor.write(&empty).unwrap()
    }

    /// All files below a tree, as `MODE PATH CONTENTS`.
    pub(super) fn list(&self, tree: &TreeId) -> Vec<String> {
        let mut out = Vec::new();
        self.walk(tree, "", &mut out);
        out
    }

    fn walk(&self, tree: &TreeId, under: &str, out: &mut Vec<String>) {
        for entry in self.tree(tree).unwrap() {
            let path = format!("{under}{}", String::from_utf8_lossy(&entry.name));
            match entry.mode {
                0o40_000 => self.walk(&TreeId::new(entry.id.as_str()), &format!("{path}/"), out),
                0o160_000 => out.push(format!("160000 {path} {}", entry.id.as_str())),
                mode => {
                    let text = self.blob(&entry.id).unwrap();
                    out.push(format!("{mode:o} {path} {}", String::from_utf8_lossy(&text)));
                }
            }
        }
    }

    /// Admits a diff and lists what it gives, or the code of the refusal.
    pub(super) fn verdict(
        &self,
        base: &TreeId,
        diff: &str,
        rules: &Rules,
    ) -> Result<Vec<String>, String> {
        match admit(diff.as_bytes(), base, self, rules).unwrap() {
            Admission::Admitted { tree, .. } => Ok(self.list(&tree)),
            Admission::Refused(refusal) => Err(refusal.code),
        }
    }
}
