//! The rule as a whole, and what must hold for any pool.

use proptest::prelude::*;

use super::*;
use crate::model::{Basis, CandidateId, Confidence, Decision, Family, NoWinner, Outcome, TreeId};

const BASE: &str = "fn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n";

fn contender(id: &str, families: &[&str], new: &str) -> Contender {
    Contender {
        id: CandidateId::new(id),
        tree: TreeId::new(format!(
            "{:08x}",
            new.bytes().fold(7u32, |h, b| { h.wrapping_mul(31).wrapping_add(b.into()) })
        )),
        families: families.iter().copied().map(Family::new).collect(),
        files: vec![ChangedFile {
            path: "src/lib.rs".to_owned(),
            base: Some(BASE.into()),
            new: Some(new.into()),
            beside_source: true,
        }],
        broken: None,
        tested: false,
        doubt: Doubt::default(),
    }
}

fn with(line: &str) -> String {
    BASE.replace("two();", line)
}

fn picked(decision: &Decision) -> &str {
    decision.winner().map(CandidateId::as_str).unwrap_or_else(|| panic!("{decision:?}"))
}

#[test]
fn a_proof_outweighs_agreement_and_trust() {
    let idle = Doubt { left: 1, ..Doubt::default() };
    let flagged = Doubt { codes: vec!["detects-tests".to_owned()], ..Doubt::default() };
    for doubt in [idle, flagged] {
        let mut pool = vec![
            contender("c1", &["x", "y"], &with("fixed(3); // why")),
            contender("c2", &["z"], &with("fixed(3);")),
        ];
        pool[0].doubt = doubt.clone();
        let decision = choose(&pool, &[Family::new("x")]).decision.unwrap();
        assert_eq!(picked(&decision), "c2");
        pool.truncate(1);
        let decision = choose(&pool, &[]).decision.unwrap();
        assert_eq!(decision.confidence, Confidence::Low);
        assert!(decision.reason.contains(&doubt.text().unwrap()), "{}", decision.reason);
    }
}

#[test]
fn agreement_of_families_wins() {
    let pool = [
        contender("c1", &["x"], &with("wild(); thing(1, 2);")),
        contender("c2", &["y"], &with("fixed(3);")),
        contender("c3", &["z"], &with("fixed(3); // why")),
    ];
    let choice = choose(&pool, &[]);
    let decision = choice.decision.unwrap();
    assert_ne!(picked(&decision), "c1");
    assert_eq!((decision.basis, decision.confidence), (Some(Basis::Evidence), Confidence::Medium));
    assert!(choice.scores[0].total.unwrap() < choice.scores[1].total.unwrap());
    assert_eq!(choice.scores[1].nearest.as_ref().unwrap().id.as_str(), "c3");
}

#[test]
fn the_four_numbers_are_those_of_the_rule() {
    let pool = [
        contender("c1", &["x"], &with("f(1);")),
        contender("c2", &["y", "y", "z"], &with("f(2);")),
    ];
    let scores = consensus(&pool);
    // A of each: `-two();` in b, held by all three families, and its own added line.
    // c1: C_A = 2 / 2^(1/4), N_A = (1/3 + 1/3) / 2. c2: C_A = (2 + 1) / 2^(1/4), N_A = (1/3 + 1) / 2.
    // S of each: 3 + 2 removed grams, 4 + 3 added ones; common: all removed, `f(` and `);`.
    // c1: C_S = 7 * 2 / 12^(1/4), N_S = 7 / 17. c2: C_S = (7 * 2 + 5) / 12^(1/4), N_S = (7/17 + 1) / 2.
    let share = |a: f64, b: f64| a / b;
    let jaccard = 7.0 / 17.0;
    let c1 = share(2.0, 3.0)
        + share(14.0, 19.0)
        + share(1.0 / 3.0, 2.0 / 3.0)
        + share(jaccard, (jaccard + 1.0) / 2.0);
    assert!((scores[0].total.unwrap() - c1).abs() < 1e-9, "{:?} {c1}", scores[0].total);
    assert!((scores[1].total.unwrap() - 4.0).abs() < 1e-9);
    assert_eq!((scores[0].supported.len(), scores[0].unsupported.len()), (1, 1));
    assert_eq!(scores[0].supported[0].families, [Family::new("y"), Family::new("z")]);
}

#[test]
fn fewer_than_three_families_are_no_consensus() {
    let pool = [
        contender("c1", &["x"], &with("f(1);")),
        contender("c2", &["x", "y"], &with("f(2);")),
        contender("c3", &["y"], &with("f(3);")),
    ];
    let choice = choose(&pool, &[]);
    assert!(choice.scores.iter().all(|score| score.total.is_none()));
    let decision = choice.decision.unwrap();
    assert_eq!((picked(&decision), decision.confidence), ("c2", Confidence::Medium));
    assert!(decision.evidence.iter().any(|line| line.text.starts_with("no consensus evidence")));
}

#[test]
fn a_pick_by_the_fixed_rule_says_so() {
    let mut pool =
        vec![contender("c1", &["x"], &with("f(1);")), contender("c2", &["x"], &with("f(2);"))];
    pool[0].tested = true;
    pool[1].tested = true;
    let decision = choose(&pool, &[]).decision.unwrap();
    assert_eq!(decision.confidence, Confidence::Low);
    assert!(decision.reason.starts_with("nothing tells"), "{}", decision.reason);
    let first = picked(&decision).to_owned();
    let loser = pool.iter_mut().find(|one| one.id.as_str() != first).unwrap();
    assert!(choose(std::slice::from_ref(loser), &[]).decision.unwrap().reason.contains("only"));
    let winner = pool.iter_mut().find(|one| one.id.as_str() == first).unwrap();
    winner.files.push(ChangedFile {
        path: "NOTES.md".to_owned(),
        base: None,
        new: Some(b"x".to_vec()),
        beside_source: true,
    });
    assert_ne!(
        picked(&choose(&pool, &[]).decision.unwrap()),
        first,
        "files outside the core count"
    );
}

#[test]
fn two_camps_are_no_confident_choice() {
    let pool = [
        contender("c1", &["w", "x"], &with("alpha(1, 2, 3);")),
        contender("c2", &["y", "z"], &BASE.replace("one();", "beta[4] = 5;")),
    ];
    let decision = choose(&pool, &[]).decision.unwrap();
    let Outcome::NoWinner { reason, closest } = &decision.outcome else { panic!("{decision:?}") };
    assert_eq!((*reason, closest.len()), (NoWinner::NoConfidentChoice, 2));
    let trusted = choose(&pool, &[Family::new("z")]).decision.unwrap();
    assert_eq!(picked(&trusted), "c2");
}

#[test]
fn a_trusted_family_wins_and_doubt_is_told() {
    let pool = [
        contender("c1", &["x"], &with("wild(); thing(1, 2); [3] = [4];")),
        contender("c2", &["y"], &with("fixed(3);")),
        contender("c3", &["z"], &with("fixed(3) ;")),
    ];
    let decision = choose(&pool, &[Family::new("absent"), Family::new("x")]).decision.unwrap();
    assert_eq!((picked(&decision), decision.confidence), ("c1", Confidence::Low));
    assert!(decision.evidence[0].text.starts_with("trusted, but"), "{:?}", decision.evidence[0]);
}

#[test]
fn a_change_of_tests_alone_has_no_vote_beside_a_core() {
    let mut tests_only = contender("c1", &["x"], &with("f(1);"));
    tests_only.files[0].path = "tests/it.rs".to_owned();
    let mut pool = vec![
        tests_only,
        contender("c2", &["y"], &with("f(2);")),
        contender("c3", &["z"], &with("f(3);")),
    ];
    assert!(consensus(&pool).iter().all(|score| score.total.is_none()), "two families vote");
    pool.push(contender("c4", &["w"], &with("f(4);")));
    let scores = consensus(&pool);
    assert_eq!(scores[0].total, None);
    assert!(scores[1..].iter().all(|score| score.total.is_some()));
    pool.truncate(1);
    assert_eq!(
        picked(&choose(&pool, &[]).decision.unwrap()),
        "c1",
        "the rule never empties a pool"
    );
}

#[test]
fn what_parses_no_more_has_no_vote_and_is_not_chosen_unless_all_are_so() {
    let mut pool = vec![
        contender("c1", &["w", "x"], &with("fixed(3;")),
        contender("c2", &["y"], &with("fixed(3);")),
    ];
    pool[0].broken = Some("src/lib.rs".to_owned());
    let choice = choose(&pool, &[]);
    // Below three families, too: more families proposed the other one.
    assert_eq!(picked(choice.decision.as_ref().unwrap()), "c2");
    assert_eq!(choice.scores[0].gated, Some(Gated::Broken("src/lib.rs".to_owned())));
    let evidence = choice.decision.unwrap().evidence;
    assert!(
        evidence.iter().any(|line| line.text == "has no vote: src/lib.rs does not parse any more")
    );
    let trusted = choose(&pool, &[Family::new("x")]).decision.unwrap();
    assert_eq!(picked(&trusted), "c2", "a trusted family has to pass the gate");
    pool.push(contender("c3", &["z"], &with("fixed(4);")));
    assert!(consensus(&pool).iter().all(|score| score.total.is_none()), "two families vote");
    pool.iter_mut().for_each(|one| one.broken = Some("src/lib.rs".to_owned()));
    let scores = consensus(&pool);
    assert!(scores.iter().all(|score| score.total.is_some() && score.gated.is_none()));
}

#[test]
fn the_record_says_why_line_by_line() {
    let pool = [
        contender("c1", &["x"], &with("shared();\n    only(1);")),
        contender("c2", &["y"], &with("shared();\n    other(2);")),
        contender("c3", &["z"], &with("shared();")),
    ];
    let decision = choose(&pool, &[]).decision.unwrap();
    let said: Vec<&str> = decision.evidence.iter().map(|line| line.text.as_str()).collect();
    assert!(said.contains(&"x, y too: + shared(); (src/lib.rs)"), "{said:?}");
    assert!(said.contains(&"x, y too: - two(); (src/lib.rs)"), "{said:?}");
    assert!(said.iter().any(|text| text.starts_with("nearest: ")), "{said:?}");
    let alone = choose(&pool[..1], &[]).decision.unwrap();
    assert!(alone.evidence[0].text.starts_with("no consensus evidence"));
    let scores = consensus(&pool);
    let only: Vec<&str> = scores[0].unsupported.iter().map(|atom| atom.line.as_str()).collect();
    assert_eq!(only, ["only(1);"]);
}

#[test]
fn a_fusion_leaves_out_what_nobody_else_has_and_takes_in_what_two_others_have() {
    let both = |a: &str, b: &str| BASE.replace("one();", a).replace("two();", b);
    let pool = [
        contender("c1", &["w"], &both("wild(9);", "fixed(3);")),
        contender("c2", &["x"], &both("uno();", "fixed(3);")),
        contender("c3", &["y"], &both("uno();", "fixed(3);\n    more();")),
        contender("c4", &["z"], &both("one();", "fixed(3);")),
    ];
    let scores = consensus(&pool);
    let fused = |best: usize| {
        let files = fuse(&pool, &scores, best)?;
        String::from_utf8(files[0].new.clone().unwrap()).ok()
    };
    // `-one();` of the first is held by others, `wild(9);` by nobody; the hunk has one of the two, so it
    // stays: hunks are whole. The fourth lacks the hunk that two others agree on.
    assert_eq!(fused(0), None);
    assert_eq!(fused(3), Some(both("uno();", "fixed(3);")));
    assert_eq!(fused(1), None, "it would be the second itself");
    let mut alone = pool.to_vec();
    alone[0] = contender("c1", &["w"], &format!("use wild;\n{}", both("one();", "fixed(3);")));
    let scores = consensus(&alone);
    let files = fuse(&alone, &scores, 0).unwrap();
    assert_eq!(files[0].new.as_deref(), Some(both("uno();", "fixed(3);").as_bytes()));
}

#[test]
fn equal_trees_are_one_group() {
    assert_eq!(group(&["a", "b", "a", "c", "b"]), [vec![0, 2], vec![1, 4], vec![3]]);
    assert!(choose(&[], &[]).decision.is_none());
}

#[test]
fn hostile_sizes_end_soon() {
    let began = std::time::Instant::now();
    let lines = |word: &str| format!("{word}\n{{\n").repeat(60_000);
    let mut one = contender("c1", &["x"], &lines("a a a a"));
    one.files[0].base = Some(lines("b").into_bytes());
    let pool =
        [one, contender("c2", &["y"], &"f((".repeat(300_000)), contender("c3", &["z"], BASE)];
    assert!(choose(&pool, &[]).decision.is_some());
    // Minutes if anything here were quadratic.
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
}

fn pools() -> impl Strategy<Value = Vec<Contender>> {
    let line = prop::sample::select(vec![
        "f(1);",
        "f(2);",
        "g(1, 2);",
        "let x = f(1);",
        "two();",
        "h[1] = 2;",
    ]);
    let family = prop::sample::select(vec!["w", "x", "y", "z"]);
    let one = (prop::collection::vec(line, 0..4), prop::collection::vec(family, 1..3));
    prop::collection::vec(one, 1..6).prop_map(|all| {
        let mut pool: Vec<Contender> = Vec::new();
        for (at, (lines, families)) in all.into_iter().enumerate() {
            let new = with(&lines.join("\n    "));
            let one = contender(&format!("c{}", at + 1), &families, &new);
            if pool.iter().all(|other| other.tree != one.tree) {
                pool.push(one);
            }
        }
        pool
    })
}

fn by_id(scores: Vec<Score>) -> Vec<Score> {
    let mut scores = scores;
    scores.sort_by(|a, b| a.id.cmp(&b.id));
    scores
}

proptest! {
    #[test]
    fn the_order_of_the_pool_makes_no_difference(pool in pools(), turn in 0usize..6) {
        let mut turned = pool.clone();
        turned.rotate_left(turn % pool.len());
        let swapped: Vec<Contender> = turned.iter().rev().cloned().collect();
        let (a, b) = (choose(&pool, &[]), choose(&swapped, &[]));
        prop_assert_eq!(a.decision, b.decision);
        prop_assert_eq!(by_id(a.scores), by_id(b.scores));
    }

    #[test]
    fn repeating_a_family_adds_no_vote(pool in pools()) {
        let mut loud = pool.clone();
        for one in &mut loud {
            let again = one.families[0].clone();
            one.families.extend(vec![again; 5]);
        }
        prop_assert_eq!(choose(&pool, &[]), choose(&loud, &[]));
    }

    #[test]
    fn a_pool_always_gets_an_answer_within_bounds(pool in pools()) {
        let choice = choose(&pool, &[Family::new("z")]);
        prop_assert!(choice.decision.is_some());
        for score in choice.scores {
            prop_assert!(score.total.is_none_or(|total| (0.0..=4.0).contains(&total)));
        }
    }
}
