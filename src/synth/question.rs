//! What the synthesizer is shown.
//!
//! Lives here: names without authors, ballots and standings in the engine's words, and the files that
//! fit. Never here: its reply.

use std::collections::BTreeMap;

use super::{BaseFile, SynthInput};
use crate::judge::{Finalist, Tally, TallyOutcome, view};
use crate::model::{Ballot, CandidateId, Choice};
use crate::prompt::{SynthBallot, SynthFile, SynthTask};

/// The most bytes of all base files in one prompt.
pub(super) const FILES_BYTES: usize = 192 << 10;
/// The most ballots in one prompt.
const MOST_BALLOTS: usize = 24;

/// Letters in the order of ids: nothing about a candidate's author shows.
fn names(finalists: &[Finalist]) -> BTreeMap<CandidateId, String> {
    let mut ids: Vec<&CandidateId> = finalists.iter().map(|finalist| &finalist.id).collect();
    ids.sort();
    ids.dedup();
    let name = |index: usize| match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("N{}", index + 1),
    };
    ids.into_iter().enumerate().map(|(index, id)| (id.clone(), name(index))).collect()
}

pub(super) fn task(input: &SynthInput<'_>) -> SynthTask {
    let names = names(input.finalists);
    let name = |id: &CandidateId| names.get(id).cloned().unwrap_or_else(|| "?".to_owned());
    let mut candidates: Vec<_> =
        input.finalists.iter().map(|finalist| view(finalist, &name(&finalist.id), None)).collect();
    candidates.sort_by(|a, b| a.name.cmp(&b.name));
    let ballots = input.ballots.iter().filter(|ballot| !ballot.reason.is_empty());
    SynthTask {
        task: input.task.map(str::to_owned),
        candidates,
        ballots: ballots.take(MOST_BALLOTS).map(|ballot| words(ballot, &name)).collect(),
        standing: input.tally.map(|tally| standing(tally, &name)).unwrap_or_default(),
        files: files(input.files),
    }
}

fn words(ballot: &Ballot, name: &dyn Fn(&CandidateId) -> String) -> SynthBallot {
    let (left, right) = (name(&ballot.left), name(&ballot.right));
    let said = match ballot.choice {
        Choice::Left => format!("preferred {left} to {right}"),
        Choice::Right => format!("preferred {right} to {left}"),
        Choice::Tie => format!("found {left} and {right} equal"),
        Choice::Abstain { .. } => format!("abstained on {left} and {right}"),
    };
    let vetoes: Vec<String> = ballot.vetoes.iter().map(name).collect();
    let vetoed = match vetoes.is_empty() {
        true => String::new(),
        false => format!(" and would not ship {}", vetoes.join(" and ")),
    };
    let fact = format!("Judge `{}` {said}{vetoed}.", ballot.judge);
    SynthBallot { fact, reason: ballot.reason.clone() }
}

fn standing(tally: &Tally, name: &dyn Fn(&CandidateId) -> String) -> Vec<String> {
    let mut lines: Vec<String> = tally
        .standings
        .iter()
        .map(|standing| {
            let (wins, losses) = (standing.wins, standing.losses);
            format!("{} won {wins} pair(s) and lost {losses}", name(&standing.candidate))
        })
        .collect();
    if let TallyOutcome::Winner { candidate } = &tally.outcome {
        lines.push(format!("{} is the best so far; yours has to beat it", name(candidate)));
    }
    lines
}

/// The files in their order, as long as they are within the budget together.
fn files(files: &[BaseFile]) -> Vec<SynthFile> {
    let mut left = FILES_BYTES;
    let fits = |file: &&BaseFile| match left.checked_sub(file.contents.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let shown = files.iter().filter(fits);
    shown
        .map(|file| SynthFile { path: file.path.clone(), contents: file.contents.clone() })
        .collect()
}
