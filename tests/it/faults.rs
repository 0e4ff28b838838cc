//! What becomes of a whole run when its servers or its operator break something off. The servers are the
//! tests' own.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::resume::{Bench, CALLS, RUN, answer, decided, journal, record};
use super::support::place::{PATIENCE, Running, is};
use super::support::server::{Reply, Request, Server};

fn warning<'a>(record: &'a Value, code: &str) -> Option<&'a str> {
    let warnings = record["warnings"].as_array().unwrap();
    warnings.iter().find(|warning| warning["code"] == code)?["message"].as_str()
}

/// Whether a request is a judge's.
fn judges(request: &Request) -> bool {
    request.json()["model"] == "judge"
}

/// An answer that has begun and is cut.
fn half() -> Reply {
    Reply::sse("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look\"}}]}\n\n")
        .broken()
}

#[test]
fn what_may_be_charged_twice_is_said_and_a_replay_and_a_resume_say_the_same() {
    let bench = Bench::new();
    let broken = AtomicUsize::new(0);
    // The first answer of all breaks off, and so does the first one of a judge.
    let judge = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let count = if judges(request) { &judge } else { &broken };
        if count.fetch_add(1, Ordering::SeqCst) == 0 { half() } else { answer(request) }
    });
    let prices =
        ["one", "two", "judge"].map(|model| format!("{model} = {{ input = 1.0, output = 1.0 }}\n"));
    bench.configure(&server.url(), &format!("[providers.own.prices]\n{}", prices.concat()));
    let done = bench.run(&[&RUN[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(server.requests().len(), CALLS + 2);
    assert_eq!(done["usage"]["cost"], json!({"known": 1100, "partly_unknown": true}));
    let said = warning(&done, "possibly-charged").unwrap();
    assert!(said.starts_with("2 calls broke off") && said.contains("charged twice"), "{said}");
    bench.run(&["show"]).exits(0).prints(&["$0.0011 + unknown", "may be charged twice"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    // Taken up behind the last answer, the same is unknown.
    let run = bench.newest();
    fs::remove_file(run.join("record.json")).unwrap();
    bench.run(&["resume", "-q"]).exits(0);
    assert_eq!(server.requests().len(), CALLS + 2);
    assert_eq!(decided(&record(&run)), decided(&done));
    bench.run(&["replay"]).exits(0);
}

#[test]
fn a_call_that_breaks_off_each_time_makes_what_the_run_cost_unknown() {
    let bench = Bench::new();
    // One lane's model never comes to an end, and neither does the judge's.
    let server = Server::start(move |request| match request.json()["model"].as_str() {
        Some("one") => half(),
        _ => answer(request),
    });
    let prices =
        ["one", "two", "judge"].map(|model| format!("{model} = {{ input = 1.0, output = 1.0 }}\n"));
    bench.configure(&server.url(), &format!("[providers.own.prices]\n{}", prices.concat()));
    let done = bench.run(&[&RUN[..], &["--json"]].concat()).exits(0).json();
    assert!(warning(&done, "possibly-charged").is_some());
    assert_eq!(done["usage"]["cost"], json!({"known": 440, "partly_unknown": true}));
    let cost = |lane: usize| done["lanes"][lane]["usage"]["cost"]["partly_unknown"].clone();
    assert_eq!((cost(0), cost(1)), (json!(true), json!(false)));
    assert_eq!(done["roles"]["workers"]["cost"]["partly_unknown"], true);
    bench.run(&["show"]).exits(0).prints(&["$0.0004 + unknown"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_ceiling_holds_what_was_in_flight_whenever_an_engine_ended() {
    for (limit, flag) in [
        ("40", "--budget"),
        ("40000", "--max-tokens"),
        ("40000", "--lane-tokens"),
        ("40", "--lane-budget"),
    ] {
        for signal in [Signal::KILL, Signal::INT] {
            let bench = Bench::new();
            let begun =
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look\"}}]}\n\n";
            let answers = Arc::new(AtomicBool::new(false));
            let answered = answers.clone();
            let server = Server::start(move |request| match answered.load(Ordering::SeqCst) {
                true => answer(request),
                false => Reply::sse(begun).stalled(),
            });
            let prices = ["one", "two", "judge"]
                .map(|model| format!("{model} = {{ input = 1000.0, output = 1000.0 }}\n"));
            let limits = format!(
                "[limits]\nmax_output_tokens = 100\n[providers.own.prices]\n{}",
                prices.concat()
            );
            bench.configure(&server.url(), &limits);
            let mut args = vec!["run", "raise the value", "--no-synth", flag, limit];
            // Nothing was ever answered, and every engine sets as much aside again.
            let mut engines = 0;
            let ended = loop {
                let mut command = bench.place.bakeoff(&args);
                command.env("OWN_KEY", "own-key-5d1f0c");
                let mut running = Running::start(command);
                let over = std::cell::Cell::new(false);
                running.until(|event| {
                    over.set(is("ended")(event));
                    over.get() || event["activity"] == "says I look"
                });
                if !over.get() {
                    running.signal(signal);
                }
                let (done, events) = running.end();
                if over.get() {
                    assert_eq!(done.code, Some(5), "{}", done.err);
                    break events;
                }
                engines += 1;
                assert!(engines < 20, "{flag} {signal:?}: {} streams", server.requests().len());
                args = vec!["resume", "latest"];
            };
            assert!(
                (1..=16).contains(&server.requests().len()),
                "{flag}: {}",
                server.requests().len()
            );
            let run = bench.newest();
            let whole = record(&run);
            let why = if flag.ends_with("budget") {
                "whose cost is not known"
            } else {
                "that nobody counted"
            };
            let told = journal(&run).iter().any(|line| line["error"].to_string().contains(why));
            assert!(told, "{ended:?}");
            assert_eq!(whole["usage"]["cost"], json!({"known": 0, "partly_unknown": true}));
            // One that had no time to get out counts, too.
            let lost = whole["resumed"]["possibly_paid_calls"].as_u64().unwrap() as usize;
            assert!((server.requests().len()..=2 * engines).contains(&lost), "{lost}");
            bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
            if flag.starts_with("--lane") {
                continue;
            }
            // Whoever raises it has the rest of it.
            answers.store(true, Ordering::SeqCst);
            bench.run(&["resume", "-q", flag, "10000000"]).exits(0);
            bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        }
    }
}

#[test]
fn a_run_that_is_stopped_closes_its_streams() {
    let bench = Bench::new();
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look\"}}]}\n\n";
    let server = Server::start(move |_| Reply::sse(begun).stalled());
    bench.configure(&server.url(), "");
    let mut command = bench.place.bakeoff(["run", "raise the value"]);
    command.env("OWN_KEY", "own-key-5d1f0c");
    let mut running = Running::start(command);
    running.until(is("lane_began"));
    running.until(|event| event["activity"] == "says I look");
    assert!(!server.wait_for_leaving(1, std::time::Duration::ZERO));
    running.signal(Signal::INT);
    let (done, _) = running.end();
    assert_eq!(done.code, Some(130), "{}", done.err);
    // A connection over which nothing was asked yet has no stream.
    let open = server.requests().len();
    assert!(open > 0 && server.wait_for_leaving(open, PATIENCE), "every stream is closed");
    bench.place.nothing_left("stopped");
}

/// The body of each worker's request, in the order of one lane.
fn of_lane(server: &Server, model: &str) -> Vec<Value> {
    let bodies = server.requests().into_iter().map(|request| request.json());
    bodies.filter(|body| body["model"] == model).collect()
}

// contract R28
#[test]
fn an_overflow_ends_a_worker_as_partial_and_its_history_is_only_ever_extended() {
    let bench = Bench::new();
    let full = r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.","code":"context_length_exceeded"}}"#;
    let server = Server::start(move |request| {
        let body = request.json();
        let long = body["messages"].as_array().unwrap().len() > 6 && body["model"] == "two";
        if long { Reply::json(400, full) } else { answer(request) }
    });
    bench.configure(&server.url(), "");
    let done = bench.run(&[&RUN[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(done["lanes"][1]["stop"], json!({"kind": "limit", "limit": "context"}));
    assert_eq!(
        done["decision"]["outcome"]["candidate"], "c1",
        "what is partial never wins by itself"
    );
    bench.run(&["show"]).exits(0).prints(&["PARTIAL (context)"]);
    let sent = of_lane(&server, "two");
    assert_eq!(sent.len(), 4, "nothing shorter is tried");
    for pair in sent.windows(2) {
        let [before, after] = [0, 1].map(|at| pair[at]["messages"].as_array().unwrap());
        assert!(after.starts_with(before) && after.len() > before.len());
        assert_eq!(pair[0]["tools"], pair[1]["tools"]);
    }
}

#[test]
fn a_budget_that_is_used_up_keeps_judges_and_synthesizer_from_being_asked() {
    let bench = Bench::new();
    // Dear answers, so that those who judge may not be asked once.
    let prices = "[limits]\nmax_output_tokens = 100\nbudget_usd = 0.1\n[providers.own.prices]\n\
                  one = { input = 0.0, output = 1.0 }\ntwo = { input = 0.0, output = 1.0 }\n\
                  judge = { input = 0.0, output = 2000.0 }\n";
    bench.configure(&bench.server.url(), prices);
    let done = bench.run(&["run", "raise the value", "-q", "--json"]).json();
    assert!(!bench.server.requests().iter().any(judges), "nobody judges on credit");
    let said = warning(&done, "judges-abstained").unwrap();
    assert!(said.contains("the budget of $0.1000 does not allow"), "{said}");
    assert!(done["usage"]["cost"]["known"].as_u64().unwrap() <= 100_000);
}

fn files(dir: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push((path.display().to_string(), fs::read(&path).unwrap_or_default())),
        }
    }
}

#[test]
fn no_file_of_a_run_holds_a_key_or_what_the_environment_calls_a_secret() {
    let secrets = [
        "own-key-5d1f0c",
        "tok-77ab03c95e18",
        "p4ss-in-address",
        "code-in-query",
        "pass-in-variable",
        "p4ss-of-database",
    ];
    let bench = Bench::new();
    let first = Mutex::new(true);
    // The server repeats the key in an error, and the model repeats what it was told of the others.
    let server = Server::start(move |request| {
        if std::mem::take(&mut *first.lock().unwrap()) {
            let key = request.header("authorization").unwrap_or_default().to_owned();
            return Reply::json(
                500,
                &json!({"error": {"message": format!("who is {key}?")}}).to_string(),
            );
        }
        let body = request.json();
        let turns = body["messages"].as_array().unwrap().len();
        let arguments = json!({"answer": format!("it is {}", secrets.join(" or ")), "claims": []});
        let call = json!({"name": "submit", "arguments": arguments.to_string()});
        let calls = json!([{"id": format!("c{turns}"), "type": "function", "function": call}]);
        match judges(request) {
            true => answer(request),
            false => super::resume::said(
                &body,
                json!({"role": "assistant", "content": null, "tool_calls": calls}),
            ),
        }
    });
    let address = server.url().replace("http://", "http://me:p4ss-in-address@");
    bench.configure(&format!("{address}/v1?code=code-in-query&version="), "");
    let mut command = bench.place.bakeoff(RUN);
    command.env("OWN_KEY", secrets[0]).env("DEPLOY_TOKEN", secrets[1]).env("DB_PASS", secrets[4]);
    command.env("DATABASE_URL", format!("postgres://me:{}@db/x", secrets[5]));
    let done = super::support::place::Done::run(command);
    let mut found = Vec::new();
    files(&bench.newest(), &mut found);
    assert!(found.iter().any(|(name, _)| name.ends_with("journal.jsonl")));
    let told = [
        ("stdout".to_owned(), done.out.into_bytes()),
        ("stderr".to_owned(), done.err.into_bytes()),
    ];
    let answers =
        found.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("it is [masked]"));
    assert!(answers.count() > 0, "what was said is kept, without them");
    for (name, bytes) in found.iter().chain(&told) {
        let text = String::from_utf8_lossy(bytes);
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{name}: {text}");
    }
    let mut command = bench.place.bakeoff(["doctor"]);
    let doctor = command.env("OWN_KEY", secrets[0]).output().unwrap();
    let shown = String::from_utf8(doctor.stdout).unwrap();
    assert!(shown.contains("http://127.0.0.1") && !shown.contains("p4ss"), "{shown}");
    assert!(shown.contains("/v1?code=[hidden]&version=/v1"), "{shown}");
    let path = &server.requests()[0].path;
    assert_eq!(path, "/v1/chat/completions?code=code-in-query&version=/v1");
}

/// A model that looks at the same file for ever.
fn looks(request: &Request) -> Reply {
    let body = request.json();
    let call = json!({"name": "read_file", "arguments": "{\"path\": \"check.sh\"}"});
    let id = format!("c{}", body["messages"].as_array().unwrap().len());
    let calls = json!([{"id": id, "type": "function", "function": call}]);
    super::resume::said(&body, json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

#[test]
fn a_run_that_limits_ended_says_which_and_what_helps_there() {
    let full = |_: &Request| {
        Reply::json(413, &json!({"error": {"message": "the prompt has 9 tokens of 8"}}).to_string())
    };
    let bench = Bench::answering(full);
    let args = ["run", "raise the value", "-q", "--json"];
    let done = bench.run(&args).exits(5).json();
    let said = done["decision"]["reason"].to_string();
    assert!(said.contains("the prompt has 9 tokens of 8"), "{said}");
    assert!(said.contains("its context limit") && said.contains("a longer context"), "{said}");
    assert!(!said.contains("--"), "no flag helps: {said}");
    bench.run(&["show"]).exits(0).prints(&["the prompt has 9 tokens of 8"]);
    bench.run(&["replay"]).exits(0);
    let bench = Bench::answering(looks);
    for (flags, want) in [
        (["--lane-turns", "2"], "new run with `--lane-turns`"),
        (["--max-turns", "2"], "new run with `--max-turns`"),
        (["--lane-tokens", "200"], "new run with `--lane-tokens`"),
        (["--max-tokens", "2000"], "raise `--max-tokens`"),
    ] {
        let done = bench.run(&[&args[..], &flags[..]].concat()).exits(5).json();
        let said = done["decision"]["reason"].to_string();
        assert!(said.contains(want) && said.contains("cut it off"), "{flags:?}: {said}");
        let other = ["--budget", "--lane-turns", "--max-turns", "--lane-tokens", "--max-tokens"];
        let others = other.iter().filter(|other| **other != flags[0] && said.contains(**other));
        assert_eq!(others.count(), 0, "{flags:?}: {said}");
    }
}
