//! Each form of a diff that is read, with the tree that it means: git's own wherever git reads the form.

use std::collections::BTreeMap;

use bakeoff::model::{Admission, TreeId};
use bakeoff::patch::Rules;

use crate::patch_store::GitStore;

type Files = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

fn base() -> Files {
    let file = |path: &[u8], bytes: &[u8]| (path.to_vec(), (FILE, bytes.to_vec()));
    BTreeMap::from([
        file(b"one.txt", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        file(b"two.txt", b"a\nb\nc\nd\n"),
        file(b"empty.txt", b""),
        file(b"crlf.txt", b"a\r\nb\r\nc\r\n"),
        file(b"open.txt", b"a\nb"),
        file(b"na\xc3\xafve.txt", b"x\n"),
        file(b"latin\xe9.txt", b"caf\xe9\ncr\xe8me\n"),
        file(b"tab\there \"q\".txt", b"x\n"),
        file(b"a b.txt", b"x\n"),
        (b"run.sh".to_vec(), (PROGRAM, b"echo\n".to_vec())),
    ])
}

/// What becomes of the base.
enum Now<'a> {
    Is(&'a [u8], u32, &'a [u8]),
    Gone(&'a [u8]),
}
use Now::{Gone, Is};

/// Whether plain `git apply` reads the form.
#[derive(PartialEq)]
enum Git {
    Agrees,
    Refuses,
}
use Git::{Agrees, Refuses};

struct Place {
    store: GitStore,
    base: TreeId,
}

impl Place {
    fn new() -> Self {
        let store = GitStore::new();
        let base = tree(&store, &base());
        Self { store, base }
    }

    /// The diff is admitted, with these repairs and to this tree, which is git's where git reads it.
    fn means(&self, diff: &[u8], changes: &[Now<'_>], repairs: &[&str], git: Git) {
        let shown = String::from_utf8_lossy(diff).into_owned();
        let mut files = base();
        for change in changes {
            match change {
                Is(path, mode, bytes) => {
                    files.insert(path.to_vec(), (*mode, bytes.to_vec()));
                }
                Gone(path) => assert!(files.remove(*path).is_some(), "{shown}"),
            }
        }
        let wanted = tree(&self.store, &files);
        let rules = Rules { binary: true, ..Rules::default() };
        match self.store.admit(diff, &self.base, &rules) {
            Admission::Admitted { tree, repairs: said, .. } => {
                assert_eq!(tree, wanted, "{shown}");
                let said: Vec<&str> = said.iter().map(|repair| repair.code.as_str()).collect();
                assert_eq!(said, repairs, "{shown}");
            }
            Admission::Refused(refusal) => panic!("{refusal:?}\n{shown}"),
        }
        let theirs = self.store.git_apply(diff, &self.base, &[]);
        match git {
            Agrees => assert_eq!(theirs.as_deref(), Some(wanted.as_str()), "{shown}"),
            Refuses => assert_eq!(theirs, None, "{shown}"),
        }
    }

    fn refusal(&self, diff: &str) -> bakeoff::model::Refusal {
        match self.store.admit(diff.as_bytes(), &self.base, &Rules::default()) {
            Admission::Refused(refusal) => refusal,
            other => panic!("{other:?}\n{diff}"),
        }
    }
}

fn tree(store: &GitStore, files: &Files) -> TreeId {
    let list: Vec<(&[u8], u32, Vec<u8>)> =
        files.iter().map(|(path, (mode, bytes))| (&path[..], *mode, bytes.clone())).collect();
    store.make(&list)
}

const EDIT: &str = "@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n";
const EDITED: &[u8] = b"1\ntwo\n3\n4\n5\n6\n7\n8\n9\n";
const OTHER: &str = "@@ -1,4 +1,4 @@\n a\n b\n-c\n+C\n d\n";
const OTHER_EDITED: &[u8] = b"a\nb\nC\nd\n";

fn git_section(name: &str, hunks: &str) -> String {
    format!("diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n{hunks}")
}

#[test]
fn renames_copies_and_modes() {
    let place = Place::new();
    let header = "diff --git a/one.txt b/dir/uno.txt\nsimilarity index 90%\nrename from one.txt\n\
                  rename to dir/uno.txt\n--- a/one.txt\n+++ b/dir/uno.txt\n";
    let moved = [Gone(b"one.txt"), Is(b"dir/uno.txt", FILE, EDITED)];
    place.means(format!("{header}{EDIT}").as_bytes(), &moved, &[], Agrees);
    let copied = format!("{header}{EDIT}").replace("rename", "copy");
    place.means(copied.as_bytes(), &[Is(b"dir/uno.txt", FILE, EDITED)], &[], Agrees);
    let mode = b"diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100644\n";
    place.means(mode, &[Is(b"run.sh", FILE, b"echo\n")], &[], Agrees);
    let whole = "diff --git a/run.sh b/bin/run\nold mode 100755\nnew mode 100644\nsimilarity index 100%\n\
                 rename from run.sh\nrename to bin/run\n";
    let moved = [Gone(b"run.sh"), Is(b"bin/run", FILE, b"echo\n")];
    place.means(whole.as_bytes(), &moved, &[], Agrees);
}

#[test]
fn new_and_deleted_files_empty_ones_too() {
    let place = Place::new();
    let added = b"diff --git a/new.sh b/new.sh\nnew file mode 100755\nindex 0000000..0000001\n\
                  --- /dev/null\n+++ b/new.sh\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    place.means(added, &[Is(b"new.sh", PROGRAM, b"a\nb\n")], &[], Agrees);
    let empty = b"diff --git a/d/e b/d/e\nnew file mode 100644\nindex 0000000..e69de29\n";
    place.means(empty, &[Is(b"d/e", FILE, b"")], &[], Agrees);
    let deleted = b"diff --git a/two.txt b/two.txt\ndeleted file mode 100644\n--- a/two.txt\n\
                    +++ /dev/null\n@@ -1,4 +0,0 @@\n-a\n-b\n-c\n-d\n";
    place.means(deleted, &[Gone(b"two.txt")], &[], Agrees);
    let emptied =
        b"diff --git a/empty.txt b/empty.txt\ndeleted file mode 100644\nindex e69de29..0000000\n";
    place.means(emptied, &[Gone(b"empty.txt")], &[], Agrees);
}

#[test]
fn line_ends_and_the_end_of_the_file() {
    let place = Place::new();
    let crlf = git_section("crlf.txt", "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n");
    place.means(crlf.as_bytes(), &[Is(b"crlf.txt", FILE, b"a\r\nB\r\nc\r\n")], &[], Agrees);
    let note = "\\ No newline at end of file\n";
    let closed = git_section("open.txt", &format!("@@ -1,2 +1,2 @@\n a\n-b\n{note}+b\n"));
    place.means(closed.as_bytes(), &[Is(b"open.txt", FILE, b"a\nb\n")], &[], Agrees);
    let opened = git_section("two.txt", &format!("@@ -2,3 +2,3 @@ a\n b\n c\n-d\n+d\n{note}"));
    place.means(opened.as_bytes(), &[Is(b"two.txt", FILE, b"a\nb\nc\nd")], &[], Agrees);
    let kept = git_section("open.txt", &format!("@@ -1,2 +1,2 @@\n-a\n+A\n b\n{note}"));
    place.means(kept.as_bytes(), &[Is(b"open.txt", FILE, b"A\nb")], &[], Agrees);
    // The transport's carriage returns are not the file's.
    let sent = git_section("two.txt", OTHER).replace('\n', "\r\n");
    place.means(
        sent.as_bytes(),
        &[Is(b"two.txt", FILE, OTHER_EDITED)],
        &["crlf-transport"],
        Refuses,
    );
}

#[test]
fn names_and_contents_of_any_bytes() {
    let place = Place::new();
    let edit = "@@ -1 +1 @@\n-x\n+y\n";
    let quoted = format!(
        "diff --git \"a/na\\303\\257ve.txt\" \"b/na\\303\\257ve.txt\"\n--- \"a/na\\303\\257ve.txt\"\n\
         +++ \"b/na\\303\\257ve.txt\"\n{edit}"
    );
    place.means(quoted.as_bytes(), &[Is(b"na\xc3\xafve.txt", FILE, b"y\n")], &[], Agrees);
    let plain = git_section("na\u{ef}ve.txt", edit);
    place.means(plain.as_bytes(), &[Is(b"na\xc3\xafve.txt", FILE, b"y\n")], &[], Agrees);
    let odd = "diff --git \"a/tab\\there \\\"q\\\".txt\" \"b/tab\\there \\\"q\\\".txt\"\n\
               deleted file mode 100644\n--- \"a/tab\\there \\\"q\\\".txt\"\n+++ /dev/null\n\
               @@ -1 +0,0 @@\n-x\n";
    // A name with a control character may not even be taken away: it is refused as a path.
    assert_eq!(place.refusal(odd).code, "bad-path");
    let space = git_section("a b.txt", edit).replace(".txt\n@@", ".txt\t\n@@");
    place.means(space.as_bytes(), &[Is(b"a b.txt", FILE, b"y\n")], &[], Agrees);
    let latin = b"diff --git \"a/latin\\351.txt\" \"b/latin\\351.txt\"\n--- \"a/latin\\351.txt\"\n\
                  +++ \"b/latin\\351.txt\"\n@@ -1,2 +1,2 @@\n-caf\xe9\n+th\xe9\n cr\xe8me\n";
    let now = [Is(b"latin\xe9.txt", FILE, b"th\xe9\ncr\xe8me\n")];
    place.means(latin, &now, &[], Agrees);
    let raw = b"diff --git a/latin\xe9.txt b/latin\xe9.txt\n--- a/latin\xe9.txt\n\
                +++ b/latin\xe9.txt\n@@ -1,2 +1,2 @@\n-caf\xe9\n+th\xe9\n cr\xe8me\n";
    place.means(raw, &now, &[], Agrees);
}

#[test]
fn binary_contents_by_the_rule_only() {
    let place = Place::new();
    let mut changed = base();
    changed.insert(b"data.bin".to_vec(), (FILE, (0..=255).cycle().take(700).collect()));
    changed.insert(b"two.txt".to_vec(), (FILE, b"a\0b\n".to_vec()));
    let new = tree(&place.store, &changed);
    let diff = place.store.diff(&place.base, &new, 3, false);
    let now: Vec<Now<'_>> =
        changed.iter().map(|(path, (mode, bytes))| Is(path, *mode, bytes)).collect();
    place.means(&diff, &now, &[], Agrees);
    assert_eq!(place.refusal(&String::from_utf8(diff).unwrap()).code, "binary");
}

#[test]
fn diffs_without_git_headers() {
    let place = Place::new();
    let plain = format!("--- a/one.txt\n+++ b/one.txt\n{EDIT}");
    place.means(plain.as_bytes(), &[Is(b"one.txt", FILE, EDITED)], &[], Agrees);
    let dated = "diff -ru old/one.txt new/one.txt\n--- old/one.txt\t2024-05-01 10:00:00.000000000 +0200\n\
                 +++ new/one.txt\t2024-05-01 10:00:01.000000000 +0200\n";
    let dated = format!("{dated}{EDIT}Only in new: other\n");
    let repairs = ["prose-around"];
    place.means(dated.as_bytes(), &[Is(b"one.txt", FILE, EDITED)], &repairs, Agrees);
    let added = b"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n";
    place.means(added, &[Is(b"new.txt", FILE, b"x\n")], &[], Agrees);
    let deleted =
        b"--- a/open.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n";
    place.means(deleted, &[Gone(b"open.txt")], &[], Agrees);
    let index = format!("Index: one.txt\n{}\n--- one.txt\n+++ one.txt\n{EDIT}", "=".repeat(67));
    let repairs = ["no-prefix"];
    place.means(index.as_bytes(), &[Is(b"one.txt", FILE, EDITED)], &repairs, Agrees);
}

#[test]
fn several_diffs_in_one_answer() {
    let place = Place::new();
    let (one, two) = (git_section("one.txt", EDIT), git_section("two.txt", OTHER));
    let both = [Is(b"one.txt", FILE, EDITED), Is(b"two.txt", FILE, OTHER_EDITED)];
    place.means(format!("{one}{two}").as_bytes(), &both, &[], Agrees);
    let fenced = format!("First:\n\n```diff\n{one}```\n\nThen:\n\n```diff\n{two}```\n");
    place.means(fenced.as_bytes(), &both, &["markdown-fence", "prose-around"], Agrees);
    let choice = fenced.replace("Then", "Alternatively");
    assert_eq!(place.refusal(&choice).code, "several-diffs");
    let twice = format!("```diff\n{one}```\n```diff\n{one}```\n");
    assert_eq!(place.refusal(&twice).code, "path-twice");
}

#[test]
fn mails_of_format_patch() {
    let place = Place::new();
    let mail = |number: u32, diff: &str| {
        format!(
            "From {} Mon Sep 17 00:00:00 2001\nFrom: Somebody <somebody@example.invalid>\n\
             Date: Mon, 30 Nov 2026 10:00:00 +0000\nSubject: [PATCH {number}/2] Count anew\n\n\
             - a list\n- of what is new\n\n---\n one.txt | 2 +-\n 1 file changed\n\n{diff}-- \n2.47.3\n\n",
            "0123456789".repeat(4)
        )
    };
    let (one, two) = (git_section("one.txt", EDIT), git_section("two.txt", OTHER));
    let series = mail(1, &one) + &mail(2, &two);
    let both = [Is(b"one.txt", FILE, EDITED), Is(b"two.txt", FILE, OTHER_EDITED)];
    place.means(mail(1, &one).as_bytes(), &[Is(b"one.txt", FILE, EDITED)], &["mail"], Agrees);
    place.means(series.as_bytes(), &both, &["mail"], Agrees);
}

#[test]
fn envelopes() {
    let place = Place::new();
    let envelope = b"*** Begin Patch\n*** Update File: one.txt\n@@\n 1\n-2\n+two\n 3\n\
                     *** Add File: new.txt\n+x\n*** Delete File: empty.txt\n\
                     *** Update File: two.txt\n*** Move to: dir/two.txt\n@@\n b\n-c\n+C\n*** End Patch\n";
    let now = [
        Is(b"one.txt", FILE, EDITED),
        Is(b"new.txt", FILE, b"x\n"),
        Gone(b"empty.txt"),
        Gone(b"two.txt"),
        Is(b"dir/two.txt", FILE, OTHER_EDITED),
    ];
    place.means(envelope, &now, &[], Refuses);
}

#[test]
fn hunks_without_line_numbers() {
    let place = Place::new();
    let loose = "@@ ... @@\n 1\n-2\n+two\n 3\n";
    let now = [Is(b"one.txt", FILE, EDITED)];
    let plain = format!("--- a/one.txt\n+++ b/one.txt\n{loose}");
    place.means(plain.as_bytes(), &now, &["line-numbers"], Refuses);
    place.means(git_section("one.txt", loose).as_bytes(), &now, &["line-numbers"], Refuses);
    let other = "--- a/two.txt\n+++ b/two.txt\n@@\n-c\n+C\n";
    let both = [Is(b"one.txt", FILE, EDITED), Is(b"two.txt", FILE, OTHER_EDITED)];
    place.means(format!("{plain}{other}").as_bytes(), &both, &["line-numbers"], Refuses);
    // Git reads only the section with numbers, and the mode only.
    for read_in_part in [
        format!("{}{other}", git_section("one.txt", EDIT)),
        "diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100644\n--- a/run.sh\n+++ b/run.sh\n@@\n-echo\n+x\n"
            .to_owned(),
    ] {
        assert!(place.store.git_apply(read_in_part.as_bytes(), &place.base, &[]).is_some());
        assert_eq!(place.refusal(&read_in_part).code, "hunk-header", "{read_in_part}");
    }
}

#[test]
fn a_diff_in_a_json_answer() {
    let place = Place::new();
    let answer = serde_json::json!({ "thought": "2 -> two", "diff": git_section("one.txt", EDIT) });
    let now = [Is(b"one.txt", FILE, EDITED)];
    place.means(answer.to_string().as_bytes(), &now, &["json"], Refuses);
    let fenced = format!("```json\n{answer:#}\n```");
    place.means(fenced.as_bytes(), &now, &["json"], Refuses);
}

#[test]
fn several_envelopes() {
    let place = Place::new();
    let first =
        "*** Begin Patch\n*** Update File: one.txt\n@@ ...\n 1\n-2\n+two\n 3\n*** End Patch\n";
    let second =
        "*** Begin Patch\n*** Update File: two.txt\n@@ -1,4 +1,4 @@ b\n-c\n+C\n*** End Patch\n";
    let both = [Is(b"one.txt", FILE, EDITED), Is(b"two.txt", FILE, OTHER_EDITED)];
    place.means(format!("{first}\n{second}").as_bytes(), &both, &[], Refuses);
    let fenced = format!("```\n{first}```\n\n```\n{second}```\n");
    place.means(fenced.as_bytes(), &both, &["markdown-fence"], Refuses);
}

/// A refusal is something to act on: which file, which hunk, what was expected, what is there.
#[test]
fn refusals_name_the_file_the_hunk_and_the_difference() {
    let place = Place::new();
    let told = |diff: &str| {
        let refusal = place.refusal(diff);
        let text = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        format!(
            "{} at {} hunk {}: {}\n    expected {:?}, found {:?}",
            refusal.code,
            text(refusal.path),
            text(refusal.hunk.map(|hunk| hunk.to_string())),
            refusal.message,
            text(refusal.expected),
            text(refusal.found)
        )
    };
    let one = |hunks: &str| git_section("one.txt", hunks);
    let second = "@@ -6,4 +6,4 @@\n 6\n 7\n-eight\n+8!\n 9\n";
    let cases = [
        one(&format!("{EDIT}{second}")),
        one("@@ -1,4 +1,4 @@\n 1\n-2 \n+two\n 3\n 4\n"),
        one("@@ -8,4 +8,4 @@\n 8\n-9\n+nine\n 10\n 11\n"),
        one("@@ -1,3 +1,3 @@\n 4\n-5\n+five\n 6\n"),
        git_section("crlf.txt", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
        git_section("none.txt", EDIT),
        one(&EDIT.replace("-2", "*2")),
        one("@@ -1,4 +1,9 @@\n 1\n-2\n+two\n 3\n"),
        one("@@ -5,0 +6 @@\n+between\n"),
        "diff --git a/../x b/../x\n--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
        "*** Begin Patch\n*** Update File: two.txt\n@@\n a\n-B\n+x\n*** End Patch\n".to_owned(),
    ];
    let table: Vec<String> = cases.iter().map(|diff| told(diff)).collect();
    insta::assert_snapshot!(table.join("\n"));
}
