//! Targets of symbolic links: relative, inside the tree, and not into git's own files.

use super::disguise;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// Checks the target of a link at `path`.
pub(super) fn check(path: &[u8], target: &[u8]) -> Result<(), Refusal> {
    let outside = |why: &str| Err(refuse("link-target", why).at(path).found(target));
    if target.is_empty()
        || target.iter().any(|byte| byte.is_ascii_control())
        || target.contains(&b'\\')
    {
        return outside("the target of the link is no plain path");
    }
    if target.starts_with(b"/") || target.contains(&b':') {
        return outside("the target of the link must be relative");
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for component in target.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if depth == 0 => {
                return outside("the target of the link is outside the repository");
            }
            b".." => depth -= 1,
            name if disguise::git_file(name).is_some() => {
                return outside("the target of the link is one of git's own files");
            }
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_inside() {
        for (path, target) in
            [("docs/a", "README.md"), ("a/b/c", "../../d"), ("a", "b/../c"), ("a", ".")]
        {
            assert!(check(path.as_bytes(), target.as_bytes()).is_ok(), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a/b", "../../x"),
            ("a", "b/../../x"),
            ("a", ".git/config"),
            ("a", ""),
            ("a", "x\n"),
            ("a", "C:/x"),
            ("a", "..\\x"),
        ] {
            assert!(check(path.as_bytes(), target.as_bytes()).is_err(), "{path} -> {target}");
        }
    }
}
