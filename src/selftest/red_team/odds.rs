//! What a panel's count makes of fallible judges: simulated on the real tally, and by theory.
//!
//! The model: asked about a pair in one order, a judge answers by position with chance `b` (the first
//! shown), and else takes the right one with chance `p`, each answer for itself. Its two answers are one
//! voice when they agree. So its voice is for the right one with chance `R = (b + q p) q p`, for the wrong
//! one with `W = q (1 - p) (b + q (1 - p))`, where `q = 1 - b`, and a tie else; the panel's outcome is the
//! sum over all voices of their judges' weights. Never here: models.

use crate::judge::{DEFAULT_PANEL, Judge, Judges, TallyOutcome, TallyRules, tally};
use crate::model::{Ballot, CandidateId, Choice, JudgeId, JudgeOrigin, Order, Usage};
use crate::prompt::Templates;

/// How a panel decides one pair.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Odds {
    /// The chance that the right one wins.
    pub right: f64,
    /// The chance that the wrong one wins.
    pub wrong: f64,
    /// The chance that nobody wins.
    pub nobody: f64,
}

/// A fallible judge.
#[derive(Clone, Copy, Debug)]
pub struct Fallible {
    /// The chance to see which one is right.
    pub accuracy: f64,
    /// The chance to take the first shown instead.
    pub position: f64,
}

impl Fallible {
    /// The chances of its voice: right and wrong.
    fn voice(self) -> [f64; 2] {
        let (p, b) = (self.accuracy, self.position);
        let q = 1.0 - b;
        [(b + q * p) * q * p, q * (1.0 - p) * (b + q * (1.0 - p))]
    }
}

/// The odds by theory: every combination of voices with its chance.
pub fn theory(judge: Fallible, rules: &TallyRules) -> Odds {
    let [right, wrong] = judge.voice();
    let all: i64 = rules.weights.values().map(|weight| i64::from(*weight)).sum();
    let mut sums: Vec<(i64, f64)> = vec![(0, 1.0)];
    for weight in rules.weights.values().map(|weight| i64::from(*weight)) {
        let voices = [(weight, right), (-weight, wrong), (0, 1.0 - right - wrong)];
        let with = |(sum, chance): &(i64, f64)| voices.map(|(by, of)| (sum + by, chance * of));
        sums = sums.iter().flat_map(with).collect();
    }
    let mut odds = Odds::default();
    for (sum, chance) in sums {
        let margin = 1000 * sum / all.max(1);
        match margin {
            margin if margin >= i64::from(rules.threshold) => odds.right += chance,
            margin if -margin >= i64::from(rules.threshold) => odds.wrong += chance,
            _ => odds.nobody += chance,
        }
    }
    odds
}

/// The odds by trying: real ballots, counted by the real tally.
pub fn simulated(judge: Fallible, judges: &[JudgeId], rules: &TallyRules, tries: u32) -> Odds {
    let mut draw = fastrand::Rng::with_seed(1);
    let ids = [CandidateId::new("c1"), CandidateId::new("c2")];
    let mut odds = Odds::default();
    let one = 1.0 / f64::from(tries.max(1));
    for _ in 0..tries {
        let ballots: Vec<Ballot> = judges
            .iter()
            .flat_map(|id| [Order::Forward, Order::Reverse].map(|order| (id, order)))
            .map(|(id, order)| ballot(id, order, judge, &ids, &mut draw))
            .collect();
        match tally(&ids, &ballots, rules).outcome {
            TallyOutcome::Winner { candidate } if candidate == ids[0] => odds.right += one,
            TallyOutcome::Winner { .. } => odds.wrong += one,
            TallyOutcome::NoConfidentChoice { .. } => odds.nobody += one,
        }
    }
    odds
}

/// `c1` is the right one.
fn ballot(
    id: &JudgeId,
    order: Order,
    judge: Fallible,
    ids: &[CandidateId; 2],
    draw: &mut fastrand::Rng,
) -> Ballot {
    let choice = match (draw.f64() < judge.position, order) {
        (true, Order::Forward) => Choice::Left,
        (true, Order::Reverse) => Choice::Right,
        (false, _) if draw.f64() < judge.accuracy => Choice::Left,
        (false, _) => Choice::Right,
    };
    Ballot {
        judge: id.clone(),
        model: String::new(),
        origin: JudgeOrigin { layer: String::new(), sha256: String::new() },
        left: ids[0].clone(),
        right: ids[1].clone(),
        order,
        choice,
        vetoes: Vec::new(),
        reason: String::new(),
        evidence: Vec::new(),
        duel: None,
        usage: Usage::default(),
    }
}

/// How often each row of the table is tried.
const TRIES: u32 = 4000;

/// The table of `docs/judging.md`, for the panel of a run that names none.
///
/// # Errors
/// When the built-in judges can't be had.
pub fn table() -> Result<String, String> {
    let all = Judges::load(&[], &Templates::embedded()).map_err(|error| error.to_string())?;
    let ids: Vec<JudgeId> = DEFAULT_PANEL.iter().map(|id| JudgeId::new(*id)).collect();
    let judges: Vec<Judge> = all.select(&ids).map_err(|error| error.to_string())?;
    let rules = TallyRules::of(&judges);
    let mut text = "| accuracy p | position bias b | one judge, one order | right: theory | tried | wrong: theory | tried | \
                    nobody: theory | tried |\n|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for accuracy in [0.5, 0.6, 0.7, 0.8, 0.9] {
        for position in [0.0, 0.3, 0.6] {
            let judge = Fallible { accuracy, position };
            let (told, tried) = (theory(judge, &rules), simulated(judge, &ids, &rules, TRIES));
            // Which of the two is shown first is chance.
            let alone = position / 2.0 + (1.0 - position) * accuracy;
            text += &format!(
                "| {accuracy:.1} | {position:.1} | {alone:.2} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |\n",
                told.right, tried.right, told.wrong, tried.wrong, told.nobody, tried.nobody
            );
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(weights: &[u32]) -> (Vec<JudgeId>, TallyRules) {
        let ids: Vec<JudgeId> =
            (0..weights.len()).map(|at| JudgeId::new(format!("j{at}"))).collect();
        let mut rules = TallyRules::of(&[]);
        rules.weights = ids.iter().cloned().zip(weights.iter().copied()).collect();
        (ids, rules)
    }

    #[test]
    fn the_tally_does_what_theory_says() {
        for weights in [&[3, 2, 2][..], &[1], &[3, 2, 2, 1, 2]] {
            let (ids, rules) = rules(weights);
            for (accuracy, position) in [(0.5, 0.0), (0.7, 0.3), (0.9, 0.6), (0.6, 1.0)] {
                let judge = Fallible { accuracy, position };
                let told = theory(judge, &rules);
                let tried = simulated(judge, &ids, &rules, 4000);
                // Four standard deviations of a share of 4000 tries.
                for (a, b) in [
                    (told.right, tried.right),
                    (told.wrong, tried.wrong),
                    (told.nobody, tried.nobody),
                ] {
                    assert!((a - b).abs() < 0.032, "{weights:?} {judge:?} {told:?} {tried:?}");
                }
                assert!((told.right + told.wrong + told.nobody - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn position_alone_decides_nothing_and_the_panel_errs_less_than_a_judge() {
        let (_, rules) = rules(&[3, 2, 2]);
        let blind = theory(Fallible { accuracy: 0.9, position: 1.0 }, &rules);
        assert!((blind.nobody - 1.0).abs() < 1e-9, "{blind:?}");
        for accuracy in [0.6, 0.7, 0.8, 0.9] {
            let odds = theory(Fallible { accuracy, position: 0.3 }, &rules);
            let alone = 0.15 + 0.7 * accuracy;
            assert!(odds.wrong < 1.0 - alone, "{accuracy}: {odds:?}");
            assert!(odds.right / (odds.right + odds.wrong) > alone, "of those it decides");
        }
    }

    #[test]
    fn the_page_holds_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/judging.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- odds -->\n").unwrap();
        let (now, after) = rest.split_once("<!-- /odds -->").unwrap();
        let table = table().unwrap();
        if std::env::var_os("BLESS").is_some() {
            let page = format!("{before}<!-- odds -->\n{table}<!-- /odds -->{after}");
            std::fs::write(path, page).unwrap();
        } else {
            assert_eq!(now, table, "run this test with BLESS=1 to write the table again");
        }
    }
}
