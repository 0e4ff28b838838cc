//! Exit codes, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a command ended, as the shell and the JSON output say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// A winner, or: the thing asked for was done.
    Done,
    /// No winner: nothing passed, or no confident choice.
    NoWinner,
    /// Bad usage or configuration.
    Usage,
    /// Models could not be reached or paid.
    Models,
    /// A gate or the sandbox could not run, so that no winner could be established.
    Infra,
    /// A limit ended the run before a winner.
    Limit,
    /// An internal or disk error.
    Internal,
    /// Ended by SIGINT.
    Interrupted,
    /// Ended by SIGTERM.
    Terminated,
}

impl Exit {
    /// Every exit, for tables.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::NoWinner,
        Self::Usage,
        Self::Models,
        Self::Infra,
        Self::Limit,
        Self::Internal,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// The process's exit status.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NoWinner => 1,
            Self::Usage => 2,
            Self::Models => 3,
            Self::Infra => 4,
            Self::Limit => 5,
            Self::Internal => 6,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}
