//! Walks one run through its stages.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::cautions::{SECRET_IN_DIFF, secret_in_diff};
use super::cut::Seen;
use super::decide::{Standing, exit_of, gated, no_survivor, none, only_survivor};
use super::early::Early;
use super::kept::keep_gates;
use super::memory::Memory;
use super::tell::Teller;
use super::{Phases, PipelineError, Survivor};
use crate::journal::{Checkpoint, Entry, JOURNAL_VERSION, RunDir};
use crate::model::{
    Admission, ArtifactId, BaseRecord, Candidate, CandidateId, CandidateRecord, Decision, Enough,
    Exit, Family, GateReport, Kind, LaneId, NoWinner, Plan, RECORD_VERSION, RULES_VERSION, Refuted,
    RunEvent, RunKind, RunRecord, SandboxRecord, Stage, Stop, Usage, Warning,
};
use crate::worker::Floor;

/// A diff that was made elsewhere.
#[derive(Clone, Debug)]
pub struct Given {
    /// Where it came from, for tables (a file name, a revision, an instance id).
    pub source: String,
    /// Its voice in the consensus.
    pub family: Family,
    /// Its bytes.
    pub diff: Vec<u8>,
}

/// Everything that a run is told before it begins.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Which command.
    pub kind: RunKind,
    /// What to do.
    pub plan: Plan,
    /// Diffs made elsewhere, for `pick` and `gate`.
    pub given: Vec<Given>,
    /// The base, its gates still empty.
    pub base: BaseRecord,
    /// How the sandbox stands.
    pub sandbox: SandboxRecord,
    /// True when the models are scripted.
    pub scripted: bool,
    /// What is to be warned of from the beginning.
    pub warnings: Vec<Warning>,
    /// Prompts and judges by name, with layer and hash.
    pub definitions: BTreeMap<String, String>,
    /// What the run was told, as an artifact.
    pub frame: ArtifactId,
    /// What the journal knows already.
    pub memory: Arc<Memory>,
    /// Why the run's own token was cancelled, if it is: by a limit rather than by a person.
    pub limit: CancellationToken,
    /// The signal that ended the run, once one did.
    pub stopped: Stopped,
    /// The operator's way to the workers.
    pub floor: Floor,
}

/// How a run that was ended by a signal is to end. Who catches the signal sets it, then cancels.
pub type Stopped = Arc<OnceLock<Exit>>;

/// Runs an order to its end, tells of it, and writes its record.
///
/// # Errors
/// When the run can't go on: see [`PipelineError`]. A run without a winner is a record, not an error.
pub async fn execute(
    order: Assignment,
    phases: &Phases,
    dir: &RunDir,
    tell: Teller,
    cancel: &CancellationToken,
) -> Result<RunRecord, PipelineError> {
    let mut run = Run::begin(order, phases, dir, tell, cancel)?;
    let decision = run.stages().await;
    if decision.is_err() {
        // Nobody wants to know any more what a gate says.
        cancel.cancel();
    }
    phases.prove.settled().await;
    let decision = decision?;
    run.aside(&decision).await?;
    run.finish(decision)
}

/// A run on its way. Only the pipeline's task touches it.
pub(super) struct Run<'a> {
    pub(super) phases: &'a Phases,
    pub(super) dir: &'a RunDir,
    pub(super) tell: Teller,
    pub(super) cancel: &'a CancellationToken,
    pub(super) given: Vec<Given>,
    pub(super) record: RunRecord,
    pub(super) memory: Arc<Memory>,
    /// What was admitted and gated while others still worked.
    pub(super) early: Early,
    /// Why the fan-out ended early, if it did.
    pub(super) enough: Option<Enough>,
    /// The operator's way to the workers.
    pub(super) floor: Floor,
    /// Cancelled with the run's own token when it is the time limit that ends it.
    pub(super) limit: CancellationToken,
    /// Where the stages saw that it was.
    pub(super) seen: Seen,
    stopped: Stopped,
    began: Instant,
}

impl<'a> Run<'a> {
    fn begin(
        order: Assignment,
        phases: &'a Phases,
        dir: &'a RunDir,
        tell: Teller,
        cancel: &'a CancellationToken,
    ) -> Result<Self, PipelineError> {
        let engine = env!("CARGO_PKG_VERSION").to_owned();
        dir.append(&first_line(&order, &engine, dir))?;
        let attempts = match order.kind {
            RunKind::Run => order.plan.attempts(),
            RunKind::Pick | RunKind::Gate => order.given.len() as u32,
        };
        let title = order.plan.task.as_ref().map(|task| task.title()).unwrap_or_default();
        tell.send(RunEvent::Started {
            run: dir.id().clone(),
            title,
            attempts,
            scripted: order.scripted,
        });
        let (given, limit) = (order.given.clone(), order.limit.clone());
        let (stopped, memory) = (order.stopped.clone(), order.memory.clone());
        let floor = order.floor.clone();
        let record = blank_record(order, dir, engine);
        for warning in &record.warnings {
            tell.warn(warning.clone());
        }
        Ok(Self {
            phases,
            dir,
            tell,
            cancel,
            given,
            record,
            memory,
            early: Early::default(),
            enough: None,
            floor,
            limit,
            seen: Seen::default(),
            stopped,
            began: Instant::now(),
        })
    }

    async fn stages(&mut self) -> Result<Decision, PipelineError> {
        if let Some(decision) = self.prove_base().await? {
            return Ok(decision);
        }
        self.collect().await?;
        self.prove_candidates().await?;
        let cut = self.cancelled(Checkpoint::Proved);
        if self.record.kind == RunKind::Gate && !cut {
            return Ok(gated(&self.record.candidates));
        }
        let survivors = self.survivors()?;
        if cut && (survivors.len() != 1 || self.record.kind == RunKind::Gate) {
            return Ok(self.cut_off());
        }
        let decision = match survivors.as_slice() {
            [] => no_survivor(&self.record.lanes, &self.record.candidates),
            [only] => self.row(&only.id).and_then(only_survivor).unwrap_or_else(|| self.cut_off()),
            _ => {
                let (decision, finalists) = self.choose(&survivors).await?;
                // That judges were cut off while they spoke is no fault of their servers.
                if decision.winner().is_none() && self.cancelled(Checkpoint::Decided) {
                    return Ok(Decision { evidence: decision.evidence, ..self.cut_off() });
                }
                return self.fuse(decision, &finalists).await;
            }
        };
        Ok(decision)
    }

    /// Gates on the base. A base on which they can't run ends the run before any model is paid.
    async fn prove_base(&mut self) -> Result<Option<Decision>, PipelineError> {
        self.begin_stage(Stage::Base, None)?;
        match self.memory.gates(None) {
            Some(known) => self.record.base.gates = known,
            // A cancelled gate ends by itself, and cleans up: its future is not dropped half-way.
            None => match self.phases.prove.base().await {
                Err(_) if self.cancelled(Checkpoint::Base) => return Ok(Some(self.cut_off())),
                reports => self.record.base.gates = reports?,
            },
        }
        let gates = std::mem::take(&mut self.record.base.gates);
        self.record.base.gates = keep_gates(self.dir, None, gates)?;
        if self.cancelled(Checkpoint::Base) {
            return Ok(Some(self.cut_off()));
        }
        let infra = self.record.base.gates.iter().find_map(|report| match &report.verdict {
            crate::model::Verdict::Infra { reason } => {
                Some((report.command.clone(), reason.clone()))
            }
            _ => None,
        });
        Ok(infra.map(|(command, reason)| {
            let text = format!("{command:?} could not run on the base: {reason}");
            none(NoWinner::GatesCouldNotRun, Vec::new(), text)
        }))
    }

    /// Candidates, from workers or from elsewhere, each admitted or refused.
    async fn collect(&mut self) -> Result<(), PipelineError> {
        if self.record.kind == RunKind::Run {
            self.fan_out().await?;
        } else {
            self.take_given()?;
        }
        Ok(())
    }

    fn take_given(&mut self) -> Result<(), PipelineError> {
        let given = std::mem::take(&mut self.given);
        self.begin_stage(Stage::Admit, Some(given.len() as u32))?;
        for one in given {
            let candidate = Candidate {
                id: self.next_id(),
                kind: Kind::Given,
                lane: LaneId::new(one.source),
                family: one.family,
                diff: self.dir.artifacts().put(&one.diff)?,
                diff_bytes: one.diff.len() as u64,
                answer: String::new(),
                claims: Vec::new(),
                usage: Usage::default(),
                stop: Stop::Given,
            };
            self.admit(candidate, &one.diff)?;
        }
        Ok(())
    }

    pub(super) fn next_id(&self) -> CandidateId {
        let all = self.record.candidates.len();
        match self.ids_by_place() {
            true => CandidateId::nth(all.max(self.record.plan.attempts() as usize)),
            false => CandidateId::nth(all),
        }
    }

    /// The id of a worker's candidate. Where candidates are gated as they come, nobody knows yet how many
    /// there will be before it: then its place in the plan names it.
    pub(super) fn worker_id(&self, index: usize) -> CandidateId {
        if self.ids_by_place() { CandidateId::nth(index) } else { self.next_id() }
    }

    fn ids_by_place(&self) -> bool {
        self.record.kind == RunKind::Run && self.record.plan.limits.enough.is_some()
    }

    /// Tells of an admission.
    pub(super) fn tell_admitted(
        &self,
        candidate: &CandidateId,
        lane: &LaneId,
        admission: &Admission,
    ) {
        self.tell.send(RunEvent::Admitted {
            candidate: candidate.clone(),
            lane: lane.clone(),
            admission: admission.clone(),
        });
    }

    /// Admits a candidate's diff and adds it to the record; equal trees are told.
    pub(super) fn admit(&mut self, candidate: Candidate, diff: &[u8]) -> Result<(), PipelineError> {
        let early = self.early.admissions.remove(&candidate.id);
        let was_told = early.is_some();
        let admission = match early {
            Some(admission) => admission,
            None => self.phases.admit.admit(diff)?,
        };
        let (same_as, applied) = match admission.tree() {
            Some(tree) => (self.stands_for(tree, &candidate), Some(self.canonical(tree)?)),
            None => (None, None),
        };
        if !self.dir.artifacts().keeps_whole(diff) {
            self.warn(SECRET_IN_DIFF, secret_in_diff(&candidate.id));
        }
        if !was_told {
            self.tell_admitted(&candidate.id, &candidate.lane, &admission);
        }
        let gates = Vec::new();
        let row = CandidateRecord {
            candidate,
            admission,
            same_as,
            applied,
            gates,
            score: None,
            refuted: Vec::new(),
        };
        self.record.candidates.push(row);
        self.tell.check()
    }

    /// An earlier candidate with the same tree. Partial work never stands for complete work.
    fn stands_for(
        &self,
        tree: &crate::model::TreeId,
        candidate: &Candidate,
    ) -> Option<CandidateId> {
        let equal = |row: &&CandidateRecord| {
            row.same_as.is_none()
                && row.admission.tree() == Some(tree)
                && (row.candidate.stop.is_complete() || !candidate.stop.is_complete())
        };
        self.record.candidates.iter().find(equal).map(|row| row.candidate.id.clone())
    }

    fn canonical(&self, tree: &crate::model::TreeId) -> Result<ArtifactId, PipelineError> {
        Ok(self.dir.artifacts().put(&self.phases.admit.canonical(tree)?)?)
    }

    /// Complete candidates that passed every gate, one for each tree, in plan order.
    pub(super) fn survivors(&self) -> Result<Vec<Survivor>, PipelineError> {
        let rows = self.record.candidates.iter().filter(|row| {
            row.same_as.is_none()
                && row.candidate.stop.is_complete()
                && Standing::of(row.admission.tree().is_some(), &row.gates) == Standing::Passed
        });
        rows.filter_map(|row| self.survivor(row).transpose()).collect()
    }

    pub(super) fn survivor(
        &self,
        row: &CandidateRecord,
    ) -> Result<Option<Survivor>, PipelineError> {
        let (Admission::Admitted { tree, flags, files, .. }, Some(applied)) =
            (&row.admission, &row.applied)
        else {
            return Ok(None);
        };
        let equal = |other: &&CandidateRecord| {
            other.same_as.as_ref() == Some(&row.candidate.id)
                || other.candidate.id == row.candidate.id
        };
        let supporters =
            self.record.candidates.iter().filter(equal).map(|other| other.candidate.family.clone());
        Ok(Some(Survivor {
            id: row.candidate.id.clone(),
            tree: tree.clone(),
            family: row.candidate.family.clone(),
            supporters: supporters.collect(),
            diff: self.dir.artifacts().get(applied)?,
            answer: row.candidate.answer.clone(),
            claims: row.candidate.claims.clone(),
            files: files.clone(),
            flags: flags.clone(),
            gates: row.gates.clone(),
            refuted: row.refuted.clone(),
            facts: Vec::new(),
        }))
    }

    pub(super) fn row(&self, id: &CandidateId) -> Option<&CandidateRecord> {
        self.record.candidates.iter().find(|row| row.candidate.id == *id)
    }

    pub(super) fn set_score(&mut self, id: &CandidateId, score: Option<f64>) {
        if let Some(row) = self.record.candidates.iter_mut().find(|row| row.candidate.id == *id) {
            row.score = score;
        }
    }

    pub(super) fn set_refuted(&mut self, id: &CandidateId, refuted: Vec<Refuted>) {
        if let Some(row) = self.record.candidates.iter_mut().find(|row| row.candidate.id == *id) {
            row.refuted = refuted;
        }
    }

    pub(super) fn set_gates(&mut self, id: &CandidateId, gates: Vec<GateReport>) {
        if let Some(row) = self.record.candidates.iter_mut().find(|row| row.candidate.id == *id) {
            row.gates = gates;
        }
    }

    pub(super) fn begin_stage(
        &self,
        stage: Stage,
        units: Option<u32>,
    ) -> Result<(), PipelineError> {
        self.tell.send(RunEvent::StageBegan { stage, units });
        self.tell.check()
    }

    pub(super) fn warn(&mut self, code: &str, message: String) {
        let warning = Warning { code: code.to_owned(), message };
        self.tell.warn(warning.clone());
        self.record.warnings.push(warning);
    }

    /// The decision of a run that was stopped, by a limit or by a person.
    fn cut_off(&self) -> Decision {
        let closest = Vec::new();
        if self.is_timed_out() {
            let text =
                "the run's time limit ended it before there was a winner; raise --max-seconds";
            none(NoWinner::LimitReached, closest, text.to_owned())
        } else {
            none(NoWinner::Cancelled, closest, "the run was stopped".to_owned())
        }
    }

    fn finish(mut self, decision: Decision) -> Result<RunRecord, PipelineError> {
        self.warn_of_gaps(&decision);
        self.warn_of_broken_calls();
        self.warn_of_withheld();
        self.sum_up();
        self.warn_of_excess();
        self.tell.send(RunEvent::Decided { decision: decision.clone() });
        let signal = self.stopped.get().copied();
        self.record.exit = signal.unwrap_or_else(|| exit_of(&decision, &self.record.candidates));
        self.record.decision = decision;
        self.record.steers = self.steers();
        self.record.extensions = self.extensions();
        self.record.resumed = self.memory.resumption();
        // Another run's time is none of this one's.
        let before = if self.record.rejudges.is_some() { 0 } else { self.memory.millis() };
        self.record.millis = before + self.began.elapsed().as_millis() as u64;
        if let Some(masked) = self.dir.masked(&self.record) {
            self.record = masked;
        }
        self.dir.write_record(&self.record)?;
        self.tell.send(RunEvent::Ended {
            exit: self.record.exit,
            usage: self.record.usage,
            millis: self.record.millis,
        });
        self.tell.check()?;
        Ok(self.record)
    }

    /// Adds what a role's models used.
    pub(super) fn count(&mut self, role: &str, usage: Usage) {
        self.record.usage += usage;
        if usage != Usage::default() {
            *self.record.roles.entry(role.to_owned()).or_default() += usage;
        }
    }

    fn sum_up(&mut self) {
        let lanes: Vec<Usage> = self.record.lanes.iter().map(|lane| lane.usage).collect();
        let ballots: Vec<Usage> = self.record.ballots.iter().map(|ballot| ballot.usage).collect();
        lanes.into_iter().for_each(|usage| self.count("workers", usage));
        ballots.into_iter().for_each(|usage| self.count("judges", usage));
        // An answer that is recorded and of no use any more (it was asked for again, or its conversation went another way
        // after a resume) is in none of these, and is paid.
        let mut used = self.tell.used();
        for call in self.memory.past() {
            *used.entry(call.purpose.role()).or_default() += call.usage.unwrap_or_default();
        }
        for (role, used) in used {
            let counted = self.record.roles.get(role).copied().unwrap_or_default();
            self.count(role, used.beyond(&counted));
        }
        // Nobody's sum holds what broke off, but the whole is not the less unknown.
        let unheard = self.tell.broken_off() + self.memory.possibly_paid();
        self.record.usage.cost.partly_unknown |= unheard > 0;
    }
}

fn blank_record(order: Assignment, dir: &RunDir, engine: String) -> RunRecord {
    RunRecord {
        version: RECORD_VERSION,
        rules: RULES_VERSION,
        engine,
        kind: order.kind,
        run: dir.id().clone(),
        started: dir.began().unwrap_or_else(jiff::Timestamp::now),
        millis: 0,
        plan: order.plan,
        scripted: order.scripted,
        base: order.base,
        sandbox: order.sandbox,
        lanes: Vec::new(),
        candidates: Vec::new(),
        ballots: Vec::new(),
        controls: Vec::new(),
        duels: Vec::new(),
        design: None,
        decision: none(NoWinner::NoCandidates, Vec::new(), String::new()),
        warnings: order.warnings,
        usage: Usage::default(),
        roles: BTreeMap::new(),
        exit: Exit::Internal,
        definitions: order.definitions,
        title: None,
        capsule: None,
        saved: None,
        steers: Vec::new(),
        extensions: Vec::new(),
        resumed: None,
        rejudges: order.memory.rejudges().cloned(),
    }
}

/// A journal begins with what is to be done; one that goes on says so.
fn first_line(order: &Assignment, engine: &str, dir: &RunDir) -> Entry {
    let engine = engine.to_owned();
    match order.memory.is_new() {
        true => Entry::Plan {
            version: JOURNAL_VERSION,
            plan: Box::new(order.plan.clone()),
            engine,
            frame: order.frame.clone(),
            fences: dir.fences(),
            rejudges: None,
        },
        false => Entry::Resumed { engine, limits: Some(order.plan.limits) },
    }
}

/// Whether an admission refused.
pub(super) fn refused(admission: &Admission) -> bool {
    matches!(admission, Admission::Refused(_))
}
