//! The warden's own namespaces, in which workspaces' overlays are mounted: every job's view descends
//! from them, so that a job can be given the very mount that the engine works in.
//!
//! Entered once, before the first job. A kind of namespace is tried in a process of its own first, so
//! that a refusal leaves the warden as it was. Never here: a job.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, WaitOptions};

use super::super::jail::{self, AtStep};
use super::super::sys::{self, Forked};

/// What kind of namespaces the warden is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Realm {
    /// A mount namespace of root's.
    Root,
    /// A user namespace of its own and a mount namespace in it.
    User,
}

/// Enters the first kind that this system grants. As root that is root's own, because directories of
/// a lower layer can be renamed in its overlays.
///
/// # Errors
/// In words, why there is none: overlays of workspaces can't be mounted then.
pub(super) fn enter() -> Result<Realm, String> {
    let root = rustix::process::geteuid().is_root();
    let kinds: &[Realm] = if root { &[Realm::Root, Realm::User] } else { &[Realm::User] };
    let mut refusals = Vec::new();
    for kind in kinds {
        match kind.attempt().and_then(|()| kind.enter()) {
            Ok(()) => return Ok(*kind),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(refusals.join("; "))
}

impl Realm {
    /// Tries it, with a mount, in a process that ends with that.
    fn attempt(self) -> Result<(), String> {
        let (reader, writer) = rustix::pipe::pipe().at_step("make a pipe")?;
        let pid = match sys::fork_into(0).at_step("fork")? {
            Forked::Parent(pid) => pid,
            Forked::Child => {
                let tried = self.enter().and_then(|()| jail::mount_something());
                let (text, code) =
                    tried.map_or_else(|refusal| (refusal, 1), |()| (String::new(), 0));
                let _ = rustix::io::write(&writer, text.as_bytes());
                sys::exit_now(code)
            }
        };
        drop(writer);
        let mut text = vec![0; 512];
        let length = rustix::io::read(&reader, &mut text).unwrap_or(0);
        if waited(pid) == Some(0) {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    fn enter(self) -> Result<(), String> {
        match self {
            Self::Root => sys::try_unshare(libc::CLONE_NEWNS).at_step("enter a mount namespace")?,
            Self::User => enter_user_namespace()?,
        }
        // What the host mounts later is still seen, and nothing gets out.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .at_step("keep the mount namespace's mounts to itself")
    }
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
