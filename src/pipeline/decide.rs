//! From everything that was proved to one decision. Pure: the same inputs decide the same.

use crate::model::{
    Admission, Basis, CandidateId, CandidateRecord, Confidence, Decision, Exit, GateReport,
    LaneRecord, NoWinner, Outcome, Stop, Verdict,
};
use crate::select::Doubt;

/// How a candidate stands after admission and gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its diff was refused.
    Refused,
    /// A gate disproved it.
    Failed,
    /// A gate could not run, so that nothing is known.
    Unproved,
    /// It passed every gate that was asked for, or only tests speak against it that it changed itself.
    Passed,
}

impl Standing {
    /// The standing of a candidate from its reports. No report is no proof.
    pub fn of(admitted: bool, gates: &[GateReport]) -> Self {
        if !admitted {
            return Self::Refused;
        }
        if gates.iter().any(|report| report.verdict.is_fail()) {
            return Self::Failed;
        }
        if gates.is_empty() || gates.iter().any(|report| report.verdict.is_infra()) {
            return Self::Unproved;
        }
        let skipped = |report: &GateReport| matches!(report.verdict, Verdict::Skipped { .. });
        if gates.iter().all(skipped) { Self::Unproved } else { Self::Passed }
    }
}

/// Why a lane gave no candidate that left its workspace as it was.
pub(super) const CHANGED_NOTHING: &str = "it changed nothing";

/// Why there is no survivor, for the decision without a winner.
pub fn no_survivor(lanes: &[LaneRecord], candidates: &[CandidateRecord]) -> Decision {
    let reason = why_no_survivor(lanes, candidates);
    let (reason, text) = match reason {
        NoWinner::ModelsUnreachable => (reason, unreachable_text(lanes)),
        NoWinner::LanesFailed => (reason, failed_text(lanes)),
        NoWinner::NoCandidates => (reason, nothing_text(lanes)),
        NoWinner::NothingApplied => (reason, "no diff applies to the base".to_owned()),
        NoWinner::GatesCouldNotRun => (reason, infra_text(candidates)),
        NoWinner::OnlyPartial => {
            let text = "only partial work passed the gates; `bakeoff apply --candidate ID` takes one by name";
            (reason, text.to_owned())
        }
        NoWinner::Cancelled => (reason, "the run was stopped".to_owned()),
        NoWinner::LimitReached => (reason, limits_text(lanes)),
        other => (other, "no candidate passed the gates".to_owned()),
    };
    none(reason, partial_ids(candidates), text)
}

fn why_no_survivor(lanes: &[LaneRecord], candidates: &[CandidateRecord]) -> NoWinner {
    let standings: Vec<_> = candidates
        .iter()
        .filter(|row| row.same_as.is_none())
        .map(|row| Standing::of(row.admission.tree().is_some(), &row.gates))
        .collect();
    if candidates.is_empty() {
        return no_candidate(lanes);
    }
    if standings.iter().all(|standing| *standing == Standing::Refused) {
        return NoWinner::NothingApplied;
    }
    if standings.contains(&Standing::Passed) {
        return NoWinner::OnlyPartial;
    }
    if standings.contains(&Standing::Unproved) {
        NoWinner::GatesCouldNotRun
    } else {
        NoWinner::NothingPassed
    }
}

/// Failures of the workspace or the engine itself are not the model server's.
fn is_provider_failure(stop: &Stop) -> bool {
    matches!(stop, Stop::Failed { .. }) && !is_own_failure(stop)
}

fn is_own_failure(stop: &Stop) -> bool {
    let own = ["workspace", "internal", "sandbox"];
    matches!(stop, Stop::Failed { class, .. } if own.contains(&class.as_str()))
}

fn is_limit(stop: &Stop) -> bool {
    matches!(stop, Stop::Limit { .. })
}

fn no_candidate(lanes: &[LaneRecord]) -> NoWinner {
    if !lanes.is_empty() && lanes.iter().all(|lane| is_provider_failure(&lane.stop)) {
        NoWinner::ModelsUnreachable
    } else if !lanes.is_empty() && lanes.iter().all(|lane| lane.stop == Stop::Cancelled) {
        NoWinner::Cancelled
    } else if !lanes.is_empty() && lanes.iter().all(|lane| is_limit(&lane.stop)) {
        NoWinner::LimitReached
    } else if lanes.iter().any(|lane| is_own_failure(&lane.stop)) {
        NoWinner::LanesFailed
    } else {
        NoWinner::NoCandidates
    }
}

fn unreachable_text(lanes: &[LaneRecord]) -> String {
    let said = failures(lanes, |lane| lane.model.clone());
    format!("no lane could reach its model: {said}")
}

fn failed_text(lanes: &[LaneRecord]) -> String {
    let said = failures(lanes, |lane| lane.lane.to_string());
    format!("no lane left a change, and not all of them could work: {said}")
}

/// What the failed lanes said, each thing once, under a name for the lane.
fn failures(lanes: &[LaneRecord], name: impl Fn(&LaneRecord) -> String) -> String {
    let mut said: Vec<String> = Vec::new();
    for lane in lanes {
        if let Stop::Failed { message, .. } = &lane.stop {
            // What the servers before a fallback said counts as much.
            let before = lane.unanswered.iter();
            let before = before.map(|left| format!("{}: {}", left.model, left.message));
            for line in before.chain([format!("{}: {message}", name(lane))]) {
                if !said.contains(&line) {
                    said.push(line);
                }
            }
        }
    }
    said.join("; ")
}

fn limits_text(lanes: &[LaneRecord]) -> String {
    format!("every lane reached a limit before it left a change: {}", whys(lanes).join("; "))
}

fn nothing_text(lanes: &[LaneRecord]) -> String {
    let whys = whys(lanes);
    if whys.iter().all(|why| *why == CHANGED_NOTHING) {
        return "no lane left a change".to_owned();
    }
    format!("no lane left a change that can be taken: {}", whys.join("; "))
}

/// Why lanes gave no candidate, each thing once.
fn whys(lanes: &[LaneRecord]) -> Vec<&str> {
    let mut said: Vec<&str> = Vec::new();
    for why in lanes.iter().filter_map(|lane| lane.why_none.as_deref()) {
        if !said.contains(&why) {
            said.push(why);
        }
    }
    said
}

fn infra_text(candidates: &[CandidateRecord]) -> String {
    let reasons =
        candidates.iter().flat_map(|row| &row.gates).filter_map(|report| match &report.verdict {
            Verdict::Infra { reason } => Some(reason.as_str()),
            _ => None,
        });
    let first = reasons.into_iter().next().unwrap_or("they did not run");
    format!("the gates could not run, so nothing is proved: {first}")
}

fn partial_ids(candidates: &[CandidateRecord]) -> Vec<CandidateId> {
    let passed = |row: &&CandidateRecord| {
        Standing::of(row.admission.tree().is_some(), &row.gates) == Standing::Passed
    };
    candidates.iter().filter(passed).map(|row| row.candidate.id.clone()).take(2).collect()
}

/// A decision without a winner.
pub fn none(reason: NoWinner, closest: Vec<CandidateId>, text: String) -> Decision {
    Decision {
        outcome: Outcome::NoWinner { reason, closest },
        basis: None,
        confidence: Confidence::Low,
        reason: text,
        evidence: Vec::new(),
    }
}

/// What the judges said.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// There were none.
    NotAsked,
    /// None of them gave a valid ballot.
    Silent {
        /// Why, when it was because their models could not be reached or paid.
        unreachable: Option<String>,
    },
    /// What their ballots come to.
    Said(Decision),
}

/// What the evidence, and the judges if they were asked, chose.
///
/// `evidence` is what agreement alone chooses. Judges outrank agreement, and neither can bring back
/// what a gate refused, since only survivors reach this function. Where judges were asked and stayed
/// silent, agreement decides only when it rests on something: a candidate is never picked by order.
pub fn decide(evidence: Decision, judged: Judged) -> Decision {
    match judged {
        Judged::Said(mut decision) => {
            decision.evidence.extend(evidence.evidence);
            decision
        }
        Judged::Silent { unreachable } if evidence.confidence == Confidence::Low => {
            let closest = evidence.winner().cloned().into_iter().collect();
            let (reason, why) = match unreachable {
                Some(error) => (
                    NoWinner::ModelsUnreachable,
                    format!("the judges' models did not answer ({error})"),
                ),
                None => (NoWinner::NoConfidentChoice, "no judge gave a valid ballot".to_owned()),
            };
            let text = format!("{why}, and agreement alone is too weak: {}", evidence.reason);
            Decision { evidence: evidence.evidence, ..none(reason, closest, text) }
        }
        Judged::NotAsked | Judged::Silent { .. } => evidence,
    }
}

/// The only survivor wins; how sure that is depends on what it had to pass.
pub fn only_survivor(row: &CandidateRecord) -> Option<Decision> {
    let tree = row.admission.tree()?.clone();
    let tested = row
        .gates
        .iter()
        .any(|report| report.gate == crate::model::GateKind::Test && report.verdict.is_pass());
    let doubt = match &row.admission {
        Admission::Admitted { flags, .. } => Doubt::of(&row.gates, flags),
        Admission::Refused(_) => return None,
    };
    if doubt.is_unfit() {
        return Some(unfit(&row.candidate.id, &doubt));
    }
    let sure = tested && !doubt.is_serious();
    let confidence = if sure { Confidence::High } else { Confidence::Low };
    let how = if tested { "passed the tests" } else { "passed the gates; no test ran" };
    let but = doubt.text().map(|text| format!("; but {text}")).unwrap_or_default();
    Some(Decision {
        outcome: Outcome::Winner { candidate: row.candidate.id.clone(), tree },
        basis: Some(Basis::OnlySurvivor),
        confidence,
        reason: format!("{} is the only candidate that {how}{but}", row.candidate.id),
        evidence: Vec::new(),
    })
}

/// The only survivor is one whose gates prove too little to take it unseen.
fn unfit(id: &CandidateId, doubt: &Doubt) -> Decision {
    let doubt = doubt.text().unwrap_or_default();
    let text = format!(
        "{id} is the only candidate that no gate disproved, but {doubt}, so that its gates prove too little: \
         look at it; `bakeoff apply --candidate {id}` takes it"
    );
    none(NoWinner::NoConfidentChoice, vec![id.clone()], text)
}

/// What `gate` says: every diff for itself.
pub fn gated(candidates: &[CandidateRecord]) -> Decision {
    let standing = |row: &CandidateRecord| {
        // An equal tree was gated once, on the candidate that stands for it.
        let stands = row.same_as.as_ref().unwrap_or(&row.candidate.id);
        let gates = candidates.iter().find(|other| other.candidate.id == *stands);
        let gates = gates.map_or(&[][..], |other| &other.gates);
        let contested = gates.iter().any(|report| report.verdict.is_contested());
        (Standing::of(row.admission.tree().is_some(), gates), contested)
    };
    // What is contested was not disproved, and it did not pass either.
    let (passed, others): (Vec<_>, Vec<_>) =
        candidates.iter().partition(|row| standing(row) == (Standing::Passed, false));
    let ids =
        |rows: Vec<&CandidateRecord>| rows.iter().map(|row| row.candidate.id.clone()).collect();
    let unproved = others.iter().any(|row| standing(row).0 == Standing::Unproved);
    let reason = match (passed.len(), candidates.len(), unproved) {
        (passed, all, false) => format!("{passed} of {all} passed every gate"),
        (passed, all, true) => format!("{passed} of {all} passed; {}", infra_text(candidates)),
    };
    Decision {
        outcome: Outcome::Gated { passed: ids(passed), others: ids(others) },
        basis: None,
        confidence: Confidence::Low,
        reason,
        evidence: Vec::new(),
    }
}

/// How a command ends on a decision.
pub fn exit_of(decision: &Decision, candidates: &[CandidateRecord]) -> Exit {
    match &decision.outcome {
        Outcome::Winner { .. } => Exit::Done,
        Outcome::Gated { passed, others } if others.is_empty() && !passed.is_empty() => Exit::Done,
        Outcome::Gated { .. } => {
            let unproved = |row: &CandidateRecord| {
                row.same_as.is_none()
                    && Standing::of(row.admission.tree().is_some(), &row.gates)
                        == Standing::Unproved
            };
            if candidates.iter().any(unproved) { Exit::Infra } else { Exit::NoWinner }
        }
        Outcome::NoWinner { reason, .. } => match reason {
            NoWinner::ModelsUnreachable => Exit::Models,
            NoWinner::GatesCouldNotRun => Exit::Infra,
            NoWinner::LanesFailed => Exit::Internal,
            NoWinner::LimitReached => Exit::Limit,
            NoWinner::Cancelled => Exit::Interrupted,
            _ => Exit::NoWinner,
        },
    }
}
