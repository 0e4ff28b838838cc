//! `bakeoff gate`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::context::Context;
use super::finish::carry_out;
use super::flags::{ContextFlags, GateFlags, OutputFlags, RepoFlags};
use super::launch::Request;
use super::{CliError, Exit};
use crate::model::RunKind;

/// Prove diffs one by one: apply, typecheck, tests. Nothing is picked and no model is asked
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 0 when every diff passed; 1 when one was refused, failed, or is contested by tests of the base \
that it changed; 4 when one could not be proved."
)]
pub struct Args {
    /// Diffs: files, directories, FAMILY:PATH, prediction files, revisions
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// The instance of a prediction file that speaks of several
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    #[command(flatten)]
    repo: RepoFlags,
    #[command(flatten)]
    gates: GateFlags,
    /// Print one JSON object (the run's record) to standard output
    #[arg(long, conflicts_with = "events")]
    json: bool,
    /// Print events as JSON lines to standard output while the run goes on
    #[arg(long)]
    events: bool,
    /// Show the commands and do nothing
    #[arg(long)]
    dry_run: bool,
    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    /// Runs it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let output = OutputFlags {
            output: None::<PathBuf>,
            json: self.json,
            events: self.events,
            apply: false,
            dry_run: self.dry_run,
            quiet: self.quiet,
        };
        let request = Request {
            kind: RunKind::Gate,
            repo: &self.repo,
            task: None,
            lanes: None,
            context: ContextFlags::default(),
            gates: &self.gates,
            judges: None,
            sources: &self.sources,
            instance: self.instance.as_deref(),
            config: None,
        };
        carry_out(request, &output, context)
    }
}
