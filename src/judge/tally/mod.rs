//! How ballots add up. Pure: the same set of ballots gives the same tally in any order.
//!
//! Lives here: the rule. A judge's two ballots on a pair, one in each order, are one voice; when they
//! disagree it is a tie, so a judge that always takes the first (or the second) says nothing. A pair's
//! margin is (weight for one minus weight for the other) over the weight of everybody asked, abstentions
//! included. A finalist wins when it loses no pair, and beats each other finalist by the threshold or
//! through one that it so beats and that so beats the other. At most one can, one that wins every pair
//! does, and a ballot that turns in its favour never takes the win away (see the property tests).
//! Never here: models, and a winner for want of a better one.

mod field;
mod report;
mod voices;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use field::{Field, standings};
pub use voices::Voter;
pub(super) use voices::decided;
use voices::{is_vetoed, pairs, vetoes, voices};

use super::definition::Judge;
use crate::model::{Ballot, CandidateId, JudgeId};

/// What the ballots are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallyRules {
    /// Each judge's weight; 1 for one that is not listed.
    pub weights: BTreeMap<JudgeId, u32>,
    /// Judges whose vetoes count.
    pub veto_judges: BTreeSet<JudgeId>,
    /// The least margin of a won pair, in thousandths.
    pub threshold: u32,
    /// Finalists whose text speaks to its readers (see [`steering`](super::steering())): what judges say
    /// for them can't be trusted, so they can't win by it.
    pub steering: BTreeSet<CandidateId>,
    /// Judges, each with its model, that length sways: they count as abstaining (see
    /// [`control`](super::control())).
    pub void: BTreeSet<Voter>,
}

impl TallyRules {
    /// The threshold that is used when nothing else is set: a quarter of all weight asked.
    pub const THRESHOLD: u32 = 250;

    /// The rules for a panel of these judges.
    pub fn of(judges: &[Judge]) -> Self {
        let vetoing = judges.iter().filter(|judge| judge.veto.is_some());
        Self {
            weights: judges.iter().map(|judge| (judge.id.clone(), judge.weight)).collect(),
            veto_judges: vetoing.map(|judge| judge.id.clone()).collect(),
            threshold: Self::THRESHOLD,
            steering: BTreeSet::new(),
            void: BTreeSet::new(),
        }
    }
}

/// Why nobody won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// No judge gave a voice that counts.
    NoVoices,
    /// No finalist stands clear of all others by the threshold.
    Margin,
    /// The one that would have won is vetoed by a quorum.
    Vetoed,
    /// The text of the one that would have won speaks to its readers.
    Steering,
}

/// What the ballots come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TallyOutcome {
    /// This one.
    Winner {
        /// The finalist.
        candidate: CandidateId,
    },
    /// None, with the two best (fewer, when there were fewer) for a person to look at.
    NoConfidentChoice {
        /// Why.
        doubt: Doubt,
        /// The best two.
        closest: Vec<CandidateId>,
    },
}

/// How a pair stands, in weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairResult {
    /// For the left candidate.
    pub for_left: u32,
    /// For the right candidate.
    pub for_right: u32,
    /// Undecided, or different in the two orders.
    pub tied: u32,
    /// Abstained, or heard in one order only.
    pub abstained: u32,
}

impl PairResult {
    /// All weight that was asked.
    pub fn asked(&self) -> u32 {
        self.for_left + self.for_right + self.tied + self.abstained
    }

    /// The left one's margin in thousandths, from -1000 to 1000; 0 when nobody was asked.
    pub fn margin(&self) -> i64 {
        let asked = i64::from(self.asked()).max(1);
        1000 * (i64::from(self.for_left) - i64::from(self.for_right)) / asked
    }
}

/// How a finalist stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Who.
    pub candidate: CandidateId,
    /// Pairs won by any margin.
    pub wins: u32,
    /// Pairs lost by any margin.
    pub losses: u32,
    /// The sum of its margins, in thousandths.
    pub margins: i64,
    /// Judges that vetoed it in both orders of a pair.
    pub vetoes: Vec<JudgeId>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Winner or not.
    pub outcome: TallyOutcome,
    /// Every pair, by its two candidates, the lower id first.
    pub pairs: BTreeMap<(CandidateId, CandidateId), PairResult>,
    /// The finalists, best first; equal ones by id.
    pub standings: Vec<Standing>,
    /// One sentence for a reader.
    pub reason: String,
}

/// Adds up `ballots` on the pairs of `finalists`. Ballots on others are left out.
pub fn tally(finalists: &[CandidateId], ballots: &[Ballot], rules: &TallyRules) -> Tally {
    let finalists: BTreeSet<&CandidateId> = finalists.iter().collect();
    let mut voices = voices(&finalists, ballots);
    for voters in voices.values_mut() {
        voters.iter_mut().filter(|(voter, _)| rules.void.contains(*voter)).for_each(
            |(_, voice)| {
                voice.silence();
            },
        );
    }
    let pairs = pairs(&finalists, &voices, rules);
    let vetoes = vetoes(&voices, rules);
    let standings = standings(&finalists, &pairs, &vetoes);
    let field = Field { finalists, pairs: &pairs, threshold: i64::from(rules.threshold) };
    let doubt = match field.winner() {
        None if pairs.values().all(|pair| pair.asked() == pair.abstained) => Doubt::NoVoices,
        None => Doubt::Margin,
        Some(winner) if is_vetoed(vetoes.get(winner), rules) => Doubt::Vetoed,
        Some(winner) if rules.steering.contains(winner) => Doubt::Steering,
        Some(winner) => {
            let outcome = TallyOutcome::Winner { candidate: winner.clone() };
            let reason =
                format!("{winner} stands clear of every other finalist in the judges' pairs");
            return Tally { outcome, reason, pairs, standings };
        }
    };
    let closest = standings.iter().take(2).map(|standing| standing.candidate.clone()).collect();
    let mut reason = doubt_in_words(doubt, &standings);
    if !rules.void.is_empty() {
        reason.push_str("; the word of judges that are swayed by length, or could not be cleared of it, does not count");
    }
    Tally { outcome: TallyOutcome::NoConfidentChoice { doubt, closest }, reason, pairs, standings }
}

fn doubt_in_words(doubt: Doubt, standings: &[Standing]) -> String {
    let best = standings.first().map(|standing| standing.candidate.to_string()).unwrap_or_default();
    match doubt {
        Doubt::NoVoices => "no judge gave a ballot that counts".to_owned(),
        Doubt::Margin => "no finalist stands clear of the others in the judges' pairs".to_owned(),
        Doubt::Vetoed => format!("a quorum of judges vetoes {best}, which leads otherwise"),
        Doubt::Steering => {
            format!(
                "{best} leads, but its text speaks to its judges, so their word for it counts for nothing"
            )
        }
    }
}
