//! Leases: what a live process has made in a run's directory and takes away again, at the latest when
//! the next process sweeps.
//!
//! A lease is a file with its owner (process, start time, boot, process namespace) and the relative
//! paths that go away with it. The owner holds a lock on it, which the system takes back even after
//! SIGKILL: a lease is dead when its lock is free and its owner is not running.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::{IoContext, Result};
use super::files;

/// A process, told apart from a later one of the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pid: u32,
    /// In clock ticks since boot.
    start: u64,
    boot: String,
    /// The process namespace, where numbers have a meaning.
    namespace: String,
}

impl Owner {
    pub(crate) fn this_process() -> Self {
        let pid = std::process::id();
        Self { pid, start: start_of(pid).unwrap_or(0), boot: boot_id(), namespace: namespace() }
    }

    /// Whether it surely runs. Of another namespace's processes nothing is known here.
    fn is_alive(&self) -> bool {
        self.boot == boot_id()
            && self.namespace == namespace()
            && start_of(self.pid) == Some(self.start)
    }
}

/// This boot's id: change times and process numbers mean nothing beyond it.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// A process's start time: the 22nd field of its stat file, counted after the name's last bracket.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 2..)?.split(' ').nth(19)?.parse().ok()
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    owner: Owner,
    /// What goes away with the lease, relative to the run's directory.
    remove: Vec<String>,
}

/// A lease that this process holds. Dropping it removes what it covers.
#[derive(Debug)]
pub(crate) struct Lease {
    _lock: File,
    file: PathBuf,
    targets: Vec<PathBuf>,
}

impl Lease {
    /// Takes the lease `name` of a run for paths relative to it, and clears what a dead owner left
    /// there. Nothing when a live owner holds it.
    pub(crate) fn take(run: &Path, name: &str, remove: &[String]) -> Result<Option<Self>> {
        let dir = run.join("leases");
        files::make_private(&dir).at("create", &dir)?;
        let file = dir.join(format!("{name}.lease"));
        let Some(mut lock) = lock(&file)? else { return Ok(None) };
        let targets: Vec<PathBuf> = remove.iter().map(|path| run.join(path)).collect();
        for target in &targets {
            files::remove(target).at("remove", target)?;
        }
        let record = Record { owner: Owner::this_process(), remove: remove.to_vec() };
        let text = serde_json::to_vec(&record).map_err(std::io::Error::from);
        let text = text.at("write", &file)?;
        lock.set_len(0).at("write", &file)?;
        lock.write_all(&text).at("write", &file)?;
        Ok(Some(Self { _lock: lock, file, targets }))
    }

    /// Ends the lease and says what could not be removed.
    pub(crate) fn end(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        for target in std::mem::take(&mut self.targets) {
            files::remove(&target).at("remove", &target)?;
        }
        match fs::remove_file(&self.file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at("remove", &self.file),
            _ => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Err(e) = self.clear() {
            tracing::warn!("a lease could not be cleared and is left for the next start: {e}");
        }
    }
}

/// Opens and locks a lease file without waiting; nothing when somebody holds it. The file that is
/// locked is the one that the name leads to, not one that was removed meanwhile.
fn lock(path: &Path) -> Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).at("open", path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let held = file.metadata().at("read", path)?;
        if fs::symlink_metadata(path).is_ok_and(|named| named.ino() == held.ino()) {
            return Ok(Some(file));
        }
    }
}

/// What a sweep removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Leases of dead owners.
    pub leases: u32,
    /// Files that went away with them.
    pub files: u64,
    /// Their allocated size in bytes.
    pub bytes: u64,
    /// What could not be removed, with the reason.
    pub failed: Vec<String>,
}

/// How deep below the engine's home a run's directory may lie.
const DEPTH: usize = 4;

/// Removes what dead processes left leased below `home`. Live owners' leases stay.
///
/// # Errors
/// When `home` is there and can't be read; a single lease that can't be cleared is in the result.
pub fn sweep(home: &Path) -> Result<Swept> {
    let mut swept = Swept::default();
    if home.exists() {
        fs::read_dir(home).at("list", home)?;
        sweep_below(home, DEPTH, &mut swept);
    }
    Ok(swept)
}

fn sweep_below(dir: &Path, depth: usize, swept: &mut Swept) {
    let leases = dir.join("leases");
    if leases.is_dir() {
        for entry in fs::read_dir(&leases).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "lease") {
                sweep_one(dir, &entry.path(), swept);
            }
        }
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) && entry.file_name() != "cache" {
            sweep_below(&entry.path(), depth - 1, swept);
        }
    }
}

fn sweep_one(run: &Path, file: &Path, swept: &mut Swept) {
    let Ok(Some(mut held)) = lock(file) else { return };
    let mut text = String::new();
    let record: Option<Record> =
        held.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
    let Some(record) = record else {
        // Its owner died between making and filling it: nothing was made under it yet.
        let _ = fs::remove_file(file);
        return;
    };
    if record.owner.is_alive() {
        return;
    }
    let mut left = false;
    for path in record.remove.iter().filter(|path| stays_below(path)) {
        let target = run.join(path);
        let (files, bytes) = files::measure(&target);
        match files::remove(&target) {
            Ok(()) => {
                swept.files += files;
                swept.bytes += bytes;
            }
            Err(e) => {
                left = true;
                swept.failed.push(format!("{}: {e}", target.display()));
            }
        }
    }
    if !left {
        let _ = fs::remove_file(file);
        swept.leases += 1;
    }
}

/// Whether a recorded path can't lead out of its run, whoever wrote it.
fn stays_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(run: &Path, name: &str, owner: &Owner, remove: &str) {
        fs::create_dir_all(run.join("leases")).unwrap();
        let record = Record { owner: owner.clone(), remove: vec![remove.into()] };
        let file = run.join("leases").join(format!("{name}.lease"));
        fs::write(file, serde_json::to_vec(&record).unwrap()).unwrap();
    }

    #[test]
    fn only_dead_owners_leases_are_swept() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("runs/r1");
        let lease = |name: &str| Lease::take(&run, name, &[format!("lanes/{name}")]).unwrap();
        fs::create_dir_all(run.join("leases")).unwrap();
        let held = lease("held").unwrap();
        assert!(lease("held").is_none(), "a held lease is not given twice");
        for name in ["held", "dead", "rebooted", "unlocked"] {
            fs::create_dir_all(run.join("lanes").join(name)).unwrap();
            fs::write(run.join("lanes").join(name).join("f"), "x").unwrap();
        }
        let me = Owner::this_process();
        plant(&run, "dead", &Owner { start: me.start + 1, ..me.clone() }, "lanes/dead");
        plant(&run, "rebooted", &Owner { boot: "another".into(), ..me.clone() }, "lanes/rebooted");
        plant(&run, "unlocked", &me, "lanes/unlocked");
        plant(&run, "out", &Owner { boot: "another".into(), ..me }, "../../outside");
        fs::create_dir_all(home.path().join("outside")).unwrap();
        let swept = sweep(home.path()).unwrap();
        assert_eq!((swept.leases, swept.files), (3, 2));
        assert!(swept.bytes > 0 && swept.failed.is_empty());
        assert!(run.join("lanes/held").exists() && run.join("lanes/unlocked").exists());
        assert!(!run.join("lanes/dead").exists() && !run.join("lanes/rebooted").exists());
        assert!(home.path().join("outside").exists());
        drop(held);
        assert!(!run.join("lanes/held").exists() && !run.join("leases/held.lease").exists());
    }

    #[test]
    fn a_lease_ends_on_panic() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().to_owned();
        let _ = std::panic::catch_unwind(|| {
            let _lease = Lease::take(&run, "a", &["lanes/a".into()]).unwrap().unwrap();
            fs::create_dir_all(run.join("lanes/a")).unwrap();
            panic!("a worker failed");
        });
        assert!(!run.join("lanes/a").exists());
    }
}
