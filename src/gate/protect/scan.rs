//! Ordinary code of a candidate: what it adds that silences a check or fools a test, and the tests that
//! stand in Rust's source files.

use super::tree::{Change, Leaf};
use super::{ChangedTest, StoreError, Work, always, fits, inline, looks, suppress, tree};

impl Work<'_> {
    /// Only what it adds is looked at.
    pub(super) fn scan(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        self.note_requirements(change, path)?;
        let Some(now) = change.now.as_ref().filter(|leaf| leaf.is_file()) else {
            return self.deleted(change, path);
        };
        if !suppress::is_source(path) {
            return Ok(());
        }
        let new = self.store.blob(&now.id)?;
        let before = change.base.as_ref().or_else(|| self.moved.from.get(&change.path));
        let old = match before.filter(|leaf| leaf.is_file()) {
            Some(leaf) => self.store.blob(&leaf.id)?,
            None => Vec::new(),
        };
        for (code, detail) in suppress::findings(path, &old, &new) {
            self.flag(code, path, detail);
        }
        if looks::at_tests(path, &old, &new) {
            let detail = "looks whether files of tests are there".to_owned();
            self.flag("detects-tests", path, detail);
        }
        if always::is_equal_to_all(path, &old, &new) {
            let detail = "adds a comparison that is always true".to_owned();
            self.flag("weakens-tests", path, detail);
        }
        let near = tree::tests_near(self.store, self.base, path)?;
        let near: Vec<String> = near.into_iter().map(|(_, text)| text).collect();
        if fits::fits(path, &old, &new, &near) {
            let detail =
                "answers what a test expects for just the values that the test uses".to_owned();
            self.flag("fits-tests", path, detail);
        }
        if path.ends_with(".rs") {
            self.restore_inline(change, path, now, &old, &new)?;
        }
        if let Some(bytes) = suppress::disarm(path, &old, &new) {
            let leaf = Leaf { mode: now.mode, id: self.store.put_blob(&bytes)? };
            self.check.insert(change.path.clone(), Some(leaf));
        }
        if change.base.is_some()
            && let Some(bytes) = suppress::without_silence(path, &old, &new)
        {
            let leaf = Leaf { mode: now.mode, id: self.store.put_blob(&bytes)? };
            self.plain.insert(change.path.clone(), Some(leaf));
        }
        Ok(())
    }

    fn note_requirements(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        if super::depend::is_requirements(path) {
            let old = self.text(change.base.as_ref())?.unwrap_or_default();
            let new = self.text(change.now.as_ref())?.unwrap_or_default();
            self.dependencies.extend(super::depend::added(path, old.as_bytes(), new.as_bytes()));
        }
        Ok(())
    }

    /// A source file that goes takes its tests along, unless it moved.
    fn deleted(&mut self, change: &Change, path: &str) -> Result<(), StoreError> {
        if !path.ends_with(".rs") || self.moved.to.contains_key(&change.path) {
            return Ok(());
        }
        let Some(text) = self.text(change.base.as_ref())? else { return Ok(()) };
        if inline::has_tests(&text) {
            let detail = "deletes a source file with tests of the base in it".to_owned();
            self.flag("changes-tests", path, detail);
            let (base, now) = (Some(text), None);
            self.tests.changed.push(ChangedTest { path: path.to_owned(), base, now });
        }
        Ok(())
    }

    /// Tests that stand in a source file.
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
            let detail = "code outside of tests asks whether it is tested".to_owned();
            self.flag("detects-tests", path, detail);
        }
        let Some(restored) = inline::restore(old, new) else { return Ok(()) };
        if restored.names.is_empty() {
            self.tests.added.push(path.to_owned());
            self.added.push(path.to_owned());
        } else {
            let what = restored.names.join(", ");
            let detail =
                format!("changes tests of the base ({what}): the tests ran with the base's");
            self.flag("changes-tests", path, detail);
        }
        self.tests.changed.push(ChangedTest {
            path: path.to_owned(),
            base: Some(old.to_owned()),
            now: Some(new.to_owned()),
        });
        let leaf = Leaf { mode: now.mode, id: self.store.put_blob(restored.text.as_bytes())? };
        self.test.insert(change.path.clone(), Some(leaf));
        if let (Some(text), Some(leaf)) = (inline::graft(old, new), &change.base) {
            let leaf = Leaf { mode: leaf.mode, id: self.store.put_blob(text.as_bytes())? };
            self.own.insert(change.path.clone(), Some(leaf));
        }
        Ok(())
    }
}
