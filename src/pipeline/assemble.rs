//! Makes the real phases of a run and hands them to `execute`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::adapters::{GateProve, PatchAdmit};
use super::judging::{JudgeDesk, SelectWeigh, SynthFuse};
use super::layers::{Layers, load_layers};
use super::models::Models;
use super::run::{Assignment, Given, Stopped, execute};
use super::survey::Survey;
use super::tell::Teller;
use super::work::{LoopWork, Shop};
use super::{Phases, PipelineError};
use crate::config::Config;
use crate::fence::Fencer;
use crate::gate::Gatekeeper;
use crate::journal::{Masker, RunDir};
use crate::model::{
    BaseRecord, EventSink, PatchPlan, Plan, RunKind, RunRecord, SandboxRecord, Warning, Wire,
};
use crate::patch::Rules;
use crate::prompt::Instructions;
use crate::repo::{Store, StorePaths};
use crate::sandbox::{Launcher, Permit, ProbeReport, Tier, Warden, toolchain};
use crate::tools::Registry;

/// The file of a repository that tells contributors how to work in it.
const INSTRUCTIONS_FILE: &str = "AGENTS.md";

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
    let dir = dir.clone();
    let tell = Teller::new(dir.clone(), listener);
    let cancel = commission.cancel.clone();
    let limit = time_limit(&commission.plan, &cancel);
    let (store, sandbox) = tokio::join!(
        prepare_store(&survey, &commission.plan, &equipment, &dir),
        permit(&commission, &equipment.warden),
    );
    let builder = Builder {
        store: Arc::new(store?),
        sandbox: sandbox?,
        layers: load_layers(&survey, &equipment.user, equipment.trusted)?,
        survey,
        commission,
        equipment,
        tell,
        dir,
    };
    let phases = builder.phases()?;
    let order = builder.order(limit);
    execute(order, &phases, &builder.dir, builder.tell.clone(), &cancel).await
}

/// A token that is cancelled, together with the run's own, when the plan's time is over.
fn time_limit(plan: &Plan, cancel: &CancellationToken) -> CancellationToken {
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
    let state = equipment.state.clone();
    let work = move || {
        // What engines that were killed left behind goes first, so that it can't fill the disk.
        crate::repo::sweep(&state)?;
        Store::prepare(&user, &commit, dirty, &paths)
    };
    let store = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PipelineError::Internal(error.to_string()))?;
    Ok(store?)
}

/// What may run, and what the record says of it.
struct Sandbox {
    launcher: Option<Launcher>,
    record: SandboxRecord,
}

/// Proves the sandbox, or takes the operator's waiver. A run whose plan has no command goes on
/// without; its workers then have no inspection commands.
async fn permit(commission: &Commission, warden: &Warden) -> Result<Sandbox, PipelineError> {
    let gates = &commission.plan.gates;
    let commands = gates.check.is_some() || gates.test.is_some() || gates.setup.is_some();
    if !commands && commission.kind != RunKind::Run {
        return Ok(Sandbox { launcher: None, record: sandbox_record(None, "none") });
    }
    let report = warden.prove().await;
    match Permit::grant(&report, commission.plan.waive_sandbox) {
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
    }
}

struct Builder {
    survey: Survey,
    commission: Commission,
    equipment: Equipment,
    store: Arc<Store>,
    sandbox: Sandbox,
    layers: Layers,
    tell: Teller,
    dir: RunDir,
}

impl Builder {
    fn phases(&self) -> Result<Phases, PipelineError> {
        let plan = &self.commission.plan;
        let models = Models::connect(plan, &self.equipment.config, &self.dir, &self.tell)?;
        let fencer = Fencer::new(secret()?);
        let judged = !plan.judging.judges.is_empty();
        let desk = judged.then(|| self.desk(&models, &fencer)).transpose()?;
        let fuse = match (&desk, &plan.judging.synth) {
            (Some(desk), Some(model)) => Some(SynthFuse::new(
                desk,
                models.provider(model)?,
                model.clone(),
                self.store.clone(),
            )),
            _ => None,
        };
        let work = (self.commission.kind == RunKind::Run)
            .then(|| self.work(models, fencer))
            .transpose()?;
        Ok(Phases {
            work: work.map(|work| Box::new(work) as _),
            admit: Box::new(PatchAdmit {
                store: self.store.clone(),
                rules: rules(&plan.patch),
                gates: plan.gates.clone(),
            }),
            prove: Box::new(self.prove()),
            weigh: Box::new(SelectWeigh { trust: plan.trust.clone(), store: self.store.clone() }),
            judge: desk.map(|desk| Box::new(desk) as _),
            fuse: fuse.map(|fuse| Box::new(fuse) as _),
        })
    }

    fn desk(&self, models: &Models, fencer: &Fencer) -> Result<JudgeDesk, PipelineError> {
        let plan = &self.commission.plan;
        let connected =
            plan.judging.models.iter().map(|model| Ok((model.clone(), models.provider(model)?)));
        JudgeDesk::new(
            plan,
            &self.layers,
            fencer.clone(),
            connected.collect::<Result<_, PipelineError>>()?,
            self.tell.sink(),
            self.commission.cancel.clone(),
        )
    }

    fn work(&self, models: Models, fencer: Fencer) -> Result<LoopWork, PipelineError> {
        Ok(LoopWork::new(Shop {
            store: self.store.clone(),
            models,
            registry: registry(&self.equipment.config)?,
            templates: self.layers.templates.clone(),
            fencer,
            instructions: self.instructions(),
            launcher: self.sandbox.launcher.clone(),
            plan: self.commission.plan.clone(),
            events: self.tell.sink(),
        }))
    }

    fn instructions(&self) -> Instructions {
        let Some(bytes) = self.survey.file(INSTRUCTIONS_FILE) else { return Instructions::None };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match self.equipment.trusted {
            true => Instructions::Trusted(text),
            false => Instructions::Untrusted(text),
        }
    }

    fn prove(&self) -> GateProve {
        let launcher = self.sandbox.launcher.clone();
        let tier = launcher.as_ref().map_or(Tier::None, Launcher::tier);
        let keeper = Gatekeeper::new(
            self.store.clone(),
            launcher.map(|launcher| Arc::new(launcher) as _),
            tier,
            toolchain::discover(&self.equipment.path, &self.equipment.home),
            self.commission.plan.gates.clone(),
            self.equipment.gate_env.clone(),
        );
        let keeper = keeper.carrying(self.survey.top().to_owned(), self.carry());
        GateProve {
            keeper,
            events: self.tell.sink(),
            cancel: self.commission.cancel.clone(),
            base: tokio::sync::OnceCell::new(),
            dir: self.dir.clone(),
        }
    }

    /// Directories that the checkout has installed and the gates need: those of the config, else those
    /// that the repository's kind suggests.
    fn carry(&self) -> Vec<String> {
        let set = &self.equipment.config.gates.carry;
        match set.is_set() {
            true => set.value.clone(),
            false => self.survey.detect(&self.commission.plan.gates.dir).carry,
        }
    }

    fn order(&self, limit: CancellationToken) -> Assignment {
        let plan = &self.commission.plan;
        Assignment {
            kind: self.commission.kind,
            plan: plan.clone(),
            given: self.commission.given.clone(),
            base: BaseRecord {
                rev: self.survey.rev().to_owned(),
                commit: self.survey.commit().clone(),
                tree: self.store.base_tree().clone(),
                dirty: plan.dirty,
                gates: Vec::new(),
            },
            sandbox: self.sandbox.record.clone(),
            scripted: self.is_scripted(),
            warnings: self.warnings(),
            definitions: self.layers.origins(),
            limit,
            stopped: self.commission.stopped.clone(),
        }
    }

    fn is_scripted(&self) -> bool {
        let providers = &self.equipment.config.providers;
        let scripted = |name: &str| {
            providers.get(name).is_some_and(|provider| provider.wire.value == Wire::Scripted)
        };
        let lanes = &self.commission.plan.lanes;
        !lanes.is_empty() && lanes.iter().all(|lane| scripted(&lane.model.provider))
    }

    fn warnings(&self) -> Vec<Warning> {
        let plan = &self.commission.plan;
        let mut warnings = Vec::new();
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
        let dirty = self.survey.dirty();
        if !dirty.is_clean() && !plan.dirty {
            let count = dirty.tracked + dirty.untracked;
            warn(
                "dirty-left-out",
                format!(
                    "{count} uncommitted changes are not part of the base; --dirty includes them"
                ),
            );
        }
        if plan.gates.check.is_none() && plan.gates.test.is_none() {
            warn(
                "only-applied",
                "no check and no test was asked for: candidates were only applied".to_owned(),
            );
        }
        if self.commission.kind != RunKind::Gate && plan.judging.judges.is_empty() {
            warn(
                "no-judges",
                "no model was asked to judge: the choice rests on evidence alone".to_owned(),
            );
        }
        warnings
    }
}

/// The workers' tools, without those that the config switches off.
fn registry(config: &Config) -> Result<Registry, PipelineError> {
    let all = Registry::standard();
    let known = all.keys();
    if let Some(name) = config.tools.keys().find(|name| !known.contains(name)) {
        return Err(PipelineError::Config(format!(
            "[tools] names `{name}`, and there is no such tool; known: {}",
            known.join(", ")
        )));
    }
    let toggles = config.tools.iter().map(|(name, on)| (name.clone(), on.value)).collect();
    Ok(all.toggled(&toggles))
}

/// The secret of a run's fences.
fn secret() -> Result<[u8; 32], PipelineError> {
    let mut secret = [0; 32];
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| PipelineError::Internal(format!("no random numbers: {error}")))?;
    Ok(secret)
}

/// What diffs may do, by the plan; their sizes are the built-in ones.
fn rules(patch: &PatchPlan) -> Rules {
    let PatchPlan { links, submodules, binary } = *patch;
    Rules { links, submodules, binary, ..Rules::default() }
}
