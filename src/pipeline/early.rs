//! Ending a fan-out early: while others work, candidates are admitted and gated as they come, until
//! enough of them are there (`--enough`). Never here: the choice among them.

use std::collections::{BTreeMap, VecDeque};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::UnboundedReceiver;

use super::decide::Standing;
use super::run::Run;
use super::{Attempt, PipelineError};
use crate::fanout::{Brake, LaneRun};
use crate::journal::Entry;
use crate::model::{
    Admission, CandidateId, Cost, Enough, Flag, GateReport, LaneId, LaneRecord, RunEvent, Saved,
    Stop, TreeId, Usage,
};
use crate::select::Doubt;

/// A worker that finished with a change.
pub(super) struct Arrival {
    id: CandidateId,
    lane: LaneId,
    diff: Vec<u8>,
}

impl Arrival {
    /// The arrival of a lane, if it can count: partial work never does.
    pub(super) fn of(run: &LaneRun, attempt: &Attempt) -> Option<Self> {
        let counts = attempt.work_stop().is_complete() && !attempt.diff.is_empty();
        counts.then(|| Self {
            id: CandidateId::nth(run.index),
            lane: run.id.clone(),
            diff: attempt.diff.clone(),
        })
    }
}

/// What was found out before the fan-out was over, so that it is neither told nor done again.
#[derive(Default)]
pub(super) struct Early {
    /// Admissions that were told.
    pub(super) admissions: BTreeMap<CandidateId, Admission>,
    /// Gates that ran.
    pub(super) gates: BTreeMap<TreeId, Vec<GateReport>>,
    /// Why the fan-out ended early, if it did.
    pub(super) enough: Option<Enough>,
}

/// Admits and gates what arrives until the fan-out is over. The journal holds that enough were there
/// before any lane is cut for it.
pub(super) async fn watch(
    run: &Run<'_>,
    wanted: u32,
    mut arrivals: UnboundedReceiver<Arrival>,
    brake: &Brake,
) -> Result<Early, PipelineError> {
    let mut early = Early::default();
    let mut field = Field::new(wanted);
    let (mut waiting, mut gating) = (VecDeque::new(), FuturesUnordered::new());
    let parallel = run.record.plan.gates.parallel.max(1) as usize;
    let mut open = true;
    loop {
        while open && gating.len() < parallel && early.enough.is_none() {
            let Some((id, tree)): Option<(CandidateId, TreeId)> = waiting.pop_front() else {
                break;
            };
            gating.push(async move { (run.gates_of(&id, &tree).await, tree) });
        }
        brake.hold(field.may_be_enough());
        tokio::select! {
            arrival = arrivals.recv(), if open => match arrival {
                None => open = false,
                Some(arrival) => {
                    let admission = run.phases.admit.admit(&arrival.diff)?;
                    waiting.extend(field.admitted(&arrival.id, &admission));
                    run.tell_admitted(&arrival.id, &arrival.lane, &admission);
                    early.admissions.insert(arrival.id, admission);
                }
            },
            Some((gates, tree)) = gating.next(), if !gating.is_empty() => {
                let gates = gates?;
                field.gated(&tree, &gates);
                if !gates.is_empty() {
                    early.gates.insert(tree, gates);
                }
            }
            else => return Ok(early),
        }
        if early.enough.is_none()
            && let Some(enough) = field.enough()
        {
            run.dir.append(&Entry::Enough { enough: enough.clone() })?;
            run.tell.send(RunEvent::Enough { enough: enough.clone() });
            early.enough = Some(enough);
            brake.pull();
        }
    }
}

/// What is known of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its gates did not answer yet.
    Open,
    /// It passed them all, and nothing takes the pick by evidence from it.
    Passed,
    /// It did not pass each of them (one that could not run proves nothing), or in a way that proves too
    /// little.
    Unproved,
}

struct Tree {
    candidates: Vec<CandidateId>,
    flags: Vec<Flag>,
    state: State,
}

/// The trees that are there. Pure.
struct Field {
    wanted: usize,
    trees: BTreeMap<TreeId, Tree>,
}

impl Field {
    fn new(wanted: u32) -> Self {
        Self { wanted: wanted.max(1) as usize, trees: BTreeMap::new() }
    }

    /// Notes a candidate. A new tree comes back, to be gated.
    fn admitted(
        &mut self,
        id: &CandidateId,
        admission: &Admission,
    ) -> Option<(CandidateId, TreeId)> {
        let Admission::Admitted { tree, flags, .. } = admission else { return None };
        let blank = || Tree { candidates: Vec::new(), flags: flags.clone(), state: State::Open };
        let known = self.trees.entry(tree.clone()).or_insert_with(blank);
        known.candidates.push(id.clone());
        (known.candidates.len() == 1).then(|| (id.clone(), tree.clone()))
    }

    fn gated(&mut self, tree: &TreeId, gates: &[GateReport]) {
        let Some(tree) = self.trees.get_mut(tree).filter(|_| !gates.is_empty()) else { return };
        // Stricter than the standing of a survivor: what is contested may yet win, and proves nothing.
        let proved = Standing::of(true, gates) == Standing::Passed
            && gates.iter().all(|report| report.verdict.is_pass())
            && !Doubt::of(gates, &tree.flags).is_unfit();
        tree.state = if proved { State::Passed } else { State::Unproved };
    }

    /// Whether what is there may turn out to be enough once its gates have answered.
    fn may_be_enough(&self) -> bool {
        let hopeful = |tree: &&Tree| matches!(tree.state, State::Open | State::Passed);
        let count = |tree: &Tree| tree.candidates.len();
        self.trees.values().filter(hopeful).map(count).sum::<usize>() >= self.wanted
    }

    /// Those that passed, when they are enough: of one tree alone, where it has enough of them.
    fn enough(&self) -> Option<Enough> {
        let passed = || self.trees.values().filter(|tree| tree.state == State::Passed);
        let equal = passed().find(|tree| tree.candidates.len() >= self.wanted);
        let passed: Vec<CandidateId> = passed().flat_map(|tree| tree.candidates.clone()).collect();
        let mut candidates = match equal {
            Some(tree) => tree.candidates.clone(),
            None if passed.len() >= self.wanted => passed,
            None => return None,
        };
        // In plan order: the numbers in the ids are places.
        candidates.sort_by_key(|id| (id.as_str().len(), id.clone()));
        let wanted = self.wanted as u32;
        Some(Enough { wanted, equal: equal.is_some() && self.wanted > 1, candidates })
    }
}

/// What an early end saved, from what the lanes used.
pub(super) fn saved(enough: &Enough, lanes: &[LaneRecord]) -> Saved {
    let unneeded = || lanes.iter().filter(|lane| lane.stop == Stop::NotNeeded);
    let (cut, not_begun): (Vec<_>, Vec<_>) = unneeded().partition(|lane| lane.usage.calls > 0);
    let names = |lanes: Vec<&LaneRecord>| lanes.iter().map(|lane| lane.lane.clone()).collect();
    let (mut tokens, mut cost) = (0, Cost::default());
    for lane in unneeded() {
        let (most, used) = (expected(lane, lanes), lane.usage);
        tokens = most.tokens().saturating_sub(used.tokens()).saturating_add(tokens);
        let less = most.cost.known.0.saturating_sub(used.cost.known.0);
        cost.known.0 = cost.known.0.saturating_add(less);
        cost.partly_unknown |= most.cost.partly_unknown;
    }
    Saved { enough: enough.clone(), not_begun: names(not_begun), cut: names(cut), tokens, cost }
}

/// What a lane would have used: the mean of the workers that finished, of its own model if there are any.
fn expected(lane: &LaneRecord, lanes: &[LaneRecord]) -> Usage {
    let finished = || lanes.iter().filter(|other| other.stop.is_complete());
    let own: Vec<_> = finished().filter(|other| other.model == lane.model).collect();
    let like = if own.is_empty() { finished().collect() } else { own };
    let mut sum = Usage::default();
    like.iter().for_each(|other| sum += other.usage);
    let count = (like.len() as u64).max(1);
    let mut mean = Usage { input_tokens: sum.tokens() / count, ..Usage::default() };
    mean.cost.known.0 = sum.cost.known.0 / count;
    mean.cost.partly_unknown = sum.cost.partly_unknown;
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GateKind, Verdict};

    fn admitted(tree: &str, flag: Option<&str>) -> Admission {
        let made = |code: &str| Flag { code: code.into(), path: None, detail: String::new() };
        Admission::Admitted {
            tree: TreeId::new(tree),
            repairs: Vec::new(),
            flags: flag.into_iter().map(made).collect(),
            files: Vec::new(),
        }
    }

    fn gates(verdict: Verdict) -> Vec<GateReport> {
        vec![GateReport::bare(GateKind::Test, verdict)]
    }

    fn names(enough: Option<Enough>) -> Option<(bool, Vec<String>)> {
        let enough = enough?;
        Some((enough.equal, enough.candidates.iter().map(CandidateId::to_string).collect()))
    }

    fn fill(field: &mut Field, trees: &[&str]) {
        for (at, tree) in trees.iter().enumerate() {
            field.admitted(&CandidateId::nth(at), &admitted(tree, None));
        }
    }

    #[test]
    fn enough_pass_and_of_one_tree_where_enough_agree() {
        let mut field = Field::new(2);
        fill(&mut field, &["a", "b", "b"]);
        assert!(field.may_be_enough() && field.enough().is_none(), "no gate has spoken");
        field.gated(&TreeId::new("b"), &gates(Verdict::Fail { reason: String::new() }));
        assert!(!field.may_be_enough(), "agreement that a gate refutes is nothing");
        field.gated(&TreeId::new("a"), &gates(Verdict::Pass));
        assert!(field.enough().is_none());
        field.admitted(&CandidateId::nth(3), &admitted("c", None));
        field.gated(&TreeId::new("c"), &gates(Verdict::Pass));
        assert_eq!(names(field.enough()), Some((false, vec!["c1".into(), "c4".into()])));
        let mut field = Field::new(2);
        fill(&mut field, &["a", "b", "b"]);
        field.gated(&TreeId::new("a"), &gates(Verdict::Pass));
        field.gated(&TreeId::new("b"), &gates(Verdict::Pass));
        assert_eq!(names(field.enough()), Some((true, vec!["c2".into(), "c3".into()])));
    }

    #[test]
    fn what_is_no_pass_is_never_enough_nor_is_agreement_on_it() {
        let reason = String::new;
        for verdict in [
            Verdict::Infra { reason: reason() },
            Verdict::Contested { reason: reason() },
            Verdict::Skipped { reason: reason() },
            Verdict::Fail { reason: reason() },
        ] {
            for wanted in [1, 2] {
                let mut field = Field::new(wanted);
                fill(&mut field, &["a", "a"]);
                let apply = GateReport::bare(GateKind::Apply, Verdict::Pass);
                let reports = [vec![apply], gates(verdict.clone())].concat();
                field.gated(&TreeId::new("a"), &reports);
                assert_eq!(names(field.enough()), None, "{wanted} of {verdict:?}");
                assert!(!field.may_be_enough(), "no lane waits for it: {verdict:?}");
                // Without any gate of the user's, what applies has passed what there is.
                field.gated(&TreeId::new("a"), &reports[..1]);
                assert!(field.enough().is_some(), "{wanted}");
            }
        }
    }

    #[test]
    fn what_proves_too_little_is_never_enough() {
        let mut field = Field::new(1);
        field.admitted(&CandidateId::nth(0), &admitted("a", Some("weakens-tests")));
        field.gated(&TreeId::new("a"), &gates(Verdict::Pass));
        assert!(field.enough().is_none());
        field.gated(&TreeId::new("a"), &[]);
        assert!(field.enough().is_none(), "and a gate that was cancelled says nothing");
    }

    #[test]
    fn what_was_saved_is_what_like_lanes_used_less_what_was_spent() {
        let lane = |name: &str, model: &str, stop, calls, tokens, dollars| LaneRecord {
            lane: LaneId::new(name),
            model: model.into(),
            unanswered: Vec::new(),
            stop,
            candidate: None,
            why_none: None,
            turns: 0,
            usage: Usage {
                calls,
                input_tokens: tokens,
                cost: Cost { known: crate::model::MicroUsd(dollars), partly_unknown: false },
                ..Usage::default()
            },
            millis: 0,
            jobs_ended: 0,
            healed: 0,
        };
        let lanes = [
            lane("a/1", "a", Stop::Submitted, 2, 100, 10),
            lane("b/1", "b", Stop::Submitted, 2, 300, 30),
            lane("a/2", "a", Stop::NotNeeded, 1, 40, 4),
            lane("c/1", "c", Stop::NotNeeded, 0, 0, 0),
        ];
        let enough = Enough { wanted: 2, equal: false, candidates: Vec::new() };
        let saved = saved(&enough, &lanes);
        assert_eq!((saved.tokens, saved.cost.known.0), (60 + 200, 6 + 20));
        assert_eq!(
            (saved.cut, saved.not_begun),
            (vec![LaneId::new("a/2")], vec![LaneId::new("c/1")])
        );
    }
}
