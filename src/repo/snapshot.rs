//! Snapshots of carried directories: what the user's checkout has installed or built and git ignores
//! (`node_modules`, `.venv`, `target`), copied into the cache and never used in place.
//!
//! A checkout changes while gates run, and what was built there may be of another branch. So a snapshot
//! is taken under the tool's own lock where it has one, and anything that changed meanwhile is not
//! taken; and all of it is made older than every source that the engine checks out, each file as much as
//! the other, so that build tools take what depends on a source for stale and only dependencies for
//! fresh. Never here: a write to the checkout.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Timespec, Timestamps, flock};
use sha2::{Digest, Sha256};

use super::cache::{self, CacheEntry, Kind, Label};
use super::error::{IoContext, Result, lossy};
use super::files::{self, PAST};
use super::parallel;

/// What came of one carried path.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Here is its snapshot.
    Snapshot(CacheEntry),
    /// The checkout does not have it.
    Absent,
    /// It can't be carried now, with the reason.
    Refused(String),
}

/// How much older than a source the newest carried file is, in seconds.
const BEFORE: i64 = 86_400;
/// Snapshots kept of one path: the one in use and the one before it.
const KEPT: usize = 2;

/// Takes or finds the snapshot of `path` below `top`. A build that holds the tool's lock is waited for
/// as long as `patience`.
///
/// # Errors
/// When the cache can't be written; trouble in the checkout is a refusal.
pub(crate) fn take(cache: &Path, top: &Path, path: &str, patience: Duration) -> Result<Taken> {
    let from = top.join(path);
    match fs::symlink_metadata(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Taken::Absent),
        Err(error) => return Ok(Taken::Refused(error.to_string())),
        Ok(found) if !found.is_dir() && !found.is_file() => {
            return Ok(Taken::Refused("it is neither a directory nor a file".to_owned()));
        }
        Ok(_) => {}
    }
    let Some(_locks) = lock_builds(&from, patience).at("lock", &from)? else {
        return Ok(Taken::Refused("a build is going on in it".to_owned()));
    };
    // Cargo still writes what it learnt of the compiler when it has let go of its lock, and tools without
    // a lock may just have ended: a directory that comes to rest is carried.
    for _ in 1..TRIES {
        if let Some(entry) = try_once(cache, top, path)? {
            return Ok(entry);
        }
    }
    let last = try_once(cache, top, path)?;
    Ok(last.unwrap_or_else(|| Taken::Refused("it changed while it was copied".to_owned())))
}

/// How often a directory that changes is tried.
const TRIES: u32 = 3;

/// Takes the snapshot; nothing when the directory changed meanwhile.
fn try_once(cache: &Path, top: &Path, path: &str) -> Result<Option<Taken>> {
    let refused = |reason: String| Ok(Some(Taken::Refused(reason)));
    let seen = match look(top, path) {
        Ok(seen) => seen,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return refused(error.to_string()),
    };
    let mut trouble = None;
    let entry = CacheEntry::enter(cache, Kind::Carry, &seen.key, |dir| {
        if cache::read_label(dir).is_some() {
            return Ok(());
        }
        match copy(top, path, &seen, dir) {
            Ok(()) => cache::label(dir, label(top, path)),
            Err(Trouble::Cache(error)) => Err(error).at("write", dir),
            Err(other) => {
                trouble = Some(other);
                Ok(())
            }
        }
    })?;
    match trouble {
        Some(Trouble::Checkout(reason)) => return refused(reason),
        Some(_) => return Ok(None),
        None => {}
    }
    forget_older(cache, &label(top, path), entry.key());
    Ok(Some(Taken::Snapshot(entry)))
}

fn label(top: &Path, path: &str) -> Label {
    let top = lossy(top.as_os_str().as_bytes());
    Label { of: path.to_owned(), top, ..Label::default() }
}

/// Where the snapshot of an entry lies: a directory that has the carried path at its own place.
pub(crate) fn root(entry: &CacheEntry) -> PathBuf {
    entry.dir().join(ROOT)
}

const ROOT: &str = "tree";

fn forget_older(cache: &Path, label: &Label, key: &str) {
    let same = |(other, theirs): &(String, Label)| {
        other != key && theirs.top == label.top && theirs.of == label.of
    };
    for (old, _) in cache::keys_of(cache, Kind::Carry).into_iter().filter(same).skip(KEPT - 1) {
        let _ = cache::remove(cache, Kind::Carry, &old);
    }
}

/// Cargo's locks in a target directory, held against a build that begins. Nothing when a build does not
/// end in time. Other tools have none: npm, pip and the like.
fn lock_builds(dir: &Path, patience: Duration) -> io::Result<Option<Vec<File>>> {
    let mut held = Vec::new();
    let began = Instant::now();
    for path in cargo_locks(dir) {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockShared) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if began.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        held.push(file);
    }
    Ok(Some(held))
}

/// Lock files of a Cargo target directory: one for each profile, below the triple when one was named.
fn cargo_locks(dir: &Path) -> Vec<PathBuf> {
    let subdirs = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    if !is_cargo_target(dir) {
        return Vec::new();
    }
    let profiles =
        subdirs(dir).into_iter().flat_map(|dir| [vec![dir.clone()], subdirs(&dir)].concat());
    let is_lock = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b".cargo-") && name.ends_with(b"lock")
    };
    let files = profiles.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    files.map(|entry| entry.path()).filter(is_lock).collect()
}

/// Cargo writes the first file when a build ends, the other when it begins.
fn is_cargo_target(dir: &Path) -> bool {
    let tag = || fs::read(dir.join("CACHEDIR.TAG")).unwrap_or_default();
    dir.join(".rustc_info.json").is_file() || String::from_utf8_lossy(&tag()).contains("cargo")
}

/// A directory's state, as far as it is copied.
struct Seen {
    key: String,
    entries: Vec<Entry>,
}

/// One file, link or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Relative to the checkout's top.
    path: PathBuf,
    kind: EntryKind,
    mode: u32,
    size: u64,
    /// Seconds and nanoseconds since 1970.
    time: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Dir,
    File,
    Link,
}

fn look(top: &Path, path: &str) -> io::Result<Seen> {
    let mut entries = Vec::new();
    walk(top, Path::new(path), true, &mut entries)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut hasher = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    put(b"carry 1");
    put(top.as_os_str().as_bytes());
    put(path.as_bytes());
    let dir = top.join(path);
    if is_cargo_target(&dir) {
        // Each build changes it, and only dependencies are of use: what they are says the lock file, and
        // which of them are built the names of their fingerprints.
        for file in [nearest_lock(top, Path::new(path)), Some(dir.join(".rustc_info.json"))] {
            put(&file.and_then(|file| fs::read(file).ok()).unwrap_or_default());
        }
        let units = entries.iter().filter(|entry| {
            entry.path.parent().is_some_and(|parent| parent.ends_with(".fingerprint"))
        });
        units.for_each(|unit| put(unit.path.as_os_str().as_bytes()));
    } else {
        for entry in &entries {
            put(entry.path.as_os_str().as_bytes());
            let time = if entry.kind == EntryKind::Dir { (0, 0) } else { entry.time };
            put(format!("{:?} {:o} {} {time:?}", entry.kind, entry.mode, entry.size).as_bytes());
        }
    }
    let key = hasher.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    Ok(Seen { key, entries })
}

/// The lock file nearest above a carried path.
fn nearest_lock(top: &Path, path: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1).map(|dir| top.join(dir));
    above.flat_map(|dir| LOCKS.map(|name| dir.join(name))).find(|file| file.is_file())
}

/// What says which dependencies are installed.
const LOCKS: [&str; 11] = [
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "requirements.txt",
];

/// The path, relative to `top`, of the lock file that a carried directory was made by.
pub(crate) fn lock_of(top: &Path, path: &str) -> Option<PathBuf> {
    Some(nearest_lock(top, Path::new(path))?.strip_prefix(top).ok()?.to_owned())
}

fn walk(top: &Path, path: &Path, named: bool, entries: &mut Vec<Entry>) -> io::Result<()> {
    let meta = fs::symlink_metadata(top.join(path))?;
    let kind = match meta.file_type() {
        kind if kind.is_dir() => EntryKind::Dir,
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_symlink() => EntryKind::Link,
        _ => return Ok(()),
    };
    if !named && is_left_out(path, kind) {
        return Ok(());
    }
    let size = if kind == EntryKind::Dir { 0 } else { meta.size() };
    let time = (meta.mtime(), meta.mtime_nsec());
    entries.push(Entry { path: path.to_owned(), kind, mode: meta.mode() & 0o777, size, time });
    if kind == EntryKind::Dir {
        for entry in fs::read_dir(top.join(path))? {
            walk(top, &path.join(entry?.file_name()), false, entries)?;
        }
    }
    Ok(())
}

/// What is never carried along: secrets that nobody named, what tools derive from first-party sources,
/// and repositories.
fn is_left_out(path: &Path, kind: EntryKind) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    match kind {
        EntryKind::Dir => {
            let derived = parent == "node_modules" && [".cache", ".tmp", ".vite"].contains(&&*name);
            derived
                || name == ".git"
                || (name == "incremental" && path.iter().any(|p| p == "target"))
        }
        _ => is_secret(&name),
    }
}

/// Whether a carried path names a file of secrets.
pub(crate) fn is_secret_path(path: &str) -> bool {
    is_secret(path.trim_end_matches('/').rsplit('/').next().unwrap_or_default())
}

/// Files that hold a person's secrets wherever they lie.
fn is_secret(name: &str) -> bool {
    const NAMES: [&str; 7] =
        [".env", ".npmrc", ".netrc", ".pypirc", ".git-credentials", "id_rsa", "id_ed25519"];
    let example = ["example", "sample", "template", "dist", "defaults"];
    NAMES.contains(&name)
        || (name.strip_prefix(".env.")).is_some_and(|rest| !example.contains(&rest))
}

enum Trouble {
    /// In the user's checkout: not an error of ours.
    Checkout(String),
    /// It is not any more what was seen.
    Changed,
    Cache(io::Error),
}

/// Copies what was seen, and makes sure that it is still so.
fn copy(top: &Path, path: &str, seen: &Seen, dir: &Path) -> Result<(), Trouble> {
    let making = dir.join("tree.tmp");
    let cache = Trouble::Cache;
    files::make_private(&making).map_err(cache)?;
    fs::set_permissions(&making, fs::Permissions::from_mode(0o755)).map_err(cache)?;
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(making.join(parent)).map_err(cache)?;
    }
    let shift = shift(&seen.entries);
    for entry in seen.entries.iter().filter(|entry| entry.kind == EntryKind::Dir) {
        fs::create_dir(making.join(&entry.path)).map_err(cache)?;
    }
    let copied = parallel::map(
        seen.entries.len(),
        || Ok(()),
        |(), index| {
            let entry = &seen.entries[index];
            Ok(copy_entry(top, &making, entry, shift))
        },
    );
    let copied = copied.map_err(|error| Trouble::Checkout(error.to_string()))?;
    for (entry, result) in seen.entries.iter().zip(copied) {
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Trouble::Changed),
            Err(error) => {
                return Err(Trouble::Checkout(format!("{}: {error}", entry.path.display())));
            }
        }
    }
    for entry in seen.entries.iter().rev().filter(|entry| entry.kind == EntryKind::Dir) {
        finish_dir(&making.join(&entry.path), entry, shift).map_err(cache)?;
    }
    if look(top, path).map_or(true, |after| after.entries != seen.entries) {
        return Err(Trouble::Changed);
    }
    fs::rename(&making, dir.join(ROOT)).map_err(cache)
}

/// By how many seconds all times go back, so that the newest is older than every source.
fn shift(entries: &[Entry]) -> i64 {
    let newest = entries.iter().map(|entry| entry.time.0).max().unwrap_or(0);
    (newest - (PAST - BEFORE)).max(0)
}

fn copy_entry(top: &Path, making: &Path, entry: &Entry, shift: i64) -> io::Result<()> {
    let (source, target) = (top.join(&entry.path), making.join(&entry.path));
    match entry.kind {
        EntryKind::Dir => return Ok(()),
        EntryKind::Link => std::os::unix::fs::symlink(fs::read_link(source)?, &target)?,
        EntryKind::File => {
            let output = File::options().read(true).write(true).create_new(true).open(&target)?;
            files::copy_bytes(&File::open(source)?, &output)?;
            if target.extension().is_some_and(|e| e == "pyc") {
                date_back(&output, shift)?;
            }
            output.set_permissions(fs::Permissions::from_mode(entry.mode))?;
        }
    }
    set_time(&target, entry.time, shift)
}

fn finish_dir(dir: &Path, entry: &Entry, shift: i64) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(entry.mode | 0o700))?;
    set_time(dir, entry.time, shift)
}

fn set_time(path: &Path, (seconds, nanos): (i64, i64), shift: i64) -> io::Result<()> {
    let at = Timespec { tv_sec: seconds - shift, tv_nsec: nanos as _ };
    let times = Timestamps { last_access: at, last_modification: at };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Compiled Python names the time of its source (PEP 552: after four bytes of magic and four of flags,
/// where the flags are 0): it goes back with the source, so that it stays of use.
fn date_back(file: &File, shift: i64) -> io::Result<()> {
    let mut header = [0; 12];
    if file.read_exact_at(&mut header, 0).is_err() || header[4..8] != [0; 4] {
        return Ok(());
    }
    let mut time = [0; 4];
    time.copy_from_slice(&header[8..12]);
    // Its own arithmetic is modulo 2^32, too.
    let time = u32::from_le_bytes(time).wrapping_sub(shift as u32);
    file.write_all_at(&time.to_le_bytes(), 8)
}
