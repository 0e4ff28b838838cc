//! `bakeoff resume`.

use std::path::PathBuf;

use super::context::Context;
use super::engine::{Engine, masker};
use super::finish::{check_output, finish, show};
use super::flags::OutputFlags;
use super::launch::{check_budget_of_begun, trust_store, user_config};
use super::plan::budget;
use super::{CliError, Exit};
use crate::config::{Config, Sources};
use crate::journal::{JournalError, Masker, RunDir, Runs};
use crate::model::{RunLimits, RunRecord};
use crate::pipeline::{Continuation, Frame, Memory, Recall, resume};

/// Go on with a run that was cut off, without paying for a recorded answer again
#[derive(clap::Args, Debug)]
#[command(
    after_help = "What the run's journal holds is not done again: answers of models, finished workers, finished gates. \
    Workers that failed and gates that could not run are tried again. A call that was in flight when the run was cut \
    off is asked again, and told as possibly paid."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = "latest")]
    run: String,
    /// A new ceiling for the whole run, in US dollars; what was spent counts
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    budget: Option<f64>,
    /// A new ceiling of tokens for the whole run; what was used counts
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// A new time limit, in seconds from now
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    max_seconds: Option<u64>,
    #[command(flatten)]
    output: ResultFlags,
}

/// Where results of a run go that is not begun anew.
#[derive(clap::Args, Clone, Debug)]
pub struct ResultFlags {
    /// Write the winning diff to this file; `-` is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object (the run's record) to standard output
    #[arg(long, conflicts_with = "events")]
    json: bool,
    /// Print events as JSON lines to standard output while the run goes on
    #[arg(long)]
    events: bool,
    /// Write the winner to the working tree when the run ends with one
    #[arg(long)]
    apply: bool,
    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl From<ResultFlags> for OutputFlags {
    fn from(flags: ResultFlags) -> Self {
        let ResultFlags { output, json, events, apply, quiet } = flags;
        Self { output, json, events, apply, dry_run: false, quiet }
    }
}

impl Args {
    /// Goes on.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let output = OutputFlags::from(self.output.clone());
        check_output(&output)?;
        let found = Runs::new(&context.state).find(&self.run)?;
        if let Some(record) = ended(&found)?
            && !self.goes_on(&found)?
        {
            // Taking it cleans up after an engine that was killed at its very end. Where that can't be done, the
            // outcome can be shown all the same.
            drop(Runs::take(found.clone(), Masker::default()));
            return done_already(&record, &found, &output, context);
        }
        let frame = Frame::find(&found.read_journal()?, &found)?;
        let (config, trusted) = settings(&frame, context)?;
        let dir = Runs::take(found, masker(&config, context))?;
        // Only now nobody else writes it; another process may have gone on with it until now.
        if let Some(record) = ended(&dir)?
            && !self.goes_on(&dir)?
        {
            return done_already(&record, &dir, &output, context);
        }
        let read = dir.read_journal()?;
        let torn = dir.cut_torn_line(&read)?;
        let (told, mut memory) = Memory::of(&read, &dir, Recall::Completed)?;
        let mut frame = Frame::find(&read, &dir)?.restored(dir.masker())?;
        memory.restore_steers(dir.masker())?;
        frame.plan.limits = self.limits(&told)?;
        memory.raise(&frame.plan.limits)?;
        check_budget_of_begun(&frame.plan, &config)?;
        let engine = Engine::start(&frame.plan, config, trusted, context)?;
        Onward { frame, memory, torn }.drive(engine, dir, &output, context)
    }
}

impl Args {
    /// The limits from now on: those that were told last, but for what is told now.
    fn limits(&self, frame: &Frame) -> Result<RunLimits, CliError> {
        let was = frame.plan.limits;
        Ok(RunLimits {
            budget: budget("--budget", self.budget)?.or(was.budget),
            max_tokens: self.max_tokens.or(was.max_tokens),
            max_seconds: self.max_seconds.or(was.max_seconds),
            ..was
        })
    }

    /// Whether a run that has its decision has something left to do all the same: what a ceiling had kept
    /// it from that is higher now, or was made so by a resume that did not come to its end.
    fn goes_on(&self, dir: &RunDir) -> Result<bool, CliError> {
        let left = || -> Result<bool, CliError> {
            let read = dir.read_journal()?;
            if let Some(reason) = dir.other_record(&read)? {
                let path = dir.path().display().to_string();
                return Err(JournalError::Corrupt { path, reason }.into());
            }
            let (frame, mut memory) = Memory::of(&read, dir, Recall::Completed)?;
            Ok(memory.raise(&self.limits(&frame)?)?)
        };
        left().map_err(|error| super::record::kept(error, dir))
    }
}

/// What a run goes on with.
pub struct Onward {
    /// What it was told at its beginning.
    pub frame: Frame,
    /// What its journal knows.
    pub memory: Memory,
    /// Where a torn last line of the journal was put.
    pub torn: Option<PathBuf>,
}

impl Onward {
    /// Goes on to the end and shows it.
    pub fn drive(
        self,
        engine: Engine,
        dir: RunDir,
        output: &OutputFlags,
        context: &Context,
    ) -> Result<Exit, CliError> {
        let Self { frame, memory, torn } = self;
        show(output, context, |audience| {
            engine.drive(dir, audience, async move |drive| {
                let (cancel, stopped) = (drive.cancel, drive.stopped);
                let order = Continuation { frame, memory, torn, cancel, stopped };
                resume(order, drive.equipment, &drive.dir, drive.listener).await
            })
        })
    }
}

fn done_already(
    record: &RunRecord,
    dir: &RunDir,
    output: &OutputFlags,
    context: &Context,
) -> Result<Exit, CliError> {
    super::output::tell("bakeoff: the run has ended; there is nothing left to do\n");
    finish(record, dir, output, context)
}

/// The record of a run that has nothing left to do: one with a decision.
fn ended(dir: &RunDir) -> Result<Option<RunRecord>, CliError> {
    match dir.record() {
        Ok(record) => {
            Ok(Some(record).filter(|record| matches!(record.exit, Exit::Done | Exit::NoWinner)))
        }
        Err(JournalError::NoRecord { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The process's settings for a run that was begun before: the user's own, and the repository's as the
/// run began with them. The servers must be the same ones.
pub fn settings(frame: &Frame, context: &Context) -> Result<(Config, bool), CliError> {
    let trusted = match &frame.trust_hash {
        Some(hash) => trust_store(context).is_trusted(frame.top(), hash)?,
        None => false,
    };
    let config = Config::load(&Sources {
        user: user_config(context)?,
        repository: frame.config_text.clone(),
        trusted,
        env: &|name: &str| context.var(name),
    })?;
    frame.check_providers(&config)?;
    Ok((config, trusted))
}
