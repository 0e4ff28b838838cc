//! What a scenario must come to, and the comparison with what it came to.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{Admission, CandidateRecord, Exit, GateKind, RunRecord, Verdict};

/// What must hold of a record.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The exit's name.
    pub exit: Option<Exit>,
    /// The lane whose candidate wins; the empty text means that there is no winner.
    pub winner: Option<String>,
    /// By lane: `refused`, `apply`, `typecheck`, `test` (the gate that it failed), `passed`, `none`.
    #[serde(default)]
    pub lanes: BTreeMap<String, String>,
    /// By lane: how many jobs were still running at its end and were ended with it, proven.
    #[serde(default)]
    pub jobs_ended: BTreeMap<String, u32>,
    /// By lane: how often a gate sent it back.
    #[serde(default)]
    pub healed: BTreeMap<String, u32>,
    /// Words of foreign texts: each was shown to a model, and only ever inside of a fence.
    #[serde(default)]
    pub fenced: Vec<String>,
    /// By lane: whether all of its commands were `refused` or `done`.
    #[serde(default)]
    pub commands: BTreeMap<String, String>,
    /// By lane: what the engine told its worker, and how often it stands there, all together.
    #[serde(default)]
    pub told: BTreeMap<String, BTreeMap<String, usize>>,
    /// How many requests there were to models, all together.
    pub calls: Option<usize>,
    /// Words that stand in no request and in no file of the run's directory.
    #[serde(default)]
    pub nowhere: Vec<String>,
    /// Codes of warnings that must be there.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What differs from what was expected; empty when nothing does.
pub fn compare(expect: &Expect, record: &RunRecord) -> Vec<String> {
    let mut faults = Vec::new();
    if expect.exit.is_some_and(|exit| exit != record.exit) {
        faults.push(format!("exit is {:?}: {}", record.exit, record.decision.reason));
    }
    let winner = winning_lane(record).unwrap_or_default();
    if expect.winner.as_ref().is_some_and(|lane| *lane != winner) {
        faults.push(format!("the winner's lane is {winner:?}: {}", record.decision.reason));
    }
    for (lane, wanted) in &expect.lanes {
        let found = standing(record, lane);
        if found != *wanted {
            faults.push(format!("lane {lane} is {found}, not {wanted}"));
        }
    }
    let lanes = |name: &str| record.lanes.iter().find(|lane| lane.lane.as_str() == name);
    for (lane, wanted) in &expect.jobs_ended {
        let found = lanes(lane).map(|lane| lane.jobs_ended);
        if found != Some(*wanted) {
            faults.push(format!("jobs ended with lane {lane}: {found:?}, not {wanted}"));
        }
    }
    for (lane, wanted) in &expect.healed {
        let found = lanes(lane).map(|lane| lane.healed);
        if found != Some(*wanted) {
            faults.push(format!("lane {lane} was sent back {found:?} times, not {wanted}"));
        }
    }
    for code in &expect.warnings {
        if !record.warnings.iter().any(|warning| warning.code == *code) {
            faults.push(format!("there is no warning {code}"));
        }
    }
    faults
}

/// The lane of the winning candidate.
fn winning_lane(record: &RunRecord) -> Option<String> {
    let winner = record.decision.winner()?;
    let row = record.candidates.iter().find(|row| row.candidate.id == *winner)?;
    Some(row.candidate.lane.to_string())
}

fn standing(record: &RunRecord, lane: &str) -> &'static str {
    let of_lane = |row: &&CandidateRecord| row.candidate.lane.as_str() == lane;
    let Some(row) = record.candidates.iter().find(of_lane) else { return "none" };
    if matches!(row.admission, Admission::Refused(_)) {
        return "refused";
    }
    let stands = row.same_as.as_ref().unwrap_or(&row.candidate.id);
    let gates = record.candidates.iter().find(|other| other.candidate.id == *stands);
    let failed = gates
        .into_iter()
        .flat_map(|row| &row.gates)
        .find(|report| matches!(report.verdict, Verdict::Fail { .. } | Verdict::Infra { .. }));
    match failed.map(|report| report.gate) {
        Some(GateKind::Setup) => "setup",
        Some(GateKind::Apply) => "apply",
        Some(GateKind::Typecheck) => "typecheck",
        Some(GateKind::Test) => "test",
        None => "passed",
    }
}
