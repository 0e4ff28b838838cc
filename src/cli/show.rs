//! `bakeoff show`.

use super::context::Context;
use super::output::{write_json, write_stdout};
use super::{CliError, Exit, record};
use crate::journal::Runs;
use crate::report;

/// Show a run: lanes, gates, votes, the choice and its reasons, cost and time
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, or `latest`
    #[arg(default_value = "latest")]
    run: String,
    /// Print the record as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of records instead of a run
    #[arg(long, conflicts_with_all = ["json", "run"])]
    schema: bool,
}

impl Args {
    /// Prints the record.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        if self.schema {
            write_json(&schemars::schema_for!(crate::model::RunRecord))?;
            return Ok(Exit::Done);
        }
        let record = record::read(&Runs::new(&context.state).find(&self.run)?)?;
        if self.json {
            write_json(&record)?;
        } else {
            write_stdout(report::text(&record, &context.style()).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}
