//! A path inside a workspace, checked as text. Never here: the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::FileError;

/// The longest path that is taken, in bytes.
const MAX_PATH: usize = 4095;

/// A relative path without `.`, `..`, NUL or a part that is git's own. The empty path is the top.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// The workspace's top.
    pub fn top() -> Self {
        Self(PathBuf::new())
    }

    /// Checks `text`; an absolute path is taken when it lies under `base`.
    ///
    /// # Errors
    /// When it leaves the workspace, names a `.git`, or can't be a path.
    pub fn parse(text: &str, base: &Path) -> Result<Self, FileError> {
        let bad = |reason| FileError::BadPath { path: text.to_owned(), reason };
        if text.is_empty() {
            return Err(bad("is empty"));
        }
        if text.len() > MAX_PATH {
            return Err(bad("is too long"));
        }
        if text.chars().any(|c| c.is_control()) {
            return Err(bad("holds a control character"));
        }
        if text.starts_with('~') {
            return Err(bad("starts with ~, which is not expanded here"));
        }
        let path = Path::new(text);
        let inside = match path.strip_prefix(base) {
            Ok(rest) if path.is_absolute() => rest,
            _ => path,
        };
        let mut parts = Self::top();
        for component in inside.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => parts = parts.join(name)?,
                Component::ParentDir => return Err(bad("holds ..")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(bad("is absolute and not under the workspace"));
                }
            }
        }
        Ok(parts)
    }

    /// A path that came out of this type before.
    pub(super) fn parse_inside(path: &Path) -> Result<Self, FileError> {
        path.iter().try_fold(Self::top(), |done, name| done.join(name))
    }

    /// This path and one more name.
    ///
    /// # Errors
    /// When the name is git's own.
    pub(super) fn join(&self, name: &OsStr) -> Result<Self, FileError> {
        let joined = self.0.join(name);
        if is_dot_git(name) {
            return Err(FileError::DotGit { path: joined.to_string_lossy().into_owned() });
        }
        Ok(Self(joined))
    }

    /// The directory that holds it; `None` for the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// Its last name; `None` for the top.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// Whether it is the workspace's top.
    pub fn is_top(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// It as a path, relative to the top.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// It as the system call wants it: the top is `.`.
    pub(super) fn for_open(&self) -> &Path {
        if self.is_top() { Path::new(".") } else { &self.0 }
    }

    /// It in a list of lines, escaped where it could forge one.
    pub fn listed(&self) -> String {
        if self.is_top() { ".".to_owned() } else { listed(self.0.as_os_str()) }
    }

    /// It for a reader, lossily decoded.
    pub fn display(&self) -> String {
        if self.is_top() { ".".to_owned() } else { self.0.to_string_lossy().into_owned() }
    }
}

/// A name for a list of lines: one that could pass for more than a name, or for none, is escaped and said to be
/// no argument.
pub fn listed(name: &OsStr) -> String {
    let hides = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_ignorable(c);
    match name.to_str() {
        Some(name) if !name.chars().any(hides) => name.to_owned(),
        _ => format!("{name:?} (not usable as an argument)"),
    }
}

/// Whether a name is `.git` on some file system: other case, trailing dots and blanks, a stream's
/// name after a colon, characters that file systems ignore, and the short name `git~1`.
pub(crate) fn is_dot_git(name: &OsStr) -> bool {
    let text = String::from_utf8_lossy(name.as_bytes());
    let seen: String = text.chars().filter(|c| !is_ignorable(*c)).collect();
    let seen = seen.to_lowercase();
    let stem = seen.split(':').next().unwrap_or_default();
    let stem = stem.trim_end_matches(['.', ' ']);
    stem == ".git" || stem == "git~1"
}

/// Characters that some file systems leave out when they compare names.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{ad}' | '\u{34f}' | '\u{180e}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RelPath, FileError> {
        RelPath::parse(text, Path::new("/work/space"))
    }

    #[test]
    fn plain_paths_and_paths_under_the_base_are_taken() {
        assert_eq!(parse("src/lib.rs").unwrap().display(), "src/lib.rs");
        assert_eq!(parse("./src//lib.rs/").unwrap().display(), "src/lib.rs");
        assert_eq!(parse("/work/space/src/lib.rs").unwrap().display(), "src/lib.rs");
        assert_eq!(parse("/work/space").unwrap(), RelPath::top());
        assert_eq!(parse(".").unwrap(), RelPath::top());
        assert_eq!(parse(".gitignore").unwrap().display(), ".gitignore");
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for text in [
            "",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "/etc/passwd",
            "/work/space-evil/x",
            "/work",
            "a\0b",
            "~/x",
            "a\nb",
        ] {
            assert!(matches!(parse(text), Err(FileError::BadPath { .. })), "{text:?}");
        }
        assert!(parse(&"a/".repeat(3000)).is_err());
    }

    #[test]
    fn git_in_disguise_is_refused() {
        for text in [
            ".git",
            ".GIT",
            ".Git/config",
            "sub/.git/hooks/x",
            ".git.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "\u{feff}.git/config",
            "/work/space/.git/config",
        ] {
            assert!(matches!(parse(text), Err(FileError::DotGit { .. })), "{text:?}");
        }
    }
}
