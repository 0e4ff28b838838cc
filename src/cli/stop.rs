//! `bakeoff stop`.

use std::path::Path;

use super::context::Context;
use super::output::{write_stdout, write_text};
use super::running::{LATEST, find, talk, unexpected};
use super::{CliError, Exit};
use crate::control::{ControlError, Reply, Request, ask};
use crate::jobs::StopReport;
use crate::journal::RunDir;
use crate::model::Card;

/// So many characters of an id are enough to stop its run: fewer are too easily a lane's name, or a slip.
const LEAST: usize = 6;

/// Stop a running run, or one worker, job or shell of it; what was done so far is kept
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "bakeoff stop [RUN] [ID]",
    after_help = "RUN is the run: its id, the beginning or end of its id (6 characters or more), the path of its directory, or `latest`; \
    the newest if left out. ID is a worker (fast/2; fast where that lane has one attempt), a job of one (fast/2#1), or a command of your \
    own (shell#1): `bakeoff jobs` lists them. Without an ID the whole run is stopped. A word alone is what is called so in the \
    newest run, and the run with such an id where nothing is; where both go on nothing is stopped, and the exit code is 2.\n\nA worker that is stopped takes the jobs that it started with it; its change stays as a PARTIAL \
    candidate. One that waits for a place never begins. Exit code 1 when it is not proven that all of it has ended."
)]
pub struct Args {
    /// The run, as for `probe`, and the id of what is to be stopped; without an id the whole run
    #[arg(value_name = "ID", num_args = 0..=2, hide = true)]
    words: Vec<String>,
}

impl Args {
    /// Stops it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        match self.ask(context)? {
            Reply::Stopping => write_stdout(b"stopping\n")?,
            Reply::Stopped { id, report: StopReport { how, survivors } }
                if survivors.is_empty() =>
            {
                write_text(&format!("{id}: {how}\n"))?;
            }
            Reply::Stopped { id, report: StopReport { survivors, .. } } => {
                let names = survivors.join(", ");
                return Err(CliError::no_winner(format!(
                    "{id} was told to stop, but these may be alive: {names}; it stays in `bakeoff jobs`"
                )));
            }
            other => return Err(unexpected(&other)),
        }
        Ok(Exit::Done)
    }

    fn ask(&self, context: &Context) -> Result<Reply, CliError> {
        let (run, id) = match &self.words[..] {
            [word] if is_word(word) => return stop_word(word, context),
            [] => (LATEST, None),
            [one] if is_id(one) => (LATEST, Some(one.clone())),
            [run] => (run.as_str(), None),
            [run, id, ..] => (run.as_str(), Some(id.clone())),
        };
        talk(&find_run(run, context)?, &Request::Stop { id }, context)
    }
}

/// Stops what a word alone means: what is called so in the newest run, or the run of whose id it is enough.
fn stop_word(word: &str, context: &Context) -> Result<Reply, CliError> {
    let run = find_run(word, context);
    let newest = find(LATEST, context).ok();
    let stop = Request::Stop { id: Some(word.to_owned()) };
    match (newest, run) {
        (Some(newest), run) if holds(&newest, word)? => match run {
            // One that has ended can't be meant.
            Ok(run) if is_live(&run)? => Err(two_ways(word, &run)),
            _ => talk(&newest, &stop, context),
        },
        (_, Ok(run)) => talk(&run, &Request::Stop { id: None }, context),
        (None, Err(no_run)) => Err(no_run),
        (Some(newest), Err(no_run)) => talk(&newest, &stop, context).map_err(|error| CliError {
            message: format!("{}; and in the newest run: {}", no_run.message, error.message),
            ..no_run
        }),
    }
}

/// Whether a run has something of this name: a worker, by its lane's name or its id, a job or a shell.
fn holds(run: &RunDir, word: &str) -> Result<bool, CliError> {
    let is_it = |card: &Card| card.id == word || card.id.split('/').next() == Some(word);
    match ask(run.path(), &Request::Jobs { ended: true }) {
        Ok(Reply::Jobs { jobs }) => Ok(jobs.iter().any(is_it)),
        Ok(other) => Err(unexpected(&other)),
        Err(ControlError::NotRunning(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_live(run: &RunDir) -> Result<bool, CliError> {
    match ask(run.path(), &Request::Probe) {
        Ok(_) => Ok(true),
        Err(ControlError::NotRunning(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn two_ways(word: &str, run: &RunDir) -> CliError {
    CliError::usage(format!(
        "{word:?} is ambiguous, and nothing was stopped: `bakeoff stop latest {word}` stops what is called so in the newest \
         run, and `bakeoff stop {}` that whole run",
        run.id()
    ))
}

/// Finds a run by enough of its id.
fn find_run(run: &str, context: &Context) -> Result<RunDir, CliError> {
    let found = find(run, context)?;
    if is_word(run) && run.chars().count() < LEAST {
        return Err(CliError::usage(format!(
            "{run:?} is too short for a run that is to be stopped: give at least {LEAST} characters of its id, or `latest`"
        )));
    }
    Ok(found)
}

/// Whether a word could be a part of a run's id as well as a name in a run.
fn is_word(word: &str) -> bool {
    word != LATEST && !word.contains(['/', '#'])
}

/// Every id names its lane's attempt or its number; a run's name does neither, but its path may.
fn is_id(word: &str) -> bool {
    word.contains(['/', '#']) && !Path::new(word).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_runs_and_from_words_that_may_be_either() {
        for (word, reads) in [
            ("latest", (false, false)),
            ("0199", (true, false)),
            ("fe", (true, false)),
            ("fe/1", (false, true)),
            ("shell#2", (false, true)),
            ("/tmp", (false, false)),
        ] {
            assert_eq!((is_word(word), is_id(word)), reads, "{word}");
        }
    }
}
