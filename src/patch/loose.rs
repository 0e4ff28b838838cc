//! Hunks without line numbers (`@@`, `@@ ... @@`, `@@ def f`), as models write them.
//!
//! They are placed by their text alone, as the chunks of an envelope are: at exactly one place, or after
//! the line that the header names. Git reads none of them, so that whole diffs have to be of this kind
//! (see `document`). Never here: headers with numbers, right or wrong (see `hunks`).

use super::chunks::{Chunk, anchor_of};
use super::cursor::Cursor;
use super::file::{Line, LineKind};
use super::hunks;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// Whether a line starts a hunk that does not even try to have numbers.
pub(super) fn is_header(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"@@") else { return false };
    let said = rest.trim_ascii_start();
    !matches!(said.first(), Some(b'-' | b'+' | b'0'..=b'9'))
}

/// Reads all hunks of a section; the cursor stands at the first `@@`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Vec<Chunk>, Refusal> {
    let mut chunks = Vec::new();
    while cursor.text().starts_with(b"@@") {
        let number = chunks.len() + 1;
        chunks.push(one(cursor).map_err(|refusal| refusal.hunk(number))?);
    }
    cursor.repair("line-numbers", "hunks had no line numbers and were placed by their text");
    Ok(chunks)
}

/// The contents of a new file: added lines only.
pub(super) fn contents(chunks: &[Chunk]) -> Option<Vec<u8>> {
    let [only] = chunks else { return None };
    let all = only.lines.iter().all(|line| line.kind == LineKind::Add);
    all.then(|| only.lines.iter().flat_map(|line| line.text.iter().copied()).collect())
}

fn one(cursor: &mut Cursor<'_>) -> Result<Chunk, Refusal> {
    if !is_header(cursor.text()) {
        return Err(numbers("some hunks of the file have line numbers and some have not")
            .found(cursor.text()));
    }
    let anchors = anchor_of(&cursor.text()[2..]).into_iter().collect();
    cursor.advance();
    let lines = hunks::uncounted(cursor)?;
    if lines.iter().all(|line| line.kind == LineKind::Context) {
        return Err(refuse("no-change", "the hunk adds and removes nothing"));
    }
    if lines.iter().any(|line| !line.text.ends_with(b"\n")) {
        return Err(numbers("a hunk says that the file ends without a newline"));
    }
    if is_cut(cursor, &lines) {
        return Err(refuse(
            "truncated",
            "nothing shows that the last hunk is whole: the diff seems to be cut off",
        ));
    }
    Ok(Chunk { anchors, lines, at_end: false })
}

/// Without counts only what follows, or a last line that would be odd to stop before, shows that a hunk
/// is whole.
fn is_cut(cursor: &Cursor<'_>, lines: &[Line]) -> bool {
    let removes = lines.last().is_some_and(|line| line.kind == LineKind::Remove);
    cursor.done() && (!cursor.ends_whole() || removes)
}

/// A refusal of what only numbers can settle.
pub(super) fn numbers(why: &str) -> Refusal {
    refuse("hunk-header", format!("{why}: give every hunk its `@@ -OLD,COUNT +NEW,COUNT @@`"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::MemoryStore;
    use super::super::{Rules, parse};

    const OLD: &str = "fn a\n  x\n  y\nfn b\n  x\n  z\n";

    fn verdict(diff: &str) -> Result<Vec<String>, String> {
        let store = MemoryStore::default();
        let base = store.make(&[("f", OLD), ("g", "1\n2\n3\n4\n")]);
        let same = |file: &String| file.ends_with(OLD) || file == "100644 g 1\n2\n3\n4\n";
        let changed = |files: Vec<String>| files.into_iter().filter(|file| !same(file)).collect();
        store.verdict(&base, diff, &Rules::default()).map(changed)
    }

    fn on_f(hunks: &str) -> Result<Vec<String>, String> {
        verdict(&format!("--- a/f\n+++ b/f\n{hunks}"))
    }

    fn becomes(text: &str) -> Result<Vec<String>, String> {
        Ok(vec![format!("100644 f {text}")])
    }

    #[test]
    fn a_hunk_without_numbers_stands_where_its_lines_are_once() {
        let want = becomes("fn a\n  x\n  Y\nfn b\n  x\n  z\n");
        for head in
            ["@@", "@@ @@", "@@ ... @@", "@@ … @@", "@@ fn a", "@@ fn a @@", "@@ ... @@ fn a"]
        {
            assert_eq!(on_f(&format!("{head}\n-  y\n+  Y\n")), want, "{head}");
            let git = format!("diff --git a/f b/f\n--- a/f\n+++ b/f\n{head}\n-  y\n+  Y\n fn b\n");
            assert_eq!(verdict(&git), want, "{head}");
        }
        assert_eq!(on_f("@@ ... @@\n-  x\n+  X\n"), Err("hunk-ambiguous".into()));
        assert_eq!(on_f("@@ fn b @@\n-  x\n+  X\n"), becomes("fn a\n  x\n  y\nfn b\n  X\n  z\n"));
        assert_eq!(on_f("@@\n-  w\n+  X\n"), Err("hunk-not-found".into()));
        assert_eq!(on_f("@@\n+  X\n"), Err("hunk-not-found".into()));
        let two = "@@\n fn a\n-  x\n+  X\n@@ fn b\n-  z\n+  Z\n";
        assert_eq!(on_f(two), becomes("fn a\n  X\n  y\nfn b\n  x\n  Z\n"));
        let patch = parse(b"--- a/f\n+++ b/f\n@@\n-a\n+b\n", &Rules::default()).unwrap();
        assert_eq!(patch.repairs()[0].code, "line-numbers");
    }

    #[test]
    fn what_git_would_read_in_part_is_refused() {
        // Git takes the numbered hunk, or the other section, and leaves the rest out.
        let numbered = "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n";
        let loose = "@@\n-4\n+four\n";
        let header = "--- a/g\n+++ b/g\n";
        assert_eq!(verdict(&format!("{header}{numbered}{loose}")), Err("hunk-header".into()));
        assert_eq!(verdict(&format!("{header}{loose}{numbered}")), Err("hunk-header".into()));
        let other = "--- a/f\n+++ b/f\n@@\n-  y\n+  Y\n";
        assert_eq!(verdict(&format!("{header}{numbered}{other}")), Err("hunk-header".into()));
        // A git header over nothing that git reads makes it refuse the whole diff.
        let git = format!("diff --git a/f b/f\n{other}");
        assert_eq!(verdict(&format!("{header}{numbered}{git}")).map(|files| files.len()), Ok(2));
        let mode = git.replace("--- a/f", "old mode 100644\nnew mode 100755\n--- a/f");
        assert_eq!(verdict(&mode), Err("hunk-header".into()));
        let new = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@\n+x\n";
        assert_eq!(verdict(new), Err("hunk-header".into()));
    }

    #[test]
    fn a_new_file_needs_no_numbers() {
        let new = "--- /dev/null\n+++ b/n\n@@ ... @@\n+x\n+\n+y\n";
        assert_eq!(verdict(new), Ok(vec!["100644 n x\n\ny\n".into()]));
        assert_eq!(verdict(&new.replace("+y", " y")), Err("contradiction".into()));
        let gone = "--- a/g\n+++ /dev/null\n@@\n-1\n-2\n-3\n-4\n\ntext\n";
        assert_eq!(verdict(gone), Err("hunk-header".into()));
    }

    #[test]
    fn a_diff_that_may_be_cut_off_is_refused() {
        assert_eq!(on_f("@@\n-  y\n-fn b\n"), Err("truncated".into()));
        assert_eq!(on_f("@@\n-  y\n+  Y"), Err("truncated".into()));
        let fenced = "```diff\n--- a/f\n+++ b/f\n@@\n   x\n-  y\n```\n";
        assert_eq!(verdict(fenced), becomes("fn a\n  x\nfn b\n  x\n  z\n"));
        assert_eq!(
            on_f("@@\n-  z\n+  Z\n\\ No newline at end of file\n"),
            Err("hunk-header".into())
        );
    }
}
