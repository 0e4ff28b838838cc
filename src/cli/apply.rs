//! `bakeoff apply`, and `--apply` of the commands that end with a winner.

use std::path::{Path, PathBuf};

use super::context::Context;
use super::diff::wanted;
use super::launch::{Prepared, config, perform};
use super::output::{tell, write_json, write_text};
use super::{CliError, Exit, record};
use crate::journal::{RunDir, Runs};
use crate::model::{CandidateId, EventSink, Family, RunRecord};
use crate::pipeline::{Applier, ApplyTo, Given, Moved, Step, Survey, repository_of};
use crate::report;
use crate::ui::Audience;

/// Write a run's winner to the working tree, a new branch, or a commit
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Uncommitted work is never lost: a file in the way is a refusal that names it. When the repository moved \
    since the run, the change is merged in memory and has to pass the gates there before anything is written."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the
    /// newest that is no `gate` (whether or not it has ended)
    #[arg(default_value = "latest")]
    run: String,
    /// A candidate's id (`c2`) instead of the winner; the only way to take PARTIAL work
    #[arg(long, value_name = "ID")]
    candidate: Option<String>,
    /// The repository, when it is not the one that the run was made on
    #[arg(short = 'C', long = "repo", value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Make a new branch with one commit; the working tree stays as it is
    #[arg(long, value_name = "NAME", conflicts_with = "commit")]
    branch: Option<String>,
    /// Commit on the current branch
    #[arg(long)]
    commit: bool,
    /// The commit's message; the task's first line by default
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Applies.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let dir = record::find_pick(&Runs::new(&context.state), &self.run)?;
        let record = record::read(&dir)?;
        let Some(candidate) = wanted(&record, self.candidate.as_deref())? else {
            return Err(CliError::no_winner(format!(
                "run {} has no winner: {}; --candidate ID applies another candidate that passed the gates",
                record.run, record.decision.reason
            )));
        };
        let repo = match &self.repo {
            Some(repo) => repo.clone(),
            None => own_repository(&record, &dir)?,
        };
        let to = self.destination(&record);
        let step = write(&repo, &record, &dir, &candidate, to, context)?;
        self.print(&candidate, &step)
    }

    fn destination(&self, record: &RunRecord) -> ApplyTo {
        let title = record.plan.task.as_ref().map(|task| task.title());
        let message =
            self.message.clone().or(title).unwrap_or_else(|| "Apply a picked change".into());
        match (&self.branch, self.commit) {
            (Some(name), _) => ApplyTo::Branch { name: name.clone(), message },
            (None, true) => ApplyTo::Commit { message },
            (None, false) => ApplyTo::WorkTree,
        }
    }

    fn print(&self, candidate: &CandidateId, step: &Written) -> Result<Exit, CliError> {
        if self.json {
            write_json(&serde_json::json!({
                "version": 1, "candidate": candidate, "paths": step.paths, "commit": step.commit,
            }))?;
        } else {
            write_text(&text(candidate, step))?;
        }
        Ok(Exit::Done)
    }
}

/// The repository of a run, when no other one is named. Somebody who stands in another repository does
/// not mean that one.
fn own_repository(record: &RunRecord, dir: &RunDir) -> Result<PathBuf, CliError> {
    let own = repository(record, dir);
    let Ok(here) = Survey::take(Path::new("."), "HEAD") else { return Ok(own) };
    if here.top() == own {
        return Ok(own);
    }
    Err(CliError::usage(format!(
        "run {} was made on {}, and this is {}: say with -C which of the two is meant",
        record.run,
        own.display(),
        here.top().display()
    )))
}

/// Where the run's repository is. A record writes paths lossily; the run's own store does not.
fn repository(record: &RunRecord, dir: &RunDir) -> PathBuf {
    repository_of(dir.path()).unwrap_or_else(|| record.plan.repo.clone())
}

/// What was written.
struct Written {
    paths: Vec<String>,
    commit: Option<String>,
}

fn text(candidate: &CandidateId, step: &Written) -> String {
    if step.paths.is_empty() && step.commit.is_none() {
        return format!("{candidate} is there already: nothing was written\n");
    }
    let files = step.paths.iter().map(|path| format!("  {}\n", report::line(path)));
    let place = match &step.commit {
        Some(commit) => format!("commit {commit}"),
        None => "the working tree".to_owned(),
    };
    format!("applied {candidate} to {place}:\n{}", files.collect::<String>())
}

/// Applies the winner of a run that just ended to the working tree.
pub fn apply_winner(record: &RunRecord, dir: &RunDir, context: &Context) -> Result<(), CliError> {
    let Some(winner) = record.decision.winner() else { return Ok(()) };
    let repo = repository(record, dir);
    let step = write(&repo, record, dir, winner, ApplyTo::WorkTree, context)?;
    // Standard error may be closed; the change is written all the same.
    tell(&text(winner, &step));
    Ok(())
}

fn write(
    repo: &Path,
    record: &RunRecord,
    dir: &RunDir,
    candidate: &CandidateId,
    to: ApplyTo,
    context: &Context,
) -> Result<Written, CliError> {
    let applier = Applier::open(repo, &context.cache, dir, record, candidate, to)?;
    let mut step = applier.apply()?;
    if let Step::NeedsGates(moved) = &step {
        prove_again(repo, record, moved, context)?;
        step = applier.apply_moved(moved)?;
    }
    match step {
        Step::Done { paths, commit } => {
            Ok(Written { paths, commit: commit.map(|id| id.to_string()) })
        }
        Step::NeedsGates(_) => Err(CliError::internal(
            "the repository moved once more while the gates ran; nothing was written: apply again",
        )),
    }
}

/// The same gates on the change as it stands now. Nothing is written unless they pass.
fn prove_again(
    repo: &Path,
    record: &RunRecord,
    moved: &Moved,
    context: &Context,
) -> Result<(), CliError> {
    let survey = Survey::take(repo, moved.commit.as_str())?;
    let (config, trusted) = config(&survey, None, context)?;
    let mut plan = record.plan.clone();
    plan.base = moved.commit.to_string();
    (plan.dirty, plan.lanes) = (false, Vec::new());
    plan.repo = survey.top().to_owned();
    (plan.judging.judges, plan.judging.models, plan.judging.synth) = Default::default();
    (plan.judging.duels, plan.design) = Default::default();
    let given = Given {
        source: format!("run {} moved to {}", record.run, moved.commit),
        family: Family::new("moved"),
        diff: moved.diff.clone(),
    };
    let prepared = Prepared::gate(survey, plan, config, trusted, vec![given]);
    let (again, _) = perform(prepared, Audience::of(EventSink::none()), context)?;
    if again.exit == Exit::Done {
        return Ok(());
    }
    Err(CliError {
        exit: again.exit,
        message: format!(
            "the repository moved since the run, and the change does not pass the gates there ({}); nothing was \
             written: `bakeoff show {}` tells why",
            again.decision.reason, again.run
        ),
    })
}
