//! The process's side of a run: the warden, the runtime, the signals, the control socket.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::{CliError, record, signals};
use crate::config::{Config, ProviderConfig};
use crate::control::{Control, Served, Watch};
use crate::jobs::{HostJobs, ReapJournal, sweep_journals};
use crate::journal::{JournalError, Masker, RunDir};
use crate::model::{CardSink, EventSink, Plan, RunRecord};
use crate::pipeline::{Equipment, PipelineError, Stopped, own_words};
use crate::sandbox::{Warden, WardenOptions};
use crate::ui::Audience;
use crate::worker::Floor;

/// A process that is ready to run.
pub struct Engine {
    runtime: Runtime,
    equipment: Equipment,
    reap: Option<ReapJournal>,
}

/// What a run is driven with.
pub struct Drive {
    /// What the process lends.
    pub equipment: Equipment,
    /// The run's directory.
    pub dir: RunDir,
    /// Who listens.
    pub listener: EventSink,
    /// Ends the run early: cancelled by a signal or by `bakeoff stop`.
    pub cancel: CancellationToken,
    /// Which signal it was.
    pub stopped: Stopped,
}

impl Engine {
    /// Starts warden and runtime. They live as long as the run.
    pub fn start(
        plan: &Plan,
        config: Config,
        trusted: bool,
        context: &Context,
    ) -> Result<Self, CliError> {
        // The warden starts before the runtime has threads: it is forked from a small process.
        let warden = Warden::start(&WardenOptions { program: context.program.clone() })
            .map_err(PipelineError::from)?;
        let reap = reap(&context.state, &warden);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))?;
        let equipment = equipment(plan, config, trusted, warden, context)?;
        Ok(Self { runtime, equipment, reap })
    }

    /// What masks secrets in everything that is written.
    pub fn masker(&self) -> Masker {
        self.equipment.masker.clone()
    }

    /// Runs `work` to its end in `dir`.
    pub fn drive(
        self,
        dir: RunDir,
        audience: Audience,
        work: impl AsyncFnOnce(Drive) -> Result<RunRecord, PipelineError>,
    ) -> Result<(RunRecord, RunDir), CliError> {
        let Self { runtime, mut equipment, reap } = self;
        // What the operator types in the dark is masked in this directory, too.
        equipment.masker = dir.masker().clone();
        equipment.floor.masker = dir.masker().clone();
        let Audience { events: listener, cards } = audience;
        equipment.host = HostJobs::new(dir.masker().learnt().clone(), masked(&dir, cards));
        let (cancel, stopped) = (CancellationToken::new(), Stopped::default());
        let result = runtime.block_on(async {
            signals::watch(&cancel, &stopped)?;
            let watch = Watch::default();
            let listener = watch.over(listener);
            let (stop, floor) = (cancel.clone(), equipment.floor.clone());
            let host = equipment.host.clone();
            floor.board.add(Arc::new(host.clone()));
            let control = Control::serve(dir.path(), Served { watch, stop, floor, host })
                .map_err(|error| JournalError::io("create", dir.path(), error))?;
            let (dir, stopped) = (dir.clone(), stopped.clone());
            let record = work(Drive { equipment, dir, listener, cancel, stopped }).await;
            control.close().await;
            Ok(record?)
        });
        // Threads that still read a dead connection must not hold up the end.
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        drop(reap);
        dir.masker().learnt().clear();
        match result {
            Ok(record) => Ok((record, dir)),
            Err(error) => Err(record::broken_off(error, stopped.get().copied(), &dir)),
        }
    }
}

/// Cards as the run's own files would hold them: who looks on is no less a stranger than who reads those.
fn masked(dir: &RunDir, cards: CardSink) -> CardSink {
    let dir = dir.clone();
    CardSink::new(move |card| cards.send(dir.masked(&card).unwrap_or(card)))
}

/// Ends what dead engines left, and begins this one's own journal. Where that can't be written the warden's
/// end still holds, and what else can't be written there says why.
fn reap(state: &Path, warden: &Warden) -> Option<ReapJournal> {
    let swept = sweep_journals(state);
    if swept.killed > 0 {
        tracing::warn!(
            "{} processes of killed engines were still there; they are ended",
            swept.killed
        );
    }
    let journal = ReapJournal::begin(state, warden);
    journal
        .inspect_err(|error| tracing::warn!("no reap journal in {}: {error}", state.display()))
        .ok()
}

fn equipment(
    plan: &Plan,
    config: Config,
    trusted: bool,
    warden: Warden,
    context: &Context,
) -> Result<Equipment, CliError> {
    let masker = masker(&config, context);
    Ok(Equipment {
        state: context.state.clone(),
        cache: context.cache.clone(),
        user: context.config.clone(),
        path: context.path(),
        home: context.home.clone(),
        gate_env: gate_env(plan, context)?,
        host: HostJobs::new(masker.learnt().clone(), CardSink::none()),
        masker,
        trusted,
        warden,
        config,
        floor: Floor::watched(context.terminal && context.is_answered()),
    })
}

/// The variables that were named for the gates. A name that is not set is told: a gate that misses
/// it would fail for a reason that nobody sees.
pub fn gate_env(plan: &Plan, context: &Context) -> Result<Vec<(OsString, OsString)>, CliError> {
    let value = |name: &String| {
        let name = OsString::from(name);
        let value = context.env.get(&name).cloned();
        value.map(|value| (name.clone(), value)).ok_or_else(|| {
            CliError::usage(format!("--env {}: the variable is not set", name.to_string_lossy()))
        })
    };
    plan.gates.env.iter().map(value).collect()
}

/// Keys, values of variables whose names say that they are secret, and passwords in addresses.
pub fn masker(config: &Config, context: &Context) -> Masker {
    use secrecy::ExposeSecret;
    let keys = config.providers.values().filter_map(|provider| provider.key.as_ref());
    let keys = keys.map(|key| key.expose_secret().to_owned());
    let secret = context.env.iter().flat_map(|(name, value)| {
        // A name that is no text can say nothing; a value that is none could not be found again.
        Masker::secrets_of(&name.to_string_lossy(), value.to_str().unwrap_or_default())
    });
    // Headers such as `anthropic-beta` are no secrets, and their values may stand in any diff.
    let headers = config.providers.values().flat_map(|provider| &provider.request.headers);
    let hidden =
        headers.filter(|header| header.env.is_some() || Masker::names_secret(&header.name));
    let hidden = hidden.filter_map(|header| header.value.as_ref());
    let hidden = hidden.map(|value| value.expose_secret().to_owned());
    let addresses = config.providers.values().flat_map(ProviderConfig::address_secrets);
    Masker::new(keys.chain(hidden).chain(secret).chain(addresses)).sparing(&own_words(config))
}
