//! The engine-owned repository, layers, workspace leases and tree diffs; git2. Never here: models.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A worker's leased workspace: a directory with the base tree and the worker's changes. Everything
/// reaches it through `root`, so that neither a moved directory nor a symbolic link leads elsewhere.
#[derive(Debug)]
pub struct Workspace {
    /// The open directory (`O_PATH | O_DIRECTORY`).
    pub root: OwnedFd,
    /// Its path, for messages and mounts; never for opening files on a model's behalf.
    pub path: PathBuf,
    /// The git directory behind the workspace's `.git` file, for mounts.
    pub git_dir: PathBuf,
}
