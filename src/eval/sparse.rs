//! A base made from the diffs against it, for pools that come without repositories.
//!
//! Every context line and every removed line of a diff tells one line of the base. Where diffs differ on a
//! line, most of them are believed; what none of them shows is blank, but for the heading of a hunk, which
//! names what encloses it. So a diff applies here when it agrees with the others. Whether a file parses
//! can't be told.

use std::collections::BTreeMap;

use crate::model::{ChangeKind, TreeId};
use crate::patch::{FilePatch, LineKind, ObjectId, Rules, StoreError, TreeEntry, TreeStore, parse};

/// Hunks further down than this many lines are left out: no source file is so long.
const FARTHEST: usize = 500_000;
/// The most files of a base.
const MOST_FILES: usize = 20_000;

/// What is said of each line, from 1: how often each text.
type Lines = BTreeMap<usize, BTreeMap<Vec<u8>, usize>>;

/// Writes a base that the diffs agree on.
///
/// # Errors
/// When the store can't be written.
pub fn base_of<'a>(
    diffs: impl Iterator<Item = &'a [u8]>,
    store: &dyn TreeStore,
) -> Result<TreeId, StoreError> {
    let mut files: BTreeMap<Vec<u8>, Lines> = BTreeMap::new();
    for patch in diffs.filter_map(|diff| parse(diff, &Rules::default()).ok()) {
        for file in patch.files().iter().filter(|file| file.change() != ChangeKind::Added) {
            if let Some(path) = file.old_path().filter(|path| is_plain(path))
                && (files.contains_key(path) || files.len() < MOST_FILES)
            {
                hear(file, files.entry(path.to_vec()).or_default());
            }
        }
    }
    let mut top = Dir::default();
    for (path, lines) in &files {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        top.put(&parts, contents(lines));
    }
    top.write(store)
}

fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|part| !part.is_empty() && part != b"." && part != b"..")
}

fn hear(file: &FilePatch, lines: &mut Lines) {
    for hunk in file.hunks().iter().filter(|hunk| hunk.old_start < FARTHEST) {
        let at = hunk.old_start.max(1);
        if at > 1 && !hunk.heading.is_empty() {
            // Counts nothing: any diff that shows the line itself is believed before it.
            let heading = [hunk.heading.trim_ascii_end(), b"\n"].concat();
            lines.entry(at - 1).or_default().entry(heading).or_insert(0);
        }
        let old = hunk.lines.iter().filter(|line| line.kind != LineKind::Add);
        for (at, line) in (at..).zip(old) {
            *lines.entry(at).or_default().entry(line.text.clone()).or_default() += 1;
        }
    }
}

fn contents(lines: &Lines) -> Vec<u8> {
    let last = lines.keys().next_back().copied().unwrap_or_default();
    let mut text = Vec::new();
    for at in 1..=last {
        let said = lines.get(&at).into_iter().flatten();
        // The most frequent, of equal ones the first by its bytes.
        let best = said.rev().max_by_key(|(_, count)| **count);
        let line = best.map_or(&b"\n"[..], |(line, _)| line);
        text.extend_from_slice(line);
        if at < last && !line.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    text
}

/// A directory that is being made.
#[derive(Default)]
struct Dir {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    dirs: BTreeMap<Vec<u8>, Dir>,
}

impl Dir {
    fn put(&mut self, parts: &[&[u8]], contents: Vec<u8>) {
        match parts {
            [] => {}
            // What is a directory for one diff and a file for another stays the directory.
            [name] if !self.dirs.contains_key(*name) => {
                self.files.insert(name.to_vec(), contents);
            }
            [_] => {}
            [name, rest @ ..] => {
                self.files.remove(*name);
                self.dirs.entry(name.to_vec()).or_default().put(rest, contents);
            }
        }
    }

    fn write(&self, store: &dyn TreeStore) -> Result<TreeId, StoreError> {
        let mut entries = Vec::new();
        for (name, contents) in &self.files {
            let id = store.put_blob(contents)?;
            entries.push(TreeEntry { name: name.clone(), mode: 0o100_644, id });
        }
        for (name, dir) in &self.dirs {
            let id = ObjectId::new(dir.write(store)?.as_str());
            entries.push(TreeEntry { name: name.clone(), mode: 0o040_000, id });
        }
        // Git's order: a directory sorts as if its name ended in a slash.
        entries.sort_by_cached_key(|entry| {
            let slash: &[u8] = if entry.mode == 0o040_000 { b"/" } else { b"" };
            [&entry.name, slash].concat()
        });
        store.put_tree(entries)
    }
}

/// A store with nothing in it, to make a base on.
pub struct Nothing;

impl TreeStore for Nothing {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        Err(StoreError::Missing(id.to_string()))
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        Err(StoreError::Missing(id.as_str().to_owned()))
    }

    fn put_blob(&self, _: &[u8]) -> Result<ObjectId, StoreError> {
        Err(StoreError::Backend("nothing is kept here".to_owned()))
    }

    fn put_tree(&self, _: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        Err(StoreError::Backend("nothing is kept here".to_owned()))
    }
}
