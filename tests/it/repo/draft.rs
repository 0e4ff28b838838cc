//! Verdicts without files: a draft has the store's ids, and writes only what is kept.

use bakeoff::model::Admission;
use bakeoff::patch::{Rules, StoreError, TreeStore, admit};

use super::{Fixture, snapshot};

const DIFF: &str = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n pub fn one() -> u32 {\n-    1\n+    11\n }\n";

#[test]
fn a_draft_gives_the_store_s_trees_and_writes_only_what_is_kept() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let objects = || snapshot(&fixture.paths("r").run.join("repo.git"));
    let before = objects();
    let draft = store.draft();
    let verdict = admit(DIFF.as_bytes(), store.base_tree(), &draft, &Rules::default()).unwrap();
    let Admission::Admitted { tree, .. } = verdict else { panic!("{verdict:?}") };
    assert!(!draft.tree(&tree).unwrap().is_empty());
    assert_eq!(objects(), before);
    assert!(matches!(store.tree(&tree), Err(StoreError::Missing(_))));
    draft.keep().unwrap();
    assert_ne!(objects(), before);
    let kept = store.tree(&tree).unwrap();
    let again = admit(DIFF.as_bytes(), store.base_tree(), &store, &Rules::default()).unwrap();
    assert_eq!(again.tree(), Some(&tree));
    assert_eq!(store.tree(&tree).unwrap(), kept);
}
