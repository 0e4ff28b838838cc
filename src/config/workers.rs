//! `[workers]`: what workers may start beside asking their model.

use toml::de::{DeTable, DeValue};

use super::reader::Layer;
use super::{Setting, convert};
use crate::model::{NestedLimits, WorkerPlan};

const KEYS: [&str; 6] =
    ["sandbox", "job_seconds", "subtasks", "subtask_depth", "subtask_turns", "heal_rounds"];

/// `[workers]`.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// `standard`, or `strict`: then only the operator runs code with `code_execution`.
    pub sandbox: Setting<SandboxUse>,
    /// The longest that a background job may run, in seconds.
    pub job_seconds: Setting<u64>,
    /// How many subtasks one worker run may hand on; 0 for none.
    pub subtasks: Setting<u32>,
    /// How deep subtasks may be nested.
    pub subtask_depth: Setting<u32>,
    /// Tool rounds of each subtask.
    pub subtask_turns: Setting<u32>,
    /// How often a candidate that failed a gate goes back to its worker.
    pub heal_rounds: Setting<u32>,
}

/// Who may have code run in the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxUse {
    /// Models, too.
    #[default]
    Standard,
    /// The operator alone (contract C16).
    Strict,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        let plan = WorkerPlan::default();
        Self {
            sandbox: Setting::default(),
            job_seconds: Setting::default_of(plan.job_seconds),
            subtasks: Setting::default_of(plan.nested.most),
            subtask_depth: Setting::default_of(plan.nested.depth),
            subtask_turns: Setting::default_of(plan.nested.turns),
            heal_rounds: Setting::default_of(plan.heal_rounds),
        }
    }
}

fn sandbox_use(value: &DeValue<'_>) -> Result<SandboxUse, String> {
    match value.as_str() {
        Some("standard") => Ok(SandboxUse::Standard),
        Some("strict") => Ok(SandboxUse::Strict),
        _ => Err("\"standard\" or \"strict\"".to_owned()),
    }
}

impl WorkerSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "workers";
        layer.unknown(at, table, &KEYS);
        layer.set(at, table, "sandbox", &mut self.sandbox, sandbox_use);
        layer.set(at, table, "job_seconds", &mut self.job_seconds, convert::positive);
        layer.set(at, table, "subtasks", &mut self.subtasks, convert::few);
        layer.set(at, table, "subtask_depth", &mut self.subtask_depth, convert::few);
        layer.set(at, table, "subtask_turns", &mut self.subtask_turns, convert::positive32);
        layer.set(at, table, "heal_rounds", &mut self.heal_rounds, convert::few);
    }

    pub(super) fn environment(&mut self, layer: &mut super::load::Environment<'_>) {
        layer.set("workers.sandbox", &mut self.sandbox, sandbox_use);
        layer.set("workers.job_seconds", &mut self.job_seconds, convert::positive);
        layer.set("workers.subtasks", &mut self.subtasks, convert::few);
        layer.set("workers.subtask_depth", &mut self.subtask_depth, convert::few);
        layer.set("workers.subtask_turns", &mut self.subtask_turns, convert::positive32);
        layer.set("workers.heal_rounds", &mut self.heal_rounds, convert::few);
    }

    /// The same for the plan.
    pub fn plan(&self) -> WorkerPlan {
        WorkerPlan {
            job_seconds: self.job_seconds.value,
            code: self.sandbox.value == SandboxUse::Standard,
            nested: NestedLimits {
                most: self.subtasks.value,
                depth: self.subtask_depth.value,
                turns: self.subtask_turns.value,
            },
            heal_rounds: self.heal_rounds.value,
        }
    }
}
