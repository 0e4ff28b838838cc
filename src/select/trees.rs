//! The files that differ between two trees, read through a store that somebody else implements.

use std::collections::BTreeMap;

use super::{ChangedFile, is_source};
use crate::model::TreeId;
use crate::patch::{ObjectId, StoreError, TreeEntry, TreeStore};

/// The file types of a mode, as git writes it.
const KIND: u32 = 0o170_000;
const TREE: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

/// Regular files that differ between `base` and `tree`, by path. Only directories that differ are read;
/// a change of mode alone, links and submodules are left out. Renames are a deletion and an addition.
///
/// # Errors
/// When the store can't answer.
pub fn changed_files(
    store: &dyn TreeStore,
    base: &TreeId,
    tree: &TreeId,
) -> Result<Vec<ChangedFile>, StoreError> {
    let mut walk = Walk { store, files: Vec::new() };
    walk.compare(String::new(), Some(base.clone()), Some(tree.clone()))?;
    walk.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk.files)
}

struct Walk<'s> {
    store: &'s dyn TreeStore,
    files: Vec<ChangedFile>,
}

impl Walk<'_> {
    fn compare(
        &mut self,
        dir: String,
        base: Option<TreeId>,
        tree: Option<TreeId>,
    ) -> Result<(), StoreError> {
        if base == tree {
            return Ok(());
        }
        let old = self.entries(base.as_ref())?;
        let new = self.entries(tree.as_ref())?;
        let is_source_file =
            |entry: &TreeEntry| is(entry, FILE) && is_source(&String::from_utf8_lossy(&entry.name));
        let beside_source = old.values().any(is_source_file);
        let names: std::collections::BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        for name in names {
            let path = format!("{dir}{}", String::from_utf8_lossy(name));
            let (was, now) = (old.get(name), new.get(name));
            self.file(&path, was, now, beside_source)?;
            let below = |entry: Option<&TreeEntry>| {
                entry.filter(|entry| is(entry, TREE)).map(|entry| TreeId::new(entry.id.as_str()))
            };
            self.compare(format!("{path}/"), below(was), below(now))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &str,
        was: Option<&TreeEntry>,
        now: Option<&TreeEntry>,
        beside_source: bool,
    ) -> Result<(), StoreError> {
        let id = |entry: Option<&TreeEntry>| {
            entry.filter(|entry| is(entry, FILE)).map(|entry| entry.id.clone())
        };
        let (was, now) = (id(was), id(now));
        if was != now {
            let blob = |id: Option<ObjectId>| id.map(|id| self.store.blob(&id)).transpose();
            let (base, new) = (blob(was)?, blob(now)?);
            self.files.push(ChangedFile { path: path.to_owned(), base, new, beside_source });
        }
        Ok(())
    }

    fn entries(&self, id: Option<&TreeId>) -> Result<BTreeMap<Vec<u8>, TreeEntry>, StoreError> {
        let entries = id.map(|id| self.store.tree(id)).transpose()?.unwrap_or_default();
        Ok(entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect())
    }
}

fn is(entry: &TreeEntry, kind: u32) -> bool {
    entry.mode & KIND == kind
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tree is text: `MODE NAME ID` a line; every blob is its own id.
    struct Texts(BTreeMap<&'static str, &'static str>);

    impl TreeStore for Texts {
        fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
            let missing = || StoreError::Missing(id.to_string());
            let text = self.0.get(id.as_str()).ok_or_else(missing)?;
            let entry = |line: &str| {
                let mut words = line.split(' ');
                let mode = u32::from_str_radix(words.next().unwrap(), 8).unwrap();
                let name = words.next().unwrap().as_bytes().to_vec();
                TreeEntry { name, mode, id: ObjectId::new(words.next().unwrap()) }
            };
            Ok(text.lines().map(entry).collect())
        }

        fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
            Ok(id.as_str().into())
        }

        fn put_blob(&self, _: &[u8]) -> Result<ObjectId, StoreError> {
            unreachable!()
        }

        fn put_tree(&self, _: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
            unreachable!()
        }
    }

    #[test]
    fn only_files_that_differ_are_read() {
        let store = Texts(BTreeMap::from([
            ("base", "40000 src s1\n40000 same never-read\n100644 a.txt a1\n120000 link l1"),
            (
                "next",
                "40000 src s2\n40000 same never-read\n100755 a.txt a1\n120000 link l2\n40000 new n1",
            ),
            ("s1", "100644 lib.rs r1\n100644 old.rs o1\n100644 x f1"),
            ("s2", "100644 lib.rs r2\n100644 renamed.rs o1\n40000 x d1"),
            ("d1", "100644 deep.rs p1"),
            ("n1", "100644 n.rs q1"),
        ]));
        let found = changed_files(&store, &TreeId::new("base"), &TreeId::new("next")).unwrap();
        let text = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().map_or("-".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let rows: Vec<String> = found
            .iter()
            .map(|f| format!("{} {} {} {}", f.path, text(&f.base), text(&f.new), f.beside_source))
            .collect();
        assert_eq!(
            rows,
            [
                "new/n.rs - q1 false",
                "src/lib.rs r1 r2 true",
                "src/old.rs o1 - true",
                "src/renamed.rs - o1 true",
                "src/x f1 - true",
                "src/x/deep.rs - p1 false",
            ]
        );
    }
}
