//! A candidate's files as the consensus takes them, and the grouping of equal trees.

use std::collections::HashMap;
use std::hash::Hash;

/// A file that differs between base and candidate; a rename is a deletion and an addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path from the repository's top, lossily decoded.
    pub path: String,
    /// Its bytes in the base; `None` when it is new.
    pub base: Option<Vec<u8>>,
    /// Its bytes after the change; `None` when it is gone.
    pub new: Option<Vec<u8>>,
    /// Whether its directory holds a source file in the base.
    pub beside_source: bool,
}

/// Groups equal keys (trees): each group's members by index, the first in the order given stands for
/// the others; groups in the order of their first members.
pub fn group<K: Eq + Hash>(keys: &[K]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<&K, usize> = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        let group = *known.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(at);
    }
    groups
}
