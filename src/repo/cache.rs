//! What is kept between runs, one directory per base tree: the tree's objects as a pack, and the base
//! layer. Each is complete or not there; a lock per directory keeps parallel runs apart.
//!
//! Never here: what a candidate or a gate wrote.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::{FlockOperation, flock};

use super::error::{GitContext, IoContext, RepoError, Result};
use super::files;

/// The layout's version; another one lies beside it.
const VERSION: &str = "v1";

/// A base tree's directory in the cache, in use: nobody removes it meanwhile.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    dir: PathBuf,
    _use: File,
}

impl CacheEntry {
    /// Enters the directory of a tree and completes it with `fill`, one process at a time.
    ///
    /// There are two locks: `use` is shared by all runs for as long as they live (a cleaner needs it
    /// whole), `fill` is held alone and only while something is being made.
    pub(crate) fn enter(
        cache: &Path,
        tree: Oid,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let root = cache.join(VERSION);
        files::make_private(&root).at("create", &root)?;
        let dir = root.join(tree.to_string());
        let in_use = lock(&root.join(format!("{tree}.use")), FlockOperation::LockShared)?;
        let filling = lock(&root.join(format!("{tree}.fill")), FlockOperation::LockExclusive)?;
        files::make_private(&dir).at("create", &dir)?;
        clear_stale(&dir)?;
        fill(&dir)?;
        drop(filling);
        Ok(Self { dir, _use: in_use })
    }

    /// The base layer.
    pub(crate) fn layer(&self) -> PathBuf {
        self.dir.join("layer")
    }
}

/// Waits for a lock. The lock files themselves are never removed, so that all lock the same one.
fn lock(path: &Path, operation: FlockOperation) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).at("open", path)?;
    flock(&file, operation).at("lock", path)?;
    Ok(file)
}

/// Removes what a killed process left half made. Under the exclusive lock nothing else is.
fn clear_stale(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        if path.extension().is_some_and(|e| e == "tmp") {
            files::remove(&path).at("remove", &path)?;
        }
    }
    Ok(())
}

/// Makes the pack of a tree out of the user's repository, unless it is there.
pub(crate) fn fill_pack(dir: &Path, repo: &Repository, tree: Oid) -> Result<()> {
    let (done, making) = (dir.join("pack"), dir.join("pack.tmp"));
    if done.is_dir() {
        return Ok(());
    }
    files::make_private(&making).at("create", &making)?;
    let own = open_to_pack(repo, &making)?;
    let mut builder = own.packbuilder().doing("collect the base tree")?;
    builder.set_threads(0);
    builder.insert_tree(tree).map_err(|e| missing(&e))?;
    builder.write(&making, 0o444).map_err(|e| missing(&e))?;
    let config = making.join(PACK_CONFIG);
    fs::remove_file(&config).at("remove", &config)?;
    for entry in fs::read_dir(&making).at("list", &making)? {
        let path = entry.at("list", &making)?.path();
        File::open(&path).and_then(|file| file.sync_all()).at("write", &path)?;
    }
    fs::rename(&making, &done).at("complete", &done)
}

/// The name of the configuration while packing.
const PACK_CONFIG: &str = "config";

/// A second handle on the user's repository with a configuration of our own, which is held in `making`:
/// only the objects are the user's. Nothing is stored as a delta, because looking for one costs most of
/// the time, and a run's pack is read more often than it is moved.
fn open_to_pack(repo: &Repository, making: &Path) -> Result<Repository> {
    let path = making.join(PACK_CONFIG);
    // The library takes the largest size that it tries a delta for from the cache's size.
    fs::write(&path, "[pack]\n\tdeltaCacheSize = 1\n").at("write", &path)?;
    let own = Repository::open(repo.path()).doing("open the repository")?;
    let config = git2::Config::open(&path).doing("open the repository")?;
    own.set_config(&config).doing("open the repository")?;
    Ok(own)
}

fn missing(e: &git2::Error) -> RepoError {
    if e.code() == git2::ErrorCode::NotFound {
        let id = e.message().split(['(', ')', ' ']).find(|w| w.len() == 40).unwrap_or(e.message());
        return RepoError::MissingObject { id: id.to_owned(), what: "the base tree".into() };
    }
    RepoError::Git {
        action: "collect the base tree".into(),
        source: git2::Error::new(e.code(), e.class(), e.message()),
    }
}

/// Copies the pack into a run's object directory: a run holds on when the cache goes away.
pub(crate) fn copy_pack(dir: &Path, objects: &Path) -> Result<()> {
    let from = dir.join("pack");
    let mut names: Vec<_> = fs::read_dir(&from)
        .at("list", &from)?
        .filter_map(|entry| entry.ok().map(|e| e.file_name()))
        .collect();
    // The pack before its index, so that an index never stands for nothing.
    names.sort_by_key(|name| Path::new(name).extension().is_some_and(|e| e == "idx"));
    for name in names {
        let (source, target) = (from.join(&name), objects.join("pack").join(&name));
        if target.exists() {
            continue;
        }
        let making = target.with_extension("tmp");
        files::remove(&making).at("remove", &making)?;
        let input = File::open(&source).at("read", &source)?;
        let output = File::create(&making).at("write", &making)?;
        files::copy_bytes(&input, &output).at("write", &making)?;
        fs::rename(&making, &target).at("complete", &target)?;
    }
    Ok(())
}
