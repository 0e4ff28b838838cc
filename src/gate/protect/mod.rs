//! What defines a gate comes from the base.
//!
//! From a candidate's admitted tree two trees are made. The *check tree* has the base's configuration
//! of tools, build scripts and command files, and none of the files that would outrank them. The *test
//! tree* has, on top, the tests that the base has, those inside Rust's source files too. Files that a candidate adds as tests stay: they
//! would ship, so they have to compile. In files of both kinds (`Cargo.toml`, `package.json`,
//! `pyproject.toml`) the base decides over what defines a gate, and the candidate over the rest.
//!
//! Everything that was put back is flagged. A candidate of which nothing is left has proved nothing.

mod inline;
mod merge;
mod rules;
mod suppress;
pub(super) mod tree;

use std::collections::{BTreeMap, BTreeSet};

use self::rules::{Class, Commands};
use self::tree::{Change, Leaf};
use crate::model::{Flag, GatePlan, TreeId};
use crate::patch::{StoreError, TreeStore};

/// The trees that are gated in place of an admitted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// For the typecheck.
    pub check: TreeId,
    /// For the tests.
    pub test: TreeId,
    /// What was put back and what else a reader must know.
    pub flags: Vec<Flag>,
    /// Paths that were put back or taken away in either tree, sorted.
    pub restored: Vec<String>,
}

/// Makes the gated trees of an admitted one. Pure but for the objects that it writes.
///
/// # Errors
/// When the store fails.
pub fn gated(
    store: &dyn TreeStore,
    base: &TreeId,
    admitted: &TreeId,
    plan: &GatePlan,
) -> Result<Gated, StoreError> {
    let changes = tree::changes(store, base, admitted)?;
    let commands = Commands::of(plan);
    let mut work =
        Work { store, base, flags: Vec::new(), check: BTreeMap::new(), test: BTreeMap::new() };
    for change in &changes {
        work.look_at(change, &commands)?;
    }
    let restored: BTreeSet<String> =
        work.check.keys().chain(work.test.keys()).map(|path| tree::lossy(path)).collect();
    let check = tree::edit(store, admitted, &work.check)?;
    let test = tree::edit(store, &check, &work.test)?;
    Ok(Gated { check, test, flags: work.flags, restored: restored.into_iter().collect() })
}

type Edits = BTreeMap<Vec<u8>, Option<Leaf>>;

struct Work<'a> {
    store: &'a dyn TreeStore,
    base: &'a TreeId,
    flags: Vec<Flag>,
    check: Edits,
    test: Edits,
}

impl Work<'_> {
    fn look_at(&mut self, change: &Change, commands: &Commands) -> Result<(), StoreError> {
        let path = tree::lossy(&change.path);
        let beside = |sibling: &str| tree::has(self.store, self.base, sibling.as_bytes());
        match rules::classify(&path, change, commands, &beside)? {
            Some(Class::Gate) => {
                self.restore(change, &path, "touches-gate", "defines how a gate runs")
            }
            Some(Class::Tooling) => {
                self.restore(change, &path, "touches-tooling", "configures a tool that runs code");
            }
            Some(Class::Outranks) => {
                self.restore(
                    change,
                    &path,
                    "touches-gate",
                    "would outrank what the base checks with",
                );
            }
            Some(Class::Test) => self.restore_test(change, &path),
            Some(Class::Mixed(kind)) => self.merge(change, &path, kind)?,
            None => self.scan(change, &path)?,
        }
        Ok(())
    }

    fn restore(&mut self, change: &Change, path: &str, code: &str, why: &str) {
        let what = match &change.base {
            Some(_) => "the gates ran with the base's version",
            None => "it was taken away while the gates ran",
        };
        self.flag(code, path, format!("{why}: {what}"));
        self.check.insert(change.path.clone(), change.base.clone());
    }

    fn restore_test(&mut self, change: &Change, path: &str) {
        let what = if change.now.is_some() { "changes" } else { "deletes" };
        let detail = format!("{what} a test of the base: the tests ran with the base's version");
        self.flag("changes-tests", path, detail);
        self.test.insert(change.path.clone(), change.base.clone());
    }

    fn merge(&mut self, change: &Change, path: &str, kind: merge::Kind) -> Result<(), StoreError> {
        let Some(now) = &change.now else { return Ok(()) };
        let base = match &change.base {
            Some(leaf) => self.store.blob(&leaf.id)?,
            None => Vec::new(),
        };
        match merge::merge(kind, &base, &self.store.blob(&now.id)?) {
            merge::Merged::Same => {}
            merge::Merged::Changed { bytes, parts } => {
                let detail = format!("{} came from the base while the gates ran", parts.join(", "));
                self.flag("touches-gate", path, detail);
                let leaf = Leaf { mode: now.mode, id: self.store.put_blob(&bytes)? };
                self.check.insert(change.path.clone(), Some(leaf));
            }
            merge::Merged::Unreadable => {
                self.restore(change, path, "touches-gate", "can't be read")
            }
        }
        Ok(())
    }

    /// Code: only what it adds is looked at, and only for words that silence a check.
    fn scan(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        let Some(now) = change.now.as_ref().filter(|leaf| leaf.is_file()) else { return Ok(()) };
        if !suppress::is_source(path) {
            return Ok(());
        }
        let new = self.store.blob(&now.id)?;
        let old = match change.base.as_ref().filter(|leaf| leaf.is_file()) {
            Some(leaf) => self.store.blob(&leaf.id)?,
            None => Vec::new(),
        };
        for (code, detail) in suppress::findings(path, &old, &new) {
            self.flag(code, path, detail);
        }
        if path.ends_with(".rs") {
            self.restore_inline(change, path, now, &old, &new)?;
        }
        if let Some(bytes) = suppress::disarm(path, &old, &new) {
            let leaf = Leaf { mode: now.mode, id: self.store.put_blob(&bytes)? };
            self.check.insert(change.path.clone(), Some(leaf));
        }
        Ok(())
    }

    /// Tests that stand in a source file of the base.
    fn restore_inline(
        &mut self,
        change: &Change,
        path: &str,
        now: &Leaf,
        old: &[u8],
        new: &[u8],
    ) -> Result<(), StoreError> {
        let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else {
            return Ok(());
        };
        if inline::asks_for_tests(new) > inline::asks_for_tests(old) {
            self.flag(
                "detects-tests",
                path,
                "code outside of tests asks whether it is tested".to_owned(),
            );
        }
        if let Some(restored) = inline::restore(old, new) {
            let what = restored.names.join(", ");
            let detail =
                format!("changes tests of the base ({what}): the tests ran with the base's");
            self.flag("changes-tests", path, detail);
            let leaf = Leaf { mode: now.mode, id: self.store.put_blob(restored.text.as_bytes())? };
            self.test.insert(change.path.clone(), Some(leaf));
        }
        Ok(())
    }

    fn flag(&mut self, code: &str, path: &str, detail: String) {
        self.flags.push(Flag { code: code.to_owned(), path: Some(path.to_owned()), detail });
    }
}

#[cfg(test)]
mod tests;
