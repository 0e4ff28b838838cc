//! The record of a run that was asked for, or why there is none.

use super::{CliError, Exit};
use crate::control::{Reply, Request, ask};
use crate::journal::{JournalError, RunDir, RunSummary, Runs};
use crate::model::{RunKind, RunRecord};
use crate::pipeline::Frame;

/// Reads it. A run without a record goes on, or was cut off: which of the two is told.
pub fn read(dir: &RunDir) -> Result<RunRecord, CliError> {
    dir.record().map_err(|error| match error {
        JournalError::NoRecord { .. } if dir.is_blank() && !is_live(dir) => {
            JournalError::Blank { run: dir.id().to_string() }.into()
        }
        JournalError::NoRecord { journal, .. } => CliError::usage(match is_live(dir) {
            true => format!(
                "run {id} is still going on: `bakeoff probe {id}` shows what it does, `bakeoff stop {id}` ends it",
                id = dir.id()
            ),
            false => format!(
                "run {id} was cut off before it wrote its record; `bakeoff resume {id}` goes on with it (its journal \
                 is {})",
                journal.display(),
                id = dir.id()
            ),
        }),
        other => other.into(),
    })
}

fn is_live(dir: &RunDir) -> bool {
    matches!(ask(dir.path(), &Request::Probe), Ok(Reply::Snapshot { .. }))
}

/// Adds where a run's results are to an error that kept them from being handed over.
pub fn kept(error: CliError, dir: &RunDir) -> CliError {
    let message = format!(
        "{}; the run itself is kept: `bakeoff show {id}`, `bakeoff diff {id}`",
        error.message,
        id = dir.id()
    );
    CliError { message, ..error }
}

/// What became of a run that ended without a record. One that saved nothing leaves no directory.
pub fn broken_off(error: CliError, signal: Option<Exit>, dir: &RunDir) -> CliError {
    let saved = match dir.discard_blank() {
        true => "nothing was saved".to_owned(),
        false => format!("what was saved is in {}", dir.path().display()),
    };
    match (signal, error.exit) {
        (Some(exit), _) => {
            CliError { exit, message: format!("stopped by a signal; {saved} ({})", error.message) }
        }
        // Bad usage saves nothing, and nobody expects it to.
        (None, Exit::Usage) => error,
        (None, exit) => CliError { exit, message: format!("{}; {saved}", error.message) },
    }
}

/// The run whose pick is asked for. `latest` is the newest that was to pick one, whether it ended or was
/// cut off: a later `gate` has no winner to give, and an older run's winner is not what is meant.
pub fn find_pick(runs: &Runs, asked: &str) -> Result<RunDir, CliError> {
    if asked == "latest" {
        for one in runs.list()?.into_iter().rev() {
            let dir = runs.find(one.run.as_str())?;
            if kind(&one, &dir) != Some(RunKind::Gate) {
                return Ok(dir);
            }
        }
    }
    Ok(runs.find(asked)?)
}

/// What kind of run it is: by its record, or without one by how its journal begins.
fn kind(run: &RunSummary, dir: &RunDir) -> Option<RunKind> {
    match &run.record {
        Ok(record) => Some(record.kind),
        Err(_) => Frame::find(&dir.read_journal().ok()?, dir).ok().map(|frame| frame.kind),
    }
}
