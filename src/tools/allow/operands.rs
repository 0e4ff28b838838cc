//! Operands: paths and revisions, checked as text. What they lead to on disk is looked at later.

use std::path::Path;

use crate::tools::files::{FileError, RelPath};
use crate::tools::secrets;

/// Where a command stands.
#[derive(Clone, Copy, Debug)]
pub(in crate::tools) struct Place<'a> {
    /// The workspace's own path.
    pub base: &'a Path,
    /// The directory it runs in.
    pub cwd: &'a RelPath,
}

/// A path that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools) struct PathUse {
    /// The path from the workspace's top.
    pub path: RelPath,
    /// Whether the command follows a link there.
    pub follows: bool,
    /// Whether its contents are shown, so that secrets are refused.
    pub shows: bool,
    /// Whether it has to be there, because the word could be read as something else.
    pub must_exist: bool,
}

impl Place<'_> {
    /// A path of the workspace that a command opens.
    pub(super) fn path(&self, text: &str, shows: bool) -> Result<PathUse, String> {
        if text == "-" {
            return Err("- stands for standard input, and there is none".to_owned());
        }
        let path = self.locate(text)?;
        if shows && secrets::is_secret(path.as_path()) {
            return Err(FileError::Secret { path: text.to_owned() }.to_string());
        }
        Ok(PathUse { path, follows: true, shows, must_exist: false })
    }

    fn locate(&self, text: &str) -> Result<RelPath, String> {
        let whole = if text.starts_with('/') || self.cwd.is_top() {
            text.to_owned()
        } else {
            format!("{}/{text}", self.cwd.display())
        };
        RelPath::parse(&whole, self.base).map_err(|error| error.to_string())
    }

    /// A pathspec of git's, which never follows a link; its magic words change nothing here.
    pub(super) fn pathspec(&self, text: &str, shows: bool) -> Result<Option<PathUse>, String> {
        let (plain, from_top) = without_magic(text)?;
        if plain.is_empty() {
            return Ok(None);
        }
        let place = if from_top { Place { base: self.base, cwd: &RelPath::top() } } else { *self };
        // A pattern is no path on disk, but what it says is checked the same.
        let found = place.path(plain, shows)?;
        Ok(Some(PathUse { follows: false, ..found }))
    }

    /// A revision, or `REVISION:PATH`.
    pub(super) fn revision(&self, text: &str) -> Result<Option<PathUse>, String> {
        if text.is_empty() || text.starts_with('-') {
            return Err(format!("{text:?} is no revision"));
        }
        if let Some(words) = text.strip_prefix(":/") {
            // A commit by its message, or a pathspec from the top: fine when it is no path that leaves.
            Place { base: self.base, cwd: &RelPath::top() }.pathspec(words, true)?;
        } else if let Some((_, path)) = text.split_once(':') {
            path_in_tree(path)?;
        } else if text.starts_with('/') || text.split('/').any(|part| part == "..") {
            return Err(format!("{text:?} leaves the workspace"));
        }
        Ok(None)
    }

    /// A word that git takes as a revision or else as a path.
    pub(super) fn revision_or_path(&self, text: &str) -> Result<Option<PathUse>, String> {
        if text.starts_with('/')
            || text.starts_with(":(")
            || text.starts_with(":!")
            || text.starts_with(":^")
        {
            return self.pathspec(text, true);
        }
        self.revision(text)?;
        // Ranges and `@{…}` are fine as text; a path that looks like one is checked as a path too.
        if text.contains(':') { Ok(None) } else { self.pathspec(text, true) }
    }
}

/// Checks the path after the colon of `REVISION:PATH`, in a tree and not on disk.
fn path_in_tree(path: &str) -> Result<(), String> {
    // `:2:path` names a stage of the index.
    let path = match path.split_once(':') {
        Some((stage, path)) if stage.len() == 1 => path,
        _ => path,
    };
    let path = path.trim_start_matches("./");
    if path.is_empty() {
        return Ok(());
    }
    let parsed = RelPath::parse(path, Path::new("/nowhere")).map_err(|error| error.to_string())?;
    if secrets::is_secret(parsed.as_path()) {
        return Err(FileError::Secret { path: path.to_owned() }.to_string());
    }
    Ok(())
}

/// A pathspec without its magic, and whether it counts from the top.
fn without_magic(text: &str) -> Result<(&str, bool), String> {
    if let Some(rest) = text.strip_prefix(":(") {
        let (words, plain) = rest.split_once(')').ok_or("a pathspec's ( is not closed")?;
        let known = ["top", "literal", "icase", "glob", "exclude"];
        if words.split(',').any(|word| !known.contains(&word)) {
            return Err(format!(
                "the pathspec {text:?} uses words other than {}",
                known.join(", ")
            ));
        }
        return Ok((plain, words.split(',').any(|word| word == "top")));
    }
    let signs = text.strip_prefix(':').map(|rest| rest.trim_start_matches(['!', '^', '/']));
    Ok(match signs {
        Some(plain) => {
            (plain.trim_start_matches(':'), text[..text.len() - plain.len()].contains('/'))
        }
        None => (text, false),
    })
}
