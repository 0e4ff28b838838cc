//! `bakeoff runs`.

use super::context::Context;
use super::output::{write_json, write_stdout};
use super::{CliError, Exit};
use crate::journal::{RunSummary, Runs};
use crate::report;

/// List the runs that are on disk, newest last
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// At most this many, the newest
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 20,
        allow_negative_numbers = true
    )]
    limit: usize,
}

impl Args {
    /// Prints the list.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let all = Runs::new(&context.state).list()?;
        let newest = &all[all.len().saturating_sub(self.limit)..];
        if self.json {
            write_json(
                &serde_json::json!({ "version": 1, "runs": newest.iter().map(as_json).collect::<Vec<_>>() }),
            )?;
        } else {
            write_stdout(report::runs_table(newest, context.columns).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

fn as_json(summary: &RunSummary) -> serde_json::Value {
    match &summary.record {
        Ok(record) => serde_json::json!({
            "run": summary.run,
            "started": record.started,
            "kind": record.kind,
            "title": Some(record.name()).filter(|name| !name.is_empty()),
            "exit": record.exit,
            "winner": record.decision.winner(),
            "usage": record.usage,
        }),
        Err(error) => serde_json::json!({ "run": summary.run, "error": error }),
    }
}
