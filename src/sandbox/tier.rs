//! The strengths of a sandbox. Never here: how each is made.

use serde::{Deserialize, Serialize};

/// How strongly a job is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Namespaces, a view of its own, seccomp: the strong tier, the only one that can be proved.
    Namespaces,
    /// Landlock and seccomp on the host's own view. Needs a waiver.
    Landlock,
    /// No confinement, only the end of the whole process tree. Needs a waiver.
    None,
}

impl Tier {
    /// Whether a job of this tier can be given overlays and paths other than the host's.
    pub fn can_mount(self) -> bool {
        self == Self::Namespaces
    }

    /// The tier's name in records and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}
