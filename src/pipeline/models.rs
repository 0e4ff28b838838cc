//! Models of a run: connected once per provider, decorated so that no call escapes budget or journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::PipelineError;
use super::memory::{Memory, Remembering};
use super::tell::Teller;
use crate::config::{Config, DeadlineSettings, Header, OutputLimit, ProviderConfig, Setting};
use crate::journal::{Entry, JournalError, RunDir};
use crate::model::chat::{Delta, ModelReply, ModelRequest};
use crate::model::{Cost, Lane, ModelRef, Plan, Usage, Wire};
use crate::provider::{
    Ask, Ceiling, Ceilings, Circuit, CircuitPolicy, Deadlines, Endpoint, ErrorClass, Ledger,
    Metered, OutputLimitField, Price, Pricing, Provider, ProviderError, RetryPolicy, Retrying,
    connect,
};

/// Input tokens that a call is priced with in an estimate, when no limit says otherwise.
const ESTIMATE_INPUT_TOKENS: u64 = 100_000;

/// The providers of a run by name.
#[derive(Clone)]
pub struct Models(BTreeMap<String, Arc<dyn Provider>>);

impl Models {
    /// Connects every provider that the plan names.
    ///
    /// # Errors
    /// When a provider is unknown or its address or script can't be used.
    pub fn connect(
        plan: &Plan,
        config: &Config,
        dir: &RunDir,
        tell: &Teller,
        memory: &Arc<Memory>,
    ) -> Result<Self, PipelineError> {
        let ledger = Ledger::new(ceilings(plan));
        memory.spent().iter().for_each(|(purpose, usage)| ledger.restore(purpose, usage));
        let mut all = BTreeMap::new();
        for name in provider_names(plan) {
            let provider =
                config.provider(&name).map_err(|e| PipelineError::Config(e.to_string()))?;
            let wire = connect(&endpoint(provider))
                .map_err(|error| PipelineError::Config(error.to_string()))?;
            let metered = Metered::new(wire, ledger.clone(), pricing(provider));
            let recorded =
                Recorded { inner: Arc::new(metered), dir: dir.clone(), tell: tell.clone() };
            let retrying = Retrying::new(Arc::new(recorded), RetryPolicy::default());
            let circuit = Circuit::new(&name, Arc::new(retrying), CircuitPolicy::default());
            all.insert(name, remembering(Arc::new(circuit), dir, memory));
        }
        Ok(Self(all))
    }

    /// The providers of a plan as a replay has them: only the memory answers, and nothing is connected.
    pub fn remembered(plan: &Plan, dir: &RunDir, memory: &Arc<Memory>) -> Self {
        let offline = |name| (name, remembering(Arc::new(Offline), dir, memory));
        Self(provider_names(plan).into_iter().map(offline).collect())
    }

    /// The provider of a model.
    ///
    /// # Errors
    /// When the plan did not name it.
    pub fn provider(&self, model: &ModelRef) -> Result<Arc<dyn Provider>, PipelineError> {
        self.0.get(&model.provider).cloned().ok_or_else(|| {
            PipelineError::Internal(format!("provider {} was not connected", model.provider))
        })
    }
}

fn remembering(inner: Arc<dyn Provider>, dir: &RunDir, memory: &Arc<Memory>) -> Arc<dyn Provider> {
    Arc::new(Remembering { inner, memory: memory.clone(), dir: dir.clone() })
}

/// Nobody to ask.
struct Offline;

impl Provider for Offline {
    fn call<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>> {
        let error = ProviderError::new(ErrorClass::Cancelled, "nothing is asked in a replay");
        std::future::ready(Err(error)).boxed()
    }
}

fn ceilings(plan: &Plan) -> Ceilings {
    let (run, lane) = (&plan.limits, &plan.worker_limits);
    Ceilings {
        run: Ceiling { money: run.budget, tokens: run.max_tokens },
        lane: Ceiling { money: lane.budget, tokens: lane.max_tokens },
    }
}

/// The providers that a plan names, each once.
pub(super) fn provider_names(plan: &Plan) -> Vec<String> {
    let lanes = plan.lanes.iter().flat_map(models_of);
    let mut names: Vec<String> =
        lanes.chain(others(plan)).map(|model| model.provider.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The models of all roles but the workers'.
fn others(plan: &Plan) -> impl Iterator<Item = &ModelRef> {
    let judging = &plan.judging;
    let duels = judging.duels.as_ref().map(|duels| &duels.model);
    judging.models.iter().chain(&judging.synth).chain(duels).chain(&plan.design).chain(&plan.side)
}

/// The models of a lane: its own, then those that can take over.
fn models_of(lane: &Lane) -> impl Iterator<Item = &ModelRef> {
    [&lane.model].into_iter().chain(&lane.fallback)
}

fn endpoint(provider: &ProviderConfig) -> Endpoint {
    let address = match (&provider.wire.value, &provider.script.value) {
        (Wire::Scripted, Some(script)) => script.to_string_lossy().into_owned(),
        _ => provider.base_url.value.clone(),
    };
    let settings = &provider.request;
    let value = |header: &Header| Some((header.name.clone(), header.value.clone()?));
    let endpoint = Endpoint {
        headers: settings.headers.iter().filter_map(value).collect(),
        body: settings.body.value.clone(),
        deadlines: deadlines(&settings.deadlines),
        output_limit: match settings.output_limit.value {
            OutputLimit::Auto => OutputLimitField::Auto,
            OutputLimit::MaxTokens => OutputLimitField::MaxTokens,
            OutputLimit::MaxCompletionTokens => OutputLimitField::MaxCompletionTokens,
        },
        ..Endpoint::new(&provider.name, provider.wire.value, address)
    };
    match &provider.key {
        Some(key) => endpoint.with_key(key.clone()),
        None => endpoint,
    }
}

fn deadlines(set: &DeadlineSettings) -> Deadlines {
    let usual = Deadlines::default();
    let of = |set: &Setting<Option<u64>>, usual| set.value.map_or(usual, Duration::from_secs);
    Deadlines {
        connect: of(&set.connect, usual.connect),
        first_byte: of(&set.first_byte, usual.first_byte),
        idle: of(&set.idle, usual.idle),
        whole: of(&set.whole, usual.whole),
    }
}

fn pricing(provider: &ProviderConfig) -> Pricing {
    if provider.wire.value == Wire::Scripted {
        return Pricing::free();
    }
    let base = Pricing::new(&provider.name).with_base_url(&provider.base_url.value);
    provider.prices.iter().fold(base, |pricing, (model, price)| {
        let price = Price {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        };
        pricing.with_price(model, price)
    })
}

/// Journals every try: before it is made, and how it ended, before its answer is used.
struct Recorded {
    inner: Arc<dyn Provider>,
    dir: RunDir,
    tell: Teller,
}

impl Recorded {
    fn began(&self, request: &ModelRequest) -> Result<(), JournalError> {
        let request_id = self.store(request)?;
        let purpose = request.purpose.clone();
        self.dir.append(&Entry::CallBegan { purpose, request: request_id })
    }

    fn ended(
        &self,
        request: &ModelRequest,
        result: &Result<ModelReply, ProviderError>,
    ) -> Result<(), JournalError> {
        let purpose = request.purpose.clone();
        self.dir.append(&match result {
            Ok(reply) => Entry::CallEnded {
                purpose,
                reply: Some(self.store(reply)?),
                error: None,
                usage: reply.usage,
                maybe_charged: false,
            },
            Err(error) => Entry::CallEnded {
                purpose,
                reply: None,
                error: Some(format!("{}: {error}", error.class.name())),
                usage: Usage::default(),
                maybe_charged: error.maybe_charged,
            },
        })
    }

    fn store(
        &self,
        value: &impl serde::Serialize,
    ) -> Result<crate::model::ArtifactId, JournalError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| JournalError::io("write", self.dir.path(), error.into()))?;
        self.dir.artifacts().put(&bytes)
    }

    /// A call whose record can't be written is not made: it would be paid again on a resume.
    fn failed(&self, error: JournalError) -> ProviderError {
        let message = format!("the run's journal can't be written: {error}");
        self.tell.fail(error);
        ProviderError::new(ErrorClass::Cancelled, message)
    }
}

impl Ask for Recorded {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        self.began(request).map_err(|error| self.failed(error))?;
        let result = self.inner.call(request, sink, cancel).await;
        self.ended(request, &result).map_err(|error| self.failed(error))?;
        result
    }
}

/// The models of a plan whose price is not known, so that no budget can be kept with them.
pub fn unpriced(plan: &Plan, config: &Config) -> Vec<ModelRef> {
    let lanes = plan.lanes.iter().flat_map(models_of);
    let all = lanes.chain(others(plan));
    let unknown = |model: &&ModelRef| {
        let provider = config.provider(&model.provider).ok();
        provider.and_then(|provider| pricing(provider).most(&model.model, 1, 1)).is_none()
    };
    let mut found: Vec<ModelRef> = all.filter(unknown).cloned().collect();
    found.sort();
    found.dedup();
    found
}

/// Models whose price is not known although a budget is to be kept: a ceiling of tokens stands in for it.
pub(super) fn counted_by_tokens(plan: &Plan, config: &Config) -> Vec<String> {
    let has_budget = plan.limits.budget.is_some() || plan.worker_limits.budget.is_some();
    unpriced(plan, config).iter().filter(|_| has_budget).map(ModelRef::to_string).collect()
}

/// The most that a plan can ask for.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Model calls, retries of failed ones left out.
    pub calls: u64,
    /// What they cost when every call has `input_tokens_per_call` and the largest answer.
    pub cost: Cost,
    /// The input tokens that each call is priced with.
    pub input_tokens_per_call: u64,
}

/// Calls and cost of a plan at most. `given` is the number of diffs made elsewhere.
pub fn estimate(plan: &Plan, config: &Config, given: usize) -> Estimate {
    let input_tokens_per_call = plan.worker_limits.max_tokens.unwrap_or(ESTIMATE_INPUT_TOKENS);
    let mut total = Estimate { calls: 0, cost: Cost::default(), input_tokens_per_call };
    // Every tool round asks once; a reminder and the last summary come on top.
    let per_attempt = u64::from(plan.worker_limits.max_tool_iterations) + 2;
    for lane in &plan.lanes {
        total.add(config, plan, &lane.model, u64::from(lane.attempts) * per_attempt);
    }
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
        total.add(config, plan, model, (pairs * judges * 2 * 2 + skeptics).div_ceil(models));
    }
    if let Some(synth) = &plan.judging.synth {
        // An invalid reply is asked again once; so is each mending.
        total.add(config, plan, synth, 2 * (1 + u64::from(plan.judging.fix_rounds)));
    }
    if let Some(side) = &plan.side {
        total.add(config, plan, side, 2);
    }
    if let Some(duels) = duels {
        total.add(config, plan, &duels.model, u64::from(duels.most));
    }
    if let Some(design) = &plan.design {
        total.add(config, plan, design, 1);
    }
    total
}

impl Estimate {
    fn add(&mut self, config: &Config, plan: &Plan, model: &ModelRef, calls: u64) {
        self.calls += calls;
        let output = u64::from(plan.worker_limits.max_output_tokens);
        let most = config.provider(&model.provider).ok().and_then(|provider| {
            pricing(provider).most(&model.model, self.input_tokens_per_call, output)
        });
        match most {
            Some(each) => {
                self.cost.known.0 = self.cost.known.0.saturating_add(each.0.saturating_mul(calls))
            }
            None => self.cost.partly_unknown = true,
        }
    }
}
