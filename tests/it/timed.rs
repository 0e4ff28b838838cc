//! Runs that their time limit cut off, wherever it struck: a replay derives the same end from the record alone,
//! and a resume goes on. The models are a server of the tests' own.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::resume::{Bench, answer, record};
use super::support::server::{Reply, Server};

const REST: &str =
    "[design]\nmodel = \"own:planner\"\n[side]\nmodel = \"own:side\"\nshared_endpoint = true\n";

/// A run whose server is silent to one model.
struct Timed {
    bench: Bench,
    server: Server,
    silent: Arc<Mutex<&'static str>>,
}

impl Timed {
    fn new() -> Self {
        let silent = Arc::<Mutex<&'static str>>::default();
        let to = silent.clone();
        let server = Server::start(move |request| {
            let body = request.json();
            let model = body["model"].as_str().unwrap();
            match model {
                _ if model == *to.lock().unwrap() => Reply::silence(),
                "planner" | "side" | "synth" => {
                    super::resume::said(&body, json!({"role": "assistant", "content": "Raise it."}))
                }
                _ => answer(request),
            }
        });
        let timed = Self { bench: Bench::new(), server, silent };
        timed.bench.configure(&timed.server.url(), REST);
        let path = timed.bench.place.dir.join("config/bakeoff/config.toml");
        let text = fs::read_to_string(&path).unwrap();
        let with = text.replace("[\"own:judge\"]", "[\"own:judge\"]\nsynth = \"own:synth\"");
        assert_ne!(text, with);
        fs::write(&path, with).unwrap();
        timed
    }

    fn asked(&self, model: &str) -> bool {
        self.server.requests().iter().any(|request| request.json()["model"] == model)
    }

    /// Runs with a time limit that strikes behind something; on a busy machine that takes a longer one.
    fn limited_until(&self, reached: impl Fn(&Self) -> bool) {
        for seconds in ["4", "20", "120"] {
            let args = ["run", "raise the value", "--design", "-q", "--heal", "0", "--max-seconds"];
            self.bench.run(&[&args[..], &[seconds]].concat());
            if reached(self) {
                return;
            }
        }
    }

    /// Runs until the time is over while `model` is asked.
    fn cut_at(&self, model: &'static str) -> Value {
        *self.silent.lock().unwrap() = model;
        self.limited_until(|timed| timed.asked(model));
        assert!(self.asked(model));
        record(&self.bench.newest())
    }

    /// The same from the record alone, then on to the end, and the same again.
    fn replays_and_goes_on(&self) -> Value {
        let before = self.server.requests().len();
        self.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        assert_eq!(self.server.requests().len(), before, "a replay asks nobody");
        *self.silent.lock().unwrap() = "";
        self.bench.run(&["resume", "-q", "--max-seconds", "3000"]).exits(0);
        self.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        record(&self.bench.newest())
    }
}

// contract R23 R24
#[test]
fn workers_that_the_runs_time_ends_are_partial_and_go_on_with_a_resume() {
    let timed = Timed::new();
    let cut = timed.cut_at("two");
    let time = json!({"kind": "limit", "limit": "time"});
    assert_eq!(cut["lanes"][1]["stop"], time, "{}", cut["lanes"]);
    timed.bench.run(&["show"]).exits(0).prints(&["PARTIAL (time)"]);
    let done = timed.replays_and_goes_on();
    let stops: Vec<&Value> = [0, 1].map(|at| &done["lanes"][at]["stop"]["kind"]).to_vec();
    assert_eq!(stops, ["submitted", "submitted"]);
    assert_eq!(done["exit"], "done");
    // What was gated while its worker still worked has passed, whether or not the time was over since.
    *timed.silent.lock().unwrap() = "two";
    timed.bench.run(&["run", "raise it", "-q", "--heal", "1", "--max-seconds", "4"]);
    timed.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_run_whose_time_is_over_in_the_design_step_is_replayed() {
    let timed = Timed::new();
    let cut = timed.cut_at("planner");
    assert_eq!((&cut["exit"], &cut["design"]), (&json!("limit"), &Value::Null));
    assert!(!timed.asked("one"), "no worker begins any more");
    assert_eq!(timed.replays_and_goes_on()["exit"], "done");
}

#[test]
fn a_run_whose_time_is_over_before_the_judges_have_spoken_ends_by_its_limit_and_is_replayed() {
    let timed = Timed::new();
    let cut = timed.cut_at("judge");
    assert_eq!(cut["decision"]["outcome"]["reason"], "limit_reached", "{}", cut["decision"]);
    assert_eq!(cut["exit"], "limit");
    assert!(!timed.asked("synth") && !timed.asked("side"));
    let done = timed.replays_and_goes_on();
    assert_eq!((&done["exit"], done["ballots"].as_array().unwrap().len()), (&json!("done"), 2));
}

#[test]
fn a_winner_that_was_there_when_the_time_was_over_stays_and_is_replayed() {
    for model in ["synth", "side"] {
        let timed = Timed::new();
        let cut = timed.cut_at(model);
        assert_eq!(cut["exit"], "done", "{model}: {}", cut["decision"]);
        timed.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        timed.bench.run(&["resume"]).exits(0).says(&["nothing left to do"]);
    }
}

/// Gates that never end: on the base when its value is 1, else on candidates.
fn endless(on_base: bool) -> String {
    let test = if on_base { "=" } else { "!=" };
    format!("if [ \"$(cat value.txt)\" {test} 1 ]; then while :; do sleep 1; done; fi\n")
}

#[test]
fn a_run_whose_time_is_over_while_its_gates_run_is_replayed() {
    for on_base in [true, false] {
        let timed = Timed::new();
        timed.bench.place.write("check.sh", &endless(on_base));
        timed.bench.place.commit("endless");
        *timed.silent.lock().unwrap() = "nobody";
        timed.limited_until(|timed| on_base || timed.asked("one"));
        let cut = record(&timed.bench.newest());
        assert_eq!(cut["decision"]["outcome"]["reason"], "limit_reached", "{}", cut["decision"]);
        assert_eq!(cut["exit"], "limit");
        assert_eq!(timed.asked("one"), !on_base, "workers begin behind the gates of the base");
        timed.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    }
}

#[test]
fn workers_that_their_own_time_ends_are_replayed() {
    let timed = Timed::new();
    timed.bench.configure(&timed.server.url(), "seconds = 1\n");
    *timed.silent.lock().unwrap() = "two";
    timed.bench.run(&["run", "raise the value", "-q", "--no-synth"]).exits(0);
    let stop = json!({"kind": "limit", "limit": "time"});
    assert_eq!(record(&timed.bench.newest())["lanes"][1]["stop"], stop);
    timed.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    timed.bench.run(&["run", "x", "-q", "--no-synth", "--lane-seconds", "1"]);
    timed.bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}
