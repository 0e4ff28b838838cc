//! Overlays that the engine itself works in: mounted by the warden in its own namespaces, handed to
//! the engine as open directories, and bound into jobs' views.
//!
//! There is one mount for all of them, never a second one on the same upper directory. Never here:
//! what lies in a layer.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::SandboxError;
pub use super::warden::Mounted;
use super::warden::Warden;

/// An overlay to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlaySpec {
    /// Read-only layers, topmost first.
    pub lower: Vec<PathBuf>,
    /// A directory of the engine's own, with the directories `upper`, `work` (both empty at first, or
    /// `upper` filled by the engine) and `root`, on which the overlay is mounted. In the host's own
    /// view `root` stays empty.
    pub dir: PathBuf,
    /// Nothing for the warden's own namespaces, from which jobs descend. Another kind can be tried: no job
    /// can be given such an overlay.
    pub kind: Option<OverlayKind>,
    /// Keeps the upper directory in memory, at most so many bytes: for file systems that can't hold
    /// one. `dir` is then only where that is mounted.
    pub memory: Option<u64>,
}

/// How an overlay came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlayKind {
    /// Mounted by root.
    Root,
    /// Mounted in a user namespace.
    User,
}

/// A mounted overlay. What the engine still has open of it stays usable when it is unmounted.
#[derive(Debug)]
pub struct Overlay {
    /// Its top.
    pub root: OwnedFd,
    /// Its upper directory, as it lies on disk.
    pub upper: OwnedFd,
    /// Who mounted it.
    pub kind: OverlayKind,
    /// Dropping it unmounts the overlay. Where `dir` is removed before, that is done already: the kernel
    /// takes away what is mounted on a directory that goes, in every namespace.
    pub mounted: Mounted,
}

impl Overlay {
    pub(super) fn new(root: OwnedFd, upper: OwnedFd, kind: OverlayKind, mounted: Mounted) -> Self {
        Self { root, upper, kind, mounted }
    }
}

impl Warden {
    /// Mounts an overlay. Blocks for well under a millisecond unless the machine is busy.
    ///
    /// # Errors
    /// [`SandboxError::Setup`] when the system or the file system refuses it, in words.
    pub fn overlay(&self, spec: &OverlaySpec) -> Result<Overlay, SandboxError> {
        self.mount_overlay(spec)
    }
}
