//! Which paths a diff may name, component by component.
//!
//! Two strengths: `check` holds for every path of a diff; `check_new` holds for names that the diff
//! brings into the tree. A name that the base has already (a file called `aux.c`, say) can be changed.

use bstr::ByteSlice;

use super::disguise::{self, GitFile};
use super::refuse::{Detail, refuse};
use super::rules::Rules;
use crate::model::Refusal;

/// The longest component, as nearly every file system has it.
const MAX_COMPONENT: usize = 255;

/// Checks a path that a diff names, old or new.
pub(super) fn check(path: &[u8], rules: &Rules) -> Result<(), Refusal> {
    if path.starts_with(b"/") || is_drive(path) {
        return Err(bad(
            path,
            "path-outside",
            "absolute paths are not taken: name the file from the repository's top",
        ));
    }
    path.split(|&byte| byte == b'/')
        .try_for_each(|component| check_component(path, component, rules))
}

fn is_drive(path: &[u8]) -> bool {
    matches!(path, [letter, b':', ..] if letter.is_ascii_alphabetic())
}

fn check_component(path: &[u8], component: &[u8], rules: &Rules) -> Result<(), Refusal> {
    let dots = component.trim_end_with(|character| character == ' ');
    if component == b".." || dots == b".." {
        return Err(bad(path, "path-outside", "the path leaves the repository by `..`"));
    }
    if component.is_empty() || component == b"." {
        return Err(bad(path, "bad-path", "the path has an empty component or a `.`"));
    }
    if component.iter().any(|byte| byte.is_ascii_control()) {
        return Err(bad(path, "bad-path", "the path holds a control character"));
    }
    if component.contains(&b'\\')
        && component
            .split(|&byte| byte == b'\\')
            .any(|part| part == b".." || disguise::git_file(part).is_some())
    {
        return Err(bad(path, "path-git", "the path reaches git's own files where `\\` separates"));
    }
    match disguise::git_file(component) {
        Some(GitFile::Modules) if rules.submodules => Ok(()),
        Some(GitFile::Git) => {
            Err(bad(path, "path-git", "the path reaches into git's own directory"))
        }
        Some(_) => Err(bad(path, "path-git", "files that configure git are not taken from a diff")),
        None => Ok(()),
    }
}

/// Checks a path that the diff brings into the tree.
pub(super) fn check_new(path: &[u8], rules: &Rules) -> Result<(), Refusal> {
    let components: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    if path.len() > rules.max_path_bytes || components.len() > rules.max_path_depth {
        return Err(bad(path, "long-path", "the path is too long to be checked out everywhere"));
    }
    check_not_bare_repository(path, &components)?;
    components.iter().try_for_each(|component| check_new_component(path, component))
}

fn check_new_component(path: &[u8], component: &[u8]) -> Result<(), Refusal> {
    if component.len() > MAX_COMPONENT {
        return Err(bad(path, "long-path", "a component of the path has more than 255 bytes"));
    }
    if is_device(component) {
        return Err(bad(path, "device-name", "the name is a device's on Windows: choose another"));
    }
    if component.contains(&b'\\') || component.contains(&b':') {
        return Err(bad(
            path,
            "bad-path",
            "the name holds a `\\` or a `:`, which some systems take apart",
        ));
    }
    if component.ends_with(b".") || component.ends_with(b" ") {
        return Err(bad(
            path,
            "bad-path",
            "the name ends in a dot or a space, which some systems drop",
        ));
    }
    let text = component.to_str_lossy();
    if text
        .chars()
        .any(|character| disguise::is_invisible(character) || disguise::is_bidi(character))
    {
        return Err(bad(
            path,
            "invisible-characters",
            "the name holds characters that a reader can't see",
        ));
    }
    if text.chars().any(|character| matches!(character, '\u{80}'..='\u{9f}')) {
        return Err(bad(path, "bad-path", "the path holds a control character"));
    }
    Ok(())
}

/// `aux`, `nul.txt`, `com1`, `lpt¹`, ….
fn is_device(component: &[u8]) -> bool {
    let text = component.to_str_lossy().to_lowercase();
    let stem = text.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ');
    if matches!(stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" | "clock$") {
        return true;
    }
    let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")).unwrap_or_default();
    let mut digits = number.chars();
    matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
}

/// Git takes a directory with `HEAD`, `objects` and `refs` for a repository, with its configuration
/// and hooks, so that none may be brought in piece by piece.
fn check_not_bare_repository(path: &[u8], components: &[&[u8]]) -> Result<(), Refusal> {
    let name = components.last().copied().unwrap_or_default();
    let inside = components.windows(2).any(|pair| is_repository_part(pair[0], pair[1]));
    let named = components
        .iter()
        .rev()
        .skip(1)
        .any(|component| component.to_ascii_lowercase().ends_with(b".git"));
    if name == b"HEAD" || inside || named {
        return Err(bad(
            path,
            "embedded-repository",
            "pieces of a git repository are not taken from a diff",
        ));
    }
    Ok(())
}

fn is_repository_part(directory: &[u8], name: &[u8]) -> bool {
    let hash_prefix = name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit);
    match directory.to_ascii_lowercase().as_slice() {
        b"objects" => hash_prefix || name == b"pack",
        b"refs" => name == b"heads" || name == b"tags",
        _ => false,
    }
}

fn bad(path: &[u8], code: &str, why: &str) -> Refusal {
    refuse(code, why).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str) -> String {
        let rules = Rules::default();
        let checked =
            check(path.as_bytes(), &rules).and_then(|()| check_new(path.as_bytes(), &rules));
        checked.err().map_or_else(|| "ok".to_owned(), |refusal| refusal.code)
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["../x", "a/../b", "/etc/x", "C:/x", "a/.. /b", "..", "c:x"] {
            assert_eq!(code(path), "path-outside", "{path}");
        }
        for path in ["", "a//b", "a/", "./a", "a/./b", "a\nb", "a\u{7f}b", "a\tb"] {
            assert_eq!(code(path), "bad-path", "{path:?}");
        }
    }

    #[test]
    fn git_files_are_out_of_reach() {
        for path in [
            ".git/config",
            "x/.GIT",
            ".git\\hooks\\x",
            "a/.gitmodules",
            "src/.gitattributes",
            ".gitconfig",
        ] {
            assert_eq!(code(path), "path-git", "{path}");
        }
        assert_eq!(code("..\\x"), "path-git");
        assert_eq!(code(".gitignore"), "ok");
    }

    #[test]
    fn new_names_are_portable() {
        for path in ["src/aux", "nul.txt", "COM1", "lpt9.c", "con/x", "com¹"] {
            assert_eq!(code(path), "device-name", "{path}");
        }
        for path in ["ab:b", "a\\b", "a.", "a /b", "x\u{85}"] {
            assert_eq!(code(path), "bad-path", "{path}");
        }
        for path in ["a\u{202e}b", "a\u{200b}b", "\u{feff}a"] {
            assert_eq!(code(path), "invisible-characters", "{path:?}");
        }
        assert_eq!(code(&"a/".repeat(60)[..119]), "long-path");
        assert_eq!(code(&"x".repeat(256)), "long-path");
        for path in ["commit.rs", "auxiliary.c", "comb", "com10", "naïve.txt", "a b.txt", "…"] {
            assert_eq!(code(path), "ok", "{path}");
        }
    }

    #[test]
    fn repositories_do_not_come_in_pieces() {
        for path in [
            "vendor/bare/HEAD",
            "x.git/config",
            "v/objects/ab/cd",
            "v/refs/heads/main",
            "v/objects/pack/p",
        ] {
            assert_eq!(code(path), "embedded-repository", "{path}");
        }
        for path in ["src/refs/mod.rs", "src/objects/list.rs", "head.rs", "HEAD.md"] {
            assert_eq!(code(path), "ok", "{path}");
        }
    }
}
