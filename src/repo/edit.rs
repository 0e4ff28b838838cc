//! Changing a tree by paths, and telling two trees apart by paths; only touched trees are read or
//! written.
//!
//! Never here: a working tree.

use std::collections::BTreeMap;

use git2::Oid;

use super::error::Result;
use super::object_db::Objects;
use super::objects::{Entry, Leaf, TREE, canonical, read_tree, write_tree};

/// What is to be at each path: a leaf in place of whatever is there, or nothing.
pub(crate) type Edits = BTreeMap<Vec<u8>, Option<Leaf>>;

/// One path that two trees disagree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) old: Option<Leaf>,
    pub(crate) new: Option<Leaf>,
}

/// The tree that `edits` make of `base`. Directories that become empty go away.
pub(crate) fn edit_tree(odb: &Objects<'_>, base: Oid, edits: &Edits) -> Result<Oid> {
    let flat: Vec<(&[u8], Option<Leaf>)> =
        edits.iter().map(|(path, leaf)| (path.as_slice(), *leaf)).collect();
    match edit_level(odb, read_tree(odb, base)?, &flat)? {
        Some(id) => Ok(id),
        None => write_tree(odb, Vec::new()),
    }
}

type Level<'a> = BTreeMap<&'a [u8], (Option<Option<Leaf>>, Vec<(&'a [u8], Option<Leaf>)>)>;

fn edit_level(
    odb: &Objects<'_>,
    mut entries: Vec<Entry>,
    edits: &[(&[u8], Option<Leaf>)],
) -> Result<Option<Oid>> {
    let mut level: Level<'_> = BTreeMap::new();
    for (path, leaf) in edits {
        match path.iter().position(|b| *b == b'/') {
            Some(at) => level.entry(&path[..at]).or_default().1.push((&path[at + 1..], *leaf)),
            None => level.entry(path).or_default().0 = Some(*leaf),
        }
    }
    for (name, (here, below)) in level {
        let at = entries.iter().position(|e| e.name == name);
        let old = at.map(|at| entries.remove(at));
        let new = match here {
            Some(Some(leaf)) => Some((leaf.mode, leaf.id)),
            Some(None) => edit_level(odb, Vec::new(), &below)?.map(|id| (TREE, id)),
            None => edit_below(odb, old, &below)?,
        };
        if let Some((mode, id)) = new {
            entries.push(Entry { name: name.to_vec(), mode, id });
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    write_tree(odb, entries).map(Some)
}

/// Edits below a name at which nothing itself is edited. Deletions below a leaf leave the leaf.
fn edit_below(
    odb: &Objects<'_>,
    old: Option<Entry>,
    below: &[(&[u8], Option<Leaf>)],
) -> Result<Option<(u32, Oid)>> {
    match old {
        Some(old) if canonical(old.mode) == TREE => {
            Ok(edit_level(odb, read_tree(odb, old.id)?, below)?.map(|id| (TREE, id)))
        }
        Some(leaf) if below.iter().all(|(_, new)| new.is_none()) => Ok(Some((leaf.mode, leaf.id))),
        _ => Ok(edit_level(odb, Vec::new(), below)?.map(|id| (TREE, id))),
    }
}

/// The paths on which two trees disagree, sorted. Modes are compared in canonical form.
pub(crate) fn compare(odb: &Objects<'_>, old: Oid, new: Oid) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    compare_trees(odb, Some(old), Some(new), &mut Vec::new(), &mut changes)?;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

fn compare_trees(
    odb: &Objects<'_>,
    old: Option<Oid>,
    new: Option<Oid>,
    prefix: &mut Vec<u8>,
    changes: &mut Vec<Change>,
) -> Result<()> {
    if old == new {
        return Ok(());
    }
    let mut names: BTreeMap<Vec<u8>, [Option<Leaf>; 2]> = BTreeMap::new();
    for (side, tree) in [old, new].into_iter().enumerate() {
        let Some(tree) = tree else { continue };
        for entry in read_tree(odb, tree)? {
            let leaf = Leaf { mode: canonical(entry.mode), id: entry.id };
            names.entry(entry.name).or_default()[side] = Some(leaf);
        }
    }
    for (name, [old, new]) in names {
        if old == new {
            continue;
        }
        let length = prefix.len();
        prefix.extend_from_slice(&name);
        let (old_leaf, old_tree) = split(old);
        let (new_leaf, new_tree) = split(new);
        if old_leaf.is_some() || new_leaf.is_some() {
            changes.push(Change { path: prefix.clone(), old: old_leaf, new: new_leaf });
        }
        prefix.push(b'/');
        compare_trees(odb, old_tree, new_tree, prefix, changes)?;
        prefix.truncate(length);
    }
    Ok(())
}

fn split(entry: Option<Leaf>) -> (Option<Leaf>, Option<Oid>) {
    match entry {
        Some(leaf) if leaf.mode == TREE => (None, Some(leaf.id)),
        other => (other, None),
    }
}

/// Edits that give the new side of each change.
pub(crate) fn to_edits(changes: &[Change]) -> Edits {
    changes.iter().map(|c| (c.path.clone(), c.new)).collect()
}

/// What a tree has at a path: a leaf, or the mode of a directory with its id.
pub(crate) fn lookup(odb: &Objects<'_>, tree: Oid, path: &[u8]) -> Result<Option<Leaf>> {
    let mut at = Leaf { mode: TREE, id: tree };
    for name in path.split(|b| *b == b'/') {
        if at.mode != TREE {
            return Ok(None);
        }
        match read_tree(odb, at.id)?.into_iter().find(|entry| entry.name == name) {
            Some(entry) => at = Leaf { mode: canonical(entry.mode), id: entry.id },
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::objects::{FILE, list};
    use git2::ObjectType;

    fn paths(odb: &Objects<'_>, tree: Oid) -> Vec<String> {
        let items = list(odb, tree).unwrap();
        items.into_iter().map(|i| String::from_utf8(i.path).unwrap()).collect()
    }

    #[test]
    fn edits_touch_only_their_paths_and_compare_finds_them_again() {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let odb = Objects::of(&repo).unwrap();
        let leaf = |text: &str| {
            Some(Leaf { mode: FILE, id: odb.write(ObjectType::Blob, text.as_bytes()).unwrap() })
        };
        let empty = write_tree(&odb, Vec::new()).unwrap();
        let first: Edits = [("a", "1"), ("d/x", "2"), ("d/y/z", "3"), ("d-e", "4")]
            .map(|(p, t)| (p.as_bytes().to_vec(), leaf(t)))
            .into();
        let base = edit_tree(&odb, empty, &first).unwrap();
        assert_eq!(paths(&odb, base), ["a", "d-e", "d/x", "d/y/z"]);
        // A file becomes a directory, a directory becomes a file, a directory goes empty.
        let second: Edits = [("a", None), ("a/b", leaf("5")), ("d", leaf("6")), ("d/x", None)]
            .map(|(p, l)| (p.as_bytes().to_vec(), l))
            .into();
        let next = edit_tree(&odb, base, &second).unwrap();
        assert_eq!(paths(&odb, next), ["a/b", "d", "d-e"]);
        let changes = compare(&odb, base, next).unwrap();
        let named: Vec<_> = changes.iter().map(|c| String::from_utf8_lossy(&c.path)).collect();
        assert_eq!(named, ["a", "a/b", "d", "d/x", "d/y/z"]);
        assert_eq!(edit_tree(&odb, base, &to_edits(&changes)).unwrap(), next);
        let back: Vec<_> = compare(&odb, next, base).unwrap();
        assert_eq!(edit_tree(&odb, next, &to_edits(&back)).unwrap(), base);
    }
}
