//! Nested workers that ask for more tool rounds than their cap (contract R26).

use super::screen::{Terminal, tmux};
use super::*;

/// A run whose nested workers have two rounds each.
fn stage(limits: &str) -> Stage {
    Stage::with(&format!("max_parallel = 2\n{limits}"), "subtask_turns = 2\n")
}

/// One that is under way, seen by nobody; both models were asked.
fn under_way(limits: &str) -> (Stage, Running) {
    let stage = stage(limits);
    let running = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    (stage, running)
}

impl Stage {
    /// A lane's model hands something on; the nested worker takes both of its rounds.
    fn delegates(&self, lane: &str) {
        let told = self.after(lane, "delegate_subtask", json!({"task": "look around"}));
        assert!(last(&told, "user").contains("at most 2 tool rounds"), "{told}");
        self.looks(lane);
        self.calls(lane, "list_dir", json!({"path": "."}));
    }

    /// A round.
    fn looks(&self, lane: &str) -> Value {
        self.after(lane, "list_dir", json!({"path": "."}))
    }

    /// The nested worker is told that it is cut off, and says so; what its parent is told.
    fn is_cut_off(&self, lane: &str) -> String {
        let told = self.asked(lane);
        assert!(last(&told, "user").starts_with("A limit of this run is reached"), "{told}");
        self.lines[lane].send(json!({"content": "so far"})).unwrap();
        last(&self.asked(lane), "tool")
    }

    /// A terminal that is attached to a lane.
    fn attached(&self, lane: &str) -> Terminal {
        let terminal = Terminal::new(&self.place);
        terminal.types(&format!("bakeoff attach {lane}"));
        terminal.shows("what it did", |screen| screen.contains(&format!("{lane} begins with")));
        terminal
    }

    fn state(&self, id: &str) -> String {
        let list = self.place.run(["jobs", "--json"]).exits(0).json();
        let cards = list["jobs"].as_array().unwrap().iter();
        let card = cards.clone().find(|card| card["id"] == id).unwrap();
        card["state"].as_str().unwrap().to_owned()
    }
}

// contract R26 together: who is attached is asked, and the answer holds
#[test]
fn who_is_attached_grants_more_rounds_or_none_and_nobody_else_is_waited_for() {
    if !tmux() {
        return;
    }
    let (stage, running) = under_way("");
    let terminal = stage.attached("one/1");
    // Nobody is attached to the other one, and the run has no terminal of its own.
    stage.delegates("two");
    let why = "Subtask 1: PARTIAL: its cap of 2 tool rounds cut it off, and nobody is there to grant more\n";
    let told = stage.is_cut_off("two");
    assert!(told.starts_with(why), "{told}");
    stage.delegates("one");
    let asks = "one/1: asks: more rounds for one/1+1 after 2? (y = 2, n, a number)";
    terminal.shows("its question", |screen| screen.replace('\n', "").contains(asks));
    assert_eq!(stage.state("one/1"), "needs_approval");
    // What is no answer is a word for the worker.
    terminal.types("mind the sign");
    terminal.shows("a word", |screen| screen.contains("s1 waits for the next turn of one/1"));
    terminal.types("1");
    let told = stage.asked("one");
    let granted =
        "The operator lets you go on: you have 1 more tool round. Submit before they are used up.";
    assert_eq!(last(&told, "user"), granted);
    assert_eq!(stage.state("one/1"), "running");
    terminal.types("y");
    terminal.shows("that it is late", |screen| screen.contains("\"y\" answers nothing"));
    stage.calls("one", "list_dir", json!({"path": "."}));
    terminal.shows("its next question", |screen| {
        screen.replace('\n', "").contains("more rounds for one/1+1 after 3?")
    });
    terminal.types("n");
    let told = stage.is_cut_off("one");
    let why = "Subtask 1: PARTIAL: its cap of 2 tool rounds, with 1 more that the operator granted, cut it off, \
               and more was asked for and not granted\n";
    assert!(told.starts_with(why), "{told}");
    LANES.iter().for_each(|lane| stage.submits(lane, "2\n"));
    let (done, events) = running.end();
    done.exits(0);
    let told: Vec<&Value> =
        events.iter().filter(|e| e["event"] == "extended").map(|e| &e["extension"]).collect();
    let record = stage.place.record();
    assert_eq!(json!(told), record["extensions"]);
    let of = |key: &str| told.iter().map(|one| one[key].as_u64().unwrap()).collect::<Vec<u64>>();
    assert_eq!((of("rounds"), of("granted")), (vec![2, 3], vec![1, 0]));
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(told[0]["from"]["uid"], user);
    stage.place.run(["show"]).exits(0).prints(&[
        "More rounds for subtasks",
        "one/1+1 asked for more than its 2 tool rounds: ",
        "granted 1",
        "granted none",
    ]);
    stage.place.run(["replay"]).exits(0);
    drop(terminal);
    stage.place.nothing_left("granted more");
}

// contract R26 together: at the run's own terminal
#[test]
fn a_run_in_a_terminal_shows_that_more_is_asked_for() {
    if !tmux() {
        return;
    }
    let stage = stage("");
    let terminal = Terminal::new(&stage.place);
    terminal.types("bakeoff run 'raise the value' > /dev/null; echo ov''er");
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.delegates("one");
    terminal
        .shows("that it asks", |screen| screen.contains("subtask 1: asks for more tool rounds"));
    let mut viewer = stage.place.bakeoff(["attach", "one"]);
    let mut viewer = viewer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    viewer.stdin.take().unwrap().write_all(b"y\n").unwrap();
    assert!(last(&stage.asked("one"), "user").contains("2 more tool rounds"));
    stage.calls("one", "submit", json!({"answer": "looked", "claims": []}));
    let told = last(&stage.asked("one"), "tool");
    assert!(told.starts_with("Subtask 1: done\n"), "{told}");
    LANES.iter().for_each(|lane| stage.submits(lane, "2\n"));
    terminal.shows("the end", |screen| screen.contains("\nover\n") && screen.contains("granted 2"));
    assert!(viewer.wait().unwrap().success());
}

// contract R26 together: only when that cap is the blocker
#[test]
fn what_another_limit_stops_as_well_asks_nothing() {
    if !tmux() {
        return;
    }
    // One of the other lane, one of the parent, two of the nested worker.
    let (stage, running) = under_way("max_turns = 4");
    let terminal = stage.attached("one/1");
    stage.delegates("one");
    let told = stage.asked("one");
    assert!(last(&told, "user").starts_with("A limit of this run is reached"), "{told}");
    stage.lines["one"].send(json!({"content": "so far"})).unwrap();
    let told = last(&stage.asked("one"), "tool");
    assert!(
        told.starts_with("Subtask 1: PARTIAL: its cap of 2 tool rounds cut it off\n"),
        "{told}"
    );
    // The other one has a last word, too.
    for lane in ["one", "two", "two"] {
        stage.lines[lane].send(json!({"content": "over"})).unwrap();
    }
    running.end();
    drop(terminal);
    assert!(stage.place.record().get("extensions").is_none());
}

// contract R26 together: an answer is asked for once, whatever becomes of the engine
#[test]
fn a_killed_run_keeps_an_answer_and_forgets_a_question() {
    if !tmux() {
        return;
    }
    let (stage, running) = under_way("");
    let terminal = stage.attached("one/1");
    stage.delegates("one");
    terminal.shows("its question", |screen| screen.contains("more rounds for one/1+1 after 2?"));
    terminal.types("1");
    let granted = stage.asked("one");
    // In the middle of the call that it was granted.
    running.signal(Signal::KILL);
    running.end();
    LANES.iter().for_each(|lane| stage.lines[lane].send(json!({"content": "too late"})).unwrap());
    let running = Running::start(stage.place.bakeoff(["resume"]));
    let again = stage.asked("one");
    assert_eq!(again["messages"], granted["messages"], "nobody is attached, and nothing is asked");
    drop(stage.asked("two"));
    let other = stage.attached("one/1");
    stage.calls("one", "list_dir", json!({"path": "."}));
    other.shows("its next question", |screen| screen.contains("more rounds for one/1+1 after 3?"));
    running.signal(Signal::KILL);
    running.end();
    stage.lines["two"].send(json!({"content": "too late"})).unwrap();
    let running = Running::start(stage.place.bakeoff(["resume"]));
    let told = stage.is_cut_off("one");
    assert!(
        told.contains("1 more that the operator granted, cut it off, and nobody is there"),
        "{told}"
    );
    drop(stage.asked("two"));
    LANES.iter().for_each(|lane| stage.submits(lane, "2\n"));
    running.end().0.exits(0);
    let record = stage.place.record();
    assert_eq!(record["extensions"].as_array().unwrap().len(), 1);
    stage.place.run(["replay"]).exits(0);
    drop((terminal, other));
    stage.place.nothing_left("granted, killed and resumed");
}

// contract R14 in part: a terminal that tells no size
#[test]
fn a_terminal_without_a_size_is_one_at_which_somebody_answers() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let (stage, running) = under_way("");
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let own = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap();
    let end = || Stdio::from(own.try_clone().unwrap());
    let mut viewer = stage.place.bakeoff(["attach", "one"]);
    let mut viewer = viewer.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop(own);
    let mut master = std::fs::File::from(master);
    let until = |master: &mut std::fs::File, words: &str| {
        let mut seen = String::new();
        while !seen.contains(words) {
            let mut bytes = [0; 4096];
            let count = master.read(&mut bytes).unwrap();
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    until(&mut master, "one/1 begins with");
    stage.delegates("one");
    until(&mut master, "more rounds for one/1+1 after 2?");
    master.write_all(b"1\n").unwrap();
    assert!(last(&stage.asked("one"), "user").contains("1 more tool round"));
    stage.calls("one", "submit", json!({"answer": "looked", "claims": []}));
    drop(stage.asked("one"));
    LANES.iter().for_each(|lane| stage.submits(lane, "2\n"));
    running.end().0.exits(0);
    until(&mut master, "one/1 is over");
    assert!(viewer.wait().unwrap().success());
}
