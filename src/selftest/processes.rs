//! Which processes there are, read from `/proc` and not from the engine's own tables. Never here: starting or
//! ending one.

use std::collections::BTreeMap;
use std::fs;

/// A process, told apart from a later one of the same number by its start time.
pub(super) struct Process {
    pub pid: u32,
    start: String,
}

impl Process {
    /// Whether it has not ended.
    pub(super) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|now| now.1 == self.start)
    }

    /// Its command line, with a blank between the words.
    pub(super) fn command(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
    }
}

/// A process's parent and start time; nothing for one that has ended, waited for or not.
fn stat(pid: u32) -> Option<(u32, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ended = matches!(*fields.first()?, "Z" | "X");
    (!ended).then_some(())?;
    Some((fields.get(1)?.parse().ok()?, (*fields.get(19)?).to_owned()))
}

/// Every process below `top`, and `top` itself.
pub(super) fn descendants(top: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, (u32, String)> =
        pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let below = |mut pid: u32| {
        for _ in 0..64 {
            if pid == top {
                return true;
            }
            let Some((parent, _)) = all.get(&pid) else { return false };
            pid = *parent;
        }
        false
    };
    all.iter()
        .filter(|(pid, _)| below(**pid))
        .map(|(pid, (_, start))| Process { pid: *pid, start: start.clone() })
        .collect()
}
