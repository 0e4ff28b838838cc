//! Runs that were cut off go on, and nothing is paid twice; finished ones are replayed and judged anew.
//! The models are a server of the tests' own, which counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::place::{Done, Place, Running, is};
use super::support::server::{Reply, Request, Server};

/// Requests of a run that is not cut off: four turns of two lanes, and two orders of one pair.
pub(super) const CALLS: usize = 10;

/// A place whose models are a server, and the server.
pub(super) struct Bench {
    pub(super) place: Place,
    pub(super) server: Server,
    /// The request at which an engine is killed, counted from 1; 0 for none.
    deadly: Arc<AtomicUsize>,
    victim: Arc<Mutex<Option<Pid>>>,
    /// A variable more in the environment of its commands, and its value.
    known: Mutex<Option<(String, String)>>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::answering(answer)
    }

    /// One whose models answer in their own way.
    pub(super) fn answering(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let place = Place::new();
        let (deadly, victim) = (Arc::<AtomicUsize>::default(), Arc::new(Mutex::new(None::<Pid>)));
        let (at, whom, count) = (deadly.clone(), victim.clone(), AtomicUsize::new(0));
        let server = Server::start(move |request| {
            let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
            if nth == at.load(Ordering::SeqCst)
                && let Some(pid) = whom.lock().unwrap().take()
            {
                kill_process(pid, Signal::KILL).unwrap();
            }
            answer(request)
        });
        let bench = Self { place, server, deadly, victim, known: Mutex::default() };
        bench.configure(&bench.server.url(), "");
        bench
    }

    pub(super) fn configure(&self, url: &str, rest: &str) {
        self.place.config(&format!(
            "[providers.own]\nwire = \"openai-chat\"\nbase_url = \"{url}/v1\"\nkey_env = \"OWN_KEY\"\n\
             [gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n\
             [judges]\nuse = [\"correctness\"]\nmodels = [\"own:judge\"]\n\
             [lanes.one]\nmodel = \"own:one\"\n[lanes.two]\nmodel = \"own:two\"\n{rest}"
        ));
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.place.bakeoff(args);
        command.env("OWN_KEY", "own-key-5d1f0c").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(self.known.lock().unwrap().clone());
        command.spawn().unwrap()
    }

    /// From now on its commands know a secret, or none.
    pub(super) fn knows(&self, secret: Option<&str>) {
        *self.known.lock().unwrap() =
            secret.map(|secret| ("X_TOKEN".to_owned(), secret.to_owned()));
    }

    pub(super) fn run(&self, args: &[&str]) -> Done {
        Done::of_child(self.start(args))
    }

    /// Runs a command that is killed when the server gets its `nth` request from now on.
    pub(super) fn killed_at(&self, args: &[&str], nth: usize) -> Done {
        let mut victim = self.victim.lock().unwrap();
        let child = self.start(args);
        *victim = Some(Pid::from_child(&child));
        self.deadly.store(self.asked() + nth, Ordering::SeqCst);
        drop(victim);
        let done = Done::of_child(child);
        self.deadly.store(0, Ordering::SeqCst);
        done
    }

    /// How many requests there were.
    pub(super) fn asked(&self) -> usize {
        self.server.requests().len()
    }

    /// How many requests spoke of a task: those of an engine that was killed may come late.
    pub(super) fn asked_about(&self, task: &str) -> usize {
        let speaks = |request: &&Request| request.json().to_string().contains(task);
        self.server.requests().iter().filter(speaks).count()
    }

    pub(super) fn newest(&self) -> PathBuf {
        self.place.runs().pop().unwrap()
    }
}

pub(super) const RUN: [&str; 4] = ["run", "raise the value", "--no-synth", "-q"];

/// The models: each lane looks, writes its value, looks again and submits; the judge likes the larger.
pub(super) fn answer(request: &Request) -> Reply {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let turns = messages.iter().filter(|message| message["role"] == "assistant").count();
    let value = match body["model"].as_str().unwrap() {
        "judge" => return said(&body, json!({"role": "assistant", "content": verdict(messages)})),
        "one" => "2000000000000\n",
        _ => "3000000000000\n",
    };
    let (name, arguments) = match turns {
        0 => ("list_dir", json!({"path": "."})),
        1 => ("write_file", json!({"path": "value.txt", "content": value})),
        2 => ("read_file", json!({"path": "value.txt"})),
        _ => ("submit", json!({"answer": "done", "claims": []})),
    };
    called(&body, turns, name, &arguments)
}

/// An answer that calls one tool, in the turn with this number.
pub(super) fn called(body: &Value, turn: usize, name: &str, arguments: &Value) -> Reply {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let calls = json!([{"id": format!("call-{turn}"), "type": "function", "function": function}]);
    said(body, json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

pub(super) fn said(body: &Value, message: Value) -> Reply {
    let why = if message["tool_calls"].is_null() { "stop" } else { "tool_calls" };
    let answer = json!({
        "id": "a", "object": "chat.completion", "created": 0, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": why}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    });
    Reply::json(200, &answer.to_string())
}

pub(super) fn verdict(messages: &[Value]) -> String {
    let question = messages.last().unwrap()["content"].as_str().unwrap();
    let nonce = question.rsplit("\"nonce\": \"").next().unwrap().split('"').next().unwrap();
    let (first, _) = question.split_once("\n# SECOND\n").unwrap();
    let liked = "+3000000000000";
    let first = first.split_once("\n# FIRST\n").unwrap().1;
    let choice = if first.contains(liked) { "first" } else { "second" };
    json!({"nonce": nonce, "choice": choice, "reason": "It is larger.", "evidence": [liked], "vetoes": []})
        .to_string()
}

pub(super) fn record(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap()
}

/// What of a record must not depend on how often the run was cut off.
pub(super) fn decided(record: &Value) -> Value {
    let row = |row: &Value| {
        json!({
            "tree": row["admission"]["tree"], "lane": row["candidate"]["lane"], "same_as": row["same_as"],
            "applied": row["applied"], "score": row["score"], "usage": row["candidate"]["usage"],
            "gates": row["gates"].as_array().unwrap().iter().map(|g| g["verdict"].clone()).collect::<Vec<_>>(),
        })
    };
    let rows: Vec<Value> = record["candidates"].as_array().unwrap().iter().map(row).collect();
    json!({
        "decision": record["decision"], "exit": record["exit"], "rows": rows,
        "ballots": record["ballots"], "usage": record["usage"],
    })
}

/// Takes the end of a run away: its record, and what the journal holds after the first line that fits.
pub(super) fn cut_after(run: &Path, fits: impl Fn(&Value) -> bool) {
    let at = journal(run).iter().position(fits).unwrap();
    cut_behind(run, at);
}

/// The same after the last line that fits.
pub(super) fn cut_after_last(run: &Path, fits: impl Fn(&Value) -> bool) {
    let at = journal(run).iter().rposition(fits).unwrap();
    cut_behind(run, at);
}

fn cut_behind(run: &Path, line: usize) {
    let path = run.join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').take(line + 1).collect();
    fs::write(&path, kept).unwrap();
    fs::remove_file(run.join("record.json")).unwrap();
}

/// A journal as an engine wrote it that tied no lines to each other.
pub(super) fn untied(journal: &str) -> String {
    let front = |line: &str| match line.rfind(",\"chain\":\"") {
        Some(at) => format!("{}}}\n", &line[..at]),
        None => format!("{line}\n"),
    };
    journal.lines().map(front).collect()
}

pub(super) fn journal(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Distinct requests with a recorded answer, and how often each was answered, for each server.
pub(super) fn answered(run: &Path) -> BTreeMap<String, usize> {
    let mut answered = BTreeMap::new();
    for line in journal(run) {
        if line["entry"] == "call_ended" && line["reply"].is_string() {
            let word = |name: &str| line[name].as_str().unwrap().to_owned();
            let request = format!("{} {}", word("provider"), word("request"));
            *answered.entry(request).or_default() += 1;
        }
    }
    answered
}

/// Trees whose gates began again after the journal held what they said; the base is one of them.
fn gated_again(run: &Path) -> Vec<String> {
    let mut over = Vec::new();
    let mut trees: BTreeMap<String, String> = BTreeMap::new();
    let mut again = Vec::new();
    for line in journal(run) {
        if line["event"] == "admitted" && line["admission"]["tree"].is_string() {
            let tree = line["admission"]["tree"].as_str().unwrap().to_owned();
            trees.insert(line["candidate"].as_str().unwrap().to_owned(), tree);
        }
        if line["entry"] == "gated" {
            over.push(line["tree"].as_str().unwrap_or("base").to_owned());
        }
        if line["event"] == "gate_began" {
            let tree = match line["candidate"].as_str() {
                Some(candidate) => trees[candidate].clone(),
                None => "base".to_owned(),
            };
            if over.contains(&tree) {
                again.push(tree);
            }
        }
    }
    again
}

/// Kills a run at `points` random moments, each time going on with it until it ends, and compares.
fn killed_at_random(points: usize, seed: u64) {
    let bench = Bench::new();
    let began = Instant::now();
    bench.run(&RUN).exits(0);
    let (took, expected) = (began.elapsed(), decided(&record(&bench.newest())));
    assert_eq!(bench.asked(), CALLS);
    let mut random = fastrand::Rng::with_seed(seed);
    for point in 0..points {
        let context = format!("point {point}, seed {seed}");
        let task = format!("raise the value ({point})");
        let run = cut_off_often(&bench, &task, &mut random, took);
        let record = record(&run);
        assert_eq!(decided(&record), expected, "{context}");
        let answered = answered(&run);
        assert_eq!(answered.len(), CALLS, "{context}: every call has an answer");
        assert!(answered.values().all(|times| *times == 1), "{context}: no answer was paid twice");
        let lost = record["resumed"]["possibly_paid_calls"].as_u64().unwrap_or(0) as usize;
        let asked = bench.asked_about(&task);
        assert!((CALLS..=CALLS + lost).contains(&asked), "{context}: {asked} calls, {lost} lost");
        assert_eq!(gated_again(&run), [""; 0], "{context}");
        bench.place.nothing_left(&context);
        bench.run(&["replay", run.to_str().unwrap()]).exits(0);
        assert_eq!(bench.asked_about(&task), asked, "a replay asks nobody");
        fs::remove_dir_all(&run).unwrap();
    }
}

/// Begins a run, kills it and goes on with it up to three times, then lets it end.
fn cut_off_often(bench: &Bench, task: &str, random: &mut fastrand::Rng, took: Duration) -> PathBuf {
    let run = ["run", task, "--no-synth", "-q"];
    let known = bench.place.runs();
    let mut begun = None;
    for _ in 0..3 {
        let path = begun.as_ref().map(|run: &PathBuf| run.to_str().unwrap().to_owned());
        let child = match &path {
            None => bench.start(&run),
            Some(path) => bench.start(&["resume", path, "-q"]),
        };
        let wait = took.mul_f64(random.f64() * 1.1);
        // This is no waiting for something to happen: the moment itself is what is drawn.
        std::thread::park_timeout(wait);
        kill_process(Pid::from_child(&child), Signal::KILL).ok();
        child.wait_with_output().unwrap();
        begun = bench.place.runs().into_iter().find(|run| !known.contains(run));
        // A run that was cut off before its journal began is started again.
        if begun
            .as_ref()
            .is_some_and(|run| fs::metadata(run.join("journal.jsonl")).map_or(0, |m| m.len()) == 0)
        {
            fs::remove_dir_all(begun.take().unwrap()).unwrap();
        }
    }
    match begun {
        Some(run) => {
            bench.run(&["resume", run.to_str().unwrap(), "-q"]).exits(0);
            run
        }
        None => {
            bench.run(&run).exits(0);
            bench.newest()
        }
    }
}

#[test]
fn a_run_killed_at_random_ends_as_if_it_had_not_been() {
    killed_at_random(6, 7);
}

#[test]
#[ignore = "takes minutes: 200 points"]
fn a_run_killed_at_200_random_points_ends_as_if_it_had_not_been() {
    // What failed is tried again with its seed.
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("BAKEOFF_KILL_SEED").unwrap_or_else(|| fastrand::u64(..));
    killed_at_random(number("BAKEOFF_KILL_POINTS").unwrap_or(200) as usize, seed);
}

#[test]
fn a_run_killed_at_each_request_pays_that_one_again_and_no_other() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let expected = decided(&record(&bench.newest()));
    for nth in 1..=CALLS {
        let task = format!("raise the value ({nth})");
        let killed = bench.killed_at(&["run", &task, "--no-synth", "-q"], nth);
        assert_eq!(killed.code, None, "request {nth}: {}", killed.err);
        bench.place.nothing_alive("killed");
        let run = bench.newest();
        bench.run(&["show"]).exits(2).says(&["bakeoff resume"]);
        let done = bench.run(&["resume", "--json", "-q"]).exits(0);
        let record = record(&run);
        assert_eq!((done.json(), decided(&record)), (record.clone(), expected.clone()), "{nth}");
        let resumed = &record["resumed"];
        // The two lanes are under way at the same time: the other one's call may be lost with it.
        let lost = resumed["possibly_paid_calls"].as_u64().unwrap() as usize;
        assert!((1..=2).contains(&lost), "request {nth}: {resumed}");
        let reused = resumed["reused_calls"].as_u64().unwrap() as usize;
        let asked = bench.asked_about(&task);
        assert!(
            asked <= CALLS + lost,
            "request {nth}: {asked} calls, {lost} lost, {reused} reused"
        );
        let codes: Vec<&str> = record["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w["code"].as_str().unwrap())
            .collect();
        assert!(codes.contains(&"possibly-paid"), "{codes:?}");
        bench.place.no_files_left("resumed");
    }
}

#[test]
fn an_interrupted_run_goes_on_and_an_ended_one_has_nothing_to_do() {
    let bench = Bench::new();
    let mut running = Running::start({
        let mut command = bench.place.bakeoff(["run", "raise the value", "--no-synth"]);
        command.env("OWN_KEY", "own-key-5d1f0c");
        command
    });
    running.until(is("lane_began"));
    running.signal(Signal::INT);
    let (done, _) = running.end();
    assert_eq!(done.code, Some(130));
    bench.run(&["resume", "-q"]).exits(0).prints(&["c2"]);
    let asked = bench.asked();
    let again = bench.run(&["resume", "-o", "-"]).exits(0).says(&["has ended"]);
    assert!(again.out.contains("+3000000000000"), "{}", again.out);
    assert_eq!(bench.asked(), asked);
}

#[test]
fn a_run_that_goes_on_is_no_others() {
    let place = Place::with_slow_model();
    let mut running = Running::start(place.bakeoff(["run", "x"]));
    running.until(is("lane_began"));
    place.run(["resume"]).exits(2).says(&["is going on in another process", "bakeoff stop"]);
    running.signal(Signal::TERM);
    running.end();
}

#[test]
fn a_run_is_moved_and_ended_elsewhere_without_its_repository() {
    let bench = Bench::new();
    bench.killed_at(&RUN, 6);
    let moved = bench.place.dir.join("moved");
    fs::create_dir(&moved).unwrap();
    let run = bench.newest();
    let moved = moved.join(run.file_name().unwrap());
    fs::rename(&run, &moved).unwrap();
    fs::remove_dir_all(bench.place.home()).unwrap();
    fs::remove_dir_all(&bench.place.repo).unwrap();
    fs::create_dir(&bench.place.repo).unwrap();
    let before = bench.asked();
    let done = bench.run(&["resume", moved.to_str().unwrap(), "-o", "-", "-q"]).exits(0);
    assert!(done.out.contains("+3000000000000"), "{}", done.out);
    assert!(bench.asked() - before <= CALLS - 4, "what was answered is not asked again");
    bench.run(&["replay", moved.to_str().unwrap()]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_torn_line_is_told_and_other_damage_ends_it_without_a_call() {
    let bench = Bench::new();
    bench.killed_at(&RUN, 7);
    let run = bench.newest();
    let path = run.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let asked = bench.asked();
    // A line in the middle.
    let mut broken = whole.clone();
    let middle = broken.iter().position(|byte| *byte == b'\n').unwrap() + 3;
    broken[middle] = b'\0';
    fs::write(&path, &broken).unwrap();
    bench.run(&["resume"]).exits(6).says(&["line 2"]);
    // A journal of a later engine.
    let text = String::from_utf8(whole.clone()).unwrap();
    fs::write(&path, text.replacen("\"version\":1", "\"version\":9", 1)).unwrap();
    bench.run(&["resume"]).exits(6).says(&["newer bakeoff", "upgrade"]);
    // An answer whose bytes are not what was written.
    fs::write(&path, &whole).unwrap();
    let reply =
        journal(&run).into_iter().find_map(|line| line["reply"].as_str().map(str::to_owned));
    let (shard, rest) = reply.as_ref().unwrap().split_at(2);
    let artifact = run.join("artifacts").join(shard).join(rest);
    let good = fs::read(&artifact).unwrap();
    fs::write(&artifact, "{}").unwrap();
    bench.run(&["resume"]).exits(6).says(&["is damaged", reply.as_ref().unwrap()]);
    assert_eq!(bench.asked(), asked, "nothing is paid again without a word");
    fs::write(&artifact, good).unwrap();
    // Nor a request, whichever it is: an answer is found by what was asked.
    let requests = journal(&run).into_iter().filter(|line| line["entry"] == "call_ended");
    for request in requests.map(|line| line["request"].as_str().unwrap().to_owned()) {
        let (shard, rest) = request.split_at(2);
        let artifact = run.join("artifacts").join(shard).join(rest);
        let mut bytes = fs::read(&artifact).unwrap();
        bytes[20] ^= 1;
        fs::write(&artifact, &bytes).unwrap();
        bench.run(&["resume"]).exits(6).says(&["is damaged", &request]);
        bytes[20] ^= 1;
        fs::write(&artifact, &bytes).unwrap();
    }
    assert_eq!(bench.asked(), asked);
    // Without its secret a run would say everything in other words, and pay for it again.
    let secret = run.join("fence.secret");
    let bytes = fs::read(&secret).unwrap();
    fs::remove_file(&secret).unwrap();
    bench.run(&["resume"]).exits(6).says(&["fence.secret"]);
    assert_eq!(bench.asked(), asked);
    fs::write(&secret, bytes).unwrap();
    // A torn last line had no effect yet.
    let torn = [&fs::read(&path).unwrap()[..], b"{\"entry\":\"call_en"].concat();
    fs::write(&path, torn).unwrap();
    let done = bench.run(&["resume", "--json", "-q"]).exits(0).json();
    assert!(done["warnings"].to_string().contains("journal-torn"), "{}", done["warnings"]);
    assert_eq!(fs::read(run.join("journal.torn")).unwrap(), b"{\"entry\":\"call_en");
}

/// Mounts a small file system of its own over the state, runs, is told that it is full, makes room and
/// goes on. A gate wants 256 MiB of room. What is left goes to `kept`, because the file system goes with its namespace.
const FULL: &str = "mount -t tmpfs -o size=320m tmpfs \"$BAKEOFF_HOME\" || exit 90\n\
    \"$0\" run 'raise the value' --no-synth -q 2>&1; echo \"first $?\"\n\
    rm \"$BAKEOFF_HOME/filler\" || exit 91\n\
    \"$0\" resume -q 2>&1; echo \"second $?\"\n\
    cp -r \"$BAKEOFF_HOME/state/runs\" \"$KEPT\"\n";

#[test]
fn a_full_disk_ends_a_run_that_goes_on_where_it_stood_once_there_is_room() {
    let bench = Bench::new();
    let (home, kept) = (bench.place.home(), bench.place.dir.join("kept"));
    fs::create_dir_all(&home).unwrap();
    // The server itself fills the disk, from within the engine's namespace, before it answers.
    let filler = home.join("filler");
    let (whole, count) = (Arc::new(Mutex::new(None::<u32>)), AtomicUsize::new(0));
    let of = whole.clone();
    let server = Server::start(move |request| {
        if count.fetch_add(1, Ordering::SeqCst) + 1 == 5 {
            let pid = of.lock().unwrap().unwrap();
            let path = PathBuf::from(format!("/proc/{pid}/root{}", filler.display()));
            let mut file = fs::File::create(path).unwrap();
            while std::io::Write::write_all(&mut file, &[1; 1 << 16]).is_ok() {}
        }
        answer(request)
    });
    bench.configure(&server.url(), "");
    let inner = bench.place.bakeoff(["run"]);
    let mut command = std::process::Command::new("unshare");
    let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["-r"] };
    command.args(user).args(["-m", "sh", "-c", FULL]).arg(inner.get_program()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("OWN_KEY", "own-key-5d1f0c").env("KEPT", &kept).current_dir(&bench.place.repo);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    *whole.lock().unwrap() = Some(child.id());
    let done = Done::of_child(child).exits(0);
    done.prints(&["No space left on device", "free some space", "first 6", "second 0"]);
    let run = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let record = record(&run);
    assert_eq!(record["exit"], "done");
    let answered = answered(&run);
    assert!(answered.values().all(|times| *times == 1), "what was written is not paid twice");
    let lost = record["resumed"]["possibly_paid_calls"].as_u64().unwrap() as usize;
    assert!(
        server.requests().len() <= CALLS + lost,
        "{} calls, {lost} lost",
        server.requests().len()
    );
}

#[test]
fn a_key_goes_to_no_other_server_than_the_one_that_the_run_began_with() {
    let bench = Bench::new();
    bench.killed_at(&RUN, 3);
    let other = Server::scripted([]);
    bench.configure(&other.url(), "");
    bench.run(&["resume"]).exits(2).says(&["provider `own`", &bench.server.url(), &other.url()]);
    assert!(other.requests().is_empty());
}

#[test]
fn the_budget_of_a_run_counts_what_was_spent_before_it_was_cut_off() {
    let bench = Bench::new();
    let prices = "[providers.own.prices]\none = { input = 1000.0, output = 1000.0 }\ntwo = { input = 1000.0, \
                  output = 1000.0 }\njudge = { input = 1000.0, output = 1000.0 }\n";
    bench.configure(&bench.server.url(), &format!("[limits]\nmax_output_tokens = 100\n{prices}"));
    // Each call costs $0.11, and a lane's at most some dollars.
    let spent = AtomicU64::new(0);
    bench.killed_at(&RUN, 8);
    let run = bench.newest();
    for line in journal(&run) {
        spent.fetch_add(line["usage"]["cost"]["known"].as_u64().unwrap_or(0), Ordering::SeqCst);
    }
    assert!(spent.load(Ordering::SeqCst) >= 500_000, "{spent:?}");
    let asked = bench.asked();
    let done = bench.run(&["resume", "--budget", "0.5", "--json", "-q"]);
    let lanes = done.json()["lanes"].to_string();
    assert!(lanes.contains("\"cost\""), "a lane is ended by the budget: {lanes}");
    assert_eq!(bench.asked(), asked, "no call fits");
}

#[test]
fn a_replay_notices_what_was_changed() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let run = bench.newest();
    let before = bench.place.fingerprint();
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let path = run.join("record.json");
    let honest = fs::read_to_string(&path).unwrap();
    let mut changed: Value = serde_json::from_str(&honest).unwrap();
    changed["decision"]["outcome"]["candidate"] = "c1".into();
    fs::write(&path, changed.to_string()).unwrap();
    let done = bench.run(&["replay", "--json"]).exits(1).json();
    assert_eq!(
        done["differences"],
        json!([
            "record.json: it is not the record that journal.jsonl names",
            "decision.outcome.candidate: recorded \"c1\", now \"c2\""
        ])
    );
    fs::write(&path, &honest).unwrap();
    // A gate's word in the journal.
    let journal = run.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let failed = text.replace(
        "\"verdict\":{\"kind\":\"pass\"}",
        "\"verdict\":{\"kind\":\"fail\",\"reason\":\"made up\"}",
    );
    assert_ne!(text, failed);
    fs::write(&journal, failed).unwrap();
    bench.run(&["replay"]).exits(1);
    fs::write(&journal, &text).unwrap();
    // A ballot's answer that is gone.
    let judged = text.lines().rfind(|line| line.contains("\"call_ended\"")).unwrap();
    fs::write(&journal, text.replace(&format!("{judged}\n"), "")).unwrap();
    bench.run(&["replay"]).exits(1).prints(&["a call of judge"]);
    assert_eq!(bench.asked(), CALLS);
    assert_eq!(bench.place.fingerprint(), before);
}

/// What lies in a directory and below it.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let each = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    each.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The other one of two letters or digits that differ in a bit.
pub(super) fn flip(bytes: &mut [u8], from: usize) {
    let at = from + bytes[from..].iter().position(u8::is_ascii_alphanumeric).unwrap();
    bytes[at] ^= 1;
}

#[test]
fn whatever_is_changed_of_a_run_that_has_ended_is_told_by_a_replay() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let run = bench.newest();
    let told = |what: &str| {
        let done = bench.run(&["replay"]);
        assert!(matches!(done.code, Some(1 | 6)), "{what}: {:?} {}", done.code, done.out);
    };
    let path = run.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for (at, line) in lines.iter().enumerate() {
        let mut changed: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        match at % 4 {
            0 => flip(&mut changed[at], line.len() / 2),
            1 => flip(&mut changed[at], line.len() / 5),
            2 => changed.insert(at, line.to_vec()),
            // The last line says when the engine came to its end, and is behind the record.
            _ if at + 1 < lines.len() => drop(changed.remove(at)),
            _ => flip(&mut changed[at], 3),
        }
        fs::write(&path, changed.concat()).unwrap();
        told(&format!("line {at}"));
    }
    fs::write(&path, &whole).unwrap();
    let files = files_below(&run.join("artifacts"));
    assert!(files.len() > 20, "{files:?}");
    for path in files.iter().step_by(3).chain([&run.join("record.json")]) {
        let whole = fs::read(path).unwrap();
        let mut changed = whole.clone();
        flip(&mut changed, whole.len() / 3);
        fs::write(path, changed).unwrap();
        told(&path.display().to_string());
        fs::write(path, &whole).unwrap();
    }
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_run_that_has_ended_is_not_called_done_where_its_journal_is_damaged() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let asked = bench.asked();
    let path = bench.newest().join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let newer = text.replacen("\"version\":1", "\"version\":9", 1);
    fs::write(&path, newer).unwrap();
    bench.run(&["resume"]).exits(6).says(&["newer bakeoff", "`bakeoff show "]);
    let mut changed = whole.clone();
    flip(&mut changed, text.find("\"call_ended\"").unwrap() + 3);
    fs::write(&path, changed).unwrap();
    bench.run(&["resume"]).exits(6).says(&["journal.jsonl", "line ", "`bakeoff show "]);
    bench.run(&["show"]).exits(0).prints(&["c2"]);
    fs::write(&path, &whole).unwrap();
    bench.run(&["resume"]).exits(0).says(&["nothing left to do"]);
    assert_eq!(bench.asked(), asked);
}

#[test]
fn other_judges_are_asked_about_the_same_candidates() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let old = record(&bench.newest());
    let args = ["rejudge", "--judge", "tests", "--no-synth", "--json", "-q"];
    let new = bench.run(&args).exits(0).json();
    assert_eq!((new["rejudges"].clone(), bench.place.runs().len()), (old["run"].clone(), 2));
    assert_eq!(new["candidates"].to_string(), old["candidates"].to_string());
    assert_eq!(new["ballots"][0]["judge"], "tests");
    assert_eq!(bench.asked(), CALLS + 2, "two more ballots, and no worker");
    assert_eq!(gated_again(&bench.newest()), [""; 0]);
    bench.run(&["replay"]).exits(0);
    bench.run(&["rejudge", "--judge", "nobody"]).exits(2).says(&["nobody"]);
    bench.configure(&bench.server.url(), "");
    let config = bench.place.dir.join("config/bakeoff/config.toml");
    let off = fs::read_to_string(&config).unwrap().replace("[judges]", "[judges]\nenabled = false");
    fs::write(&config, off).unwrap();
    bench.run(&["rejudge"]).exits(2).says(&["--judge-model", "--no-judge"]);
    assert_eq!(bench.place.runs().len(), 2, "what can't begin leaves nothing");
}

#[test]
fn the_socket_of_an_engine_that_was_killed_at_its_very_end_goes() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let run = bench.newest();
    let dir = fs::File::open(&run).unwrap();
    // Through the descriptor, because the name of a socket may only be short.
    let socket = format!("/proc/self/fd/{}/control.sock", dir.as_raw_fd());
    drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
    assert!(run.join("control.sock").exists());
    bench.run(&["resume", run.to_str().unwrap(), "-q"]).exits(0);
    bench.place.nothing_left("after a resume of what has ended");
}
