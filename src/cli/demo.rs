//! `bakeoff demo`.

use std::io::Write;

use super::context::Context;
use super::finish::{carry_on, check_output};
use super::flags::OutputFlags;
use super::scenario::{judge_flags, prepare_scenario};
use super::{CliError, Exit};
use crate::selftest;
use crate::ui::fitted;

/// Run the main job on a bundled repository with a bug, with five scripted lanes
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The model is scripted: no key is needed and nothing is sent anywhere. Everything else is real: the \
    workers' edits, the gates, the judges' pairs, the decision. It needs cargo."
)]
pub struct Args {
    #[command(flatten)]
    output: OutputFlags,
}

impl Args {
    /// Runs it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        check_output(&self.output)?;
        let scenario = selftest::demo()?;
        let dir = tempfile::Builder::new().prefix("bakeoff-demo-").tempdir().map_err(|error| {
            CliError::internal(format!("failed to make a temporary directory: {error}"))
        })?;
        let place = scenario.lay_out(dir.path())?;
        let prepared = prepare_scenario(&scenario, &place, judge_flags(&scenario), context)?;
        if !self.output.quiet && !self.output.dry_run {
            // Standard error may be closed; that is no reason not to run.
            let _ = writeln!(
                std::io::stderr(),
                "The demo's model is scripted; workers, gates and judges are real.\n\n{}\n",
                fitted(&format!("Task: {}", scenario.task.trim().replace('\n', " ")))
            );
        }
        carry_on(prepared, &self.output, context)
    }
}
