//! Running a scenario: the same way as every other run, on a repository made for it.

use super::CliError;
use super::context::Context;
use super::flags::{ContextFlags, GateFlags, JudgeFlags, LaneFlags, RepoFlags};
use super::launch::{Prepared, Request, prepare};
use crate::model::{Exit, RunKind, Task, TaskSource};
use crate::selftest::{CrashError, LaidOut, Scenario, ScenarioError};

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        Self::internal(error)
    }
}

impl From<CrashError> for CliError {
    fn from(error: CrashError) -> Self {
        let exit = match &error {
            CrashError::Infra(_) => Exit::Infra,
            CrashError::Io(_) => Exit::Internal,
        };
        Self { exit, message: error.to_string() }
    }
}

/// Prepares a scenario that was laid out.
pub fn prepare_scenario(
    scenario: &Scenario,
    place: &LaidOut,
    judges: JudgeFlags,
    context: &Context,
) -> Result<Prepared, CliError> {
    let repo = RepoFlags { repo: place.repository.clone(), base: "HEAD".to_owned(), dirty: false };
    let gates = GateFlags { no_check: scenario.no_check, ..GateFlags::default() };
    let request = Request {
        kind: RunKind::Run,
        repo: &repo,
        task: Some(Task { text: scenario.task.clone(), source: TaskSource::Demo }),
        lanes: Some(&LaneFlags::default()),
        context: ContextFlags::default(),
        gates: &gates,
        judges: Some(&judges),
        sources: &[],
        instance: None,
        config: Some(place.config.clone()),
    };
    prepare(request, context)
}

/// The judge flags that a scenario asks for.
pub fn judge_flags(scenario: &Scenario) -> JudgeFlags {
    JudgeFlags { no_judge: scenario.no_judge, no_synth: scenario.no_synth, ..JudgeFlags::default() }
}
