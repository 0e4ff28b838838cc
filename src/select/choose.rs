//! The pick from evidence alone.
//!
//! The rule, in order. Every contender has passed the gates, so each is a fair pick; the rule says
//! which one, and how far it is to be believed.
//!
//! 0. Proof comes first: the fewest failures of the base left or contested, then no flag that makes a
//!    gate's word worth less, then no flaky tests and no failing ones of its own. One that is flagged so,
//!    or contested, is never picked by evidence alone. Then come those that pass the gate of `consensus`.
//! 1. With a trust order, the first trusted family that has a contender wins with its best.
//! 2. With three or more families, the highest consensus score wins.
//! 3. Below three families there is no consensus evidence: the tree that most families proposed wins.
//! 4. Ties: the trust order, then fewest files outside the core, then the tree's digest, never the
//!    order of arrival.
//!
//! Confidence is high when another family stands behind the pick and the tests passed, or three
//! families proposed exactly this tree; medium with one of the two; low otherwise, and always low where
//! only rule 4 told the best apart. Contradictory evidence is no pick: when the best has other families
//! behind it, another tree has as many behind it, and the two have nothing in common, two camps stand
//! against each other, and nothing here can say which is right.

use std::cmp::Ordering;

use super::consensus::{Contender, FEWEST_FAMILIES, Score, Support, consensus, similarity};
use crate::model::{Basis, CandidateId, Confidence, Decision, Evidence, Family, NoWinner, Outcome};

/// Below this similarity two changes have nothing in common.
const NOTHING_IN_COMMON: f64 = 0.1;

/// What the evidence says.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// A score for each contender, in the order given.
    pub scores: Vec<Score>,
    /// The pick, or none, with its evidence. Absent without contenders.
    pub decision: Option<Decision>,
    /// Why a pick by trust is to be looked at twice: nobody is near it, while the consensus' own pick is
    /// corroborated.
    pub trust_doubt: Option<String>,
}

/// Weighs the contenders, one for each tree, and picks. `trust` may be empty.
pub fn choose(pool: &[Contender], trust: &[Family]) -> Choice {
    let scores = consensus(pool);
    let mut ranks: Vec<Rank> =
        pool.iter().zip(&scores).map(|(of, score)| Rank::new(of, score, trust)).collect();
    ranks.sort_by(Rank::order);
    let decision = ranks.first().map(|_| decide(&ranks, trust));
    let trust_doubt = decision.as_ref().and_then(|_| doubt_in_trust(&ranks, trust));
    let trust_doubt = trust_doubt.map(|text| format!("{}: {text}", ranks[0].of.id));
    Choice { decision, scores, trust_doubt }
}

/// A contender's place.
struct Rank<'a> {
    of: &'a Contender,
    score: &'a Score,
    trust: usize,
    trusted_first: bool,
}

impl<'a> Rank<'a> {
    fn new(of: &'a Contender, score: &'a Score, trust: &[Family]) -> Self {
        let place = |family: &Family| trust.iter().position(|trusted| trusted == family);
        let trust = of.families.iter().filter_map(place).min().unwrap_or(usize::MAX);
        Self { of, score, trust, trusted_first: trust != usize::MAX }
    }

    /// What rules 1 to 3 order by; equal means that nothing but rule 4 tells them apart.
    fn by_evidence(&self, other: &Self) -> Ordering {
        self.by_proof(other).then_with(|| self.by_trust(other))
    }

    /// What the gates say outweighs trust and agreement.
    fn by_proof(&self, other: &Self) -> Ordering {
        let (doubt, others) = (&self.of.doubt, &other.of.doubt);
        let flagged = doubt.codes.is_empty().cmp(&others.codes.is_empty()).reverse();
        let failing = doubt.failing().cmp(&others.failing());
        let gated = self.score.gated.is_some().cmp(&other.score.gated.is_some());
        failing.then(flagged).then(doubt.shaky.cmp(&others.shaky)).then(gated)
    }

    fn by_trust(&self, other: &Self) -> Ordering {
        let trust = if self.trusted_first || other.trusted_first {
            self.trust.cmp(&other.trust)
        } else {
            Ordering::Equal
        };
        trust.then_with(|| self.by_support(other))
    }

    fn by_support(&self, other: &Self) -> Ordering {
        let value = |rank: &Self| match rank.score.total {
            Some(total) => (total * 1e9).round() / 1e9, // Not to be told apart by rounding.
            None => -1.0,
        };
        value(other)
            .total_cmp(&value(self))
            .then_with(|| other.score.same_tree.len().cmp(&self.score.same_tree.len()))
    }

    fn order(&self, other: &Self) -> Ordering {
        self.by_evidence(other)
            .then_with(|| self.score.outside.cmp(&other.score.outside))
            .then_with(|| self.of.tree.cmp(&other.of.tree))
    }
}

fn decide(ranks: &[Rank<'_>], trust: &[Family]) -> Decision {
    let (best, rest) = (&ranks[0], &ranks[1..]);
    if let Some(rival) = rest.iter().find(|rival| contradict(best, rival)) {
        return undecided(ranks, best, rival);
    }
    if best.of.doubt.is_unfit() {
        return unfit(ranks, best);
    }
    let tied = rest.iter().filter(|rank| best.by_evidence(rank).is_eq()).count();
    Decision {
        outcome: Outcome::Winner { candidate: best.of.id.clone(), tree: best.of.tree.clone() },
        basis: Some(if rest.is_empty() { Basis::OnlySurvivor } else { Basis::Evidence }),
        confidence: confidence(best, tied),
        reason: reason(best, rest, tied),
        evidence: evidence(ranks, trust),
    }
}

/// A camp of its own: as many families behind it, none of the best's, and nothing in common.
fn contradict(best: &Rank<'_>, rival: &Rank<'_>) -> bool {
    best.score.total.is_some()
        && best.by_proof(rival).is_eq()
        && !best.trusted_first
        && best.score.is_corroborated()
        && rival.score.behind >= best.score.behind
        && best.of.families.iter().all(|family| !rival.of.families.contains(family))
        && similarity(best.of, rival.of) < NOTHING_IN_COMMON
}

/// The best is one whose gates prove too little.
fn unfit(ranks: &[Rank<'_>], best: &Rank<'_>) -> Decision {
    let id = &best.of.id;
    let doubt = best.of.doubt.text().unwrap_or_default();
    Decision {
        outcome: Outcome::NoWinner {
            reason: NoWinner::NoConfidentChoice,
            closest: vec![id.clone()],
        },
        basis: Some(Basis::Evidence),
        confidence: Confidence::Low,
        reason: format!(
            "{id} is the best of those that passed, but {doubt}, so that its gates prove too little: look \
             at it (`bakeoff apply --candidate {id}` takes it), or ask judges"
        ),
        evidence: evidence(ranks, &[]),
    }
}

fn undecided(ranks: &[Rank<'_>], best: &Rank<'_>, rival: &Rank<'_>) -> Decision {
    let (a, b) = (&best.of.id, &rival.of.id);
    Decision {
        outcome: Outcome::NoWinner {
            reason: NoWinner::NoConfidentChoice,
            closest: vec![a.clone(), b.clone()],
        },
        basis: Some(Basis::Evidence),
        confidence: Confidence::Low,
        reason: format!(
            "{a} and {b} are equally supported by families that differ, and have nothing in common: \
             look at both, or ask judges"
        ),
        evidence: evidence(ranks, &[]),
    }
}

fn confidence(best: &Rank<'_>, tied: usize) -> Confidence {
    let (score, tested) = (best.score, best.of.tested);
    match (score.is_corroborated(), tested) {
        _ if tied > 0 || best.of.doubt.is_serious() => Confidence::Low,
        _ if score.same_tree.len() >= FEWEST_FAMILIES => Confidence::High,
        (true, true) => Confidence::High,
        (true, false) | (false, true) => Confidence::Medium,
        (false, false) => Confidence::Low,
    }
}

fn reason(best: &Rank<'_>, rest: &[Rank<'_>], tied: usize) -> String {
    let reason = reason_of(best, rest, tied);
    match best.of.doubt.text() {
        Some(doubt) => format!("{reason}; but {doubt}"),
        None => reason,
    }
}

fn reason_of(best: &Rank<'_>, rest: &[Rank<'_>], tied: usize) -> String {
    let others = rest.len();
    let id = &best.of.id;
    let passed = if best.of.tested { "passed the tests" } else { "passed the gates; no test ran" };
    let how = match best.score.total {
        _ if others == 0 => return format!("{id} is the only candidate that {passed}"),
        _ if tied > 0 => {
            return format!(
                "nothing tells {id} and {tied} other{} apart, so {id} is only the first by a fixed \
                 rule: fewest files outside the core, then the tree's digest",
                plural(tied)
            );
        }
        _ if rest.iter().all(|rank| best.by_proof(rank).is_lt()) => {
            "left fewer of the base's failures, or is less flagged, than the others".to_owned()
        }
        _ if best.trusted_first => "is of the family that you trust first".to_owned(),
        Some(total) => format!("agrees most with the other families (score {total:.2} of 4)"),
        None => format!("was proposed by the most families ({})", best.score.same_tree.len()),
    };
    format!("{id} {how} among {} survivors", others + 1)
}

fn evidence(ranks: &[Rank<'_>], trust: &[Family]) -> Vec<Evidence> {
    let shown = |at: usize| if at == 0 { SHOWN } else { 0 };
    let mut lines: Vec<Evidence> =
        ranks.iter().enumerate().flat_map(|(at, rank)| lines_of(rank, shown(at))).collect();
    if let Some(best) = ranks.first().filter(|best| best.score.total.is_none()) {
        let text = "no consensus evidence: fewer than three families with a core change".to_owned();
        lines.insert(0, Evidence { candidate: best.of.id.clone(), text, score: None });
    }
    if let Some(text) = doubt_in_trust(ranks, trust) {
        lines.insert(0, Evidence { candidate: ranks[0].of.id.clone(), text, score: None });
    }
    lines
}

/// Lines of the best that are shown word for word, of each kind.
const SHOWN: usize = 3;

/// The most characters of a line that is shown.
const LONGEST: usize = 100;

fn lines_of(rank: &Rank<'_>, shown: usize) -> Vec<Evidence> {
    let score = rank.score;
    let line = |text: String, score| Evidence { candidate: rank.of.id.clone(), text, score };
    let all = score.supported.len() + score.unsupported.len();
    let mut lines = Vec::new();
    if let Some(gated) = &score.gated {
        lines.push(line(format!("has no vote: {}", gated.text()), None));
    }
    if score.same_tree.len() > 1 {
        let names = names(&score.same_tree);
        lines.push(line(format!("exactly this tree was proposed by families {names}"), None));
    }
    if let Some(total) = score.total {
        let text = format!(
            "{} of {all} changed line{} are also in other families' candidates{}",
            score.supported.len(),
            plural(all),
            supporters(score)
        );
        lines.push(line(text, Some(total)));
        let atoms = score.supported.iter().take(shown);
        lines
            .extend(atoms.chain(score.unsupported.iter().take(shown)).map(|a| line(word(a), None)));
    }
    if let Some(nearest) = &score.nearest {
        let percent = nearest.similarity * 100.0;
        let text =
            format!("nearest: {} of {}, {percent:.0} % in common", nearest.id, nearest.family);
        lines.push(line(text, None));
    }
    if score.outside > 0 {
        let text =
            format!("changes {} file{} outside the core", score.outside, plural(score.outside));
        lines.push(line(text, None));
    }
    lines
}

/// A changed line, and who else has it.
fn word(atom: &Support) -> String {
    let sign = if atom.added { '+' } else { '-' };
    let text: String = atom.line.chars().take(LONGEST).collect();
    let who = match atom.families.as_slice() {
        [] => "nobody else has".to_owned(),
        families => format!("{} too:", names(families)),
    };
    format!("{who} {sign} {text} ({})", atom.path)
}

fn supporters(score: &Score) -> String {
    let mut families: Vec<Family> =
        score.supported.iter().flat_map(|support| support.families.clone()).collect();
    families.sort();
    families.dedup();
    if families.is_empty() { String::new() } else { format!(" ({})", names(&families)) }
}

/// A trusted pick that stands alone while the consensus' own pick does not is told.
fn doubt_in_trust(ranks: &[Rank<'_>], trust: &[Family]) -> Option<String> {
    let best = ranks.first().filter(|rank| rank.trusted_first && !trust.is_empty())?;
    let consensus: &CandidateId = {
        let strongest = ranks.iter().min_by(|a, b| a.by_support(b))?;
        let doubtful = strongest.score.is_corroborated() && !best.score.is_corroborated();
        doubtful.then_some(&strongest.of.id)?
    };
    Some(format!("trusted, but no other family is near it, while {consensus} is corroborated"))
}

fn names(families: &[Family]) -> String {
    families.iter().map(Family::as_str).collect::<Vec<_>>().join(", ")
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
