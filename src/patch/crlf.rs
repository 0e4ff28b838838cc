//! Diffs whose every line came with CR LF: the transport's doing, or the files' own line ends?
//!
//! The base decides. If no changed file holds a carriage return, git could match nothing, and the CRs
//! are the transport's. If all lines of all changed files end in CR LF, they belong to the contents.

use super::admit::{Stop, contents};
use super::file::{Body, FilePatch, Patch};
use super::refuse::{Detail, refuse};
use super::tree::{Editor, TREE, TreeStore};
use crate::model::{Refusal, Repair};

/// Settles a diff that came with CR LF throughout; others are left alone.
pub(super) fn settle(
    patch: &mut Patch,
    editor: &mut Editor<'_>,
    store: &dyn TreeStore,
) -> Result<(), Stop> {
    if !patch.crlf {
        return Ok(());
    }
    let (mut plain, mut returns) = (0, 0);
    for file in patch.files.iter().filter(|file| reads_lines(file)) {
        let Some(path) = file.old_path() else { continue };
        let Some(entry) = editor.get(path)? else { continue };
        // A directory has no lines; its section is refused for what it is.
        if entry.mode == TREE {
            continue;
        }
        match ends(&contents(&entry, store)?) {
            Some(true) => returns += 1,
            Some(false) => plain += 1,
            None => return Err(undecided(path).into()),
        }
    }
    match (plain, returns) {
        (0, 0) => return Err(undecided(b"").into()),
        (_, 0) => {}
        (0, _) => patch.files.iter_mut().try_for_each(add_returns)?,
        _ => return Err(undecided(b"").into()),
    }
    patch.repairs.push(Repair {
        code: "crlf-transport".to_owned(),
        detail: "every line of the diff ended in CR LF; the line ends of the files were kept"
            .to_owned(),
    });
    Ok(())
}

/// Whether the section compares lines with the base.
fn reads_lines(file: &FilePatch) -> bool {
    match &file.body {
        Body::Hunks(hunks) => hunks.iter().any(|hunk| hunk.old().next().is_some()),
        Body::Chunks(_) => true,
        _ => false,
    }
}

/// True: all lines end in CR LF. False: none holds a CR. None: neither.
fn ends(bytes: &[u8]) -> Option<bool> {
    if !bytes.contains(&b'\r') {
        return Some(false);
    }
    let mut lines =
        bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.all(|line| line.ends_with(b"\r\n")).then_some(true)
}

fn add_returns(file: &mut FilePatch) -> Result<(), Refusal> {
    let lines: Vec<&mut Vec<u8>> = match &mut file.body {
        Body::Hunks(hunks) => {
            hunks.iter_mut().flat_map(|hunk| &mut hunk.lines).map(|line| &mut line.text).collect()
        }
        Body::Chunks(chunks) => chunks
            .iter_mut()
            .flat_map(|chunk| &mut chunk.lines)
            .map(|line| &mut line.text)
            .collect(),
        Body::None => return Ok(()),
        Body::Whole(_) | Body::Binary(_) => return Err(undecided(b"")),
    };
    for text in lines {
        if text.pop() != Some(b'\n') {
            return Err(undecided(b""));
        }
        text.extend_from_slice(b"\r\n");
    }
    Ok(())
}

fn undecided(path: &[u8]) -> Refusal {
    let refusal = refuse(
        "carriage-return",
        "every line of the diff ends in CR LF, and the files do not tell whether that belongs to them: \
         send the diff with the line ends of the files and plain headers",
    );
    if path.is_empty() { refusal } else { refusal.at(path) }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::MemoryStore;

    const DIFF: &str = "--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n";

    fn verdict(contents: &str, diff: &str) -> Result<String, String> {
        let store = MemoryStore::default();
        let base = store.make(&[("x", contents)]);
        store.verdict(&base, diff, &Rules::default()).map(|files| files.join("|"))
    }

    #[test]
    fn the_base_tells_whose_carriage_returns_they_are() {
        assert_eq!(verdict("a\nb\n", DIFF).as_deref(), Ok("100644 x a\nc\n"));
        assert_eq!(verdict("a\r\nb\r\n", DIFF).as_deref(), Ok("100644 x a\r\nc\r\n"));
        assert_eq!(verdict("a\r\nb\n", DIFF), Err("carriage-return".into()));
    }

    /// What is no file has no object that could be read for its lines: a refusal, and no failure of the store.
    #[test]
    fn directories_and_submodules_are_refused_for_what_they_are() {
        let store = MemoryStore::default();
        let base = store.make(&[("x", "a\nb\n"), ("d/x", "a\n")]);
        let refused = |diff: &str| store.verdict(&base, diff, &Rules::default()).err();
        let directory = DIFF.replace("/x", "/d");
        assert_eq!(refused(&directory).as_deref(), Some("carriage-return"));
        assert_eq!(refused(&format!("{DIFF}{directory}")).as_deref(), Some("is-a-directory"));
        let mut editor = super::Editor::new(&store, &base).unwrap();
        let commit = super::super::ObjectId::new("1".repeat(40));
        editor.put(b"m", 0o160_000, commit).unwrap().unwrap();
        let base = editor.write(&base).unwrap();
        let module = store.verdict(&base, &DIFF.replace("/x", "/m"), &Rules::default());
        assert_eq!(module.err().as_deref(), Some("gitlink"));
    }

    #[test]
    fn a_new_file_alone_tells_nothing() {
        let added = "--- /dev/null\r\n+++ b/y\r\n@@ -0,0 +1 @@\r\n+c\r\n";
        assert_eq!(verdict("a\n", added), Err("carriage-return".into()));
    }
}
