//! A tree's listing on disk, and the difference of two listings as an overlay's upper directory shows it.
//!
//! Never here: git objects, and the files themselves.

use std::fs;
use std::io;
use std::path::Path;

use git2::Oid;

use super::files;
use super::objects::{self, Item, Leaf, parents};

/// The mode of a path at which a mark says that nothing is any more.
pub(crate) const GONE: u32 = 0;

/// What leads from one sorted listing to another: changed and new leaves, and marks for what is gone.
/// Of a directory of which nothing is left only the topmost gets a mark.
pub(crate) fn changes(old: &[Item], new: &[Item]) -> Vec<Item> {
    let mut found = Vec::new();
    let mut gone: Vec<&[u8]> = Vec::new();
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) if a.path == b.path => {
                if a.leaf != b.leaf {
                    found.push((*b).clone());
                }
                left.next();
                right.next();
            }
            (Some(a), Some(b)) if a.path < b.path => gone.extend(left.next().map(|i| &*i.path)),
            (Some(_), None) => gone.extend(left.next().map(|i| &*i.path)),
            (_, Some(_)) => found.extend(right.next().cloned()),
        }
    }
    let mut marks: Vec<&[u8]> = gone.into_iter().filter_map(|path| mark(new, path)).collect();
    marks.dedup();
    let none = Leaf { mode: GONE, id: Oid::ZERO_SHA1 };
    found.extend(marks.into_iter().map(|path| Item { path: path.to_vec(), leaf: none }));
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Where the mark for a path that is gone belongs; nowhere when something else took its place.
fn mark<'p>(new: &[Item], path: &'p [u8]) -> Option<&'p [u8]> {
    if objects::has_below(new, path) {
        return None;
    }
    let mut top = path;
    for parent in parents(path) {
        if objects::find(new, parent).is_some() {
            return None;
        }
        if objects::has_below(new, parent) {
            break;
        }
        top = parent;
    }
    Some(top)
}

/// Writes a listing: for each item its mode, its object, the length of its path, and the path.
pub(crate) fn save(path: &Path, items: &[Item]) -> io::Result<()> {
    let mut out = Vec::with_capacity(items.len() * 64);
    for item in items {
        out.extend_from_slice(&item.leaf.mode.to_le_bytes());
        out.extend_from_slice(item.leaf.id.as_bytes());
        let length = u32::try_from(item.path.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&item.path);
    }
    files::replace(path, &out)
}

/// Reads a listing back.
pub(crate) fn load(path: &Path) -> io::Result<Vec<Item>> {
    let bytes = fs::read(path)?;
    let mut items = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (item, after) = parse(rest).ok_or(io::ErrorKind::InvalidData)?;
        items.push(item);
        rest = after;
    }
    Ok(items)
}

fn parse(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let (mode, rest) = bytes.split_first_chunk::<4>()?;
    let (id, rest) = rest.split_first_chunk::<20>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let leaf = Leaf { mode: u32::from_le_bytes(*mode), id: Oid::from_bytes(id).ok()? };
    Some((Item { path: path.to_vec(), leaf }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::objects::FILE;

    fn items(paths: &[(&str, u8)]) -> Vec<Item> {
        let leaf = |n: u8| Leaf { mode: FILE, id: Oid::from_bytes(&[n; 20]).unwrap() };
        paths
            .iter()
            .map(|(path, n)| Item { path: path.as_bytes().to_vec(), leaf: leaf(*n) })
            .collect()
    }

    #[test]
    fn a_difference_marks_only_what_nothing_took_the_place_of() {
        let old = items(&[("a", 1), ("b/c", 1), ("b/d/e", 1), ("b/d/f", 1), ("x", 1), ("y/z", 1)]);
        let new = items(&[("a", 2), ("b/c", 1), ("n", 1), ("x/w", 1), ("y", 1)]);
        let told: Vec<(String, bool)> = changes(&old, &new)
            .iter()
            .map(|item| (String::from_utf8(item.path.clone()).unwrap(), item.leaf.mode == GONE))
            .collect();
        let expected = [("a", false), ("b/d", true), ("n", false), ("x/w", false), ("y", false)];
        assert_eq!(told, expected.map(|(path, gone)| (path.to_owned(), gone)));
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn a_listing_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("listing");
        let all = items(&[("a", 1), ("b/c", 2)]);
        save(&path, &all).unwrap();
        assert_eq!(load(&path).unwrap(), all);
        fs::write(&path, b"torn").unwrap();
        assert!(load(&path).is_err());
    }
}
