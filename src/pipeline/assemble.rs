//! Makes the real phases of a run and hands them to `execute`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::adapters::{GateProve, Gated};
use super::cautions;
use super::choosing::{Desks, admit, judging, patch_admit, weigh};
use super::design::design;
use super::estimate::counted_by_tokens;
use super::frame::Frame;
use super::git;
use super::heal::Clinic;
use super::layers::{Layers, lay};
use super::memory::Memory;
use super::models::Models;
use super::python;
use super::run::{Assignment, Given, Stopped, execute};
use super::side::side;
use super::survey::Survey;
use super::tell::Teller;
use super::work::{LoopWork, Shop};
use super::{Phases, PipelineError};
use crate::config::Config;
use crate::fence::Fencer;
use crate::gate::Gatekeeper;
use crate::jobs::{HostJobs, JobBook, JobLimits};
use crate::journal::{Masker, RunDir};
use crate::model::{EventSink, Plan, RunKind, RunRecord, SandboxRecord, Warning};
use crate::repo::{Spaces, Store, StorePaths};
use crate::sandbox::{Launcher, Permit, ProbeReport, Tier, Warden, toolchain};
use crate::tools::{CodeExecution, Registry};
use crate::worker::{DelegateSubtask, Floor, Turns, Voice};

/// What a command asks the pipeline to do.
pub struct Commission {
    /// Which command.
    pub kind: RunKind,
    /// What to do.
    pub plan: Plan,
    /// Diffs made elsewhere.
    pub given: Vec<Given>,
    /// Ends the run early: the operator's signal.
    pub cancel: CancellationToken,
    /// Which signal it was.
    pub stopped: Stopped,
}

/// What the process lends to a run.
pub struct Equipment {
    /// The state directory: runs and leases.
    pub state: PathBuf,
    /// The cache directory.
    pub cache: PathBuf,
    /// The user's config directory, with prompts and judges that override the built-in ones.
    pub user: PathBuf,
    /// The operator's `PATH`, on which toolchains are looked for.
    pub path: OsString,
    /// The operator's home directory, in which toolchains keep their parts.
    pub home: PathBuf,
    /// Variables that were named for the gates.
    pub gate_env: Vec<(OsString, OsString)>,
    /// The settings.
    pub config: Config,
    /// Whether the repository is trusted.
    pub trusted: bool,
    /// Known secrets.
    pub masker: Masker,
    /// Runs jobs.
    pub warden: Warden,
    /// Where the operator finds what is live.
    pub floor: Floor,
    /// The operator's own commands.
    pub host: HostJobs,
}

/// Runs a commission to its end, in the directory made for it, and gives its record.
///
/// # Errors
/// When the run can't begin or go on.
pub async fn conduct(
    survey: Survey,
    commission: Commission,
    equipment: Equipment,
    dir: &RunDir,
    listener: EventSink,
) -> Result<RunRecord, PipelineError> {
    let tell = Teller::new(dir.clone(), listener);
    let plan = &commission.plan;
    let limit = time_limit(plan, &commission.cancel);
    let (store, sandbox) = tokio::join!(
        prepare_store(&survey, plan, &equipment, dir),
        permit(commission.kind, plan, &equipment.warden),
    );
    let mut sandbox = sandbox?;
    let store = with_spaces(store?, &mut sandbox, commission.kind, &equipment, dir).await?;
    let frame = Frame::of(&survey, &commission, &equipment, store.base_tree(), dir)?;
    let builder = Builder {
        notes: Vec::new(),
        store: Arc::new(store),
        sandbox,
        layers: lay(&frame.layers)?,
        frame,
        memory: Arc::default(),
        cancel: commission.cancel,
        stopped: commission.stopped,
        equipment,
        tell,
        dir: dir.clone(),
    };
    builder.execute(limit).await
}

/// A token that is cancelled, together with the run's own, when the plan's time is over.
pub(super) fn time_limit(plan: &Plan, cancel: &CancellationToken) -> CancellationToken {
    let limit = CancellationToken::new();
    if let Some(seconds) = plan.limits.max_seconds {
        let (limit, cancel) = (limit.clone(), cancel.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            limit.cancel();
            cancel.cancel();
        });
    }
    limit
}

async fn prepare_store(
    survey: &Survey,
    plan: &Plan,
    equipment: &Equipment,
    dir: &RunDir,
) -> Result<Store, PipelineError> {
    let paths = StorePaths { cache: equipment.cache.clone(), run: dir.path().to_owned() };
    let (user, commit, dirty) = (survey.user(), survey.commit().clone(), plan.dirty);
    let (state, history) = (equipment.state.clone(), equipment.config.workspace.history.value);
    let limits = cache_limits(&equipment.config);
    let work = move || {
        // What engines that were killed left behind goes first, so that it can't fill the disk.
        crate::repo::sweep(&state)?;
        let store = Store::prepare_with(&user, &commit, dirty, history, &paths)?;
        // Beside the run, which holds what it uses; that nothing goes is no trouble of the run's.
        std::thread::spawn(move || {
            if let Err(error) = crate::repo::clean(&paths.cache, &limits, false) {
                tracing::warn!("the cache could not be cleaned: {error}");
            }
        });
        Ok(store)
    };
    let store: Result<Store, crate::repo::RepoError> = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PipelineError::Internal(error.to_string()))?;
    Ok(store?)
}

/// What may stay in the cache.
pub fn cache_limits(config: &Config) -> crate::repo::Limits {
    let (gb, days) = (config.cache.max_gb.value, config.cache.max_days.value);
    crate::repo::Limits {
        max_bytes: gb.saturating_mul(1 << 30),
        max_age: Duration::from_secs(days.saturating_mul(24 * 3600)),
    }
}

/// Chooses how workspaces and the gates' trees are made.
pub(super) async fn with_spaces(
    store: Store,
    sandbox: &mut Sandbox,
    kind: RunKind,
    equipment: &Equipment,
    dir: &RunDir,
) -> Result<Store, PipelineError> {
    if kind != RunKind::Run && sandbox.launcher.is_none() {
        return Ok(store);
    }
    let (warden, dir) = (equipment.warden.clone(), dir.path().to_owned());
    let over = sandbox.launcher.as_ref().is_some_and(|launcher| launcher.tier().can_mount());
    let spaces = tokio::task::spawn_blocking(move || Spaces::probe(&warden, &dir, over))
        .await
        .map_err(|error| PipelineError::Internal(error.to_string()))?;
    if kind == RunKind::Run {
        sandbox.record.workspaces = Some(spaces.backend().name().to_owned());
    }
    Ok(store.with_spaces(spaces))
}

/// What may run, and what the record says of it.
pub(super) struct Sandbox {
    launcher: Option<Launcher>,
    record: SandboxRecord,
}

/// Proves the sandbox, or takes the operator's waiver. A run whose plan has no command goes on
/// without; its workers then have no inspection commands.
pub(super) async fn permit(
    kind: RunKind,
    plan: &Plan,
    warden: &Warden,
) -> Result<Sandbox, PipelineError> {
    let gates = &plan.gates;
    let commands = gates.check.is_some() || gates.test.is_some() || gates.setup.is_some();
    if !commands && kind != RunKind::Run {
        return Ok(Sandbox { launcher: None, record: sandbox_record(None, "none") });
    }
    let report = warden.prove().await;
    match Permit::grant(&report, plan.waive_sandbox) {
        Ok(permit) => {
            let record = sandbox_record(Some(&report), permit.name());
            Ok(Sandbox { launcher: Some(Launcher::new(warden.clone(), permit)), record })
        }
        Err(error) if commands => Err(error.into()),
        Err(_) => Ok(Sandbox { launcher: None, record: sandbox_record(Some(&report), "none") }),
    }
}

fn sandbox_record(report: Option<&ProbeReport>, permit: &str) -> SandboxRecord {
    let tier = report.map_or("none", |report| report.tier.name());
    let probes = report.map(|report| &report.probes).into_iter().flatten();
    SandboxRecord {
        tier: tier.to_owned(),
        permit: permit.to_owned(),
        probes: probes.map(|probe| (probe.name.clone(), probe.stopped)).collect(),
        workspaces: None,
    }
}

/// Makes the phases of one run.
pub(super) struct Builder {
    /// What is to be told of a run that goes on.
    pub(super) notes: Vec<Warning>,
    pub(super) store: Arc<Store>,
    pub(super) sandbox: Sandbox,
    pub(super) layers: Layers,
    pub(super) frame: Frame,
    pub(super) memory: Arc<Memory>,
    pub(super) cancel: CancellationToken,
    pub(super) stopped: Stopped,
    pub(super) equipment: Equipment,
    pub(super) tell: Teller,
    pub(super) dir: RunDir,
}

impl Builder {
    /// Runs to the end.
    pub(super) async fn execute(
        self,
        limit: CancellationToken,
    ) -> Result<RunRecord, PipelineError> {
        if let Some(launcher) = &self.sandbox.launcher {
            self.equipment.host.open(launcher.clone());
        }
        let done = self.walk(limit).await;
        // The operator's commands end with the run, whatever became of it, and nobody is told (contract S7).
        let reaped = self.equipment.host.finish().await;
        if !reaped.survivors.is_empty() {
            tracing::warn!("commands may be alive: {}", reaped.survivors.join(", "));
        }
        done
    }

    async fn walk(&self, limit: CancellationToken) -> Result<RunRecord, PipelineError> {
        let phases = self.phases().await?;
        let order = self.order(limit)?;
        execute(order, &phases, &self.dir, self.tell.clone(), &self.cancel).await
    }

    async fn phases(&self) -> Result<Phases, PipelineError> {
        let plan = &self.frame.plan;
        let config = &self.equipment.config;
        let models = Models::connect(plan, config, &self.dir, &self.tell, &self.memory)?;
        let masker = self.dir.masker().clone();
        let fencer =
            Fencer::new(self.dir.fence_secret()?).for_record(move |text| masker.masked(text));
        let listening = (self.tell.sink(), self.cancel.clone());
        let prove = Arc::new(self.prove()?);
        let desks = Desks {
            layers: &self.layers,
            models: &models,
            fencer: &fencer,
            store: &self.store,
            dir: &self.dir,
            memory: &self.memory,
            prove: Some(&prove),
        };
        let (judge, duels, fuse) = judging(plan, &desks, listening)?;
        let side = side(plan, &self.layers, &models, &fencer, &self.cancel)?;
        let told = (&self.store, self.frame.instructions());
        let design = design(plan, &self.layers, &models, &fencer, told, &self.cancel)?;
        let work = match self.frame.kind {
            RunKind::Run => Some(self.work(models, fencer, prove.clone()).await?),
            _ => None,
        };
        Ok(Phases {
            work: work.map(|work| Box::new(work) as _),
            admit: admit(&self.store, plan),
            prove: Box::new(prove),
            weigh: weigh(&self.store, plan),
            judge,
            duels,
            design,
            fuse,
            side,
        })
    }

    async fn work(
        &self,
        models: Models,
        fencer: Fencer,
        prove: Arc<GateProve>,
    ) -> Result<LoopWork, PipelineError> {
        let workers = &self.frame.plan.workers;
        let limits =
            JobLimits { ceiling: Duration::from_secs(workers.job_seconds), ..JobLimits::default() };
        let hidden = self.equipment.masker.learnt().clone();
        let voice = Voice::new(self.layers.templates.clone(), fencer.clone());
        Ok(LoopWork::new(Shop {
            store: self.store.clone(),
            prove: prove.clone(),
            models,
            registry: self.registry().await?,
            tools: self.frame.tools.clone(),
            jobs: JobBook::new(limits)
                .shown(self.equipment.floor.board.clone(), self.tell.sink())
                .hiding(hidden.clone()),
            templates: self.layers.templates.clone(),
            clinic: (workers.heal_rounds > 0).then(|| self.clinic(&voice, &prove)),
            voice,
            fencer,
            instructions: self.frame.instructions(),
            prior: self.frame.prior.clone(),
            launcher: self.sandbox.launcher.clone(),
            plan: self.frame.plan.clone(),
            turns: Turns::new(match self.frame.plan.limits.max_turns {
                Some(most) => Some(most.saturating_sub(self.memory.turns()?)),
                None => None,
            }),
            memory: self.memory.clone(),
            dir: self.dir.clone(),
            events: self.tell.sink(),
            floor: self.equipment.floor.clone(),
            host: self.equipment.host.clone(),
            hidden,
        }))
    }

    fn clinic(&self, voice: &Voice, prove: &Arc<GateProve>) -> Arc<Clinic> {
        Arc::new(Clinic {
            prove: prove.clone(),
            admit: patch_admit(&self.store, &self.frame.plan),
            store: self.store.clone(),
            memory: self.memory.clone(),
            dir: self.dir.clone(),
            voice: voice.clone(),
            events: self.tell.sink(),
            rounds: self.frame.plan.workers.heal_rounds,
        })
    }

    /// The workers' tools but for the one that makes nested workers, which belongs to one worker run.
    async fn registry(&self) -> Result<Registry, PipelineError> {
        known_tools(&self.frame.tools)?;
        let mut standard = Registry::standard();
        let (path, home) = (&self.equipment.path, &self.equipment.home);
        if let Some(launcher) = &self.sandbox.launcher {
            let git = git::find(launcher, path, home).await;
            standard = standard.with_git(git.map(|(git, _)| git));
        }
        let wanted = self.frame.plan.workers.code
            && self.frame.tools.get(CodeExecution::NAME).copied().unwrap_or(true);
        let Some(launcher) = self.sandbox.launcher.as_ref().filter(|_| wanted) else {
            return Ok(standard);
        };
        Ok(match python::find(launcher, path, home).await {
            Ok(python) => standard.with(Arc::new(CodeExecution::new(python))),
            Err(why) => {
                tracing::info!("code_execution is not offered: {why}");
                standard
            }
        })
    }

    fn prove(&self) -> Result<GateProve, PipelineError> {
        let launcher = self.sandbox.launcher.clone();
        let tier = launcher.as_ref().map_or(Tier::None, Launcher::tier);
        let (gates, carry) = (&self.frame.plan.gates, &self.frame.carry);
        let top = self.store.top();
        let environments: Vec<PathBuf> = carry.iter().map(|path| top.join(path)).collect();
        let (path, home) = (&self.equipment.path, &self.equipment.home);
        let mut keeper = Gatekeeper::new(
            self.store.clone(),
            launcher.map(|launcher| Arc::new(launcher) as _),
            tier,
            toolchain::discover_for(path, home, &environments),
            gates.clone(),
            self.equipment.gate_env.clone(),
        );
        if gates.setup.is_some() && gates.setup_network {
            let dependencies = self.store.dependencies()?;
            keeper = keeper.fetching_into(dependencies).map_err(|error| {
                PipelineError::Internal(format!("failed to make the caches for setup: {error}"))
            })?;
        }
        Ok(GateProve {
            keeper: keeper.carrying(carry.clone()).keeping(self.dir.artifacts().clone()),
            events: self.tell.sink(),
            cancel: self.cancel.clone(),
            base: tokio::sync::OnceCell::new(),
            under_workers: tokio::sync::OnceCell::new(),
            memory: self.memory.clone(),
            dir: self.dir.clone(),
            gated: Gated::default(),
        })
    }

    fn order(&self, limit: CancellationToken) -> Result<Assignment, PipelineError> {
        Ok(Assignment {
            sandbox: self.sandbox.record.clone(),
            warnings: self.warnings(),
            limit,
            stopped: self.stopped.clone(),
            floor: self.equipment.floor.clone(),
            ..assignment(&self.frame, &self.layers, &self.memory, &self.dir)?
        })
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.notes.clone();
        let mut warn = |code: &str, message: String| {
            warnings.push(Warning { code: code.to_owned(), message });
        };
        if self.sandbox.record.permit == "waiver" {
            warn(
                "sandbox-waived",
                format!(
                    "code ran in the {} tier by the operator's waiver: no sandbox was proved",
                    self.sandbox.record.tier
                ),
            );
        }
        let unpriced = counted_by_tokens(&self.frame.plan, &self.equipment.config);
        if !unpriced.is_empty() {
            let names = unpriced.join(", ");
            let text = format!(
                "price unknown: {names}; for them the ceiling of tokens stands in the budget's place, and their \
                 cost is left out of it"
            );
            warn("price-unknown", text);
        }
        warnings.extend(cautions::of(&self.frame));
        warnings
    }
}

/// What a run is told, from its frame.
pub(super) fn assignment(
    frame: &Frame,
    layers: &Layers,
    memory: &Arc<Memory>,
    dir: &RunDir,
) -> Result<Assignment, PipelineError> {
    Ok(Assignment {
        kind: frame.kind,
        plan: frame.plan.clone(),
        given: frame.given(dir.artifacts())?,
        base: frame.base.clone(),
        sandbox: sandbox_record(None, "none"),
        scripted: frame.is_scripted(),
        warnings: Vec::new(),
        definitions: layers.origins(),
        frame: frame.store(dir)?,
        memory: memory.clone(),
        limit: CancellationToken::new(),
        stopped: Stopped::default(),
        floor: Floor::default(),
    })
}

/// Whether every tool that the config switches is one of this version, whether or not it is offered here.
fn known_tools(toggles: &BTreeMap<String, bool>) -> Result<(), PipelineError> {
    let more = [CodeExecution::NAME, DelegateSubtask::NAME].map(str::to_owned);
    let known: Vec<String> = Registry::standard().keys().into_iter().chain(more).collect();
    if let Some(name) = toggles.keys().find(|name| !known.contains(name)) {
        return Err(PipelineError::Config(format!(
            "[tools] names `{name}`, and there is no such tool; known: {}",
            known.join(", ")
        )));
    }
    Ok(())
}
