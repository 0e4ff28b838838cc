//! Submissions that are gated before they stand: each tree once, whoever asks.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::support::place::{Place, Running, is, writes};

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
fn stands(place: &Place, record: &Value, events: &[Value], stop: &Value, word: &str) {
    let (lane, row) = (&record["lanes"][0], &record["candidates"][0]);
    assert_eq!(
        (&lane["stop"], &lane["healed"], &lane["candidate"]),
        (stop, &1.into(), &"c1".into())
    );
    let ended = events.iter().find(|e| is("lane_ended")(e) && e["lane"] == "one/1").unwrap();
    assert_eq!((&ended["stop"], &ended["left_change"]), (stop, &true.into()));
    let one = &row["candidate"];
    assert_eq!((&one["stop"]["kind"], &one["answer"]), (&"submitted".into(), &"done".into()));
    let gates: Vec<&str> = row["gates"].as_array().unwrap().iter().map(verdict).collect();
    assert_eq!(gates, ["pass", "fail", "skipped"], "as it was handed in, not as it was left");
    assert_eq!(record["decision"]["outcome"]["candidate"], "c2");
    let diff = place.run(["diff", "--candidate", "c1"]).exits(0).out;
    assert!(diff.ends_with("-1\n+many\n"), "{diff}");
    place.run(["show"]).exits(0).prints(&[word, "what it had handed in before stands"]);
    place.run(["replay"]).exits(0);
    place.nothing_left("cut off in a round");
}

fn verdict(gate: &Value) -> &str {
    gate["verdict"]["kind"].as_str().unwrap()
}

// contract R23 R24
#[test]
fn what_was_handed_in_stands_when_a_limit_ends_the_round_behind_it() {
    // contract C17 in part: within its budget
    let place = Place::new();
    place.script(&sent_back(&format!("{MENDS}[[worker.turns]]\ntext = \"so far\"\n")));
    let args = ["run", "x", "--heal", "5", "--lane-turns", "3"];
    let (done, events) = Running::start(place.bakeoff(args)).end();
    let record = place.record();
    let stop = json!({"kind": "limit", "limit": "iterations"});
    stands(&place, &record, &events, &stop, "PARTIAL (iterations)");
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
    let record = place.record();
    stands(&place, &record, &events, &json!({"kind": "cancelled"}), "PARTIAL (cancelled)");
}
