//! What a diff may do, and how large it may be. Plain data with safe defaults.

use crate::model::PatchPlan;

/// The operator's rules for diffs. The default admits text changes to regular files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Admit new and changed symbolic links whose target stays inside the tree.
    pub links: bool,
    /// Admit changed gitlinks (mode 160000) and a changed `.gitmodules`.
    pub submodules: bool,
    /// Admit `GIT binary patch` sections.
    pub binary: bool,
    /// The largest diff, in bytes.
    pub max_bytes: usize,
    /// The longest line of a diff, in bytes.
    pub max_line_bytes: usize,
    /// The most lines that a diff may add and remove, together.
    pub max_changed_lines: usize,
    /// The most file sections of a diff.
    pub max_files: usize,
    /// The largest binary file that a section may give, in bytes, after unpacking.
    pub max_binary_bytes: usize,
    /// The longest new path, in bytes.
    pub max_path_bytes: usize,
    /// The most components of a new path.
    pub max_path_depth: usize,
}

impl From<&PatchPlan> for Rules {
    /// What the operator says of diffs; the other limits are the built-in ones.
    fn from(plan: &PatchPlan) -> Self {
        let PatchPlan { links, submodules, binary, max_mb, max_lines } = *plan;
        let max_bytes = (max_mb as usize) << 20;
        Self {
            links,
            submodules,
            binary,
            max_bytes,
            max_changed_lines: max_lines as usize,
            ..Self::default()
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            links: false,
            submodules: false,
            binary: false,
            max_bytes: 8 << 20,
            max_line_bytes: 512 << 10,
            max_changed_lines: 50_000,
            max_files: 2_000,
            max_binary_bytes: 256 << 10,
            max_path_bytes: 512,
            max_path_depth: 48,
        }
    }
}
