//! From ballots to what each pair's judges say.
//!
//! Lives here: two ballots become one voice, voices become a pair's result, vetoes are collected.
//! Never here: who wins.

use std::collections::{BTreeMap, BTreeSet};

use super::{PairResult, TallyRules};
use crate::model::{Ballot, CandidateId, Choice, JudgeId, Order};

/// What a judge said of a pair, in the pair's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    Left,
    Right,
    Tie,
    Abstain,
}

/// A judge's words and vetoes on one pair, by order.
#[derive(Clone, Debug, Default)]
pub(super) struct Voice {
    words: BTreeMap<Order, BTreeSet<Word>>,
    vetoes: BTreeMap<Order, BTreeSet<CandidateId>>,
}

impl Voice {
    /// One word from two orders. Several ballots in one order that differ are a tie.
    fn word(&self) -> Word {
        let of = |order| match self.words.get(&order).map(one) {
            Some(word) => word,
            None => Word::Abstain,
        };
        match (of(Order::Forward), of(Order::Reverse)) {
            (Word::Abstain, _) | (_, Word::Abstain) => Word::Abstain,
            (forward, reverse) if forward == reverse => forward,
            _ => Word::Tie,
        }
    }

    /// Takes back all that was said.
    pub(super) fn silence(&mut self) {
        *self = Self::default();
    }

    fn vetoes(&self) -> BTreeSet<CandidateId> {
        let of = |order| self.vetoes.get(&order).cloned().unwrap_or_default();
        of(Order::Forward).intersection(&of(Order::Reverse)).cloned().collect()
    }
}

pub(super) fn one(words: &BTreeSet<Word>) -> Word {
    let mut spoken = words.iter().filter(|word| **word != Word::Abstain);
    match (spoken.next(), spoken.next()) {
        (None, _) => Word::Abstain,
        (Some(word), None) => *word,
        (Some(_), Some(_)) => Word::Tie,
    }
}

pub(super) type Pair = (CandidateId, CandidateId);
/// A judge with the model that answered for it, as `PROVIDER:MODEL`.
pub type Voter = (JudgeId, String);

/// Every voice that decided a pair: whose it was, whom it took and whom it left.
pub(in crate::judge) fn decided(
    finalists: &BTreeSet<&CandidateId>,
    ballots: &[Ballot],
) -> Vec<(Voter, CandidateId, CandidateId)> {
    let mut all = Vec::new();
    for ((left, right), voters) in voices(finalists, ballots) {
        for (voter, voice) in voters {
            match voice.word() {
                Word::Left => all.push((voter, left.clone(), right.clone())),
                Word::Right => all.push((voter, right.clone(), left.clone())),
                Word::Tie | Word::Abstain => {}
            }
        }
    }
    all
}

pub(super) fn voices(
    finalists: &BTreeSet<&CandidateId>,
    ballots: &[Ballot],
) -> BTreeMap<Pair, BTreeMap<Voter, Voice>> {
    let mut voices: BTreeMap<Pair, BTreeMap<Voter, Voice>> = BTreeMap::new();
    for ballot in ballots {
        let (left, right) = (&ballot.left, &ballot.right);
        if left == right || !finalists.contains(left) || !finalists.contains(right) {
            continue;
        }
        let is_swapped = left > right;
        let pair = if is_swapped { (right, left) } else { (left, right) };
        let voice = voices
            .entry((pair.0.clone(), pair.1.clone()))
            .or_default()
            .entry((ballot.judge.clone(), ballot.model.clone()))
            .or_default();
        // Which one was shown first, in the pair's own terms.
        let order = match (ballot.order, is_swapped) {
            (order, false) => order,
            (Order::Forward, true) => Order::Reverse,
            (Order::Reverse, true) => Order::Forward,
        };
        voice.words.entry(order).or_default().insert(word(&ballot.choice, is_swapped));
        voice.vetoes.entry(order).or_default().extend(ballot.vetoes.iter().cloned());
    }
    voices
}

pub(super) fn word(choice: &Choice, is_swapped: bool) -> Word {
    match (choice, is_swapped) {
        (Choice::Left, false) | (Choice::Right, true) => Word::Left,
        (Choice::Right, false) | (Choice::Left, true) => Word::Right,
        (Choice::Tie, _) => Word::Tie,
        (Choice::Abstain { .. }, _) => Word::Abstain,
    }
}

pub(super) fn pairs(
    finalists: &BTreeSet<&CandidateId>,
    voices: &BTreeMap<Pair, BTreeMap<Voter, Voice>>,
    rules: &TallyRules,
) -> BTreeMap<Pair, PairResult> {
    let mut pairs = BTreeMap::new();
    for left in finalists {
        for right in finalists.iter().filter(|right| *right > left) {
            let pair = ((*left).clone(), (*right).clone());
            let mut result = PairResult::default();
            for ((judge, _), voice) in voices.get(&pair).into_iter().flatten() {
                let weight = rules.weights.get(judge).copied().unwrap_or(1);
                match voice.word() {
                    Word::Left => result.for_left += weight,
                    Word::Right => result.for_right += weight,
                    Word::Tie => result.tied += weight,
                    Word::Abstain => result.abstained += weight,
                }
            }
            pairs.insert(pair, result);
        }
    }
    pairs
}

pub(super) fn vetoes(
    voices: &BTreeMap<Pair, BTreeMap<Voter, Voice>>,
    rules: &TallyRules,
) -> BTreeMap<CandidateId, BTreeSet<JudgeId>> {
    let mut vetoes: BTreeMap<CandidateId, BTreeSet<JudgeId>> = BTreeMap::new();
    for ((left, right), voters) in voices {
        for ((judge, _), voice) in
            voters.iter().filter(|((id, _), _)| rules.veto_judges.contains(id))
        {
            for candidate in voice.vetoes().into_iter().filter(|id| id == left || id == right) {
                vetoes.entry(candidate).or_default().insert(judge.clone());
            }
        }
    }
    vetoes
}

/// A quorum is more than half of the judges whose vetoes count.
pub(super) fn is_vetoed(by: Option<&BTreeSet<JudgeId>>, rules: &TallyRules) -> bool {
    by.is_some_and(|by| 2 * by.len() > rules.veto_judges.len())
}
