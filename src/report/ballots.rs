//! The ballots, by judge and pair.

use std::collections::BTreeMap;

use super::page::{Page, Tone};
use crate::model::{Ballot, CandidateId, Choice, JudgeId, RunRecord};

/// The longest reason that is shown, in characters.
const LONGEST: usize = 240;

type Pair = (CandidateId, CandidateId);

/// Writes them, unless there are none.
pub fn write(page: &mut Page, record: &RunRecord) {
    if record.ballots.is_empty() {
        return;
    }
    page.heading("Ballots");
    let mut by_judge: BTreeMap<(Option<u32>, &JudgeId, &str), Vec<&Ballot>> = BTreeMap::new();
    for ballot in &record.ballots {
        by_judge.entry((ballot.duel, &ballot.judge, &ballot.model)).or_default().push(ballot);
    }
    for ((duel, judge, model), ballots) in by_judge {
        let layer = &ballots[0].origin.layer;
        let anew = duel.map(|number| format!(", anew after duel {number}")).unwrap_or_default();
        page.entry("  ", &format!("{judge} ({layer}) by {model}{anew}"), Tone::Plain);
        let mut pairs: BTreeMap<Pair, Vec<&Ballot>> = BTreeMap::new();
        for ballot in &ballots {
            pairs.entry((ballot.left.clone(), ballot.right.clone())).or_default().push(ballot);
        }
        for pair in pairs.values() {
            write_pair(page, pair);
        }
        write_vetoes(page, &ballots);
    }
}

fn write_pair(page: &mut Page, pair: &[&Ballot]) {
    let said: Vec<String> = pair.iter().map(|ballot| choice(ballot)).collect();
    let (left, right) = (&pair[0].left, &pair[0].right);
    let same = said.iter().all(|one| *one == said[0]);
    let result = match (&pair[0].choice, same && said.len() > 1) {
        (Choice::Abstain { .. }, true) => "abstained".to_owned(),
        (Choice::Tie, true) => "tie".to_owned(),
        (_, true) => format!("{} in both orders", said[0]),
        (_, false) if said.len() > 1 => format!("tie, the orders disagree ({})", said.join(", ")),
        (_, false) => format!("{} in one order", said[0]),
    };
    let reason = pair.iter().find_map(|ballot| reason(ballot)).unwrap_or_default();
    page.entry(&format!("    {left} : {right}  "), &format!("{result}{reason}"), Tone::Plain);
}

fn choice(ballot: &Ballot) -> String {
    match &ballot.choice {
        Choice::Left => ballot.left.to_string(),
        Choice::Right => ballot.right.to_string(),
        Choice::Tie => "tie".to_owned(),
        Choice::Abstain { .. } => "abstained".to_owned(),
    }
}

fn reason(ballot: &Ballot) -> Option<String> {
    let text = match &ballot.choice {
        Choice::Abstain { reason } => reason,
        _ => &ballot.reason,
    };
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let cut = text.char_indices().nth(LONGEST).map(|(at, _)| at);
    Some(match cut {
        Some(at) => format!(" — {}…", &text[..at]),
        None => format!(" — {text}"),
    })
}

fn write_vetoes(page: &mut Page, ballots: &[&Ballot]) {
    let mut vetoes: BTreeMap<&CandidateId, usize> = BTreeMap::new();
    for veto in ballots.iter().flat_map(|ballot| &ballot.vetoes) {
        *vetoes.entry(veto).or_default() += 1;
    }
    for (id, count) in vetoes {
        page.entry(
            "    ",
            &format!("veto against {id} on {count} of {} ballots", ballots.len()),
            Tone::Bad,
        );
    }
}
