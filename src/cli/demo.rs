//! `bakeoff demo`.

use std::io::Write;

use super::context::Context;
use super::finish::{finish, mode};
use super::flags::OutputFlags;
use super::launch::perform;
use super::scenario::{judge_flags, prepare_scenario};
use super::{CliError, Exit, preview};
use crate::selftest;
use crate::ui::{Listener, fitted};

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
        let scenario = selftest::demo()?;
        let dir = tempfile::Builder::new().prefix("bakeoff-demo-").tempdir().map_err(|error| {
            CliError::internal(format!("failed to make a temporary directory: {error}"))
        })?;
        let place = scenario.lay_out(dir.path())?;
        let prepared = prepare_scenario(&scenario, &place, judge_flags(&scenario), context)?;
        if self.output.dry_run {
            return preview::dry_run(&prepared, &self.output, context);
        }
        if !self.output.quiet {
            // Standard error may be closed; that is no reason not to run.
            let _ = writeln!(
                std::io::stderr(),
                "The demo's model is scripted; workers, gates and judges are real.\n\n{}\n",
                fitted(&format!("Task: {}", scenario.task.trim().replace('\n', " ")))
            );
        }
        preview::announce(&prepared, &self.output)?;
        let listener = Listener::start(mode(&self.output, context));
        let result = perform(prepared, listener.sink(), context);
        listener.close();
        let (record, run) = result?;
        finish(&record, &run, &self.output, context)
    }
}
