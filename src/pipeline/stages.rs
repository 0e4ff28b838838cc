//! The stages that wait for others: workers, gates, judges, the synthesizer.

use futures_util::stream;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::decide::{CHANGED_NOTHING, Judged, Standing};
use super::digest::{digest, winner};
use super::duels::current;
use super::early::{Arrival, Early, saved, watch};
use super::kept::{keep_attempt, keep_gates};
use super::run::{Run, refused};
use super::{Aside, Attempt, Failed, PipelineError, Survivor};
use crate::fanout::{Brake, FanoutOptions, LaneEnd, LaneRun, lane_runs};
use crate::journal::Checkpoint;
use crate::model::{
    Ballot, Candidate, CandidateId, CandidateRecord, Choice, Decision, Family, GateReport, JudgeId,
    Kind, Lane, LaneId, LaneRecord, Limit, ModelRef, RunEvent, Stage, Stop, TreeId, Usage,
};
use crate::prompt::CapsuleTask;

/// How long workers that were told to stop may take before they are dropped.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

impl Run<'_> {
    /// Runs every lane and makes a candidate of each that left a change.
    pub(super) async fn fan_out(&mut self) -> Result<(), PipelineError> {
        let design = self.design().await?;
        let mut runs = lane_runs(&self.record.plan);
        runs.iter_mut().for_each(|run| run.design.clone_from(&design));
        self.open_steering(&runs);
        self.begin_stage(Stage::FanOut, Some(runs.len() as u32))?;
        let brake = Brake::new(self.cancel);
        let (ends, early) = match self.watched() {
            Some(wanted) => {
                let (arrived, arrivals) = mpsc::unbounded_channel();
                let working = self.work(runs, &brake, Some(arrived));
                let watching = async {
                    let early = watch(self, wanted, arrivals, &brake).await;
                    // Where nobody watches any more, nobody is to work on.
                    early.inspect_err(|_| brake.pull())
                };
                let (ends, early) = tokio::join!(working, watching);
                (ends, early?)
            }
            None => (self.work(runs, &brake, None).await, Early::default()),
        };
        self.floor.steering.close();
        let ends = ends?;
        self.early = early;
        self.enough = self.early.enough.take().or_else(|| self.memory.enough().cloned());
        self.tell.check()?;
        self.begin_stage(Stage::Admit, Some(ends.len() as u32))?;
        let timed_out = self.cancelled(Checkpoint::Worked) && self.is_timed_out();
        for end in ends {
            self.take_lane(end, timed_out)?;
        }
        self.record.saved = self.enough.as_ref().map(|enough| saved(enough, &self.record.lanes));
        self.warn_of_lanes();
        Ok(())
    }

    /// How many candidates end the fan-out early, where that is still to be found out.
    fn watched(&self) -> Option<u32> {
        let open = self.memory.enough().is_none() && !self.memory.is_replay();
        self.record.plan.limits.enough.filter(|_| open)
    }

    /// The lanes' work. What each finished with goes to `arrived`, too, and holds the others that have not
    /// begun until it was looked at.
    async fn work(
        &self,
        runs: Vec<LaneRun>,
        brake: &Brake,
        arrived: Option<UnboundedSender<Arrival>>,
    ) -> Result<Vec<LaneEnd<Attempt>>, PipelineError> {
        let Some(work) = &self.phases.work else {
            return Err(PipelineError::Internal("a run without workers".to_owned()));
        };
        let options = FanoutOptions {
            max_parallel: self.record.plan.limits.max_parallel as usize,
            brake: brake.clone(),
            grace: GRACE,
        };
        let waiting = runs.iter().filter(|run| self.memory.is_to_work(&run.id));
        let waiting = waiting.map(|run| (run.id.clone(), run.lane.model.to_string()));
        // On the board from now on; what is left in the end never began.
        let _line = self.floor.line_up(waiting);
        let start = |run: LaneRun, cancel| {
            let stopped = self.floor.never_begins(&run.id);
            let known = match stopped {
                true => Some(Attempt::nothing(Stop::Cancelled)),
                false => self.known_attempt(&run),
            };
            let spared = known.as_ref().is_some_and(|attempt| attempt.stop == Stop::NotNeeded);
            if !spared && !stopped {
                let (lane, model) = (run.id.clone(), run.lane.model.to_string());
                self.tell.send(RunEvent::LaneBegan { lane, model });
            }
            let brake = brake.clone();
            match known {
                Some(attempt) => std::future::ready(attempt).boxed(),
                None => {
                    let limit = self.limit.clone();
                    let cut = move |attempt: Attempt| attempt.cut(&brake, &limit);
                    work.attempt(run, cancel).map(cut).boxed()
                }
            }
        };
        // Told and kept as each comes back, not when the last one does.
        let ended = move |run: &LaneRun, attempt: &Attempt| {
            if let Err(error) = keep_attempt(self.dir, &run.id, attempt) {
                self.tell.fail(error);
            }
            self.floor.steering.end(&run.id);
            self.tell.send(lane_ended(&run.id, attempt));
            if let (Some(arrived), Some(arrival)) = (&arrived, Arrival::of(run, attempt)) {
                // Who can't be told any more has ended the fan-out.
                brake.hold(arrived.send(arrival).is_ok());
            }
        };
        Ok(crate::fanout::run(runs, &options, start, ended).await)
    }

    /// A worker run that the journal holds, or that it says was not needed. A damaged one ends the run
    /// at the next check: to make it again would be to pay for it again.
    fn known_attempt(&self, run: &LaneRun) -> Option<Attempt> {
        match self.memory.attempt(&run.id) {
            Ok(Some(attempt)) => Some(attempt),
            Ok(None) if self.memory.enough().is_some() => Some(Attempt::nothing(Stop::NotNeeded)),
            // What was not begun, or did not come back, before the time was over is in no journal.
            Ok(None) if self.memory.is_replay() && self.memory.timed_out().is_some() => {
                Some(Attempt::nothing(Stop::Limit { limit: Limit::Time }))
            }
            Ok(None) if self.memory.never_begun(&run.id) => Some(Attempt::nothing(Stop::Cancelled)),
            Ok(None) if self.memory.is_replay() => {
                self.memory.miss(format!("the worker run of {}", run.id));
                Some(Attempt::nothing(Stop::Cancelled))
            }
            Ok(None) => None,
            Err(error) => {
                self.tell.fail(error);
                Some(Attempt::nothing(Stop::Cancelled))
            }
        }
    }

    /// The gates of a tree: as the journal holds them, else run and journaled.
    pub(super) async fn gates_of(
        &self,
        id: &CandidateId,
        tree: &TreeId,
    ) -> Result<Vec<GateReport>, PipelineError> {
        if let Some(early) = self.early.gates.get(tree) {
            return Ok(early.clone());
        }
        if let Some(known) = self.memory.gates(Some(tree)) {
            return Ok(known);
        }
        if self.memory.is_replay() {
            // What was not gated before the time was over is in no journal.
            if self.memory.timed_out().is_none() {
                self.memory.miss(format!("the gates of {id}"));
            }
            return Ok(Vec::new());
        }
        let gates = match self.cancel.is_cancelled() {
            true => self.phases.prove.known(tree),
            false => self.phases.prove.candidate(id, tree).await?,
        };
        // What was not proved stays without a report, and no report is no proof.
        if gates.is_empty() {
            return Ok(gates);
        }
        Ok(keep_gates(self.dir, Some(tree), gates)?)
    }

    fn take_lane(&mut self, end: LaneEnd<Attempt>, timed_out: bool) -> Result<(), PipelineError> {
        let run = end.lane;
        let mut attempt = end.result.unwrap_or_else(|stop| {
            // It never came back, so nobody was told.
            let attempt = Attempt::nothing(match stop {
                Stop::Cancelled if self.enough.is_some() => Stop::NotNeeded,
                Stop::Cancelled if timed_out => Stop::Limit { limit: Limit::Time },
                stop => stop,
            });
            self.tell.send(lane_ended(&run.id, &attempt));
            attempt
        });
        // Judges and side calls are told its words, and a replay knows them only as they are kept.
        let words = (attempt.answer, attempt.claims);
        (attempt.answer, attempt.claims) = self.dir.masked(&words).unwrap_or(words);
        let why_none = why_no_candidate(&attempt);
        let id = why_none.is_none().then(|| self.worker_id(run.index));
        self.record.lanes.push(LaneRecord {
            lane: run.id.clone(),
            model: attempt.fallback.as_ref().unwrap_or(&run.lane.model).to_string(),
            unanswered: attempt.unanswered.clone(),
            stop: attempt.stop.clone(),
            candidate: id.clone(),
            why_none,
            turns: attempt.turns,
            usage: attempt.usage,
            millis: attempt.millis,
            jobs_ended: attempt.jobs_ended,
            healed: attempt.healed,
        });
        if !attempt.survivors.is_empty() {
            let names = attempt.survivors.join(", ");
            let text = format!("of the jobs of {} these may be alive: {names}", run.id);
            self.warn("jobs-survived", text);
        }
        if let (Stop::Limit { limit: Limit::Context }, Some(why), true) =
            (&attempt.stop, &attempt.why, id.is_some())
        {
            self.warn("context-overflow", format!("{} was cut off: {why}", run.id));
        }
        match id {
            Some(id) => self.admit_attempt(id, run, attempt),
            None => Ok(()),
        }
    }

    fn admit_attempt(
        &mut self,
        id: CandidateId,
        run: LaneRun,
        attempt: Attempt,
    ) -> Result<(), PipelineError> {
        let stop = attempt.work_stop();
        let candidate = Candidate {
            id,
            kind: Kind::Worker,
            lane: run.id,
            family: family(&run.lane, attempt.fallback.as_ref()),
            diff: self.dir.artifacts().put(&attempt.diff)?,
            diff_bytes: attempt.diff.len() as u64,
            answer: attempt.answer,
            claims: attempt.claims,
            usage: attempt.usage,
            stop,
        };
        self.admit(candidate, &attempt.diff)
    }

    /// Lanes without a candidate are told together: how many, and why.
    fn warn_of_lanes(&mut self) {
        let taken = self.record.lanes.iter().filter(|lane| !lane.unanswered.is_empty());
        let taken: Vec<String> = taken.map(taken_over).collect();
        if !taken.is_empty() {
            self.warn("lanes-on-fallback", taken.join("; "));
        }
        let without: Vec<String> = self
            .record
            .lanes
            .iter()
            .filter(|lane| lane.stop != Stop::NotNeeded)
            .filter_map(|lane| Some(format!("{}: {}", lane.lane, lane.why_none.as_ref()?)))
            .collect();
        if !without.is_empty() {
            let (all, none) = (self.record.lanes.len(), without.len());
            let text =
                format!("{} of {all} lanes gave a candidate; {}", all - none, without.join("; "));
            self.warn("lanes-without-candidate", text);
        }
    }

    /// Gates every admitted tree once.
    pub(super) async fn prove_candidates(&mut self) -> Result<(), PipelineError> {
        let todo: Vec<(CandidateId, TreeId)> = self
            .record
            .candidates
            .iter()
            .filter(|row| row.same_as.is_none() && row.gates.is_empty() && !refused(&row.admission))
            .filter_map(|row| Some((row.candidate.id.clone(), row.admission.tree()?.clone())))
            .collect();
        self.begin_stage(Stage::Gate, Some(todo.len() as u32))?;
        let parallel = self.record.plan.gates.parallel.max(1) as usize;
        let run = &*self;
        let mut running = stream::iter(todo)
            .map(|(id, tree)| async move {
                let gates = run.gates_of(&id, &tree).await;
                (id, gates)
            })
            .buffer_unordered(parallel);
        let mut done = Vec::new();
        while let Some((id, gates)) = running.next().await {
            done.push((id, gates?));
        }
        drop(running);
        for (id, gates) in done {
            self.set_gates(&id, gates);
        }
        self.tell.check()
    }

    /// Has skeptics hold the finalists' claims against what is known, before anybody judges.
    pub(super) async fn doubt(&mut self, finalists: &mut [Survivor]) -> Result<(), PipelineError> {
        let Some(judge) = &self.phases.judge else { return Ok(()) };
        if !self.record.plan.judging.skeptics
            || finalists.len() < 2
            || self.cancelled(Checkpoint::Doubt)
        {
            return Ok(());
        }
        let doubted = judge.doubt(finalists).await?;
        for (finalist, doubted) in finalists.iter_mut().zip(doubted) {
            self.count("skeptics", doubted.usage);
            if let Some(why) = doubted.silent {
                let text = format!("nobody could doubt the claims of {}: {why}", finalist.id);
                self.warn("skeptic-silent", text);
            }
            finalist.refuted.clone_from(&doubted.refuted);
            self.set_refuted(&finalist.id, doubted.refuted);
        }
        self.tell.check()
    }

    /// The synthesizer's candidate replaces the winner only by passing the same gates and then
    /// winning its pair against it.
    pub(super) async fn fuse(
        &mut self,
        decision: Decision,
        survivors: &[Survivor],
    ) -> Result<Decision, PipelineError> {
        let best = decision.winner().cloned();
        let (Some(fuse), Some(best)) = (&self.phases.fuse, best) else { return Ok(decision) };
        if survivors.len() < 2 || self.phases.judge.is_none() || self.cancelled(Checkpoint::Fuse) {
            return Ok(decision);
        }
        self.begin_stage(Stage::Fuse, None)?;
        let (mut failed, mut id) = (None, None);
        // The last of its proposals counts; one that failed a gate may be mended.
        for round in 0..=self.record.plan.judging.fix_rounds {
            let ballots = current(&self.record.ballots);
            let proposal = fuse.propose(survivors, &ballots, failed.take()).await?;
            self.count("synthesizer", proposal.usage);
            let Some(diff) = proposal.diff else {
                let what = if round == 0 { "proposed nothing" } else { "mended nothing" };
                let text = format!("the synthesizer {what}: {}", proposal.answer);
                self.warn("nothing-synthesized", text);
                break;
            };
            let proposed = self.admit_synthesized(&diff, proposal.answer)?;
            self.prove_candidates().await?;
            let row = self.row(&proposed);
            let report = row.and_then(|row| row.gates.iter().find(|gate| gate.verdict.is_fail()));
            failed = report.map(|report| Failed { diff, report: report.clone(), round });
            id = Some(proposed);
            if failed.is_none() || self.cancelled(Checkpoint::Fused) {
                break;
            }
        }
        match id {
            Some(id) => self.challenge(decision, (&best, &id), survivors).await,
            None => Ok(decision),
        }
    }

    fn admit_synthesized(
        &mut self,
        diff: &[u8],
        answer: String,
    ) -> Result<CandidateId, PipelineError> {
        let id = self.next_id();
        let candidate = Candidate {
            id: id.clone(),
            kind: Kind::Synthesized,
            lane: LaneId::new("synthesizer"),
            family: Family::new("synthesizer"),
            diff: self.dir.artifacts().put(diff)?,
            diff_bytes: diff.len() as u64,
            answer,
            claims: Vec::new(),
            usage: Usage::default(),
            stop: Stop::Submitted,
        };
        self.admit(candidate, diff)?;
        Ok(id)
    }

    /// Title and capsule of a run that decided. Nothing of the decision hangs on them.
    pub(super) async fn aside(&mut self, decision: &Decision) -> Result<(), PipelineError> {
        let plan = &self.record.plan;
        let (Some(side), Some(task)) = (&self.phases.side, &plan.task) else { return Ok(()) };
        if self.cancelled(Checkpoint::Aside) || plan.exclude_from_context {
            return Ok(());
        }
        self.begin_stage(Stage::Side, Some(2))?;
        let title = side.title(&task.text).await?;
        let won = winner(&self.record, decision);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let applied = won.and_then(|row| row.applied.as_ref());
        let capsule = side.capsule(CapsuleTask {
            task: task.text.clone(),
            digest: digest(&self.record, decision),
            diff: applied.map(|id| self.dir.artifacts().get(id).map(text)).transpose()?,
            answer: won.map(|row| row.candidate.answer.clone()).filter(|said| !said.is_empty()),
        });
        let capsule = capsule.await?;
        self.record.title = self.said("title", title);
        self.record.capsule = self.said("capsule", capsule);
        self.tell.check()
    }

    fn said(&mut self, what: &str, aside: Aside) -> Option<String> {
        self.count("side", aside.usage);
        match aside.said {
            Ok(said) => Some(said),
            Err(why) => {
                self.warn("side-call-failed", format!("the run has no {what} of its own: {why}"));
                None
            }
        }
    }

    async fn challenge(
        &mut self,
        decision: Decision,
        (best, challenger): (&CandidateId, &CandidateId),
        finalists: &[Survivor],
    ) -> Result<Decision, PipelineError> {
        let passed = |row: &CandidateRecord| {
            row.same_as.is_none()
                && Standing::of(row.admission.tree().is_some(), &row.gates) == Standing::Passed
        };
        if !self.row(challenger).is_some_and(passed) {
            return Ok(decision);
        }
        let pair = [best, challenger].map(|id| self.row(id).map(|row| self.survivor(row)));
        let [Some(best_one), Some(other)] = pair else { return Ok(decision) };
        let (Some(best_one), Some(other)) = (best_one?, other?) else { return Ok(decision) };
        // With the facts that it had before the judges.
        let known = finalists.iter().find(|one| one.id == *best);
        let best_one = known.cloned().unwrap_or(best_one);
        let before = self.record.ballots.len();
        let judged = self.judge(&[best_one, other]).await?;
        let needed = self.phases.judge.as_ref().map(|judge| judge.to_convince());
        let convinced = needed.unwrap_or_default().iter().all(|judge| {
            convinces(judge, challenger, self.record.ballots.get(before..).unwrap_or_default())
        });
        Ok(match judged {
            Judged::Said(new) if new.winner() == Some(challenger) && convinced => new,
            _ => decision,
        })
    }
}

/// Whether a judge preferred `challenger` in every ballot on its pair: it was asked in both orders.
fn convinces(judge: &JudgeId, challenger: &CandidateId, ballots: &[Ballot]) -> bool {
    let mut own = ballots.iter().filter(|ballot| ballot.judge == *judge).peekable();
    let for_it = |ballot: &Ballot| match ballot.choice {
        Choice::Left => ballot.left == *challenger,
        Choice::Right => ballot.right == *challenger,
        Choice::Tie | Choice::Abstain { .. } => false,
    };
    own.peek().is_some() && own.all(for_it)
}

fn lane_ended(lane: &LaneId, attempt: &Attempt) -> RunEvent {
    RunEvent::LaneEnded {
        lane: lane.clone(),
        stop: attempt.stop.clone(),
        left_change: why_no_candidate(attempt).is_none(),
        usage: attempt.usage,
    }
}

/// A candidate's voice: that of the model that answered, unless the operator gave the lane one.
fn family(lane: &Lane, fallback: Option<&ModelRef>) -> Family {
    let maker = |model: &ModelRef| Family::new(crate::config::maker(&model.provider, &model.model));
    match fallback {
        Some(model) if lane.family == maker(&lane.model) => maker(model),
        _ => lane.family.clone(),
    }
}

/// Which model a lane was to ask, what its server said, and who took over.
fn taken_over(lane: &LaneRecord) -> String {
    let said = lane.unanswered.iter().map(|left| format!("{}: {}", left.model, left.message));
    let said: Vec<String> = said.collect();
    format!("{} went on with {} ({})", lane.lane, lane.model, said.join("; "))
}

/// Why an attempt gives no candidate; `None` when it gives one.
fn why_no_candidate(attempt: &Attempt) -> Option<String> {
    if attempt.beyond.is_some() {
        return attempt.beyond.clone();
    }
    match (&attempt.work_stop(), attempt.diff.is_empty()) {
        (Stop::Failed { class, message }, _) => Some(format!("{class}: {message}")),
        (Stop::NotNeeded, _) => Some("enough candidates were there without it".to_owned()),
        (Stop::Cancelled, true) => Some("it was stopped before it changed anything".to_owned()),
        (Stop::Limit { limit }, true) => {
            let why = attempt.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            Some(format!("its {limit} limit cut it off before it changed anything{why}"))
        }
        (_, true) => Some(CHANGED_NOTHING.to_owned()),
        (_, false) => None,
    }
}
