//! From the pairs' results to a winner and an order.
//!
//! Lives here: when a finalist stands clear of all others, and how all are listed. Never here: ballots.

use std::collections::{BTreeMap, BTreeSet};

use super::voices::Pair;
use super::{PairResult, Standing};
use crate::model::{CandidateId, JudgeId};

/// The finalists and how they stand to each other.
pub(super) struct Field<'a> {
    pub(super) finalists: BTreeSet<&'a CandidateId>,
    pub(super) pairs: &'a BTreeMap<Pair, PairResult>,
    pub(super) threshold: i64,
}

impl<'a> Field<'a> {
    pub(super) fn winner(&self) -> Option<&'a CandidateId> {
        let mut stands = self.finalists.iter().filter(|id| self.stands_clear(id));
        match (stands.next(), stands.next(), self.finalists.len()) {
            // One finalist has met nobody: that is no verdict of judges.
            (Some(winner), None, 2..) => Some(winner),
            _ => None,
        }
    }

    fn stands_clear(&self, id: &CandidateId) -> bool {
        self.others(id).all(|other| {
            self.beats(id, other)
                || self.margin(id, other) >= 0
                    && self.others(id).any(|via| self.beats(id, via) && self.beats(via, other))
        })
    }

    fn others<'b>(
        &'b self,
        id: &'b CandidateId,
    ) -> impl Iterator<Item = &'b CandidateId> + use<'b, 'a> {
        self.finalists.iter().copied().filter(move |other| *other != id)
    }

    fn beats(&self, id: &CandidateId, other: &CandidateId) -> bool {
        self.margin(id, other) >= self.threshold.max(1)
    }

    fn margin(&self, id: &CandidateId, other: &CandidateId) -> i64 {
        margin(self.pairs, id, other)
    }
}

/// The margin of `id` over `other`, in thousandths.
pub(super) fn margin(
    pairs: &BTreeMap<Pair, PairResult>,
    id: &CandidateId,
    other: &CandidateId,
) -> i64 {
    let of = |left: &CandidateId, right: &CandidateId| {
        pairs.get(&(left.clone(), right.clone())).map(PairResult::margin)
    };
    of(id, other).or_else(|| of(other, id).map(|margin| -margin)).unwrap_or(0)
}

pub(super) fn standings(
    finalists: &BTreeSet<&CandidateId>,
    pairs: &BTreeMap<Pair, PairResult>,
    vetoes: &BTreeMap<CandidateId, BTreeSet<JudgeId>>,
) -> Vec<Standing> {
    let standing = |id: &&CandidateId| {
        let margins: Vec<i64> = finalists
            .iter()
            .filter(|other| *other != id)
            .map(|other| margin(pairs, id, other))
            .collect();
        Standing {
            candidate: (*id).clone(),
            wins: margins.iter().filter(|margin| **margin > 0).count() as u32,
            losses: margins.iter().filter(|margin| **margin < 0).count() as u32,
            margins: margins.iter().sum(),
            vetoes: vetoes.get(*id).into_iter().flatten().cloned().collect(),
        }
    };
    let mut standings: Vec<Standing> = finalists.iter().map(standing).collect();
    standings.sort_by_key(|standing| {
        let score = i64::from(standing.wins) - i64::from(standing.losses);
        (-score, -standing.margins, standing.candidate.clone())
    });
    standings
}
