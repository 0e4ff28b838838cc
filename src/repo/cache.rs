//! What is kept between runs, one directory per thing: a base's objects, its checkout, what setup left
//! on it, snapshots of carried directories. Each is complete or not there; locks keep parallel runs and
//! cleaners apart.
//!
//! An entry `KIND/KEY` has two lock files beside it. `KEY.use` is shared by all runs that use it, for as
//! long as they live; a cleaner needs it whole. `KEY.fill` is held alone and only while something is
//! being made. Never here: what a candidate wrote.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::{IoContext, Result};
use super::files;

/// The layout's version; another one lies beside it.
pub(crate) const VERSION: &str = "v2";

/// What an entry holds, which is also the directory that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The objects of a base commit and its history.
    Pack,
    /// A base tree, checked out.
    Layer,
    /// What setup and the base's own gates wrote.
    Setup,
    /// A snapshot of a carried directory.
    Carry,
    /// Dependencies that setup fetched.
    Dependencies,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Pack, Self::Layer, Self::Setup, Self::Carry, Self::Dependencies];

    /// The directory of its entries.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pack => "objects",
            Self::Layer => "base",
            Self::Setup => "setup",
            Self::Carry => "carry",
            Self::Dependencies => "dependencies",
        }
    }
}

/// What is noted of a complete entry, for lists and cleaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    /// The user's working tree that it was made for, lossily decoded.
    pub(crate) top: String,
    /// What it is of: a commit, a tree, a path.
    pub(crate) of: String,
    /// Allocated bytes when it was made.
    pub(crate) bytes: u64,
    /// Files when it was made.
    pub(crate) files: u64,
    /// Entries that are of use only with this one's help: `KIND/KEY` of what it lies on.
    pub(crate) below: Vec<String>,
}

/// A cache entry in use: nobody removes it meanwhile.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    dir: PathBuf,
    key: String,
    _use: File,
}

impl CacheEntry {
    /// Enters an entry and completes it with `fill`, one process at a time. `fill` looks for itself at
    /// what is there already; what lies in a directory's `*.tmp` is cleared before.
    pub(crate) fn enter(
        cache: &Path,
        kind: Kind,
        key: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let root = cache.join(VERSION).join(kind.name());
        files::make_private(&root).at("create", &root)?;
        let dir = root.join(key);
        let in_use = lock(&root.join(format!("{key}.use")), FlockOperation::LockShared)?;
        touch(&in_use);
        let filling = lock(&root.join(format!("{key}.fill")), FlockOperation::LockExclusive)?;
        files::make_private(&dir).at("create", &dir)?;
        clear_stale(&dir)?;
        fill(&dir)?;
        drop(filling);
        Ok(Self { dir, key: key.to_owned(), _use: in_use })
    }

    /// Enters an entry that is complete, without waiting for anybody. Nothing when it is not there.
    pub(crate) fn find(cache: &Path, kind: Kind, key: &str) -> Result<Option<Self>> {
        let root = cache.join(VERSION).join(kind.name());
        let dir = root.join(key);
        if !dir.join(LABEL).is_file() {
            return Ok(None);
        }
        let in_use = lock(&root.join(format!("{key}.use")), FlockOperation::LockShared)?;
        // A cleaner may have come first.
        if !dir.join(LABEL).is_file() {
            return Ok(None);
        }
        touch(&in_use);
        Ok(Some(Self { dir, key: key.to_owned(), _use: in_use }))
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its name among its kind.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

/// The file by which an entry is complete.
pub(crate) const LABEL: &str = "entry.json";

/// Marks an entry as complete. Its size is measured here, unless it is known.
pub(crate) fn label(dir: &Path, mut label: Label) -> Result<()> {
    if label.files == 0 {
        (label.files, label.bytes) = files::measure(dir);
    }
    let path = dir.join(LABEL);
    let text = serde_json::to_vec(&label).map_err(std::io::Error::from).at("write", &path)?;
    files::put(&path, &text).at("write", &path)
}

/// The label of a complete entry.
pub(crate) fn read_label(dir: &Path) -> Option<Label> {
    serde_json::from_slice(&fs::read(dir.join(LABEL)).ok()?).ok()
}

/// Where an entry lies.
pub(crate) fn dir_of(cache: &Path, kind: Kind, key: &str) -> PathBuf {
    cache.join(VERSION).join(kind.name()).join(key)
}

/// The keys of the complete entries of a kind, the last used first.
pub(crate) fn keys_of(cache: &Path, kind: Kind) -> Vec<(String, Label)> {
    let root = cache.join(VERSION).join(kind.name());
    let mut found: Vec<(SystemTime, String, Label)> = Vec::new();
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let Ok(key) = entry.file_name().into_string() else { continue };
        let Some(label) = read_label(&entry.path()) else { continue };
        found.push((used(&root, &key), key, label));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(_, key, label)| (key, label)).collect()
}

/// Removes an entry that nobody uses, with its locks, and tells whether it could: files and allocated
/// bytes.
pub(crate) fn remove(cache: &Path, kind: Kind, key: &str) -> Result<Option<(u64, u64)>> {
    remove_in(&cache.join(VERSION).join(kind.name()), key)
}

/// The same in a directory of entries of whatever version.
pub(crate) fn remove_in(root: &Path, key: &str) -> Result<Option<(u64, u64)>> {
    let in_use = root.join(format!("{key}.use"));
    let Some(_held) = try_lock(&in_use)? else { return Ok(None) };
    let (dir, going) = (root.join(key), root.join(format!("{key}.gone")));
    files::remove(&going).at("remove", &going)?;
    match fs::rename(&dir, &going) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).at("remove", &dir),
        _ => {}
    }
    let size = files::measure(&going);
    files::remove(&going).at("remove", &going)?;
    // Whoever waits for one of them will see that it is no longer the one of that name.
    for lock in [root.join(format!("{key}.fill")), in_use] {
        files::remove(&lock).at("remove", &lock)?;
    }
    Ok(Some(size))
}

/// Whether nobody uses an entry.
pub(crate) fn is_free(root: &Path, key: &str) -> Result<bool> {
    let in_use = root.join(format!("{key}.use"));
    Ok(!in_use.exists() || try_lock(&in_use)?.is_some())
}

/// Removes what was put aside in an entry, where nobody uses it.
pub(crate) fn clear_aside(root: &Path, dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let aside: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "bad")).collect();
    let Some(key) = dir.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    if aside.is_empty() {
        return Ok(());
    }
    if let Some(_held) = try_lock(&root.join(format!("{key}.use")))? {
        for path in aside {
            files::remove(&path).at("remove", &path)?;
        }
    }
    Ok(())
}

/// Takes a lock whole, without waiting; nothing when somebody has it.
fn try_lock(path: &Path) -> Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).at("open", path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e).at("lock", path),
    }
}

/// When an entry was last entered.
pub(crate) fn used(root: &Path, key: &str) -> SystemTime {
    let lock = fs::metadata(root.join(format!("{key}.use")));
    lock.and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn touch(lock: &File) {
    let _ = lock.set_modified(SystemTime::now());
}

/// A lock's file, made where it is not there. Where nothing may be written it is locked as it lies: what is
/// complete can be read all the same.
fn open_lock(path: &Path) -> Result<File> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    match options.open(path) {
        Err(e) if matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem) => {
            File::open(path).map_err(|_| e).at("open", path)
        }
        opened => opened.at("open", path),
    }
}

/// Waits for a lock. The file that is locked is the one that the name leads to, not one that a cleaner
/// removed meanwhile.
pub(crate) fn lock(path: &Path, operation: FlockOperation) -> Result<File> {
    loop {
        let file = open_lock(path)?;
        flock(&file, operation).at("lock", path)?;
        let held = file.metadata().at("read", path)?;
        if fs::symlink_metadata(path).is_ok_and(|named| named.ino() == held.ino()) {
            return Ok(file);
        }
    }
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

/// Moves what another run may still be reading out of the way: it stays until the cache is cleaned.
pub(crate) fn put_aside(path: &Path) -> Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{:08x}.bad", fastrand::u32(..)));
    match fs::rename(path, &aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at("move", path),
        _ => Ok(()),
    }
}
