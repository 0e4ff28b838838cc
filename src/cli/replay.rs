//! `bakeoff replay`.

use super::context::Context;
use super::output::{write_json, write_text};
use super::{CliError, Exit, record};
use crate::journal::Runs;
use crate::model::{RunRecord, Stop};
use crate::pipeline::{Memory, Recall, replay};

/// Derive a finished run's decision again from its record, without network or processes
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 0 when everything came out as it is recorded and is kept as it was written, 1 when anything differs."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = "latest")]
    run: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Whether a run came to a decision by what it had, or by its time limit, where the journal says at which of its
/// stages that struck. A signal that cuts it off is in no record but as the end that it made.
fn decided(record: &RunRecord, memory: &Memory) -> bool {
    match record.exit {
        Exit::Done | Exit::NoWinner | Exit::Models | Exit::Infra => true,
        Exit::Limit if memory.timed_out().is_some() => true,
        Exit::Limit => {
            let lanes = &record.lanes;
            !lanes.is_empty() && lanes.iter().all(|lane| matches!(lane.stop, Stop::Limit { .. }))
        }
        _ => false,
    }
}

impl Args {
    /// Replays.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let dir = Runs::new(&context.state).find(&self.run)?;
        let recorded = record::read(&dir)?;
        let read = dir.inspect_journal()?;
        let (frame, memory) = Memory::of(&read, &dir, Recall::Everything)?;
        if !decided(&recorded, &memory) {
            return Err(CliError::usage(format!(
                "run {} was cut off, so it has no decision of its own; `bakeoff resume` goes on with it",
                dir.id()
            )));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))?;
        let work = replay(frame, memory, &recorded, &context.cache, &dir);
        let mut differences = dir.faults(&read)?;
        differences.extend(runtime.block_on(work)?);
        self.tell(dir.id().as_str(), &differences)?;
        Ok(if differences.is_empty() { Exit::Done } else { Exit::NoWinner })
    }

    fn tell(&self, run: &str, differences: &[String]) -> Result<(), CliError> {
        if self.json {
            return write_json(
                &serde_json::json!({ "version": 1, "run": run, "differences": differences }),
            );
        }
        match differences {
            [] => write_text(&format!("run {run}: the same decision, from the record alone\n")),
            some => write_text(&format!(
                "run {run}: {} differences\n  {}\n",
                some.len(),
                some.join("\n  ")
            )),
        }
    }
}
