//! The command line, subcommand by subcommand, on runs of the product's program.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::place::{Done, Place, Running, is, writes};
use super::support::server::{Reply, Server};

/// Tests that the base passes and every candidate fails.
pub const REFUTING: &str = "grep -qx 1 value.txt";

/// A judge that likes the larger value, whichever side it is shown on.
const JUDGE: &str = r#"
[[judge]]
prefer = ["+3000000000000", "+2000000000000"]
[judge.reply]
capture = { nonce = '"nonce": "([^"]+)"' }
text = '{"nonce": "{nonce}", "choice": "{choice}", "reason": "It is larger.", "evidence": ["{quote}"], "vetoes": []}'
"#;

pub fn judged() -> Place {
    let place = Place::new();
    place.configure(
        "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n",
        "[judges]\nuse = [\"correctness\"]\nmodels = [\"scripted:judge\"]\n[lanes.one]\nmodel = \"scripted:one\"\n[lanes.two]\nmodel = \"scripted:two\"\n",
    );
    place.script(&(writes(&[("one", "2000000000000"), ("two", "3000000000000")]) + JUDGE));
    place
}

#[test]
fn events_and_record_agree() {
    let place = judged();
    let events = place.run(["run", "raise the value", "--no-synth", "--events"]).exits(0).out;
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let record = place.record();
    assert_eq!(place.run(["show", "--json"]).exits(0).json(), record);
    let of = |kind: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["event"] == kind).collect()
    };
    assert_eq!(of("started")[0]["run"], record["run"]);
    assert_eq!(of("decided")[0]["decision"], record["decision"]);
    assert_eq!(record["decision"]["basis"], "judges");
    assert_eq!(record["decision"]["outcome"]["candidate"], "c2");
    let ended = events.last().unwrap();
    assert_eq!(
        (&ended["event"], &ended["exit"], &ended["usage"]),
        (&json!("ended"), &record["exit"], &record["usage"])
    );
    let lanes = |key: &str| {
        of(key)
            .iter()
            .map(|event| event["lane"].as_str().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((of("lane_ended").len(), lanes("lane_ended")), (2, lanes("lane_began")));
    let place_of = |wanted: &dyn Fn(&Value) -> bool| events.iter().position(wanted).unwrap();
    let admission = place_of(&|event| event["event"] == "stage_began" && event["stage"] == "admit");
    let last_lane = events.iter().rposition(|event| event["event"] == "lane_ended").unwrap();
    assert!(last_lane < admission, "a lane's end is told when it ends");
    // They are told as they come, and recorded in the order of pairs.
    let told = of("balloted").into_iter().map(|event| event["ballot"].to_string());
    let kept = record["ballots"].as_array().unwrap().iter().map(Value::to_string);
    let sorted = |ballots: &mut dyn Iterator<Item = String>| {
        let mut ballots: Vec<String> = ballots.collect();
        ballots.sort();
        ballots
    };
    assert_eq!(sorted(&mut { told }), sorted(&mut { kept }), "each ballot is told once");
    let gated: usize = record["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["gates"].as_array().unwrap().len())
        .sum();
    assert_eq!(of("gated").len(), gated + record["base"]["gates"].as_array().unwrap().len());
    // `--json` prints the record that is kept.
    let printed = place.run(["run", "raise the value", "--no-synth", "--json", "-q"]).exits(0);
    assert_eq!((printed.json(), printed.err.as_str()), (place.record(), ""));
}

#[test]
fn judges_that_stay_silent_are_not_said_to_be_unasked() {
    let place = judged();
    let answering = |reply: &str| {
        let judge = format!("[[judge]]\nalways = \"tie\"\n[judge.reply]\n{reply}\n");
        place.script(&(writes(&[("one", "2"), ("two", "3")]) + &judge));
    };
    answering("text = \"I like both.\"");
    place
        .run(["run", "x", "--no-synth"])
        .exits(1)
        .prints(&["no judge gave a valid ballot, and agreement alone is too weak"]);
    answering("error = { class = \"auth\" }");
    place.run(["run", "x", "--no-synth"]).exits(3).prints(&["the judges' models did not answer"]);
    let text = place.run(["run", "x", "--no-judge"]).exits(0).out;
    assert!(text.contains("evidence alone, no model was asked to judge"), "{text}");
}

#[test]
fn a_live_run_can_be_looked_at_and_stopped() {
    let place = Place::with_slow_model();
    let mut running = Running::start(place.bakeoff(["run", "raise the value"]));
    running.until(is("lane_began"));
    let id = running.events[0]["run"].as_str().unwrap().to_owned();
    for name in [id.as_str(), "latest", &id[..13], &id[id.len() - 6..]] {
        place.run(["probe", name]).exits(0).prints(&[&id, "raise the value", "workers"]);
    }
    let snapshot = place.run(["probe", "--json"]).exits(0).json();
    assert_eq!((&snapshot["run"], &snapshot["stage"]), (&json!(id), &json!("fan_out")));
    for command in ["show", "diff", "apply"] {
        place.run([command]).exits(2).says(&["is still going on", "bakeoff probe", "bakeoff stop"]);
    }
    place.run(["runs"]).exits(0).prints(&[&id]);
    place.run(["stop", &id]).exits(0).prints(&["stopping"]);
    let (done, events) = running.end();
    assert_eq!(done.code, Some(130), "{}", done.err);
    assert_eq!(events.last().unwrap()["exit"], "interrupted");
    place.run(["show"]).exits(0).prints(&["the run was stopped"]);
    place.run(["diff"]).exits(1).says(&["has no winner", "--candidate"]);
    place.run(["apply"]).exits(1).says(&["has no winner", "--candidate"]);
    for command in ["probe", "stop"] {
        place.run([command]).exits(2).says(&["the run is not going on", "bakeoff show"]);
    }
    place.nothing_left("stopped");
}

#[test]
fn finished_runs() {
    let place = Place::new();
    place.run(["runs"]).exits(0).prints(&["no runs yet"]);
    assert_eq!(place.run(["runs", "--json"]).exits(0).json()["runs"], json!([]));
    place.run(["run", "raise the value", "-o", "../out.diff"]).exits(0);
    let out = fs::read_to_string(place.dir.join("out.diff")).unwrap();
    let ended = place.run(["diff"]).exits(0);
    assert_eq!(ended.out, out);
    place.git(&["apply", "--check", "../out.diff"]);
    place.run(["show"]).exits(0).prints(&["raise the value", "winner: c1", "sh check.sh"]);
    let list = place.run(["runs", "--json"]).exits(0).json();
    let run = &list["runs"][0];
    assert_eq!(
        (&run["title"], &run["exit"], &run["winner"]),
        (&json!("raise the value"), &json!("done"), &json!("c1"))
    );
    place.run(["runs"]).exits(0).prints(&["raise the value", "winner c1"]);
    place.run(["diff", "--candidate", "c2"]).exits(0).prints(&["+3"]);
    place.run(["diff", "--candidate", "c9"]).exits(2).says(&["no candidate \"c9\"", "c1, c2"]);
    place.run(["diff", "--raw", "--candidate", "c1"]).exits(0).prints(&["+2"]);
    place.run(["show", "--schema"]).exits(0).prints(&["RunRecord", "$schema"]);
    fs::write(place.runs()[0].join("record.json"), "{").unwrap();
    place.run(["show"]).exits(6).says(&["is not a readable record", "artifacts are untouched"]);
    place.run(["runs"]).exits(0).prints(&["record.json is not a"]);
}

#[test]
fn the_mode_of_an_output_file_is_ordinary_and_a_link_is_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let target = place.dir.join("target.diff");
    fs::write(&target, "old").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&target, place.dir.join("link.diff")).unwrap();
    place.run(["run", "x", "-o", "../link.diff"]).exits(0);
    assert!(fs::read_to_string(&target).unwrap().contains("+2"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&target), 0o640);
    place.run(["run", "x", "-o", "../new.diff"]).exits(0);
    assert_ne!(mode(&place.dir.join("new.diff")) & 0o400, 0);
    place.run(["run", "x", "--test", REFUTING, "-o", "../link.diff"]).exits(1);
    assert!(fs::read_to_string(&target).unwrap().contains("+2"), "no winner, nothing written");
}

#[test]
fn a_dry_run_tells_all_and_sends_nothing() {
    let server = Server::start(|_| Reply::json(500, "{}"));
    let place = Place::new();
    place.config(&format!(
        "[providers.local]\nwire = \"openai-chat\"\nbase_url = \"{}/v1\"\nprices = {{ m = {{ input = 1.0, output = 2.0 }} }}\n\
         [gates]\nsetup = \"sh -c :\"\ncheck = \"sh check.sh\"\n[judges]\nuse = [\"scope\"]\n[lanes.a]\nmodel = \
         \"local:m\"\nattempts = 3\n[lanes.b]\nmodel = \"local:other\"\n",
        server.url()
    ));
    let args = ["run", "x", "--test", "sh test.sh", "--dry-run"];
    place.run(args).exits(0).prints(&[
        "a = local:m x 3",
        "b = local:other x 1",
        "setup   sh -c : (user config)",
        "check   sh check.sh (user config)",
        "test    sh test.sh (flag)",
        "judges  scope by local:m, local:other",
        "synth   local:m",
        "at most",
        "price unknown for some models",
    ]);
    let json = place.run(args.iter().chain(&["--json"])).exits(0).json();
    assert_eq!(json["plan"]["lanes"][0]["attempts"], 3);
    assert_eq!(json["most_cost"]["partly_unknown"], true);
    assert!(json["most_calls"].as_u64().unwrap() > 4 * 90);
    let one = ["run", "x", "--lane", "a", "--no-judge", "--budget", "3", "--dry-run"];
    place.run(one).exits(0).prints(&["cost    at most $", "--budget stops the run at $3"]);
    assert_eq!((server.requests().len(), place.runs().len(), place.home().exists()), (0, 0, false));
    place.nothing_left("dry run");
}

#[test]
fn tasks_come_from_arguments_files_and_standard_input() {
    let place = Place::new();
    fs::write(place.dir.join("issue.md"), "# From a file\n\nwords\n").unwrap();
    place.run(["run", "-f", "../issue.md"]).exits(0);
    assert_eq!(
        place.record()["plan"]["task"],
        json!({"text": "# From a file\n\nwords\n", "source": {"kind": "file", "path": "../issue.md"}})
    );
    for args in [["run", "-"].as_slice(), &["run", "-f", "-"]] {
        let file = fs::File::open(place.dir.join("issue.md")).unwrap();
        Done::run(place.bakeoff(args).stdin(file)).exits(0);
        assert_eq!(place.record()["plan"]["task"]["source"]["kind"], "stdin");
    }
    place.run(["run", "as an argument"]).exits(0);
    assert_eq!(place.record()["plan"]["task"]["source"]["kind"], "argument");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    place.run(["run", "x"]).exits(0);
    for args in [
        &["runs"][..],
        &["show"],
        &["show", "--json"],
        &["diff"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
        &["run", "x"],
        &["run", "x", "--events"],
        &["run", "x", "--json"],
    ] {
        let mut child =
            place.bakeoff(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{args:?}: {said}");
    }
    assert_eq!(place.record()["exit"], "done");
}

#[test]
fn completions_manual_and_help() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.run(["completions", shell]).exits(0).prints(&["bakeoff", "selftest"]);
    }
    place.run(["completions", "tcsh"]).exits(2).says(&["bash"]);
    place.run(["man"]).exits(0).prints(&[".TH", "bakeoff", "Exit codes"]);
    place.run(["--version"]).exits(0).prints(&[env!("CARGO_PKG_VERSION")]);
    place.run(["--help"]).exits(0).prints(&["Exit codes: 0", "130, 143"]);
    for command in [
        "run",
        "pick",
        "gate",
        "demo",
        "runs",
        "show",
        "diff",
        "apply",
        "jobs",
        "attach",
        "probe",
        "steer",
        "stop",
        "trust",
        "doctor",
        "init",
        "selftest",
        "completions",
        "man",
    ] {
        place.run([command, "--help"]).exits(0).prints(&["Usage: bakeoff"]);
    }
    place.run([""; 0]).exits(2).says(&["Usage: bakeoff"]);
}

#[test]
fn doctor_tries_a_terminal() {
    let place = Place::new();
    let row = "ok  pty                    commands of `bakeoff shell --pty` get their own";
    place.run(["doctor"]).exits(0).prints(&["\nterminals\n", row]);
    let json = place.run(["doctor", "--json"]).exits(0).json();
    assert_eq!(json["terminals"], serde_json::json!({"works": true, "trouble": null}));
}

#[test]
fn init_writes_once() {
    let place = Place::new();
    let printed = place.run(["init", "--print"]).exits(0).out;
    assert!(!place.repo.join("bakeoff.toml").exists());
    place.run(["init"]).exits(0).prints(&["wrote", "bakeoff.toml", "commit it"]);
    assert_eq!(place.read("bakeoff.toml"), printed);
    place.write("bakeoff.toml", "# mine\n");
    place.run(["init"]).exits(2).says(&["is there already", "left alone"]);
    assert_eq!(place.read("bakeoff.toml"), "# mine\n");
    place.write("bakeoff.toml", &printed);
    place.commit("settings");
    place.run(["run", "x"]).exits(0);
}

#[test]
fn trust_is_bound_to_what_was_read() {
    let place = Place::new();
    let settings = |url: &str| {
        format!("[gates]\ncheck = \"sh check.sh\"\n[providers.scripted]\nbase_url = \"{url}\"\n")
    };
    place.write("bakeoff.toml", &settings("http://127.0.0.1:1/v1"));
    place.commit("names a server");
    let refusal = [
        "bakeoff.toml:3:",
        "it names a server and a key that goes there",
        "is not trusted",
        "bakeoff trust",
    ];
    place.run(["run", "x"]).exits(2).says(&refusal);
    place.run(["run", "x", "--dry-run"]).exits(2).says(&refusal);
    assert_eq!(place.runs().len(), 0);
    place.run(["trust"]).exits(0).prints(&["trusted bakeoff.toml"]);
    place.run(["run", "x"]).exits(0);
    place.write("bakeoff.toml", &settings("http://127.0.0.1:2/v1"));
    place.run(["run", "x"]).exits(0).says(&["uncommitted changes"]);
    place.commit("names another server");
    place.run(["run", "x"]).exits(2).says(&refusal);
    place.run(["run", "x", "--base", "HEAD~1"]).exits(0);
    place.run(["trust"]).exits(0);
    place.run(["run", "x"]).exits(0);
    place.run(["trust", "--revoke"]).exits(0).prints(&["no longer trusted"]);
    place.run(["trust", "--revoke"]).exits(0).prints(&["was not trusted"]);
    place.run(["run", "x"]).exits(2).says(&refusal);
    place.run(["trust", "--base", "HEAD~2"]).exits(2).says(&["there is nothing to trust"]);
}

// contract C33-trust-1
#[test]
fn what_a_repository_may_set_without_trust() {
    let place = Place::new();
    let cases = [
        ("[gates]\nenv = [\"HOME\"]\n", "it passes the operator's environment to code"),
        ("[gates]\nsetup_network = true\n", "it gives code a network"),
        ("[limits]\nmax_parallel = 99\n", "it sets what a run may spend"),
        ("[patch]\nlinks = true\n", "it lets more in than text in regular files"),
        ("[judges]\nenabled = false\n", "it names who judges"),
        (
            "[lanes.new]\nmodel = \"scripted:m\"\n",
            "their models and attempts spend the operator's money",
        ),
    ];
    for (text, why) in cases {
        place.write("bakeoff.toml", text);
        place.commit("settings");
        place.run(["run", "x"]).exits(2).says(&["bakeoff.toml:", why, "bakeoff trust"]);
    }
    // A judge of the repository is left out until it is trusted.
    place.write("bakeoff.toml", "[gates]\ncheck = \"true\"\n");
    place.write(".bakeoff/judges/own.toml", "");
    place.commit("a judge");
    place
        .run(["run", "x", "--judge", "own", "--judge-model", "scripted:j"])
        .exits(2)
        .says(&["there is no judge `own`"]);
    place.run(["run", "x"]).exits(0).says(&["check   true (bakeoff.toml)"]);
}

#[test]
fn prompts_and_judges_come_in_layers_with_their_origin_in_the_record() {
    let place = Place::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let prompts = place.dir.join("config/bakeoff/prompts");
    std::fs::create_dir_all(&prompts).unwrap();
    let own = text("prompts/worker_task.md.j2") + "\nHouse rule: be brief.\n";
    std::fs::write(prompts.join("worker_task.md.j2"), own).unwrap();
    place.write(
        ".bakeoff/judges/scope.toml",
        &text("judges/scope.toml").replace("weight = 2", "weight = 4"),
    );
    place.commit("a judge of its own");
    let layer = |name: &str| {
        place.run(["run", "raise the value"]).exits(0);
        let origin = place.record()["definitions"][name].as_str().unwrap().to_owned();
        let (layer, hash) = origin.split_once(':').unwrap();
        assert_eq!(hash.len(), 64, "{origin}");
        layer.to_owned()
    };
    assert_eq!(layer("prompt worker_task"), "user");
    assert_eq!(layer("prompt judge"), "builtin");
    assert_eq!(layer("judge scope"), "builtin", "an unknown repository's judge is left out");
    place.run(["trust"]).exits(0).prints(&[".bakeoff/judges/scope.toml"]);
    assert_eq!(layer("judge scope"), "repository");
}

const KEY: &str = "sk-a-key-that-nobody-may-see-0123456789";

/// An answer with a diff, which gives away the key it was asked with.
fn telling() -> Reply {
    let text = format!(
        "My key is {KEY}.\n```diff\n--- a/value.txt\n+++ b/value.txt\n@@ -1 +1 @@\n-1\n+2\n```\n"
    );
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "r", "model": "m", "choices": [choice]}))
    };
    Reply::sse(
        chunk(json!({"role": "assistant", "content": text}), Value::Null)
            + &chunk(json!({}), json!("stop"))
            + "data: [DONE]\n\n",
    )
}

#[test]
fn keys_stay_where_they_are() {
    let place = Place::new();
    let server = Server::start(|request| match request.path.contains("refusing") {
        true => Reply::json(
            401,
            &json!({"error": {"message": format!("the key {KEY} is wrong")}}).to_string(),
        ),
        false => telling(),
    });
    let settings = |path: &str| {
        format!(
            "[providers.local]\nwire = \"openai-chat\"\nbase_url = \"{}/{path}\"\nkey_env = \"LOCAL_KEY\"\n[judges]\nenabled \
             = false\n[lanes.a]\nmodel = \"local:m\"\n",
            server.url()
        )
    };
    let spy = format!(
        "{{ env; cat /proc/[0-9]*/environ; }} 2>/dev/null | tr '\\0' '\\n' > seen; cat seen; ! grep -q {} seen",
        &KEY[3..20]
    );
    let run = |flags: &[&str]| {
        let args = ["run", "x", "--check", "sh check.sh", "--test", &spy];
        Done::run(place.bakeoff(args.iter().chain(flags)).env("LOCAL_KEY", KEY))
    };
    let mut said = Vec::new();
    place.config(&settings("v1"));
    said.push(run(&[]).exits(0));
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    // Named for the gates it is there, and still in no file.
    said.push(run(&["--env", "LOCAL_KEY"]));
    assert_eq!(said[1].code, Some(4), "the gate saw what was named for it: {}", said[1].out);
    assert!(said[1].out.contains("LOCAL_KEY=[masked]"), "{}", said[1].out);
    place.config(&settings("refusing"));
    said.push(run(&["--json"]).exits(3));
    said.push(run(&["--events"]).exits(3));
    for done in said {
        assert!(!done.out.contains(KEY) && !done.err.contains(KEY), "{}\n{}", done.out, done.err);
    }
    let mut files = 0;
    search(&place.home(), &mut files);
    assert!(files > 20, "the walk found too little");
    place.nothing_left("keys");
}

fn search(dir: &Path, files: &mut u32) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            search(&entry.path(), files);
        } else if kind.is_file() {
            *files += 1;
            let bytes = fs::read(entry.path()).unwrap();
            let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
            assert!(!found, "the key is in {}", entry.path().display());
        }
    }
}

#[test]
fn limits_end_a_run_and_say_so() {
    let place = Place::with_slow_model();
    let before = place.fingerprint();
    let done = place.run(["run", "x", "--max-seconds", "2"]).exits(5);
    done.prints(&["time limit", "--max-seconds"]);
    assert_eq!(place.record()["exit"], "limit");
    assert_eq!(place.fingerprint(), before);
    place.nothing_left("time limit");
}
