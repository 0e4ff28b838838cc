//! How calls end in the journal: those of one purpose that are open at the same time are told apart, by a run that
//! goes on and by a replay, and a call that was given up ends in the words that its caller was told.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde_json::{Value, json};

use super::resume::{Bench, RUN, answer, cut_after_last, decided, journal, record, said, verdict};
use super::support::place::PATIENCE;
use super::support::server::{Reply, Request, Server};

/// The journal's whole lines, while the run is under way.
fn so_far(runs: &Path) -> Vec<Value> {
    let run = fs::read_dir(runs).into_iter().flatten().next();
    let path = run.map(|run| run.unwrap().path().join("journal.jsonl"));
    let text = path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns once the journal of the run under way has a line that fits.
pub(super) fn until(runs: &Path, fits: impl Fn(&Value) -> bool) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !so_far(runs).iter().any(&fits) {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

/// Lines of one kind about one purpose.
fn about<'a>(lines: &'a [Value], entry: &str, purpose: &Value) -> Vec<&'a Value> {
    let fits = |line: &&Value| line["entry"] == entry && line["purpose"] == *purpose;
    lines.iter().filter(fits).collect()
}

/// The words that only one request has.
fn nonce(body: &Value) -> String {
    let question =
        body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    question.rsplit("\"nonce\": \"").next().unwrap().split('"').next().unwrap().to_owned()
}

/// Returns once the journal says that this question may be answered: where it began first of the two that
/// have its purpose, once the other one has ended.
fn held(runs: &Path, request: &Request) {
    let nonce = nonce(&request.json());
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let lines = so_far(runs);
        let mine = lines.iter().find(|line| {
            line["entry"] == "call_began" && line["purpose"]["kind"] == "judge" && {
                let (shard, rest) = line["request"].as_str().unwrap().split_at(2);
                let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
                let text = fs::read_to_string(run.join("artifacts").join(shard).join(rest));
                text.unwrap().contains(&nonce)
            }
        });
        if let Some(mine) = mine {
            let purpose = &mine["purpose"];
            let both = about(&lines, "call_began", purpose);
            let is_first = both[0]["request"] == mine["request"];
            let ended = about(&lines, "call_ended", purpose).len();
            if both.len() == 2 && (!is_first || ended == 1) {
                return;
            }
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

#[test]
fn answers_of_one_purpose_are_not_swapped_when_they_end_in_the_other_order() {
    let bench = Bench::new();
    let runs: Arc<OnceLock<std::path::PathBuf>> = Arc::default();
    let of = runs.clone();
    let server = Server::start(move |request| {
        let body = request.json();
        if !body["model"].as_str().unwrap().starts_with("judge") {
            return answer(request);
        }
        held(of.get().unwrap(), request);
        let messages = body["messages"].as_array().unwrap();
        said(&body, json!({"role": "assistant", "content": verdict(messages)}))
    });
    runs.set(bench.place.home().join("state/runs")).unwrap();
    bench.configure(&server.url(), "");
    let path = bench.place.dir.join("config/bakeoff/config.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[\"own:judge\"]", "[\"own:judge\", \"own:judge2\"]")).unwrap();
    bench.run(&RUN).exits(0);
    let (run, asked) = (bench.newest(), server.requests().len());
    assert_eq!(asked, 12, "two models answer for the judge, in both orders");
    let whole = record(&run);
    let lines = journal(&run);
    let ballots: Vec<&Value> = lines
        .iter()
        .filter(|line| line["entry"] == "call_began" && line["purpose"]["kind"] == "judge")
        .collect();
    for began in &ballots {
        let [one, other] = about(&lines, "call_began", &began["purpose"])[..] else {
            panic!("{ballots:?}")
        };
        let ended = about(&lines, "call_ended", &began["purpose"]);
        assert_eq!(ended[0]["request"], other["request"], "the second one ended first");
        assert_eq!(ended[1]["request"], one["request"]);
    }
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    // Cut off once all of them were there.
    cut_after_last(&run, |line| line["entry"] == "call_ended");
    bench.run(&["resume", "-q"]).exits(0);
    assert_eq!(server.requests().len(), asked, "every answer is known by its question");
    assert_eq!(decided(&record(&run)), decided(&whole));
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_journal_that_names_calls_by_their_purpose_alone_is_still_read() {
    let bench = Bench::new();
    bench.run(&RUN).exits(0);
    let (run, asked) = (bench.newest(), bench.asked());
    let path = run.join("journal.jsonl");
    let older: String = journal(&run)
        .into_iter()
        .map(|mut line| {
            let fields = line.as_object_mut().unwrap();
            // Nor did such an engine tie its lines to each other.
            assert!(fields.remove("chain").is_some());
            if fields["entry"] == "call_ended" {
                assert!(fields.remove("provider").is_some() && fields.remove("request").is_some());
            }
            format!("{line}\n")
        })
        .collect();
    fs::write(&path, older).unwrap();
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    let whole = record(&run);
    fs::remove_file(run.join("record.json")).unwrap();
    bench.run(&["resume", "-q"]).exits(0);
    assert_eq!((bench.asked(), decided(&record(&run))), (asked, decided(&whole)));
}

#[test]
fn what_a_caller_was_told_after_the_last_try_is_what_a_replay_says() {
    let bench = Bench::new();
    let server = Server::start(|request| match request.json()["model"].as_str() {
        Some("judge") => Reply::json(503, "{\"error\":{\"message\":\"come back later\"}}")
            .header("retry-after-ms", "1"),
        _ => answer(request),
    });
    bench.configure(&server.url(), "");
    bench.run(&RUN).exits(3);
    let ballots = record(&bench.newest())["ballots"].to_string();
    assert!(ballots.contains("(asked 6 times in "), "{ballots}");
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}
