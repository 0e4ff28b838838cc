//! What a run already knows from its journal, so that nothing is asked, run or paid twice.
//!
//! A run goes on by walking through its stages again: wherever it would call a model, run a worker or
//! gate a tree, the memory answers instead if the journal holds the answer. Never here: decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;

use super::Attempt;
use super::alike::Alike;
use super::frame::Frame;
use super::kept::KeptAttempt;
use super::limited::Limited;
use super::models::makes_code;
use super::open::Open;
use crate::journal::{Artifacts, Checkpoint, Entry, JournalError, LeftBehind, MASK, Read, RunDir};
use crate::model::chat::{Message, ModelReply, ModelRequest, Purpose};
use crate::model::{
    ArtifactId, Design, DuelRun, Enough, Extension, GateReport, LaneId, Limit, Resumption, RunId,
    RunLimits, Steer, Stop, TreeId, Usage,
};
use crate::provider::{ErrorClass, ProviderError};

/// How much of the past holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recall {
    /// What was completed holds; what failed, was cancelled or could not run is tried again.
    #[default]
    Completed,
    /// Everything holds, failures too, and nothing else is done: for a replay.
    Everything,
}

/// A call's outcome as the journal holds it.
#[derive(Clone, Debug)]
enum Outcome {
    Reply(ArtifactId),
    Failed(String),
}

/// A provider's name and the request to it.
pub(super) type Asked = (String, ArtifactId);

/// A call of the past that has to be counted.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) purpose: Purpose,
    pub(super) asked: Asked,
    /// What it used; absent where nobody knows, because it broke off or was in flight when the engine ended.
    pub(super) usage: Option<Usage>,
}

/// The past of a run. That of a new run is empty.
#[derive(Debug, Default)]
pub struct Memory {
    recall: Recall,
    artifacts: Option<Artifacts>,
    /// By provider and request: two servers may have a model of one name.
    calls: BTreeMap<Asked, Outcome>,
    /// Those whose answers are code that held a secret: what is stored is not what the model said.
    withheld: BTreeSet<Asked>,
    /// Those of which a try broke off that may have been charged.
    charged: BTreeSet<Asked>,
    /// The last request of each lane.
    pub(super) asked: BTreeMap<LaneId, Asked>,
    /// The models that a lane under way has left behind, in order.
    left: BTreeMap<LaneId, Vec<LeftBehind>>,
    /// All that a lane ever left behind.
    ever_left: BTreeMap<LaneId, Vec<LeftBehind>>,
    pub(super) limited: Limited,
    attempts: BTreeMap<LaneId, ArtifactId>,
    base: Option<Vec<GateReport>>,
    gates: BTreeMap<TreeId, Vec<GateReport>>,
    base_kept: Option<ArtifactId>,
    enough: Option<Enough>,
    design: Option<Design>,
    /// Where the stages saw that the time was over, unless the run went on since.
    timed_out: Option<(Checkpoint, u32)>,
    duels: BTreeMap<DuelKey, Vec<DuelRun>>,
    /// The operator's words, each as it stood last.
    pub(super) steers: Vec<Steer>,
    /// What nested workers asked for beyond their caps.
    pub(super) extensions: Vec<Extension>,
    /// Those of which something had been masked: as the journal has them, and as they were.
    pub(super) restored: Vec<(String, String)>,
    /// Recorded calls that used something, or may have.
    pub(super) past: Vec<Past>,
    resumption: Option<Resumption>,
    engine: String,
    /// The run that this one judges anew.
    pub(super) rejudges: Option<RunId>,
    pub(super) millis: u64,
    alike: Alike,
    reused: Mutex<Reused>,
}

/// What a duel's runs hang on: the base with the test, the finalists' trees, the command.
type DuelKey = (TreeId, Vec<TreeId>, String);

/// What the memory answered so far.
#[derive(Clone, Debug, Default)]
struct Reused {
    calls: BTreeSet<Asked>,
    gates: u32,
    lanes: u32,
    /// Answers that are not what the model had said.
    withheld: BTreeSet<Asked>,
    /// What a replay asked for and the journal does not hold.
    missing: Vec<String>,
}

impl Memory {
    /// The past that a journal holds, with the frame of its run: under the limits that it was told last.
    ///
    /// # Errors
    /// When the journal has no beginning, or its frame can't be read.
    pub fn of(read: &Read, dir: &RunDir, recall: Recall) -> Result<(Frame, Self), JournalError> {
        let mut memory =
            Self { recall, artifacts: Some(dir.artifacts().clone()), ..Self::default() };
        let mut frame = Frame::find(read, dir)?;
        // What is not there or not whole would be paid again, so nothing is done before that is known.
        dir.check_artifacts(read)?;
        let mut open = Open::default();
        let mut gone_on = false;
        for entry in &read.entries {
            match entry {
                Entry::Plan { engine, rejudges, .. } => {
                    memory.engine.clone_from(engine);
                    memory.rejudges.clone_from(rejudges);
                }
                Entry::CallBegan { purpose, provider, request } => {
                    let asked = (provider.clone(), request.clone());
                    if let Purpose::Worker { lane, .. } = purpose {
                        memory.asked.insert(lane.clone(), asked.clone());
                    }
                    open.begin(purpose, asked);
                }
                Entry::CallEnded {
                    purpose,
                    provider,
                    request,
                    reply,
                    error,
                    usage,
                    masked,
                    maybe_charged,
                } => {
                    let named = request.as_ref().map(|request| (provider, request));
                    let Some(asked) = open.end(purpose, named) else { continue };
                    match (reply, *maybe_charged) {
                        (Some(_), _) => memory.count(purpose.clone(), asked.clone(), Some(*usage)),
                        (None, true) => memory.count(purpose.clone(), asked.clone(), None),
                        (None, false) => {}
                    }
                    if *masked && makes_code(purpose) {
                        memory.withheld.insert(asked.clone());
                    }
                    memory.limited.note(purpose, &asked, error.as_deref(), &frame.plan.limits);
                    memory.remember(asked, reply.clone(), error.clone());
                }
                Entry::Fallback { lane, left } => {
                    memory.left.entry(lane.clone()).or_default().push(left.clone());
                    memory.ever_left.entry(lane.clone()).or_default().push(left.clone());
                }
                Entry::Attempt { lane, attempt } => {
                    let before = memory.attempts.insert(lane.clone(), attempt.clone());
                    // A resume says again what it took over.
                    if before.as_ref() != Some(attempt) {
                        memory.limited.ended(lane);
                    }
                    // What it left behind is in it. One that failed begins with its own model again.
                    memory.left.remove(lane);
                }
                Entry::Gated { tree: None, gates } => memory.base = Some(gates.clone()),
                Entry::Gated { tree: Some(tree), gates } => {
                    memory.gates.insert(tree.clone(), gates.clone());
                }
                Entry::BaseKept { gates } => memory.base_kept = Some(gates.clone()),
                Entry::Enough { enough } => memory.enough = Some(enough.clone()),
                Entry::Designed { design } => memory.design = Some(design.clone()),
                Entry::Dueled { test, trees, command, runs } => {
                    let key = (test.clone(), trees.clone(), command.clone());
                    memory.duels.insert(key, runs.clone());
                }
                // What was in flight when an engine ended stays so.
                Entry::Resumed { limits, .. } => {
                    if let Some(limits) = limits {
                        frame.plan.limits = *limits;
                    }
                    memory.lose(open.lose());
                    if !std::mem::replace(&mut gone_on, true) {
                        memory.leave_costs();
                    }
                    memory.timed_out = None;
                }
                // It is held against the record itself, and says nothing of what was done.
                Entry::Recorded { .. } => {}
                Entry::TimedOut { at, nth } => memory.timed_out = Some((*at, *nth)),
                Entry::Event { event } => memory.hear(event),
            }
        }
        memory.lose(open.lose());
        if !gone_on {
            memory.leave_costs();
        }
        let possibly_paid_calls = memory.possibly_paid();
        memory.resumption = Some(Resumption { possibly_paid_calls, ..Default::default() });
        memory.verify()?;
        Ok((frame, memory))
    }

    /// Whether the diffs of workers that ended are there: only what is stored of them names those.
    fn verify(&self) -> Result<(), JournalError> {
        for attempt in self.attempts.values() {
            let kept: KeptAttempt = self.artifact(attempt)?;
            self.artifacts.iter().try_for_each(|all| all.check_stored(&kept.diff))?;
        }
        Ok(())
    }

    /// Forgets how lanes ended that a ceiling of the run had ended which is higher now than it was then, so that they
    /// go on: with the answers that they had. True where that gives anything to do: such a lane, or a refused
    /// call of somebody else.
    ///
    /// # Errors
    /// When the journal's artifacts can't be read.
    pub fn raise(&mut self, now: &RunLimits) -> Result<bool, JournalError> {
        let refused = |asked: &Asked| matches!(self.calls.get(asked), Some(Outcome::Failed(_)));
        let mut found = self.limited.refused_below(now).any(refused);
        // Where enough were there, nobody works again.
        if self.enough.is_some() {
            return Ok(found);
        }
        for lane in self.limited.lanes_ended_below(now) {
            let Some(id) = self.attempts.get(&lane) else { continue };
            let kept: KeptAttempt = self.artifact(id)?;
            if kept.stop != (Stop::Limit { limit: Limit::Cost }) {
                continue;
            }
            self.attempts.remove(&lane);
            // It goes on with the model that it had come to.
            let left = self.ever_left.get(&lane).map_or(&[][..], Vec::as_slice);
            let begun = left.len().saturating_sub(kept.unanswered.len());
            self.left.insert(lane, left[begun..].to_vec());
            found = true;
        }
        Ok(found)
    }

    /// How long the engines took that came to an end, in milliseconds: each counted in those before it.
    pub(super) fn millis(&self) -> u64 {
        self.millis
    }

    /// A reply outlives a failure of the same request; of failures the last one counts.
    fn remember(&mut self, asked: Asked, reply: Option<ArtifactId>, error: Option<String>) {
        match (reply, error) {
            (Some(reply), _) => {
                self.calls.insert(asked, Outcome::Reply(reply));
            }
            (None, error) => {
                if !matches!(self.calls.get(&asked), Some(Outcome::Reply(_))) {
                    self.calls.insert(asked, Outcome::Failed(error.unwrap_or_default()));
                }
            }
        }
    }

    /// Whether there is no past.
    pub(super) fn is_new(&self) -> bool {
        self.resumption.is_none()
    }

    fn count(&mut self, purpose: Purpose, asked: Asked, usage: Option<Usage>) {
        if usage.is_none() {
            self.charged.insert(asked.clone());
        }
        self.past.push(Past { purpose, asked, usage });
    }

    fn lose(&mut self, open: Vec<(Purpose, Asked)>) {
        open.into_iter().for_each(|(purpose, asked)| self.count(purpose, asked, None));
    }

    /// Recorded calls that used something, or may have: the budget counts them again.
    pub(super) fn past(&self) -> &[Past] {
        &self.past
    }

    /// Answers that are recorded.
    pub(super) fn answers(&self) -> usize {
        self.past.iter().filter(|call| call.usage.is_some()).count()
    }

    /// A recorded request.
    pub(super) fn request(&self, id: &ArtifactId) -> Result<ModelRequest, JournalError> {
        self.artifact(id)
    }

    /// Turns of the workers that had ended.
    pub(super) fn turns(&self) -> Result<u64, JournalError> {
        let turns = |id| Ok(self.artifact::<KeptAttempt>(id)?).map(|kept| u64::from(kept.turns));
        self.attempts.values().map(turns).sum()
    }

    /// Calls whose answer is lost and that are possibly paid.
    pub(super) fn possibly_paid(&self) -> u64 {
        self.past.iter().filter(|call| call.usage.is_none()).count() as u64
    }

    /// The engine that began the run.
    pub(super) fn engine(&self) -> &str {
        &self.engine
    }

    /// What was taken over, for the record; nothing for a run that was not resumed.
    pub(super) fn resumption(&self) -> Option<Resumption> {
        let reused = self.reused();
        self.resumption.map(|resumption| Resumption {
            reused_calls: reused.calls.len() as u64,
            reused_lanes: reused.lanes,
            reused_gates: reused.gates,
            ..resumption
        })
    }

    /// What a replay missed, in words; empty when the journal answered everything.
    pub fn missing(&self) -> Vec<String> {
        self.reused().missing.clone()
    }

    /// Whether nothing may be done that the journal does not answer.
    pub(super) fn is_replay(&self) -> bool {
        self.recall == Recall::Everything
    }

    pub(super) fn miss(&self, what: String) {
        self.reused().missing.push(what);
    }

    fn reused(&self) -> std::sync::MutexGuard<'_, Reused> {
        self.reused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn artifact<T: DeserializeOwned>(&self, id: &ArtifactId) -> Result<T, JournalError> {
        let Some(artifacts) = &self.artifacts else {
            return Err(JournalError::Damaged(id.to_string()));
        };
        let bytes = artifacts.get(id)?;
        serde_json::from_slice(&bytes).map_err(|error| JournalError::Corrupt {
            path: artifacts.path(id).display().to_string(),
            reason: error.to_string(),
        })
    }

    /// The conversation of a lane with a provider, up to its last request. One with another provider is of
    /// no use: it began anew.
    pub(super) fn conversation(
        &self,
        lane: &LaneId,
        provider: &str,
    ) -> Result<Vec<Message>, JournalError> {
        match self.asked.get(lane).filter(|(asked, _)| asked == provider) {
            Some((_, request)) => {
                let mut messages = self.artifact::<ModelRequest>(request)?.messages;
                messages.iter_mut().for_each(|message| self.unmask(message));
                Ok(messages)
            }
            None => Ok(Vec::new()),
        }
    }

    /// The models that a lane under way had left behind when the run was cut off, in order.
    pub(super) fn left_behind(&self, lane: &LaneId) -> &[LeftBehind] {
        self.left.get(lane).map_or(&[], Vec::as_slice)
    }

    /// A worker run that ended. Failed and cancelled ones are tried again, except in a replay.
    pub(super) fn attempt(&self, lane: &LaneId) -> Result<Option<Attempt>, JournalError> {
        let Some(id) = self.holding(lane)? else { return Ok(None) };
        self.reused().lanes += 1;
        self.kept(id).map(Some)
    }

    /// Whether a lane's worker is to begin when there is a place for it.
    pub(super) fn is_to_work(&self, lane: &LaneId) -> bool {
        !self.is_replay() && self.enough.is_none() && matches!(self.holding(lane), Ok(None))
    }

    /// The end of a lane's worker run, where it holds.
    fn holding(&self, lane: &LaneId) -> Result<Option<&ArtifactId>, JournalError> {
        let Some(id) = self.attempts.get(lane) else { return Ok(None) };
        let kept: KeptAttempt = self.artifact(id)?;
        let over =
            !matches!(kept.stop, Stop::Failed { .. } | Stop::Cancelled) && !kept.with_the_run;
        // Where enough were there, or others judge what there is, nobody works again.
        let closed = self.is_replay() || self.enough.is_some() || self.rejudges.is_some();
        Ok((over || closed).then_some(id))
    }

    fn kept(&self, id: &ArtifactId) -> Result<Attempt, JournalError> {
        let kept: KeptAttempt = self.artifact(id)?;
        let diff = match &self.artifacts {
            Some(artifacts) => artifacts.get(&kept.diff)?,
            None => Vec::new(),
        };
        Ok(kept.attempt(diff))
    }

    /// Where the stages saw that the run's time was over, and at the how many-th look there.
    pub fn timed_out(&self) -> Option<(Checkpoint, u32)> {
        self.timed_out
    }

    /// Why the fan-out had ended early, if it had.
    pub(super) fn enough(&self) -> Option<&Enough> {
        self.enough.as_ref()
    }

    /// The plan that workers were given, or why they got none. One of which something was masked is made anew: nobody
    /// is to work by it.
    pub(super) fn design(&self) -> Option<&Design> {
        let whole = |design: &&Design| {
            self.is_replay() || !design.text.as_ref().is_some_and(|text| text.contains(MASK))
        };
        self.design.as_ref().filter(whole)
    }

    /// How a duel's test had ended. Where it could not run, it is tried again, except in a replay.
    pub(super) fn duel(
        &self,
        test: &TreeId,
        trees: &[TreeId],
        command: &str,
    ) -> Option<Vec<DuelRun>> {
        let key = (test.clone(), trees.to_vec(), command.to_owned());
        let runs = self.duels.get(&key)?;
        let ran = runs.iter().all(|run| run.why.is_none());
        (ran || self.is_replay()).then(|| runs.clone())
    }

    /// How a lane's worker run had ended, if it had.
    pub(super) fn ended(&self, lane: &LaneId) -> Result<Option<Attempt>, JournalError> {
        self.attempts.get(lane).map(|id| self.kept(id)).transpose()
    }

    /// How often a lane's model had been asked.
    pub(super) fn asked_turns(&self, lane: &LaneId) -> usize {
        let of_lane =
            |purpose: &Purpose| matches!(purpose, Purpose::Worker { lane: l, .. } if l == lane);
        self.past.iter().filter(|call| of_lane(&call.purpose)).count()
    }

    /// Of how many candidates' trees the gates had run.
    pub(super) fn proved(&self) -> usize {
        self.gates.len()
    }

    /// The gates' reports on the base, or on a tree.
    pub(super) fn gates(&self, tree: Option<&TreeId>) -> Option<Vec<GateReport>> {
        let kept = match tree {
            None => self.base.as_ref(),
            Some(tree) => self.gates.get(tree),
        }?;
        let final_word = self.is_replay() || self.rejudges.is_some();
        if !final_word && kept.iter().any(|report| report.verdict.is_infra()) {
            return None;
        }
        self.reused().gates += 1;
        Some(kept.clone())
    }

    /// What the base's gates said in full, if that is kept.
    pub(super) fn base_kept(&self) -> Result<Option<Vec<u8>>, JournalError> {
        match (&self.base_kept, &self.artifacts) {
            (Some(kept), Some(artifacts)) => artifacts.get(kept).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn call(&self, asked: &Asked) -> Option<Result<ModelReply, ProviderError>> {
        match self.calls.get(asked)? {
            Outcome::Reply(_) if !self.is_replay() && self.withheld.contains(asked) => {
                self.reused().withheld.insert(asked.clone());
                None
            }
            Outcome::Reply(reply) => {
                self.reused().calls.insert(asked.clone());
                let unreadable = |error: JournalError| {
                    ProviderError::new(ErrorClass::Cancelled, error.to_string())
                };
                let reply = self.artifact(reply).map(|reply| self.weighed(asked, reply));
                Some(reply.map_err(unreadable))
            }
            Outcome::Failed(message) if self.is_replay() => {
                Some(Err(self.weighed_error(Some(asked), failure(message))))
            }
            Outcome::Failed(_) => None,
        }
    }
}

impl Memory {
    /// Whether the journal holds how a call ended.
    pub(super) fn knows(&self, asked: &Asked) -> bool {
        self.calls.contains_key(asked)
    }

    /// How many answers were asked for again because they are not in the journal as they were given.
    pub(super) fn withheld(&self) -> usize {
        self.reused().withheld.len()
    }

    /// The recorded call whose request is `bytes` but for what was masked of it. Code is not taken over so: what stands
    /// in a mask's place may be what its model was asked about.
    pub(super) fn alike(&self, provider: &str, purpose: &Purpose, bytes: &[u8]) -> Option<Asked> {
        if makes_code(purpose) && !self.is_replay() {
            return None;
        }
        self.alike.find(self.artifacts.as_ref()?, self.calls.keys(), provider, bytes)
    }

    /// A reply whose cost is not wholly known where a try before it may have been charged: the retries say
    /// so as they happen, and it is still so when they are the past.
    pub(super) fn weighed(&self, asked: &Asked, mut reply: ModelReply) -> ModelReply {
        reply.usage.cost.partly_unknown |= self.charged.contains(asked);
        reply
    }
}

impl Memory {
    /// The same of an error.
    pub(super) fn weighed_error(
        &self,
        asked: Option<&Asked>,
        error: ProviderError,
    ) -> ProviderError {
        error.charged(asked.is_some_and(|asked| self.charged.contains(asked)))
    }
}

/// An error as the journal holds it: its class, a colon, its words.
pub(super) fn failure(text: &str) -> ProviderError {
    let (class, message) = text.split_once(": ").unwrap_or(("", text));
    let class = ErrorClass::from_name(class).unwrap_or(ErrorClass::Protocol);
    ProviderError::new(class, message)
}
