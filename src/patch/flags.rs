//! What a reader and the judges must know of an admitted diff.
//!
//! Never here: refusing anything.

use bstr::ByteSlice;

use super::apply::Applied;
use super::disguise;
use super::file::{Body, FilePatch};
use super::gatefiles;
use super::mode;
use crate::model::{ChangeKind, Flag};

/// The flags of one section. `old_mode` is the mode in the base, if the file is there.
pub(super) fn of_file(
    file: &FilePatch,
    old_mode: Option<u32>,
    new_mode: Option<u32>,
    applied: &Applied,
) -> Vec<Flag> {
    let mut flags = Vec::new();
    let path = file.path().to_str_lossy().into_owned();
    let mut flag = |code: &str, detail: String| {
        flags.push(Flag { code: code.to_owned(), path: Some(path.clone()), detail });
    };
    if let Some((code, detail)) = mode_flag(old_mode, new_mode) {
        flag(code, detail);
    }
    for touched in [file.old_path(), file.new_path()].into_iter().flatten() {
        if let Some(what) = gatefiles::gate_file(touched) {
            flag(what.code(), format!("{} {}", touched.to_str_lossy(), what.detail()));
            break;
        }
    }
    if file.change() == ChangeKind::Deleted && is_test(file.path()) {
        flag("deletes-tests", "the diff deletes a test file".to_owned());
    }
    if let Some(seen) = unseen(file) {
        flag(seen.0, seen.1.to_owned());
    }
    if matches!(file.body, Body::Binary(_)) {
        flag("binary", format!("the new contents are binary ({} bytes)", applied.bytes.len()));
    }
    for (hunk, lines) in &applied.moved {
        flag("hunk-offset", format!("hunk {hunk} stands {lines:+} lines from where it says"));
    }
    if applied.bare {
        flag("zero-context", "the diff has hunks without context lines".to_owned());
    }
    flags
}

fn mode_flag(old: Option<u32>, new: Option<u32>) -> Option<(&'static str, String)> {
    let new = new?;
    match (old, new) {
        (_, mode::LINK) => Some(("link", "the path is a symbolic link".to_owned())),
        (_, mode::GITLINK) => Some(("gitlink", "the path is a submodule's commit".to_owned())),
        (None, mode::EXECUTABLE) => Some(("executable", "the new file can be executed".to_owned())),
        (Some(old), new) if old != new => {
            Some(("mode-change", format!("the mode changes from {old:06o} to {new:06o}")))
        }
        _ => None,
    }
}

/// Characters in added lines that a reader would not see as they are.
fn unseen(file: &FilePatch) -> Option<(&'static str, &'static str)> {
    let mut invisible = false;
    for line in file.added_lines() {
        invisible |= has_control(line);
        if line.is_ascii() {
            continue;
        }
        let mut characters = line.chars();
        if characters.clone().any(disguise::is_bidi) {
            return Some((
                "bidi-characters",
                "added lines hold characters that change the order in which they are shown",
            ));
        }
        invisible |= characters.any(disguise::is_invisible);
    }
    invisible.then_some(("invisible-characters", "added lines hold characters that can't be seen"))
}

/// Whether a line holds a character that moves a terminal's cursor or hides text there. Tabs and form
/// feeds are common in sources, and a carriage return at the end of a line is its own.
fn has_control(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | 0x0c))
}

/// Whether a path looks like a test.
fn is_test(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_lowercase();
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let directory = |part: &str| matches!(part, "test" | "tests" | "__tests__" | "spec" | "specs");
    let stem = name.split('.').next().unwrap_or_default();
    directories.split('/').any(directory)
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || name.contains(".test.")
        || name.contains(".spec.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_place_or_name() {
        for path in
            ["tests/a.rs", "x/__tests__/a.js", "test_a.py", "a_test.go", "a.test.ts", "a.spec.js"]
        {
            assert!(is_test(path.as_bytes()), "{path}");
        }
        for path in ["src/latest.rs", "contest/a.py", "protest.js"] {
            assert!(!is_test(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn characters_that_a_terminal_obeys_are_seen() {
        for line in [&b"a\rb\n"[..], b"\x1b[2Ka\n", b"a\x08b", b"\x00"] {
            assert!(has_control(line), "{line:?}");
        }
        for line in [&b"\ta\x0c\n"[..], b"a\r\n", b"a\r", b""] {
            assert!(!has_control(line), "{line:?}");
        }
    }

    #[test]
    fn modes_that_matter_are_flagged() {
        assert_eq!(mode_flag(None, Some(mode::FILE)), None);
        assert_eq!(mode_flag(None, Some(mode::EXECUTABLE)).unwrap().0, "executable");
        assert_eq!(mode_flag(Some(mode::FILE), Some(mode::EXECUTABLE)).unwrap().0, "mode-change");
        assert_eq!(mode_flag(Some(mode::FILE), None), None);
    }
}
