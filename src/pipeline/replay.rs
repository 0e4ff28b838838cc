//! Deriving a finished run's decision again from its record: no network, no process, nothing changed.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::assemble::assignment;
use super::cautions::any_masked_diff;
use super::choosing::{Desks, admit, judging, weigh};
use super::design::design;
use super::frame::Frame;
use super::layers::lay;
use super::memory::Memory;
use super::models::Models;
use super::run::execute;
use super::side::side;
use super::tell::Teller;
use super::{Phases, PipelineError, Prove};
use crate::fence::Fencer;
use crate::journal::RunDir;
use crate::model::{CandidateId, EventSink, GateReport, RULES_VERSION, RunRecord, TreeId};
use crate::repo::{Store, StorePaths};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Derives the decision again and says how it differs from the record's: in nothing, if all is well.
///
/// # Errors
/// When the run's record was decided by other rules, can't be read, or holds a diff with masked secrets.
pub async fn replay(
    frame: Frame,
    memory: Memory,
    recorded: &RunRecord,
    cache: &Path,
    dir: &RunDir,
) -> Result<Vec<String>, PipelineError> {
    if recorded.rules != RULES_VERSION {
        return Err(PipelineError::Config(format!(
            "the run was decided by version {} of the rules, and this bakeoff has version {RULES_VERSION}; \
             replay it with the engine {} that made it",
            recorded.rules, recorded.engine
        )));
    }
    if let Some(masked) = any_masked_diff(recorded) {
        return Err(PipelineError::Config(format!(
            "the run can't be derived again, because its record does not hold all that it was decided by: {masked}"
        )));
    }
    let paths = StorePaths { cache: cache.to_owned(), run: dir.path().to_owned() };
    // Trees are made again beside the run, which may be an archive that nobody can write to.
    let scratch = tempfile::tempdir()
        .map_err(|error| PipelineError::Store(format!("failed to make a directory: {error}")))?;
    let aside = scratch.path().to_owned();
    let store = tokio::task::spawn_blocking(move || Store::reopen_aside(&paths, &aside))
        .await
        .map_err(|error| PipelineError::Internal(error.to_string()))??;
    let (store, memory) = (Arc::new(store), Arc::new(memory));
    let layers = lay(&frame.layers)?;
    let phases = phases(&frame, &layers, &store, &memory, dir)?;
    let order = assignment(&frame, &layers, &memory, dir)?;
    let tell = Teller::new(dir.clone(), EventSink::none());
    let again = execute(order, &phases, dir, tell, &CancellationToken::new()).await?;
    let mut differences = memory.missing();
    differences.extend(compare(recorded, &again)?);
    Ok(differences)
}

fn phases(
    frame: &Frame,
    layers: &super::layers::Layers,
    store: &Arc<Store>,
    memory: &Arc<Memory>,
    dir: &RunDir,
) -> Result<Phases, PipelineError> {
    let plan = &frame.plan;
    let models = Models::remembered(plan, dir, memory);
    let fencer = Fencer::new(dir.fence_secret()?);
    let (alone, never) = ((EventSink::none(), CancellationToken::new()), CancellationToken::new());
    let desks = Desks { layers, models: &models, fencer: &fencer, store, dir, memory, prove: None };
    let (judge, duels, fuse) = judging(plan, &desks, alone)?;
    let told = (store, frame.instructions());
    Ok(Phases {
        work: Some(Box::new(NoWork)),
        admit: admit(store, plan),
        prove: Box::new(NoGates),
        weigh: weigh(store, plan),
        judge,
        duels,
        design: design(plan, layers, &models, &fencer, told, &never)?,
        fuse,
        side: side(plan, layers, &models, &fencer, &never)?,
    })
}

/// Workers that the memory did not answer for: there are none in a replay.
struct NoWork;

impl super::Work for NoWork {
    fn attempt(
        &self,
        _: crate::fanout::LaneRun,
        _: CancellationToken,
    ) -> BoxFuture<'static, super::Attempt> {
        std::future::ready(super::Attempt::nothing(crate::model::Stop::Cancelled)).boxed()
    }
}

/// Gates that the memory did not answer for.
struct NoGates;

impl Prove for NoGates {
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>> {
        let error = "the record does not hold the gates of the base";
        std::future::ready(Err(PipelineError::Store(error.to_owned()))).boxed()
    }

    fn candidate<'a>(
        &'a self,
        _: &'a CandidateId,
        _: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// What of a record must come out again; times and what a resume took over need not.
const DERIVED: [&str; 16] = [
    "kind",
    "base",
    "lanes",
    "candidates",
    "ballots",
    "controls",
    "duels",
    "design",
    "decision",
    "usage",
    "definitions",
    "saved",
    "steers",
    "extensions",
    "title",
    "capsule",
];

/// The paths at which two records differ.
fn compare(recorded: &RunRecord, again: &RunRecord) -> Result<Vec<String>, PipelineError> {
    let value = |record: &RunRecord| {
        serde_json::to_value(record).map_err(|error| PipelineError::Internal(error.to_string()))
    };
    let (recorded, again) = (value(recorded)?, value(again)?);
    let mut found = Vec::new();
    for part in DERIVED {
        differences(part, &recorded[part], &again[part], &mut found);
    }
    Ok(found)
}

fn differences(
    path: &str,
    recorded: &serde_json::Value,
    again: &serde_json::Value,
    found: &mut Vec<String>,
) {
    use serde_json::Value;
    match (recorded, again) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let get = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or(Value::Null)
                };
                differences(&format!("{path}.{key}"), &get(one), &get(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}[{index}]"), one, other, found);
            }
        }
        (one, other) if one != other => {
            let short = |value: &Value| crate::model::clip(&value.to_string(), 200).text;
            found.push(format!("{path}: recorded {}, now {}", short(one), short(other)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_name_their_place() {
        let mut found = Vec::new();
        let (one, other) =
            (json!({"a": [1, {"b": 2}], "c": 3}), json!({"a": [1, {"b": 4}], "d": 5}));
        differences("r", &one, &other, &mut found);
        assert_eq!(
            found,
            [
                "r.a[1].b: recorded 2, now 4",
                "r.c: recorded 3, now null",
                "r.d: recorded null, now 5"
            ]
        );
    }
}
