//! `bakeoff pick`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::context::Context;
use super::finish::carry_out;
use super::flags::{ContextFlags, GateFlags, JudgeFlags, OutputFlags, RepoFlags, TaskFlags};
use super::launch::Request;
use super::{CliError, Exit, task};
use crate::model::RunKind;

/// Prove diffs that were made elsewhere and pick one
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A source is a file, a directory, FAMILY:PATH, a prediction file (JSON or JSON lines with instance_id, \
    model_name_or_path, model_patch; other JSON is an answer with a diff in it), or a revision or branch of the repository. A family is a voice: diffs of \
    one family (samples of one agent) are not independent of each other. Files of a sub-directory share its name as \
    their family; a file on its own is a family of its own."
)]
pub struct Args {
    /// Diffs: files, directories, FAMILY:PATH, prediction files, revisions
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// The task that the diffs are for; judges need it
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Read the task from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "task")]
    task_file: Option<PathBuf>,
    /// The instance of a prediction file that speaks of several
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    #[command(flatten)]
    repo: RepoFlags,
    #[command(flatten)]
    gates: GateFlags,
    #[command(flatten)]
    judges: JudgeFlags,
    #[command(flatten)]
    output: OutputFlags,
}

impl Args {
    /// Runs it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let task = task::read(&TaskFlags { task: self.task, task_file: self.task_file })?;
        let request = Request {
            kind: RunKind::Pick,
            repo: &self.repo,
            task,
            lanes: None,
            context: ContextFlags::default(),
            gates: &self.gates,
            judges: Some(&self.judges),
            sources: &self.sources,
            instance: self.instance.as_deref(),
            config: None,
        };
        carry_out(request, &self.output, context)
    }
}
