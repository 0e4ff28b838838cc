//! What two trees differ in, and a tree with some leaves put differently. Only directories on the way
//! are read and written.

use std::collections::BTreeMap;

use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

/// A file, symbolic link or submodule of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its mode.
    pub mode: u32,
    /// Its object.
    pub id: ObjectId,
}

impl Leaf {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode != SYMLINK && self.mode != SUBMODULE
    }
}

/// A path whose leaf differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// From the top, `/` between its parts, any bytes.
    pub path: Vec<u8>,
    /// What the base has there.
    pub base: Option<Leaf>,
    /// What the candidate has there.
    pub now: Option<Leaf>,
}

/// A path as text.
pub fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Every path in which two trees differ, sorted.
pub fn changes(
    store: &dyn TreeStore,
    base: &TreeId,
    now: &TreeId,
) -> Result<Vec<Change>, StoreError> {
    let mut found = BTreeMap::new();
    differ(store, &[], Some(base.clone()), Some(now.clone()), &mut found)?;
    Ok(found.into_values().collect())
}

fn differ(
    store: &dyn TreeStore,
    prefix: &[u8],
    base: Option<TreeId>,
    now: Option<TreeId>,
    found: &mut BTreeMap<Vec<u8>, Change>,
) -> Result<(), StoreError> {
    if base == now {
        return Ok(());
    }
    let (before, after) = (entries(store, base.as_ref())?, entries(store, now.as_ref())?);
    let mut names: Vec<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        if old == new {
            continue;
        }
        let path = join(prefix, name);
        if is_dir(old) || is_dir(new) {
            differ(store, &path, subtree(old), subtree(new), found)?;
        }
        let (old, new) = (leaf(old), leaf(new));
        if old.is_some() || new.is_some() {
            found.insert(path.clone(), Change { path, base: old, now: new });
        }
    }
    Ok(())
}

fn entries(
    store: &dyn TreeStore,
    id: Option<&TreeId>,
) -> Result<BTreeMap<Vec<u8>, TreeEntry>, StoreError> {
    let list = id.map_or(Ok(Vec::new()), |id| store.tree(id))?;
    Ok(list.into_iter().map(|entry| (entry.name.clone(), entry)).collect())
}

fn is_dir(entry: Option<&TreeEntry>) -> bool {
    entry.is_some_and(|entry| entry.mode == DIRECTORY)
}

fn subtree(entry: Option<&TreeEntry>) -> Option<TreeId> {
    entry.filter(|entry| entry.mode == DIRECTORY).map(|entry| TreeId::new(entry.id.as_str()))
}

fn leaf(entry: Option<&TreeEntry>) -> Option<Leaf> {
    entry
        .filter(|entry| entry.mode != DIRECTORY)
        .map(|entry| Leaf { mode: entry.mode, id: entry.id.clone() })
}

fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// Whether a tree has something at a path.
pub fn has(store: &dyn TreeStore, tree: &TreeId, path: &[u8]) -> Result<bool, StoreError> {
    let mut at = Some(tree.clone());
    let mut there = false;
    for part in path.split(|byte| *byte == b'/') {
        let Some(id) = at else { return Ok(false) };
        let entry = store.tree(&id)?.into_iter().find(|entry| entry.name == part);
        there = entry.is_some();
        at = subtree(entry.as_ref());
    }
    Ok(there)
}

/// The text of a file of a tree; none when there is no such file, or no text.
pub fn text(
    store: &dyn TreeStore,
    tree: &TreeId,
    path: &str,
) -> Result<Option<String>, StoreError> {
    let mut at = tree.clone();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let entry = store.tree(&at)?.into_iter().find(|entry| entry.name == part.as_bytes());
        match (entry, parts.peek()) {
            (Some(entry), Some(_)) if entry.mode == DIRECTORY => {
                at = TreeId::new(entry.id.as_str())
            }
            (Some(entry), None) if entry.mode != DIRECTORY && entry.mode != SUBMODULE => {
                return Ok(String::from_utf8(store.blob(&entry.id)?).ok());
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Paths and texts of the base's tests that may be of a source file: those beside it and in the directories of tests
/// above it whose names hold its own, and in Rust the file itself. At most 40.
pub fn tests_near(
    store: &dyn TreeStore,
    base: &TreeId,
    path: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    const DIRS: [&str; 4] = ["tests", "test", "__tests__", "spec"];
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    let mut dirs = vec![dir.to_owned()];
    let mut above = Some(dir);
    while let Some(at) = above {
        let join =
            |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        dirs.extend(DIRS.iter().map(|name| join(name)));
        above =
            if at.is_empty() { None } else { Some(at.rsplit_once('/').map_or("", |(up, _)| up)) };
    }
    let mut found = Vec::new();
    for dir in dirs {
        let is_tests = DIRS.contains(&dir.rsplit('/').next().unwrap_or(""));
        for entry in listing(store, base, &dir)? {
            let file = String::from_utf8_lossy(&entry.name).into_owned();
            let is_meant =
                file.contains(stem) && (is_tests || file.to_lowercase().contains("test"));
            // Tests of Rust stand in the file itself, and those beside it are named as one likes.
            let in_rust =
                name.ends_with(".rs") && (file == name || is_tests) && file.ends_with(".rs");
            if (is_meant || in_rust) && entry.mode != DIRECTORY && entry.mode != SUBMODULE {
                let bytes = store.blob(&entry.id)?;
                let path = if dir.is_empty() { file } else { format!("{dir}/{file}") };
                found.extend(String::from_utf8(bytes).ok().map(|text| (path, text)));
            }
            if found.len() >= 40 {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// The entries of a directory; none when there is no such directory.
fn listing(store: &dyn TreeStore, tree: &TreeId, dir: &str) -> Result<Vec<TreeEntry>, StoreError> {
    let mut at = tree.clone();
    for part in dir.split('/').filter(|part| !part.is_empty()) {
        let entry = store.tree(&at)?.into_iter().find(|entry| entry.name == part.as_bytes());
        match entry.filter(|entry| entry.mode == DIRECTORY) {
            Some(entry) => at = TreeId::new(entry.id.as_str()),
            None => return Ok(Vec::new()),
        }
    }
    store.tree(&at)
}

/// The tree with the leaves of `edits` put there or, where they are `None`, taken away. A directory
/// that stands in a leaf's way goes, and so do directories that become empty.
pub fn edit(
    store: &dyn TreeStore,
    tree: &TreeId,
    edits: &BTreeMap<Vec<u8>, Option<Leaf>>,
) -> Result<TreeId, StoreError> {
    if edits.is_empty() {
        return Ok(tree.clone());
    }
    let edits = edits.iter().map(|(path, leaf)| (path.as_slice(), leaf.as_ref())).collect();
    match rebuild(store, Some(tree.clone()), edits)? {
        Some(id) => Ok(id),
        None => store.put_tree(Vec::new()),
    }
}

type Edits<'a> = Vec<(&'a [u8], Option<&'a Leaf>)>;

/// The new id of a directory; `None` when nothing is left in it.
fn rebuild(
    store: &dyn TreeStore,
    id: Option<TreeId>,
    edits: Edits<'_>,
) -> Result<Option<TreeId>, StoreError> {
    let mut all = entries(store, id.as_ref())?;
    let mut below: BTreeMap<&[u8], Edits<'_>> = BTreeMap::new();
    for (path, leaf) in edits {
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => {
                below.entry(&path[..slash]).or_default().push((&path[slash + 1..], leaf))
            }
            None => put_leaf(&mut all, path, leaf),
        }
    }
    for (name, inner) in below {
        // Nothing to take away below a name that is not there or that an edit made a file.
        let wanted = inner.iter().any(|(_, leaf)| leaf.is_some());
        if !wanted && !is_dir(all.get(name)) {
            continue;
        }
        match rebuild(store, subtree(all.get(name)), inner)? {
            Some(id) => {
                let id = ObjectId::new(id.as_str());
                all.insert(name.to_vec(), TreeEntry { name: name.to_vec(), mode: DIRECTORY, id });
            }
            None => {
                all.remove(name);
            }
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    let mut list: Vec<TreeEntry> = all.into_values().collect();
    list.sort_by_key(git_order);
    store.put_tree(list).map(Some)
}

fn put_leaf(all: &mut BTreeMap<Vec<u8>, TreeEntry>, name: &[u8], leaf: Option<&Leaf>) {
    match leaf {
        Some(leaf) => {
            let entry = TreeEntry { name: name.to_vec(), mode: leaf.mode, id: leaf.id.clone() };
            all.insert(name.to_vec(), entry);
        }
        // Taking a file away never takes a directory of that name.
        None if !is_dir(all.get(name)) => {
            all.remove(name);
        }
        None => {}
    }
}

/// Git compares a directory's name as if a `/` stood behind it.
fn git_order(entry: &TreeEntry) -> Vec<u8> {
    let mut name = entry.name.clone();
    if entry.mode == DIRECTORY {
        name.push(b'/');
    }
    name
}
