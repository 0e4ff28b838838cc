//! Runs the gates: on the base first, then on each candidate in a throwaway tree of its own.
//!
//! Every command gets a fresh tree: what the typecheck of a candidate ran (its macros, its plugins)
//! must not be able to change what the tests then see, nor its own tests what the base's say. The base's
//! build output lies below each tree as a read-only layer.

mod duel;
mod launch;
mod prove;
mod settled;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::error::GateError;
use super::grounds::{Ground, Grounds, Layer};
use super::outcome::Outcome;
use super::protect::{self, Gated};
use super::room::{Guest, Room, ThisMachine};
use super::{carry, compare, flaky, report};
use crate::journal::{Artifacts, Masker};
use crate::model::{
    CandidateId, CommandSpec, EventSink, Flag, GateKind, GatePlan, GateReport, RunEvent, TreeId,
    Verdict, Warning,
};
use crate::repo::{Dependencies, GateLayer, RepoError, Reused, Standing, Wish};
use crate::sandbox::toolchain::Toolchains;
use crate::sandbox::{Launch, Tier};

/// How long a build that goes on in the user's checkout is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The gates of a run.
pub struct Gatekeeper {
    grounds: Arc<dyn Grounds>,
    launch: Option<Arc<dyn Launch>>,
    tier: Tier,
    toolchains: Toolchains,
    plan: GatePlan,
    env: Vec<(OsString, OsString)>,
    carry: Vec<String>,
    patience: Duration,
    fetching: Option<Fetching>,
    places: Semaphore,
    room: Room,
    artifacts: Option<Artifacts>,
}

/// What a setup with a network fetches.
struct Fetching {
    /// The tools, with caches that setup may write.
    tools: Toolchains,
    /// Nobody cleans them away meanwhile.
    _held: Dependencies,
}

/// What the gates say of the base, and what its candidates build on.
pub struct BaseGates {
    /// A report for each gate of the plan, in their order.
    pub reports: Vec<GateReport>,
    /// What setup and the base's own gates wrote.
    pub(super) layer: Option<Layer>,
    pub(super) runs: BTreeMap<GateKind, Outcome>,
    /// Tracked files that the base's own gates changed.
    pub(super) rewritten: Vec<String>,
    /// What workers may see of it.
    pub(super) shown: Shown,
}

/// What a worker's workspace may hold besides the base.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// What is carried, without files of secrets.
    carried: GateLayer,
    /// Whether secrets were given to the gates, so that what they wrote may hold some.
    secret: bool,
}

impl BaseGates {
    /// The base's report of a gate.
    fn report(&self, gate: GateKind) -> Option<&GateReport> {
        self.reports.iter().find(|report| report.gate == gate)
    }
}

/// One command to run somewhere.
#[derive(Clone, Copy)]
struct Work<'a> {
    gate: GateKind,
    command: &'a CommandSpec,
    who: Option<&'a CandidateId>,
    /// What runs, for lists of jobs.
    label: &'static str,
    /// The longest that it may take.
    wall: Duration,
}

impl Gatekeeper {
    /// The gates of `plan`. Without `launch` no command runs and each gate that has one is `Infra`
    /// (contract C18). `env` holds the operator's variables that the plan names, with their values.
    pub fn new(
        grounds: Arc<dyn Grounds>,
        launch: Option<Arc<dyn Launch>>,
        tier: Tier,
        toolchains: Toolchains,
        plan: GatePlan,
        env: Vec<(OsString, OsString)>,
    ) -> Self {
        let places = Semaphore::new(plan.parallel.clamp(1, 1024) as usize);
        let room = Room::new(Arc::new(ThisMachine), plan.memory_bytes);
        Self {
            grounds,
            launch,
            tier,
            toolchains,
            plan,
            env,
            carry: Vec::new(),
            patience: PATIENCE,
            fetching: None,
            places,
            room,
            artifacts: None,
        }
    }

    /// Keeps what the gates print, whole, as artifacts that the reports name.
    #[must_use]
    pub fn keeping(mut self, artifacts: Artifacts) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Directories of the user's checkout that git ignores and the gates need, relative to its top:
    /// snapshots of them lie below every tree.
    #[must_use]
    pub fn carrying(mut self, carry: Vec<String>) -> Self {
        self.carry = carry;
        self
    }

    /// What a setup with a network fetches is kept in `dependencies`, and what runs after it sees that
    /// read-only, in place of the operator's own caches.
    ///
    /// # Errors
    /// When the caches can't be made.
    pub fn fetching_into(mut self, dependencies: Dependencies) -> std::io::Result<Self> {
        let dir = dependencies.dir();
        let tools = self.toolchains.filling(&dir)?;
        self.toolchains = self.toolchains.after_filling(&dir);
        self.fetching = Some(Fetching { tools, _held: dependencies });
        Ok(self)
    }

    /// How long a build that goes on in the checkout is waited for before nothing of it is carried.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Setup, typecheck and tests on the base. A base that fails a gate is told, not refused; after a
    /// setup that fails nothing else runs.
    ///
    /// # Errors
    /// [`GateError`] when the engine itself can't go on, or the run is cancelled.
    pub async fn base(
        &self,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<BaseGates, GateError> {
        let mut gates = BaseGates {
            reports: Vec::new(),
            layer: None,
            runs: BTreeMap::new(),
            rewritten: Vec::new(),
            shown: Shown::default(),
        };
        if self.plan.setup.is_none() && self.plan.check.is_none() && self.plan.test.is_none() {
            return Ok(gates);
        }
        let standing = self.stand(events).await?;
        gates.shown = self.shown(&standing);
        let below = standing.layer.clone().map(|layer| Arc::new(layer) as Layer);
        let tree = self.lay(self.grounds.base(), below.clone()).await?;
        let reused = report::reused(&standing);
        let mut stopped = None;
        for (gate, command) in self.commands() {
            let is_done = gate == GateKind::Setup && matches!(standing.reused, Reused::Same(_));
            let report = match &stopped {
                None if is_done => report::left_out(command, reused.clone()),
                Some(reason) => {
                    let verdict = Verdict::Skipped { reason: String::clone(reason) };
                    report::not_run(gate, command, verdict)
                }
                None => {
                    let work = self.work(gate, command, None);
                    let ran =
                        self.base_gate(&work, tree.as_ref(), &mut gates, events, cancel).await?;
                    GateReport { reused: reused.clone(), ..ran }
                }
            };
            if gate == GateKind::Setup && !report.verdict.is_pass() {
                stopped = Some("setup did not succeed".to_owned());
            }
            events.send(RunEvent::Gated { candidate: None, report: report.clone() });
            gates.reports.push(report);
        }
        let kept = blocking(move || tree.into_layer().map_err(GateError::from)).await?;
        if let Some(first) = kept.rewritten.first() {
            events.send(RunEvent::Warned { warning: rewritten(first, kept.rewritten.len()) });
        }
        gates.rewritten = kept.rewritten;
        gates.layer = match (&standing.reused, below) {
            // What this run wrote on top of it is the same again.
            (Reused::Same(_), Some(below)) => Some(below),
            _ => Some(self.keep(kept.layer, standing, &gates).await?),
        };
        Ok(gates)
    }

    /// Finds what the base's gates stand on; tells what could not be carried along, and what is used
    /// again.
    pub(super) async fn stand(&self, events: &EventSink) -> Result<Standing, GateError> {
        let wish = Wish {
            carry: self.carry.clone(),
            made_by: carry::made_by(&self.plan, &self.env, &self.toolchains),
            over: self.tier.can_mount(),
            patience: self.patience,
        };
        let grounds = self.grounds.clone();
        let standing = blocking(move || grounds.stand(&wish).map_err(GateError::from)).await?;
        for warning in report::carry_warnings(&standing) {
            events.send(RunEvent::Warned { warning });
        }
        Ok(standing)
    }

    /// Keeps what setup and the base's gates wrote for later runs: only where all of them ended by
    /// themselves, and setup well. What was given a secret by name may have written it: that ends with
    /// the run.
    async fn keep(
        &self,
        layer: Layer,
        standing: Standing,
        gates: &BaseGates,
    ) -> Result<Layer, GateError> {
        let ended = |report: &GateReport| report.verdict.is_pass() || report.verdict.is_fail();
        if !gates.reports.iter().all(ended) || !gates.rewritten.is_empty() || self.has_secrets() {
            return Ok(layer);
        }
        let grounds = self.grounds.clone();
        blocking(move || grounds.keep(layer, &standing).map_err(GateError::from)).await
    }

    fn has_secrets(&self) -> bool {
        self.env.iter().any(|(name, value)| {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            // A file of credentials is as secret to those who can read it as what stands in it.
            Masker::names_secret(&name) || !Masker::secrets_of(&name, &value).is_empty()
        })
    }

    pub(super) fn shown(&self, standing: &Standing) -> Shown {
        let secret = standing.secret || self.has_secrets();
        Shown { carried: standing.carried.clone(), secret }
    }

    /// What lies under the workers' workspaces: what is carried, and what setup and the base's gates wrote.
    /// Where these were given secrets, by a variable or a file that was named, a model sees only what is
    /// carried.
    ///
    /// # Errors
    /// [`GateError`] when the engine itself can't go on.
    pub async fn under_workers(
        &self,
        base: &BaseGates,
        events: &EventSink,
    ) -> Result<GateLayer, GateError> {
        if base.reports.is_empty() {
            return Ok(self.stand(events).await?.carried);
        }
        let written = base.layer.as_ref().and_then(|layer| layer.downcast_ref::<GateLayer>());
        let whole = written.filter(|_| !base.shown.secret && base.rewritten.is_empty());
        Ok(whole.unwrap_or(&base.shown.carried).clone())
    }

    /// The plan's commands in their order.
    fn commands(&self) -> Vec<(GateKind, &CommandSpec)> {
        let all = [
            (GateKind::Setup, &self.plan.setup),
            (GateKind::Typecheck, &self.plan.check),
            (GateKind::Test, &self.plan.test),
        ];
        all.into_iter().filter_map(|(gate, command)| Some((gate, command.as_ref()?))).collect()
    }

    async fn base_gate(
        &self,
        work: &Work<'_>,
        tree: &dyn Ground,
        gates: &mut BaseGates,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<GateReport, GateError> {
        // Nothing else runs yet, so that what is gone of the memory is what this takes.
        let run = match self.room.watch(self.run(work, tree, events, cancel)).await? {
            Ok(run) => run,
            Err(reason) => {
                return Ok(report::not_run(work.gate, work.command, Verdict::Infra { reason }));
            }
        };
        let run = self.base_again(work, run, tree, events, cancel).await?;
        let verdict = match work.gate {
            GateKind::Setup => setup_verdict(&run),
            _ => compare::base_verdict(&run, self.plan.strict_tests),
        };
        let mut report = report::ran(work.gate, work.command, &run, verdict, None);
        report.artifact = report::keep(self.artifacts.as_ref(), &run);
        gates.runs.insert(work.gate, run);
        Ok(report)
    }

    /// The base's tests as often again as the plan says, whether they passed or not: what is flaky there
    /// is to be known.
    async fn base_again(
        &self,
        work: &Work<'_>,
        first: Outcome,
        tree: &dyn Ground,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Outcome, GateError> {
        let mut later = Vec::new();
        if work.gate == GateKind::Test && first.exit().is_some() {
            for _ in 0..self.plan.flaky {
                later.extend(self.run(work, tree, events, cancel).await?.ok());
            }
        }
        Ok(if later.is_empty() { first } else { flaky::settle(&first, &later, &[]) })
    }

    /// The longest time of one command.
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.plan.timeout_seconds)
    }

    /// A command as the plan says.
    fn work<'a>(
        &self,
        gate: GateKind,
        command: &'a CommandSpec,
        who: Option<&'a CandidateId>,
    ) -> Work<'a> {
        let wall = self.timeout();
        Work { gate, command, who, label: gate_name(gate), wall }
    }

    /// The gates on one admitted tree: apply, typecheck, tests. After a gate that is not a pass the
    /// later ones are skipped.
    ///
    /// # Errors
    /// [`GateError`] when the engine itself can't go on, or the run is cancelled.
    pub async fn candidate(
        &self,
        id: &CandidateId,
        tree: &TreeId,
        base: &BaseGates,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Vec<GateReport>, GateError> {
        let _turn = self.turn(cancel).await?;
        let mut reports = Vec::new();
        let tell = |report: GateReport, reports: &mut Vec<GateReport>| {
            let candidate = Some(id.clone());
            events.send(RunEvent::Gated { candidate, report: report.clone() });
            reports.push(report);
        };
        tell(self.apply(tree).await?, &mut reports);
        let gated = self.gated(tree).await?;
        for (gate, command) in self.commands() {
            if gate == GateKind::Setup {
                continue;
            }
            let work = self.work(gate, command, Some(id));
            let report = match self.settled(&work, &gated, base, &reports) {
                Some(verdict) => report::not_run(gate, command, verdict),
                None => self.candidate_gate(&work, &gated, base, events, cancel).await?,
            };
            tell(report, &mut reports);
        }
        Ok(reports)
    }

    /// Waits until one tree more may be at work: for its place, then for the machine's room.
    async fn turn(
        &self,
        cancel: &CancellationToken,
    ) -> Result<(Guest<'_>, SemaphorePermit<'_>), GateError> {
        let turn = async {
            let place = self.places.acquire().await.map_err(|_| GateError::Cancelled)?;
            Ok((self.room.enter().await, place))
        };
        tokio::select! {
            turn = turn => turn,
            () = cancel.cancelled() => Err(GateError::Cancelled),
        }
    }

    /// What a reader must know of an admitted tree: what it changes of the gates, and words that
    /// silence a check. Runs nothing.
    ///
    /// # Errors
    /// [`GateError`] when the engine's store fails.
    pub async fn flags(&self, tree: &TreeId) -> Result<Vec<Flag>, GateError> {
        Ok(self.gated(tree).await?.flags)
    }

    async fn gated(&self, tree: &TreeId) -> Result<Gated, GateError> {
        let (grounds, tree, plan) = (self.grounds.clone(), tree.clone(), self.plan.clone());
        blocking(move || {
            let base = grounds.base();
            protect::gated(grounds.objects(), &base, &tree, &plan).map_err(GateError::from)
        })
        .await
    }

    async fn lay(&self, tree: TreeId, layer: Option<Layer>) -> Result<Box<dyn Ground>, GateError> {
        let (grounds, tier) = (self.grounds.clone(), self.tier);
        blocking(move || grounds.lay(&tree, layer.as_ref(), tier).map_err(GateError::from)).await
    }
}

/// The base's output can't be reused: it was made from other sources than the base's.
fn rewritten(first: &str, count: usize) -> Warning {
    Warning {
        code: "base-rewritten".to_owned(),
        message: format!(
            "the gates changed {count} tracked files of the base ({first}, …), so that candidates can't \
             build on its output and take longer; commit what the commands write"
        ),
    }
}

/// A pass counts for the sources that were admitted, not for those that the run made of them (a build
/// script that rewrites a test, say). What the base's own run rewrites too is the command's doing, and
/// lock files follow manifests.
fn untouched(left: Result<Vec<String>, RepoError>, base: &[String]) -> Verdict {
    let lock = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.ends_with(".lock") || name.contains("-lock.") || name == "go.sum"
    };
    match left {
        Err(error) => {
            Verdict::Infra { reason: format!("what its run left could not be read: {error}") }
        }
        Ok(paths) => match paths.iter().find(|path| !base.contains(path) && !lock(path)) {
            None => Verdict::Pass,
            Some(path) => Verdict::Fail {
                reason: format!(
                    "its run changed tracked files ({path}), so that what passed is not what was proposed"
                ),
            },
        },
    }
}

/// Setup is the operator's own command on the base: when it fails, nothing was proved of anybody.
fn setup_verdict(run: &Outcome) -> Verdict {
    match run.is_success() {
        true => Verdict::Pass,
        false => Verdict::Infra { reason: format!("setup failed: {}", run.ending()) },
    }
}

fn gate_name(gate: GateKind) -> &'static str {
    match gate {
        GateKind::Setup => "setup",
        GateKind::Apply => "apply",
        GateKind::Typecheck => "typecheck",
        GateKind::Test => "test",
    }
}

/// Disk work off the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GateError> + Send + 'static,
) -> Result<T, GateError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(GateError::Task(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
