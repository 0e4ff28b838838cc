//! A job's own view of the file system: a new root, in which only what was asked for is mounted.
//!
//! Runs in the job's init, in new user and mount namespaces. Every source is opened as a detached
//! mount while the host's tree is still there; then the root is changed, and only then are paths of
//! the view looked up, so that no symbolic link in the view can lead to the host. Never here: what a
//! job may do (that is `seccomp` and `limits`).

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::super::sys::{self, MountAttributes};
use super::super::warden::proto::WireMount;
use super::system;

/// Size of the root and of `/dev`: they hold mount points and links only.
const SKELETON_BYTES: u64 = 4 << 20;
/// Size of the private `/tmp` and of `/dev/shm`.
const TMP_BYTES: u64 = 2 << 30;

/// Names the step that failed, so that an operator can tell what to change.
pub(super) trait AtStep<T> {
    /// Turns an error into `STEP: REASON`.
    fn at_step(self, step: impl Display) -> Result<T, String>;
}

impl<T, E: Display> AtStep<T> for Result<T, E> {
    fn at_step(self, step: impl Display) -> Result<T, String> {
        self.map_err(|error| format!("{step}: {error}"))
    }
}

/// One entry of the view, in the order in which they are placed.
pub(super) struct Part {
    /// Where.
    pub at: PathBuf,
    /// What.
    pub what: What,
}

/// What an entry of the view is.
pub(super) enum What {
    /// A detached mount of a directory.
    Tree(OwnedFd),
    /// A detached mount of a file or a device.
    File(OwnedFd),
    /// A symbolic link.
    Link(PathBuf),
    /// A small file with this text.
    Text(String),
    /// An empty directory.
    Directory,
}

/// How the view is to be made.
pub(in super::super) struct ViewPlan<'a> {
    /// The job's mounts, in order.
    pub mounts: &'a [WireMount],
    /// Whether the process is in a user namespace of its own (overlays need an option there).
    pub user_namespace: bool,
    /// Whether the host's network is kept, so that names must be resolved as on the host.
    pub host_network: bool,
    /// The highest number of processes, where the kernel can hold to it by namespace.
    pub process_limit: Option<u64>,
}

/// Gives the calling process the view. On failure the answer names the step.
pub(super) fn enter(plan: &ViewPlan<'_>) -> Result<(), String> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at_step("make the mount namespace private")?;
    let mut parts = system::parts(plan.host_network)?;
    parts.push(Part { at: "/proc".into(), what: What::Tree(procfs(plan.process_limit)?) });
    for mount in plan.mounts {
        parts.push(part(mount, plan.user_namespace)?);
    }
    let root = new_root()?;
    for part in parts {
        place(&part)?;
    }
    let attributes = MountAttributes { read_only: true, no_devices: true };
    sys::mount_setattr(root.as_fd(), attributes, false).at_step("make the new root read-only")
}

fn part(mount: &WireMount, user_namespace: bool) -> Result<Part, String> {
    let (at, what) = match mount {
        WireMount::ReadOnly { from, at } => (at, bind(Path::new(from), true)?),
        WireMount::ReadWrite { from, at } => (at, bind(Path::new(from), false)?),
        WireMount::Tmp { at, bytes } => (at, What::Tree(tmpfs(*bytes, "0755")?)),
        WireMount::Overlay { lower, upper, work, at } => {
            (at, What::Tree(overlay(lower, upper, work, user_namespace)?))
        }
    };
    let at = PathBuf::from(at);
    let plain = at.is_absolute() && !at.components().any(|part| part.as_os_str() == "..");
    if !plain {
        return Err(format!("mount at {}: give an absolute path without `..`", at.display()));
    }
    Ok(Part { at, what })
}

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

/// A `/dev` to place devices in.
pub(super) fn dev_skeleton() -> Result<OwnedFd, String> {
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
fn procfs(process_limit: Option<u64>) -> Result<OwnedFd, String> {
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

fn overlay(
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

/// Makes an empty root, enters it and lets the host's tree go.
fn new_root() -> Result<OwnedFd, String> {
    let root = tmpfs(SKELETON_BYTES, "0755")?;
    // The mount point only matters for an instant: what it hides is open already.
    let point = ["/tmp", "/run", "/usr"].into_iter().find(|path| Path::new(path).is_dir());
    let point = point.ok_or("find a mount point for the new root: no /tmp, /run or /usr")?;
    rustix::mount::move_mount(&root, "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .at_step("mount the new root")?;
    rustix::process::fchdir(&root).at_step("enter the new root")?;
    rustix::process::pivot_root(".", ".").at_step("change the root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).at_step("let the host's tree go")?;
    rustix::process::chdir("/").at_step("enter the new root")?;
    Ok(root)
}

fn place(part: &Part) -> Result<(), String> {
    let at = part.at.as_path();
    let step = format_args!("place {}", at.display()).to_string();
    match &part.what {
        What::Directory => make_directories(at).at_step(step),
        What::Link(target) => {
            make_directories(at.parent().unwrap_or(at)).at_step(&step)?;
            std::os::unix::fs::symlink(target, at).at_step(step)
        }
        What::Text(text) => {
            make_directories(at.parent().unwrap_or(at)).at_step(&step)?;
            std::fs::write(at, text).at_step(step)
        }
        What::Tree(fd) => {
            make_directories(at).at_step(&step)?;
            put(fd, at).at_step(step)
        }
        What::File(fd) => {
            make_directories(at.parent().unwrap_or(at)).at_step(&step)?;
            make_file(at).at_step(&step)?;
            put(fd, at).at_step(step)
        }
    }
}

fn put(mount: &OwnedFd, at: &Path) -> rustix::io::Result<()> {
    // A link at the mount point is followed, as it is inside the view.
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
    rustix::mount::move_mount(mount, "", CWD, at, flags)
}

fn make_directories(at: &Path) -> std::io::Result<()> {
    if at.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(at)
}

fn make_file(at: &Path) -> std::io::Result<()> {
    if at.exists() {
        return Ok(());
    }
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(at).map(drop)
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
