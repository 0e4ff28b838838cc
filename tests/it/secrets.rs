//! What becomes of a run in which models say what is secret: none of it is kept, and resume and replay come to the same
//! all the same. The models are a server of the tests' own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::resume::{
    Bench, CALLS, RUN, answer, called, cut_after, cut_after_last, decided, flip, journal, record,
    said, verdict,
};
use super::support::server::{Reply, Request, Server};

/// As the usual models, but that both lanes say the secret when they submit, and the judge when it judges.
fn telling(secret: String) -> impl Fn(&Request) -> Reply + Send + Sync {
    move |request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        if body["model"] == "judge" {
            let mut ballot: Value = serde_json::from_str(&verdict(messages)).unwrap();
            ballot["reason"] = format!("It is larger, {secret}.").into();
            return said(&body, json!({"role": "assistant", "content": ballot.to_string()}));
        }
        match messages.iter().filter(|message| message["role"] == "assistant").count() {
            turn @ 3.. => {
                let words = format!("done, {secret}, and nothing else");
                called(&body, turn, "submit", &json!({"answer": words, "claims": []}))
            }
            _ => answer(request),
        }
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let each = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    each.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn what_models_say_of_a_secret_is_not_kept_and_a_replay_that_does_not_know_it_agrees() {
    for secret in [
        "tokval-55667788",
        "abcq\"quotedpw12",
        "abcb\\backpw12",
        "abcn\nnewlpw12",
        "abcu\u{fc}mlautpw12",
        "\\abcdefg12",
    ] {
        let bench = Bench::new();
        let server = Server::start(telling(secret.to_owned()));
        bench.configure(&server.url(), "");
        bench.knows(Some(secret));
        bench.run(&RUN).exits(0).prints(&["c2"]);
        let run = bench.newest();
        assert_eq!(server.requests().len(), CALLS);
        assert!(record(&run)["ballots"].to_string().contains("larger, [masked]"));
        let tail = secret.rsplit(['"', '\\', '\n', '\u{fc}']).next().unwrap();
        for path in files_below(&bench.place.home()) {
            let bytes = fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(tail), "{}", path.display());
        }
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        bench.knows(None);
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        // Cut off at its very end, nothing is asked again, whether the secret is known there or not.
        fs::remove_file(run.join("record.json")).unwrap();
        bench.run(&["resume", "-q"]).exits(0);
        assert_eq!(server.requests().len(), CALLS);
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    }
}

#[test]
fn words_that_anybody_can_read_are_no_secrets() {
    for word in [
        "candidate",
        "assistant",
        "submitted",
        "correctness",
        "evidence",
        "openai-chat",
        "own:judge",
    ] {
        let bench = Bench::new();
        bench.knows(Some(word));
        bench.run(&RUN).exits(0).prints(&["c2"]);
        let (run, whole) = (bench.newest(), record(&bench.newest()));
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        fs::remove_file(run.join("record.json")).unwrap();
        bench.run(&["resume", "-q"]).exits(0);
        assert_eq!(bench.asked(), CALLS, "nothing was paid twice: {word}");
        assert_eq!(decided(&record(&run)), decided(&whole));
    }
}

#[test]
fn a_worker_that_wrote_a_secret_is_asked_again_and_its_file_holds_no_mask() {
    let secret = "2000000055667788";
    let writes = move |request: &Request| {
        let body = request.json();
        let turns = body["messages"].as_array().unwrap().iter();
        let turn = turns.filter(|message| message["role"] == "assistant").count();
        match (body["model"].as_str(), turn) {
            (Some("one"), 1) => {
                let file = json!({"path": "value.txt", "content": format!("{secret}\n")});
                called(&body, 1, "write_file", &file)
            }
            _ => answer(request),
        }
    };
    let args = ["run", "raise the value", "--no-synth", "-q", "--lane", "one", "--json"];
    let uncut = Bench::new();
    let server = Server::start(writes);
    uncut.configure(&server.url(), "");
    let whole = {
        uncut.knows(Some(secret));
        uncut.run(&args).exits(0).json()
    };
    let tree = |record: &Value| record["candidates"][0]["admission"]["tree"].clone();
    let codes = |record: &Value| record["warnings"].to_string();
    assert!(codes(&whole).contains("secret-in-diff"));
    assert!(tree(&whole).is_string(), "{whole}");

    // Killed when the answer with the secret is in the journal.
    let bench = Bench::new();
    bench.configure(&server.url(), "");
    bench.knows(Some(secret));
    bench.run(&args).exits(0);
    let run = bench.newest();
    cut_after(&run, |line| line["masked"] == true);
    let asked = server.requests().len();
    let done = bench.run(&["resume", "--json"]).exits(0).json();
    assert_eq!(tree(&done), tree(&whole));
    assert!(
        codes(&done).contains("secret-in-diff") && codes(&done).contains("asked-again"),
        "{done}"
    );
    assert_eq!(server.requests().len() - asked, 3, "from the answer that is not known");
    let lines = journal(&run);
    assert_eq!(lines.iter().filter(|line| line["masked"] == true).count(), 2);
    // Both were paid, and so both are in the sums.
    let paid = lines.iter().filter(|line| line["reply"].is_string()).count();
    assert_eq!(done["usage"]["calls"], paid);
    assert!(paid > whole["usage"]["calls"].as_u64().unwrap() as usize);
    let diff = bench.run(&["diff"]);
    assert!(
        diff.err.contains("masked") || diff.out.contains("[masked]"),
        "{} {}",
        diff.out,
        diff.err
    );
}

#[test]
fn what_follows_an_answer_that_is_asked_for_again_is_asked_for_too() {
    // The second time the model writes something else under the same ids.
    let secret = "2000000055667788";
    let again = Arc::new(AtomicBool::new(false));
    let second = again.clone();
    let server = Server::start(move |request| {
        let body = request.json();
        let turns = body["messages"].as_array().unwrap().iter();
        let turn = turns.filter(|message| message["role"] == "assistant").count();
        let value = if second.load(Ordering::SeqCst) { "4000000000000" } else { secret };
        match (body["model"].as_str(), turn) {
            (Some("one"), 1) => {
                let file = json!({"path": "value.txt", "content": format!("{value}\n")});
                called(&body, 1, "write_file", &file)
            }
            _ => answer(request),
        }
    });
    let bench = Bench::new();
    bench.configure(&server.url(), "");
    bench.knows(Some(secret));
    bench.run(&["run", "raise the value", "--no-synth", "-q", "--lane", "one"]).exits(0);
    let run = bench.newest();
    // Cut off behind the last answer of the worker.
    cut_after_last(&run, |line| line["entry"] == "call_ended");
    again.store(true, Ordering::SeqCst);
    let asked = server.requests().len();
    bench.run(&["resume", "-q"]).exits(0);
    assert_eq!(server.requests().len() - asked, 3, "the answer, and the two behind it");
    bench.run(&["diff"]).exits(0).prints(&["+4000000000000"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_task_that_holds_a_secret_is_told_whole_or_not_at_all() {
    let secret = "tok\"val-55667788";
    let bench = Bench::new();
    let task = format!("raise the value, and say {secret} twice: {secret}");
    bench.knows(Some(secret));
    assert_eq!(bench.killed_at(&["run", &task, "--no-synth", "-q"], 3).code, None);
    let asked = bench.asked();
    for other in [None, Some("another-secret")] {
        bench.knows(other);
        bench.run(&["resume", "-q"]).exits(2).says(&["no record keeps", "environment"]);
    }
    assert_eq!(bench.asked(), asked);
    bench.knows(Some(secret));
    // Limits that are told anew are no part of that.
    assert_eq!(bench.killed_at(&["resume", "-q", "--max-tokens", "9000000"], 1).code, None);
    bench.run(&["resume", "-q"]).exits(0).prints(&["c2"]);
    bench.run(&["rejudge", "-q", "--no-synth", "--judge", "tests"]).exits(0).prints(&["c2"]);
    let told: Vec<String> =
        bench.server.requests().iter().map(|request| request.json().to_string()).collect();
    assert!(told.iter().all(|text| text.matches("val-55667788").count() == 2));
    assert!(told.iter().all(|text| !text.contains("[masked]")));
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    bench.knows(None);
    bench.run(&["rejudge", "-q"]).exits(2).says(&["no record keeps"]);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_ballot_that_may_be_charged_and_is_refused_then_is_the_same_in_a_replay() {
    let bench = Bench::new();
    let prices =
        ["one", "two"].map(|model| format!("{model} = {{ input = 0.001, output = 0.001 }}\n"));
    let judge = "judge = { input = 1000.0, output = 1000.0 }\n";
    let limits = "[limits]\nmax_output_tokens = 100\n[providers.own.prices]\n";
    bench.configure(&bench.server.url(), &format!("{limits}{}{judge}", prices.concat()));
    assert_eq!(bench.killed_at(&RUN, CALLS - 1).code, None, "with ballots in flight");
    let done = bench.run(&["resume", "--json", "--budget", "0.5"]);
    assert!(done.out.contains("does not allow a call"), "{} {}", done.out, done.err);
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
}

#[test]
fn a_secret_is_masked_before_a_long_answer_is_cut() {
    let secret = "tokval-55667788";
    let bench = Bench::new();
    let server = Server::start(telling(format!("x{secret} ").repeat(4500)));
    bench.configure(&server.url(), "");
    bench.knows(Some(secret));
    bench.run(&RUN);
    let answer = record(&bench.newest())["candidates"][0]["candidate"]["answer"].clone();
    let length = answer.as_str().unwrap().len();
    assert!((15_000..17_000).contains(&length), "{length}");
    for path in files_below(&bench.newest()) {
        let text = fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("tokval"), "{}", path.display());
    }
}

#[test]
fn no_changed_line_or_artifact_of_a_run_that_was_cut_off_is_gone_on_with() {
    let bench = Bench::new();
    // No kill: what was under way then may reach the server or the disk later.
    bench.run(&RUN).exits(0);
    let run = bench.newest();
    cut_after_last(&run, |line| line["entry"] == "call_ended");
    let asked = bench.asked();
    let refused = |what: &str| {
        let done = bench.run(&["resume", "-q"]);
        assert_eq!((done.code, bench.asked()), (Some(6), asked), "{what}: {}", done.err);
    };
    let path = run.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for (at, line) in lines.iter().enumerate().skip(1).filter(|(at, _)| at + 1 < lines.len()) {
        let mut changed: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        match at % 3 {
            0 => flip(&mut changed[at], line.len() / 2),
            1 => changed.insert(at, line.to_vec()),
            _ => drop(changed.remove(at)),
        }
        fs::write(&path, changed.concat()).unwrap();
        refused(&format!("line {}", at + 1));
    }
    fs::write(&path, &whole).unwrap();
    let named = String::from_utf8(whole.clone()).unwrap();
    let files = files_below(&run.join("artifacts"));
    assert!(files.len() > 5, "{files:?}");
    for path in files {
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        flip(&mut changed, whole.len() / 3);
        fs::write(&path, changed).unwrap();
        refused(&path.display().to_string());
        fs::remove_file(&path).unwrap();
        // One that only the record named, which is gone, is not missed.
        if named.contains(path.file_name().unwrap().to_str().unwrap()) {
            refused(&path.display().to_string());
        }
        fs::write(&path, &whole).unwrap();
    }
    let path = run.join("fence.secret");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [7; 32]).unwrap();
    refused("the fences' secret");
    fs::write(&path, whole).unwrap();
    bench.run(&["resume", "-q"]).exits(0);
}
