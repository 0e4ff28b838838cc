//! Opening any directory as a workspace, for a single tool call without a run.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::repo::{Workspace, git_dir_named};

/// Opens `dir` as a workspace. Its git directory is the one of the nearest `.git` at or above it; with
/// none it is empty, and git commands are refused.
///
/// # Errors
/// When `dir` is not a directory that can be opened, lies in a git directory, in which tools neither read nor
/// write, or holds its own by another name than `.git`.
pub fn open_workspace(dir: &Path) -> io::Result<Workspace> {
    let path = std::fs::canonicalize(dir)?;
    if let Some(git) = path.ancestors().find(|above| is_git_dir(above)) {
        let why = format!("{} is a git directory; name the working tree", git.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&path, flags, Mode::empty())?;
    let git_dir = path.ancestors().find_map(git_dir_of).unwrap_or_default();
    // Among the files of the workspace only the name `.git` is known to every tool.
    let real = git_dir.canonicalize().unwrap_or_default();
    if real.starts_with(&path) && real != path.join(".git") {
        let why = format!("its git directory {} lies among its files", real.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(Workspace::borrowed(root, path, git_dir))
}

/// Whether it is one by its name, or holds what git looks for in one.
fn is_git_dir(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
        || (dir.join("HEAD").is_file()
            && ["objects", "refs"].iter().all(|name| dir.join(name).is_dir()))
}

/// The git directory behind `top/.git`, which is a directory or a file that names one.
fn git_dir_of(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    git_dir_named(&dot_git).filter(|target| target.is_dir())
}
