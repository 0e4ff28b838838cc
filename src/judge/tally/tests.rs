//! The tally's properties, over random panels.

use proptest::prelude::*;

use super::field::margin;
use super::*;
use crate::model::{Choice, Confidence, JudgeOrigin, Order, Usage};

fn ballot(judge: usize, left: usize, right: usize, order: Order, choice: Choice) -> Ballot {
    Ballot {
        judge: JudgeId::new(format!("j{judge}")),
        model: "p:m".to_owned(),
        origin: JudgeOrigin { layer: "builtin".to_owned(), sha256: String::new() },
        left: CandidateId::nth(left),
        right: CandidateId::nth(right),
        order,
        choice,
        vetoes: Vec::new(),
        reason: String::new(),
        evidence: Vec::new(),
        duel: None,
        usage: Usage::default(),
    }
}

fn abstain() -> Choice {
    Choice::Abstain { reason: "x".to_owned() }
}

fn choice() -> impl Strategy<Value = Choice> {
    prop::sample::select(vec![
        Choice::Left,
        Choice::Left,
        Choice::Right,
        Choice::Right,
        Choice::Tie,
        abstain(),
    ])
}

fn rules(judges: usize) -> TallyRules {
    let ids = || (0..judges).map(|n| JudgeId::new(format!("j{n}")));
    TallyRules {
        weights: ids().zip([3, 2, 2, 1, 2]).collect(),
        veto_judges: ids().take(3).collect(),
        threshold: TallyRules::THRESHOLD,
        steering: BTreeSet::new(),
        void: BTreeSet::new(),
    }
}

fn ids(count: usize) -> Vec<CandidateId> {
    (0..count).map(CandidateId::nth).collect()
}

fn pairs_of(count: usize) -> Vec<(usize, usize)> {
    (0..count).flat_map(|left| (left + 1..count).map(move |right| (left, right))).collect()
}

/// A whole panel: candidates, judges and their ballots.
fn a_panel() -> impl Strategy<Value = (usize, usize, Vec<Ballot>)> {
    (2_usize..5, 1_usize..6).prop_flat_map(|(candidates, judges)| {
        let questions = pairs_of(candidates).len() * judges * 2;
        prop::collection::vec(choice(), questions).prop_map(move |choices| {
            let mut choices = choices.into_iter();
            let mut ballots = Vec::new();
            for (left, right) in pairs_of(candidates) {
                for judge in 0..judges {
                    for order in [Order::Forward, Order::Reverse] {
                        let choice = choices.next().unwrap();
                        ballots.push(ballot(judge, left, right, order, choice));
                    }
                }
            }
            (candidates, judges, ballots)
        })
    })
}

fn winner(tally: &Tally) -> Option<CandidateId> {
    match &tally.outcome {
        TallyOutcome::Winner { candidate } => Some(candidate.clone()),
        TallyOutcome::NoConfidentChoice { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn order_and_repetition_change_nothing((candidates, judges, ballots) in a_panel(), seed in any::<u64>()) {
        let (ids, rules) = (ids(candidates), rules(judges));
        let expected = tally(&ids, &ballots, &rules);
        let mut shuffled = ballots.clone();
        shuffled.extend(ballots.iter().cloned());
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        let mut reversed = ids.clone();
        reversed.reverse();
        prop_assert_eq!(tally(&reversed, &shuffled, &rules), expected);
    }

    #[test]
    fn a_ballot_that_turns_in_favour_never_costs_the_win(
        (candidates, judges, ballots) in a_panel(),
        which in any::<prop::sample::Index>(),
    ) {
        let (ids, rules) = (ids(candidates), rules(judges));
        let Some(winner) = winner(&tally(&ids, &ballots, &rules)) else { return Ok(()) };
        let mut better = ballots.clone();
        let turned = which.index(better.len());
        let ballot = &mut better[turned];
        ballot.choice = match (&ballot.choice, winner == ballot.left, winner == ballot.right) {
            (_, true, _) => Choice::Left,
            (_, _, true) => Choice::Right,
            (same, _, _) => same.clone(),
        };
        let after = super::tally(&ids, &better, &rules);
        prop_assert_eq!(super::tests::winner(&after), Some(winner));
    }

    #[test]
    fn one_that_wins_every_pair_wins((candidates, judges, ballots) in a_panel()) {
        let (ids, rules) = (ids(candidates), rules(judges));
        let counted = tally(&ids, &ballots, &rules);
        let clear = |id: &&CandidateId| {
            ids.iter().filter(|other| other != id).all(|other| margin(&counted.pairs, id, other) >= 250)
        };
        if let Some(best) = ids.iter().find(clear) {
            prop_assert_eq!(winner(&counted), Some(best.clone()));
        }
        if let Some(winner) = winner(&counted) {
            prop_assert!(ids.iter().all(|other| margin(&counted.pairs, &winner, other) >= 0));
        }
    }

    #[test]
    fn a_judge_of_one_position_says_nothing(
        (candidates, judges, ballots) in a_panel(),
        first in any::<bool>(),
    ) {
        let (ids, rules) = (ids(candidates), rules(judges));
        let mut with = ballots.clone();
        for (left, right) in pairs_of(candidates) {
            for order in [Order::Forward, Order::Reverse] {
                let shown_left = (order == Order::Forward) == first;
                let choice = if shown_left { Choice::Left } else { Choice::Right };
                with.push(ballot(9, left, right, order, choice));
            }
        }
        let (before, after) = (tally(&ids, &ballots, &rules), tally(&ids, &with, &rules));
        for (pair, result) in &after.pairs {
            prop_assert_eq!(result.for_left, before.pairs[pair].for_left);
            prop_assert_eq!(result.for_right, before.pairs[pair].for_right);
        }
        // It can only add doubt.
        prop_assert!(winner(&after).is_none() || winner(&after) == winner(&before));
    }

    #[test]
    fn a_void_judge_has_no_say_whatever_it_says(
        (candidates, judges, ballots) in a_panel(),
        other in prop::collection::vec(choice(), 64),
    ) {
        let (ids, mut rules) = (ids(candidates), rules(judges));
        let of_void = |ballot: &Ballot| ballot.judge.as_str() == "j0";
        rules.void = [(JudgeId::new("j0"), "p:m".to_owned())].into();
        let mut choices = other.into_iter().cycle();
        let mut changed = ballots.clone();
        for ballot in changed.iter_mut().filter(|ballot| of_void(ballot)) {
            ballot.choice = choices.next().unwrap();
            ballot.vetoes = vec![ballot.left.clone(), ballot.right.clone()];
        }
        prop_assert_eq!(tally(&ids, &changed, &rules), tally(&ids, &ballots, &rules));
        // It was asked, so that its silence weighs: nobody wins by it.
        let without: Vec<Ballot> = ballots.iter().filter(|ballot| !of_void(ballot)).cloned().collect();
        let (count, free) = (tally(&ids, &ballots, &rules), tally(&ids, &without, &rules));
        prop_assert!(winner(&count).is_none() || winner(&count) == winner(&free));
    }

    #[test]
    fn names_of_sides_are_only_names((candidates, judges, ballots) in a_panel()) {
        let (ids, rules) = (ids(candidates), rules(judges));
        let swapped: Vec<Ballot> = ballots
            .iter()
            .map(|ballot| Ballot {
                left: ballot.right.clone(),
                right: ballot.left.clone(),
                order: if ballot.order == Order::Forward { Order::Reverse } else { Order::Forward },
                choice: match &ballot.choice {
                    Choice::Left => Choice::Right,
                    Choice::Right => Choice::Left,
                    same => same.clone(),
                },
                ..ballot.clone()
            })
            .collect();
        prop_assert_eq!(tally(&ids, &swapped, &rules), tally(&ids, &ballots, &rules));
    }
}

fn all_for_left(judges: usize) -> Vec<Ballot> {
    let both = [Order::Forward, Order::Reverse];
    let ballots =
        (0..judges).flat_map(|judge| both.map(|order| ballot(judge, 0, 1, order, Choice::Left)));
    ballots.collect()
}

fn doubt(tally: &Tally) -> Option<Doubt> {
    match tally.outcome {
        TallyOutcome::Winner { .. } => None,
        TallyOutcome::NoConfidentChoice { doubt, .. } => Some(doubt),
    }
}

#[test]
fn a_quorum_of_vetoes_and_speaking_to_judges_leave_no_winner() {
    let (ids, mut rules) = (ids(2), rules(5));
    let mut ballots = all_for_left(5);
    let first = tally(&ids, &ballots, &rules);
    assert_eq!((winner(&first), first.confidence()), (Some(ids[0].clone()), Confidence::High));
    // One of three judges that may veto, in both orders; and one that may not.
    for index in [0, 1, 8, 9] {
        ballots[index].vetoes = vec![ids[0].clone()];
    }
    assert_eq!(winner(&tally(&ids, &ballots, &rules)), Some(ids[0].clone()));
    // A second one in one order only is no veto yet.
    ballots[2].vetoes = vec![ids[0].clone()];
    assert_eq!(winner(&tally(&ids, &ballots, &rules)), Some(ids[0].clone()));
    ballots[3].vetoes = vec![ids[0].clone()];
    let vetoed = tally(&ids, &ballots, &rules);
    assert_eq!(doubt(&vetoed), Some(Doubt::Vetoed));
    assert!(vetoed.evidence()[0].text.contains("vetoed by j0, j1"));
    rules.steering = [ids[0].clone()].into();
    assert_eq!(doubt(&tally(&ids, &all_for_left(5), &rules)), Some(Doubt::Steering));
}

#[test]
fn silence_and_small_margins_leave_no_winner() {
    let (ids, rules) = (ids(2), rules(5));
    assert_eq!(doubt(&tally(&ids, &[], &rules)), Some(Doubt::NoVoices));
    let mut ballots = all_for_left(5);
    // Only the judge of weight 2 of 10 is left.
    for ballot in ballots.iter_mut().filter(|ballot| ballot.judge.as_str() != "j1") {
        ballot.choice = abstain();
    }
    let counted = tally(&ids, &ballots, &rules);
    assert_eq!(doubt(&counted), Some(Doubt::Margin));
    let TallyOutcome::NoConfidentChoice { closest, .. } = &counted.outcome else { unreachable!() };
    assert_eq!(closest, &ids);
    // One candidate alone has met nobody.
    assert_eq!(winner(&tally(&ids[..1], &ballots, &rules)), None);
}

#[test]
fn a_cycle_has_no_winner_and_an_indirect_win_counts() {
    let both = [Order::Forward, Order::Reverse];
    let won = |left, right, choice: Choice| {
        both.map(|order| ballot(0, left, right, order, choice.clone()))
    };
    let (ids, rules) = (ids(3), rules(1));
    let cycle =
        [won(0, 1, Choice::Left), won(1, 2, Choice::Left), won(0, 2, Choice::Right)].concat();
    assert_eq!(doubt(&tally(&ids, &cycle, &rules)), Some(Doubt::Margin));
    let chain = [won(0, 1, Choice::Left), won(1, 2, Choice::Left), won(0, 2, Choice::Tie)].concat();
    assert_eq!(winner(&tally(&ids, &chain, &rules)), Some(ids[0].clone()));
}
