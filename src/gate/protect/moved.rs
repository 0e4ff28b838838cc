//! Rust source files that a candidate moves: their tests move with them, under another name.
//!
//! A tree does not say what moved. A file that is gone and a new one with most of its lines are taken for
//! one that did.

use std::collections::{BTreeMap, BTreeSet};

use super::StoreError;
use super::tree::{Change, Leaf, lossy};
use crate::patch::TreeStore;

/// What moved where.
#[derive(Default)]
pub struct Moved {
    /// By the old path, the new one.
    pub to: BTreeMap<Vec<u8>, Vec<u8>>,
    /// By the new path, what stood at the old one.
    pub from: BTreeMap<Vec<u8>, Leaf>,
}

impl Moved {
    /// The modules of the files, old and new; a crate's root has no name to change.
    pub fn modules(&self) -> BTreeMap<String, String> {
        let module = |path: &[u8]| module_of(&lossy(path));
        let all = self.to.iter().map(|(old, new)| (module(old), module(new)));
        all.filter(|(old, new)| !old.is_empty() && !new.is_empty() && old != new).collect()
    }
}

/// Files larger than this are not compared.
const LARGEST: usize = 1 << 20;

/// The most pairs that are compared: a candidate that rearranges everything is compared in part.
const PAIRS: usize = 10_000;

/// Pairs each Rust file that is gone from below `src` with the new one that is most like it.
pub fn pairs(store: &dyn TreeStore, changes: &[Change]) -> Result<Moved, StoreError> {
    let is_source = |change: &&Change| {
        let path = lossy(&change.path);
        path.ends_with(".rs") && path.split('/').any(|part| part == "src")
    };
    let text = |leaf: &Leaf| -> Result<Option<String>, StoreError> {
        let bytes = store.blob(&leaf.id)?;
        Ok((bytes.len() <= LARGEST).then(|| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    for change in changes.iter().filter(is_source) {
        match (&change.base, &change.now) {
            (Some(leaf), None) if leaf.is_file() => gone.push((change, leaf, text(leaf)?)),
            (None, Some(leaf)) if leaf.is_file() => new.push((change, leaf, text(leaf)?)),
            _ => {}
        }
    }
    let mut scored = Vec::new();
    for (at, (_, _, old)) in gone.iter().enumerate() {
        for (to, (_, _, text)) in new.iter().enumerate().take(PAIRS / gone.len().max(1)) {
            if let (Some(old), Some(text)) = (old, text) {
                scored.push((likeness(old, text), at, to));
            }
        }
    }
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut moved = Moved::default();
    for (_, at, to) in scored.into_iter().filter(|(likeness, _, _)| *likeness >= 40) {
        let (from, to) = (&gone[at], &new[to]);
        if !moved.to.contains_key(&from.0.path) && !moved.from.contains_key(&to.0.path) {
            moved.to.insert(from.0.path.clone(), to.0.path.clone());
            moved.from.insert(to.0.path.clone(), from.1.clone());
        }
    }
    Ok(moved)
}

/// How many of a hundred lines of the smaller set two texts share; blank lines and brackets don't count.
fn likeness(old: &str, new: &str) -> usize {
    let lines = |text: &str| -> BTreeSet<String> {
        text.lines().map(str::trim).filter(|line| line.len() > 2).map(str::to_owned).collect()
    };
    let (old, new) = (lines(old), lines(new));
    let most = old.len().max(new.len());
    if most == 0 { 0 } else { old.intersection(&new).count() * 100 / most }
}

/// The module of a source file, as it stands in a test's name: `src/a/b.rs` and `src/a/b/mod.rs` are
/// `a::b`; a crate's root is empty.
pub fn module_of(path: &str) -> String {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let from = parts.iter().rposition(|part| *part == "src").map_or(0, |at| at + 1);
    let inner = &parts[from..];
    let inner = match inner.last() {
        Some(&("mod" | "lib" | "main")) => &inner[..inner.len() - 1],
        _ => inner,
    };
    inner.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_likeness() {
        let modules = ["src/a/b.rs", "x/src/a/b/mod.rs", "src/lib.rs", "src/a.rs"].map(module_of);
        assert_eq!(modules, ["a::b", "a::b", "", "a"]);
        assert_eq!(likeness("let a;\nlet b;\n}\n", "  let a;\n\n}\n"), 50);
        assert_eq!(likeness("", ""), 0);
    }
}
