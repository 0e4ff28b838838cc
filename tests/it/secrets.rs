//! What becomes of a run in which models say what is secret: none of it is kept, and resume and replay come to the same
//! all the same. The models are a server of the tests' own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::resume::{
    Bench, CALLS, RUN, answer, called, decided, flip, journal, record, said, verdict,
};
use super::support::place::Done;
use super::support::server::{Reply, Request, Server};

impl Bench {
    /// Runs a command with one more variable in its environment.
    fn run_knowing(&self, args: &[&str], name: &str, secret: &str) -> Done {
        let mut command = self.place.bakeoff(args);
        command.env("OWN_KEY", "own-key-5d1f0c").env(name, secret);
        Done::run(command)
    }
}

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
    ] {
        let bench = Bench::new();
        let server = Server::start(telling(secret.to_owned()));
        bench.configure(&server.url(), "");
        bench.run_knowing(&RUN, "X_TOKEN", secret).exits(0).prints(&["c2"]);
        let run = bench.newest();
        assert_eq!(server.requests().len(), CALLS);
        assert!(record(&run)["ballots"].to_string().contains("larger, [masked]"));
        let tail = secret.rsplit(['"', '\\', '\n', '\u{fc}']).next().unwrap();
        for path in files_below(&bench.place.home()) {
            let bytes = fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(tail), "{}", path.display());
        }
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
        bench.run_knowing(&["replay"], "X_TOKEN", secret).exits(0).prints(&["the same decision"]);
        // Cut off at its very end, nothing is asked again, whether the secret is known there or not.
        fs::remove_file(run.join("record.json")).unwrap();
        bench.run(&["resume", "-q"]).exits(0);
        assert_eq!(server.requests().len(), CALLS);
        bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    }
}

#[test]
fn a_secret_that_is_a_word_of_the_engine_s_own_changes_no_replay_and_no_resume() {
    let bench = Bench::new();
    bench.run_knowing(&RUN, "X_TOKEN", "candidate").exits(0);
    let (run, whole) = (bench.newest(), record(&bench.newest()));
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
    fs::remove_file(run.join("record.json")).unwrap();
    bench.run(&["resume", "-q"]).exits(0);
    assert_eq!(bench.asked(), CALLS, "nothing was paid twice");
    assert_eq!(decided(&record(&run)), decided(&whole));
    bench.run(&["replay"]).exits(0).prints(&["the same decision"]);
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
    let whole = uncut.run_knowing(&args, "X_TOKEN", secret).exits(0).json();
    let tree = |record: &Value| record["candidates"][0]["admission"]["tree"].clone();
    let codes = |record: &Value| record["warnings"].to_string();
    assert!(codes(&whole).contains("secret-in-diff"));
    assert!(tree(&whole).is_string(), "{whole}");

    // Killed when the answer with the secret is in the journal.
    let bench = Bench::new();
    bench.configure(&server.url(), "");
    bench.run_knowing(&args, "X_TOKEN", secret).exits(0);
    let run = bench.newest();
    let path = run.join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let masked = text.find("\"masked\":true").expect("a masked answer");
    let end = masked + text[masked..].find('\n').unwrap() + 1;
    fs::write(&path, &text[..end]).unwrap();
    fs::remove_file(run.join("record.json")).unwrap();
    let asked = server.requests().len();
    let done = bench.run_knowing(&["resume", "--json"], "X_TOKEN", secret).exits(0).json();
    assert_eq!(tree(&done), tree(&whole));
    assert!(
        codes(&done).contains("secret-in-diff") && codes(&done).contains("asked-again"),
        "{done}"
    );
    assert_eq!(server.requests().len() - asked, 3, "from the answer that is not known");
    let kept = journal(&run).iter().filter(|line| line["masked"] == true).count();
    assert_eq!(kept, 2);
    let diff = bench.run_knowing(&["diff"], "X_TOKEN", secret);
    assert!(
        diff.err.contains("masked") || diff.out.contains("[masked]"),
        "{} {}",
        diff.out,
        diff.err
    );
}

#[test]
fn no_changed_line_or_artifact_of_a_run_that_was_cut_off_is_gone_on_with() {
    let bench = Bench::new();
    bench.killed_at(&RUN, 7);
    let run = bench.newest();
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
    let mut files = files_below(&run.join("artifacts"));
    // What the kill left half written has another name, and goes at the first resume.
    files.retain(|path| path.file_name().unwrap().len() == 62);
    assert!(files.len() > 5, "{files:?}");
    for path in files {
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        flip(&mut changed, whole.len() / 3);
        fs::write(&path, changed).unwrap();
        refused(&path.display().to_string());
        fs::remove_file(&path).unwrap();
        refused(&path.display().to_string());
        fs::write(&path, &whole).unwrap();
    }
    let path = run.join("fence.secret");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [7; 32]).unwrap();
    refused("the fences' secret");
    fs::write(&path, whole).unwrap();
    bench.run(&["resume", "-q"]).exits(0);
}
