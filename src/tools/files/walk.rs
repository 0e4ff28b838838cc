//! Walking a tree through descriptors, with `.gitignore` rules.
//!
//! The rules are the `ignore` crate's; its walker is not used because it opens by path, where a
//! directory that is swapped for a link in the middle of the walk would lead out.

use std::path::PathBuf;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;

use super::{EntryKind, FileError, Files, RelPath};
use crate::tools::secrets;

/// The deepest directory that is entered.
const MAX_DEPTH: usize = 64;
/// The most entries that a walk looks at.
const MAX_ENTRIES: usize = 200_000;
/// The largest `.gitignore` that is read, in bytes.
const MAX_RULES: u64 = 1 << 20;

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The regular files, by path.
    pub files: Vec<RelPath>,
    /// Whether a limit ended the walk early.
    pub cut: bool,
    /// How many files of secrets were left out.
    pub secrets: usize,
}

/// A walk in progress.
#[derive(Debug)]
pub struct Walk<'a> {
    files: Files<'a>,
    cancel: &'a CancellationToken,
    rules: Vec<Gitignore>,
    entries: usize,
    found: Found,
}

impl<'a> Walk<'a> {
    /// All regular files under `top` that no ignore rule and no secret's name leaves out. Links are
    /// not followed, git's own is never entered.
    ///
    /// # Errors
    /// When `top` is not a directory of the workspace.
    pub fn run(
        files: Files<'a>,
        top: &RelPath,
        cancel: &'a CancellationToken,
    ) -> Result<Found, FileError> {
        let top = files.resolve(top)?;
        let found = Found { files: Vec::new(), cut: false, secrets: 0 };
        let mut walk = Self { files, cancel, rules: Vec::new(), entries: 0, found };
        for above in top.as_path().ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            walk.push_rules(&RelPath::parse_inside(above)?);
        }
        walk.enter(&top, 0)?;
        Ok(walk.found)
    }

    fn enter(&mut self, directory: &RelPath, depth: usize) -> Result<(), FileError> {
        let outer = self.rules.len();
        self.push_rules(directory);
        let done = self.enter_listed(directory, depth);
        self.rules.truncate(outer);
        done
    }

    fn enter_listed(&mut self, directory: &RelPath, depth: usize) -> Result<(), FileError> {
        let (entries, more) = self.files.list(directory, MAX_ENTRIES)?;
        self.found.cut |= more;
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES || self.cancel.is_cancelled() {
                self.found.cut = true;
                break;
            }
            let path = directory.join(&entry.name)?;
            match entry.kind {
                EntryKind::Directory if !self.ignored(&path, true) => {
                    // One that went away or may not be read is left out; the rest still counts.
                    self.found.cut |= depth == MAX_DEPTH || self.enter(&path, depth + 1).is_err();
                }
                EntryKind::File(_) if !self.ignored(&path, false) => self.take(path),
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, path: RelPath) {
        if secrets::is_secret(path.as_path()) {
            self.found.secrets += 1;
        } else {
            self.found.files.push(path);
        }
    }

    /// The nearest rule wins, as git has it.
    fn ignored(&self, path: &RelPath, is_dir: bool) -> bool {
        for rules in self.rules.iter().rev() {
            match rules.matched(path.as_path(), is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    /// Reads the `.gitignore` of a directory; one that can't be read holds no rules.
    fn push_rules(&mut self, directory: &RelPath) {
        let mut builder = GitignoreBuilder::new(directory.as_path());
        if let Ok(path) = directory.join(".gitignore".as_ref())
            && let Ok(body) = self.files.read(&path, MAX_RULES)
        {
            for line in String::from_utf8_lossy(&body).lines() {
                // A line that is no valid pattern matches nothing, as in git.
                let _ = builder.add_line(Some(PathBuf::from(".gitignore")), line);
            }
        }
        self.rules.push(builder.build().unwrap_or_else(|_| Gitignore::empty()));
    }
}
