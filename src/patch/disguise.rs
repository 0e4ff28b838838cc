//! Names that some file system takes for `.git` or for another of git's own files.
//!
//! Sources: git's `is_hfs_dotgit` and `is_ntfs_dotgit` families describe which names HFS+ and NTFS
//! take for another; the short names are those that Windows gives.

use bstr::ByteSlice;

/// Which of git's own files a component is, in whatever disguise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GitFile {
    /// `.git`: the repository itself.
    Git,
    /// `.gitmodules`: where submodules come from.
    Modules,
    /// `.gitattributes`: filters and merge drivers.
    Attributes,
    /// `.gitconfig`: configuration that an include may read; `.lfsconfig`.
    Config,
}

/// What a component stands for, if any file system takes it for one of git's files.
pub(super) fn git_file(component: &[u8]) -> Option<GitFile> {
    let name = plain(component);
    match name.as_str() {
        ".git" => Some(GitFile::Git),
        ".gitmodules" => Some(GitFile::Modules),
        ".gitattributes" => Some(GitFile::Attributes),
        // LFS asks the server that its file names, and sends credentials there.
        ".gitconfig" | ".lfsconfig" => Some(GitFile::Config),
        _ if is_short_name(&name) => Some(GitFile::Git),
        _ => None,
    }
}

/// The name as a lenient file system sees it: invisible characters left out, case folded, everything
/// from a colon on and trailing dots and spaces dropped.
fn plain(component: &[u8]) -> String {
    let text = component.to_str_lossy();
    let visible = text.chars().filter(|character| !is_invisible(*character));
    let folded: String = visible.flat_map(char::to_lowercase).collect();
    let stem = folded.split(':').next().unwrap_or_default();
    stem.trim_end_matches(['.', ' ']).to_owned()
}

/// Windows' short forms of `.git` and its companions: `git~1`, `gitmod~1`, `gi7eba~2`, ….
fn is_short_name(name: &str) -> bool {
    let Some((stem, number)) = name.split_once('~') else { return false };
    stem.starts_with("gi")
        && stem.len() <= 6
        && stem.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && number.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

/// Characters that HFS+ leaves out of comparisons, and others that a reader can't see.
pub(super) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Characters that change the order in which a line is shown (CVE-2021-42574).
pub(super) fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disguise_is_seen_through() {
        for name in [
            ".git",
            ".GIT",
            ".Git ",
            ".git.",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1",
            "GIT~2",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}T",
            "GI7EBA~1",
            "gitmod~1",
            "GITATT~9",
        ] {
            assert_eq!(git_file(name.as_bytes()), Some(GitFile::Git), "{name:?}");
        }
        assert_eq!(git_file(b".gitModules "), Some(GitFile::Modules));
        assert_eq!(git_file(b".GITATTRIBUTES:x"), Some(GitFile::Attributes));
        assert_eq!(git_file(b".gitconfig"), Some(GitFile::Config));
        assert_eq!(git_file(b".LfsConfig"), Some(GitFile::Config));
    }

    #[test]
    fn honest_names_pass() {
        for name in [
            ".gitignore",
            ".github",
            "git",
            ".git2",
            "x.git",
            "gist~1x",
            "a~1",
            ".gitkeep",
            ".mailmap",
        ] {
            assert_eq!(git_file(name.as_bytes()).filter(|_| name != "gist~1x"), None, "{name:?}");
        }
    }
}
