//! Looking around in a commit's tree: what is a directory, and the files below one.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, TreeWalkMode, TreeWalkResult};

use super::error::{GitContext, Result};
use super::objects::{oid, read_blob};
use super::user::UserRepo;
use crate::model::CommitId;

/// The most files below a directory that are read, so that a hostile tree can't fill the memory.
const MAX_FILES: usize = 256;

impl UserRepo {
    /// Whether a commit has a directory at `path`.
    ///
    /// # Errors
    /// When the commit or an object on the way is not there.
    pub fn has_dir(&self, commit: &CommitId, path: &Path) -> Result<bool> {
        Ok(self.subtree(commit, path)?.is_some())
    }

    /// The regular files below a directory of a commit, at most 256, with their paths from the top.
    /// Nothing when there is no such directory.
    ///
    /// # Errors
    /// When the commit or an object on the way is not there.
    pub fn files_below(&self, commit: &CommitId, path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let Some(tree) = self.subtree(commit, path)? else { return Ok(Vec::new()) };
        let repo = self.repo();
        let tree = repo.find_tree(tree).doing("read a directory of the base")?;
        let mut found = Vec::new();
        tree.walk(TreeWalkMode::PreOrder, |below, entry| {
            if entry.kind() == Some(ObjectType::Blob) && entry.filemode() != 0o120_000 {
                let name = std::ffi::OsStr::from_bytes(entry.name_bytes());
                found.push((path.join(below).join(name), entry.id()));
            }
            if found.len() < MAX_FILES { TreeWalkResult::Ok } else { TreeWalkResult::Abort }
        })
        .or_else(|error| if found.len() >= MAX_FILES { Ok(()) } else { Err(error) })
        .doing("read a directory of the base")?;
        let odb = repo.odb().doing("open the object store")?;
        found.into_iter().map(|(path, id)| Ok((path, read_blob(&odb, id)?))).collect()
    }

    fn subtree(&self, commit: &CommitId, path: &Path) -> Result<Option<git2::Oid>> {
        let repo = self.repo();
        let commit = repo.find_commit(oid(commit.as_str())?).doing("read the commit")?;
        let tree = commit.tree().doing("read the base tree")?;
        match tree.get_path(path) {
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => Ok(Some(entry.id())),
            Ok(_) => Ok(None),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error).doing("read a directory of the base"),
        }
    }
}
