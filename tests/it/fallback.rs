//! What becomes of a run whose model servers can't answer: fallbacks, the circuit, and what is told.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use super::resume::{Bench, CALLS, RUN, answer, answered, decided, journal, record, said};
use super::support::place::{Done, Place};
use super::support::server::{Reply, Request, Server};

/// The URL of a port that was free a moment ago, and on which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

fn provider(name: &str, url: &str) -> String {
    format!("[providers.{name}]\nwire = \"openai-chat\"\nbase_url = \"{url}\"\nkey_env = \"\"\n")
}

fn refusing(status: u16, words: &'static str) -> Server {
    let body = json!({"error": {"message": words}}).to_string();
    Server::start(move |_| Reply::json(status, &body))
}

const GATES: &str =
    "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n[judges]\nenabled = false\n";

#[test]
fn a_lane_whose_server_is_dead_begins_anew_with_its_fallback() {
    let place = Place::new();
    let full = refusing(402, "the account is empty");
    let lane = "[lanes.one]\nmodel = \"dead:gpt-x\"\nfallback = [\"poor:m\", \"scripted:one\"]\n";
    let servers = provider("dead", &nobody()) + &provider("poor", &full.url());
    place.configure(GATES, &format!("{servers}{lane}"));
    let plan = place.run(["run", "x", "--dry-run"]).exits(0);
    assert!(
        plan.out.contains("one = dead:gpt-x x 1, else poor:m, else scripted:one"),
        "{}",
        plan.out
    );

    let done = place.run(["run", "x"]).exits(0);
    let record = place.record();
    let lane = &record["lanes"][0];
    assert_eq!(lane["model"], "scripted:one", "the one that answered");
    assert_eq!(lane["stop"], json!({"kind": "submitted"}));
    let left = lane["unanswered"].as_array().unwrap();
    let left: Vec<_> = left.iter().map(|left| (&left["model"], &left["class"])).collect();
    assert_eq!(
        left,
        [(&json!("dead:gpt-x"), &json!("unreachable")), (&json!("poor:m"), &json!("payment"))]
    );
    // The voice in the consensus is that of who spoke.
    assert_eq!(record["candidates"][0]["candidate"]["family"], "scripted");
    let told =
        ["one/1 went on with scripted:one", "dead:gpt-x: dead (127.0.0.1", "the account is empty"];
    done.says(&told[..2]);
    place.run(["show"]).exits(0).prints(&told);
    place.run(["replay"]).exits(0);
}

/// What the decision of the newest run says, with the exit status that it must have.
fn reason(place: &Place, done: Done) -> String {
    let done = done.exits(3);
    assert!(done.out.contains("no winner"), "{}", done.out);
    let record = place.record();
    assert_eq!(record["exit"], "models");
    record["decision"]["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_in_which_no_server_answered_exits_3_and_says_what_each_of_them_said() {
    let place = Place::new();
    let (key, model) = (refusing(401, "who are you"), refusing(404, "no model of that name"));
    let (poor, html) = (
        refusing(402, "the account is empty"),
        Server::start(|_| Reply::new(400, "text/html", "<h1>a proxy</h1>")),
    );
    let servers = [("key", &key), ("model", &model), ("poor", &poor), ("html", &html)];
    let servers = servers.map(|(name, server)| provider(name, &server.url())).concat();
    let lanes = "[lanes.a]\nmodel = \"key:m\"\nfallback = [\"poor:m\"]\n[lanes.b]\nmodel = \"model:m\"\n\
                 [lanes.c]\nmodel = \"dead:m\"\n[lanes.d]\nmodel = \"html:m\"\n";
    place.config(&format!("{servers}{}{GATES}{lanes}", provider("dead", &nobody())));
    let said = reason(&place, place.run(["run", "x"]));
    for words in [
        "key:m: key (127.0.0.1",
        "who are you",
        "poor:m: poor (127.0.0.1",
        "the account is empty",
        "model:m: model (127.0.0.1",
        "no model of that name",
        "dead:m: dead (127.0.0.1",
        "could not be reached",
        "html:m: html (127.0.0.1",
        "a proxy",
    ] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    place.run(["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_dead_server_is_not_asked_by_every_lane_and_all_are_told_why() {
    let place = Place::new();
    let lane = "[limits]\nmax_parallel = 1\n[lanes.a]\nmodel = \"dead:m\"\nattempts = 6\n";
    place.config(&format!("{}{GATES}{lane}", provider("dead", &nobody())));
    reason(&place, place.run(["run", "x"]));
    let record = place.record();
    let lanes = record["lanes"].as_array().unwrap();
    let message = |lane: &Value| lane["stop"]["message"].as_str().unwrap().to_owned();
    let messages: Vec<String> = lanes.iter().map(message).collect();
    assert_eq!(messages.len(), 6);
    for (nth, message) in messages.iter().enumerate() {
        // What was said to those who asked is told to those who did not.
        assert!(message.contains("could not be reached"), "{message}");
        let unasked = message.contains("dead was not asked: 3 calls in a row got no answer");
        assert_eq!(unasked, nth >= 3, "{nth}: {message}");
    }
    assert!(lanes.iter().all(|lane| lane["stop"]["class"] == "unreachable"));
    place.run(["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_dead_server_is_one_under_whatever_names() {
    let place = Place::new();
    let url = nobody();
    let lanes = "[limits]\nmax_parallel = 1\n[lanes.a]\nmodel = \"dead:m\"\nattempts = 2\n\
                 [lanes.b]\nmodel = \"dead-too:m\"\nattempts = 2\n";
    let servers = provider("dead", &url) + &provider("dead-too", &format!("{url}/v1/"));
    place.config(&format!("{servers}{GATES}{lanes}"));
    let said = reason(&place, place.run(["run", "x"]));
    let unasked = " was not asked: 3 calls in a row got no answer";
    assert_eq!(said.matches(unasked).count(), 1, "{said}");
    place.run(["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn what_one_lane_is_told_to_wait_every_lane_of_the_server_waits_under_whatever_names() {
    let bench = Bench::new();
    let runs = bench.place.home().join("state/runs");
    let told = std::sync::Mutex::new(None::<String>);
    let server = Server::start(move |request| {
        let model = request.json()["model"].as_str().unwrap().to_owned();
        let mut told = told.lock().unwrap();
        match told.as_ref() {
            None => {
                *told = Some(model);
                Reply::json(429, r#"{"error":{"message":"slowly"}}"#).header("retry-after", "2")
            }
            // The other lane's first answer comes once the first one knows that it has to wait.
            Some(first) if *first != model => {
                super::crossed::until(&runs, |line| line["error"].is_string());
                answer(request)
            }
            Some(_) => answer(request),
        }
    });
    let url = server.url();
    bench.configure(
        &url,
        &format!("[providers.other]\nwire = \"openai-chat\"\nbase_url = \"{url}\"\n"),
    );
    let path = bench.place.dir.join("config/bakeoff/config.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"own:two\"", "\"other:two\"")).unwrap();
    bench.run(&RUN).exits(0);
    let requests = server.requests();
    let waited = requests.iter().filter(|one| one.at >= requests[0].at + Duration::from_secs(2));
    // All but the refused one, and the other lane's first one, which may have been under way.
    assert!(waited.count() >= requests.len() - 2, "{:?}", requests.iter().map(|r| r.at));
}

#[test]
fn what_the_config_says_of_requests_is_sent_kept_to_and_shown_without_secrets() {
    let place = Place::new();
    let server = Server::start(|request| match request.header("x-pass") {
        Some("hush-hush-hush") => Reply::silence(),
        _ => Reply::json(401, r#"{"error":"no pass"}"#),
    });
    place.config(&format!(
        "{}headers = {{ x-pass = \"$OWN_PASS\" }}\nbody = {{ reasoning_effort = \"high\" }}\n\
         output_limit = \"max_completion_tokens\"\ndeadlines = {{ first_byte = 1 }}\n{GATES}\
         [lanes.a]\nmodel = \"own:m\"\n",
        provider("own", &server.url())
    ));
    let with_pass =
        |args: &[&str]| Done::run(place.bakeoff(args).env("OWN_PASS", "hush-hush-hush"));
    let said = reason(&place, with_pass(&["run", "x"]));
    assert!(said.contains("did not give the first byte within 1s"), "{said}");
    let body = server.requests()[0].json();
    assert_eq!((&body["reasoning_effort"], body.get("max_tokens")), (&json!("high"), None));
    assert!(body["max_completion_tokens"].is_u64());
    let doctor = with_pass(&["doctor"]);
    for words in
        ["headers x-pass (values hidden)", "body fields reasoning_effort", "first byte 1 s"]
    {
        assert!(doctor.out.contains(words), "{words}: {}", doctor.out);
    }
    assert!(!doctor.out.contains("hush"), "{}", doctor.out);
    let shown = with_pass(&["run", "x", "--dry-run"]).exits(0).prints(&[
        &format!("server  own = openai-chat at {}", server.url()),
        "headers   x-pass (from $OWN_PASS)",
        "body      {\"reasoning_effort\":\"high\"}",
        "deadlines connect 10 s, first byte 1 s, idle 120 s, whole 1800 s, answers limited by max_completion_tokens",
    ]);
    let plan = with_pass(&["run", "x", "--dry-run", "--json"]).exits(0);
    let own = &plan.json()["servers"][0];
    let want = json!([{"name": "x-pass", "env": "OWN_PASS"}]);
    assert_eq!((&own["headers"], &own["body"]["reasoning_effort"]), (&want, &json!("high")));
    assert_eq!(
        (&own["deadlines"]["first_byte"], &own["deadlines"]["whole"]),
        (&json!(1), &json!(1800))
    );
    assert!(!(shown.out + &plan.out).contains("hush"));
    place.run(["run", "x"]).exits(2).says(&["x-pass", "$OWN_PASS"]);
}

/// Two servers with a model of one name. The first one looks once and then has no credit.
fn two_servers(bench: &Bench) -> Server {
    let first = Server::start(|request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        if messages.iter().any(|message| message["role"] == "assistant") {
            return Reply::json(402, r#"{"error":{"message":"the account is empty"}}"#);
        }
        let call = json!({"name": "read_file", "arguments": "{\"path\":\"test.sh\"}"});
        let calls = json!([{"id": "of-the-first", "type": "function", "function": call}]);
        said(&body, json!({"role": "assistant", "content": null, "tool_calls": calls}))
    });
    let servers = provider("first", &first.url()) + &provider("own", &bench.server.url());
    let judges = "[judges]\nuse = [\"correctness\"]\nmodels = [\"own:judge\"]\n";
    let lanes = "[lanes.one]\nmodel = \"first:one\"\nfallback = [\"own:one\"]\n[lanes.two]\nmodel = \"own:two\"\n";
    let gates = "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n";
    bench.place.config(&format!("{servers}{gates}{judges}{lanes}"));
    first
}

fn about(server: &Server, task: &str) -> usize {
    let speaks = |request: &&Request| request.json().to_string().contains(task);
    server.requests().iter().filter(speaks).count()
}

#[test]
fn a_lane_that_fell_back_goes_on_so_after_a_kill_and_pays_nothing_twice() {
    let bench = Bench::new();
    let first = two_servers(&bench);
    bench.run(&RUN).exits(0);
    assert_eq!((first.requests().len(), bench.asked()), (2, CALLS));
    let whole = record(&bench.newest());
    let lane = &whole["lanes"][0];
    assert_eq!((&lane["model"], &lane["usage"]["calls"]), (&json!("own:one"), &json!(5)));
    assert_eq!(lane["unanswered"][0]["model"], "first:one");
    for nth in 1..=CALLS {
        let task = format!("raise the value ({nth})");
        let killed = bench.killed_at(&["run", &task, "--no-synth", "-q"], nth);
        assert_eq!(killed.code, None, "request {nth}: {}", killed.err);
        bench.place.nothing_alive("killed");
        let run = bench.newest();
        let left_behind = journal(&run).iter().any(|line| line["entry"] == "fallback");
        let before = about(&first, &task);
        bench.run(&["resume", "-q"]).exits(0);
        let again = record(&run);
        assert_eq!(decided(&again), decided(&whole), "{nth}");
        let lanes = ["model", "unanswered", "usage", "turns"];
        for what in lanes {
            assert_eq!(again["lanes"][0][what], whole["lanes"][0][what], "{nth}: {what}");
        }
        assert!(!left_behind || about(&first, &task) == before, "{nth}: it was left behind");
        let answered = answered(&run);
        assert_eq!(answered.len(), CALLS + 1, "{nth}: each server's answers are its own");
        assert!(answered.values().all(|times| *times == 1), "{nth}: {answered:?}");
        let lost = again["resumed"]["possibly_paid_calls"].as_u64().unwrap() as usize;
        let asked = bench.asked_about(&task);
        assert!((CALLS..=CALLS + lost).contains(&asked), "{nth}: {asked} calls, {lost} lost");
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    }
}
