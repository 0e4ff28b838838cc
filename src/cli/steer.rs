//! `bakeoff steer`.

use std::io::Read;

use super::context::Context;
use super::output::{tell, write_json, write_text};
use super::running::{find, split_run, talk, unexpected};
use super::{CliError, Exit};
use crate::control::{Reply, Request};
use crate::model::{Fate, Steer};
use crate::worker::MAX_TEXT;

/// Say something to a worker under way: it reads it at its next turn
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "bakeoff steer [OPTIONS] [RUN] LANE TEXT",
    after_help = "RUN is the run: its id, the beginning or end of its id, the path of its directory, or `latest`; the newest if left \
    out. LANE is a lane's attempt (fast/2), or its name where it has one (`bakeoff jobs` lists them). A TEXT of `-` is \
    read from standard input.\n\nThe text is labelled as the operator's, with who sent it, and stands in the run's record. The \
    command waits until the worker's model has answered a request with it (exit 0), or ended before (exit 1: missed). \
    A worker that submits in the turn it is in does not read it any more.\n\nExamples:\n  \
    bakeoff steer fast/2 \"leave the public API as it is\"\n  bakeoff steer latest fast/2 - < notes.txt"
)]
pub struct Args {
    /// The run (the newest if left out), the lane (`bakeoff jobs` lists them), and the text; `-` reads it from
    /// standard input
    #[arg(value_name = "LANE TEXT", num_args = 2..=3, required = true, hide = true)]
    words: Vec<String>,
    /// Don't wait until the worker has read it
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Says it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let (run, rest) = split_run(&self.words, 2);
        let [lane, text] = rest else { return Err(CliError::usage("give a lane and a text")) };
        let text = match text.as_str() {
            "-" => standard_input()?,
            text => text.to_owned(),
        };
        let request = Request::Steer { lane: lane.clone(), text, wait: !self.no_wait };
        match talk(&find(run, context)?, &request, context)? {
            Reply::Steered { steer } => self.told(&steer),
            Reply::Missed { reason } => Err(CliError::no_winner(format!("missed: {reason}"))),
            other => Err(unexpected(&other)),
        }
    }

    fn told(&self, steer: &Steer) -> Result<Exit, CliError> {
        let Steer { id, lane, .. } = steer;
        let missed =
            format!("missed: {lane} ended before its next turn; {id} stands in the record");
        if self.json {
            write_json(&serde_json::json!({ "version": 1, "steer": steer }))?;
        }
        match steer.fate {
            Fate::Missed if self.json => tell(&format!("bakeoff: {missed}\n")),
            Fate::Missed => return Err(CliError::no_winner(missed)),
            _ if self.json => {}
            Fate::Told { turn } => write_text(&format!("{id}: {lane} read it in turn {turn}\n"))?,
            Fate::Waiting => write_text(&format!("{id}: waits for the next turn of {lane}\n"))?,
        }
        Ok(if steer.fate == Fate::Missed { Exit::NoWinner } else { Exit::Done })
    }
}

/// Room for blanks around a text, which do not count.
const MOST_READ: usize = MAX_TEXT * 2;

/// The text that comes in. More than is read is told without a size: it may have no end.
fn standard_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST_READ as u64).read_to_end(&mut bytes);
    read.map_err(|error| CliError::usage(format!("failed to read standard input: {error}")))?;
    if bytes.len() == MOST_READ {
        return Err(CliError::usage(format!(
            "standard input has {MOST_READ} bytes or more, and a text may have at most {MAX_TEXT}; put the rest into a \
             file of the repository"
        )));
    }
    String::from_utf8(bytes).map_err(|_| CliError::usage("standard input is no UTF-8 text"))
}
