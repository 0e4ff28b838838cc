//! `bakeoff run`.

use super::context::Context;
use super::finish::carry_out;
use super::flags::{
    ContextFlags, GateFlags, JudgeFlags, LaneFlags, OutputFlags, RepoFlags, TaskFlags,
};
use super::launch::Request;
use super::{CliError, Exit, task};
use crate::model::RunKind;

/// Fan a task out to parallel workers, prove every diff, and pick one
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  bakeoff run \"fix the rounding of negative amounts\" --test auto\n  \
    bakeoff run -f issue.md -n 8 --budget 5 -o fix.diff\n  \
    bakeoff run \"…\" --lane a=openai:gpt-6.1-sol:2 --lane b=anthropic:claude-sonnet-5-5:2\n  \
    bakeoff run \"…\" --dry-run"
)]
pub struct Args {
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    repo: RepoFlags,
    #[command(flatten)]
    lanes: LaneFlags,
    #[command(flatten)]
    context: ContextFlags,
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
        let task = task::read(&self.task)?;
        if task.is_none() {
            return Err(CliError::usage(
                "no task: say what to do, as in bakeoff run \"fix X\", with --task-file FILE, or `-` for standard input",
            ));
        }
        let request = Request {
            kind: RunKind::Run,
            repo: &self.repo,
            task,
            lanes: Some(&self.lanes),
            context: self.context.clone(),
            gates: &self.gates,
            judges: Some(&self.judges),
            sources: &[],
            instance: None,
            config: None,
        };
        carry_out(request, &self.output, context)
    }
}
