//! Runs that a ceiling of money or tokens ended go on where a resume raises it, and a replay of what the
//! ceiling refused agrees. The models are a server of the tests' own, which counts.

use std::path::Path;

use serde_json::{Value, json};

use super::resume::{Bench, CALLS, RUN, decided, journal, record};

/// Workers cost next to nothing, and judges a lot.
const PRICES: &str = "[limits]\nmax_output_tokens = 100\n[providers.own.prices]\none = { input = 0.001, output = 0.001 }\n\
                      two = { input = 0.001, output = 0.001 }\njudge = { input = 1000.0, output = 1000.0 }\n";

impl Bench {
    fn run_with(&self, args: &[&str]) -> super::support::place::Done {
        self.run(&[&RUN[..], args].concat())
    }
}

/// The number behind some words in the first refusal that the journal holds.
fn refused(run: &Path, words: &str) -> f64 {
    let lines = journal(run);
    let mut errors = lines.iter().filter_map(|line| line["error"].as_str());
    let number = errors.find_map(|error| error.split_once(words)).expect("a refusal").1;
    number.split(':').next().unwrap().parse().unwrap()
}

#[test]
fn lanes_that_the_runs_tokens_ended_go_on_once_there_are_more() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), "[limits]\nmax_output_tokens = 100\n");
    bench.run_with(&["--max-tokens", "1000"]).exits(5);
    let run = bench.newest();
    assert_eq!(bench.asked(), 0);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    bench.run(&["resume", "-q"]).exits(5);
    bench.run(&["resume", "-q", "--max-tokens", "900"]).exits(5);
    assert_eq!(bench.asked(), 0, "nothing was raised");
    bench.run(&["resume", "-q", "--max-tokens", "9000000"]).exits(0);
    assert_eq!(bench.asked(), CALLS);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let whole = record(&run);

    // Some turns fit, and a last word.
    let first = refused(&run, "may use ");
    let most = format!("{}", (first / 0.9) as u64 + 600);
    bench.run_with(&["--max-tokens", &most]);
    let run = bench.newest();
    let cut = record(&run);
    let limited = json!({"kind": "limit", "limit": "cost"});
    assert!(cut["lanes"].as_array().unwrap().iter().any(|lane| lane["stop"] == limited));
    assert!(bench.asked() > CALLS, "some turns fit");
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let before = bench.asked();
    bench.run(&["resume", "-q", "--max-tokens", "9000000"]).exits(0);
    assert!(bench.asked() > before);
    let done = record(&run);
    assert_eq!(decided(&done)["rows"], decided(&whole)["rows"]);
    assert_eq!(done["decision"]["outcome"], whole["decision"]["outcome"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let of_run = bench.server.requests().len() - CALLS;
    assert!(of_run <= CALLS + 2, "{of_run} calls: those of a run, and a last word of each lane");
    bench.run(&["resume", "--max-tokens", "9000001"]).exits(0).says(&["nothing left to do"]);
}

#[test]
fn a_lane_that_its_own_limit_ended_stays_as_it_is() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), "tokens = 250\n");
    bench.run_with(&["--max-tokens", "1000000"]).exits(0);
    let (asked, whole) = (bench.asked(), record(&bench.newest()));
    assert_eq!(whole["lanes"][1]["stop"], json!({"kind": "limit", "limit": "cost"}));
    bench.run(&["resume", "--max-tokens", "9000000"]).exits(0).says(&["nothing left to do"]);
    assert_eq!((bench.asked(), record(&bench.newest())), (asked, whole));
}

#[test]
fn judges_that_the_budget_refused_are_asked_once_it_is_raised_and_a_replay_agrees() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), PRICES);
    let path = bench.place.dir.join("config/bakeoff/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let two = text.replace("[\"correctness\"]", "[\"scope\", \"correctness\"]");
    assert_ne!(text, two);
    std::fs::write(&path, two).unwrap();
    bench.run_with(&["--budget", "0.5"]);
    let most = refused(&bench.newest(), "may cost $");
    assert_eq!(bench.asked(), CALLS - 2, "no ballot fits");
    // The first ballot fits, and it alone: others are longer, or there is no more money.
    bench.run_with(&["--duels", "0", "--budget", &format!("{}", most + 0.05)]);
    let run = bench.newest();
    let ballots = record(&run)["ballots"].as_array().unwrap().clone();
    let silent = |ballot: &&Value| ballot["choice"].to_string().contains("(budget)");
    assert_eq!((ballots.len(), ballots.iter().filter(silent).count()), (4, 3), "{ballots:?}");
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let workers = || {
        let requests = bench.server.requests();
        requests.iter().filter(|request| request.json()["model"] != "judge").count()
    };
    let (before, asked) = (workers(), bench.asked());
    bench.run(&["resume", "-q", "--budget", "1000"]).exits(0);
    assert_eq!(workers(), before, "no worker is asked again");
    assert!(bench.asked() >= asked + 3, "three ballots more");
    assert!(!record(&run)["ballots"].to_string().contains("(budget)"));
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    bench.run(&["resume", "--budget", "1001"]).exits(0).says(&["nothing left to do"]);
}

#[test]
fn a_ceiling_holds_until_another_one_is_told_and_what_it_ended_is_measured_by_it() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), "[limits]\nmax_output_tokens = 100\n");
    let ended = |task: &str| {
        let args = ["run", task, "--no-synth", "-q", "--max-tokens", "1000"];
        bench.run(&args).exits(5);
        bench.newest()
    };
    // Cut off, the raised one holds for the next resume, too.
    ended("raise the value (1)");
    let killed = bench.killed_at(&["resume", "-q", "--max-tokens", "9000000"], 3);
    assert_eq!(killed.code, None, "{}", killed.err);
    bench.run(&["resume", "-q"]).exits(0);
    let lost = record(&bench.newest())["resumed"]["possibly_paid_calls"].as_u64().unwrap() as usize;
    assert!(bench.asked_about("raise the value (1)") <= CALLS + lost);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    // One between what ended the lanes and what was told last lets them go on all the same.
    ended("raise the value (2)");
    assert_eq!(bench.killed_at(&["resume", "-q", "--max-tokens", "9000000"], 3).code, None);
    bench.run(&["resume", "-q", "--max-tokens", "8000000"]).exits(0);
    assert_eq!(record(&bench.newest())["plan"]["limits"]["max_tokens"], 8_000_000);
    // Higher than the first, and lower than what ended the lanes last.
    let run = ended("raise the value (3)");
    bench.run(&["resume", "-q", "--max-tokens", "2000"]).exits(5);
    bench.run(&["resume", "-q", "--max-tokens", "1500"]).exits(5);
    assert_eq!(record(&run)["resumed"]["reused_lanes"], 2, "their ends stand");
    assert_eq!(bench.asked_about("raise the value (3)"), 0);
    bench.run(&["resume", "-q", "--max-tokens", "9000000"]).exits(0);
}

#[test]
fn a_run_with_a_decision_goes_on_after_a_raised_resume_of_it_was_killed() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), "[limits]\nmax_output_tokens = 100\n");
    bench.run_with(&["--max-tokens", "1000"]).exits(5);
    let first = refused(&bench.newest(), "may use ");
    let most = format!("{}", (first / 0.9) as u64 + 600);
    bench.run_with(&["--max-tokens", &most]);
    let run = bench.newest();
    let exit = record(&run)["exit"].clone();
    assert!(exit == "done" || exit == "no_winner", "{exit}");
    assert_eq!(bench.killed_at(&["resume", "-q", "--max-tokens", "9000000"], 1).code, None);
    bench.run(&["resume", "-q"]).exits(0);
    let done = record(&run);
    assert!(
        done["lanes"].as_array().unwrap().iter().all(|lane| lane["stop"]["kind"] == "submitted")
    );
    bench.run(&["resume"]).exits(0).says(&["nothing left to do"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn what_a_resume_advises_is_something_that_it_takes() {
    let bench = Bench::new();
    bench.configure(&bench.server.url(), PRICES);
    bench.killed_at(&["run", "raise the value", "-q", "--lane-budget", "1"], 1);
    bench.configure(&bench.server.url(), "");
    let done =
        bench.run(&["resume", "-q"]).exits(2).says(&["its price is unknown", "--max-tokens"]);
    assert!(!done.err.contains("--lane"), "{}", done.err);
    bench.run(&["resume", "-q", "--max-tokens", "9000000"]).exits(0);
    // A worker's budget that was too small takes a new run, and that is what is said.
    bench.configure(&bench.server.url(), PRICES);
    let args = ["run", "raise the value", "--json", "-q", "--lane-budget", "0.0000001"];
    let done = bench.run(&args).exits(5).json();
    let said = done["decision"]["reason"].as_str().unwrap();
    assert!(said.contains("begin a new run with a higher `--lane-budget`"), "{said}");
}
