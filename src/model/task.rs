//! What the user asks for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the task's text came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskSource {
    /// Given as a command-line argument.
    Argument,
    /// Read from standard input.
    Stdin,
    /// Read from a file (its path as the user wrote it, lossily decoded).
    File {
        /// The path.
        path: String,
    },
    /// A bundled example.
    Demo,
}

/// A coding task in the operator's own words. It is an instruction, not foreign text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The text, not empty after trimming.
    pub text: String,
    /// Where it came from.
    pub source: TaskSource,
}

impl Task {
    /// The longest task text that is taken, in bytes (1 MiB). A longer one is refused, not cut.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The first line, for titles, at most 80 characters.
    pub fn title(&self) -> String {
        let line = self.text.trim().lines().next().unwrap_or_default();
        match line.char_indices().nth(80) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line.to_owned(),
        }
    }
}
