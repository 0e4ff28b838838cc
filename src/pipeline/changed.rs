//! The files in which two trees of the run's store differ.

use std::collections::BTreeMap;

use super::PipelineError;
use crate::model::TreeId;
use crate::patch::{TreeEntry, TreeStore};
use crate::select::{ChangedFile, is_source};

/// The mode of a directory in a git tree.
const TREE: u32 = 0o040_000;

/// Every file that differs between `base` and `tree`, by path, with its contents on both sides.
///
/// # Errors
/// When an object can't be read.
pub fn changed_files(
    store: &dyn TreeStore,
    base: &TreeId,
    tree: &TreeId,
) -> Result<Vec<ChangedFile>, PipelineError> {
    let mut walk = Walk { store, found: Vec::new() };
    walk.dir("", Some(base), Some(tree))?;
    Ok(walk.found)
}

struct Walk<'a> {
    store: &'a dyn TreeStore,
    found: Vec<ChangedFile>,
}

type Sides = (Option<TreeEntry>, Option<TreeEntry>);

impl Walk<'_> {
    fn dir(
        &mut self,
        path: &str,
        old: Option<&TreeId>,
        new: Option<&TreeId>,
    ) -> Result<(), PipelineError> {
        let (old, new) = (self.entries(old)?, self.entries(new)?);
        let beside_source = old
            .iter()
            .any(|entry| entry.mode != TREE && is_source(&String::from_utf8_lossy(&entry.name)));
        let mut sides: BTreeMap<Vec<u8>, Sides> = BTreeMap::new();
        for entry in old {
            let side = sides.entry(entry.name.clone()).or_default();
            side.0 = Some(entry);
        }
        for entry in new {
            let side = sides.entry(entry.name.clone()).or_default();
            side.1 = Some(entry);
        }
        for (name, (old, new)) in sides {
            if old != new {
                let name = String::from_utf8_lossy(&name);
                let path =
                    if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
                self.entry(&path, old, new, beside_source)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: &str,
        old: Option<TreeEntry>,
        new: Option<TreeEntry>,
        beside_source: bool,
    ) -> Result<(), PipelineError> {
        let subtree = |entry: &Option<TreeEntry>| {
            let entry = entry.as_ref().filter(|entry| entry.mode == TREE)?;
            Some(TreeId::new(entry.id.as_str()))
        };
        let (old_dir, new_dir) = (subtree(&old), subtree(&new));
        if old_dir.is_some() || new_dir.is_some() {
            self.dir(path, old_dir.as_ref(), new_dir.as_ref())?;
        }
        let (base, new) = (self.contents(old)?, self.contents(new)?);
        if base != new {
            self.found.push(ChangedFile { path: path.to_owned(), base, new, beside_source });
        }
        Ok(())
    }

    fn entries(&self, tree: Option<&TreeId>) -> Result<Vec<TreeEntry>, PipelineError> {
        match tree {
            Some(tree) => self.store.tree(tree).map_err(|e| PipelineError::Store(e.to_string())),
            None => Ok(Vec::new()),
        }
    }

    /// The bytes of a regular file; links and submodules have none that could be compared.
    fn contents(&self, entry: Option<TreeEntry>) -> Result<Option<Vec<u8>>, PipelineError> {
        let regular = |entry: &TreeEntry| entry.mode & 0o170_000 == 0o100_000;
        match entry.filter(regular) {
            Some(entry) => {
                let bytes = self.store.blob(&entry.id);
                bytes.map(Some).map_err(|error| PipelineError::Store(error.to_string()))
            }
            None => Ok(None),
        }
    }
}
