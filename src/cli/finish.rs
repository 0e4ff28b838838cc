//! From a request to an exit: preview, progress, results, `-o` and `--apply`.

use std::path::Path;

use super::apply::apply_winner;
use super::context::Context;
use super::flags::OutputFlags;
use super::launch::{Prepared, Request, perform, prepare};
use super::output::{is_special, write_diff, write_file, write_json, write_stdout};
use super::record::kept;
use super::{CliError, Exit, preview};
use crate::journal::RunDir;
use crate::model::{CandidateId, RunRecord};
use crate::report;
use crate::ui::{Audience, Listener, Mode};

/// Does what was asked, from the preview to the results.
pub fn carry_out(
    request: Request<'_>,
    output: &OutputFlags,
    context: &Context,
) -> Result<Exit, CliError> {
    check_output(output)?;
    carry_on(prepare(request, context)?, output, context)
}

/// Goes on from a request that was understood.
pub fn carry_on(
    prepared: Prepared,
    output: &OutputFlags,
    context: &Context,
) -> Result<Exit, CliError> {
    if output.dry_run {
        return preview::dry_run(&prepared, output, context);
    }
    preview::announce(&prepared, output)?;
    show(output, context, |audience| perform(prepared, audience, context))
}

/// Shows a run's progress while `run` goes on, and then its results.
pub fn show(
    output: &OutputFlags,
    context: &Context,
    run: impl FnOnce(Audience) -> Result<(RunRecord, RunDir), CliError>,
) -> Result<Exit, CliError> {
    let listener = Listener::start(mode(output, context));
    let result = run(listener.audience());
    listener.close();
    let (record, dir) = result?;
    finish(&record, &dir, output, context).map_err(|error| kept(error, &dir))
}

/// A run is paid for: where its result can't be written is told before it begins.
pub fn check_output(output: &OutputFlags) -> Result<(), CliError> {
    let Some(path) = output.output.as_deref() else { return Ok(()) };
    if path == Path::new("-") {
        return match output.json || output.events {
            true => Err(CliError::usage(
                "-o - and --json or --events would mix two results on standard output; write the diff to a file",
            )),
            false => Ok(()),
        };
    }
    if is_special(path) {
        return Ok(());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !dir.is_dir() {
        return Err(CliError::usage(format!(
            "-o {}: give a file in a directory that exists",
            path.display()
        )));
    }
    tempfile::tempfile_in(dir).map(drop).map_err(|error| {
        CliError::usage(format!(
            "-o {}: the directory can't be written to: {error}",
            path.display()
        ))
    })
}

fn mode(output: &OutputFlags, context: &Context) -> Mode {
    match (output.events, output.quiet, context.terminal) {
        (true, _, _) => Mode::Events,
        (_, true, _) => Mode::Silent,
        (_, _, true) => Mode::Live,
        (_, _, false) => Mode::Plain,
    }
}

/// Prints what a run left.
pub fn finish(
    record: &RunRecord,
    dir: &RunDir,
    output: &OutputFlags,
    context: &Context,
) -> Result<Exit, CliError> {
    let winner = record.decision.winner().map(|id| applied_diff(record, dir, id)).transpose()?;
    let diff_to_stdout = output.output.as_deref() == Some(Path::new("-"));
    if output.json {
        write_json(record)?;
    } else if !output.events && !diff_to_stdout {
        let text = report::text(record, &context.style());
        write_stdout(text.as_bytes())?;
        if let (Some(diff), None) = (&winner, &output.output) {
            write_stdout(report::diff(diff, &context.style()).as_bytes())?;
        }
    }
    // A run that a signal ended hands over nothing: its winner is there to be asked for.
    if record.exit != Exit::Done {
        return Ok(told(record, dir));
    }
    match (&output.output, &winner) {
        (Some(_), Some(diff)) if diff_to_stdout => write_diff(diff, context)?,
        (Some(path), Some(diff)) => write_file(path, diff)?,
        _ => {}
    }
    if output.apply && winner.is_some() {
        apply_winner(record, dir, context)?;
    }
    Ok(record.exit)
}

/// The exit of a run without a result to hand over; a signal's is told in words, too.
fn told(record: &RunRecord, dir: &RunDir) -> Exit {
    match record.exit {
        Exit::Interrupted | Exit::Terminated => {
            let path = dir.path().display();
            let message = format!(
                "the run was stopped; what was done so far is in {path}, and `bakeoff resume {}` goes on with it",
                dir.id()
            );
            CliError { exit: record.exit, message }.report()
        }
        exit => exit,
    }
}

/// The diff between the base and a candidate's tree, as any git applies it.
pub fn applied_diff(
    record: &RunRecord,
    dir: &RunDir,
    id: &CandidateId,
) -> Result<Vec<u8>, CliError> {
    let row = record.candidates.iter().find(|row| row.candidate.id == *id);
    let row = row.ok_or_else(|| CliError::internal(format!("the record does not hold {id}")))?;
    match &row.applied {
        Some(artifact) => Ok(dir.artifacts().get(artifact)?),
        None => Err(CliError::usage(format!(
            "{id} was refused, so there is nothing that applies; --raw prints it as it was proposed"
        ))),
    }
}
