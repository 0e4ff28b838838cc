//! Which process it was: an id that the kernel uses again, made unique by start time and boot.
//!
//! Works with `/proc` and pidfds. Never here: which processes are to end.

use std::collections::HashSet;

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::descent;

/// A process, told from every other one that has or will have its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its id in the namespace of the one who asked.
    pub pid: i32,
    /// When it started, in clock ticks since the boot: field 22 of `/proc/PID/stat` (proc(5)).
    pub start: u64,
    /// The boot, from `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
}

impl ProcessId {
    /// The process that has this id now, if one has.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may hold anything; field 22 is the twentieth behind it.
        let start = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, start, boot: boot() })
    }

    /// The calling process.
    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Whether this very process is alive, or dead and not yet waited for.
    pub fn is_there(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Kills this very process and what is below it; true when it was there. Another process that has
    /// its id now is left alone: the kernel's handle is taken first and the identity checked behind it,
    /// so that the id can't change hands in between.
    pub fn kill(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) else { return false };
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        if !self.is_there() {
            return false;
        }
        descent::kill_below(pid, &HashSet::new(), descent::PATIENCE);
        rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }
}

fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_with_the_same_id_is_another_one() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_there() && !own.boot.is_empty());
        let earlier = ProcessId { start: own.start - 1, ..own.clone() };
        let rebooted = ProcessId { boot: "another".into(), ..own.clone() };
        // Were one of them taken for this process, the test would end here.
        for stranger in [earlier, rebooted] {
            assert!(!stranger.is_there() && !stranger.kill());
        }
        assert!(!ProcessId { pid: 1, ..own.clone() }.kill() && !ProcessId { pid: 0, ..own }.kill());
    }
}
