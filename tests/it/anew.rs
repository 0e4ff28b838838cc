//! Judging a run's candidates anew: with its workers and gates as they were, and with nothing that it was told to do
//! without. The models are a server of the tests' own, which counts.

use std::fs;

use serde_json::{Value, json};

use super::resume::{Bench, RUN, answer, decided, record};
use super::support::server::{Reply, Server};

/// The bench's models at a server that refuses to be the model `three`, and a synthesizer beside them.
fn with_three(bench: &Bench) -> Server {
    let server = Server::start(|request| match request.json()["model"].as_str() {
        Some("three") => Reply::json(401, r#"{"error":{"message":"who are you"}}"#),
        _ => answer(request),
    });
    bench.configure(&server.url(), "[lanes.three]\nmodel = \"own:three\"\n");
    let path = bench.place.dir.join("config/bakeoff/config.toml");
    let text = fs::read_to_string(&path).unwrap();
    let with = text.replace("[\"own:judge\"]", "[\"own:judge\"]\nsynth = \"own:synth\"");
    fs::write(&path, with).unwrap();
    server
}

fn asked(server: &Server, model: &str) -> usize {
    server.requests().iter().filter(|request| request.json()["model"] == model).count()
}

#[test]
fn nobody_works_again_and_what_the_run_did_without_is_not_asked() {
    let bench = Bench::new();
    let server = with_three(&bench);
    bench.run(&[&RUN[..], &["--duels", "0"]].concat()).exits(0);
    let old = record(&bench.newest());
    assert_eq!((asked(&server, "three"), asked(&server, "judge")), (1, 2));
    let workers = asked(&server, "one") + asked(&server, "two");
    let new = bench.run(&["rejudge", "--judge", "tests", "--json", "-q"]).exits(0).json();
    assert_eq!((&new["rejudges"], &new["lanes"]), (&old["run"], &old["lanes"]));
    assert_eq!(new["candidates"], old["candidates"]);
    assert_eq!((asked(&server, "three"), asked(&server, "judge")), (1, 4));
    assert_eq!(asked(&server, "one") + asked(&server, "two"), workers);
    assert_eq!(asked(&server, "synth"), 0, "the run had --no-synth");
    let judging = &new["plan"]["judging"];
    assert_eq!(
        (&judging["synth"], judging.get("duels").unwrap_or(&Value::Null)),
        (&json!(null), &json!(null))
    );
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    // Told anew, there is one.
    let plan = bench.run(&["rejudge", "--duels", "1", "--json", "-q"]).exits(0).json();
    assert_eq!(plan["plan"]["judging"]["duels"]["most"], 1);
}

#[test]
fn one_that_was_killed_goes_on_as_such_within_its_own_budget() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let of = bench.newest();
    let (old, of) = (record(&of), of.to_str().unwrap());
    // One ballot fits under it beside two that may have been lost; with what the workers used it does not.
    let most = {
        let refused = bench.run(&["rejudge", "-q", "--max-tokens", "1"]);
        assert_ne!(refused.code, Some(0), "no ballot fits");
        let lines = super::resume::journal(&bench.newest());
        let mut errors = lines.iter().filter_map(|line| line["error"].as_str());
        let words = errors.find_map(|error| error.split_once("may use ")).unwrap().1;
        3 * words.split(':').next().unwrap().parse::<u64>().unwrap() + 300
    };
    let before = bench.asked();
    let most = most.to_string();
    let killed = bench.killed_at(&["rejudge", of, "-q", "--max-tokens", &most], 1);
    assert_eq!(killed.code, None, "{}", killed.err);
    bench.run(&["resume", "-q"]).exits(0);
    let new = record(&bench.newest());
    assert_eq!(new["rejudges"], old["run"]);
    assert_eq!(new["candidates"], old["candidates"]);
    assert_eq!(decided(&new)["ballots"], decided(&old)["ballots"]);
    assert!(bench.asked() - before <= 4, "only ballots are asked for, one of them again");
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}
