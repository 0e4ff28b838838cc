//! What lies between the base's checkout and a gate's own changes: snapshots of carried directories,
//! and what setup and the base's gate runs wrote.
//!
//! Never here: what a candidate wrote.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{ObjectType, Oid};
use rustix::fs::{AtFlags, FileType};

use super::cache::CacheEntry;
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::lease::Lease;
use super::listing::GONE;
use super::objects::{self, GITLINK, Item, Leaf};
use super::scan::read_below;
use super::{files, upper};

/// Layers of output that lie under a gate's tree, the topmost first. Each goes away, or may be cleaned,
/// when nothing stands on it any more.
#[derive(Clone, Debug, Default)]
pub struct GateLayer {
    pub(crate) parts: Vec<Arc<Part>>,
    pub(crate) rewritten: Vec<String>,
    /// The carried paths in it: all that is there is the checkout's.
    pub(crate) carried: Vec<Vec<u8>>,
}

/// One directory of a [`GateLayer`].
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) dir: PathBuf,
    /// What it holds, where that is sources of a base with newer times instead of output; sorted, with
    /// marks for sources that are gone.
    pub(crate) sources: Option<Vec<Item>>,
    _hold: Hold,
}

/// What keeps a directory there.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
enum Hold {
    Run(Lease),
    Cache(Arc<CacheEntry>),
}

impl Part {
    /// A directory that goes away with a lease.
    pub(crate) fn leased(dir: PathBuf, lease: Lease, sources: Option<Vec<Item>>) -> Arc<Self> {
        Arc::new(Self { dir, sources, _hold: Hold::Run(lease) })
    }

    /// A directory of a cache entry.
    pub(crate) fn cached(
        dir: PathBuf,
        entry: Arc<CacheEntry>,
        sources: Option<Vec<Item>>,
    ) -> Arc<Self> {
        Arc::new(Self { dir, sources, _hold: Hold::Cache(entry) })
    }

    /// Proves that sources are on disk what they are said to be.
    fn check_disk(&self, sources: &[Item]) -> Result<()> {
        let root = files::open_dir(&self.dir).at("open", &self.dir)?;
        for item in sources.iter().filter(|item| ![GONE, GITLINK].contains(&item.leaf.mode)) {
            let read = read_below(&root, &item.path, MAX_FILE).at("read", &self.dir)?;
            let found = read.map(|(mode, bytes)| {
                Oid::hash_object(ObjectType::Blob, &bytes).map(|id| Leaf { mode, id })
            });
            if found.transpose().doing("hash a file")? != Some(item.leaf) {
                return Err(changed(&item.path));
            }
        }
        Ok(())
    }
}

/// Where the caches of build output lie that belong to the output in `upper`: one directory for each, by
/// name, with its own upper directory and what an overlay needs besides.
pub(crate) fn caches_beside(upper: &Path) -> PathBuf {
    upper.with_file_name("caches")
}

/// Takes away what only mounting the caches beside `upper` needed; with `all` their contents, too.
pub(crate) fn tidy_caches(upper: &Path, all: bool) -> Result<()> {
    let caches = caches_beside(upper);
    if all {
        return files::remove(&caches).at("clean", &caches);
    }
    for entry in std::fs::read_dir(&caches).into_iter().flatten().flatten() {
        let work = entry.path().join("work");
        files::remove(&work).at("clean", &work)?;
    }
    Ok(())
}

/// The largest source that is read back, in bytes.
const MAX_FILE: u64 = 1 << 30;

fn changed(path: &[u8]) -> RepoError {
    RepoError::Mismatch(format!("{:?} is not the base's", lossy(path)))
}

/// Whether the base has at a path just what an item says.
fn is_of(base: &[Item], item: &Item) -> bool {
    let leaf = objects::find(base, &item.path).map(|at| base[at].leaf);
    match item.leaf.mode {
        GONE => leaf.is_none() && !objects::has_below(base, &item.path),
        _ => leaf == Some(item.leaf),
    }
}

impl GateLayer {
    /// The tracked files that the base's gate run changed, lossily decoded. Where there are any, its
    /// output was made from other sources than the base's: it is thrown away.
    pub fn rewritten(&self) -> &[String] {
        &self.rewritten
    }

    /// Adds the snapshot of a carried path.
    pub(crate) fn carry(&mut self, path: &str, part: Arc<Part>) {
        self.carried.push(path.trim_end_matches('/').as_bytes().to_vec());
        self.parts.push(part);
    }

    /// The directories, the topmost first.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.dir.as_path())
    }

    /// What the base's gates left in a tool's cache of build output, the newest first. Workers see none of
    /// it.
    pub(crate) fn caches(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let outputs = self.parts.iter().filter(|part| part.sources.is_none());
        let upper = move |part: &Arc<Part>| caches_beside(&part.dir).join(name).join("upper");
        outputs.map(upper).filter(|dir| dir.is_dir())
    }

    /// What of it a worker's change must not bring in.
    pub(crate) fn below(&self) -> Result<Below> {
        let outputs = self.parts.iter().filter(|part| part.sources.is_none());
        let open = |part: &Arc<Part>| files::open_dir(&part.dir).at("open", &part.dir);
        let roots = outputs.map(open).collect::<Result<_>>()?;
        Ok(Below { roots, carried: self.carried.clone() })
    }

    /// Proves that nothing of it hides or changes what the base tracks. Sources of an earlier base may
    /// lie below those of this one that take their place.
    pub(crate) fn check(&self, base: &[Item]) -> Result<()> {
        let mut covered: HashSet<&[u8]> = HashSet::new();
        for part in &self.parts {
            let Some(sources) = &part.sources else {
                upper::check_stripped(&part.dir, base)?;
                continue;
            };
            part.check_disk(sources)?;
            let is_covered = |path: &[u8]| {
                [path].into_iter().chain(objects::parents(path)).any(|path| covered.contains(path))
            };
            if let Some(item) = sources.iter().find(|i| !is_of(base, i) && !is_covered(&i.path)) {
                return Err(changed(&item.path));
            }
            covered.extend(sources.iter().map(|item| item.path.as_slice()));
        }
        Ok(())
    }
}

/// What lies under a workspace besides the base: it is no part of a worker's change, whatever the worker
/// makes of it and whether the base ignores it or not.
#[derive(Debug)]
pub(crate) struct Below {
    roots: Vec<OwnedFd>,
    carried: Vec<Vec<u8>>,
}

impl Below {
    /// Whether an untracked path is of a carried directory, or one that setup or the base's gates made, a
    /// file in a directory's place or the other way round included. A new file beside their output, in
    /// a directory of theirs, too, is the worker's; so is one in the place of a directory of the base.
    pub(crate) fn has(&self, base: &[Item], path: &[u8], is_dir: bool) -> bool {
        let is_carried = |carried: &Vec<u8>| {
            let rest = path.strip_prefix(carried.as_slice());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let is_made = |root: &OwnedFd| {
            let stat = rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW);
            match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Directory) => !is_dir && !objects::has_below(base, path),
                Ok(FileType::RegularFile | FileType::Symlink) => true,
                // Marks of deletion bring nothing, and other kinds are never in a diff.
                _ => false,
            }
        };
        self.carried.iter().any(is_carried) || self.roots.iter().any(is_made)
    }
}
