//! Processes by descent, for the tiers without a process namespace: who was started by whom.
//!
//! Works with `/proc` of the host and with signals. A descendant whose parent died is found at the
//! subreaper above it, so none is lost while a subreaper of the job or the warden lives.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// How long the end of a tree is waited for before survivors are named.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Every living process below `root`, `root` left out.
pub(super) fn below(root: Pid) -> Vec<Pid> {
    below_except(root, &HashSet::new())
}

/// As [`below`], without the processes `except` and what is below those.
pub(super) fn below_except(root: Pid, except: &HashSet<Pid>) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            let Some(pid) = Pid::from_raw(child.pid).filter(|pid| !except.contains(pid)) else {
                continue;
            };
            // A zombie is nothing to kill, but a child of it may have been seen before it died.
            open.push(child.pid);
            if child.living {
                found.push(pid);
            }
        }
    }
    found
}

/// Signals every process below `root`.
pub(super) fn signal_below(root: Pid, signal: Signal) {
    for pid in below(root) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills every process below `root`, again and again until there is none, and reaps those that are
/// the caller's own children. Answers what is still alive after `patience`.
pub(super) fn kill_below(root: Pid, patience: Duration) -> Vec<Pid> {
    kill_until_gone(|| below(root), patience)
}

/// Kills what `find` finds until it finds nothing; answers what is still there after `patience`.
pub(super) fn kill_until_gone(find: impl Fn() -> Vec<Pid>, patience: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + patience;
    let mut seen = HashSet::new();
    let mut quiet = 0;
    loop {
        let alive = find();
        seen.extend(alive.iter().copied());
        // Processes are looked at one after another, so that one whose parent dies meanwhile can
        // be missed once, but not twice.
        quiet = if alive.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 || Instant::now() > deadline {
            reap(&seen);
            return alive;
        }
        // Stopped first, so that a process can't fork between being seen and being killed.
        for signal in [Signal::STOP, Signal::KILL] {
            for &pid in &alive {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        reap(&seen);
        std::thread::yield_now();
    }
}

/// Waits for those that are the caller's own children and dead.
fn reap(pids: &HashSet<Pid>) {
    for &pid in pids {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// A process as `/proc` shows it.
struct Process {
    pid: i32,
    parent: i32,
    /// False for a zombie.
    living: bool,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (state, parent) = state_and_parent(&stat)?;
            Some(Process { pid, parent, living: !matches!(state, "Z" | "X") })
        })
        .collect()
}

/// From a line of `/proc/PID/stat`. The name before it may hold spaces and brackets.
fn state_and_parent(stat: &str) -> Option<(&str, i32)> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((words.next()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(super::state_and_parent("12 (a) S 9 (x)) R 7 12 12"), Some(("R", 7)));
    }
}
