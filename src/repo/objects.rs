//! Git objects by their bytes: trees read and written without interpretation by anybody else.
//!
//! Never here: a working tree, an index, a reference.

use std::collections::HashSet;

use git2::{ObjectType, Oid};

use super::error::{GitContext, RepoError, Result, lossy};
use super::object_db::Objects;

/// A regular file.
pub(crate) const FILE: u32 = 0o100_644;
/// An executable file.
pub(crate) const EXECUTABLE: u32 = 0o100_755;
/// A symbolic link; its target is the blob.
pub(crate) const LINK: u32 = 0o120_000;
/// A submodule's commit.
pub(crate) const GITLINK: u32 = 0o160_000;
/// A directory.
pub(crate) const TREE: u32 = 0o040_000;

/// The most files that a tree may hold: beyond it lies a bomb, not a project.
const MAX_FILES: usize = 2_000_000;
/// The longest path, in bytes, as the system has it.
const MAX_PATH: usize = 4000;

/// One entry of a tree object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) id: Oid,
}

/// A leaf: what is at a path that is no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leaf {
    pub(crate) mode: u32,
    pub(crate) id: Oid,
}

/// A path of a tree and its leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) path: Vec<u8>,
    pub(crate) leaf: Leaf,
}

/// The mode that git gives to what `mode` says: old trees hold 100664 and the like.
pub(crate) fn canonical(mode: u32) -> u32 {
    match mode & 0o170_000 {
        0o120_000 => LINK,
        0o160_000 => GITLINK,
        0o040_000 => TREE,
        _ if mode & 0o100 != 0 => EXECUTABLE,
        _ => FILE,
    }
}

/// Parses an object name.
pub(crate) fn oid(hex: &str) -> Result<Oid> {
    Oid::from_str(hex).doing("read an object name")
}

/// A blob's bytes.
pub(crate) fn read_blob(odb: &Objects<'_>, id: Oid) -> Result<Vec<u8>> {
    odb.read(id, ObjectType::Blob)
}

/// A tree's entries in their stored order, with modes as stored.
pub(crate) fn read_tree(odb: &Objects<'_>, id: Oid) -> Result<Vec<Entry>> {
    let data = odb.read(id, ObjectType::Tree)?;
    parse_tree(&data).ok_or_else(|| RepoError::Mismatch(format!("tree {id} is malformed")))
}

fn parse_tree(mut data: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let space = data.iter().position(|b| *b == b' ')?;
        let nul = space + data.get(space..)?.iter().position(|b| *b == 0)?;
        let mode = u32::from_str_radix(std::str::from_utf8(&data[..space]).ok()?, 8).ok()?;
        let id = Oid::from_bytes(data.get(nul + 1..nul + 21)?).ok()?;
        entries.push(Entry { name: data[space + 1..nul].to_vec(), mode, id });
        data = &data[nul + 21..];
    }
    Some(entries)
}

/// Writes a tree; the entries may come in any order.
pub(crate) fn write_tree(odb: &Objects<'_>, entries: Vec<Entry>) -> Result<Oid> {
    odb.write(ObjectType::Tree, &tree_bytes(entries))
}

/// A tree's bytes; the entries may come in any order.
pub(crate) fn tree_bytes(mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_by_cached_key(sort_key);
    let mut data = Vec::new();
    for entry in &entries {
        data.extend_from_slice(format!("{:o} ", entry.mode).as_bytes());
        data.extend_from_slice(&entry.name);
        data.push(0);
        data.extend_from_slice(entry.id.as_bytes());
    }
    data
}

/// Git sorts a directory as if its name ended in a slash.
fn sort_key(entry: &Entry) -> Vec<u8> {
    let mut key = entry.name.clone();
    if canonical(entry.mode) == TREE {
        key.push(b'/');
    }
    key
}

/// Whether a checkout may write a directory entry of this name.
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    !(name.is_empty()
        || name == b"."
        || name == b".."
        || name.contains(&b'/')
        || name.len() > 255
        || name.eq_ignore_ascii_case(b".git"))
}

/// All leaves of a tree, sorted by path, with canonical modes. Unsafe or doubled names are an error.
pub(crate) fn list(odb: &Objects<'_>, tree: Oid) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    list_into(odb, tree, &mut Vec::new(), &mut items)?;
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(items)
}

fn list_into(
    odb: &Objects<'_>,
    tree: Oid,
    prefix: &mut Vec<u8>,
    items: &mut Vec<Item>,
) -> Result<()> {
    let mut names = HashSet::new();
    for entry in read_tree(odb, tree)? {
        let length = prefix.len();
        prefix.extend_from_slice(&entry.name);
        if !is_safe_name(&entry.name) || prefix.len() > MAX_PATH || !names.insert(entry.name) {
            return Err(RepoError::UnsafePath { path: lossy(prefix) });
        }
        let mode = canonical(entry.mode);
        if mode == TREE {
            prefix.push(b'/');
            list_into(odb, entry.id, prefix, items)?;
        } else {
            items.push(Item { path: prefix.clone(), leaf: Leaf { mode, id: entry.id } });
        }
        if items.len() > MAX_FILES {
            let limit = format!("{MAX_FILES} files");
            return Err(RepoError::TooLarge { what: "the tree".into(), limit });
        }
        prefix.truncate(length);
    }
    Ok(())
}

/// Where a sorted listing has a path.
pub(crate) fn find(items: &[Item], path: &[u8]) -> Option<usize> {
    items.binary_search_by(|item| item.path.as_slice().cmp(path)).ok()
}

/// The part of a sorted listing that lies below a directory.
pub(crate) fn below<'a>(items: &'a [Item], dir: &[u8]) -> &'a [Item] {
    &items[range_below(items, dir)]
}

/// Where that part is.
pub(crate) fn range_below(items: &[Item], dir: &[u8]) -> std::ops::Range<usize> {
    let prefix = [dir, b"/"].concat();
    let start = items.partition_point(|item| item.path < prefix);
    let count = items[start..].partition_point(|item| item.path.starts_with(&prefix));
    start..start + count
}

/// Whether a sorted listing has anything below a directory.
pub(crate) fn has_below(items: &[Item], dir: &[u8]) -> bool {
    !below(items, dir).is_empty()
}

/// The directories above the items, parents first, without the root.
pub(crate) fn directories(items: &[Item]) -> Vec<Vec<u8>> {
    let mut dirs = std::collections::BTreeSet::new();
    for item in items {
        for parent in parents(&item.path) {
            if !dirs.insert(parent.to_vec()) {
                break;
            }
        }
    }
    dirs.into_iter().collect()
}

/// The directories above a path, nearest first, without the root.
pub(crate) fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/');
    slashes.map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_checkout_may_not_write_are_refused() {
        for name in [&b""[..], b".", b"..", b".git", b".GIT", b"a/b"] {
            assert!(!is_safe_name(name), "{name:?}");
        }
        assert!(is_safe_name(b".gitignore") && is_safe_name(b"\xff\xfe") && is_safe_name(b"..."));
    }

    #[test]
    fn a_tree_with_a_doubled_or_unsafe_name_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let odb = Objects::of(&repo).unwrap();
        let id = odb.write(ObjectType::Blob, b"x").unwrap();
        let entry = |name: &str, mode| Entry { name: name.into(), mode, id };
        let sub = write_tree(&odb, vec![entry("f", FILE)]).unwrap();
        let ok = vec![entry("a", FILE), Entry { name: "a-b".into(), mode: TREE, id: sub }];
        let ok = write_tree(&odb, ok).unwrap();
        let paths: Vec<_> = list(&odb, ok).unwrap().into_iter().map(|i| i.path).collect();
        assert_eq!(paths, [b"a".to_vec(), b"a-b/f".to_vec()]);
        let twice = vec![entry("a", LINK), Entry { name: "a".into(), mode: TREE, id: sub }];
        let twice = write_tree(&odb, twice).unwrap();
        assert!(matches!(list(&odb, twice), Err(RepoError::UnsafePath { .. })));
        let up = write_tree(&odb, vec![entry("..", FILE)]).unwrap();
        assert!(matches!(list(&odb, up), Err(RepoError::UnsafePath { .. })));
    }
}
