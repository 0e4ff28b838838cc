//! A worker's workspace: leased, a working tree with a git repository of its own over the run's, and
//! read back as a diff against the base.
//!
//! Never here: a path opened on a model's behalf other than below the workspace's descriptor.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::edit::Change;
use super::error::{IoContext, RepoError, Result};
use super::files::{self, Stamp};
use super::git_index::{self, BaseIndex};
use super::lease::Lease;
use super::objects::{FILE, Leaf, read_blob};
use super::output::GateLayer;
use super::scan::{Found, Scan, Untracked};
use super::store::Store;
use super::{bare, delta, embedded, gate_copy, gitdiff, layer};
use crate::model::{LaneId, LeaseId};
use crate::sandbox::{Mount, Mounted, Overlay, held_below};

/// A worker's leased workspace: a directory with the base tree and the worker's changes. Everything
/// reaches it through `root`, so that neither a moved directory nor a symbolic link leads elsewhere.
/// Dropping it removes it.
#[derive(Debug)]
pub struct Workspace {
    /// This lease of it, told from every other one.
    pub id: LeaseId,
    /// The open directory.
    pub root: OwnedFd,
    /// Its path as jobs see it, for messages and mounts; never for opening files in this process, for
    /// which it may be another directory.
    pub path: PathBuf,
    /// The git directory behind the workspace's `.git` file, for mounts.
    pub git_dir: PathBuf,
    /// What is bound at `path` in a job's view.
    source: PathBuf,
    index: Option<Arc<BaseIndex>>,
    space: Space,
    lease: Option<Lease>,
    /// What lies between the base and the worker's changes.
    below: GateLayer,
    /// Let go last: removing the directory takes the mount away at once, and in this process, while the
    /// warden would do one after the other.
    mounted: Option<Mounted>,
}

#[derive(Debug)]
enum Space {
    /// A directory that somebody else owns.
    Foreign,
    /// A copy of the base, with the stamps of its files.
    Copy(Vec<Stamp>),
    /// An overlay over the base, with its upper directory.
    Overlay(OwnedFd),
}

impl Workspace {
    /// A workspace over a directory that somebody else owns: nothing is removed when it is dropped.
    pub fn borrowed(root: OwnedFd, path: PathBuf, git_dir: PathBuf) -> Self {
        let source = path.clone();
        Self {
            id: fresh_id(),
            root,
            path,
            git_dir,
            source,
            index: None,
            space: Space::Foreign,
            lease: None,
            below: GateLayer::default(),
            mounted: None,
        }
    }

    /// Whether the directory is still where jobs would find it.
    pub fn is_there(&self) -> bool {
        let Ok(open) = rustix::fs::fstat(&self.root) else { return false };
        match self.space {
            // Its name is known in the warden's namespace alone.
            Space::Overlay(_) => open.st_nlink > 0,
            Space::Foreign | Space::Copy(_) => rustix::fs::stat(&self.source)
                .is_ok_and(|named| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)),
        }
    }

    /// What a job must mount to see the workspace at `path`.
    pub fn mount(&self, writable: bool) -> Mount {
        let (from, at) = (self.source.clone(), self.path.clone());
        if writable { Mount::ReadWrite { from, at } } else { Mount::ReadOnly { from, at } }
    }

    /// The git directories that a job which mounts the workspace could reach: those that stand within a
    /// directory of somebody else's. In a workspace of the engine's own there is none, and git never heeds
    /// what code writes to the `.git` there.
    ///
    /// # Errors
    /// In words, when they can't be told.
    pub fn git_within(&self) -> std::result::Result<Vec<PathBuf>, String> {
        match self.space {
            Space::Foreign => embedded::within(&self.path),
            Space::Copy(_) | Space::Overlay(_) => Ok(Vec::new()),
        }
    }

    /// What the worker's own changes take on disk, in bytes; 0 where they are not told from the base (a copy,
    /// a directory of somebody else's).
    pub fn held(&self) -> u64 {
        match &self.space {
            Space::Overlay(upper) => held_below(upper),
            Space::Foreign | Space::Copy(_) => 0,
        }
    }

    /// Makes the git directory whole: git's index costs more than the rest of a workspace, so that it
    /// is there only once somebody runs git.
    ///
    /// # Errors
    /// When the index can't be written.
    pub fn ready_for_git(&self) -> Result<()> {
        self.index.as_ref().map_or(Ok(()), |index| index.put(&self.git_dir.join("index")))
    }
}

fn fresh_id() -> LeaseId {
    LeaseId::new(crate::sandbox::mint_secret())
}

impl Store {
    /// Leases a fresh workspace with the base tree for a lane. What a dead owner left of it is cleared.
    ///
    /// # Errors
    /// [`RepoError::Busy`] when a live process holds the lane's workspace; otherwise disk trouble.
    pub fn lease(&self, lane: &LaneId) -> Result<Workspace> {
        self.lease_over(lane, &GateLayer::default())
    }

    /// The same, with carried directories and what setup wrote in it. None of that enters a diff, nor
    /// what the worker makes of it.
    ///
    /// # Errors
    /// As for [`Store::lease`].
    pub fn lease_over(&self, lane: &LaneId, below: &GateLayer) -> Result<Workspace> {
        let name = file_name(lane.as_str());
        let targets = [format!("lanes/{name}"), format!("lanes.git/{name}")];
        let lease = Lease::take(self.run_dir(), &format!("lane-{name}"), &targets)?
            .ok_or_else(|| RepoError::Busy(lane.clone()))?;
        let dir = self.run_dir().join(&targets[0]);
        let git_dir = self.run_dir().join(&targets[1]);
        files::make_private(&dir).at("create", &dir)?;
        let lower = below.dirs().map(Path::to_owned).chain(self.stack().dirs()).collect();
        let made = match self.spaces().mount(&dir, lower) {
            Some(overlay) => self.over_layer(overlay?, dir, git_dir)?,
            None => self.copied(dir, git_dir, below)?,
        };
        Ok(Workspace { lease: Some(lease), below: below.clone(), ..made })
    }

    fn over_layer(&self, overlay: Overlay, dir: PathBuf, git_dir: PathBuf) -> Result<Workspace> {
        let Overlay { root, upper, mounted, .. } = overlay;
        let source = dir.join("root");
        let path = self.space_seen_at(&source);
        self.write_git_dir(&git_dir, &root)?;
        let (index, space) = (Some(self.base_index()), Space::Overlay(upper));
        let mounted = Some(mounted);
        Ok(Workspace {
            id: fresh_id(),
            root,
            path,
            git_dir,
            source,
            index,
            space,
            lease: None,
            below: GateLayer::default(),
            mounted,
        })
    }

    fn copied(&self, dir: PathBuf, git_dir: PathBuf, below: &GateLayer) -> Result<Workspace> {
        let stamps = layer::copy(self.stack(), &dir, self.items())?;
        gate_copy::bring(below, &dir)?;
        let root = files::open_dir(&dir).at("open", &dir)?;
        let path = self.space_seen_at(&dir);
        self.write_git_dir(&git_dir, &root)?;
        git_index::write(&git_dir.join("index"), self.items(), &stamps)?;
        let (index, space, lease, mounted) = (None, Space::Copy(stamps), None, None);
        Ok(Workspace {
            id: fresh_id(),
            root,
            path,
            git_dir,
            source: dir,
            index,
            space,
            lease,
            below: GateLayer::default(),
            mounted,
        })
    }

    /// The workspace's own repository, and the file in the workspace that names it. Its objects are not
    /// the run's: what one worker stages no other can read.
    fn write_git_dir(&self, git_dir: &Path, root: &OwnedFd) -> Result<()> {
        bare::lay_out_lane(git_dir, self.git_dir(), self.base_commit().as_str())?;
        let line = [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat();
        files::write_leaf(root.as_fd(), b".git", FILE, &line, None).at("write", git_dir).map(drop)
    }

    /// Where jobs see a workspace that lies at `dir`.
    fn space_seen_at(&self, dir: &Path) -> PathBuf {
        if self.spaces().is_over() { self.seen_at(dir) } else { dir.to_owned() }
    }

    /// The user's repository path, if it can be mounted over: the engine's own directories are mounted in
    /// a job, too, and must not lie below it.
    pub(crate) fn seen_at(&self, dir: &Path) -> PathBuf {
        let top = self.top();
        if self.run_dir().starts_with(&top) { dir.to_owned() } else { top }
    }

    /// Ends a lease and removes the workspace. Dropping it does the same without a word.
    ///
    /// # Errors
    /// When something could not be removed; the next start's sweep tries again.
    pub fn release(&self, workspace: Workspace) -> Result<()> {
        let Workspace { root, space, lease, mounted, .. } = workspace;
        // Nothing holds on to the overlay when its directories are removed.
        drop((root, space));
        let ended = lease.map_or(Ok(()), Lease::end);
        drop(mounted);
        ended
    }

    /// The workspace against the base tree as a git-format diff: new, changed and deleted files, modes
    /// and links; what the base ignores is left out, and so is what lay under the workspace.
    ///
    /// # Errors
    /// When a file can't be read or the change is beyond all bounds.
    pub fn diff(&self, workspace: &Workspace) -> Result<Vec<u8>> {
        let stamps = match &workspace.space {
            Space::Copy(stamps) if stamps.len() == self.items().len() => Some(&stamps[..]),
            _ => None,
        };
        let below = workspace.below.below()?;
        let untracked = Untracked::Unless(self.rules()?, &below);
        let scan = Scan { items: self.items(), stamps, untracked };
        let found = match &workspace.space {
            Space::Overlay(upper) => delta::run(&scan, workspace.root.as_fd(), upper.as_fd())?,
            _ => scan.run(workspace.root.as_fd())?,
        };
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
