//! What of the base a model without tools is shown: files by path, tests near them, and all paths.
//!
//! Bounded, and the same for the same tree. Never here: what candidates changed.

use super::PipelineError;
use crate::model::TreeId;
use crate::patch::{StoreError, TreeStore};

/// The mode of a directory in a git tree.
const DIRECTORY: u32 = 0o040_000;
/// The mode of a submodule.
const SUBMODULE: u32 = 0o160_000;
/// The most entries that are looked at for a layout.
const MOST_ENTRIES: usize = 20_000;

/// A path and a text.
pub(super) type File = (String, String);

/// Keeps texts while there is room, each once.
pub(super) struct Shelf {
    left: usize,
    most: usize,
    files: Vec<File>,
}

impl Shelf {
    /// Room for `bytes` in at most `most` files.
    pub(super) fn new(bytes: usize, most: usize) -> Self {
        Self { left: bytes, most, files: Vec::new() }
    }

    /// Takes a file, unless it is there or does not fit.
    pub(super) fn put(&mut self, path: String, text: String) {
        let fits = text.len() <= self.left && self.files.len() < self.most;
        if fits && self.files.iter().all(|(known, _)| *known != path) {
            self.left -= text.len();
            self.files.push((path, text));
        }
    }

    /// What was taken.
    pub(super) fn files(self) -> Vec<File> {
        self.files
    }
}

/// The paths of a tree's files, sorted within each directory and those of a directory before its
/// subdirectories', and whether some were left out.
///
/// # Errors
/// When an object can't be read.
pub(super) fn paths(
    store: &dyn TreeStore,
    tree: &TreeId,
) -> Result<(Vec<String>, bool), PipelineError> {
    let mut found = Vec::new();
    let mut open = std::collections::VecDeque::from([(String::new(), tree.clone())]);
    while let Some((dir, tree)) = open.pop_front() {
        for entry in store.tree(&tree).map_err(failed)? {
            if found.len() >= MOST_ENTRIES {
                return Ok((found, true));
            }
            let path = format!("{dir}{}", String::from_utf8_lossy(&entry.name));
            match entry.mode {
                DIRECTORY => open.push_back((path + "/", TreeId::new(entry.id.as_str()))),
                SUBMODULE => {}
                _ => found.push(path),
            }
        }
    }
    Ok((found, false))
}

pub(super) fn failed(error: StoreError) -> PipelineError {
    PipelineError::Store(error.to_string())
}
