//! What earlier runs of the same repository left, read once when a run begins and frozen in its frame
//! (contract R30). Never here: a fence; the prompt's context makes it.

use std::path::Path;

use super::PipelineError;
use super::digest::remembered;
use crate::journal::Runs;
use crate::model::{RunId, RunKind, RunRecord};

/// The newest `most` runs on the working tree `top`, the newest first. What was asked to stay out of every
/// context (contract S5), what can't be read, and gates alone are left out.
pub(super) fn earlier(
    state: &Path,
    top: &Path,
    most: u32,
    but: &RunId,
) -> Result<Vec<String>, PipelineError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let top = top.to_string_lossy();
    let tells = |record: &RunRecord| {
        record.plan.repo.to_string_lossy() == top
            && record.kind != RunKind::Gate
            && record.run != *but
            && !record.plan.exclude_from_context
    };
    let runs = Runs::new(state);
    let told = runs.newest()?.filter_map(Result::ok).filter(|record| tells(record));
    Ok(told.take(most as usize).map(|record| remembered(&record)).collect())
}
