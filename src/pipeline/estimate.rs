//! What a plan may cost, before anything is asked: calls, money, and whether its budgets can be kept.
//!
//! Never here: what calls did cost (`provider` counts that).

use super::models::{models_of, others, pricing};
use crate::config::Config;
use crate::model::{Cost, Lane, MicroUsd, ModelRef, NestedLimits, Plan, WorkerLimits};
use serde::Serialize;

/// Input tokens that a call is priced with in an estimate.
const ESTIMATE_INPUT_TOKENS: u64 = 100_000;

/// The models of a plan whose price is not known, so that no budget can be kept with them.
fn unpriced(plan: &Plan, config: &Config) -> Vec<ModelRef> {
    let lanes = plan.lanes.iter().flat_map(models_of);
    let all = lanes.chain(others(plan));
    let mut found: Vec<ModelRef> = all.filter(|model| !has_price(model, config)).cloned().collect();
    found.sort();
    found.dedup();
    found
}

fn has_price(model: &ModelRef, config: &Config) -> bool {
    let provider = config.provider(&model.provider).ok();
    provider.and_then(|provider| pricing(provider).most(&model.model, 1, 1)).is_some()
}

/// A model with which a plan's budget can't be kept, because its price is not known and no ceiling of
/// tokens stands in for it: with what was set, and with what would do.
pub fn unkept(plan: &Plan, config: &Config) -> Option<(ModelRef, &'static str, &'static str)> {
    if plan.limits.max_tokens.is_some() {
        return None;
    }
    if plan.limits.budget.is_some()
        && let Some(model) = unpriced(plan, config).into_iter().next()
    {
        return Some((model, "--budget", "--max-tokens"));
    }
    plan.lanes.iter().find_map(|lane| {
        let limits = plan.limits_of(lane);
        let bare = limits.budget.is_some() && limits.max_tokens.is_none();
        let model = models_of(lane).find(|model| bare && !has_price(model, config))?.clone();
        Some(match limits.budget == plan.worker_limits.budget {
            true => (model, "--lane-budget", "--lane-tokens"),
            false => (model, "the lane's `budget_usd`", "the lane's `tokens`"),
        })
    })
}

/// Models whose price is not known although a budget is to be kept: a ceiling of tokens stands in for it.
pub(super) fn counted_by_tokens(plan: &Plan, config: &Config) -> Vec<String> {
    let has_budget = plan.limits.budget.is_some()
        || plan.lanes.iter().any(|lane| plan.limits_of(lane).budget.is_some());
    unpriced(plan, config).iter().filter(|_| has_budget).map(ModelRef::to_string).collect()
}

/// The most that a plan can ask for.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Model calls, retries of failed ones left out.
    pub calls: u64,
    /// What they cost when every call has `input_tokens_per_call` and the largest answer, and every worker
    /// ends at its own limits.
    pub cost: Cost,
    /// The input tokens that a call is priced with.
    pub input_tokens_per_call: u64,
    /// The lanes, in the plan's order.
    pub lanes: Vec<LaneEstimate>,
}

/// The most that a lane can ask for.
#[derive(Clone, Debug, Serialize)]
pub struct LaneEstimate {
    /// Its name.
    pub lane: String,
    /// Model calls of all its workers.
    pub most_calls: u64,
    /// What they cost.
    pub most_cost: Cost,
    /// The limit that ends its workers before that many calls at that price, if one does.
    pub stopped_by: Option<Stopper>,
}

/// A limit of a worker that bounds what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "most", rename_all = "snake_case")]
pub enum Stopper {
    /// Money, in millionths of a US dollar.
    Budget(MicroUsd),
    /// Tokens, in and out.
    Tokens(u64),
}

/// Calls and cost of a plan at most. `given` is the number of diffs made elsewhere.
pub fn estimate(plan: &Plan, config: &Config, given: usize) -> Estimate {
    let mut total = Estimate {
        calls: 0,
        cost: Cost::default(),
        input_tokens_per_call: ESTIMATE_INPUT_TOKENS,
        lanes: Vec::new(),
    };
    for lane in &plan.lanes {
        total.work(lane_estimate(plan, lane, config));
    }
    let limits = &plan.worker_limits;
    let candidates =
        (u64::from(plan.attempts()) + given as u64).min(u64::from(plan.judging.finalists.max(2)));
    let several = candidates > 1;
    // The synthesizer's candidate meets the winner in one more pair, and so do a change and its padded copy;
    // the pair of each duel meets once more.
    let duels = plan.judging.duels.as_ref().filter(|_| several);
    let pairs = candidates * candidates.saturating_sub(1) / 2
        + u64::from(plan.judging.synth.is_some())
        + u64::from(several)
        + duels.map_or(0, |duels| u64::from(duels.most));
    // One judge alone is answered for by two models.
    let voices = if plan.judging.judges.len() == 1 { plan.judging.models.len().min(2) } else { 1 };
    let judges = (plan.judging.judges.len() * voices) as u64;
    let skeptics = if plan.judging.skeptics && several { candidates } else { 0 };
    let models = plan.judging.models.len().max(1) as u64;
    for model in &plan.judging.models {
        // Both orders, and each invalid reply is asked again once.
        total.add(config, limits, model, (pairs * judges * 2 * 2 + skeptics).div_ceil(models));
    }
    if let Some(synth) = &plan.judging.synth {
        // An invalid reply is asked again once; so is each mending.
        total.add(config, limits, synth, 2 * (1 + u64::from(plan.judging.fix_rounds)));
    }
    if let Some(side) = &plan.side {
        total.add(config, limits, side, 2);
    }
    if let Some(duels) = duels {
        total.add(config, limits, &duels.model, u64::from(duels.most));
    }
    if let Some(design) = &plan.design {
        total.add(config, limits, design, 1);
    }
    total
}

/// The calls of one worker run at most, with those of the workers that it hands work to.
fn calls_of(limits: &WorkerLimits, nested: &NestedLimits) -> u64 {
    // Every tool round asks once; a reminder and the last summary come on top.
    let of = |rounds: u32| u64::from(rounds) + 2;
    let subtasks = if nested.depth == 0 { 0 } else { u64::from(nested.most) };
    of(limits.max_tool_iterations) + subtasks * of(nested.turns)
}

/// A lane at most: as many calls as its turns allow, and no more than its tokens and its budget do.
fn lane_estimate(plan: &Plan, lane: &Lane, config: &Config) -> LaneEstimate {
    let limits = plan.limits_of(lane);
    let workers = u64::from(lane.attempts);
    let calls = workers * calls_of(&limits, &plan.workers.nested);
    let mut found = LaneEstimate {
        lane: lane.name.clone(),
        most_calls: 0,
        most_cost: Cost::default(),
        stopped_by: None,
    };
    // Whoever can't answer may fail at its last call, and the next one begins anew, with its own tokens.
    for model in models_of(lane) {
        found.most_calls += calls;
        let mut most = call_cost(config, &limits, model).map(|each| each.saturating_mul(calls));
        if let Some(tokens) = limits.max_tokens
            && let Some(bound) = token_cost(config, model, tokens)
            && most.is_some_and(|most| bound.saturating_mul(workers) < most)
        {
            most = Some(bound.saturating_mul(workers));
            found.stopped_by = Some(Stopper::Tokens(tokens));
        }
        add(&mut found.most_cost, most);
    }
    // The models of a lane share one budget.
    if let Some(budget) = limits.budget {
        let bound = budget.0.saturating_mul(workers);
        if bound < found.most_cost.known.0 {
            found.most_cost.known.0 = bound;
            found.stopped_by = Some(Stopper::Budget(budget));
        }
    }
    found
}

/// The most that one call can cost, in millionths of a dollar; `None` without a price.
fn call_cost(config: &Config, limits: &WorkerLimits, model: &ModelRef) -> Option<u64> {
    let output = u64::from(limits.max_output_tokens);
    most_cost(config, model, ESTIMATE_INPUT_TOKENS, output)
}

/// The most that so many tokens can cost: all of the dearer kind.
fn token_cost(config: &Config, model: &ModelRef, tokens: u64) -> Option<u64> {
    most_cost(config, model, tokens, 0).max(most_cost(config, model, 0, tokens))
}

fn most_cost(config: &Config, model: &ModelRef, input: u64, output: u64) -> Option<u64> {
    let provider = config.provider(&model.provider).ok()?;
    pricing(provider).most(&model.model, input, output).map(|most| most.0)
}

fn add(cost: &mut Cost, most: Option<u64>) {
    match most {
        Some(most) => cost.known.0 = cost.known.0.saturating_add(most),
        None => cost.partly_unknown = true,
    }
}

impl Estimate {
    fn work(&mut self, lane: LaneEstimate) {
        self.calls += lane.most_calls;
        add(&mut self.cost, Some(lane.most_cost.known.0));
        self.cost.partly_unknown |= lane.most_cost.partly_unknown;
        self.lanes.push(lane);
    }

    fn add(&mut self, config: &Config, limits: &WorkerLimits, model: &ModelRef, calls: u64) {
        self.calls += calls;
        let each = call_cost(config, limits, model);
        add(&mut self.cost, each.map(|each| each.saturating_mul(calls)));
    }
}
