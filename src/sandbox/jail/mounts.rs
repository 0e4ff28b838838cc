//! Detached mounts: made while the host's tree is still there, placed later (`view`).
//!
//! Never here: paths of the job's view.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags};

use super::super::sys::{self, MountAttributes};
use super::view::{AtStep, What};

/// Size of the root and of `/dev`: they hold mount points and links only.
const SKELETON_BYTES: u64 = 4 << 20;
/// Size of the private `/tmp` and of `/dev/shm`.
const TMP_BYTES: u64 = 2 << 30;

/// A detached bind mount of a path of the host, symbolic links followed.
pub(super) fn bind(from: &Path, read_only: bool) -> Result<What, String> {
    let what = clone_of(from)?;
    if let What::Tree(fd) | What::File(fd) = &what {
        let attributes = MountAttributes { read_only, no_devices: true };
        sys::mount_setattr(fd.as_fd(), attributes, true)
            .at_step(format_args!("restrict the mount of {}", from.display()))?;
    }
    Ok(what)
}

/// A detached bind mount of a device file, which stays usable.
pub(super) fn device(from: &Path) -> Result<What, String> {
    let what = clone_of(from)?;
    if let What::Tree(fd) | What::File(fd) = &what {
        let attributes = MountAttributes { read_only: false, no_devices: false };
        sys::mount_setattr(fd.as_fd(), attributes, false)
            .at_step(format_args!("restrict the mount of {}", from.display()))?;
    }
    Ok(what)
}

fn clone_of(from: &Path) -> Result<What, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let step = format_args!("open {} to bind it", from.display()).to_string();
    let fd = rustix::mount::open_tree(CWD, from, flags).at_step(&step)?;
    let kind = rustix::fs::fstat(&fd).at_step(&step)?.st_mode;
    let directory = rustix::fs::FileType::from_raw_mode(kind).is_dir();
    Ok(if directory { What::Tree(fd) } else { What::File(fd) })
}

/// A detached file system in memory, of at most `bytes` bytes.
pub(super) fn tmpfs(bytes: u64, mode: &str) -> Result<OwnedFd, String> {
    let bytes = bytes.max(4096).to_string();
    new_mount("tmpfs", MountAttrFlags::MOUNT_ATTR_NODEV, |fs| {
        rustix::mount::fsconfig_set_string(fs, "size", bytes.as_str())?;
        rustix::mount::fsconfig_set_string(fs, "mode", mode)
    })
}

/// The `/tmp` of a job, or its `/dev/shm`.
pub(super) fn private_tmp() -> Result<OwnedFd, String> {
    tmpfs(TMP_BYTES, "1777")
}

/// An empty tree to place other things in.
pub(super) fn skeleton() -> Result<OwnedFd, String> {
    tmpfs(SKELETON_BYTES, "0755")
}

/// Pseudo terminals that no other job sees.
pub(super) fn devpts() -> Result<OwnedFd, String> {
    new_mount("devpts", MountAttrFlags::MOUNT_ATTR_NOEXEC, |fs| {
        rustix::mount::fsconfig_set_flag(fs, "newinstance")?;
        rustix::mount::fsconfig_set_string(fs, "ptmxmode", "0666")?;
        rustix::mount::fsconfig_set_string(fs, "mode", "0620")
    })
}

/// The job's own `/proc`, read-only: as root without a user mapping of its own a job could else
/// write the host's sysctls, which check for user 0 and not for a capability.
pub(super) fn procfs(process_limit: Option<u64>) -> Result<OwnedFd, String> {
    let flags = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = new_mount("proc", flags, |_| Ok(()))?;
    if let Some(limit) = process_limit {
        write_in(&proc, "sys/kernel/pid_max", &limit.max(301).to_string())
            .at_step("limit the number of processes")?;
    }
    let attributes = MountAttributes { read_only: true, no_devices: true };
    sys::mount_setattr(proc.as_fd(), attributes, false).at_step("make /proc read-only")?;
    Ok(proc)
}

fn write_in(dir: &OwnedFd, path: &str, text: &str) -> rustix::io::Result<()> {
    let file = rustix::fs::openat(dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

fn new_mount(
    kind: &str,
    flags: MountAttrFlags,
    configure: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
) -> Result<OwnedFd, String> {
    let make = || {
        let fs = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        configure(&fs)?;
        rustix::mount::fsconfig_create(&fs)?;
        let flags = flags | MountAttrFlags::MOUNT_ATTR_NOSUID;
        rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags)
    };
    make().at_step(format_args!("mount a new {kind}"))
}

/// A detached overlay. Inside a user namespace its marks are attributes that a user may set.
pub(super) fn overlay(
    lower: &[OsString],
    upper: &OsStr,
    work: &OsStr,
    user_namespace: bool,
) -> Result<OwnedFd, String> {
    let joined = join_lower(lower);
    new_mount("overlay", MountAttrFlags::MOUNT_ATTR_NODEV, |fs| {
        rustix::mount::fsconfig_set_string(fs, "lowerdir", joined.as_os_str())?;
        rustix::mount::fsconfig_set_string(fs, "upperdir", upper)?;
        rustix::mount::fsconfig_set_string(fs, "workdir", work)?;
        if user_namespace {
            rustix::mount::fsconfig_set_flag(fs, "userxattr")?;
        }
        Ok(())
    })
    .map_err(|error| format!("overlay with upper {}: {error}", upper.display()))
}

/// The layers in overlayfs's own syntax: `:` between them, `\` before a `:` or a `\` of a name.
fn join_lower(lower: &[OsString]) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut joined = Vec::new();
    for (index, layer) in lower.iter().enumerate() {
        if index > 0 {
            joined.push(b':');
        }
        for &byte in layer.as_bytes() {
            if matches!(byte, b':' | b'\\') {
                joined.push(b'\\');
            }
            joined.push(byte);
        }
    }
    OsString::from_vec(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_colons_and_backslashes_are_escaped() {
        let lower = ["/a:b".into(), "/c\\d".into()];
        assert_eq!(join_lower(&lower), "/a\\:b:/c\\\\d");
    }
}
