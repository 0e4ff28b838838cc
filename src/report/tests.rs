//! Whole reports, as a person sees them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::model::*;

const STYLE: Style = Style { columns: 100, colour: false };

fn record() -> RunRecord {
    let check = CommandSpec {
        line: "cargo check".to_owned(),
        tool: CheckTool::CargoCheck,
        origin: Origin::Detected { file: "Cargo.toml".to_owned() },
    };
    let plan = Plan {
        task: Some(Task {
            text: "Round half away from zero\nmore".to_owned(),
            source: TaskSource::Argument,
        }),
        repo: PathBuf::from("/repo"),
        base: "HEAD".to_owned(),
        dirty: false,
        lanes: Vec::new(),
        gates: GatePlan {
            setup: None,
            setup_network: false,
            check: Some(check),
            test: None,
            dir: String::new(),
            env: Vec::new(),
            timeout_seconds: 600,
            parallel: 2,
            memory_bytes: 1 << 30,
            flaky: 0,
            strict_tests: false,
            own_tests: true,
            protect: Vec::new(),
            disk_bytes: 32 << 30,
        },
        patch: PatchPlan::default(),
        judging: JudgePlan {
            judges: Vec::new(),
            models: Vec::new(),
            synth: None,
            finalists: 4,
            skeptics: false,
            fix_rounds: 0,
            duels: None,
        },
        workers: Default::default(),
        worker_limits: WorkerLimits {
            max_tool_iterations: 90,
            max_seconds: None,
            max_tokens: None,
            budget: None,
            max_output_tokens: 4096,
        },
        limits: RunLimits { max_parallel: 4, ..RunLimits::default() },
        seed: 1,
        waive_sandbox: false,
        trust: Vec::new(),
        design: None,
        side: None,
        prior: 0,
        exclude_from_context: false,
    };
    RunRecord {
        version: RECORD_VERSION,
        rules: RULES_VERSION,
        engine: "0.1.0".to_owned(),
        kind: RunKind::Run,
        run: RunId::new("01990000-0000-7000-8000-000000000001"),
        started: "2026-11-30T10:00:00Z".parse().unwrap(),
        millis: 65_432,
        plan,
        scripted: false,
        base: BaseRecord {
            rev: "HEAD".to_owned(),
            commit: CommitId::new("0123456789abcdef0123456789abcdef01234567"),
            tree: TreeId::new("ba5e"),
            dirty: false,
            gates: vec![GateReport::bare(GateKind::Typecheck, Verdict::Pass)],
        },
        sandbox: SandboxRecord {
            tier: "namespaces".to_owned(),
            permit: "proof".to_owned(),
            probes: ["connect", "read-secret"].map(|name| (name.to_owned(), true)).into(),
            workspaces: None,
        },
        lanes: Vec::new(),
        candidates: Vec::new(),
        ballots: Vec::new(),
        controls: Vec::new(),
        duels: Vec::new(),
        design: None,
        decision: no_winner(NoWinner::NothingPassed, "no candidate passed the gates"),
        warnings: Vec::new(),
        usage: used(12, 45_000),
        exit: Exit::Done,
        definitions: BTreeMap::new(),
        roles: BTreeMap::new(),
        title: None,
        capsule: None,
        saved: None,
        resumed: None,
        steers: Vec::new(),
        extensions: Vec::new(),
        rejudges: None,
    }
}

fn used(calls: u64, tokens: u64) -> Usage {
    Usage {
        calls,
        input_tokens: tokens,
        output_tokens: tokens / 100,
        cost: Cost { known: MicroUsd(tokens * 3), partly_unknown: false },
        ..Usage::default()
    }
}

fn lane(record: &mut RunRecord, name: &str, stop: Stop, candidate: Option<&str>) {
    record.lanes.push(LaneRecord {
        lane: LaneId::of(name, 1),
        model: "openai:gpt-test".to_owned(),
        unanswered: Vec::new(),
        why_none: candidate.is_none().then(|| "it changed nothing".to_owned()),
        stop,
        candidate: candidate.map(CandidateId::new),
        turns: 5,
        usage: used(5, 10_000),
        millis: 12_345,
        jobs_ended: 0,
        healed: 0,
    });
}

fn candidate(id: &str, family: &str, gates: Vec<GateReport>) -> CandidateRecord {
    CandidateRecord {
        candidate: Candidate {
            id: CandidateId::new(id),
            kind: Kind::Worker,
            lane: LaneId::of(family, 1),
            family: Family::new(family),
            diff: ArtifactId::new("d1"),
            diff_bytes: 120,
            answer: "done".to_owned(),
            claims: Vec::new(),
            usage: used(5, 10_000),
            stop: Stop::Submitted,
        },
        admission: Admission::Admitted {
            tree: TreeId::new(format!("feedfacecafe{id}")),
            repairs: Vec::new(),
            flags: Vec::new(),
            files: vec![FileChange {
                path: "src/lib.rs".to_owned(),
                change: ChangeKind::Modified,
                added: 3,
                removed: 1,
            }],
        },
        same_as: None,
        applied: Some(ArtifactId::new("a1")),
        gates,
        score: None,
        refuted: Vec::new(),
    }
}

fn passed() -> Vec<GateReport> {
    [GateKind::Apply, GateKind::Typecheck].map(|kind| GateReport::bare(kind, Verdict::Pass)).into()
}

fn failed(verdict: Verdict, output: &str) -> Vec<GateReport> {
    let mut gates = passed();
    gates[1] = GateReport {
        command: "cargo check".to_owned(),
        verdict,
        exit_status: Some(101),
        millis: 3210,
        output: clip(output, 4096),
        base: Some(BaseComparison {
            base_passed: true,
            new_failures: vec![Diagnostic {
                code: "E0308".to_owned(),
                path: "src/lib.rs".to_owned(),
                line: 7,
                message: "mismatched types".to_owned(),
            }],
            by_diagnostic: true,
            ..BaseComparison::default()
        }),
        ..gates[1].clone()
    };
    gates
}

fn ballot(judge: &str, pair: [&str; 2], order: Order, choice: Choice, reason: &str) -> Ballot {
    Ballot {
        judge: JudgeId::new(judge),
        model: "openai:gpt-test".to_owned(),
        origin: JudgeOrigin { layer: "builtin".to_owned(), sha256: "0".repeat(64) },
        left: CandidateId::new(pair[0]),
        right: CandidateId::new(pair[1]),
        order,
        choice,
        vetoes: Vec::new(),
        reason: reason.to_owned(),
        evidence: Vec::new(),
        duel: None,
        usage: Usage::default(),
    }
}

fn winner(id: &str, basis: Basis, confidence: Confidence, reason: &str) -> Decision {
    Decision {
        outcome: Outcome::Winner {
            candidate: CandidateId::new(id),
            tree: TreeId::new(format!("feedfacecafe{id}")),
        },
        basis: Some(basis),
        confidence,
        reason: reason.to_owned(),
        evidence: Vec::new(),
    }
}

fn no_winner(reason: NoWinner, text: &str) -> Decision {
    Decision {
        outcome: Outcome::NoWinner { reason, closest: Vec::new() },
        basis: None,
        confidence: Confidence::Low,
        reason: text.to_owned(),
        evidence: Vec::new(),
    }
}

fn evidence(id: &str, text: &str, score: Option<f64>) -> Evidence {
    Evidence { candidate: CandidateId::new(id), text: text.to_owned(), score }
}

#[test]
fn a_clear_winner() {
    let mut record = record();
    record.scripted = true;
    lane(&mut record, "alpha", Stop::Submitted, Some("c1"));
    lane(&mut record, "beta", Stop::Submitted, Some("c2"));
    lane(&mut record, "gamma", Stop::Submitted, None);
    let hostile = "\u{1b}[31merror[E0308]\u{1b}[0m: mismatched types\r\n\n --> src/lib.rs:7\u{7}\u{1b}]0;pwned\u{7}\n";
    record.candidates = vec![
        candidate("c1", "alpha", passed()),
        candidate(
            "c2",
            "beta",
            failed(Verdict::Fail { reason: "1 new error".to_owned() }, hostile),
        ),
    ];
    record.decision = winner(
        "c1",
        Basis::OnlySurvivor,
        Confidence::Low,
        "c1 is the only candidate that passed the gates; no test ran",
    );
    record.warnings.push(Warning {
        code: "dirty-left-out".to_owned(),
        message: "2 uncommitted changes are left out".to_owned(),
    });
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      models   SCRIPTED: a data file answered, no model was asked
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    done (exit 0)

    Lanes: 2 of 3 gave a candidate
      lane     model            stop       cand.  turns  cost     time
      alpha/1  openai:gpt-test  submitted  c1     5      $0.0300  12.3 s
      beta/1   openai:gpt-test  submitted  c2     5      $0.0300  12.3 s
      gamma/1  openai:gpt-test  submitted  –      5      $0.0300  12.3 s
          it changed nothing

    Candidates
         id  from     family  diff          apply  check
      ★  c1  alpha/1  alpha   1 file +3 -1  ✓      ✓
         c2  beta/1   beta    1 file +3 -1  ✓      ✗

    Gates that did not pass
      c2 check ✗ 1 new error — cargo check (exit 101, 3.2 s)
        the base passed: 1 new, 0 fixed, 0 as before
        | error[E0308]: mismatched types
        |  --> src/lib.rs:7<U+0007>

    Decision
      winner: c1 (tree feedfacecafe)
      c1 is the only candidate that passed the gates; no test ran
      confidence: low
      basis: it is the only survivor

    Warnings
      ! dirty-left-out: 2 uncommitted changes are left out

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn a_tie_is_no_confident_choice() {
    let mut record = record();
    record.exit = Exit::NoWinner;
    lane(&mut record, "alpha", Stop::Submitted, Some("c1"));
    lane(&mut record, "beta", Stop::Submitted, Some("c2"));
    record.candidates = vec![candidate("c1", "alpha", passed()), candidate("c2", "beta", passed())];
    let pair = ["c1", "c2"];
    let mut veto = ballot("security", pair, Order::Reverse, Choice::Tie, "");
    veto.vetoes.push(CandidateId::new("c2"));
    record.ballots = vec![
        ballot(
            "correctness",
            pair,
            Order::Forward,
            Choice::Left,
            "handles \u{1b}[2Jnegative numbers",
        ),
        ballot("correctness", pair, Order::Reverse, Choice::Right, "shorter"),
        ballot(
            "scope",
            pair,
            Order::Forward,
            Choice::Abstain { reason: "no valid JSON, twice".to_owned() },
            "",
        ),
        ballot(
            "scope",
            pair,
            Order::Reverse,
            Choice::Abstain { reason: "no valid JSON, twice".to_owned() },
            "",
        ),
        ballot("security", pair, Order::Forward, Choice::Tie, ""),
        veto,
        ballot("tests", pair, Order::Forward, Choice::Right, "covers the edge"),
        ballot("tests", pair, Order::Reverse, Choice::Right, ""),
    ];
    record.decision = Decision {
        outcome: Outcome::NoWinner {
            reason: NoWinner::NoConfidentChoice,
            closest: vec![CandidateId::new("c1"), CandidateId::new("c2")],
        },
        basis: Some(Basis::Judges),
        evidence: vec![
            evidence(
                "c1",
                "12 of 14 changed lines are also in other families' candidates (beta)",
                Some(3.25),
            ),
            evidence("c2", "nearest: c1 of alpha, 61 % in common", None),
        ],
        ..no_winner(NoWinner::NoConfidentChoice, "the margin is under the threshold")
    };
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    no winner (exit 1)

    Lanes: 2 of 2 gave a candidate
      lane     model            stop       cand.  turns  cost     time
      alpha/1  openai:gpt-test  submitted  c1     5      $0.0300  12.3 s
      beta/1   openai:gpt-test  submitted  c2     5      $0.0300  12.3 s

    Candidates
      id  from     family  diff          apply  check  won–lost
      c1  alpha/1  alpha   1 file +3 -1  ✓      ✓      1–3
      c2  beta/1   beta    1 file +3 -1  ✓      ✓      3–1

    Ballots
      correctness (builtin) by openai:gpt-test
        c1 : c2  tie, the orders disagree (c1, c2) — handles negative numbers
      scope (builtin) by openai:gpt-test
        c1 : c2  abstained — no valid JSON, twice
      security (builtin) by openai:gpt-test
        c1 : c2  tie
        veto against c2 on 1 of 2 ballots
      tests (builtin) by openai:gpt-test
        c1 : c2  c2 in both orders — covers the edge

    Decision
      no winner: no confident choice
      closest: c1, c2
      the margin is under the threshold
      basis: judges' ballots over the evidence
        c1   12 of 14 changed lines are also in other families' candidates (beta) [3.25]
        c2   nearest: c1 of alpha, 61 % in common

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn all_failed_their_gates_and_all_lanes() {
    let mut record = record();
    record.exit = Exit::Models;
    let down = || Stop::Failed {
        class: "auth".to_owned(),
        message: "the server refused the key (401): set OPENAI_API_KEY".to_owned(),
    };
    lane(&mut record, "alpha", down(), None);
    lane(&mut record, "beta", down(), None);
    for lane in &mut record.lanes {
        (lane.usage, lane.turns, lane.why_none) = (Usage::default(), 0, None);
    }
    record.usage = Usage::default();
    record.decision = no_winner(NoWinner::ModelsUnreachable, "every lane failed: auth");
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    models could not be reached or paid (exit 3)

    Lanes: 0 of 2 gave a candidate
      lane     model            stop           cand.  turns  cost  time
      alpha/1  openai:gpt-test  failed (auth)  –      0      –     12.3 s
          the server refused the key (401): set OPENAI_API_KEY
      beta/1   openai:gpt-test  failed (auth)  –      0      –     12.3 s
          the server refused the key (401): set OPENAI_API_KEY

    Decision
      no winner: models could not be reached
      every lane failed: auth

    Cost
      no model answered
      1 min 05 s in all
"#);
}

#[test]
fn all_refused() {
    let mut record = record();
    record.kind = RunKind::Pick;
    record.exit = Exit::NoWinner;
    record.usage = Usage::default();
    let mut one = candidate("c1", "alpha", Vec::new());
    one.candidate.lane = LaneId::new("fixes/one\u{1b}[2J.diff");
    one.candidate.stop = Stop::Given;
    one.admission = Admission::Refused(Refusal {
        code: "hunk-not-found".to_owned(),
        message: "the removed lines are not in the file; the nearest place differs in one line"
            .to_owned(),
        path: Some("src/lib.rs".to_owned()),
        hunk: Some(2),
        expected: None,
        found: None,
    });
    record.candidates = vec![one];
    record.decision = no_winner(NoWinner::NothingApplied, "no diff applies to the base");
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    pick 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    no winner (exit 1)

    Candidates
      id  from            family  diff
      c1  fixes/one.diff  alpha   refused
          hunk-not-found in src/lib.rs, hunk 2: the removed lines are not in the file; the nearest place
          differs in one line

    Decision
      no winner: nothing applied
      no diff applies to the base

    Cost
      none: no model was asked
      1 min 05 s in all
"#);
}

// contract R23
#[test]
fn partial_work_only() {
    let mut record = record();
    record.exit = Exit::NoWinner;
    let cut = || Stop::Limit { limit: Limit::Iterations };
    lane(&mut record, "alpha", cut(), Some("c1"));
    lane(&mut record, "beta", Stop::Quit, Some("c2"));
    let mut one = candidate("c1", "alpha", passed());
    one.candidate.stop = cut();
    let mut two = candidate("c2", "beta", passed());
    two.candidate.stop = Stop::Quit;
    record.candidates = vec![one, two];
    record.decision = no_winner(NoWinner::OnlyPartial, "only partial work passed the gates");
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    no winner (exit 1)

    Lanes: 2 of 2 gave a candidate
      lane     model            stop                  cand.  turns  cost     time
      alpha/1  openai:gpt-test  PARTIAL (iterations)  c1     5      $0.0300  12.3 s
      beta/1   openai:gpt-test  PARTIAL (quit)        c2     5      $0.0300  12.3 s

    Candidates
      id  from     family  diff          apply  check
      c1  alpha/1  alpha   1 file +3 -1  ✓      ✓
          PARTIAL (iterations)
      c2  beta/1   beta    1 file +3 -1  ✓      ✓
          PARTIAL (quit)

    Decision
      no winner: only PARTIAL candidates passed
      only partial work passed the gates

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn a_synthesized_winner_and_equal_trees() {
    let mut record = record();
    lane(&mut record, "alpha", Stop::Submitted, Some("c1"));
    lane(&mut record, "beta", Stop::Submitted, Some("c2"));
    let mut equal = candidate("c2", "beta", Vec::new());
    equal.same_as = Some(CandidateId::new("c1"));
    let mut synthesized = candidate("c3", "synthesizer", passed());
    synthesized.candidate.kind = Kind::Synthesized;
    let Admission::Admitted { repairs, flags, .. } = &mut synthesized.admission else {
        unreachable!()
    };
    repairs.push(Repair { code: "hunk-counts".to_owned(), detail: "1 header mended".to_owned() });
    flags.push(Flag {
        code: "touches-gate".to_owned(),
        path: Some("Cargo.toml".to_owned()),
        detail: "what defines a gate is read from the base".to_owned(),
    });
    let mut first = candidate("c1", "alpha", passed());
    first.score = Some(2.5);
    record.candidates = vec![first, equal, synthesized];
    record.ballots = vec![
        ballot("correctness", ["c1", "c3"], Order::Forward, Choice::Right, "keeps the sign"),
        ballot("correctness", ["c1", "c3"], Order::Reverse, Choice::Right, ""),
    ];
    record.decision =
        winner("c3", Basis::Judges, Confidence::High, "c3 won its pair in both orders");
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  namespaces, proof by 2 canary probes
      check    cargo check (found by Cargo.toml)
      ended    done (exit 0)

    Lanes: 2 of 2 gave a candidate
      lane     model            stop       cand.  turns  cost     time
      alpha/1  openai:gpt-test  submitted  c1     5      $0.0300  12.3 s
      beta/1   openai:gpt-test  submitted  c2     5      $0.0300  12.3 s

    Candidates
         id  from           family       diff             apply  check  score  won–lost
         c1  alpha/1        alpha        1 file +3 -1     ✓      ✓      2.50   0–2
         c2  beta/1         beta         same tree as c1
      ★  c3  synthesizer/1  synthesizer  1 file +3 -1     ✓      ✓             2–0
          synthesized from the finalists
          repaired hunk-counts: 1 header mended
          flag touches-gate Cargo.toml: what defines a gate is read from the base

    Ballots
      correctness (builtin) by openai:gpt-test
        c1 : c3  c3 in both orders — keeps the sign

    Decision
      winner: c3 (tree feedfacecafe)
      c3 won its pair in both orders
      confidence: high
      basis: judges' ballots over the evidence

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn one_lane_on_a_narrow_page() {
    let mut record = record();
    lane(&mut record, "a-lane-with-a-rather-long-name", Stop::Submitted, Some("c1"));
    record.candidates = vec![candidate("c1", "a-lane-with-a-rather-long-name", passed())];
    record.decision = winner(
        "c1",
        Basis::OnlySurvivor,
        Confidence::Low,
        "c1 is the only candidate that passed the gates; no test ran",
    );
    record.sandbox.permit = "waiver".to_owned();
    record.sandbox.probes.insert("connect".to_owned(), false);
    let narrow = text(&record, &Style { columns: 60, colour: false });
    assert!(narrow.lines().all(|line| crate::model::printable::width(line) <= 60), "{narrow}");
    insta::assert_snapshot!(narrow, @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab
      sandbox  WAIVED by the operator (namespaces); not stopped:
               connect
      check    cargo check (found by Cargo.toml)
      ended    done (exit 0)

    Lanes: 1 of 1 gave a candidate
      lane      model     stop     cand.  turns  cost     time
      a-lane-…  openai:…  submit…  c1     5      $0.0300  12.3 s

    Candidates
         id  from         family       diff         apply  check
      ★  c1  a-lane-wit…  a-lane-wit…  1 file +3 …  ✓      ✓

    Decision
      winner: c1 (tree feedfacecafe)
      c1 is the only candidate that passed the gates; no test
      ran
      confidence: low
      basis: it is the only survivor

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn gates_that_could_not_run() {
    let mut record = record();
    record.exit = Exit::Infra;
    record.base.dirty = true;
    record.plan.gates.check = None;
    lane(&mut record, "alpha", Stop::Submitted, Some("c1"));
    let missing = Verdict::Infra { reason: "`cargo` was not found; install Rust".to_owned() };
    record.candidates = vec![candidate("c1", "alpha", failed(missing, ""))];
    record.candidates[0].gates[1].base = None;
    record.decision = no_winner(NoWinner::GatesCouldNotRun, "the gates could not run");
    insta::assert_snapshot!(text(&record, &STYLE), @r#"
    run 01990000-0000-7000-8000-000000000001
      task     Round half away from zero
      base     HEAD = 0123456789ab, with uncommitted changes
      sandbox  namespaces, proof by 2 canary probes
      check    none (--no-check)
      ended    a gate or the sandbox could not run (exit 4)

    Lanes: 1 of 1 gave a candidate
      lane     model            stop       cand.  turns  cost     time
      alpha/1  openai:gpt-test  submitted  c1     5      $0.0300  12.3 s

    Candidates
      id  from     family  diff          apply  check
      c1  alpha/1  alpha   1 file +3 -1  ✓      !

    Gates that did not pass
      c1 check ! could not run: `cargo` was not found; install Rust — cargo check (exit 101, 3.2 s)

    Decision
      no winner: the gates could not run
      the gates could not run

    Cost
      $0.1350 for 12 calls: 45,000 tokens in, 450 out
      1 min 05 s in all
"#);
}

#[test]
fn foreign_text_never_reaches_the_terminal_raw() {
    let evil = "\u{1b}[2J\u{9b}31m\u{202e}\u{7}\u{8}x\r";
    let mut record = record();
    lane(
        &mut record,
        evil,
        Stop::Failed { class: evil.to_owned(), message: evil.to_owned() },
        None,
    );
    record.lanes[0].model = evil.to_owned();
    record.plan.task.as_mut().unwrap().text = evil.to_owned();
    record.base.rev = evil.to_owned();
    let mut one = candidate(evil, evil, failed(Verdict::Fail { reason: evil.to_owned() }, evil));
    one.candidate.stop = Stop::Quit;
    let Admission::Admitted { repairs, flags, .. } = &mut one.admission else { unreachable!() };
    repairs.push(Repair { code: evil.to_owned(), detail: evil.to_owned() });
    flags.push(Flag {
        code: evil.to_owned(),
        path: Some(evil.to_owned()),
        detail: evil.to_owned(),
    });
    one.gates[1].command = evil.to_owned();
    one.gates[1].base.as_mut().unwrap().new_failures[0].message = evil.to_owned();
    record.candidates.push(one);
    record.ballots.push(ballot(evil, [evil, "c2"], Order::Forward, Choice::Left, evil));
    record.decision = winner(evil, Basis::Judges, Confidence::Low, evil);
    record.decision.evidence.push(evidence(evil, evil, None));
    record.warnings.push(Warning { code: evil.to_owned(), message: evil.to_owned() });
    record.plan.gates.check.as_mut().unwrap().line = evil.to_owned();
    let shown = text(&record, &STYLE);
    let bad = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
    assert_eq!(shown.chars().find(bad), None, "{shown:?}");
}

#[test]
fn the_list_of_runs() {
    use crate::journal::RunSummary;
    let mut won = record();
    won.decision = winner("c4", Basis::Judges, Confidence::High, "");
    let lost = record();
    let summary = |run: &str, record| RunSummary { run: RunId::new(run), record };
    let runs = [
        summary("01990000-0000-7000-8000-000000000001", Ok(Box::new(won))),
        summary("01990000-0000-7000-8000-000000000002", Ok(Box::new(lost))),
        summary("01990000-0000-7000-8000-000000000003", Err("it has no record yet".to_owned())),
    ];
    insta::assert_snapshot!(runs_table(&runs, 90), @r#"
      run                                   started           kind  outcome   cost     task
      01990000-0000-7000-8000-000000000001  2026-11-30 10:00  run   winner …  $0.1350  Round …
      01990000-0000-7000-8000-000000000002  2026-11-30 10:00  run   nothing…  $0.1350  Round …
      01990000-0000-7000-8000-000000000003
          it has no record yet
"#);
    assert_eq!(runs_table(&[], 80), "no runs yet\n");
}
