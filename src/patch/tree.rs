//! Trees in memory: the trait through which they are read and written, and an editor that loads and
//! builds only the directories which a change touches.
//!
//! Never here: diffs or rules.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::model::TreeId;

/// Mode of a directory in a tree.
pub(super) const TREE: u32 = 0o040_000;

/// A git object id in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(String);

impl ObjectId {
    /// Wraps the hexadecimal text of an id.
    pub fn new(hex: impl Into<String>) -> Self {
        Self(hex.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One entry of a git tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name, one path component, any bytes.
    pub name: Vec<u8>,
    /// The mode as git writes it (`0o100644`, `0o040000`, …).
    pub mode: u32,
    /// The object.
    pub id: ObjectId,
}

/// Why a store could not answer. Not a refusal: the diff is not to blame.
#[derive(Debug, Error)]
pub enum StoreError {
    /// An object is not there.
    #[error("object {0} is missing from the object store: fetch it or start a new run")]
    Missing(String),
    /// The store failed.
    #[error("the object store failed: {0}")]
    Backend(String),
}

/// Where trees and blobs are read and written.
pub trait TreeStore: Send + Sync {
    /// The entries of a tree, in any order.
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError>;
    /// The bytes of a blob.
    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError>;
    /// Writes a blob and gives its id.
    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError>;
    /// Writes a tree (the entries come in git's order, names unique) and gives its id.
    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError>;
}

/// What stands in the way of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// A component that should be a directory is something else (its path is given).
    NotADirectory(Vec<u8>),
    /// A file should be written where a directory is.
    IsADirectory,
}

/// A directory that was loaded, with its loaded children.
struct Node {
    entries: BTreeMap<Vec<u8>, TreeEntry>,
    children: BTreeMap<Vec<u8>, Node>,
    changed: bool,
}

/// A tree being edited.
pub(super) struct Editor<'a> {
    store: &'a dyn TreeStore,
    root: Node,
}

impl<'a> Editor<'a> {
    /// Starts from a tree.
    pub(super) fn new(store: &'a dyn TreeStore, base: &TreeId) -> Result<Self, StoreError> {
        Ok(Self { store, root: Node::load(store, base)? })
    }

    /// The entry at a path, if there is one and all above it are directories.
    pub(super) fn get(&mut self, path: &[u8]) -> Result<Option<TreeEntry>, StoreError> {
        let (directory, name) = split(path);
        let mut node = &mut self.root;
        for component in directory {
            match node.child(self.store, component)? {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(node.entries.get(name).cloned())
    }

    /// The first component above `path` that exists and is no directory, with its mode.
    pub(super) fn obstacle(&mut self, path: &[u8]) -> Result<Option<(Vec<u8>, u32)>, StoreError> {
        let (directory, _) = split(path);
        let mut node = &mut self.root;
        let mut walked = Vec::new();
        for component in directory {
            walked.extend_from_slice(component);
            match node.entries.get(component) {
                None => return Ok(None),
                Some(entry) if entry.mode != TREE => return Ok(Some((walked, entry.mode))),
                Some(_) => {}
            }
            walked.push(b'/');
            match node.child(self.store, component)? {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The names beside a path, its own left out.
    pub(super) fn siblings(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let (directory, name) = split(path);
        let mut node = &mut self.root;
        for component in directory {
            match node.child(self.store, component)? {
                Some(child) => node = child,
                None => return Ok(Vec::new()),
            }
        }
        Ok(node.entries.keys().filter(|other| other.as_slice() != name).cloned().collect())
    }

    /// Takes an entry away; directories that become empty go with it.
    pub(super) fn remove(&mut self, path: &[u8]) -> Result<(), StoreError> {
        let components: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        self.root.remove(self.store, &components).map(|_| ())
    }

    /// Puts an entry at a path, making directories as needed.
    pub(super) fn put(
        &mut self,
        path: &[u8],
        mode: u32,
        id: ObjectId,
    ) -> Result<Result<(), Blocked>, StoreError> {
        let (directory, name) = split(path);
        let mut node = &mut self.root;
        let mut walked = Vec::new();
        for component in directory {
            walked.extend_from_slice(component);
            if node.entries.get(component).is_some_and(|entry| entry.mode != TREE) {
                return Ok(Err(Blocked::NotADirectory(walked)));
            }
            walked.push(b'/');
            node.changed = true;
            node = node.child_or_new(self.store, component)?;
        }
        if node.entries.get(name).is_some_and(|entry| entry.mode == TREE) {
            return Ok(Err(Blocked::IsADirectory));
        }
        node.changed = true;
        node.entries.insert(name.to_vec(), TreeEntry { name: name.to_vec(), mode, id });
        Ok(Ok(()))
    }

    /// Writes what changed and gives the whole tree's id.
    pub(super) fn write(self, base: &TreeId) -> Result<TreeId, StoreError> {
        if !self.root.changed {
            return Ok(base.clone());
        }
        match self.root.write(self.store)? {
            Some(id) => Ok(id),
            None => self.store.put_tree(Vec::new()),
        }
    }
}

impl Node {
    fn empty() -> Self {
        Self { entries: BTreeMap::new(), children: BTreeMap::new(), changed: true }
    }

    fn load(store: &dyn TreeStore, id: &TreeId) -> Result<Self, StoreError> {
        let entries = store.tree(id)?.into_iter().map(|entry| (entry.name.clone(), entry));
        Ok(Self { entries: entries.collect(), children: BTreeMap::new(), changed: false })
    }

    /// The child directory of that name, loaded when first asked for.
    fn child(
        &mut self,
        store: &dyn TreeStore,
        name: &[u8],
    ) -> Result<Option<&mut Self>, StoreError> {
        let entry = match self.entries.get(name) {
            Some(entry) if entry.mode == TREE => entry,
            _ => return Ok(None),
        };
        if !self.children.contains_key(name) {
            let node = Self::load(store, &TreeId::new(entry.id.as_str()))?;
            self.children.insert(name.to_vec(), node);
        }
        Ok(self.children.get_mut(name))
    }

    fn child_or_new(
        &mut self,
        store: &dyn TreeStore,
        name: &[u8],
    ) -> Result<&mut Self, StoreError> {
        if self.child(store, name)?.is_none() {
            // The id is filled in when the directory is written.
            let entry = TreeEntry { name: name.to_vec(), mode: TREE, id: ObjectId::new("") };
            self.entries.insert(name.to_vec(), entry);
            self.children.insert(name.to_vec(), Self::empty());
        }
        Ok(self.children.entry(name.to_vec()).or_insert_with(Self::empty))
    }

    /// Gives whether something was removed below.
    fn remove(&mut self, store: &dyn TreeStore, path: &[&[u8]]) -> Result<bool, StoreError> {
        let removed = match path {
            [] => false,
            [name] => self.entries.remove(*name).is_some(),
            [name, rest @ ..] => {
                let Some(child) = self.child(store, name)? else { return Ok(false) };
                let removed = child.remove(store, rest)?;
                if child.entries.is_empty() {
                    self.entries.remove(*name);
                    self.children.remove(*name);
                }
                removed
            }
        };
        self.changed |= removed;
        Ok(removed)
    }

    /// Writes the directory after its changed children; an empty one is not written.
    fn write(mut self, store: &dyn TreeStore) -> Result<Option<TreeId>, StoreError> {
        for (name, child) in self.children {
            if !child.changed {
                continue;
            }
            match child.write(store)? {
                Some(id) => {
                    if let Some(entry) = self.entries.get_mut(&name) {
                        entry.id = ObjectId::new(id.as_str());
                    }
                }
                None => {
                    self.entries.remove(&name);
                }
            }
        }
        if self.entries.is_empty() {
            return Ok(None);
        }
        let mut entries: Vec<TreeEntry> = self.entries.into_values().collect();
        entries.sort_by_cached_key(sort_key);
        store.put_tree(entries).map(Some)
    }
}

/// Git orders entries as if a directory's name ended in a slash.
fn sort_key(entry: &TreeEntry) -> Vec<u8> {
    let mut key = entry.name.clone();
    if entry.mode == TREE {
        key.push(b'/');
    }
    key
}

/// The directories of a path and its last component.
fn split(path: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut components: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let name = components.pop().unwrap_or_default();
    (components, name)
}

#[cfg(test)]
mod tests {
    use super::super::testing::MemoryStore;
    use super::*;

    fn put(editor: &mut Editor<'_>, store: &MemoryStore, path: &str) -> Result<(), Blocked> {
        let id = store.put_blob(b"new").unwrap();
        editor.put(path.as_bytes(), 0o100_644, id).unwrap()
    }

    #[test]
    fn only_touched_directories_are_read_and_written() {
        let store = MemoryStore::default();
        let base = store.make(&[("a/x", "1"), ("b/c/y", "2"), ("z", "3")]);
        let before = *store.reads.lock().unwrap();
        let mut editor = Editor::new(&store, &base).unwrap();
        put(&mut editor, &store, "a/new").unwrap();
        let tree = editor.write(&base).unwrap();
        assert_eq!(*store.reads.lock().unwrap() - before, 2);
        assert_eq!(
            store.list(&tree),
            ["100644 a/new new", "100644 a/x 1", "100644 b/c/y 2", "100644 z 3"]
        );
    }

    #[test]
    fn empty_directories_go_away_and_an_empty_tree_stays_possible() {
        let store = MemoryStore::default();
        let base = store.make(&[("a/b/x", "1"), ("z", "2")]);
        let mut editor = Editor::new(&store, &base).unwrap();
        editor.remove(b"a/b/x").unwrap();
        assert_eq!(editor.get(b"a/b").unwrap(), None);
        editor.remove(b"nothing/here").unwrap();
        let tree = editor.write(&base).unwrap();
        assert_eq!(store.list(&tree), ["100644 z 2"]);
        let mut editor = Editor::new(&store, &tree).unwrap();
        editor.remove(b"z").unwrap();
        assert!(store.list(&editor.write(&tree).unwrap()).is_empty());
    }

    #[test]
    fn files_and_directories_do_not_take_each_others_place() {
        let store = MemoryStore::default();
        let base = store.make(&[("a/x", "1"), ("f", "2")]);
        let mut editor = Editor::new(&store, &base).unwrap();
        assert_eq!(put(&mut editor, &store, "f/x"), Err(Blocked::NotADirectory(b"f".to_vec())));
        assert_eq!(put(&mut editor, &store, "a"), Err(Blocked::IsADirectory));
        assert_eq!(editor.obstacle(b"f/x").unwrap(), Some((b"f".to_vec(), 0o100_644)));
        assert_eq!(editor.obstacle(b"a/x").unwrap(), None);
    }

    #[test]
    fn entries_come_in_gits_order() {
        let store = MemoryStore::default();
        // As a directory, `a` stands after `a.b` and `a-b`, since it counts as `a/`.
        let base = store.make(&[("a/x", ""), ("a.b", ""), ("a-b", ""), ("a0", "")]);
        let names: Vec<_> =
            store.tree(&base).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [&b"a-b"[..], b"a.b", b"a", b"a0"]);
    }

    #[test]
    fn a_missing_object_is_an_error_and_no_refusal() {
        let store = MemoryStore::default();
        assert!(matches!(Editor::new(&store, &TreeId::new("no")), Err(StoreError::Missing(_))));
    }
}
