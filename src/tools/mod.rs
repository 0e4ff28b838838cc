//! What a worker may do: one file per tool; every call carries its workspace.
//!
//! Never here: the process's own working directory (contract C4).

mod allow;
mod apply_patch;
mod args;
mod bash_jobs;
mod bill;
mod code_execution;
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
mod staged;
mod submit;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod workspace;
mod write_file;

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::jobs::{JobBook, JobTable};
use crate::journal::Learnt;
use crate::model::chat::ToolSpec;
use crate::model::{Claim, RunToken};
use crate::repo::Workspace;
use crate::sandbox::Launch;

pub use args::{parse as parse_arguments, spec as tool_spec};
pub use bill::Bill;
pub use code_execution::CodeExecution;
pub use registry::{MAX_OUTPUT, Registry};
pub use run_bash::git_view;
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
    /// The background jobs that it may see; without them nothing runs in the background.
    pub jobs: Option<Jobs>,
    /// Whether nothing of the workspace may be changed.
    pub read_only: bool,
    /// Which worker of the run it is: 0 is the top, others are nested.
    pub number: u32,
    /// How deep it is nested: 0 is the top.
    pub depth: u32,
    /// What it and those below it used.
    pub bill: Bill,
    /// When its time is over.
    pub until: Option<Instant>,
    /// What no answer may hold: secrets that the operator typed (contract R19).
    pub hidden: Learnt,
}

/// The background jobs that a worker may see.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Those of its own worker run, which it may read and end.
    pub table: JobTable,
    /// Those of all worker runs, of which it may list the ones in its workspace.
    pub book: JobBook,
}

impl ToolContext {
    /// A context without background jobs, in which the workspace may be changed.
    pub fn new(
        workspace: Arc<Workspace>,
        token: RunToken,
        launch: Option<Arc<dyn Launch>>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            workspace,
            token,
            launch,
            cancel,
            jobs: None,
            read_only: false,
            number: 0,
            depth: 0,
            bill: Bill::default(),
            until: None,
            hidden: Learnt::default(),
        }
    }
}

/// Refuses where the working directory is gone: what runs is never anywhere else (contract C4).
fn need_directory(context: &ToolContext) -> Result<(), ToolOutput> {
    if context.workspace.is_there() {
        return Ok(());
    }
    let path = context.workspace.path.display();
    let text =
        format!("refused: the working directory {path} is not there any more. Nothing was run");
    Err(ToolOutput::refused(text))
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
    /// What a snippet gets instead of the text: the id of a job that was started.
    pub handle: Option<String>,
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
        let (is_error, submission, handle) = (false, None, None);
        Self { text: text.into(), is_error, submission, handle }
    }

    /// A refusal or failure, in words that the model can act on.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(text) }
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

    /// The tool as it stands among others, when it makes use of them. It is asked whenever a registry is
    /// made.
    fn within(&self, _others: &Registry) -> Option<Arc<dyn Tool>> {
        None
    }

    /// Whether it changes the workspace, so that it is missing where that may not be.
    fn writes(&self) -> bool {
        false
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
