//! What came of a run in a few lines: for its capsule, for later runs, for who takes it over.
//!
//! Pure, and the same for the same outcome: it holds no time and no cost, so that a run that goes on asks
//! nothing anew because of it. Never here: a model, a fence (whoever shows it to a model fences it).

use std::fmt::Write as _;

use super::decide::Standing;
use super::frame::Frame;
use super::memory::Memory;
use super::{Attempt, PipelineError};
use crate::fanout::lane_runs;
use crate::model::printable::line;
use crate::model::{
    Admission, CandidateRecord, Decision, GateReport, LaneRecord, Outcome, RunRecord, Stop,
    Verdict, clip,
};

/// The most bytes of a task, an answer or a capsule in a digest.
const TEXT_BYTES: usize = 1 << 10;
/// The most rows of a list.
const MOST_ROWS: usize = 12;

/// What came of a run that decided.
pub(super) fn digest(record: &RunRecord, decision: &Decision) -> String {
    let mut out = outcome(decision);
    list(&mut out, "lanes", record.lanes.iter().map(lane).collect());
    list(&mut out, "candidates", record.candidates.iter().map(candidate).collect());
    if let Some(row) = winner(record, decision) {
        list(&mut out, "changed by the winner", files(row));
    }
    out
}

/// The row that won.
pub(super) fn winner<'r>(
    record: &'r RunRecord,
    decision: &Decision,
) -> Option<&'r CandidateRecord> {
    let id = decision.winner()?;
    record.candidates.iter().find(|row| row.candidate.id == *id)
}

/// A run as later ones are told of it.
pub(super) fn remembered(record: &RunRecord) -> String {
    let mut out = format!("day: {}\n", record.started.strftime("%Y-%m-%d"));
    if let Some(task) = &record.plan.task {
        let _ = writeln!(out, "task: {}", clip(task.text.trim(), TEXT_BYTES).text);
    }
    out += &match &record.capsule {
        Some(capsule) => {
            let capsule = clip(capsule, 2 * TEXT_BYTES).text;
            format!("{}what was handed over: {capsule}\n", outcome(&record.decision))
        }
        None => digest(record, &record.decision),
    };
    out
}

/// A run that ended, as it is handed over.
pub fn digest_of(record: &RunRecord) -> String {
    let task = record.plan.task.as_ref();
    let task = task.map(|task| format!("task: {}\n", clip(task.text.trim(), TEXT_BYTES).text));
    task.unwrap_or_default() + &digest(record, &record.decision)
}

fn outcome(decision: &Decision) -> String {
    let what = match &decision.outcome {
        Outcome::Winner { candidate, .. } => {
            format!("{candidate} won, confidence {}", decision.confidence)
        }
        Outcome::NoWinner { reason, .. } => format!("no winner, {reason}"),
        Outcome::Gated { passed, others } => {
            format!("{} of {} passed every gate", passed.len(), passed.len() + others.len())
        }
    };
    format!("outcome: {what}: {}\n", line(&decision.reason))
}

fn list(out: &mut String, head: &str, rows: Vec<String>) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "{head}:");
    rows.iter().take(MOST_ROWS).for_each(|row| {
        let _ = writeln!(out, "- {row}");
    });
    if rows.len() > MOST_ROWS {
        let _ = writeln!(out, "- and {} more", rows.len() - MOST_ROWS);
    }
}

fn lane(lane: &LaneRecord) -> String {
    let left = match (&lane.candidate, &lane.why_none) {
        (Some(id), _) => format!("left {id}"),
        (None, Some(why)) => format!("left no candidate: {why}"),
        (None, None) => "left no candidate".to_owned(),
    };
    line(&format!("{} ({}): {}, {left}", lane.lane, lane.model, lane.stop))
}

fn candidate(row: &CandidateRecord) -> String {
    let what = match (&row.admission, &row.same_as) {
        (Admission::Refused(refusal), _) => format!("refused: {}", refusal.message),
        (_, Some(other)) => format!("the same change as {other}"),
        (Admission::Admitted { .. }, None) => match Standing::of(true, &row.gates) {
            Standing::Passed => "passed the gates".to_owned(),
            Standing::Unproved => "could not be proved".to_owned(),
            _ => format!("failed: {}", row.gates.iter().filter_map(failure).collect::<String>()),
        },
    };
    line(&format!("{} of {}: {what}", row.candidate.id, row.candidate.lane))
}

fn failure(report: &GateReport) -> Option<String> {
    match &report.verdict {
        Verdict::Fail { reason } => Some(format!("{} ({}); ", report.gate, clip(reason, 300).text)),
        _ => None,
    }
}

fn files(row: &CandidateRecord) -> Vec<String> {
    let Admission::Admitted { files, .. } = &row.admission else { return Vec::new() };
    files.iter().map(|file| format!("{} +{} -{}", file.path, file.added, file.removed)).collect()
}

/// What is known of a run that was cut off.
///
/// # Errors
/// When an artifact is damaged.
pub fn unfinished(frame: &Frame, memory: &Memory) -> Result<String, PipelineError> {
    let mut out = String::new();
    if let Some(task) = &frame.plan.task {
        let _ = writeln!(out, "task: {}", clip(task.text.trim(), TEXT_BYTES).text);
    }
    let _ = writeln!(
        out,
        "outcome: none yet, the run was cut off; {} answers of models are recorded, {} more calls possibly paid, \
         gates of {} trees have run",
        memory.answers(),
        memory.possibly_paid(),
        memory.proved()
    );
    let mut rows = Vec::new();
    for run in lane_runs(&frame.plan) {
        let (ended, turns) = (memory.ended(&run.id)?, memory.asked_turns(&run.id));
        rows.push(match (ended, turns) {
            (Some(attempt), _) => said(&format!("{}: {}", run.id, attempt.stop), &attempt),
            (None, 0) => format!("{}: not begun", run.id),
            (None, turns) => format!("{}: under way, asked {turns} times", run.id),
        });
    }
    list(&mut out, "lanes", rows);
    Ok(out)
}

fn said(head: &str, attempt: &Attempt) -> String {
    let change = match attempt.diff.len() {
        0 => "no change".to_owned(),
        bytes => format!("a diff of {bytes} bytes"),
    };
    let words = match (&attempt.stop, attempt.answer.trim()) {
        (Stop::NotNeeded, _) | (_, "") => String::new(),
        (_, answer) => format!(", says: {}", clip(answer, 300).text),
    };
    line(&format!("{head}, {change}{words}"))
}
