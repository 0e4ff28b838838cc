//! What a worker may do: one file per tool; every call carries its workspace.
//!
//! Never here: the process's own working directory (contract C4).

mod allow;
mod apply_patch;
mod args;
mod edit;
mod edit_file;
pub mod files;
mod git_env;
mod glob;
mod grep;
mod list_dir;
mod multi_edit;
mod read_file;
mod registry;
mod run_bash;
pub(crate) mod secrets;
mod submit;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod workspace;
mod write_file;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::chat::ToolSpec;
use crate::model::{Claim, RunToken};
use crate::repo::Workspace;
use crate::sandbox::Launch;

pub use registry::{MAX_OUTPUT, Registry};
pub use workspace::open_workspace;

/// What a tool call works on. There is no default for any of it.
#[derive(Clone)]
pub struct ToolContext {
    /// The worker's own workspace.
    pub workspace: Arc<Workspace>,
    /// The worker run's token.
    pub token: RunToken,
    /// Runs inspection commands; without it the tools that need it refuse (contract C18).
    pub launch: Option<Arc<dyn Launch>>,
    /// Ends the call early.
    pub cancel: CancellationToken,
}

/// A tool's answer to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The text, its exact bytes where a file is read.
    pub text: String,
    /// Whether the tool refused or failed, so that the model must do something else.
    pub is_error: bool,
    /// Set by `submit` alone: the worker run is over.
    pub submission: Option<Submission>,
}

/// What a worker hands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The closing words.
    pub answer: String,
    /// Claims that can be checked.
    pub claims: Vec<Claim>,
}

impl ToolOutput {
    /// A good answer.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, submission: None }
    }

    /// A refusal or failure, in words that the model can act on.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, submission: None }
    }
}

/// A tool.
pub trait Tool: Send + Sync {
    /// Its name, description and argument schema, as the model sees them.
    fn spec(&self) -> ToolSpec;

    /// The key that switches it on or off in configuration; tools of one family share a key.
    fn key(&self) -> String {
        self.spec().name
    }

    /// Does it. Wrong arguments and failures are answers, not errors: the model can mend them.
    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput>;
}

/// Runs a tool's file work where it may block; both sides of its result are the answer.
fn blocking<'a, F>(context: &'a ToolContext, work: F) -> BoxFuture<'a, ToolOutput>
where
    F: FnOnce(&ToolContext) -> Result<ToolOutput, ToolOutput> + Send + 'static,
{
    let context = context.clone();
    async move {
        let done = tokio::task::spawn_blocking(move || work(&context)).await;
        match done {
            Ok(Ok(output) | Err(output)) => output,
            Err(error) => {
                ToolOutput::refused(format!("the tool failed inside the engine: {error}"))
            }
        }
    }
    .boxed()
}
