//! Submissions that are gated before they stand: each tree once, whoever asks.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::midway::{mends, turn};
use super::resume::Bench;
use super::support::place::{Place, Running, is, writes};
use super::support::server::{Reply, Request};

/// Runs `work`, and counts the processes that had this command line meanwhile. Each of them lives long
/// enough to be seen.
fn seen<T>(command: &[&str], work: impl FnOnce() -> T) -> (T, usize) {
    let line =
        command.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect::<Vec<_>>();
    let over = AtomicBool::new(false);
    let watch = || {
        let mut seen = BTreeSet::new();
        while !over.load(Ordering::SeqCst) {
            for entry in fs::read_dir("/proc").unwrap().flatten() {
                let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
                if read("cmdline") == line {
                    // The id may be another process's later; with its start it is not.
                    let stat = String::from_utf8_lossy(&read("stat")).into_owned();
                    let started = stat.rsplit(") ").next().unwrap_or_default();
                    let started = started.split(' ').nth(19).unwrap_or_default().to_owned();
                    seen.insert((entry.file_name(), started));
                }
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        seen.len()
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let done = work();
        over.store(true, Ordering::SeqCst);
        (done, watching.join().unwrap())
    })
}

/// A place whose check takes its time over the value 3, in a process that is no other's.
fn slow_at_three() -> (Place, String) {
    let place = Place::new();
    // Tests of one process run side by side.
    static NTH: AtomicUsize = AtomicUsize::new(1);
    let seconds = format!("3.{:07}{}", std::process::id(), NTH.fetch_add(1, Ordering::SeqCst));
    let check = format!("if [ \"$(cat value.txt)\" = 3 ]; then sleep {seconds}; fi\n");
    place.write("check.sh", &check);
    place.commit("slow");
    (place, seconds)
}

fn candidates(record: &Value) -> Vec<&Value> {
    record["candidates"].as_array().unwrap().iter().collect()
}

// contract C33-heal-1
#[test]
fn equal_submissions_are_gated_once() {
    for flags in [&["--heal", "1"][..], &["--heal", "1", "--enough", "2"]] {
        let (place, seconds) = slow_at_three();
        place.script(&writes(&[("one", "3"), ("two", "3")]));
        let args = [&["run", "x", "-q", "--json"], flags].concat();
        let (done, times) = seen(&["sleep", &seconds], || place.run(&args).exits(0).json());
        assert_eq!(candidates(&done).len(), 2, "{flags:?}");
        assert_eq!(times, 1, "{flags:?}");
        place.nothing_left("gated once");
    }
}

#[test]
fn a_worker_that_is_cut_while_its_submission_is_gated_leaves_it_to_be_gated_once() {
    let (place, seconds) = slow_at_three();
    // The one that is enough comes while the other one's gates run.
    let slow = writes(&[("one", "2")]).replacen(
        "[[worker.turns]]\ncalls",
        "[[worker.turns]]\ndelay_ms = 1000\ncalls",
        1,
    );
    let other = writes(&[("two", "3")]).replacen("version = 1\n", "", 1);
    place.script(&(slow + &other));
    let args = ["run", "x", "-q", "--json", "--heal", "1", "--enough", "1"];
    let (done, times) = seen(&["sleep", &seconds], || place.run(args).exits(0).json());
    let gated = candidates(&done).into_iter().any(|row| row["candidate"]["lane"] == "two/1");
    // On a slow machine it may have been cut before it handed anything in.
    assert!(times <= 1 && (times == 1 || !gated), "{times}, {:#}", done["lanes"]);
    assert_eq!(done["decision"]["outcome"]["kind"], "winner");
    place.run(["replay"]).exits(0);
    place.nothing_left("cut");
}

/// Lane one hands in what fails its check and is sent back; `then` are its turns from there.
fn sent_back(then: &str) -> String {
    let other = writes(&[("two", "3")]).replacen("version = 1\n", "", 1);
    writes(&[("one", "many")]) + then + &other
}

/// A round's first call: with it the check would pass, but it is never handed in.
const MENDS: &str = "[[worker.turns]]\ncalls = [{ name = \"write_file\", arguments = { path = \"value.txt\", \
     content = \"2\\n\" } }]\n";

/// A worker that was cut off in its first round: how it ended is told everywhere, and what it had handed
/// in is its candidate, with the gates' word of then.
fn stands(record: &Value, at: usize, stop: &Value) {
    let (lane, row) = (&record["lanes"][at], &record["candidates"][at]);
    let (id, other) = (format!("c{}", at + 1), format!("c{}", 2 - at));
    let expected = (stop, &json!(1), &json!(id));
    assert_eq!((&lane["stop"], &lane["healed"], &lane["candidate"]), expected);
    let one = &row["candidate"];
    assert_eq!((&one["stop"]["kind"], &one["answer"]), (&json!("submitted"), &json!("done")));
    let gates: Vec<&str> = row["gates"].as_array().unwrap().iter().map(verdict).collect();
    assert_eq!(gates, ["pass", "fail", "skipped"], "as it was handed in, not as it was left");
    assert_eq!(
        (&record["decision"]["outcome"]["candidate"], &record["exit"]),
        (&json!(other), &json!("done"))
    );
}

/// The same in what the operator is told, of lane one.
fn told(place: &Place, events: &[Value], stop: &Value, word: &str) {
    let ended = events.iter().find(|e| is("lane_ended")(e) && e["lane"] == "one/1").unwrap();
    assert_eq!((&ended["stop"], &ended["left_change"]), (stop, &true.into()));
    let diff = place.run(["diff", "--candidate", "c1"]).exits(0).out;
    assert!(diff.ends_with("-1\n+many\n"), "{diff}");
    place.run(["show"]).exits(0).prints(&[word, "what it had handed in before stands"]);
    place.run(["replay"]).exits(0);
    place.nothing_left("cut off in a round");
}

fn verdict(gate: &Value) -> &str {
    gate["verdict"]["kind"].as_str().unwrap()
}

// contract C17 R23 R24
#[test]
fn what_was_handed_in_stands_when_a_limit_ends_the_round_behind_it() {
    let place = Place::new();
    place.script(&sent_back(&format!("{MENDS}[[worker.turns]]\ntext = \"so far\"\n")));
    let args = ["run", "x", "--heal", "5", "--lane-turns", "3"];
    let (done, events) = Running::start(place.bakeoff(args)).end();
    let record = place.record();
    let stop = json!({"kind": "limit", "limit": "iterations"});
    stands(&record, 0, &stop);
    told(&place, &events, &stop, "PARTIAL (iterations)");
    assert_eq!(done.exits(0).code, Some(0));
    assert_eq!(record["lanes"][0]["turns"], 4, "three, and its last word");
}

// contract R23
#[test]
fn what_was_handed_in_stands_when_the_operator_ends_the_round_behind_it() {
    let place = Place::new();
    let waits = MENDS.replace("calls =", "delay_ms = 3600000\ncalls =");
    place.script(&sent_back(&format!("{MENDS}{waits}")));
    let mut running = Running::start(place.bakeoff(["run", "x", "--heal", "5"]));
    running.until(|event| {
        is("lane_activity")(event) && event["lane"] == "one/1" && event["turn"] == 4
    });
    place.run(["stop", "latest", "one/1"]).exits(0).prints(&["one/1: PARTIAL (cancelled)"]);
    let (done, events) = running.end();
    done.exits(0);
    let stop = json!({"kind": "cancelled"});
    stands(&place.record(), 0, &stop);
    told(&place, &events, &stop, "PARTIAL (cancelled)");
}

/// What ends lane two in the round behind its submission, by its own settings or by what its server does
/// with the request of that turn; how it ends, and how often its model was asked.
struct End {
    own: &'static str,
    fault: Option<(usize, fn() -> Reply)>,
    stop: &'static str,
    asked: usize,
}

const OVERFLOW: &str =
    r#"{"error":{"message":"This is longer than the context.","code":"context_length_exceeded"}}"#;

/// Each call costs a cent and takes 110 tokens; it may cost ten cents.
const ENDS: [End; 5] = [
    // Behind the third call (the second, where money is kept back for it) there is room for a last word only.
    End { own: "tokens = 500\n", fault: None, stop: "cost", asked: 4 },
    End { own: "budget_usd = 0.13\n", fault: None, stop: "cost", asked: 3 },
    // The server is silent in the round, and for the last word.
    End { own: "seconds = 10\n", fault: Some((3, Reply::silence)), stop: "time", asked: 5 },
    End { own: "", fault: Some((3, || Reply::json(400, OVERFLOW))), stop: "context", asked: 4 },
    // Another model would begin anew, and what was handed in would be lost.
    End {
        own: "fallback = [\"own:one\"]\n",
        fault: Some((2, || Reply::json(401, "{}"))),
        stop: "auth",
        asked: 3,
    },
];

// contract C17 R23 R24
#[test]
fn a_gate_steers_its_worker_unless_told_otherwise_and_within_all_of_its_limits() {
    for end in &ENDS {
        let fault = end.fault;
        let bench = Bench::answering(move |request| {
            let body = request.json();
            match fault {
                Some((from, fault)) if body["model"] == "two" && turn(&body) >= from => fault(),
                _ => mends(request),
            }
        });
        let price = "{ input = 0.0, output = 1000.0 }";
        let rest = format!(
            "{}[limits]\nmax_output_tokens = 100\n[providers.own.prices]\none = {price}\ntwo = {price}\n\
             judge = {price}\n",
            end.own
        );
        bench.configure(&bench.server.url(), &rest);
        let done = bench.run(&["run", "x", "--no-synth", "--json", "-q"]);
        let record = done.exits(0).json();
        let stop = &record["lanes"][1]["stop"];
        let why = stop["limit"].as_str().or(stop["class"].as_str());
        assert_eq!(why, Some(end.stop));
        stands(&record, 1, stop);
        let by_two = |request: &&Request| request.json()["model"] == "two";
        let requests = bench.server.requests();
        assert_eq!(requests.iter().filter(by_two).count(), end.asked, "{}", end.stop);
        bench.run(&["replay"]).exits(0);
        bench.place.nothing_left(end.stop);
    }
}

#[test]
fn no_gate_steers_where_the_operator_says_so() {
    let bench = Bench::answering(mends);
    let record =
        bench.run(&["run", "x", "--no-synth", "--json", "-q", "--heal", "0"]).exits(0).json();
    assert_eq!(
        (&record["lanes"][1]["healed"], &record["lanes"][1]["turns"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(verdict(&record["candidates"][1]["gates"][1]), "fail");
    let plan = |args: &[&str]| bench.run(&[&["run", "x", "--dry-run"], args].concat()).exits(0);
    assert!(!plan(&["--heal", "0"]).out.contains("goes back to its worker"));
    plan(&[]).prints(&["heal    what fails a gate goes back to its worker, at most 1 x"]);
}

/// Value 2, and beside it what no diff holds; `then` follows on what its worker is told.
fn beyond_all(lane: &str, snippet: &str, then: &str) -> String {
    let hands_in = "[[worker.turns]]\ncalls = [{ name = \"submit\", arguments = { answer = \"done\", claims = [] } }]\n";
    let runs = |code: &str| {
        format!(
            "[[worker.turns]]\ncalls = [{{ name = \"code_execution\", arguments = {{ code = '''{code}''' }} }}]\n"
        )
    };
    let begins = writes(&[(lane, "2")]).replacen("version = 1\n", "", 1);
    let (first, last) = begins.split_once("[[worker.turns]]\n").unwrap();
    let (write, _) = last.split_once("[[worker.turns]]\n").unwrap();
    let then = if then.is_empty() { String::new() } else { runs(then) };
    format!("{first}[[worker.turns]]\n{write}{}{hands_in}{then}{hands_in}", runs(snippet))
}

const BIG: &str = "open(\"big\", \"wb\").truncate(65 << 20)";
const DEEP: &str =
    "import os\nfor _ in range(202): os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"f\", \"w\")";

// contract C17
#[test]
fn a_workspace_that_no_diff_holds_is_refused_to_its_worker_and_breaks_nothing() {
    let place = Place::new();
    let mends = "import os\nos.remove(\"big\")";
    let lanes = [beyond_all("one", BIG, mends), beyond_all("two", DEEP, "pass")];
    place.script(&format!("version = 1\n{}", lanes.concat()));
    let done = place.run(["run", "x", "-q", "--json", "--heal", "1"]).exits(0).json();
    let [one, two] = [&done["lanes"][0], &done["lanes"][1]];
    assert_eq!((&one["candidate"], &one["healed"]), (&json!("c1"), &json!(1)), "{one:#}");
    assert_eq!(done["decision"]["outcome"]["candidate"], "c1");
    assert_eq!((&two["stop"]["kind"], &two["candidate"]), (&json!("submitted"), &Value::Null));
    let why = two["why_none"].as_str().unwrap();
    assert!(why.contains("more than 200 levels") && why.len() < 400, "{why}");
    place.run(["replay"]).exits(0);
    place.nothing_left("beyond all bounds");
}

#[test]
fn where_nothing_but_too_much_was_left_no_candidate_was_made_and_that_is_no_fault_of_the_engine() {
    let place = Place::new();
    let lanes = ["one", "two"].map(|lane| beyond_all(lane, BIG, ""));
    place.script(&format!("version = 1\n{}", lanes.concat()));
    let done = place.run(["run", "x", "-q", "--json", "--heal", "0"]).exits(1).json();
    let outcome = &done["decision"]["outcome"];
    assert_eq!(
        (&outcome["kind"], &outcome["reason"]),
        (&json!("no_winner"), &json!("no_candidates"))
    );
    let text = done["decision"]["reason"].as_str().unwrap();
    assert!(text.contains("\"big\"") && text.contains("64 MiB"), "{text}");
    place.run(["replay"]).exits(0);
    place.nothing_left("too much");
}
