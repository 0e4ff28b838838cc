//! `bakeoff capsule`.

use std::fmt::Write as _;

use super::context::Context;
use super::output::{write_json, write_stdout};
use super::{CliError, Exit};
use crate::journal::{JournalError, RunDir, Runs};
use crate::model::RunRecord;
use crate::pipeline::{Frame, Memory, Recall, digest_of, unfinished};
use crate::report;

/// Hand a run over: what was asked, what came of it, what is left. Asks no model
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A run whose config has a [side] model wrote a capsule of its own when it ended; it is printed, too. \
    For a run that was cut off the capsule says how far it came."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, `latest`, or the path of its directory
    #[arg(default_value = "latest")]
    run: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is handed over.
struct Capsule {
    ended: bool,
    facts: String,
    words: Option<String>,
}

impl Args {
    /// Prints it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let dir = Runs::new(&context.state).find(&self.run)?;
        let capsule = match dir.record() {
            Ok(record) => of_record(&record),
            Err(JournalError::NoRecord { .. }) => of_journal(&dir)?,
            Err(error) => return Err(error.into()),
        };
        if self.json {
            let Capsule { ended, facts, words } = capsule;
            write_json(&serde_json::json!({
                "version": 1, "run": dir.id(), "ended": ended, "facts": facts, "capsule": words,
            }))?;
        } else {
            write_stdout(text(&dir, &capsule).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

fn of_record(record: &RunRecord) -> Capsule {
    Capsule { ended: true, facts: digest_of(record), words: record.capsule.clone() }
}

fn of_journal(dir: &RunDir) -> Result<Capsule, CliError> {
    let (frame, memory): (Frame, Memory) =
        Memory::of(&dir.read_journal()?, dir, Recall::Everything)?;
    Ok(Capsule { ended: false, facts: unfinished(&frame, &memory)?, words: None })
}

fn text(dir: &RunDir, capsule: &Capsule) -> String {
    let mut out = format!("run: {}\n{}", dir.id(), report::block(&capsule.facts));
    if let Some(words) = &capsule.words {
        let _ = write!(out, "\n{}\n", report::block(words).trim_end());
    }
    let next = match capsule.ended {
        true => format!("`bakeoff show {}`", dir.id()),
        false => format!("`bakeoff resume {}` goes on with it", dir.id()),
    };
    let _ = writeln!(out, "next: {next}");
    out
}
