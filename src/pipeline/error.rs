//! What ends a run without a decision.

use crate::gate::GateError;
use crate::journal::JournalError;
use crate::model::Exit;
use crate::repo::RepoError;
use crate::sandbox::SandboxError;

/// The run can't go on. What was saved stays.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The repository, or what was asked of it, is at fault.
    #[error("{0}")]
    Repository(String),
    /// Configuration, prompts or judges are at fault.
    #[error("{0}")]
    Config(String),
    /// The disk refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Code may not or can't run here.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The engine's own repository failed.
    #[error("failed in the engine's own repository: {0}")]
    Store(String),
    /// Something that should not happen.
    #[error("internal error: {0}")]
    Internal(String),
}

impl PipelineError {
    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Repository(_) | Self::Config(_) => Exit::Usage,
            Self::Sandbox(_) => Exit::Infra,
            Self::Journal(_) | Self::Store(_) | Self::Internal(_) => Exit::Internal,
        }
    }
}

impl From<RepoError> for PipelineError {
    fn from(error: RepoError) -> Self {
        match error {
            // The same hints as for the journal: it is the same disk.
            RepoError::Io { action, path, source } => {
                Self::Journal(JournalError::io(action, &path, source))
            }
            RepoError::Git { .. } | RepoError::Mismatch(_) | RepoError::Busy(_) => {
                Self::Store(error.to_string())
            }
            _ => Self::Repository(error.to_string()),
        }
    }
}

impl From<GateError> for PipelineError {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Repo(error) => error.into(),
            GateError::Store(error) => Self::Store(error.to_string()),
            GateError::Cancelled | GateError::Task(_) => Self::Internal(error.to_string()),
        }
    }
}
