//! The file layer of a workspace: every open, listing, rename and unlink goes through the root's descriptor.
//!
//! A path from a model is first checked as text (`RelPath`), then its symbolic links are resolved by
//! hand, one name at a time, and the final open is `openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`: what was checked is what is opened, and a link that is swapped in between
//! fails the open instead of leading elsewhere. Reads follow links that stay inside; writes resolve the
//! directory the same way and refuse a link as the last name. `.git`, in any disguise, is neither read
//! nor written. Never here: the process's own working directory, or a path that is opened as text.

mod error;
mod list;
mod open;
mod path;
mod walk;
mod write;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

pub use error::FileError;
pub use list::{Entry, EntryKind};
pub use path::{RelPath, listed};
pub use walk::{Found, Walk};
pub use write::Written;

use crate::repo::Workspace;

/// The largest file that a tool holds in memory, in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// A workspace's files.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    root: BorrowedFd<'a>,
    base: &'a Path,
}

impl<'a> Files<'a> {
    /// The files of `workspace`.
    pub fn new(workspace: &'a Workspace) -> Self {
        Self { root: workspace.root.as_fd(), base: &workspace.path }
    }

    /// Checks a path as a model wrote it, as text alone: relative to the workspace, or absolute and
    /// under the workspace's own path.
    ///
    /// # Errors
    /// When it leaves the workspace, names a `.git`, or can't be a path.
    pub fn locate(&self, text: &str) -> Result<RelPath, FileError> {
        RelPath::parse(text, self.base)
    }
}
