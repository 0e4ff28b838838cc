//! Processes by descent, for the tiers without a process namespace: who was started by whom.
//!
//! Works with `/proc` of the host and with signals. A descendant whose parent died is found at the
//! subreaper above it, so none is lost while a subreaper of the job or the warden lives. Looking at
//! `/proc` is slower than a process can fork, so that seeing nothing proves nothing: only a subreaper
//! that the kernel tells of no child has none ([`end_children`]). Never here: jobs.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// How long the end of a tree is tried for before survivors are named.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How often in a row nothing must be seen where only looking is possible.
const QUIET: u32 = 8;

/// Kills every process below the calling one, which must be a subreaper, and reaps them. True when the
/// kernel says that no child is left, which proves that no descendant is; false after `patience`.
pub(super) fn end_children(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let mut hunt = Hunt::default();
    loop {
        if reap_all() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        hunt.strike(&below(rustix::process::getpid(), &HashSet::new()));
        std::thread::yield_now();
    }
}

/// Kills every process below `root` but `except` and what is below those, as far as it can be seen,
/// and reaps those that are the caller's own children. Answers what is still alive after `patience`.
pub(super) fn kill_below(root: Pid, except: &HashSet<Pid>, patience: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + patience;
    let (mut hunt, mut quiet) = (Hunt::default(), 0);
    loop {
        let alive = below(root, except);
        quiet = if alive.is_empty() { quiet + 1 } else { 0 };
        hunt.strike(&alive);
        hunt.reap();
        if quiet == QUIET || Instant::now() > deadline {
            return alive.into_iter().map(|process| process.pid).collect();
        }
        std::thread::yield_now();
    }
}

/// Signals every process below `root`.
pub(super) fn signal_below(root: Pid, signal: Signal) {
    for process in below(root, &HashSet::new()) {
        let _ = rustix::process::kill_process(process.pid, signal);
    }
}

/// What was seen while a tree is being killed.
#[derive(Default)]
struct Hunt {
    seen: HashSet<Pid>,
    groups: HashSet<Pid>,
}

impl Hunt {
    /// Kills what was seen, and every process group that was seen. The kernel signals a group at one
    /// stroke, so that what is born again and again in one of them can't slip through.
    fn strike(&mut self, alive: &[Process]) {
        self.seen.extend(alive.iter().map(|process| process.pid));
        let own = rustix::process::getpgrp();
        let groups = alive.iter().filter_map(|process| process.group);
        // A job has a session of its own, so that only what has not started yet is in this group.
        self.groups.extend(groups.filter(|group| *group != own));
        // Stopped first, so that a process can't fork between being seen and being killed.
        for signal in [Signal::STOP, Signal::KILL] {
            for process in alive {
                let _ = rustix::process::kill_process(process.pid, signal);
            }
            self.groups.retain(|&group| {
                rustix::process::kill_process_group(group, signal) != Err(Errno::SRCH)
            });
        }
    }

    /// Waits for those that are the caller's own children and dead.
    fn reap(&self) {
        for &pid in &self.seen {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Reaps every dead child; true when there is no child at all.
fn reap_all() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Every living process below `root`, as far as it can be seen.
pub(super) fn living_below(root: Pid) -> Vec<Pid> {
    below(root, &HashSet::new()).into_iter().map(|process| process.pid).collect()
}

/// Every living process below `root`, `root` left out, without `except` and what is below those.
fn below(root: Pid, except: &HashSet<Pid>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if except.contains(&child.pid) {
                continue;
            }
            // A zombie is nothing to kill, but a child of it may have been seen before it died.
            open.push(child.pid.as_raw_nonzero().get());
            if child.living {
                found.push(child);
            }
        }
    }
    found
}

/// A process as `/proc` shows it.
struct Process {
    pid: Pid,
    parent: i32,
    group: Option<Pid>,
    /// False for a zombie.
    living: bool,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|number: u32| Pid::from_raw(i32::try_from(number).ok()?))
        .filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            parse(pid, &stat)
        })
        .collect()
}

/// From a line of `/proc/PID/stat`. The name in it may hold spaces and brackets.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let (state, parent) = (words.next()?, words.next()?.parse().ok()?);
    // The kernel shows -1 for a process that is being reaped.
    let group = words.next()?.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw);
    Some(Process { pid, parent, group, living: !matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        let process = parse(Pid::INIT, "12 (a) S 9 (x)) R 7 13 12").unwrap();
        assert_eq!((process.parent, process.group, process.living), (7, Pid::from_raw(13), true));
        assert!(!parse(Pid::INIT, "12 (a) Z 7 12 12").unwrap().living);
        assert_eq!(parse(Pid::INIT, "12 (a) X 0 -1 -1").unwrap().group, None);
    }
}
