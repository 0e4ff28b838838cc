//! The operator's side of running runs: list, attach, stop, probe, steer. The models are a server that
//! answers when the test says so, the jobs are real.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::resume::{answer, said, untied};
use super::support::place::{Done, PATIENCE, Place, Running, is, output_of};
use super::support::server::{Reply, Request, Server};

mod more;
mod screen;
mod shell;

/// A place whose models answer when they are told to.
struct Stage {
    place: Place,
    server: Server,
    /// What each model says next.
    lines: BTreeMap<&'static str, Sender<Value>>,
    /// The requests that came in, by model.
    asked: BTreeMap<&'static str, Receiver<Value>>,
}

const LANES: [&str; 2] = ["one", "two"];

impl Stage {
    fn new() -> Self {
        Self::with("max_parallel = 2", "")
    }

    /// With these `[limits]`, and more settings.
    fn with(limits: &str, more: &str) -> Self {
        let (mut lines, mut asked, mut ways) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for lane in LANES {
            let ((say, said), (ask, heard)) = (channel::<Value>(), channel::<Value>());
            lines.insert(lane, say);
            asked.insert(lane, heard);
            ways.insert(lane, Arc::new((Mutex::new(said), Mutex::new(ask))));
        }
        let server = Server::start(move |request| {
            let body = request.json();
            // Who judges, and who gives titles, is no part of the conversation.
            let Some(way) = ways.get(body["model"].as_str().unwrap()).cloned() else {
                return beside(request);
            };
            // One who asks again while nobody listens is an engine that was killed.
            way.1.lock().unwrap().send(body.clone()).ok();
            let message = way.0.lock().unwrap().recv().unwrap_or(json!({"content": "gone"}));
            said(&body, message)
        });
        let place = Place::new();
        let judges = if more.contains("[judges]") { "" } else { "[judges]\nenabled = false\n" };
        place.config(&format!(
            "[providers.own]\nwire = \"openai-chat\"\nbase_url = \"{}/v1\"\nkey_env = \"\"\n\
             [gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n{judges}\
             [limits]\n{limits}\n[workers]\nheal_rounds = 0\n{more}\n[lanes.one]\nmodel = \"own:one\"\n\
             [lanes.two]\nmodel = \"own:two\"\n",
            server.url()
        ));
        Self { place, server, lines, asked }
    }

    fn start(&self) -> Running {
        Running::start(self.place.bakeoff(["run", "raise the value"]))
    }

    /// The next request of a lane's model.
    #[track_caller]
    fn asked(&self, lane: &str) -> Value {
        self.asked[lane].recv_timeout(PATIENCE).expect("the model is asked")
    }

    /// A lane's model makes a call.
    fn calls(&self, lane: &str, name: &str, arguments: Value) {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!([{"id": "call", "type": "function", "function": function}]);
        let message = json!({"role": "assistant", "content": null, "tool_calls": call});
        self.lines[lane].send(message).unwrap();
    }

    /// A lane's model makes a call; what it is told of it, and with it.
    #[track_caller]
    fn after(&self, lane: &str, name: &str, arguments: Value) -> Value {
        self.calls(lane, name, arguments);
        self.asked(lane)
    }

    /// A lane's model starts a job that follows the value.
    #[track_caller]
    fn follows(&self, lane: &str) -> String {
        let follow = json!({"command": "tail -f value.txt", "background": true});
        let told = last(&self.after(lane, "run_bash", follow), "tool");
        told.split("started job ").nth(1).unwrap().split('.').next().unwrap().to_owned()
    }

    fn submits(&self, lane: &str, value: &str) {
        self.after(lane, "write_file", json!({"path": "value.txt", "content": value}));
        self.calls(lane, "submit", json!({"answer": "done", "claims": []}));
    }

    fn child(&self, args: &[&str]) -> Child {
        self.place.bakeoff(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The ids that `jobs` lists.
    fn listed(&self, args: &[&str]) -> Vec<String> {
        let list = self.place.run([&["jobs", "--json"], args].concat()).exits(0).json();
        let ids = list["jobs"].as_array().unwrap().iter();
        ids.map(|card| card["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// What a judge says, or the model of the side calls.
fn beside(request: &Request) -> Reply {
    let body = request.json();
    match body["model"].as_str() {
        Some("side") => said(&body, json!({"role": "assistant", "content": "Raise it higher."})),
        _ => answer(request),
    }
}

/// The text of the last message with this role.
fn last(request: &Value, role: &str) -> String {
    let messages = request["messages"].as_array().unwrap();
    let found = messages.iter().rev().find(|message| message["role"] == role).unwrap();
    found["content"].as_str().unwrap().to_owned()
}

fn ended(child: Child) -> Done {
    Done::of_child(child)
}

// contract R1, R2, R3, R6
// contract R5 in part: a worker's job takes no model's place; the operator's shells are tested with them
// contract R10 together: that the operator's own live on is tested with them
// contract R11 together: that a text to a shell goes to its input is tested with one
#[test]
fn one_list_has_workers_and_jobs_and_one_id_reads_and_stops_each() {
    let stage = Stage::new();
    let mut running = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    // Both models work although a job of the first one's runs: jobs don't count as model runs.
    assert_eq!((stage.follows("one"), stage.follows("two")), ("one/1#1".into(), "two/1#1".into()));
    assert_eq!(stage.listed(&[]), ["one/1", "one/1#1", "two/1", "two/1#1"]);
    stage.place.run(["jobs"]).exits(0).prints(&[
        "background\n",
        "worker",
        "job",
        "tail -f value.txt",
    ]);
    // Who attaches gets what was written and what comes, until the end.
    let mut viewer = stage.child(&["attach", "one/1#1"]);
    let mut lines = BufReader::new(viewer.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
    let before = stage.server.requests().len();
    let probe = stage.place.run(["probe", "--json"]).exits(0).json();
    assert_eq!(probe["lanes"]["one/1"]["turn"], 2);
    assert_eq!(stage.server.requests().len(), before, "no model is asked");
    stage.place.run(["stop", "one/1#1"]).exits(0).prints(&["one/1#1: killed"]);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    ended(viewer).exits(0).says(&["one/1#1 is over: killed"]);
    assert_eq!(rest, "");
    assert_eq!(stage.listed(&[]), ["one/1", "two/1", "two/1#1"]);
    assert_eq!(stage.listed(&["--all"]), ["one/1", "one/1#1", "two/1", "two/1#1"]);
    stage.place.run(["attach", "one/1#1"]).exits(0).prints(&["1\n"]).says(&["is over: killed"]);
    stage.place.run(["stop", "one/1#1"]).exits(0).prints(&["had ended before"]);
    // Its worker is told of that end, once.
    let told = stage.after("one", "list_dir", json!({"path": "."}));
    assert!(last(&told, "user").contains("job one/1#1 ended: killed"), "{told}");
    // A worker takes its jobs with it, and no other's.
    assert_eq!(stage.follows("one"), "one/1#2");
    stage.place.run(["stop", "latest", "one/1"]).exits(0).prints(&["one/1: PARTIAL (cancelled)"]);
    assert_eq!(stage.listed(&[]), ["two/1", "two/1#1"]);
    running.until(is("lane_ended"));
    stage.submits("two", "2\n");
    let (done, events) = running.end();
    done.exits(0);
    let record = stage.place.record();
    assert_eq!(record["lanes"][0]["stop"]["kind"], "cancelled");
    assert_eq!(record["lanes"][0]["jobs_ended"], 1);
    let of_first = |event: &&Value| event["card"]["id"] == "one/1#1";
    let states: Vec<&Value> =
        events.iter().filter(of_first).map(|event| &event["card"]["state"]).collect();
    assert_eq!(states, ["running", "ended"]);
    stage.place.nothing_left("stopped in parts");
}

// contract R5
#[test]
fn a_worker_that_waits_has_a_row_takes_words_and_begins_when_a_place_is_free() {
    let stage = Stage::with("max_parallel = 1", "");
    let mut running = stage.start();
    drop(stage.asked("one"));
    assert_eq!(stage.listed(&[]), ["one/1", "two/1"]);
    stage.place.run(["jobs"]).exits(0).prints(&["waiting"]);
    // The operator's command goes on when the next worker begins, and takes no place of it.
    let shell = ["shell", "--lane", "one", "--detach", "--", "exec sleep 1000"];
    stage.place.run(shell).exits(0).says(&["shell#1 is started"]);
    let viewer = stage.child(&["attach", "two"]);
    stage.place.run(["steer", "--no-wait", "two", "mind the sign"]).exits(0);
    stage.submits("one", "2\n");
    assert_eq!(words(&stage.asked("two")).len(), 1);
    assert_eq!(stage.listed(&[]), ["shell#1", "two/1"]);
    // By the lane's name, as everywhere, also in front of a job's number.
    assert_eq!(stage.follows("two"), "two/1#1");
    stage.place.run(["stop", "latest", "two#1"]).exits(0).prints(&["two/1#1: killed"]);
    stage.submits("two", "3\n");
    running.until(is("admitted"));
    let begun = running.events.iter().filter(|event| event["event"] == "lane_began").count();
    running.end().0.exits(0);
    assert_eq!(begun, 2);
    ended(viewer).exits(0).prints(&["two/1 begins with"]).says(&["two/1: waiting", "is over"]);
    stage.place.nothing_left("a lane that waited");
}

#[test]
fn a_worker_that_is_stopped_while_it_waits_never_begins() {
    let stage = Stage::with("max_parallel = 1", "");
    let running = stage.start();
    drop(stage.asked("one"));
    stage.place.run(["steer", "--no-wait", "two", "mind the sign"]).exits(0);
    // No run is called so: the lane is meant.
    stage.place.run(["stop", "two"]).exits(0).prints(&["two/1: stopped before it began"]);
    stage
        .place
        .run(["stop", "too"])
        .exits(2)
        .says(&["in the newest run", "there are one/1, two/1"]);
    assert_eq!(stage.listed(&[]), ["one/1"]);
    stage.place.run(["steer", "two", "x"]).exits(1).says(&["two/1 has ended"]);
    stage.submits("one", "2\n");
    let (done, events) = running.end();
    done.exits(0);
    let of_two = events.iter().filter(|event| event["lane"] == "two/1");
    let kinds: Vec<&Value> = of_two.map(|event| &event["event"]).collect();
    assert_eq!(kinds, ["lane_ended"]);
    assert!(stage.asked["two"].try_recv().is_err(), "nobody asked its model");
    let record = stage.place.record();
    assert_eq!(record["lanes"][1]["stop"]["kind"], "cancelled");
    assert_eq!(record["steers"][0]["fate"], "missed");
    stage.place.run(["replay"]).exits(0);
}

#[test]
fn before_there_are_workers_the_operator_is_told_so_and_can_end_the_run() {
    let stage = Stage::with("max_parallel = 2", "");
    let settings = stage.place.dir.join("config/bakeoff/config.toml");
    let slow = std::fs::read_to_string(&settings).unwrap().replace("sh check.sh", "sleep 1000");
    stage.place.config(&slow);
    let mut running = stage.start();
    running.until(is("gate_began"));
    for args in [&["stop", "one/1"][..], &["attach", "one"], &["steer", "one", "x"]] {
        stage.place.run(args).exits(2).says(&["no worker of the run has begun", "stage workers"]);
    }
    let shell = stage.place.run(["shell", "--lane", "one", "--", "true"]);
    shell.exits(125).says(&["no lane has a workspace now"]);
    assert!(stage.listed(&["--all"]).is_empty());
    stage.place.run(["stop"]).exits(0).prints(&["stopping"]);
    running.end().0.exits(130);
    stage.place.nothing_left("ended before its workers");
}

// contract C32
// contract C26 together: the operator's word
#[test]
fn the_operators_word_is_read_in_the_next_turn_or_comes_back_as_missed() {
    let stage = Stage::new();
    let mut running = stage.start();
    let first = stage.asked("one");
    drop(stage.asked("two"));
    let steer = stage.place.run(["steer", "--no-wait", "--json", "one", "mind\nthe sign"]);
    let steer = steer.exits(0).json()["steer"].clone();
    assert_eq!((&steer["id"], &steer["fate"]), (&json!("s1"), &json!("waiting")));
    let second = stage.after("one", "list_dir", json!({"path": "."}));
    let user = rustix::process::geteuid().as_raw();
    let word = last(&second, "user");
    assert!(
        word.starts_with("OPERATOR STEERING s1 from ")
            && word.contains(&format!("uid {user}):\n\nmind\nthe sign\n")),
        "{word}"
    );
    // One who waits is told when the model has answered.
    let waiting = stage.child(&["steer", "latest", "one/1", "and the tests"]);
    running.until(|event| event["event"] == "steered" && event["steer"]["id"] == "s2");
    let third = stage.after("one", "list_dir", json!({"path": "."}));
    assert!(last(&third, "user").contains("and the tests"));
    let fourth = stage.after("one", "write_file", json!({"path": "value.txt", "content": "2\n"}));
    ended(waiting).exits(0).prints(&["s2: one/1 read it in turn 3"]);
    let parts = [&first, &second, &third, &fourth]
        .map(|request| request["messages"].as_array().unwrap().clone());
    assert!(parts.windows(2).all(|pair| pair[1].starts_with(&pair[0])), "{parts:?}");
    // What comes in the last turn is missed, and its sender is told.
    let late = stage.child(&["steer", "one/1", "wait"]);
    running.until(|event| event["event"] == "steered" && event["steer"]["id"] == "s3");
    stage.calls("one", "submit", json!({"answer": "done", "claims": []}));
    ended(late).exits(1).says(&["missed: one/1 ended before its next turn"]);
    stage.place.run(["steer", "one/1", "x"]).exits(1).says(&["missed: one/1 has ended"]);
    stage.place.run(["steer", "three", "x"]).exits(2).says(&["no lane is called", "one/1, two/1"]);
    stage.submits("two", "3\n");
    running.end().0.exits(0);
    let record = stage.place.record();
    let fates: Vec<&Value> =
        record["steers"].as_array().unwrap().iter().map(|steer| &steer["fate"]).collect();
    assert_eq!(fates, ["told", "told", "missed"]);
    stage.place.run(["show"]).exits(0).prints(&[
        "Operator steering",
        "s1 to one/1 by",
        "mind the sign",
        "missed",
    ]);
    stage.place.run(["steer", "one", "x"]).exits(2).says(&["the run is not going on"]);
    stage.place.run(["replay"]).exits(0);
    stage.place.nothing_left("steered");
}

// contract C3 in part: the operator's command says so
#[test]
fn a_stop_that_is_not_proven_fails_and_names_what_may_be_alive() {
    let place = Place::new();
    place.run(["run", "raise the value"]).exits(0);
    // Its engine is the test's: a process that outlives a kill can't be had from the sandbox.
    let socket = place.runs()[0].join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let engine = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let report =
            json!({"how": "killed", "survivors": ["sleep (process 7)", "make (process 9)"]});
        let answer = json!({"answer": "stopped", "id": "one/1#1", "report": report});
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        serde_json::from_str::<Value>(&request).unwrap()
    });
    let done = place.run(["stop", "one/1#1"]).exits(1);
    done.says(&["one/1#1 was told to stop", "may be alive: sleep (process 7), make (process 9)"]);
    let request = engine.join().unwrap();
    assert_eq!(request, json!({"ask": "stop", "id": "one/1#1", "protocol": 1}));
}

/// The user's texts of a request that are the operator's words to a worker under way.
fn words(request: &Value) -> Vec<String> {
    let texts = request["messages"].as_array().unwrap().iter().filter(|one| one["role"] == "user");
    let texts = texts.map(|one| one["content"].as_str().unwrap().to_owned());
    texts.filter(|text| text.starts_with("OPERATOR STEERING ")).collect()
}

// contract C26 together: what is journaled first is the same after a resume
#[test]
fn a_killed_run_tells_each_word_once_and_asks_nothing_else() {
    let stage = Stage::new();
    // What is secret of them stands in no file, and is told all the same.
    let (name, secret) = ("X_TOKEN", "tokval-55667788");
    let knowing = |args: [&str; 2]| {
        let mut command = stage.place.bakeoff(args);
        command.env(name, secret);
        command
    };
    let mut running = Running::start(knowing(["run", "raise the value"]));
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.place.run(["steer", "--no-wait", "one", &format!("first {secret}")]).exits(0);
    let request = stage.after("one", "list_dir", json!({"path": "."}));
    assert_eq!(words(&request).len(), 1);
    // The second one is kept and not yet told when the engine dies, in the middle of two calls.
    stage.place.run(["steer", "--no-wait", "one", &format!("second {secret}")]).exits(0);
    running.until(|event| event["steer"]["id"] == "s2");
    running.signal(Signal::KILL);
    running.end();
    stage.place.nothing_alive("killed");
    // Those who still answer the dead engine.
    LANES.iter().for_each(|lane| stage.lines[lane].send(json!({"content": "too late"})).unwrap());
    stage.place.run(["resume", "-q"]).exits(2).says(&["said to one/1 (s1)", "no record keeps"]);
    let running = Running::start(knowing(["resume", "latest"]));
    let again = stage.asked("one");
    assert_eq!(
        again["messages"], request["messages"],
        "the call in flight is made again as it was"
    );
    drop(stage.asked("two"));
    let next = stage.after("one", "list_dir", json!({"path": "."}));
    let told = words(&next);
    assert!(told.len() == 2 && told[1].contains(&format!("second {secret}")), "{told:?}");
    stage.submits("one", "2\n");
    stage.submits("two", "3\n");
    running.end().0.exits(0);
    let record = stage.place.record();
    let turns: Vec<&Value> =
        record["steers"].as_array().unwrap().iter().map(|steer| &steer["turn"]).collect();
    assert_eq!(turns, [2, 3]);
    stage.place.run(["replay"]).exits(0);
    stage.place.nothing_left("steered and resumed");
}

#[test]
fn a_run_that_was_stopped_and_goes_on_has_one_beginning_and_the_time_of_both_engines() {
    let stage = Stage::new();
    let running = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.place.run(["stop"]).exits(0);
    running.end().0.exits(130);
    let before = stage.place.record();
    // As if it had worked for longer than the next one will.
    let path = stage.place.runs()[0].join("journal.jsonl");
    let journal = untied(&std::fs::read_to_string(&path).unwrap());
    let millis = format!("\"millis\":{}}}", before["millis"]);
    assert_eq!(journal.matches(&millis).count(), 1, "{journal}");
    std::fs::write(&path, journal.replace(&millis, "\"millis\":90000000}")).unwrap();
    LANES.iter().for_each(|lane| stage.lines[lane].send(json!({"content": "too late"})).unwrap());
    let running = Running::start(stage.place.bakeoff(["resume"]));
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.submits("one", "2\n");
    stage.submits("two", "3\n");
    let (done, events) = running.end();
    done.exits(0);
    let record = stage.place.record();
    assert!(record["millis"].as_u64() >= Some(90_000_000), "{}", record["millis"]);
    assert_eq!(events.last().unwrap()["millis"], record["millis"]);
    assert_eq!(record["started"], before["started"]);
    stage.place.run(["show"]).exits(0).prints(&["25 h", "killed is not known"]);
}

#[test]
fn two_runs_at_once_are_apart_and_the_newest_is_meant() {
    let stage = Stage::new();
    let mut first = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    let id = |running: &mut Running| {
        running.until(is("lane_began"));
        running.events[0]["run"].as_str().unwrap().to_owned()
    };
    let one = id(&mut first);
    assert_eq!(stage.follows("one"), "one/1#1");
    let mut second = Running::start(stage.place.bakeoff(["run", "raise it again"]));
    let two = id(&mut second);
    // Requests of the second one wait behind those of the first one at its models.
    assert_eq!(stage.listed(&[&one]), ["one/1", "one/1#1", "two/1"]);
    let newest = stage.listed(&[]);
    assert!(!newest.contains(&"one/1#1".to_owned()), "{newest:?}");
    stage.place.run(["stop", "one/1#1"]).exits(2).says(&["nothing is called \"one/1#1\""]);
    stage.place.run(["stop"]).exits(0).prints(&["stopping"]);
    second.end().0.exits(130);
    assert_eq!(stage.listed(&[&one]), ["one/1", "one/1#1", "two/1"], "the other one goes on");
    stage.place.run(["jobs", &two]).exits(2).says(&[
        "the run is not going on",
        "these go on",
        &one,
    ]);
    let too_short = stage.place.run(["jobs", &one[one.len() - 3..]]).exits(2);
    too_short.says(&["is too short for a run: give at least 4 characters"]);
    let end = &one[one.len() - 5..];
    let too_short = stage.place.run(["stop", end]).exits(2);
    too_short.says(&["is too short for a run that is to be stopped", "at least 6 characters"]);
    stage.place.run(["stop", end, "one/1#1"]).exits(2).says(&["at least 6 characters"]);
    assert_eq!(stage.listed(&[end]), ["one/1", "one/1#1", "two/1"], "it goes on");
    stage.place.run(["stop", &one[one.len() - 6..]]).exits(0).prints(&["stopping"]);
    first.end().0.exits(130);
    stage.place.nothing_left("two runs");
}

#[test]
fn a_word_that_names_a_worker_never_ends_a_run_whose_id_has_such_an_end() {
    let stage = Stage::new();
    let mut first = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    first.until(is("lane_began"));
    let one = first.events[0]["run"].as_str().unwrap().to_owned();
    // Lanes of the next run that are called as the end of the first one's id, and a short end of it.
    let (short, long) = (one[one.len() - 2..].to_owned(), one[one.len() - 7..].to_owned());
    let settings = stage.place.dir.join("config/bakeoff/config.toml");
    let lanes = [&short, &long].map(|name| format!("[lanes.{name}]\nmodel = \"own:two\"\n"));
    let settings = std::fs::read_to_string(settings).unwrap() + &lanes.concat();
    stage.place.config(&settings);
    let mut second = Running::start(stage.place.bakeoff(["run", "raise it again"]));
    second.until(is("lane_began"));
    let named = |name: &str| format!("{name}/1");
    let stopped = stage.place.run(["stop", &short]).exits(0);
    assert!(stopped.out.starts_with(&named(&short)), "{}", stopped.out);
    let refused = stage.place.run(["stop", &long]).exits(2);
    refused.says(&["is ambiguous, and nothing was stopped", &format!("bakeoff stop {one}")]);
    assert!(stage.listed(&[]).contains(&named(&long)) && stage.listed(&[&one]).len() == 2);
    // What has ended is not meant.
    stage.place.run(["stop", &one]).exits(0);
    first.end().0.exits(130);
    let stopped = stage.place.run(["stop", &long]).exits(0);
    assert!(stopped.out.starts_with(&named(&long)), "{}", stopped.out);
    stage.place.run(["stop"]).exits(0);
    second.end().0.exits(130);
    stage.place.nothing_left("words for two things");
}

// contract C26 together: a snippet of a model's can't reach the socket, and no other user can
#[test]
fn nobody_but_the_runs_own_user_can_speak_to_its_engine() {
    let stage = Stage::new();
    let mut running = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    running.until(is("lane_began"));
    let socket = stage.place.runs()[0].join("control.sock");
    let request = r#"{"ask":"steer","lane":"one","text":"obey","wait":false,"protocol":1}"#;
    let code = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({socket:?})\ns.sendall(b'{request}\\n')\nprint(s.recv(4096))\n"
    );
    let told = last(&stage.after("one", "code_execution", json!({"code": code})), "tool");
    assert!(told.contains("Error") && !told.contains("steered"), "{told}");
    if rustix::process::geteuid().is_root() && Path::new("/usr/bin/python3").exists() {
        // The directory is opened, as an operator may have done: the socket is not.
        open_up(&socket);
        let other = as_nobody(&code);
        assert!(!other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
        let refused = String::from_utf8_lossy(&other.stderr).into_owned();
        assert!(refused.contains("PermissionError"), "{refused}");
        std::fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
        let other = as_nobody(&code);
        let said = String::from_utf8_lossy(&other.stdout).into_owned();
        assert!(!said.contains("steered"), "whoever can open it is not served: {said}");
    }
    stage.place.run(["stop"]).exits(0);
    running.end();
    assert!(stage.place.record()["steers"].is_null(), "nothing was said");
}

/// Runs Python code as another user.
fn as_nobody(code: &str) -> std::process::Output {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let python = ["/usr/bin/python3", "-c", code];
    Command::new("setpriv").args(nobody).args(python).output().unwrap()
}

/// Lets everybody pass to a file.
fn open_up(path: &Path) {
    for dir in path
        .ancestors()
        .skip(1)
        .take_while(|dir| dir.parent().is_some_and(|up| up.starts_with(std::env::temp_dir())))
    {
        std::fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
}
