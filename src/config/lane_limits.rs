//! `turns`, `tokens`, `seconds` and `budget_usd` of `[lanes.NAME]`: what each worker run of a lane may use.

use toml::de::DeTable;

use super::reader::Layer;
use super::setting::Setting;
use super::{LimitSettings, convert};
use crate::model::{MicroUsd, Origin, WorkerLimits};

/// The keys of a lane that are read here.
pub(super) const KEYS: [&str; 4] = ["turns", "tokens", "seconds", "budget_usd"];

/// A lane's own limits. What is not set is as `[limits]` says; a 0 of tokens or seconds is no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneLimits {
    /// Rounds of tool calls.
    pub turns: Setting<Option<u32>>,
    /// Tokens, in and out.
    pub tokens: Setting<Option<u64>>,
    /// Wall-clock seconds.
    pub seconds: Setting<Option<u64>>,
    /// Money.
    pub budget: Setting<Option<MicroUsd>>,
}

impl LaneLimits {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        layer
            .set(at, table, "turns", &mut self.turns, |value| convert::positive32(value).map(Some));
        layer.set(at, table, "tokens", &mut self.tokens, convert::limit);
        layer.set(at, table, "seconds", &mut self.seconds, convert::limit);
        layer.set(at, table, "budget_usd", &mut self.budget, convert::budget);
    }

    /// The limits of the lane's worker runs, where they differ from those of every worker.
    pub(super) fn over(&self, all: &LimitSettings) -> Option<WorkerLimits> {
        let usual = all.worker();
        let rounds = &all.max_tool_iterations;
        let rounds = Setting { value: Some(rounds.value), origin: rounds.origin.clone() };
        let own = WorkerLimits {
            max_tool_iterations: lower(&self.turns, &rounds).unwrap_or(usual.max_tool_iterations),
            max_tokens: lower(&self.tokens, &all.lane_tokens),
            max_seconds: lower(&self.seconds, &all.max_turn_seconds),
            budget: lower(&self.budget, &all.lane_budget),
            max_output_tokens: usual.max_output_tokens,
        };
        (own != usual).then_some(own)
    }
}

/// A lane's own word counts in place of what a file says of every worker. What this command was told
/// (by a flag, or by the environment) bounds every lane: then the lower of the two counts.
fn lower<T: Copy + Ord>(own: &Setting<Option<T>>, all: &Setting<Option<T>>) -> Option<T> {
    let bounds = matches!(all.origin, Origin::Flag | Origin::Environment { .. });
    match (own.is_set(), bounds) {
        (false, _) => all.value,
        (true, false) => own.value,
        (true, true) => own.value.into_iter().chain(all.value).min(),
    }
}
