//! `bakeoff stop`.

use std::path::Path;

use super::context::Context;
use super::output::{write_stdout, write_text};
use super::running::{LATEST, find, talk, unexpected};
use super::{CliError, Exit};
use crate::control::{Reply, Request};
use crate::jobs::StopReport;

/// Stop a running run, or one worker, job or shell of it; what was done so far is kept
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "bakeoff stop [RUN] [ID]",
    after_help = "RUN is the run: its id, the beginning or end of its id, the path of its directory, or `latest`; the newest if left \
    out. ID is a worker (fast/2; fast where that lane has one attempt), a job of one (fast/2#1), or a command of your \
    own (shell#1): `bakeoff jobs` lists them. Without an ID the whole run is stopped; a word alone is an ID where no run \
    is called so.\n\nA worker that is stopped takes the jobs that it started with it; its change stays as a PARTIAL \
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
        let (run, id) = self.what();
        let no_run = match find(run, context) {
            Ok(dir) => return talk(&dir, &Request::Stop { id }, context),
            Err(error) if self.words.len() == 1 => error,
            Err(error) => return Err(error),
        };
        // A lane's name: whatever is called so in the newest run.
        let request = Request::Stop { id: Some(run.to_owned()) };
        let Ok(newest) = find(LATEST, context) else { return Err(no_run) };
        talk(&newest, &request, context).map_err(|error| CliError {
            message: format!("{}; and in the newest run: {}", no_run.message, error.message),
            ..no_run
        })
    }

    /// One word that reads like an id and leads to no run's directory is an id.
    fn what(&self) -> (&str, Option<String>) {
        match &self.words[..] {
            [] => (LATEST, None),
            [one] if is_id(one) => (LATEST, Some(one.clone())),
            [run] => (run, None),
            [run, id, ..] => (run, Some(id.clone())),
        }
    }
}

/// Every id names its lane's attempt or its number; a run's name does neither, but its path may.
fn is_id(word: &str) -> bool {
    word.contains(['/', '#']) && !Path::new(word).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_alone_is_a_run_unless_it_reads_like_an_id() {
        let what = |words: &[&str]| {
            let args = Args { words: words.iter().map(|word| (*word).to_owned()).collect() };
            let (run, id) = args.what();
            (run.to_owned(), id)
        };
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(what(&[]), ("latest".to_owned(), None));
        assert_eq!(what(&["0199"]), ("0199".to_owned(), None));
        // A lane's bare name could be the end of a run's id.
        assert_eq!(what(&["fe"]), ("fe".to_owned(), None));
        assert_eq!(what(&["fe/1"]), ("latest".to_owned(), id("fe/1")));
        assert_eq!(what(&["host#2"]), ("latest".to_owned(), id("host#2")));
        assert_eq!(what(&["0199", "fe/1#1"]), ("0199".to_owned(), id("fe/1#1")));
        assert_eq!(what(&["/tmp"]), ("/tmp".to_owned(), None));
    }
}
