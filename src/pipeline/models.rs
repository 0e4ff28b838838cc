//! Models of a run: connected once per provider, decorated so that no call escapes budget or journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::PipelineError;
use super::memory::Memory;
use super::remembering::Remembering;
use super::tell::Teller;
use crate::config::{Config, DeadlineSettings, Header, OutputLimit, ProviderConfig, Setting};
use crate::fanout::lane_runs;
use crate::journal::{Entry, JournalError, RunDir};
use crate::model::chat::{Delta, ModelReply, ModelRequest, Purpose};
use crate::model::{ArtifactId, Lane, ModelRef, Plan, Wire, WorkerLimits};
use crate::provider::{
    Ask, Breaker, Ceiling, Ceilings, Circuit, CircuitPolicy, Deadlines, Endpoint, ErrorClass,
    Ledger, Metered, OutputLimitField, Price, Priced, Pricing, Provider, ProviderError, RateGate,
    RetryPolicy, Retrying, connect,
};

/// What all providers at one server share, however many names the config has for it.
#[derive(Clone, Default)]
struct Door {
    gate: RateGate,
    breaker: Breaker,
}

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
        restore(&ledger, config, memory)?;
        let (mut all, mut doors) = (BTreeMap::new(), BTreeMap::<String, Door>::new());
        for name in provider_names(plan) {
            let provider =
                config.provider(&name).map_err(|e| PipelineError::Config(e.to_string()))?;
            let endpoint = endpoint(provider);
            let door = doors.entry(endpoint.origin().unwrap_or_else(|| name.clone()));
            let Door { gate, breaker } = door.or_default().clone();
            let wire =
                connect(&endpoint).map_err(|error| PipelineError::Config(error.to_string()))?;
            let prices = pricing(provider);
            let recorded = Recorded {
                provider: name.clone(),
                inner: Arc::new(Priced::new(wire, prices.clone())),
                dir: dir.clone(),
                tell: tell.clone(),
            };
            let metered = Metered::new(Arc::new(recorded), ledger.clone(), prices);
            let retrying = Retrying::with_gate(Arc::new(metered), RetryPolicy::default(), gate);
            let policy = CircuitPolicy::default();
            let circuit = Circuit::new(&name, Arc::new(retrying), policy, breaker);
            let remembering = remembering(&name, Arc::new(circuit), dir, memory);
            all.insert(name, remembering);
        }
        Ok(Self(all))
    }

    /// The providers of a plan as a replay has them: only the memory answers, and nothing is connected.
    pub fn remembered(plan: &Plan, dir: &RunDir, memory: &Arc<Memory>) -> Self {
        let offline = |name: String| {
            let remembering = remembering(&name, Arc::new(Offline), dir, memory);
            (name, remembering)
        };
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

/// Counts what recorded calls used, and the most that those may have cost of which nobody knows.
fn restore(ledger: &Ledger, config: &Config, memory: &Memory) -> Result<(), PipelineError> {
    for call in memory.past() {
        let (provider, request) = &call.asked;
        let most = || {
            let priced = config.provider(provider).map(pricing);
            let priced = priced.unwrap_or_else(|_| Pricing::new(provider));
            Ok::<_, PipelineError>(Ledger::most(&priced, &memory.request(request)?))
        };
        ledger.restore(&call.purpose, call.usage.as_ref(), most)?;
    }
    Ok(())
}

fn remembering(
    name: &str,
    inner: Arc<dyn Provider>,
    dir: &RunDir,
    memory: &Arc<Memory>,
) -> Arc<dyn Provider> {
    let provider = name.to_owned();
    Arc::new(Remembering { provider, inner, memory: memory.clone(), dir: dir.clone() })
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
    let of = |limits: WorkerLimits| Ceiling { money: limits.budget, tokens: limits.max_tokens };
    let own = lane_runs(plan).into_iter().filter_map(|run| Some((run.id, of(run.lane.limits?))));
    Ceilings {
        run: Ceiling { money: plan.limits.budget, tokens: plan.limits.max_tokens },
        lane: of(plan.worker_limits),
        own: own.collect(),
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
pub(super) fn others(plan: &Plan) -> impl Iterator<Item = &ModelRef> {
    let judging = &plan.judging;
    let duels = judging.duels.as_ref().map(|duels| &duels.model);
    judging.models.iter().chain(&judging.synth).chain(duels).chain(&plan.design).chain(&plan.side)
}

/// The models of a lane: its own, then those that can take over.
pub(super) fn models_of(lane: &Lane) -> impl Iterator<Item = &ModelRef> {
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

pub(super) fn deadlines(set: &DeadlineSettings) -> Deadlines {
    let usual = Deadlines::default();
    let of = |set: &Setting<Option<u64>>, usual| set.value.map_or(usual, Duration::from_secs);
    Deadlines {
        connect: of(&set.connect, usual.connect),
        first_byte: of(&set.first_byte, usual.first_byte),
        idle: of(&set.idle, usual.idle),
        whole: of(&set.whole, usual.whole),
    }
}

pub(super) fn pricing(provider: &ProviderConfig) -> Pricing {
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

/// Whether what a model answers becomes part of a candidate, or says what is to become one. Such an answer is used as it came, and never as a record
/// keeps it; every other one as it is kept, so that what follows from it follows from the record, too.
pub(super) fn makes_code(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Worker { .. } | Purpose::Synthesizer { .. } | Purpose::Design)
}

/// A call of which the journal does not hold yet how it ended. One that is dropped is counted among those that broke off.
struct Unheard<'a>(Option<&'a Teller>);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|tell| tell.broke_off());
    }
}

/// Journals every try: before it is made, and how it ended, before its answer is used.
struct Recorded {
    provider: String,
    inner: Arc<dyn Provider>,
    dir: RunDir,
    tell: Teller,
}

impl Recorded {
    /// Keeps that a call begins, and gives the name of its request.
    fn began(&self, request: &ModelRequest) -> Result<ArtifactId, JournalError> {
        let id = self.store(request)?;
        let (purpose, provider) = (request.purpose.clone(), self.provider.clone());
        self.dir.append(&Entry::CallBegan { purpose, provider, request: id.clone() })?;
        Ok(id)
    }

    fn ended(
        &self,
        purpose: Purpose,
        request: ArtifactId,
        result: Result<ModelReply, ProviderError>,
    ) -> Result<Result<ModelReply, ProviderError>, JournalError> {
        let maybe_charged = result.as_ref().is_err_and(|error| error.maybe_charged);
        if maybe_charged {
            self.tell.broke_off();
        }
        let reply = result.as_ref().ok().map(|reply| self.stored(reply)).transpose()?;
        let masked = reply.as_ref().is_some_and(|(_, masked)| *masked);
        if let Ok(reply) = &result {
            self.tell.answered(&purpose, reply.usage);
        }
        let error = result.as_ref().err();
        self.dir.append(&Entry::CallEnded {
            purpose: purpose.clone(),
            provider: self.provider.clone(),
            request: Some(request),
            reply: reply.map(|(id, _)| id),
            error: error.map(|error| format!("{}: {error}", error.class.name())),
            usage: result.as_ref().map(|reply| reply.usage).unwrap_or_default(),
            masked,
            maybe_charged,
        })?;
        Ok(result.map(|reply| match masked && !makes_code(&purpose) {
            true => self.dir.masked(&reply).unwrap_or(reply),
            false => reply,
        }))
    }

    /// Stores a reply; whether something of it had to be masked.
    fn stored(&self, reply: &ModelReply) -> Result<(ArtifactId, bool), JournalError> {
        self.dir.artifacts().put_json(&self.bytes(reply)?)
    }

    fn store(&self, value: &impl serde::Serialize) -> Result<ArtifactId, JournalError> {
        Ok(self.dir.artifacts().put_json(&self.bytes(value)?)?.0)
    }

    fn bytes(&self, value: &impl serde::Serialize) -> Result<Vec<u8>, JournalError> {
        serde_json::to_vec(value)
            .map_err(|error| JournalError::io("write", self.dir.path(), error.into()))
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
        let id = self.began(request).map_err(|error| self.failed(error))?;
        let mut unheard = Unheard(Some(&self.tell));
        let result = self.inner.call(request, sink, cancel).await;
        unheard.0 = None;
        let purpose = request.purpose.clone();
        let result = self.ended(purpose, id, result).map_err(|error| self.failed(error))?;
        result.map_err(|error| ProviderError { kept: true, ..error })
    }
}
