//! The git directories that stand within a directory of somebody else's, so that code can be kept from them.
//!
//! Whoever may write one has what they like run by the next git command of its owner, outside of every sandbox:
//! by a hook, or by a program that its configuration names. Never here: the keeping (`sandbox` covers them).

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most directories that are looked into.
const MOST_DIRECTORIES: usize = 1_000_000;
/// The most git directories that are kept from one job.
const MOST_FOUND: usize = 1000;
/// A `.git` file holds one path.
const LONGEST_FILE: u64 = 64 << 10;

/// Every `.git` within `top`, and what such files name within it; none that lies in another one. `top` is a
/// real path. No symbolic link is followed.
///
/// # Errors
/// In words, when there is more than can be looked through, or something can't be looked into.
pub(super) fn within(top: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut open, mut looked) = (BTreeSet::new(), vec![top.to_owned()], 0);
    while let Some(dir) = open.pop() {
        looked += 1;
        if looked > MOST_DIRECTORIES || found.len() > MOST_FOUND {
            return Err(format!(
                "{} holds more than {MOST_DIRECTORIES} directories or {MOST_FOUND} git repositories; name a smaller \
                 directory",
                top.display()
            ));
        }
        for entry in
            entries(&dir).map_err(|error| format!("look into {}: {error}", dir.display()))?
        {
            if entry.file_name().eq_ignore_ascii_case(".git") {
                found.extend(named_by(&entry, top)?);
                found.insert(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    let outermost = |path: &PathBuf| !path.ancestors().skip(1).any(|above| found.contains(above));
    Ok(found.iter().filter(|path| outermost(path)).cloned().collect())
}

/// What a directory holds. One of another user's that this one can't enter is closed to a job as well, and one
/// that is gone meanwhile holds nothing.
fn entries(dir: &Path) -> io::Result<Vec<DirEntry>> {
    let closed = || {
        let me = rustix::process::geteuid().as_raw();
        dir.symlink_metadata().is_ok_and(|found| found.uid() != me)
    };
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && closed() => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

/// What a `.git` file names as the git directory, as a real path; `None` for anything but a file, such
/// as a FIFO, on which reading would wait.
pub fn git_dir_named(dot_git: &Path) -> Option<PathBuf> {
    let found = dot_git.metadata().ok()?;
    let is_one = found.is_file() && found.len() <= LONGEST_FILE;
    let text = is_one.then(|| fs::read(dot_git).ok()).flatten()?;
    let text = String::from_utf8_lossy(&text);
    let to = text.strip_prefix("gitdir:")?.trim();
    dot_git.parent()?.join(to).canonicalize().ok()
}

/// The git directories within `top` that a `.git` file leads to: its own, and the one that it shares.
fn named_by(entry: &DirEntry, top: &Path) -> Result<Vec<PathBuf>, String> {
    let path = entry.path();
    // A link is none of its own: what it leads to is found where that stands.
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    let own = is_file.then(|| git_dir_named(&path)).flatten();
    let shared = own.as_ref().and_then(|own| {
        let to = fs::read_to_string(own.join("commondir")).ok()?;
        own.join(to.trim()).canonicalize().ok()
    });
    let named: Vec<PathBuf> = [own, shared].into_iter().flatten().collect();
    if named.iter().any(|named| top.starts_with(named)) {
        return Err(format!("{} says that {} is a git directory", path.display(), top.display()));
    }
    Ok(named.into_iter().filter(|named| named.starts_with(top) && named.is_dir()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_directories_and_what_files_name_are_found_and_no_link_is_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (top, other) = (dir.path().canonicalize().unwrap(), other.path());
        for name in
            [".git/modules/sub", "a/b/.GIT", "own/.bare/worktrees/w", "own/w", "plain/.gitx"]
        {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::create_dir_all(other.join(".git")).unwrap();
        std::os::unix::fs::symlink(other, top.join("link")).unwrap();
        fs::write(top.join("plain/.git"), format!("gitdir: {}\n", other.display())).unwrap();
        fs::write(top.join("own/w/.git"), "gitdir: ../.bare/worktrees/w\n").unwrap();
        fs::write(top.join("own/.bare/worktrees/w/commondir"), "../..\n").unwrap();
        let found = within(&top).unwrap();
        let found: Vec<_> = found.iter().map(|path| path.strip_prefix(&top).unwrap()).collect();
        let wanted = [".git", "a/b/.GIT", "own/.bare", "own/w/.git", "plain/.git"];
        assert_eq!(found, wanted.map(Path::new));
        fs::write(top.join("a/.git"), "gitdir: ..\n").unwrap();
        assert!(within(&top).unwrap_err().contains("is a git directory"));
    }
}
