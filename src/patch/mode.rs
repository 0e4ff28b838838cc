//! Modes of tree entries: which a diff may name, and which may stand in the tree afterwards.

use super::refuse::{Detail, refuse};
use super::rules::Rules;
use crate::model::Refusal;

/// A regular file.
pub(super) const FILE: u32 = 0o100_644;
/// An executable file.
pub(super) const EXECUTABLE: u32 = 0o100_755;
/// A symbolic link.
pub(super) const LINK: u32 = 0o120_000;
/// A gitlink: a submodule's commit.
pub(super) const GITLINK: u32 = 0o160_000;

/// Reads a mode of exactly six octal digits.
pub(super) fn read(text: &[u8]) -> Option<u32> {
    if text.len() != 6 || !text.iter().all(|byte| (b'0'..=b'7').contains(byte)) {
        return None;
    }
    Some(text.iter().fold(0, |mode, digit| (mode << 3) | u32::from(digit - b'0')))
}

/// Whether a diff may give a file this mode.
pub(super) fn check(mode: u32, path: &[u8], rules: &Rules) -> Result<(), Refusal> {
    let (allowed, code, why) = match mode {
        FILE | EXECUTABLE => return Ok(()),
        LINK => (rules.links, "link", "symbolic links are not admitted: send a regular file"),
        GITLINK => (rules.submodules, "gitlink", "changes to submodules are not admitted"),
        _ => (false, "mode", "only the modes 100644 and 100755 are admitted"),
    };
    match allowed {
        true => Ok(()),
        false => Err(refuse(code, why).at(path).found(format!("mode {mode:06o}").as_bytes())),
    }
}

/// What kind of object a mode stands for; a change never crosses kinds.
pub(super) fn kind(mode: u32) -> u32 {
    mode & 0o170_000
}

/// Whether the mode is that of a regular file.
pub(super) fn is_file(mode: u32) -> bool {
    kind(mode) == kind(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_octal_digits_and_nothing_else() {
        assert_eq!(read(b"100644"), Some(FILE));
        assert_eq!(read(b"1006448"), None);
        assert_eq!(read(b"100648"), None);
        assert_eq!(read(b"+10064"), None);
    }

    #[test]
    fn links_and_gitlinks_need_a_rule() {
        let strict = Rules::default();
        let open = Rules { links: true, submodules: true, ..Rules::default() };
        let code = |mode, rules| check(mode, b"x", rules).err().map(|refusal| refusal.code);
        assert_eq!(code(EXECUTABLE, &strict), None);
        assert_eq!(code(LINK, &strict).as_deref(), Some("link"));
        assert_eq!(code(GITLINK, &strict).as_deref(), Some("gitlink"));
        assert_eq!(code(0o104_755, &open).as_deref(), Some("mode"));
        assert_eq!(code(LINK, &open), None);
    }
}
