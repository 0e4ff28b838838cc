//! The table of candidates: admission, gates, score, votes.

use std::collections::BTreeSet;

use super::page::{Cell, Page, Row, Tone};
use super::words;
use crate::model::{
    Admission, Ballot, CandidateId, CandidateRecord, Choice, GateKind, Kind, Refusal, Refuted,
    RunRecord,
};

/// Writes it, unless there is none.
pub fn write(page: &mut Page, record: &RunRecord) {
    if record.candidates.is_empty() {
        return;
    }
    page.heading("Candidates");
    let kinds: BTreeSet<GateKind> =
        record.candidates.iter().flat_map(|row| &row.gates).map(|report| report.gate).collect();
    let mut head = vec!["", "id", "from", "family", "diff"];
    let names: Vec<String> = kinds.iter().map(GateKind::to_string).collect();
    head.extend(names.iter().map(String::as_str));
    head.extend(["score", "won–lost"]);
    let rows: Vec<Row> = record.candidates.iter().map(|one| row(one, &kinds, record)).collect();
    page.table(&head, &rows, 2);
}

fn row(one: &CandidateRecord, kinds: &BTreeSet<GateKind>, record: &RunRecord) -> Row {
    let candidate = &one.candidate;
    let is_winner = record.decision.winner() == Some(&candidate.id);
    let (diff, tone) = admission(one);
    let mut cells = vec![
        Cell::new(if is_winner { "★" } else { "" }, Tone::Good),
        Cell::new(candidate.id.as_str(), if is_winner { Tone::Good } else { Tone::Plain }),
        Cell::plain(candidate.lane.as_str()),
        Cell::plain(candidate.family.as_str()),
        Cell::new(diff, tone),
    ];
    for kind in kinds {
        let report = one.gates.iter().find(|report| report.gate == *kind);
        let (mark, tone) = report.map_or(("", Tone::Plain), |report| {
            (report.verdict.mark(), words::verdict(&report.verdict))
        });
        cells.push(Cell::new(mark, tone));
    }
    cells.push(Cell::plain(one.score.map(|score| format!("{score:.2}")).unwrap_or_default()));
    cells.push(Cell::plain(votes(&candidate.id, &record.ballots)));
    Row { cells, notes: notes(one) }
}

fn admission(one: &CandidateRecord) -> (String, Tone) {
    match (&one.admission, &one.same_as) {
        (Admission::Refused(_), _) => ("refused".to_owned(), Tone::Bad),
        (_, Some(other)) => (format!("same tree as {other}"), Tone::Plain),
        (Admission::Admitted { files, .. }, None) => {
            let sum =
                |pick: fn(&crate::model::FileChange) -> u32| files.iter().map(pick).sum::<u32>();
            let (added, removed) = (sum(|file| file.added), sum(|file| file.removed));
            let count = files.len() as u64;
            (format!("{count} file{} +{added} -{removed}", words::plural(count)), Tone::Plain)
        }
    }
}

/// Pairs won and lost by single ballots; empty when it met nobody.
fn votes(id: &CandidateId, ballots: &[Ballot]) -> String {
    let (mut won, mut lost, mut met) = (0, 0, false);
    for ballot in ballots {
        let is_left = ballot.left == *id;
        if !is_left && ballot.right != *id {
            continue;
        }
        met = true;
        match (&ballot.choice, is_left) {
            (Choice::Left, true) | (Choice::Right, false) => won += 1,
            (Choice::Left, false) | (Choice::Right, true) => lost += 1,
            (Choice::Tie | Choice::Abstain { .. }, _) => {}
        }
    }
    if met { format!("{won}–{lost}") } else { String::new() }
}

fn notes(one: &CandidateRecord) -> Vec<(String, Tone)> {
    let mut notes = Vec::new();
    if one.candidate.stop.is_partial() {
        notes.push((one.candidate.stop.to_string(), Tone::Warn));
    }
    if one.candidate.kind == Kind::Synthesized {
        notes.push(("synthesized from the finalists".to_owned(), Tone::Faint));
    }
    notes.extend(one.refuted.iter().map(|refuted| (untrue(one, refuted), Tone::Warn)));
    match &one.admission {
        Admission::Refused(refusal) => notes.push((refused(refusal), Tone::Bad)),
        Admission::Admitted { repairs, flags, .. } => {
            let repair = |repair: &crate::model::Repair| {
                format!("repaired {}: {}", repair.code, repair.detail)
            };
            notes.extend(repairs.iter().map(|one| (repair(one), Tone::Faint)));
            for flag in flags {
                let path = flag.path.as_deref().unwrap_or_default();
                notes.push((format!("flag {} {path}: {}", flag.code, flag.detail), Tone::Warn));
            }
        }
    }
    notes
}

/// A claim that was refuted, and by what.
fn untrue(one: &CandidateRecord, refuted: &Refuted) -> String {
    let claim = one.candidate.claims.get((refuted.claim as usize).saturating_sub(1));
    let claim = claim.map(|claim| claim.text.as_str()).unwrap_or_default();
    let by = refuted.by.as_deref().unwrap_or("the engine");
    let quotes = refuted.quotes.iter().map(|quote| format!(" [there: {quote}]"));
    let absent = refuted.absent.iter().map(|text| format!(" [in no added line: {text}]"));
    let texts: String = quotes.chain(absent).collect();
    format!("claim {} refuted by {by}: \"{claim}\": {}{texts}", refuted.claim, refuted.reason)
}

fn refused(refusal: &Refusal) -> String {
    let mut place = String::new();
    if let Some(path) = &refusal.path {
        place.push_str(&format!(" in {path}"));
    }
    if let Some(hunk) = refusal.hunk {
        place.push_str(&format!(", hunk {hunk}"));
    }
    format!("{}{place}: {}", refusal.code, refusal.message)
}
