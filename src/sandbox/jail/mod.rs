//! One job's confinement: its namespaces, its init, its view, its limits.
//!
//! [`spawn`] forks the job's init into new namespaces and maps its ids; the rest happens in that
//! init (`init`), which forks once more for the job's program (`start`). Runs in the warden only,
//! which has one thread. Never here: several jobs, time, the engine.

mod group;
mod init;
mod landlock;
mod limits;
mod mounts;
mod scratch;
mod seccomp;
mod start;
mod system;
mod terminal;
mod view;

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use super::sys::{self, Forked};
use super::tier::Tier;
use super::warden::proto::{WireError, WireSpec};

pub(super) use group::Group;
pub(super) use mounts::{mount_overlay, mount_something, unmount_overlay};
pub(super) use scratch::Scratch;
pub(super) use seccomp::{Filters, Sockets};
pub(super) use view::AtStep;

/// Tidies up after wardens that were killed before they could.
pub(super) fn sweep() {
    group::sweep();
    scratch::sweep();
}

/// A started job, as the warden holds it.
#[derive(Debug)]
pub(super) struct Running {
    /// The job's init, a child of the warden.
    pub pid: Pid,
    /// Readable when the init is dead; in the strong tier every process of the job is dead then.
    pub pidfd: OwnedFd,
    /// Packets from and to the init.
    pub control: OwnedFd,
}

/// From the init to the warden, one packet each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The job has a terminal, whose master comes with this packet.
    Terminal,
    /// The program can't be run. The init ends.
    Failed(WireError),
    /// The program ended with this exit code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
}

/// From the warden to the init: set up and start.
pub(super) const GO: &[u8] = b"g";
/// From the warden to the init: ask all processes to end.
pub(super) const TERMINATE: &[u8] = b"t";
/// From the warden to the init of a weaker tier: kill all processes, and end when that is proven.
pub(super) const KILL: &[u8] = b"k";
/// Exit status of an init that proved that nothing of its job is alive.
pub(super) const PROVEN: i32 = 0;

/// What a job is made of, besides its description.
pub(super) struct Material<'a> {
    /// The job's description.
    pub spec: &'a WireSpec,
    /// How it is confined.
    pub tier: Tier,
    /// Its control groups.
    pub group: &'a Group,
    /// System calls that it can't make.
    pub filters: &'a Filters,
    /// Its standard input.
    pub stdin: OwnedFd,
    /// Its standard output and error.
    pub output: OwnedFd,
    /// A socket that it inherits, too.
    pub channel: Option<OwnedFd>,
}

/// Starts a job. When this returns, its init is running; whether the program could be started comes
/// as a [`Report`].
pub(super) fn spawn(material: Material<'_>) -> Result<Running, String> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .at_step("make the control socket")?;
    let group = material.group;
    let namespaces = namespaces_of(material.tier, material.spec.host_network);
    let (pid, user_namespace) = match fork_confined(namespaces)? {
        (Forked::Parent(pid), user_namespace) => (pid, user_namespace),
        (Forked::Child, user_namespace) => init::main(material, theirs, user_namespace),
    };
    drop(theirs);
    rustix::io::ioctl_fionbio(&ours, true).at_step("make the control socket")?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).at_step("open a pidfd")?;
    let running = Running { pid, pidfd, control: ours };
    if let Err(step) = release(&running, group, user_namespace) {
        running.discard();
        return Err(step);
    }
    Ok(running)
}

impl Running {
    /// Kills an init that has not started anything yet.
    fn discard(self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
    }
}

fn release(running: &Running, group: &Group, user_namespace: bool) -> Result<(), String> {
    group.add(running.pid)?;
    if user_namespace {
        map_ids(running.pid)?;
    }
    rustix::net::send(&running.control, GO, rustix::net::SendFlags::NOSIGNAL)
        .at_step("release the job's init")?;
    Ok(())
}

fn namespaces_of(tier: Tier, host_network: bool) -> libc::c_int {
    if tier != Tier::Namespaces {
        return 0;
    }
    let network = if host_network { 0 } else { libc::CLONE_NEWNET };
    network
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
}

/// Forks into the namespaces. Where user namespaces are refused and the caller is root, the others
/// are tried without one; the answer says whether there is one.
fn fork_confined(flags: libc::c_int) -> Result<(Forked, bool), String> {
    let user = flags & libc::CLONE_NEWUSER != 0;
    match sys::fork_into(flags) {
        Ok(forked) => Ok((forked, user)),
        Err(_) if user && rustix::process::geteuid().is_root() => {
            let forked = sys::fork_into(flags & !libc::CLONE_NEWUSER);
            let step = "create the namespaces, with a user namespace or as root without one";
            Ok((forked.at_step(step)?, false))
        }
        Err(error) if flags == 0 => Err(format!("fork: {error}")),
        Err(error) => Err(format!("create the user and other namespaces: {error}")),
    }
}

/// Maps ids one to one: all of them where that is allowed (root), else the caller's own.
pub(super) fn map_ids(pid: Pid) -> Result<(), String> {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    if rustix::process::geteuid().is_root() {
        let all = |file: &str| {
            let map = one_to_one(&std::fs::read_to_string(format!("/proc/self/{file}"))?);
            std::fs::write(format!("{dir}/{file}"), map)
        };
        if all("uid_map").and_then(|()| all("gid_map")).is_ok() {
            return Ok(());
        }
    }
    let write = |file: &str, text: String| {
        let path = format!("{dir}/{file}");
        std::fs::write(&path, text).at_step(format_args!("write {file}"))
    };
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{uid} {uid} 1", uid = uid.as_raw()))?;
    write("gid_map", format!("{gid} {gid} 1", gid = gid.as_raw()))
}

/// Each range of the caller's own map, onto itself.
fn one_to_one(map: &str) -> String {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (first, count) = (words.next()?, words.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranges_of_a_container_are_mapped_onto_themselves() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(super::one_to_one(map), "0 0 1\n1 1 65536\n");
    }
}
