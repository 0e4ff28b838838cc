//! The warden's own namespaces, in which workspaces' overlays are mounted: every job's view descends
//! from them, so that a job can be given the very mount that the engine works in.
//!
//! Entered once, before the first job. A kind of namespace is tried in a process of its own first, so
//! that a refusal leaves the warden as it was. Never here: a job.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions};

use super::super::jail::{self, AtStep};
use super::super::overlay::OverlayKind;
use super::super::sys::{self, Forked};
use super::files;

/// Enters the first kind of namespaces that this system grants. As root that is root's own, because directories of
/// a lower layer can be renamed in its overlays.
///
/// # Errors
/// In words, why there is none: overlays of workspaces can't be mounted then.
pub(super) fn enter() -> Result<OverlayKind, String> {
    let root = rustix::process::geteuid().is_root();
    let kinds =
        if root { &[OverlayKind::Root, OverlayKind::User][..] } else { &[OverlayKind::User] };
    let mut refusals = Vec::new();
    for kind in kinds {
        match attempt(*kind).and_then(|()| become_one(*kind)) {
            Ok(()) => return Ok(*kind),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(refusals.join("; "))
}

/// Tries a kind, with a mount, in a process that ends with that.
fn attempt(kind: OverlayKind) -> Result<(), String> {
    apart(kind, || jail::mount_something().map(|()| Vec::new())).map(drop)
}

/// Mounts an overlay in namespaces of a kind that the warden is not in. No job can be given it; it
/// lasts for as long as it is open.
pub(super) fn mount_apart(
    kind: OverlayKind,
    lower: &[OsString],
    dir: &Path,
    memory: Option<u64>,
) -> Result<Vec<OwnedFd>, String> {
    let user = kind == OverlayKind::User;
    apart(kind, || jail::mount_overlay(lower, dir, memory, user).map(Vec::from))
}

/// Does `work` in new namespaces of a process of its own, and gives the files that it opened.
fn apart(
    kind: OverlayKind,
    work: impl FnOnce() -> Result<Vec<OwnedFd>, String>,
) -> Result<Vec<OwnedFd>, String> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .at_step("make a socket")?;
    let pid = match sys::fork_into(0).at_step("fork")? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            let done = become_one(kind).and_then(|()| work());
            let (text, opened) = match done {
                Ok(opened) => (String::new(), opened),
                Err(refusal) => (refusal, Vec::new()),
            };
            let sent =
                files::send(&theirs, format!("{text}.").as_bytes(), &opened, SendFlags::NOSIGNAL);
            sys::exit_now(i32::from(sent.is_err()))
        }
    };
    drop(theirs);
    let mut text = vec![0; 1024];
    let mut opened = VecDeque::new();
    let length = files::receive(&ours, &mut text, &mut opened).unwrap_or(0);
    let _ = waited(pid);
    match text.get(..length) {
        Some(b".") => Ok(opened.into()),
        Some(refusal) if !refusal.is_empty() => {
            Err(String::from_utf8_lossy(refusal).trim_end_matches('.').to_owned())
        }
        _ => Err("the process that tried it ended early".into()),
    }
}

fn become_one(kind: OverlayKind) -> Result<(), String> {
    match kind {
        OverlayKind::Root => {
            sys::try_unshare(libc::CLONE_NEWNS).at_step("enter a mount namespace")?;
        }
        OverlayKind::User => enter_user_namespace()?,
    }
    // What the host mounts later is still seen, and nothing gets out.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .at_step("keep the mount namespace's mounts to itself")
}

/// Enters a user namespace whose ids are the caller's, mapped by a process that stays outside.
fn enter_user_namespace() -> Result<(), String> {
    let (reader, writer) = rustix::pipe::pipe().at_step("make a pipe")?;
    let me = rustix::process::getpid();
    let outside = match sys::fork_into(0).at_step("fork")? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            drop(writer);
            let mut word = [0; 1];
            let wanted = matches!(rustix::io::read(&reader, &mut word), Ok(1));
            let mapped = wanted && jail::map_ids(me).is_ok();
            sys::exit_now(i32::from(!mapped))
        }
    };
    drop(reader);
    let entered = sys::try_unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .at_step("enter a user and a mount namespace");
    if entered.is_ok() {
        let _ = rustix::io::write(&writer, b"m");
    }
    drop(writer);
    let mapped = waited(outside);
    entered?;
    if mapped == Some(0) { Ok(()) } else { Err("map the user namespace's ids".into()) }
}

fn waited(pid: Pid) -> Option<i32> {
    let status = rustix::process::waitpid(Some(pid), WaitOptions::empty()).ok()??;
    status.1.exit_status()
}
