//! Which untracked paths the base ignores, by the `.gitignore` files of the base tree alone: a worker
//! can't change what is ignored, and no other ignore file of the machine has a say.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::error::Result;
use super::object_db::Objects;
use super::objects::{GITLINK, Item, LINK, parents, read_blob};

/// The rules of one tree.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    /// By directory, the root's under the empty path.
    by_dir: HashMap<Vec<u8>, Gitignore>,
}

impl IgnoreRules {
    /// Reads the rules out of a tree's listing.
    pub(crate) fn of(odb: &Objects<'_>, items: &[Item]) -> Result<Self> {
        let mut by_dir = HashMap::new();
        for item in items {
            let dir = match item.path.strip_suffix(b".gitignore") {
                Some(dir) if dir.is_empty() || dir.ends_with(b"/") => dir,
                _ => continue,
            };
            if item.leaf.mode == LINK || item.leaf.mode == GITLINK {
                continue;
            }
            let dir = dir.strip_suffix(b"/").unwrap_or(dir);
            by_dir.insert(dir.to_vec(), parse(&read_blob(odb, item.leaf.id)?));
        }
        Ok(Self { by_dir })
    }

    /// Whether an untracked path is ignored, its directories not being so.
    pub(crate) fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        for dir in parents(path).chain([&b""[..]]) {
            let Some(rules) = self.by_dir.get(dir) else { continue };
            let below = if dir.is_empty() { path } else { &path[dir.len() + 1..] };
            match rules.matched(Path::new(OsStr::from_bytes(below)), is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Lines that are no pattern are left out, as git does.
fn parse(bytes: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(".");
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in bytes.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line).replace('\u{fffd}', "?");
        let _ = builder.add_line(None, &text);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_files_outrank_and_slashes_anchor() {
        let by_dir = [("", "*.log\n/build/\n!keep.log\n"), ("sub", "!*.log\n")]
            .map(|(dir, text)| (dir.as_bytes().to_vec(), parse(text.as_bytes())));
        let rules = IgnoreRules { by_dir: by_dir.into() };
        assert!(rules.is_ignored(b"a.log", false) && rules.is_ignored(b"x/a.log", false));
        assert!(!rules.is_ignored(b"keep.log", false) && !rules.is_ignored(b"sub/a.log", false));
        assert!(rules.is_ignored(b"build", true) && !rules.is_ignored(b"build", false));
        assert!(!rules.is_ignored(b"x/build", true));
    }
}
