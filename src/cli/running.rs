//! Runs that go on: which one is meant, and what its engine says.

use std::path::PathBuf;

use super::CliError;
use super::context::Context;
use crate::control::{ControlError, Reply, Request, ask};
use crate::journal::{RunDir, Runs};

/// The newest run.
pub const LATEST: &str = "latest";

/// So many of the newest runs are looked at for one that goes on.
const LOOKED_AT: usize = 20;

impl From<ControlError> for CliError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::NotRunning(_)
            | ControlError::Theirs
            | ControlError::Refused(_)
            | ControlError::Silent => Self::usage(error),
            ControlError::Protocol(_) => Self::internal(error),
        }
    }
}

/// Finds a run by its name.
pub fn find(run: &str, context: &Context) -> Result<RunDir, CliError> {
    Ok(Runs::new(&context.state).find(run)?)
}

/// Asks a run's engine.
pub fn talk(dir: &RunDir, request: &Request, context: &Context) -> Result<Reply, CliError> {
    ask(dir.path(), request).map_err(|error| with_others(error, context))
}

/// An error with the runs that do go on, where the one that was meant does not.
pub fn with_others(error: ControlError, context: &Context) -> CliError {
    let live = match &error {
        ControlError::NotRunning(_) => live(context),
        _ => Vec::new(),
    };
    let error = CliError::from(error);
    match live.is_empty() {
        true => error,
        false => CliError {
            message: format!("{}; these go on: {}", error.message, live.join(", ")),
            ..error
        },
    }
}

/// The runs whose engines answer, by their ids.
fn live(context: &Context) -> Vec<String> {
    let runs = Runs::new(&context.state);
    let all = runs.list().unwrap_or_default();
    let newest = all.into_iter().rev().take(LOOKED_AT);
    let answers = |id: &String| {
        let path: Option<PathBuf> = runs.find(id).ok().map(|dir| dir.path().to_owned());
        path.is_some_and(|path| ask(&path, &Request::Probe).is_ok())
    };
    newest.map(|one| one.run.to_string()).filter(answers).collect()
}

/// An answer that is none to what was asked.
pub fn unexpected(reply: &Reply) -> CliError {
    CliError::internal(format!("the engine gave an unexpected answer: {reply:?}"))
}

/// The run and the rest of `[RUN] …` where `rest` words have to follow the run's name. Where the run is left
/// out the newest is meant.
pub fn split_run(words: &[String], rest: usize) -> (&str, &[String]) {
    match words.split_first() {
        Some((run, behind)) if words.len() > rest => (run, behind),
        _ => (LATEST, words),
    }
}
