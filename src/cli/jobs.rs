//! `bakeoff jobs`.

use super::context::Context;
use super::output::{write_json, write_text};
use super::running::{LATEST, find, talk, unexpected};
use super::{CliError, Exit};
use crate::control::{Reply, Request};
use crate::report;

/// List what runs in the background of a running run: workers, their jobs, your shells
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The ids are those that `attach`, `stop`, `steer` and `shell --lane` take, and that workers see. A worker \
    that waits for a place (--max-parallel) is `waiting`. What has ended stays readable for ten minutes: --all lists it \
    too."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = LATEST)]
    run: String,
    /// Also what has ended and can still be read
    #[arg(short, long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Prints the list.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let request = Request::Jobs { ended: self.all };
        let dir = find(&self.run, context)?;
        match talk(&dir, &request, context)? {
            Reply::Jobs { jobs } if self.json => {
                write_json(&serde_json::json!({ "version": 1, "run": dir.id(), "jobs": jobs }))?;
            }
            Reply::Jobs { jobs } => write_text(&report::cards_table(&jobs, context.columns))?,
            other => return Err(unexpected(&other)),
        }
        Ok(Exit::Done)
    }
}
