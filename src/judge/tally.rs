//! How ballots add up. Pure: the same set of ballots gives the same tally in any order.
//!
//! Lives here: the rule. A judge's two ballots on a pair, one in each order, are one voice; when they
//! disagree it is a tie, so a judge that always takes the first (or the second) says nothing. A pair's
//! margin is (weight for one minus weight for the other) over the weight of everybody asked, abstentions
//! included. A finalist wins when it loses no pair, and beats each other finalist by the threshold or
//! through one that it so beats and that so beats the other. At most one can, one that wins every pair
//! does, and a ballot that turns in its favour never takes the win away (see the property tests).
//! Never here: models, and a winner for want of a better one.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::Judge;
use crate::model::{Ballot, CandidateId, Choice, Confidence, Evidence, JudgeId, Order};

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
    let voices = voices(&finalists, ballots);
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
    let reason = doubt_in_words(doubt, &standings);
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

/// What a judge said of a pair, in the pair's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Left,
    Right,
    Tie,
    Abstain,
}

/// A judge's words and vetoes on one pair, by order.
#[derive(Clone, Debug, Default)]
struct Voice {
    words: BTreeMap<Order, BTreeSet<Word>>,
    vetoes: BTreeMap<Order, BTreeSet<CandidateId>>,
}

impl Voice {
    /// One word from two orders. Several ballots in one order that differ are a tie.
    fn word(&self) -> Word {
        let of = |order| match self.words.get(&order).map(|words| one(words)) {
            Some(word) => word,
            None => Word::Abstain,
        };
        match (of(Order::Forward), of(Order::Reverse)) {
            (Word::Abstain, _) | (_, Word::Abstain) => Word::Abstain,
            (forward, reverse) if forward == reverse => forward,
            _ => Word::Tie,
        }
    }

    fn vetoes(&self) -> BTreeSet<CandidateId> {
        let of = |order| self.vetoes.get(&order).cloned().unwrap_or_default();
        of(Order::Forward).intersection(&of(Order::Reverse)).cloned().collect()
    }
}

fn one(words: &BTreeSet<Word>) -> Word {
    let mut spoken = words.iter().filter(|word| **word != Word::Abstain);
    match (spoken.next(), spoken.next()) {
        (None, _) => Word::Abstain,
        (Some(word), None) => *word,
        (Some(_), Some(_)) => Word::Tie,
    }
}

type Pair = (CandidateId, CandidateId);
type Voter = (JudgeId, String);

fn voices(
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

fn word(choice: &Choice, is_swapped: bool) -> Word {
    match (choice, is_swapped) {
        (Choice::Left, false) | (Choice::Right, true) => Word::Left,
        (Choice::Right, false) | (Choice::Left, true) => Word::Right,
        (Choice::Tie, _) => Word::Tie,
        (Choice::Abstain { .. }, _) => Word::Abstain,
    }
}

fn pairs(
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

fn vetoes(
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
fn is_vetoed(by: Option<&BTreeSet<JudgeId>>, rules: &TallyRules) -> bool {
    by.is_some_and(|by| 2 * by.len() > rules.veto_judges.len())
}

struct Field<'a> {
    finalists: BTreeSet<&'a CandidateId>,
    pairs: &'a BTreeMap<Pair, PairResult>,
    threshold: i64,
}

impl<'a> Field<'a> {
    fn winner(&self) -> Option<&'a CandidateId> {
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
fn margin(pairs: &BTreeMap<Pair, PairResult>, id: &CandidateId, other: &CandidateId) -> i64 {
    let of = |left: &CandidateId, right: &CandidateId| {
        pairs.get(&(left.clone(), right.clone())).map(PairResult::margin)
    };
    of(id, other).or_else(|| of(other, id).map(|margin| -margin)).unwrap_or(0)
}

fn standings(
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

impl Tally {
    /// How sure a winner is: high when every judge asked was for it in each of its pairs, medium when
    /// it has at least half of all weight over each other one.
    pub fn confidence(&self) -> Confidence {
        let TallyOutcome::Winner { candidate } = &self.outcome else { return Confidence::Low };
        let others = self.standings.iter().filter(|standing| standing.candidate != *candidate);
        let margins = others.map(|standing| margin(&self.pairs, candidate, &standing.candidate));
        match margins.min().unwrap_or(0) {
            1000.. => Confidence::High,
            500.. => Confidence::Medium,
            _ => Confidence::Low,
        }
    }

    /// What the pairs say, for the decision's evidence.
    pub fn evidence(&self) -> Vec<Evidence> {
        let line = |standing: &Standing| {
            let vetoes: Vec<&str> = standing.vetoes.iter().map(JudgeId::as_str).collect();
            let vetoed = match vetoes.is_empty() {
                true => String::new(),
                false => format!("; vetoed by {}", vetoes.join(", ")),
            };
            let met = self.standings.len() - 1;
            Evidence {
                candidate: standing.candidate.clone(),
                text: format!(
                    "judges: {} of {met} pairs won, {} lost, margins add up to {:+.2}{vetoed}",
                    standing.wins,
                    standing.losses,
                    standing.margins as f64 / 1000.0
                ),
                score: Some(standing.margins as f64 / 1000.0),
            }
        };
        self.standings.iter().map(line).collect()
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
