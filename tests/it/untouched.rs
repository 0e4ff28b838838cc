//! The user's checkout is byte for byte as it was, and nothing of a run is left, however it ends.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::support::place::{Done, Place, Running, is};

/// A gate that holds on for an hour where the file `wait` is, and says so in its command line with a
/// path of the place, by which its process can be found.
fn slow_gates(place: &Place) {
    let mark = place.dir.join("mark");
    let gate = format!("[ ! -e wait ] || sh -c 'sleep 3600; :' {}", mark.display());
    place.configure(&format!("[gates]\ncheck = {gate:?}\n"), LANE);
}

const LANE: &str = "[judges]\nenabled = false\n[lanes.one]\nmodel = \"scripted:one\"\n";

/// Ends the command by a signal at the moment that `at` waits for, and looks at what is left.
fn ended_by(
    place: &Place,
    command: Command,
    signal: Signal,
    context: &str,
    at: impl Fn(&mut Running),
) -> (Done, Vec<Value>) {
    let before = place.fingerprint();
    let mut running = Running::start(command);
    at(&mut running);
    running.signal(signal);
    let ended = running.end();
    place.nothing_alive(context);
    assert_eq!(place.fingerprint(), before, "{context}: the checkout was changed");
    ended
}

/// A stopped run has a record and a last event, which agree with the exit code.
fn stopped_well(place: &Place, signal: Signal, context: &str, (done, events): (Done, Vec<Value>)) {
    place.no_files_left(context);
    let (code, exit) =
        if signal == Signal::INT { (130, "interrupted") } else { (143, "terminated") };
    assert_eq!(done.code, Some(code), "{context}: {}", done.err);
    assert!(done.err.contains("what was done so far is in"), "{context}: {}", done.err);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"ended".into(), &exit.into()), "{context}");
    assert_eq!(place.record()["exit"], exit, "{context}");
    place.run(["show"]).exits(0).prints(&[exit]);
}

#[test]
fn success_and_failure_leave_nothing() {
    let place = Place::new();
    let (good, bad) = (place.diff("good.diff", "2"), place.diff("bad.diff", "0"));
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    place.write("untracked.txt", "mine\n");
    place.write("value.txt", "an uncommitted edit\n");
    let before = place.fingerprint();
    let commands: [(&[&str], i32); 9] = [
        (&["run", "raise the value"], 0),
        (&["run", "raise the value", "--test", "grep -qx 1 value.txt"], 1),
        (&["run", "raise the value", "--check", "no-such-program"], 4),
        (&["run", "raise the value", "--dirty", "--no-check"], 0),
        (&["pick", good, bad], 0),
        (&["pick", bad], 4),
        (&["gate", good], 0),
        (&["gate", bad, good], 4),
        (&["run", "raise the value", "--dry-run"], 0),
    ];
    for (args, code) in commands {
        let context = format!("{args:?}");
        let done = place.run(args);
        assert_eq!(done.code, Some(code), "{context}: {}\n{}", done.out, done.err);
        assert_eq!(place.fingerprint(), before, "{context}: the checkout was changed");
        place.nothing_left(&context);
    }
}

#[test]
fn a_signal_during_the_bases_gates() {
    let place = Place::new();
    place.write("wait", "");
    place.commit("wait");
    slow_gates(&place);
    let diff = place.diff("good.diff", "2");
    for signal in [Signal::INT, Signal::TERM] {
        for args in [
            vec!["run", "x"],
            vec!["pick", diff.to_str().unwrap()],
            vec!["gate", diff.to_str().unwrap()],
        ] {
            let context = format!("{args:?}, {signal:?}");
            let ended = ended_by(&place, place.bakeoff(&args), signal, &context, |running| {
                running.until(is("gate_began"));
            });
            stopped_well(&place, signal, &context, ended);
        }
    }
}

#[test]
fn a_signal_while_workers_work() {
    let place = Place::with_slow_model();
    for signal in [Signal::INT, Signal::TERM] {
        let context = format!("{signal:?}");
        let ended = ended_by(&place, place.bakeoff(["run", "x"]), signal, &context, |running| {
            running.until(is("lane_began"));
        });
        let stops: Vec<&Value> =
            ended.1.iter().filter(|event| event["event"] == "lane_ended").collect();
        assert_eq!(stops.len(), 2, "every lane's end is told once: {stops:?}");
        stopped_well(&place, signal, &context, ended);
    }
}

#[test]
fn a_signal_during_the_candidates_gates() {
    let place = Place::new();
    slow_gates(&place);
    let wait = place.dir.join("wait.diff");
    std::fs::write(&wait, "--- /dev/null\n+++ b/wait\n@@ -0,0 +1 @@\n+x\n").unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        for command in ["pick", "gate"] {
            let context = format!("{command}, {signal:?}");
            let command = place.bakeoff([command, wait.to_str().unwrap()]);
            let ended = ended_by(&place, command, signal, &context, |running| {
                running.until(|event| event["event"] == "gate_began" && event["candidate"] == "c1");
            });
            stopped_well(&place, signal, &context, ended);
        }
    }
}

#[test]
fn a_signal_while_judges_think() {
    let place = super::commands::judged();
    let script = std::fs::read_to_string(place.dir.join("script.toml")).unwrap();
    place.script(&script.replace("[judge.reply]\n", "[judge.reply]\ndelay_ms = 3600000\n"));
    for signal in [Signal::INT, Signal::TERM] {
        let context = format!("{signal:?}");
        let ended = ended_by(&place, place.bakeoff(["run", "x"]), signal, &context, |running| {
            running.until(|event| event["event"] == "stage_began" && event["stage"] == "judge");
        });
        stopped_well(&place, signal, &context, ended);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::with_slow_model();
    let before = place.fingerprint();
    let mut running = Running::start(place.bakeoff(["run", "x"]));
    running.until(is("lane_began"));
    running.signal(Signal::TERM);
    running.signal(Signal::INT);
    let (done, _) = running.end();
    assert!([130, 143].contains(&done.code.unwrap()), "{done:?}");
    place.nothing_alive("two signals");
    assert_eq!(place.fingerprint(), before);
}

#[test]
fn a_signal_right_at_the_start() {
    let place = Place::new();
    let context = "at the start";
    let ended = ended_by(&place, place.bakeoff(["run", "x"]), Signal::TERM, context, |running| {
        running.until(is("started"));
    });
    stopped_well(&place, Signal::TERM, context, ended);
}

// contract C10
#[test]
fn a_killed_engine_leaves_no_process_and_the_next_run_sweeps_its_files() {
    let place = Place::new();
    slow_gates(&place);
    let wait = place.dir.join("wait.diff");
    std::fs::write(&wait, "--- /dev/null\n+++ b/wait\n@@ -0,0 +1 @@\n+x\n").unwrap();
    let command = place.bakeoff(["gate", wait.to_str().unwrap()]);
    let (done, _) = ended_by(&place, command, Signal::KILL, "killed in a gate", |running| {
        running.until(|event| event["event"] == "gate_began" && event["candidate"] == "c1");
    });
    assert_eq!(done.code, None, "it was killed");
    place.run(["show"]).exits(2).says(&["was cut off", "journal.jsonl"]);
    let slow = Place::with_slow_model();
    ended_by(&slow, slow.bakeoff(["run", "x"]), Signal::KILL, "killed in the fan-out", |running| {
        running.until(is("lane_began"));
    });
    for place in [place, slow] {
        let diff = place.diff("good.diff", "2");
        place.run(["gate", diff.to_str().unwrap()]).exits(0);
        for sub in ["lanes", "gates", "leases"] {
            let killed = place.runs()[0].join(sub);
            let left = std::fs::read_dir(&killed).map_or(0, |entries| entries.count());
            assert_eq!(left, 0, "{} was not swept", killed.display());
        }
    }
}
