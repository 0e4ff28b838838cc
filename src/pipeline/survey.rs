//! A first look at the repository, before there is a plan: top, base, dirt, found gates, config.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PipelineError;
use crate::gate::{Detected, detect};
use crate::model::{CommitId, TreeId};
use crate::repo::{Dirty, UserRepo};

/// The repository's own config file, read from the base commit.
pub const CONFIG_FILE: &str = "bakeoff.toml";

/// The folder of the repository whose prompts and judges override the built-in ones once trusted.
pub const OVERRIDES_DIR: &str = ".bakeoff";

/// What the repository holds at the base.
pub struct Survey {
    user: Arc<UserRepo>,
    rev: String,
    commit: CommitId,
    tree: TreeId,
    dirty: Dirty,
}

impl Survey {
    /// Looks at the repository that holds `dir`, at the revision `rev`. Nothing is written.
    ///
    /// # Errors
    /// When there is no usable repository or no such revision.
    pub fn take(dir: &Path, rev: &str) -> Result<Self, PipelineError> {
        let user = Arc::new(UserRepo::discover(dir)?);
        let commit = user.resolve(rev)?;
        let tree = user.tree_of(&commit)?;
        let dirty = user.dirty()?;
        Ok(Self { user, rev: rev.to_owned(), commit, tree, dirty })
    }

    /// The repository's top directory.
    pub fn top(&self) -> &Path {
        self.user.top()
    }

    /// The repository.
    pub fn user(&self) -> Arc<UserRepo> {
        self.user.clone()
    }

    /// The revision as it was asked for.
    pub fn rev(&self) -> &str {
        &self.rev
    }

    /// The base commit.
    pub fn commit(&self) -> &CommitId {
        &self.commit
    }

    /// The base commit's tree.
    pub fn tree(&self) -> &TreeId {
        &self.tree
    }

    /// Uncommitted changes of the working tree.
    pub fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    /// The gates that the base's files suggest for a directory.
    pub fn detect(&self, dir: &str) -> Detected {
        detect(&|path| self.file(path), dir)
    }

    /// A file of the base; `None` when it is not there or can't be read.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.user.file_at(&self.commit, Path::new(path)).ok().flatten()
    }

    /// Whether the base has a directory; the top is the empty name.
    pub fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.user.has_dir(&self.commit, Path::new(dir)).unwrap_or(false)
    }

    /// The text of the base's `bakeoff.toml`.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn config_text(&self) -> Result<Option<String>, PipelineError> {
        let Some(bytes) = self.file(CONFIG_FILE) else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|error| {
            PipelineError::Config(format!("{CONFIG_FILE} of the base is not UTF-8 text: {error}"))
        })
    }

    /// The files that `trust` speaks of: the config, and prompts and judges that override.
    ///
    /// # Errors
    /// When the base can't be read.
    pub fn trust_files(&self) -> Result<Vec<(String, Vec<u8>)>, PipelineError> {
        let mut files = self.user.files_below(&self.commit, Path::new(OVERRIDES_DIR))?;
        if let Some(bytes) = self.file(CONFIG_FILE) {
            files.push((PathBuf::from(CONFIG_FILE), bytes));
        }
        let name = |path: PathBuf| path.to_string_lossy().into_owned();
        Ok(files.into_iter().map(|(path, bytes)| (name(path), bytes)).collect())
    }

    /// The diff of a revision or branch against the base.
    ///
    /// # Errors
    /// When there is no such revision.
    pub fn diff_of(&self, rev: &str) -> Result<Vec<u8>, PipelineError> {
        Ok(self.user.diff_from(&self.commit, rev)?)
    }
}
