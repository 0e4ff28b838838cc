//! What a job holds on disk, looked at from outside while it runs.
//!
//! Counts the blocks of what a job may write: upper layers of its overlays, writable directories of
//! the host, its private folder in the weaker tiers. File systems in memory have sizes of their own.
//! A walk is done in small steps, so that the warden's loop goes on meanwhile, and only when the file
//! system has got fuller or some time has passed. Never here: what is done about it (`keeper`).

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

use super::proto::{WireMount, WireSpec};

/// How often the file system's free space is looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// After so many looks a walk is due, however little has changed.
const LOOKS: u32 = 40;
/// A walk's share of the time is at most one in this many.
const SHARE: u32 = 20;
/// The time of one step.
const STEP: Duration = Duration::from_millis(3);
/// Every entry counts at least this much, because inodes run out, too.
const ENTRY_BYTES: u64 = 4096;
/// Directories are followed so deep; what lies deeper was made to hide something.
const DEEPEST: usize = 256;

/// What a file system has left.
#[derive(Clone, Copy, Debug, Default)]
struct Free {
    bytes: u64,
    /// Files that can be made; 0 where that is not bounded.
    entries: u64,
}

impl Free {
    /// How much less there is than there was, counted as what a job holds is. Files without a byte take entries alone.
    fn lost(self, now: Self) -> u64 {
        let bytes = self.bytes.saturating_sub(now.bytes);
        bytes.max(self.entries.saturating_sub(now.entries).saturating_mul(ENTRY_BYTES))
    }
}

/// Looks after one job.
#[derive(Debug)]
pub(super) struct Meter {
    places: Vec<Place>,
    limit: u64,
    floor: u64,
    walk: Option<Walk>,
    /// What its places held before it wrote anything.
    before: Option<u64>,
    held: u64,
    /// What was free at the last walk.
    free: Free,
    looks: u32,
    due: Instant,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing to do, or not known yet.
    Fine,
    /// It holds more than its limit.
    Over,
    /// The file system has only so many bytes left.
    Low(u64),
}

/// A directory that a job may write.
#[derive(Debug)]
struct Place {
    dir: OwnedFd,
    /// Whether what was there before does not count.
    shared: bool,
}

impl Meter {
    /// For a job with this description; none where it can write to no disk.
    pub(super) fn of(spec: &WireSpec, private: Option<&Path>) -> Option<Self> {
        let writable = |mount: &WireMount| match mount {
            WireMount::Overlay { upper, .. } => Place::open(upper, false),
            WireMount::ReadWrite { from, .. } => Place::open(from, true),
            WireMount::ReadOnly { .. } | WireMount::Tmp { .. } | WireMount::Covered { .. } => None,
        };
        let private = private.and_then(|dir| Place::open(dir.as_os_str(), false));
        let places: Vec<Place> = spec.mounts.iter().filter_map(writable).chain(private).collect();
        (!places.is_empty()).then(|| Self {
            places,
            limit: spec.disk_bytes,
            floor: spec.free_bytes,
            walk: None,
            before: None,
            held: 0,
            free: Free::default(),
            looks: LOOKS,
            due: Instant::now(),
        })
    }

    /// When it wants to look again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// What the job holds, in bytes, as far as is known.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Looks, for a few milliseconds at most.
    pub(super) fn look(&mut self, now: Instant) -> Found {
        if self.walk.is_none() {
            let free = self.free_now();
            self.looks += 1;
            if !self.wants_walk(free) {
                self.due = now + INTERVAL;
                return Found::Fine;
            }
            (self.free, self.looks) = (free, 0);
            self.walk = Some(Walk::over(&self.places));
        }
        self.step(now)
    }

    /// The file system tells of every write, so that there is nothing to find while it has not lost
    /// half of what the job may still take.
    fn wants_walk(&self, free: Free) -> bool {
        let left = self.limit.saturating_sub(self.held);
        self.looks > LOOKS || free.bytes < self.floor || self.free.lost(free) > left / 2
    }

    fn step(&mut self, now: Instant) -> Found {
        let Some(walk) = &mut self.walk else { return Found::Fine };
        let done = walk.step(now + STEP);
        walk.cost += now.elapsed();
        let before = self.before.unwrap_or(walk.shared);
        self.held = self.held.max((walk.own + walk.shared).saturating_sub(before));
        if self.held > self.limit || walk.too_deep {
            return Found::Over;
        }
        if !done {
            return Found::Fine;
        }
        self.held = (walk.own + walk.shared).saturating_sub(before);
        self.before = Some(before);
        self.due = Instant::now() + INTERVAL.max(walk.cost * SHARE);
        self.walk = None;
        match self.held > self.limit {
            true => Found::Over,
            false if self.free.bytes < self.floor => Found::Low(self.free.bytes),
            false => Found::Fine,
        }
    }

    /// Of the fullest of its file systems, each by itself.
    fn free_now(&self) -> Free {
        let found = self.places.iter().filter_map(|place| rustix::fs::fstatvfs(&place.dir).ok());
        let full = Free { bytes: u64::MAX, entries: u64::MAX };
        found.fold(full, |least, found| Free {
            bytes: least.bytes.min(found.f_bavail.saturating_mul(found.f_frsize)),
            entries: least.entries.min(found.f_favail),
        })
    }
}

impl Place {
    fn open(dir: &OsStr, shared: bool) -> Option<Self> {
        let dir = open_dir(CWD, dir, OFlags::empty())?;
        Some(Self { dir, shared })
    }
}

fn open_dir(at: impl AsFd, name: impl rustix::path::Arg, more: OFlags) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    rustix::fs::openat(at, name, flags, Mode::empty()).ok()
}

/// What a directory holds, in bytes, counted as a job's places are; what can't be looked at counts nothing.
pub fn held_below(dir: impl AsFd) -> u64 {
    let open = Dir::read_from(dir).map(|dir| vec![(dir, false)]).unwrap_or_default();
    let mut walk = Walk { open, ..Walk::default() };
    while walk.advance() {}
    walk.own
}

/// One way through the places, depth first.
#[derive(Debug, Default)]
struct Walk {
    open: Vec<(Dir, bool)>,
    /// Bytes that are the job's own.
    own: u64,
    /// Bytes in shared places.
    shared: u64,
    too_deep: bool,
    cost: Duration,
}

impl Walk {
    fn over(places: &[Place]) -> Self {
        let dir = |place: &Place| Some((Dir::read_from(&place.dir).ok()?, place.shared));
        Self { open: places.iter().filter_map(dir).collect(), ..Self::default() }
    }

    /// Goes on until `end`; true when all was seen.
    fn step(&mut self, end: Instant) -> bool {
        for count in 0u32.. {
            // Looking at the clock costs as much as a few entries.
            if count % 64 == 63 && Instant::now() >= end {
                return false;
            }
            if !self.advance() {
                return true;
            }
        }
        true
    }

    fn advance(&mut self) -> bool {
        let deep = self.open.len() > DEEPEST;
        let Some((dir, shared)) = self.open.last_mut() else { return false };
        let shared = *shared;
        let Some(Ok(entry)) = dir.read() else {
            self.open.pop();
            return true;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return true;
        }
        let Ok(fd) = dir.fd() else { return true };
        let Ok(found) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return true;
        };
        let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
        let bytes = blocks.saturating_mul(512).max(ENTRY_BYTES);
        if FileType::from_raw_mode(found.st_mode).is_dir() {
            let below = open_dir(fd, name, OFlags::NOFOLLOW).and_then(|fd| Dir::new(fd).ok());
            match below {
                // What was there before the job is not its doing.
                Some(_) if deep => self.too_deep |= !shared,
                Some(below) => self.open.push((below, shared)),
                None => {}
            }
        }
        let sum = if shared { &mut self.shared } else { &mut self.own };
        *sum = sum.saturating_add(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(dir: &Path) -> Walk {
        let place = Place::open(dir.as_os_str(), false).unwrap();
        let mut walk = Walk::over(&[place]);
        while !walk.step(Instant::now()) {}
        walk
    }

    #[test]
    fn counts_blocks_and_entries_and_follows_no_link() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("big"), vec![1; 8 << 20]).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for number in 0..300 {
            std::fs::write(dir.path().join(format!("sub/{number}")), "").unwrap();
        }
        std::fs::write(dir.path().join("sub/some"), vec![1; 1 << 20]).unwrap();
        let held = measured(dir.path()).own;
        assert!(held >= (1 << 20) + 300 * ENTRY_BYTES, "{held}");
        assert!(held < 4 << 20, "{held}");
    }

    #[test]
    fn what_lies_too_deep_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", DEEPEST + 2).collect();
        std::fs::create_dir_all(dir.path().join(&deep)).unwrap();
        assert!(measured(dir.path()).too_deep);
        assert!(!measured(&dir.path().join("d/d/d")).too_deep);
    }

    #[test]
    fn a_hole_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        assert!(measured(dir.path()).own < 1 << 20);
    }
}
