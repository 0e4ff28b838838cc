//! A job's own view of the file system: a new root, in which only what was asked for is mounted.
//!
//! Runs in the job's init, in new user and mount namespaces. Every source is opened as a detached
//! mount while the host's tree is still there; then the root is changed, and only then are paths of
//! the view looked up, so that no symbolic link in the view can lead to the host. Never here: what a
//! job may do (that is `seccomp` and `limits`).

use std::fmt::Display;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MountPropagationFlags, MoveMountFlags, UnmountFlags};

use super::super::sys::{self, MountAttributes};
use super::super::warden::proto::WireMount;
use super::mounts::{self, bind, overlay, procfs, tmpfs};
use super::system;

/// Where the root has an empty file for an instant.
const EMPTY: &str = "/.empty";

/// Names the step that failed, so that an operator can tell what to change.
pub(in super::super) trait AtStep<T> {
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
    /// What hides the file or directory that is there.
    Cover,
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
        WireMount::Covered { at } => (at, What::Cover),
        WireMount::Overlay { lower, upper, work, at } => {
            (at, What::Tree(overlay(lower, upper, work, user_namespace, false)?))
        }
    };
    let at = PathBuf::from(at);
    let plain = at.is_absolute() && !at.components().any(|part| part.as_os_str() == "..");
    if !plain {
        return Err(format!("mount at {}: give an absolute path without `..`", at.display()));
    }
    Ok(Part { at, what })
}

/// Makes an empty root, enters it and lets the host's tree go.
fn new_root() -> Result<OwnedFd, String> {
    let root = mounts::skeleton()?;
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
        What::Cover => cover(at).at_step(format_args!("keep {} from the job", at.display())),
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

/// Puts an empty directory or file that can't be written over the one that is there. Nobody can move or
/// remove a place where something is mounted.
fn cover(at: &Path) -> Result<(), String> {
    let kind = at.symlink_metadata().map_err(|error| error.to_string())?.file_type();
    let mount = if kind.is_dir() {
        tmpfs(0, "0555")?
    } else if kind.is_file() {
        mounts::empty_file(Path::new(EMPTY))?
    } else {
        return Err("it is neither a file nor a directory".to_owned());
    };
    let attributes = MountAttributes { read_only: true, no_devices: true };
    sys::mount_setattr(mount.as_fd(), attributes, false).map_err(|error| error.to_string())?;
    // Not through a link that was swapped in since.
    rustix::mount::move_mount(&mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| error.to_string())?;
    // What is mounted needs no name, but takes none away from a file while it is detached.
    let _ = std::fs::remove_file(EMPTY);
    Ok(())
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
