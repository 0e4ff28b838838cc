//! Detached mounts: made while the host's tree is still there, placed later (`view`).
//!
//! Never here: paths of the job's view.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::super::sys::{self, MountAttributes};
use super::view::{AtStep, What};

/// Size of the root and of `/dev`: they hold mount points and links only.
const SKELETON_BYTES: u64 = 4 << 20;
/// What an entry of a file system in memory counts, in bytes.
const PAGE: u64 = 4096;
/// Entries that even the smallest one may have.
const LEAST_ENTRIES: u64 = 1024;
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

/// A detached file system in memory, of at most `bytes` bytes. An entry counts as a page: an empty file
/// takes the kernel's memory, which the size alone does not bound.
pub(super) fn tmpfs(bytes: u64, mode: &str) -> Result<OwnedFd, String> {
    let bytes = bytes.max(PAGE);
    let entries = (bytes / PAGE).max(LEAST_ENTRIES).to_string();
    let bytes = bytes.to_string();
    new_mount("tmpfs", MountAttrFlags::MOUNT_ATTR_NODEV, |fs| {
        rustix::mount::fsconfig_set_string(fs, "size", bytes.as_str())?;
        rustix::mount::fsconfig_set_string(fs, "nr_inodes", entries.as_str())?;
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

/// A detached mount of an empty file, which is made at `path`.
pub(super) fn empty_file(path: &Path) -> Result<OwnedFd, String> {
    let make = || {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::from_raw_mode(0o444))?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        rustix::mount::open_tree(CWD, path, flags)
    };
    make().at_step("make an empty file")
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

/// A detached overlay. Inside a user namespace its marks are attributes that a user may set; elsewhere
/// directories of a lower layer can be renamed. A `once` overlay is never mounted again on its upper
/// directory, so that nothing needs to be brought to the disk for it.
///
/// The layers are opened first and named by descriptor: their names may be as long as they like and
/// hold whatever they like.
pub(super) fn overlay(
    lower: &[OsString],
    upper: &OsStr,
    work: &OsStr,
    user_namespace: bool,
    once: bool,
) -> Result<OwnedFd, String> {
    let opened = lower.iter().map(OsString::as_os_str).chain([upper, work]).map(open_layer);
    let opened = opened.collect::<Result<Vec<OwnedFd>, String>>()?;
    let names: Vec<String> =
        opened.iter().map(|fd| format!("/proc/self/fd/{}", fd.as_raw_fd())).collect();
    let (lower, ends) = names.split_at(lower.len());
    let mount = |once: bool| {
        new_mount("overlay", MountAttrFlags::MOUNT_ATTR_NODEV, |fs| {
            set_lower(fs, lower)?;
            rustix::mount::fsconfig_set_string(fs, "upperdir", ends[0].as_str())?;
            rustix::mount::fsconfig_set_string(fs, "workdir", ends[1].as_str())?;
            if user_namespace {
                rustix::mount::fsconfig_set_flag(fs, "userxattr")?;
            } else {
                rustix::mount::fsconfig_set_string(fs, "redirect_dir", "on")?;
                rustix::mount::fsconfig_set_string(fs, "metacopy", "off")?;
            }
            if once { rustix::mount::fsconfig_set_flag(fs, "volatile") } else { Ok(()) }
        })
    };
    // Kernels before 5.10 have no volatile ones.
    let made = mount(once).or_else(|error| if once { mount(false) } else { Err(error) });
    made.map_err(|error| format!("overlay with upper {}: {error}", upper.display()))
}

/// The longest value that the system takes of one option, in bytes.
const LONGEST: usize = 255;

/// Names the lower layers, the topmost first. More than one value can hold go one by one, which takes
/// Linux 6.5.
fn set_lower(fs: &OwnedFd, lower: &[String]) -> rustix::io::Result<()> {
    let joined = lower.join(":");
    if joined.len() <= LONGEST {
        return rustix::mount::fsconfig_set_string(fs, "lowerdir", joined);
    }
    lower
        .iter()
        .try_for_each(|layer| rustix::mount::fsconfig_set_string(fs, "lowerdir+", layer.as_str()))
}

fn open_layer(path: &OsStr) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .at_step(format_args!("open the layer {}", path.display()))
}

/// Mounts an overlay on `root` in a directory that holds `upper` and `work`, too; with `memory` these
/// three are made in a file system in memory of at most so many bytes. Gives its top and its upper
/// directory.
pub(in super::super) fn mount_overlay(
    lower: &[OsString],
    dir: &Path,
    memory: Option<u64>,
    user_namespace: bool,
) -> Result<[OwnedFd; 2], String> {
    if let Some(bytes) = memory {
        attach(&tmpfs(bytes, "0700")?, dir)?;
        for name in ["upper", "work", "root"] {
            make_directory(&dir.join(name))?;
        }
    }
    let [upper, work, root] = ["upper", "work", "root"].map(|name| dir.join(name));
    let mounted = overlay(lower, upper.as_os_str(), work.as_os_str(), user_namespace, true)
        .and_then(|mount| attach(&mount, &root))
        .and_then(|()| Ok([open_directory(&root)?, open_directory(&upper)?]));
    if mounted.is_err() {
        unmount_overlay(dir, memory.is_some());
    }
    mounted
}

/// Lets an overlay of [`mount_overlay`] go. That it is gone is no error.
pub(in super::super) fn unmount_overlay(dir: &Path, memory: bool) {
    let _ = rustix::mount::unmount(dir.join("root"), UnmountFlags::DETACH);
    if memory {
        let _ = rustix::mount::unmount(dir, UnmountFlags::DETACH);
    }
}

fn attach(mount: &OwnedFd, at: &Path) -> Result<(), String> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", CWD, at, flags)
        .at_step(format_args!("mount at {}", at.display()))
}

fn make_directory(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    // What is merged shows the mode of the upper directory.
    std::fs::DirBuilder::new()
        .mode(0o755)
        .create(path)
        .at_step(format_args!("make {}", path.display()))
}

fn open_directory(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).at_step(format_args!("open {}", path.display()))
}

/// Whether anything can be mounted at all: a file system in memory over `/`, in namespaces that end
/// with the caller.
pub(in super::super) fn mount_something() -> Result<(), String> {
    attach(&skeleton()?, Path::new("/"))
}
