//! `bakeoff diff`.

use super::context::Context;
use super::finish::applied_diff;
use super::output::{tell, write_diff};
use super::{CliError, Exit, record};
use crate::journal::Runs;
use crate::model::{ArtifactId, CandidateId, RunRecord};
use crate::pipeline::masked_diff;

/// Print the diff of a run's winner, or of a candidate by its id
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the
    /// newest that is no `gate` (whether or not it has ended)
    #[arg(default_value = "latest")]
    run: String,
    /// A candidate's id (`c2`) instead of the winner
    #[arg(long, value_name = "ID")]
    candidate: Option<String>,
    /// Print it byte for byte as it was proposed, before any repair
    #[arg(long)]
    raw: bool,
}

impl Args {
    /// Prints the diff.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let dir = record::find_pick(&Runs::new(&context.state), &self.run)?;
        let record = record::read(&dir)?;
        let Some(wanted) = wanted(&record, self.candidate.as_deref())? else {
            return Err(CliError::no_winner(format!(
                "run {} has no winner: {}; --candidate ID prints another diff",
                record.run, record.decision.reason
            )));
        };
        let bytes = match self.raw {
            true => dir.artifacts().get(&proposed(&record, &wanted)?)?,
            false => applied_diff(&record, &dir, &wanted)?,
        };
        if let Some(masked) = masked_diff(&record, &wanted) {
            tell(&format!("warning: {masked}\n"));
        }
        write_diff(&bytes, context)?;
        Ok(Exit::Done)
    }
}

/// The candidate that was asked for, or the winner.
pub fn wanted(record: &RunRecord, asked: Option<&str>) -> Result<Option<CandidateId>, CliError> {
    let Some(asked) = asked else { return Ok(record.decision.winner().cloned()) };
    let known = || record.candidates.iter().map(|row| row.candidate.id.as_str());
    if known().any(|id| id == asked) {
        return Ok(Some(CandidateId::new(asked)));
    }
    let list = known().collect::<Vec<_>>().join(", ");
    Err(CliError::usage(format!("run {} has no candidate {asked:?}; it has: {list}", record.run)))
}

fn proposed(record: &RunRecord, id: &CandidateId) -> Result<ArtifactId, CliError> {
    let row = record.candidates.iter().find(|row| row.candidate.id == *id);
    row.map(|row| row.candidate.diff.clone())
        .ok_or_else(|| CliError::internal(format!("the record names {id} and does not hold it")))
}
