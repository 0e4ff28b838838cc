//! Whether this machine has room for one more gate at this moment.
//!
//! A gate that runs alone always may. A further one needs memory, as much as the base's own gates were
//! seen to take, and cores that are not already fought over. Reads `/proc` and the control group; starts
//! nothing.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// What a gate is taken to need before one was seen.
const LEAST: u64 = 512 << 20;

/// How often the machine is looked at, while a gate is watched or waits.
const LOOK: Duration = Duration::from_millis(250);

/// A machine at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Memory that a new process can have, in bytes; none when it is not known.
    pub available: Option<u64>,
    /// Processes that ran or wanted to, over the last minute; none when it is not known.
    pub load: Option<f64>,
    /// Cores.
    pub cores: usize,
}

/// Tells how the machine stands.
pub trait Gauge: Send + Sync {
    /// Now.
    fn read(&self) -> Machine;
}

/// The machine that this runs on.
pub struct ThisMachine;

impl Gauge for ThisMachine {
    fn read(&self) -> Machine {
        let text = |path: &str| fs::read_to_string(path).ok();
        let system = text("/proc/meminfo").and_then(|text| available(&text));
        let group = text("/proc/self/cgroup").and_then(|text| group_room(&text));
        Machine {
            available: [system, group].into_iter().flatten().min(),
            load: text("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// `MemAvailable:   123 kB`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control group (version 2) that this process is in leaves of its limit.
fn group_room(cgroup: &str) -> Option<u64> {
    let inner = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut dir = PathBuf::from("/sys/fs/cgroup").join(inner.trim_start_matches('/'));
    let number = |dir: &Path, name: &str| {
        fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok()
    };
    let mut least = None;
    while dir.starts_with("/sys/fs/cgroup") {
        if let (Some(most), Some(now)) =
            (number(&dir, "memory.max"), number(&dir, "memory.current"))
        {
            // The cache of files goes when memory is wanted.
            let cache =
                fs::read_to_string(dir.join("memory.stat")).ok().and_then(|text| inactive(&text));
            let room = most.saturating_sub(now.saturating_sub(cache.unwrap_or(0)));
            least = Some(least.map_or(room, |other: u64| other.min(room)));
        }
        if !dir.pop() {
            break;
        }
    }
    least
}

fn inactive(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

/// Lets gates in while there is room.
pub struct Room {
    gauge: Arc<dyn Gauge>,
    /// The most memory that one job may take, in bytes.
    most: u64,
    /// What a gate was seen to take, in bytes.
    seen: AtomicU64,
    running: Mutex<usize>,
    ended: Notify,
}

/// A gate that was let in. Dropping it makes room.
pub struct Guest<'r>(&'r Room);

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.ended.notify_waiters();
    }
}

impl Room {
    /// Room on a machine, for gates of which each may take `most` bytes.
    pub fn new(gauge: Arc<dyn Gauge>, most: u64) -> Self {
        let (running, ended) = (Mutex::new(0), Notify::new());
        Self { gauge, most, seen: AtomicU64::new(0), running, ended }
    }

    fn count(&self) -> std::sync::MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for one more.
    pub async fn enter(&self) -> Guest<'_> {
        loop {
            let ended = self.ended.notified();
            {
                let machine = self.gauge.read();
                let mut running = self.count();
                if *running == 0 || self.fits(&machine, *running) {
                    *running += 1;
                    return Guest(self);
                }
            }
            // Memory comes back without a gate's end, too.
            let _ = tokio::time::timeout(LOOK, ended).await;
        }
    }

    /// Whether one more fits beside `running` others. What those have not taken yet is theirs.
    fn fits(&self, machine: &Machine, running: usize) -> bool {
        let need = self.need();
        let memory = machine.available.is_none_or(|free| free >= need.saturating_mul(2));
        // Gates make load themselves; more than twice the cores wanting to run is too much.
        let cores = running < machine.cores.max(1)
            && machine.load.is_none_or(|load| load <= 2.0 * machine.cores as f64 + running as f64);
        memory && cores
    }

    /// What one gate is taken to need, in bytes.
    fn need(&self) -> u64 {
        self.seen.load(Ordering::Relaxed).max(LEAST).min(self.most.max(1))
    }

    /// Runs the base's own gate, alone, and learns how much memory it takes from how much is gone.
    pub async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let before = self.gauge.read().available;
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(LOOK, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => {
                    if let (Some(before), Some(now)) = (before, self.gauge.read().available) {
                        self.seen.fetch_max(before.saturating_sub(now), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    struct Fake(Mutex<Machine>);

    impl Gauge for Fake {
        fn read(&self) -> Machine {
            *self.0.lock().unwrap()
        }
    }

    const GIB: u64 = 1 << 30;

    fn room(available: u64, load: f64, cores: usize) -> (Arc<Fake>, Room) {
        let machine = Machine { available: Some(available), load: Some(load), cores };
        let gauge = Arc::new(Fake(Mutex::new(machine)));
        (gauge.clone(), Room::new(gauge, 8 * GIB))
    }

    #[tokio::test]
    async fn the_first_always_may_and_a_second_only_with_memory() {
        let (gauge, room) = room(100, 0.0, 4);
        let first = room.enter().await;
        assert!(room.enter().now_or_never().is_none());
        gauge.0.lock().unwrap().available = Some(4 * GIB);
        let second = room.enter().now_or_never().unwrap();
        // What was seen of a gate counts.
        room.seen.store(3 * GIB, Ordering::Relaxed);
        assert!(room.enter().now_or_never().is_none());
        drop((first, second));
        assert!(room.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn no_more_gates_than_cores_and_none_beside_others_load() {
        let (gauge, room) = room(64 * GIB, 1.0, 2);
        let _first = room.enter().await;
        let _second = room.enter().await;
        assert!(room.enter().now_or_never().is_none());
        gauge.0.lock().unwrap().cores = 4;
        let _third = room.enter().now_or_never().unwrap();
        gauge.0.lock().unwrap().load = Some(40.0);
        assert!(room.enter().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_let_in_when_another_ends_or_memory_comes_back() {
        let (gauge, room) = room(100, 0.0, 4);
        let first = room.enter().await;
        let (_, _second) = tokio::join!(async { drop(first) }, room.enter());
        let waits = async {
            tokio::time::sleep(LOOK * 3).await;
            gauge.0.lock().unwrap().available = Some(64 * GIB);
        };
        let (_, _third) = tokio::join!(waits, room.enter());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_base_takes_is_learnt() {
        let (gauge, room) = room(10 * GIB, 0.0, 4);
        let work = async {
            gauge.0.lock().unwrap().available = Some(7 * GIB);
            tokio::time::sleep(LOOK * 2).await;
            gauge.0.lock().unwrap().available = Some(10 * GIB);
            5
        };
        assert_eq!(room.watch(work).await, 5);
        assert_eq!(room.need(), 3 * GIB);
    }

    #[test]
    fn the_system_is_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   12 kB\n"), Some(12 << 10));
        assert_eq!(inactive("anon 1\ninactive_file 4096\n"), Some(4096));
        let machine = ThisMachine.read();
        assert!(machine.cores > 0 && machine.available.is_some_and(|bytes| bytes > 0));
    }
}
