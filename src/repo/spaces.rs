//! How workspaces are made on this system: which backends there are, each probed by doing, and which
//! one is taken.
//!
//! The first that works is taken, and all give the same workspace: the base tree, a worker's changes,
//! and a diff between the two. Never here: a mount (the warden makes them).

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::lease::Lease;
use crate::sandbox::{Overlay, OverlayKind, OverlaySpec, SandboxError, Warden};

/// The most bytes of changes that a workspace may hold whose upper directory is in memory.
pub(crate) const MEMORY: u64 = 2 << 30;

/// A way to make workspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// An overlay over the base layer that is mounted in a user namespace.
    UserOverlay,
    /// An overlay that root mounts.
    RootOverlay,
    /// An overlay whose upper directory is in memory.
    MemoryOverlay,
    /// A copy that shares its blocks with the base layer.
    Reflink,
    /// A copy.
    Copy,
}

impl Backend {
    /// Its name in records and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserOverlay => "overlay-user",
            Self::RootOverlay => "overlay-root",
            Self::MemoryOverlay => "overlay-memory",
            Self::Reflink => "reflink",
            Self::Copy => "copy",
        }
    }

    /// All, the best first.
    pub const ALL: [Self; 5] =
        [Self::UserOverlay, Self::RootOverlay, Self::MemoryOverlay, Self::Reflink, Self::Copy];

    /// Does with it what workers do.
    fn attempt(self, warden: &Warden, dir: &Path) -> Tried {
        let renames = match self {
            Self::UserOverlay => user_overlay(warden, dir),
            Self::RootOverlay if !rustix::process::geteuid().is_root() => {
                Err("only root can mount one outside of a user namespace".to_owned())
            }
            Self::RootOverlay => match own(warden, dir, None) {
                Ok((OverlayKind::User, _)) => {
                    Err("root is refused a mount namespace of its own".to_owned())
                }
                other => other.map(|(_, renames)| renames),
            },
            Self::MemoryOverlay => own(warden, dir, Some(MEMORY)).map(|(_, renames)| renames),
            Self::Reflink => by_reflink(dir),
            Self::Copy => Ok(true),
        };
        match renames {
            Ok(renames) => Tried { backend: self, trouble: None, renames },
            Err(trouble) => Tried { backend: self, trouble: Some(trouble), renames: false },
        }
    }

    fn is_overlay(self) -> bool {
        matches!(self, Self::UserOverlay | Self::RootOverlay | Self::MemoryOverlay)
    }
}

/// What trying a backend came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Which.
    pub backend: Backend,
    /// Why it can't be used, if it can't.
    pub trouble: Option<String>,
    /// Whether directories of the base can be renamed in one step; where not, `rename` fails with
    /// EXDEV and programs like `mv` copy instead.
    pub renames: bool,
}

/// How workspaces are made.
#[derive(Clone, Debug)]
pub struct Spaces {
    backend: Backend,
    tried: Vec<Tried>,
    warden: Option<Warden>,
    over: bool,
}

impl Spaces {
    /// Copies, without a probe: where there is no warden.
    pub fn copies() -> Self {
        Self { backend: Backend::Copy, tried: Vec::new(), warden: None, over: false }
    }

    /// Tries the backends in a directory on the file system where workspaces will lie, and takes the
    /// first that works. With `over`, jobs see a workspace at the user's repository path.
    pub fn probe(warden: &Warden, dir: &Path, over: bool) -> Self {
        let mut tried = Vec::new();
        for backend in Backend::ALL {
            tried.push(backend.attempt(warden, dir));
            if tried.last().is_some_and(|tried| tried.trouble.is_none()) {
                break;
            }
        }
        Self::of(warden, tried, over)
    }

    /// The same, and tries the others, too.
    pub fn try_all(warden: &Warden, dir: &Path, over: bool) -> Self {
        let tried = Backend::ALL.iter().map(|backend| backend.attempt(warden, dir)).collect();
        Self::of(warden, tried, over)
    }

    fn of(warden: &Warden, tried: Vec<Tried>, over: bool) -> Self {
        let good = tried.iter().find(|tried| tried.trouble.is_none());
        let backend = good.map_or(Backend::Copy, |tried| tried.backend);
        Self { backend, tried, warden: Some(warden.clone()), over }
    }

    /// The same, with another one of the backends that work.
    ///
    /// # Errors
    /// Why that one does not.
    pub fn with(mut self, backend: Backend) -> Result<Self, String> {
        let tried = self.tried.iter().find(|tried| tried.backend == backend);
        match tried.map(|tried| &tried.trouble) {
            Some(Some(trouble)) => return Err(trouble.clone()),
            None if backend != self.backend => return Err("it was not tried".to_owned()),
            _ => self.backend = backend,
        }
        Ok(self)
    }

    /// The backend that is taken.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// What was tried, in order.
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// Whether jobs see a workspace at the user's repository path.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a file system was found to hold no upper directory of an overlay.
    pub(crate) fn is_refused_on_disk(&self) -> bool {
        let on_disk = [Backend::UserOverlay, Backend::RootOverlay];
        let mut tried =
            self.tried.iter().filter(|tried| on_disk.contains(&tried.backend)).peekable();
        tried.peek().is_some() && tried.all(|tried| tried.trouble.is_some())
    }

    /// Mounts the overlay of a workspace, or gives nothing where workspaces are copies.
    pub(crate) fn mount(
        &self,
        dir: &Path,
        lower: Vec<PathBuf>,
    ) -> Option<Result<Overlay, SandboxError>> {
        let warden = self.warden.as_ref().filter(|_| self.backend.is_overlay())?;
        // The very kind that was tried: root of a container may not mount what root may.
        let (kind, memory) = match self.backend {
            Backend::UserOverlay => (Some(OverlayKind::User), None),
            Backend::MemoryOverlay => (None, Some(MEMORY)),
            _ => (None, None),
        };
        Some(mount(warden, dir, lower, Kind { kind, memory }))
    }
}

/// Which overlay: the warden's own kind unless one is named.
#[derive(Clone, Copy)]
struct Kind {
    kind: Option<OverlayKind>,
    memory: Option<u64>,
}

fn mount(
    warden: &Warden,
    dir: &Path,
    lower: Vec<PathBuf>,
    Kind { kind, memory }: Kind,
) -> Result<Overlay, SandboxError> {
    if memory.is_none() {
        lay_out(dir).map_err(|error| {
            SandboxError::Setup(format!("make the layers in {}: {error}", dir.display()))
        })?;
    }
    let spec = OverlaySpec { lower, dir: dir.to_owned(), kind, memory };
    warden.overlay(&spec).map_err(|error| match error {
        // The kernel says of a full disk that the operation is not permitted.
        SandboxError::Setup(_) if is_full(dir) => SandboxError::Setup(format!(
            "make the layers in {}: {}",
            dir.display(),
            std::io::Error::from(Errno::NOSPC)
        )),
        error => error,
    })
}

/// Whether not even an overlay's own few entries have room.
fn is_full(dir: &Path) -> bool {
    let state = rustix::fs::statvfs(dir);
    state.is_ok_and(|state| state.f_bavail * state.f_frsize < 64 << 10 || state.f_favail < 16)
}

fn lay_out(dir: &Path) -> std::io::Result<()> {
    for name in ["upper", "work", "root"] {
        fs::create_dir(dir.join(name))?;
    }
    // The merged view shows this mode at its top.
    fs::set_permissions(dir.join("upper"), fs::Permissions::from_mode(0o755))
}

/// One in the warden's own namespaces.
fn own(warden: &Warden, dir: &Path, memory: Option<u64>) -> Result<(OverlayKind, bool), String> {
    attempt(warden, dir, Kind { kind: None, memory })
}

/// One in a user namespace. Root can do without, and then it is tried and not taken: no directory of
/// the base could be renamed in it.
fn user_overlay(warden: &Warden, dir: &Path) -> Result<bool, String> {
    let kind = Kind { kind: Some(OverlayKind::User), memory: None };
    let (_, renames) = attempt(warden, dir, kind)?;
    if renames || !matches!(own(warden, dir, None), Ok((OverlayKind::Root, true))) {
        return Ok(renames);
    }
    Err("it works, but no directory of the base can be renamed in it, and root's own is taken"
        .into())
}

/// Mounts a small overlay and does in it what workers do.
fn attempt(warden: &Warden, dir: &Path, kind: Kind) -> Result<(OverlayKind, bool), String> {
    let told = |error: std::io::Error| format!("try in {}: {error}", dir.display());
    // Under a lease, so that it goes even when the engine is killed meanwhile.
    let name = format!("try-{}-{:08x}", std::process::id(), fastrand::u32(..));
    let lease = Lease::take(dir, &name, std::slice::from_ref(&name));
    let lease = lease.map_err(|error| error.to_string())?.ok_or("it is being tried already")?;
    let place = dir.join(name);
    let (lower, lane) = (place.join("lower"), place.join("lane"));
    fs::create_dir_all(lower.join("dir/below")).map_err(told)?;
    fs::create_dir(&lane).map_err(told)?;
    fs::write(lower.join("dir/below/file"), "base").map_err(told)?;
    fs::write(lower.join("gone"), "base").map_err(told)?;
    let overlay = mount(warden, &lane, vec![lower], kind).map_err(|error| error.to_string());
    let outcome = overlay.and_then(|overlay| {
        let renames = exercise(overlay.root.as_fd()).map_err(|(what, errno)| {
            format!("the overlay was mounted, but {what} in it failed: {errno}")
        });
        Ok(((overlay.kind, renames?), overlay.mounted))
    });
    lease.end().map_err(|error| error.to_string())?;
    outcome.map(|(found, _mounted)| found)
}

type Failed = (&'static str, Errno);

/// Reads, writes, deletes, makes again; whether a directory of the lower layer can be renamed.
fn exercise(root: impl AsFd) -> Result<bool, Failed> {
    let root = root.as_fd();
    let what = |what: &'static str| move |errno| (what, errno);
    let read = |path: &str| -> rustix::io::Result<Vec<u8>> {
        let file = rustix::fs::openat(root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = vec![0; 16];
        let length = rustix::io::read(&file, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    };
    let write = |path: &str| -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, path, flags, Mode::from_raw_mode(0o644))?;
        rustix::io::write(&file, b"changed")?;
        Ok(file)
    };
    read("dir/below/file").map_err(what("reading"))?;
    write("dir/below/file").map_err(what("writing"))?;
    write("dir/new").map_err(what("making a file"))?;
    rustix::fs::linkat(root, "dir/new", root, "dir/linked", AtFlags::empty())
        .map_err(what("making a hard link"))?;
    rustix::fs::renameat(root, "dir/new", root, "dir/below/file").map_err(what("renaming"))?;
    rustix::fs::unlinkat(root, "gone", AtFlags::empty()).map_err(what("deleting"))?;
    // A directory in place of what was deleted needs a mark that hides what lies below.
    rustix::fs::mkdirat(root, "gone", Mode::from_raw_mode(0o755))
        .map_err(what("making a directory anew"))?;
    match read("dir/below/file").map_err(what("reading"))?.as_slice() {
        b"changed" => {}
        _ => return Err(("reading what was written", Errno::IO)),
    }
    match rustix::fs::renameat(root, "dir", root, "moved") {
        Ok(()) => Ok(read("moved/below/file")
            .map_err(what("reading below a renamed directory"))?
            == b"changed"),
        Err(Errno::XDEV) => Ok(false),
        Err(errno) => Err(("renaming a directory", errno)),
    }
}

fn by_reflink(dir: &Path) -> Result<bool, String> {
    let clone = || -> std::io::Result<()> {
        let (from, to) = (tempfile::tempfile_in(dir)?, tempfile::tempfile_in(dir)?);
        rustix::io::write(&from, &[b'x'; 4096])?;
        Ok(rustix::fs::ioctl_ficlone(&to, &from)?)
    };
    clone().map(|()| true).map_err(|error| format!("share blocks in {}: {error}", dir.display()))
}
