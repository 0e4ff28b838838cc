//! What defines a gate comes from the base.
//!
//! From a candidate's admitted tree further trees are made. The *check tree* has the base's configuration
//! of tools, build scripts and command files, and none of the files that would outrank them. The *test
//! tree* has, on top, exactly the tests that the base has, those inside Rust's source files too. The
//! *own tree* has the candidate's tests instead, and the *base's own* tree those tests over the base's
//! sources. In files of both kinds (`Cargo.toml`, `package.json`, `tsconfig.json`, `pyproject.toml`,
//! `go.mod`) the base decides over what defines a gate, and the candidate over the rest.
//!
//! Everything that was put back is flagged. A candidate of which nothing is left has proved nothing.

mod always;
mod depend;
mod fits;
mod inline;
mod jsonc;
mod looks;
mod merge;
mod moved;
mod resolve;
mod rules;
mod scan;
mod suppress;
mod tests_of;
pub(super) mod tree;
mod tsconfig;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub use self::depend::root;
pub use self::rules::is_test_path;
use self::rules::{Class, Commands};
pub use self::tests_of::{ChangedTest, Tests, Touch};
use self::tree::{Change, Leaf};
pub use self::tree::{tests_near, text as text_at};
use crate::model::{Flag, GatePlan, TreeId};
use crate::patch::{StoreError, TreeStore};

/// The trees that are gated in place of an admitted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// For the typecheck.
    pub check: TreeId,
    /// For the tests of the base.
    pub test: TreeId,
    /// The candidate with its own tests; absent when it adds and changes none.
    pub own: Option<TreeId>,
    /// The base's sources with the candidate's tests.
    pub own_on_base: Option<TreeId>,
    /// The tests that it adds or changes.
    pub tests: Tests,
    /// Dependencies that its manifests name and the base's do not.
    pub dependencies: BTreeSet<String>,
    /// What was put back and what else a reader must know.
    pub flags: Vec<Flag>,
    /// Paths that were put back or taken away in either tree, sorted; tests that it adds not among them.
    pub restored: Vec<String>,
    /// Whether it adds and changes tests, and nothing else.
    pub only_tests: bool,
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
    let read = |path: &str| tree::text(store, base, path).ok().flatten();
    let commands = Commands::of(plan, &read);
    let mut work = Work::new(store, base, admitted);
    work.moved = moved::pairs(store, &changes)?;
    work.tests.moved = work.moved.modules();
    for change in &changes {
        work.look_at(change, &commands)?;
    }
    work.finish(admitted)
}

type Edits = BTreeMap<Vec<u8>, Option<Leaf>>;

pub(super) struct Work<'a> {
    pub(super) store: &'a dyn TreeStore,
    pub(super) base: &'a TreeId,
    admitted: &'a TreeId,
    flags: Vec<Flag>,
    /// What the check tree has otherwise than the admitted one.
    check: Edits,
    /// What the test tree has otherwise than the check tree.
    test: Edits,
    /// What the base's own tree has otherwise than the base.
    own: Edits,
    /// Test files that the candidate adds: out of the test tree, and yet nothing of a gate's.
    added: Vec<String>,
    tests: Tests,
    dependencies: BTreeSet<String>,
    moved: moved::Moved,
    /// The admitted tree without what only silences a check.
    plain: Edits,
}

impl<'a> Work<'a> {
    fn new(store: &'a dyn TreeStore, base: &'a TreeId, admitted: &'a TreeId) -> Self {
        Self {
            store,
            base,
            admitted,
            flags: Vec::new(),
            check: BTreeMap::new(),
            test: BTreeMap::new(),
            own: BTreeMap::new(),
            added: Vec::new(),
            tests: Tests::default(),
            dependencies: BTreeSet::new(),
            moved: moved::Moved::default(),
            plain: BTreeMap::new(),
        }
    }

    fn look_at(&mut self, change: &Change, commands: &Commands) -> Result<(), StoreError> {
        let path = tree::lossy(&change.path);
        let beside = |sibling: &str| tree::has(self.store, self.base, sibling.as_bytes());
        let class = match self.is_found_first(change, &path)? {
            true => Some(Class::Outranks),
            false => rules::classify(&path, change, commands, &beside)?,
        };
        match class {
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
            Some(Class::Test) => self.restore_test(change, &path)?,
            Some(Class::NewTest) => self.set_aside(change, &path)?,
            Some(Class::Mixed(kind)) => self.merge(change, &path, kind)?,
            Some(Class::Vendored) => {
                self.flag("changes-vendored", &path, "changes a vendored dependency".to_owned());
            }
            None => self.scan(change, &path)?,
        }
        Ok(())
    }

    /// Whether a new script is found before one that stays. In place of one that goes it is the same
    /// module in another language.
    fn is_found_first(&self, change: &Change, path: &str) -> Result<bool, StoreError> {
        if change.base.is_some() {
            return Ok(false);
        }
        for other in resolve::outranked(path) {
            let is_in = |tree: &TreeId| tree::has(self.store, tree, other.as_bytes());
            if is_in(self.base)? && is_in(self.admitted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restore(&mut self, change: &Change, path: &str, code: &str, why: &str) {
        let what = match &change.base {
            Some(_) => "the gates ran with the base's version",
            None => "it was taken away while the gates ran",
        };
        self.flag(code, path, format!("{why}: {what}"));
        self.check.insert(change.path.clone(), change.base.clone());
    }

    fn restore_test(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        let what = if change.now.is_some() { "changes" } else { "deletes" };
        let detail = format!("{what} a test of the base: the tests ran with the base's version");
        self.flag("changes-tests", path, detail);
        self.tests.changed.push(ChangedTest {
            path: path.to_owned(),
            base: self.text(change.base.as_ref())?,
            now: self.text(change.now.as_ref())?,
        });
        match self.moved.to.get(&change.path) {
            // A module of tests that moved with what it tests is of no use at its old place.
            Some(to) => {
                self.test.insert(to.clone(), change.base.clone());
            }
            None => {
                self.test.insert(change.path.clone(), change.base.clone());
            }
        }
        if change.now.is_some() {
            self.own.insert(change.path.clone(), change.now.clone());
        }
        Ok(())
    }

    /// A test file that the base does not have. It would ship, so that it has to compile; and it must not
    /// be able to change what the base's tests say.
    fn set_aside(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        self.own.insert(change.path.clone(), change.now.clone());
        self.tests.added.push(path.to_owned());
        if !self.moved.from.contains_key(&change.path) {
            self.added.push(path.to_owned());
            self.test.insert(change.path.clone(), None);
        }
        Ok(())
    }

    fn merge(&mut self, change: &Change, path: &str, kind: merge::Kind) -> Result<(), StoreError> {
        let Some(now) = &change.now else {
            // A package of Cargo goes with its manifest; other manifests are settings, too.
            if kind != merge::Kind::Cargo {
                self.restore(change, path, "touches-gate", "defines how a gate runs");
            }
            return Ok(());
        };
        let base = match &change.base {
            Some(leaf) => self.store.blob(&leaf.id)?,
            None => Vec::new(),
        };
        let new = self.store.blob(&now.id)?;
        self.dependencies.extend(depend::added(path, &base, &new));
        match merge::merge(kind, &base, &new) {
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

    fn text(&self, leaf: Option<&Leaf>) -> Result<Option<String>, StoreError> {
        let Some(leaf) = leaf.filter(|leaf| leaf.is_file()) else { return Ok(None) };
        Ok(String::from_utf8(self.store.blob(&leaf.id)?).ok())
    }

    fn flag(&mut self, code: &str, path: &str, detail: String) {
        self.flags.push(Flag { code: code.to_owned(), path: Some(path.to_owned()), detail });
    }

    fn finish(self, admitted: &TreeId) -> Result<Gated, StoreError> {
        let restored: BTreeSet<String> = self
            .check
            .keys()
            .chain(self.test.keys())
            .map(|path| tree::lossy(path))
            .filter(|path| !self.added.contains(path))
            .collect();
        let check = tree::edit(self.store, admitted, &self.check)?;
        let test = tree::edit(self.store, &check, &self.test)?;
        let own = (!self.tests.is_empty()).then(|| check.clone());
        let own_on_base = match own {
            Some(_) => Some(tree::edit(self.store, self.base, &self.own)?),
            None => None,
        };
        let mut flags = self.flags;
        let mut flag = |code: &str, detail: &str| {
            flags.push(Flag { code: code.to_owned(), path: None, detail: detail.to_owned() });
        };
        if !self.plain.is_empty() && tree::edit(self.store, admitted, &self.plain)? == *self.base {
            flag(
                "silences-only",
                "adds comments that silence a check or address a judge, and nothing else",
            );
        }
        let only_tests = self.check.is_empty() && test == *self.base;
        if only_tests && self.tests.added.is_empty() {
            flag("changes-only-tests", "changes tests of the base and nothing else");
        }
        Ok(Gated {
            check,
            test,
            own,
            own_on_base,
            tests: self.tests,
            dependencies: self.dependencies,
            flags,
            restored: restored.into_iter().collect(),
            only_tests,
        })
    }
}

#[cfg(test)]
mod tests;
