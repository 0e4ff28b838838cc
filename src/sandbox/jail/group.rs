//! Control groups: limits of a whole job, for root, whom the limits by process do not bind.
//!
//! Used where the warden may make groups, in both versions of the interface; where it may not, the
//! limits by process and by namespace are all there is. Never here: killing.

use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::super::leftover;
use super::super::warden::proto::WireSpec;

const MOUNT: &str = "/sys/fs/cgroup";
/// Where the calling process stands, one hierarchy a line.
const OWN: &str = "/proc/self/cgroup";
const PREFIX: &str = "bakeoff-";

/// A job's groups. Removed when dropped, which needs all of the job's processes to be dead.
#[derive(Debug)]
pub(in super::super) struct Group(Vec<PathBuf>);

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.0 {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Group {
    /// Makes groups with the job's limits, as many as the system allows. None for an ordinary user.
    pub(in super::super) fn make(spec: &WireSpec, id: u64) -> Self {
        let mut group = Self(Vec::new());
        if rustix::process::geteuid().is_root() {
            let name = leftover::name(PREFIX, &id.to_string());
            // The init counts, too.
            let processes = spec.processes.saturating_add(1).to_string();
            let memory = spec.memory_bytes.to_string();
            let limits = [
                ("pids.max", processes.as_str()),
                ("memory.limit_in_bytes", memory.as_str()),
                ("memory.max", memory.as_str()),
            ];
            for place in places() {
                group.limit(&place.join(&name), &limits);
            }
        }
        group
    }

    /// One group, kept when at least one limit could be set.
    fn limit(&mut self, dir: &Path, limits: &[(&str, &str)]) {
        if std::fs::create_dir(dir).is_err() {
            return;
        }
        let set = |(file, limit): &(&str, &str)| {
            // A file that is not there would be made as a plain one where no group is mounted.
            let path = dir.join(file);
            path.exists() && std::fs::write(path, limit).is_ok()
        };
        if limits.iter().map(set).filter(|set| *set).count() == 0 {
            let _ = std::fs::remove_dir(dir);
            return;
        }
        self.0.push(dir.to_owned());
    }

    /// Lets none of the job's processes fork any more, where there is a group that can.
    pub(in super::super) fn forbid_forks(&self) {
        for limit in self.0.iter().map(|dir| dir.join("pids.max")).filter(|file| file.exists()) {
            let _ = std::fs::write(limit, "0");
        }
    }

    /// Puts a job's init into them.
    pub(super) fn add(&self, pid: Pid) -> Result<(), String> {
        self.0.iter().try_for_each(|dir| {
            std::fs::write(dir.join("cgroup.procs"), pid.as_raw_nonzero().to_string())
                .map_err(|error| format!("enter the control group {}: {error}", dir.display()))
        })
    }
}

/// Where groups of jobs may stand: below the warden's own, so that its limits go on to hold. A group
/// of version 2 that has processes may have none below it with limits, so that there the one above
/// it is tried, too.
fn places() -> Vec<PathBuf> {
    let own = std::fs::read_to_string(OWN).unwrap_or_default();
    own.lines().flat_map(places_of).collect()
}

/// Of one line, `NUMBER:CONTROLLERS:PATH`.
fn places_of(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let inside = path.trim_start_matches('/');
    match controllers {
        "pids" | "memory" => vec![Path::new(MOUNT).join(controllers).join(inside)],
        "" => {
            let own = Path::new(MOUNT).join(inside);
            let above = own.parent().filter(|above| above.starts_with(MOUNT)).map(Path::to_owned);
            [Some(own), above].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// Removes the groups of wardens that were killed before they could.
pub(in super::super) fn sweep() {
    for dir in places().iter().flat_map(|place| leftover::of_the_dead(place, PREFIX)) {
        let _ = std::fs::remove_dir(dir);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn groups_stand_below_the_wardens_own() {
        let paths = |line| {
            super::places_of(line).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("8:pids:/"), ["/sys/fs/cgroup/pids/"]);
        assert_eq!(paths("4:memory:/a/b"), ["/sys/fs/cgroup/memory/a/b"]);
        assert_eq!(
            paths("0::/user.slice/x.scope"),
            ["/sys/fs/cgroup/user.slice/x.scope", "/sys/fs/cgroup/user.slice"]
        );
        assert_eq!(paths("0::/"), ["/sys/fs/cgroup/"]);
        assert!(paths("2:cpu:/").is_empty());
    }
}
