//! The table of lanes.

use super::page::{Cell, Page, Row, Tone};
use super::words;
use crate::model::printable::line;
use crate::model::{CandidateRecord, Fate, LaneRecord, RunRecord, Steer, Stop, duration};

const HEAD: [&str; 7] = ["lane", "model", "stop", "cand.", "turns", "cost", "time"];

/// Writes it, unless the run had none.
pub fn write(page: &mut Page, record: &RunRecord) {
    if record.lanes.is_empty() {
        return;
    }
    let all = record.lanes.len();
    let gave = record.lanes.iter().filter(|lane| lane.candidate.is_some()).count();
    page.heading(&format!("Lanes: {gave} of {all} gave a candidate"));
    let rows: Vec<Row> = record.lanes.iter().map(|lane| row(lane, stands(record, lane))).collect();
    page.table(&HEAD, &rows, 0);
    if !record.steers.is_empty() {
        page.heading("Operator steering");
        record.steers.iter().for_each(|steer| write_steer(page, steer));
    }
    if !record.extensions.is_empty() {
        page.heading("More rounds for subtasks");
        for extension in &record.extensions {
            let tone = if extension.granted > 0 { Tone::Plain } else { Tone::Warn };
            page.entry("  ", &extension.to_string(), tone);
        }
    }
}

/// Whom the operator said something, who that was, and whether it was read.
fn write_steer(page: &mut Page, steer: &Steer) {
    let (fate, tone) = match steer.fate {
        Fate::Told { turn } => (format!("read in turn {turn}"), Tone::Plain),
        Fate::Missed => ("missed".to_owned(), Tone::Warn),
        Fate::Waiting => ("not read".to_owned(), Tone::Warn),
    };
    let Steer { id, lane, from, text, .. } = steer;
    page.entry("  ", &format!("{id} to {lane} by {from}, {fate}: {}", line(text)), tone);
}

/// Whether a worker was cut off behind a submission, which is whole work.
fn stands(record: &RunRecord, lane: &LaneRecord) -> bool {
    let own = |row: &&CandidateRecord| lane.candidate.as_ref() == Some(&row.candidate.id);
    let whole = record.candidates.iter().find(own).map(|row| row.candidate.stop.is_complete());
    !lane.stop.is_complete() && whole == Some(true)
}

fn row(lane: &LaneRecord, stands: bool) -> Row {
    let candidate = lane.candidate.as_ref().map_or("–", |id| id.as_str());
    let why = lane.why_none.clone().or_else(|| match &lane.stop {
        Stop::Failed { message, .. } => Some(message.clone()),
        _ => None,
    });
    let stood = stands.then(|| "what it had handed in before stands".to_owned());
    let cost = if lane.usage.calls == 0 { "–".to_owned() } else { lane.usage.cost.to_string() };
    Row {
        cells: vec![
            Cell::plain(lane.lane.as_str()),
            Cell::plain(&lane.model),
            Cell::new(lane.stop.to_string(), words::stop(&lane.stop)),
            Cell::plain(candidate),
            Cell::plain(lane.turns.to_string()),
            Cell::plain(cost),
            Cell::plain(duration(lane.millis)),
        ],
        notes: why
            .into_iter()
            .chain(notes(lane))
            .chain(stood)
            .map(|note| (note, Tone::Faint))
            .collect(),
    }
}

/// What else is worth knowing of a worker run.
fn notes(lane: &LaneRecord) -> Vec<String> {
    let ended = (lane.jobs_ended > 0).then(|| match lane.jobs_ended {
        1 => "1 job was still running and ended with it".to_owned(),
        count => format!("{count} jobs were still running and ended with it"),
    });
    let healed = (lane.healed > 0).then(|| match lane.healed {
        1 => "a gate sent it back once".to_owned(),
        count => format!("gates sent it back {count} times"),
    });
    ended.into_iter().chain(healed).collect()
}
