//! Runs that are cut off while a nested worker works, or while a worker mends what a gate sent back: they go
//! on there, pay nothing twice and gate nothing twice. The models are a server of the tests' own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::resume::{Bench, RUN, answer, answered, called, decided, journal, record};
use super::support::server::{Reply, Request};

/// Requests of either run: four of lane one, six of lane two with its nested worker, two of the judge.
const CALLS: usize = 12;

fn submitted() -> (&'static str, Value) {
    ("submit", json!({"answer": "done", "claims": []}))
}

fn writes(value: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": "value.txt", "content": format!("{value}\n")}))
}

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().unwrap()
}

/// The turn of a worker that is asked now, from 0.
pub(super) fn turn(body: &Value) -> usize {
    messages(body).iter().filter(|message| message["role"] == "assistant").count()
}

const PART: &str = "DO-THIS-PART";

/// Lane two hands its change on, and the nested worker leaves a job running.
fn delegates(request: &Request) -> Reply {
    let body = request.json();
    if body["model"] != "two" {
        return answer(request);
    }
    let nested = messages(&body)[1]["content"].as_str().unwrap().contains(PART);
    let follow = json!({"command": "tail -f value.txt", "background": true});
    let (name, arguments) = match (nested, turn(&body)) {
        (true, 0) => ("run_bash", follow),
        (true, 1) => writes("3000000000000"),
        (false, 0) => ("delegate_subtask", json!({"task": PART})),
        (false, 1) => ("read_file", json!({"path": "value.txt"})),
        _ => submitted(),
    };
    called(&body, turn(&body), name, &arguments)
}

/// Lane two hands in what fails its check, twice.
pub(super) fn mends(request: &Request) -> Reply {
    let body = request.json();
    if body["model"] != "two" {
        return answer(request);
    }
    let (name, arguments) = match turn(&body) {
        0 => writes("many"),
        2 => writes("more"),
        4 => writes("3000000000000"),
        _ => submitted(),
    };
    called(&body, turn(&body), name, &arguments)
}

/// What must not depend on how often a run was cut off.
fn came_to(record: &Value) -> Value {
    let lane = |lane: &Value| {
        json!({
            "lane": lane["lane"], "stop": lane["stop"], "turns": lane["turns"],
            "healed": lane["healed"], "jobs_ended": lane["jobs_ended"], "usage": lane["usage"],
        })
    };
    let lanes: Vec<Value> = record["lanes"].as_array().unwrap().iter().map(lane).collect();
    json!({"decided": decided(record), "lanes": lanes})
}

/// How many runs of the gates the journal holds for each tree: no two of them print the same.
fn gated(run: &Path) -> BTreeMap<String, usize> {
    let mut gated = BTreeMap::<String, BTreeSet<String>>::new();
    for line in journal(run).iter().filter(|line| line["entry"] == "gated") {
        let tree = line["tree"].as_str().unwrap_or("base").to_owned();
        let check = line["gates"].as_array().unwrap().iter().find(|g| g["gate"] == "typecheck");
        let said = check.unwrap()["output"]["text"].as_str().unwrap();
        assert!(said.contains("run at "), "{said}");
        gated.entry(tree).or_default().insert(said.to_owned());
    }
    gated.into_iter().map(|(tree, runs)| (tree, runs.len())).collect()
}

/// The workers that were asked.
fn workers(run: &Path) -> BTreeSet<String> {
    let lines = journal(run).into_iter().filter(|line| line["entry"] == "call_began");
    lines.filter_map(|line| Some(line["purpose"]["lane"].as_str()?.to_owned())).collect()
}

/// A run that is not cut off, and then one that is killed at each of its requests and goes on.
fn killed_at_each_request(bench: &Bench, trees: usize, asks: &[&str]) -> Value {
    let check = "date '+run at %s %N'; grep -qx '[0-9][0-9]*' value.txt || { echo 'not a number'; exit 1; }\n";
    bench.place.write("check.sh", check);
    bench.place.commit("no two runs of the check print the same");
    let config = "[workers]\nheal_rounds = 2\n";
    bench.configure(&bench.server.url(), config);
    bench.run(&RUN).exits(0);
    let whole = record(&bench.newest());
    assert_eq!(bench.asked(), CALLS);
    for nth in 1..=CALLS {
        let task = format!("raise the value ({nth})");
        let killed = bench.killed_at(&["run", &task, "--no-synth", "-q"], nth);
        assert_eq!(killed.code, None, "request {nth}: {}", killed.err);
        bench.place.nothing_alive("killed");
        bench.run(&["resume", "-q"]).exits(0);
        let run = bench.newest();
        let record = record(&run);
        assert_eq!(came_to(&record), came_to(&whole), "request {nth}");
        let answered = answered(&run);
        assert_eq!(answered.len(), CALLS, "request {nth}: every call has an answer");
        assert!(answered.values().all(|times| *times == 1), "request {nth}: {answered:?}");
        let gated = gated(&run);
        assert!(
            gated.len() == trees && gated.values().all(|times| *times == 1),
            "{nth}: {gated:?}"
        );
        assert_eq!(workers(&run), asks.iter().map(|lane| (*lane).to_owned()).collect(), "{nth}");
        let asked = bench.asked();
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        assert_eq!(bench.asked(), asked, "a replay asks nobody");
        bench.place.nothing_left("went on");
    }
    whole
}

// contract C33-delegate-1
#[test]
fn a_run_that_is_killed_while_a_nested_worker_works_goes_on_within_it() {
    let bench = Bench::answering(delegates);
    let whole = killed_at_each_request(&bench, 3, &["one/1", "two/1", "two/1+1"]);
    assert_eq!(whole["lanes"][1]["jobs_ended"], 1, "the job that it left is ended with its parent");
    assert_eq!(whole["candidates"][1]["candidate"]["usage"]["calls"], 6);
    assert_eq!(whole["decision"]["outcome"]["candidate"], "c2");
}

// contract C33-heal-1
// contract C17
#[test]
fn a_run_that_is_killed_while_a_worker_mends_goes_on_in_that_round() {
    let bench = Bench::answering(mends);
    let whole = killed_at_each_request(&bench, 5, &["one/1", "two/1"]);
    assert_eq!(whole["lanes"][1]["healed"], 2);
    assert_eq!(whole["decision"]["outcome"]["candidate"], "c2");
}
