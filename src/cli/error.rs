//! The boundary where errors become a message, a hint and an exit code.

use std::fmt::Display;

use crate::journal::JournalError;
use crate::model::Exit;

/// An error as the operator sees it.
#[derive(Debug)]
pub struct CliError {
    /// How the command ends.
    pub exit: Exit,
    /// What happened and what to do next.
    pub message: String,
}

impl CliError {
    /// Bad usage or configuration.
    pub fn usage(message: impl Display) -> Self {
        Self { exit: Exit::Usage, message: message.to_string() }
    }

    /// An internal or disk error.
    pub fn internal(message: impl Display) -> Self {
        Self { exit: Exit::Internal, message: message.to_string() }
    }

    /// Nothing won.
    pub fn no_winner(message: impl Display) -> Self {
        Self { exit: Exit::NoWinner, message: message.to_string() }
    }

    /// Tells standard error and gives the exit.
    pub fn report(self) -> Exit {
        super::output::tell(&format!("bakeoff: {}\n", self.message));
        self.exit
    }
}

impl From<JournalError> for CliError {
    fn from(error: JournalError) -> Self {
        let exit = match &error {
            JournalError::UnknownRun { .. }
            | JournalError::ShortRun { .. }
            | JournalError::Ambiguous { .. }
            | JournalError::Blank { .. }
            | JournalError::Live { .. } => Exit::Usage,
            _ => Exit::Internal,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<crate::config::ConfigError> for CliError {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::usage(error)
    }
}

impl From<crate::config::TrustError> for CliError {
    fn from(error: crate::config::TrustError) -> Self {
        Self::internal(error)
    }
}

impl From<crate::pipeline::PipelineError> for CliError {
    fn from(error: crate::pipeline::PipelineError) -> Self {
        Self { exit: error.exit(), message: error.to_string() }
    }
}
