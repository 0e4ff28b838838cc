//! A worker's workspace: leased, a real git worktree of the run's bare repository, and read back as a
//! diff against the base.
//!
//! Never here: a path opened on a model's behalf other than below the workspace's descriptor.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{Index, IndexEntry, IndexTime};

use super::edit::Change;
use super::error::{GitContext, IoContext, RepoError, Result};
use super::files::{self, PAST, Stamp};
use super::lease::Lease;
use super::objects::{Item, Leaf, read_blob};
use super::scan::{Found, Scan, Untracked};
use super::store::Store;
use super::{gitdiff, layer};
use crate::model::LaneId;

/// A worker's leased workspace: a directory with the base tree and the worker's changes. Everything
/// reaches it through `root`, so that neither a moved directory nor a symbolic link leads elsewhere.
/// Dropping it removes it.
#[derive(Debug)]
pub struct Workspace {
    /// The open directory.
    pub root: OwnedFd,
    /// Its path, for messages and mounts; never for opening files on a model's behalf.
    pub path: PathBuf,
    /// The git directory behind the workspace's `.git` file, for mounts.
    pub git_dir: PathBuf,
    stamps: Vec<Stamp>,
    lease: Option<Lease>,
}

impl Workspace {
    /// A workspace over a directory that somebody else owns: nothing is removed when it is dropped.
    pub fn borrowed(root: OwnedFd, path: PathBuf, git_dir: PathBuf) -> Self {
        Self { root, path, git_dir, stamps: Vec::new(), lease: None }
    }
}

impl Store {
    /// Leases a fresh workspace with the base tree for a lane. What a dead owner left of it is cleared.
    ///
    /// # Errors
    /// [`RepoError::Busy`] when a live process holds the lane's workspace; otherwise disk trouble.
    pub fn lease(&self, lane: &LaneId) -> Result<Workspace> {
        let name = file_name(lane.as_str());
        let targets = [format!("lanes/{name}"), format!("repo.git/worktrees/{name}")];
        let lease = Lease::take(self.run_dir(), &format!("lane-{name}"), &targets)?
            .ok_or_else(|| RepoError::Busy(lane.clone()))?;
        let path = self.run_dir().join(&targets[0]);
        let git_dir = self.run_dir().join(&targets[1]);
        files::make_private(&path).at("create", &path)?;
        let stamps = layer::copy(self.stack(), &path, self.items())?;
        write_git_dir(&git_dir, &path, self.base_commit().as_str())?;
        write_index(&git_dir.join("index"), self.items(), &stamps)?;
        let root = files::open_dir(&path).at("open", &path)?;
        Ok(Workspace { root, path, git_dir, stamps, lease: Some(lease) })
    }

    /// Ends a lease and removes the workspace. Dropping it does the same without a word.
    ///
    /// # Errors
    /// When something could not be removed; the next start's sweep tries again.
    pub fn release(&self, mut workspace: Workspace) -> Result<()> {
        workspace.lease.take().map_or(Ok(()), Lease::end)
    }

    /// The workspace against the base tree as a git-format diff: new, changed and deleted files, modes
    /// and links; what the base ignores is left out.
    ///
    /// # Errors
    /// When a file can't be read or the change is beyond all bounds.
    pub fn diff(&self, workspace: &Workspace) -> Result<Vec<u8>> {
        let stamps =
            (workspace.stamps.len() == self.items().len()).then_some(&workspace.stamps[..]);
        let scan =
            Scan { items: self.items(), stamps, untracked: Untracked::Unless(self.rules()?) };
        let found = scan.run(workspace.root.as_fd())?;
        self.print_found(&found)
    }

    fn print_found(&self, found: &[Found]) -> Result<Vec<u8>> {
        let changes: Vec<Change> = found.iter().map(|f| f.change.clone()).collect();
        let new: HashMap<Leaf, &Found> =
            found.iter().filter_map(|f| Some((f.change.new?, f))).collect();
        self.with_odb(|odb| {
            gitdiff::print(&changes, &|leaf| match new.get(leaf) {
                Some(found) => Ok(found.bytes.clone()),
                None => read_blob(odb, leaf.id),
            })
        })
    }
}

/// A lane's name as a file name: letters, digits and `-` stand for themselves.
pub(crate) fn file_name(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(char::from(byte)),
            _ => out.push_str(&format!("_{byte:02x}")),
        }
    }
    if out.len() > 120 {
        let id = git2::Oid::hash_object(git2::ObjectType::Blob, name.as_bytes());
        out.truncate(80);
        out.push_str(&id.map_or_else(|_| String::new(), |id| format!("_{id}")));
    }
    out
}

/// The directory that makes the workspace a linked worktree of the bare repository.
fn write_git_dir(git_dir: &Path, workspace: &Path, commit: &str) -> Result<()> {
    files::make_private(git_dir).at("create", git_dir)?;
    let link = workspace.join(".git");
    let line = |bytes: &[u8]| [bytes, b"\n"].concat();
    let parts = [
        (git_dir.join("HEAD"), line(commit.as_bytes())),
        (git_dir.join("commondir"), line(b"../..")),
        (git_dir.join("gitdir"), line(link.as_os_str().as_bytes())),
        (link, line(&[b"gitdir: ", git_dir.as_os_str().as_bytes()].concat())),
    ];
    for (path, bytes) in parts {
        fs::write(&path, bytes).at("write", &path)?;
    }
    Ok(())
}

/// An index that knows every file's stamp, so that git reads none of them again.
fn write_index(path: &Path, items: &[Item], stamps: &[Stamp]) -> Result<()> {
    let mut index = Index::open(path).doing("make an index")?;
    for (item, stamp) in items.iter().zip(stamps) {
        index.add(&index_entry(item, stamp)).doing("make an index")?;
    }
    index.write().doing("write an index")
}

fn index_entry(item: &Item, stamp: &Stamp) -> IndexEntry {
    let known = stamp.ino != 0;
    IndexEntry {
        ctime: IndexTime::new(stamp.ctime.0 as i32, stamp.ctime.1 as u32),
        mtime: IndexTime::new(if known { PAST as i32 } else { 0 }, 0),
        dev: stamp.dev as u32,
        ino: stamp.ino as u32,
        mode: item.leaf.mode,
        uid: stamp.uid,
        gid: stamp.gid,
        file_size: stamp.size as u32,
        id: item.leaf.id,
        flags: 0,
        flags_extended: 0,
        path: item.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn lanes_have_distinct_plain_file_names() {
        assert_eq!(file_name("fast/2"), "fast_2f2");
        assert_ne!(file_name("a/1"), file_name("a_2f1"));
        assert_eq!(file_name(".."), "_2e_2e");
        assert!(file_name(&"é".repeat(200)).len() < 200);
    }
}
