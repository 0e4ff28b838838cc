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
    after_help = "A worker that is stopped takes the jobs that it started with it; its change stays as a PARTIAL \
    candidate. An ID alone (one/1, one/1#2: `bakeoff jobs` lists them) is looked for in the newest run."
)]
pub struct Args {
    /// The run, as for `probe`, and the id of what is to be stopped; without an id the whole run
    #[arg(value_name = "[RUN] [ID]", num_args = 0..=2)]
    words: Vec<String>,
}

impl Args {
    /// Stops it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let (run, id) = self.what();
        match talk(&find(run, context)?, &Request::Stop { id }, context)? {
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
