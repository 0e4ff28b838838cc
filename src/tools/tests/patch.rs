//! Applying diffs.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::tools::testing::Fixture;

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.put("a.txt", "one\ntwo\nthree\n");
    fixture.put("dir/b.txt", "b\n");
    fixture.put("gone.txt", "bye\n");
    fixture
}

const WHOLE: &str = "diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/new/deep.txt b/new/deep.txt
new file mode 100755
--- /dev/null
+++ b/new/deep.txt
@@ -0,0 +1 @@
+deep
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/dir/b.txt b/dir/c.txt
similarity index 100%
rename from dir/b.txt
rename to dir/c.txt
";

#[test]
fn a_whole_diff_is_applied() {
    let fixture = fixture();
    let told = fixture.done("apply_patch", json!({"patch": WHOLE}));
    assert!(
        told.starts_with("applied to 4 files:") && told.contains("changed a.txt (+1 -1)"),
        "{told}"
    );
    assert_eq!(fixture.get("a.txt"), "one\n2\nthree\n");
    assert_eq!(fixture.get("new/deep.txt"), "deep\n");
    let mode = fixture.top().join("new/deep.txt").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!fixture.top().join("gone.txt").exists() && !fixture.top().join("dir/b.txt").exists());
    assert_eq!(fixture.get("dir/c.txt"), "b\n");
}

#[test]
fn an_envelope_is_applied() {
    let fixture = fixture();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: n.txt\n+n\n*** Delete File: gone.txt\n*** End Patch\n";
    fixture.done("apply_patch", json!({"patch": patch}));
    assert_eq!(
        (fixture.get("a.txt").as_str(), fixture.get("n.txt").as_str()),
        ("one\n2\nthree\n", "n\n")
    );
    assert!(!fixture.top().join("gone.txt").exists());
}

#[test]
fn a_diff_that_fails_in_one_file_changes_none() {
    let fixture = fixture();
    fixture.put("dir/b.txt", "other\n");
    let broken = WHOLE.replace("-bye", "-hello");
    let told = fixture.refused("apply_patch", json!({"patch": broken}));
    assert!(told.contains("gone.txt") && told.contains("nothing was changed"), "{told}");
    assert_eq!(fixture.get("a.txt"), "one\ntwo\nthree\n");
    assert!(!fixture.top().join("new").exists());
    // A file stands where a directory is needed: found at the write, and put back.
    let blocked = WHOLE.replace("new/deep.txt", "a.txt/deep.txt");
    fixture.refused("apply_patch", json!({"patch": blocked}));
    assert_eq!(fixture.get("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(fixture.get("gone.txt"), "bye\n");
    assert_eq!(fixture.get("dir/b.txt"), "other\n");
}

#[test]
fn diffs_that_leave_or_make_links_are_refused() {
    let fixture = fixture();
    fixture.link("../outside.txt", "link");
    let new = |path: &str, mode: &str| {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        )
    };
    for patch in [
        new("../x", "100644"),
        new("x/../../y", "100644"),
        new(".git/hooks/x", "100755"),
        new("link", "100644"),
        new("l", "120000"),
        new("m", "160000"),
        new("a.txt", "100644"),
        "--- /etc/hosts\n+++ /etc/hosts\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
        "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n".to_owned(),
        "no diff at all".to_owned(),
        String::new(),
    ] {
        fixture.refused("apply_patch", json!({"patch": patch}));
    }
    assert_eq!(
        std::fs::read_to_string(fixture.outer.path().join("outside.txt")).unwrap(),
        "OUTSIDE\n"
    );
    assert_eq!(fixture.get("a.txt"), "one\ntwo\nthree\n");
}
