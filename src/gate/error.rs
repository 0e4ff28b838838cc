//! Why the gates as a whole can't go on. One gate that can't run is a verdict, not an error.

use crate::patch::StoreError;
use crate::repo::RepoError;

/// An error of the engine's own parts.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The engine's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine's repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// A task of the engine ended without an answer.
    #[error("an internal task of the gates failed: {0}; this is a bug, please report it")]
    Task(String),
}
