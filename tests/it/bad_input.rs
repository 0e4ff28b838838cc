//! What is wrong with what was given: the exit code, the words, and nothing lost.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use super::support::place::{Done, Place, git};
use super::support::server::{Reply, Server};

/// Asserts that each command ends with the code and says the words, leaves the checkout alone and no run
/// behind (for what is refused before anything is done).
fn refused(place: &Place, cases: &[(&[&str], &[&str])]) {
    let before = place.fingerprint();
    for (args, words) in cases {
        let done = place.run(*args);
        assert_eq!(done.code, Some(2), "{args:?}: {}\n{}", done.out, done.err);
        for word in *words {
            assert!(done.err.contains(word), "{args:?}: {word:?} is not in: {}", done.err);
        }
        assert_eq!(done.out, "", "{args:?}: results on standard output");
        assert_eq!(place.runs().len(), 0, "{args:?}: it left a run");
    }
    assert_eq!(place.fingerprint(), before);
    place.nothing_left("refused");
}

#[test]
fn repositories_and_revisions() {
    let place = Place::new();
    for name in ["none", "bare", "empty"] {
        fs::create_dir(place.dir.join(name)).unwrap();
    }
    git(&place.dir.join("bare"), &["init", "-q", "--bare", "."]);
    git(&place.dir.join("empty"), &["init", "-q", "."]);
    let at = |name: &str| place.dir.join(name).to_str().unwrap().to_owned();
    let (none, bare, empty, gone) = (at("none"), at("bare"), at("empty"), at("gone"));
    for command in [&["run", "x"][..], &["pick", "main"], &["gate", "main"], &["init"], &["trust"]]
    {
        let with = |dir: &str| -> Vec<String> {
            command
                .iter()
                .map(|arg| (*arg).to_owned())
                .chain(["-C".to_owned(), dir.to_owned()])
                .collect()
        };
        let cases: [(&str, &[&str]); 4] = [
            (&none, &["is not inside a git repository", "git init", "--repo"]),
            (&bare, &["is a bare repository", "git worktree add"]),
            (&empty, &["has no commit yet", "commit something first"]),
            (&gone, &["No such file or directory", "--repo"]),
        ];
        for (dir, words) in cases {
            let args = with(dir);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            refused(&place, &[(&args, words)]);
        }
    }
    refused(
        &place,
        &[
            (&["run", "x", "--base", "nope"], &["revision \"nope\" is not in the repository"]),
            (&["run", "x", "--base", "mian"], &["mian", "main"]),
            (&["run", "x", "--dir", "nodir"], &["the base has no directory \"nodir\"", "--dir"]),
            (&["run", "x", "--dir", "../repo"], &["--dir ../repo", "inside the repository"]),
        ],
    );
}

#[test]
fn tasks() {
    let place = Place::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = place.dir.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let huge = file("huge.md", &vec![b'x'; 10 << 20]);
    let (empty, binary) = (file("empty.md", b" \n\n"), file("binary.md", b"a\xff\xfeb"));
    let home = place.dir.to_str().unwrap();
    refused(
        &place,
        &[
            (&["run"], &["no task", "--task-file"]),
            (&["run", " \n "], &["the task is empty"]),
            (&["run", "-"], &["the task is empty", "standard input"]),
            (&["run", "-f", &empty], &["the task is empty"]),
            (&["run", "-f", &huge], &["the task has more than 1048576 bytes"]),
            (&["run", "-f", &binary], &["the task is not UTF-8 text"]),
            (&["run", "-f", "gone.md"], &["failed to read the task file gone.md"]),
            (&["run", "-f", home], &["failed to read the task file"]),
            (&["run", "x", "-f", &empty], &["cannot be used with"]),
        ],
    );
    let huge = fs::File::open(place.dir.join("huge.md")).unwrap();
    let done = Done::run(place.bakeoff(["run", "-"]).stdin(huge));
    done.exits(2).says(&["the task has more than 1048576 bytes"]);
}

#[test]
fn flags() {
    let place = Place::new();
    let long = "x".repeat(100);
    refused(
        &place,
        &[
            (&["run", "x", "--lane", "oen"], &["unknown lane `oen`", "did you mean `one`"]),
            (
                &["run", "x", "--lane", "a=nowhere:m"],
                &["unknown provider `nowhere`", "[providers.nowhere]"],
            ),
            (&["run", "x", "--lane", "a=m"], &["lane `a=m`", "NAME=PROVIDER:MODEL[:COUNT]"]),
            (&["run", "x", "--lane", "a=scripted:m:0"], &["the count is not from 1"]),
            (&["run", "x", "--lane", &format!("{long}=scripted:m")], &["a name has 1 to 40"]),
            (&["run", "x", "-n", "0"], &["1..=256"]),
            (&["run", "x", "--budget", "-1"], &["--budget"]),
            (&["run", "x", "--budget", "0"], &["--budget 0", "above 0"]),
            (&["run", "x", "--max-seconds", "0"], &["--max-seconds"]),
            (&["run", "x", "--judge", "nope"], &["there is no judge `nope`", "correctness"]),
            (&["run", "x", "--judge-model", "nope"], &["--judge-model nope", "PROVIDER:MODEL"]),
            (&["run", "x", "--judge", "scope", "--no-judge"], &["cannot be used with"]),
            (&["run", "x", "--env", "NOT_SET"], &["--env NOT_SET", "is not set"]),
            (&["run", "x", "--test", "auto"], &["--test auto", "--test CMD"]),
            (
                &["run", "x", "-o", "no/dir/x.diff"],
                &["-o no/dir/x.diff", "a directory that exists"],
            ),
            (&["run", "x", "-o", "."], &["-o .", "give a file"]),
            (&["run", "x", "-o", "-", "--json"], &["-o -", "--json"]),
            (&["run", "x", "-o", "-", "--events"], &["-o -", "--events"]),
            (&["run", "x", "--json", "--events"], &["cannot be used with"]),
            (&["pick", "main", "--judge", "scope"], &["judges compare candidates by the task"]),
            (&["show", "nope"], &["no run matches \"nope\"", "bakeoff runs"]),
            (&["diff"], &["no run matches \"latest\""]),
            (&["apply"], &["no run matches \"latest\""]),
            (&["probe"], &["no run matches"]),
            (&["jobs", "nope"], &["no run matches \"nope\"", "bakeoff runs"]),
            (&["attach"], &["[RUN] ID"]),
            (&["attach", "one/1"], &["no run matches \"latest\""]),
            (&["attach", "a", "b", "c"], &["unexpected value 'c'"]),
            (&["steer", "one"], &["[RUN] LANE TEXT"]),
            (&["steer", "one", "x"], &["no run matches \"latest\""]),
            (&["stop", "one/1"], &["no run matches \"latest\""]),
            (&["selftest", "nope"], &["there is no selftest \"nope\""]),
            (&["frobnicate"], &["unrecognized subcommand"]),
        ],
    );
}

#[test]
fn budgets_need_prices() {
    let place = Place::new();
    place.config(
        "[providers.local]\nwire = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
    );
    let args = ["run", "x", "--lane", "a=local:m", "--no-judge", "--no-check", "--budget", "1"];
    refused(
        &place,
        &[(&args, &["local:m", "price is unknown", "[providers.local.prices]", "--budget"])],
    );
}

#[test]
fn settings_name_the_line() {
    let place = Place::new();
    place.config("[limits]\nmax_parallel = 4\n[lanes.a\nmodel = \"x:y\"\n");
    refused(&place, &[(&["run", "x"], &["config.toml:3:", "[lanes.a"])]);
    place.config("[limits]\nmax_paralel = 4\n");
    refused(&place, &[(&["run", "x"], &["config.toml:2:1", "max_paralel", "max_parallel"])]);
    place.config("[limits]\n\nmax_parallel = \"four\"\n");
    refused(&place, &[(&["run", "x"], &["config.toml:3:", "\"four\""])]);
    fs::write(place.dir.join("config/bakeoff/config.toml"), b"a = \"\xff\"\n").unwrap();
    refused(&place, &[(&["run", "x"], &["config.toml", "UTF-8"])]);
    place.configure("", "[tools]\nno_such_tool = false\n[lanes.one]\nmodel = \"scripted:one\"\n");
    place.run(["run", "x", "--no-check"]).exits(2).says(&["no_such_tool", "read_file"]);
    place.config("");
    place.write("bakeoff.toml", "[gates]\n\ncheck = 3\n");
    place.commit("settings");
    refused(&place, &[(&["run", "x"], &["bakeoff.toml:3:", "check"])]);
}

#[test]
fn diffs() {
    let place = Place::new();
    let at = |name: &str, text: &[u8]| {
        let path = place.dir.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = r#"{"instance_id":"a","model_patch":"x"}"#;
    let two = r#"{"instance_id":"b","model_patch":"x"}"#;
    let (torn, several) = (
        at("torn.jsonl", format!("{one}\n{{\n").as_bytes()),
        at("two.jsonl", format!("{one}\n{two}\n").as_bytes()),
    );
    fs::create_dir(place.dir.join("no-diffs")).unwrap();
    let empty_dir = place.dir.join("no-diffs").to_str().unwrap().to_owned();
    refused(
        &place,
        &[
            (&["pick"], &["<SOURCE>"]),
            (&["pick", "gone.diff"], &["\"gone.diff\" is no file, no directory and no revision"]),
            (&["pick", &torn], &["torn.jsonl is not a prediction file", "line 2"]),
            (&["pick", &several], &["speaks of 2 instances", "--instance: a, b"]),
            (&["pick", &several, "--instance", "c"], &["no instance \"c\"", "a, b"]),
            (&["pick", &empty_dir], &["holds no files"]),
        ],
    );
    let cases: [(&str, &[u8], &str); 6] = [
        // Saved as JSON, it is still an answer and no prediction.
        ("answer.json", br#"{"patch": "none was needed"}"#, "not-a-diff"),
        ("words.diff", b"I changed the value, as you asked.\n", "not-a-diff"),
        ("nothing.diff", b"", "empty"),
        ("torn.diff", b"--- a/value.txt\n+++ b/value.txt\n@@ -1,9 +1 @@\n-1\n", "truncated"),
        (
            "other.diff",
            b"--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-a\n+b\n",
            "src/main.py",
        ),
        ("binary.diff", b"\x00\xff\xfe", "nul-byte"),
    ];
    let before = place.fingerprint();
    for (name, text, word) in cases {
        let source = at(name, text);
        for command in ["gate", "pick"] {
            let done = place.run([command, &source]).exits(1);
            assert!(done.out.contains(word), "{name}: {word:?} is not in {}", done.out);
            assert!(done.err.contains(word), "{name}: {word:?} is not in {}", done.err);
        }
        let record = place.record();
        assert_eq!(record["candidates"][0]["admission"]["kind"], "refused", "{name}");
        let raw = place.bakeoff(["diff", "--raw", "--candidate", "c1"]).output().unwrap().stdout;
        assert_eq!(raw, text, "{name}: what was proposed is kept");
        place.run(["diff", "--candidate", "c1"]).exits(2).says(&["was refused", "--raw"]);
    }
    assert_eq!(place.fingerprint(), before);
    place.nothing_left("diffs");
}

#[test]
fn gates_that_are_not_there() {
    let place = Place::new();
    place.configure("", "[judges]\nenabled = false\n[lanes.one]\nmodel = \"scripted:one\"\n");
    refused(&place, &[(&["run", "x"], &["no typecheck was found", "--check CMD", "--no-check"])]);
    let done = place.run(["run", "x", "--check", "no-such-program --all"]).exits(4);
    done.says(&["no-such-program", "install the tool"]).prints(&["no-such-program"]);
    assert_eq!(place.record()["lanes"].as_array().unwrap().len(), 0, "no model was paid");
    place.run(["run", "x", "--no-check"]).exits(0).says(&["no check and no test was asked for"]);
}

/// Settings with one lane at a server that speaks this dialect.
fn at_server(place: &Place, wire: &str, url: &str) {
    place.config(&format!(
        "[providers.local]\nwire = \"{wire}\"\nbase_url = \"{url}/v1\"\nkey_env = \"LOCAL_KEY\"\n[judges]\nenabled = \
         false\n[lanes.a]\nmodel = \"local:some-model\"\n"
    ));
}

fn with_key(place: &Place) -> Done {
    let args = ["run", "x", "--check", "sh check.sh"];
    Done::run(place.bakeoff(args).env("LOCAL_KEY", "sk-wrong-key-12345"))
}

#[test]
fn models_that_do_not_answer() {
    let place = Place::new();
    place.config("");
    refused(&place, &[(&["run", "x", "--no-check"], &["ANTHROPIC_API_KEY", "OPENAI_API_KEY"])]);
    let before = place.fingerprint();
    let cases = [
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
            "Incorrect API key",
        ),
        (402, r#"{"error":{"message":"your account has no credit"}}"#, "no credit"),
        (
            404,
            r#"{"error":{"message":"the model `some-model` does not exist","code":"model_not_found"}}"#,
            "does not exist",
        ),
    ];
    for wire in ["openai-chat", "anthropic"] {
        for (status, body, word) in cases {
            let server = Server::start(move |_| Reply::json(status, body));
            at_server(&place, wire, &server.url());
            let done = with_key(&place).exits(3).prints(&[word, "local:some-model"]).says(&[word]);
            assert!(!done.out.contains("sk-wrong-key") && !done.err.contains("sk-wrong-key"));
            assert_eq!(server.requests().len(), 1, "{status} is not asked again");
            assert_eq!(place.record()["exit"], "models");
        }
    }
    at_server(&place, "openai-chat", "http://127.0.0.1:9");
    place.run(["run", "x", "--check", "true"]).exits(2).says(&["$LOCAL_KEY"]);
    with_key(&place).exits(3).prints(&["127.0.0.1:9"]);
    assert_eq!(place.fingerprint(), before);
    place.nothing_left("models");
}

/// Runs a shell line in namespaces of its own, where it may mount. `$B` is the program.
fn mounting(place: &Place, line: &str) -> Done {
    let mut command = Command::new("unshare");
    let plain = place.bakeoff([""; 0]);
    command.args(["-Urm", "sh", "-c", line]).current_dir(&place.repo).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or(OsStr::new("")));
    }
    command.env("B", env!("CARGO_BIN_EXE_bakeoff"));
    Done::run(command)
}

#[test]
fn disks_that_refuse() {
    let place = Place::new();
    let before = place.fingerprint();
    let home = place.home();
    fs::create_dir(&home).unwrap();
    let at = home.display();
    // Read-only.
    let line = format!("mount -t tmpfs -o ro none {at} && exec \"$B\" run x");
    let hint = "set BAKEOFF_HOME to a directory that you can write to";
    mounting(&place, &line).exits(6).says(&["Read-only file system", hint, "state/runs"]);
    let line = format!(
        "mount -t tmpfs none {at} && mkdir {at}/cache && mount -t tmpfs -o ro none {at}/cache && exec \"$B\" run x"
    );
    mounting(&place, &line).exits(6).says(&[
        "Read-only file system",
        hint,
        "cache",
        "nothing was saved",
    ]);
    // Full, sooner or later: never a success without a record.
    let mut codes = std::collections::BTreeSet::new();
    for size in [4, 16, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 512, 4 << 20] {
        let line = format!(
            "mount -t tmpfs -o size={size}k none {at} && \"$B\" run x; code=$?; [ $code != 0 ] || \"$B\" show >&2 || exit 99; \
             [ $code != 6 ] || {{ mount -o remount,size=4g {at}; \"$B\" resume -q >&2; echo resumed: $? >&2; }}; exit $code"
        );
        let done = mounting(&place, &line);
        let code = done.code.unwrap();
        if code == 4 {
            // Seen before the disk said no: a gate is not blamed for it.
            assert!(done.out.contains("make room"), "{size} KiB: {}\n{}", done.out, done.err);
            continue;
        }
        assert!([0, 6].contains(&code), "{size} KiB: {code} {}\n{}", done.out, done.err);
        if code == 6 {
            let done = done.says(&["No space left on device"]);
            let named = done.err.contains("saved") || done.err.contains("state/runs");
            // A run whose workers or gates had no room has a record, and says why.
            let told = done.out.contains("every lane failed");
            assert!(named || told, "{size} KiB: {}\n{}", done.out, done.err);
            // Once there is room it goes on, unless nothing had been saved.
            let blank = ["no run matches", "before anything was asked or saved"];
            let on = done.err.contains("resumed: 0")
                || blank.iter().any(|word| done.err.contains(word))
                    && done.err.contains("resumed: 2");
            assert!(on, "{size} KiB: {}\n{}", done.out, done.err);
        }
        codes.insert(code);
    }
    assert_eq!(codes.len(), 2, "sizes on both sides of what is needed");
    // In the way.
    fs::remove_dir(&home).unwrap();
    fs::write(&home, "a file").unwrap();
    place.run(["run", "x"]).exits(6).says(&["Not a directory", "state/runs"]);
    place.run(["trust", "--revoke"]).exits(6).says(&["trust store", "BAKEOFF_HOME"]);
    fs::remove_file(&home).unwrap();
    // The repository itself.
    let repo = place.repo.display();
    let read_only =
        format!("mount --bind {repo} {repo} && mount -o remount,bind,ro {repo} && cd {repo}");
    mounting(&place, &format!("{read_only} && exec \"$B\" init"))
        .exits(6)
        .says(&["bakeoff.toml", "Read-only"]);
    mounting(&place, &format!("{read_only} && exec \"$B\" run x --apply")).exits(6).says(&[
        "Read-only file system",
        "the run itself is kept",
        "bakeoff diff",
    ]);
    assert_eq!(place.fingerprint(), before);
    place.nothing_left("disks");
}

#[test]
fn a_run_on_a_disk_that_refuses_is_read() {
    let place = Place::new();
    place.run(["run", "x"]).exits(0);
    let home = place.home();
    let at = home.display();
    for command in ["replay", "show", "diff", "runs"] {
        let line = format!(
            "mount --bind {at} {at} && mount -o remount,bind,ro {at} && ! touch {at}/x 2>/dev/null && exec \"$B\" {command}"
        );
        mounting(&place, &line).exits(0);
    }
}

#[test]
fn results_that_can_not_be_written_are_kept() {
    let place = Place::new();
    let words = ["No space left on device", "the run itself is kept", "bakeoff show"];
    place.run(["run", "x", "-o", "/dev/full"]).exits(6).says(&words);
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.bakeoff(["run", "x", "--json"]).stdout(full()).output().unwrap();
    Done::of(output).exits(6).says(&words);
    let output = place.bakeoff(["run", "x", "--events"]).stdout(full()).output().unwrap();
    Done::of(output).exits(0);
    place.run(["run", "x", "-o", "/dev/null"]).exits(0);
    let null = fs::metadata("/dev/null").unwrap();
    assert!(!null.is_file(), "a device is written to and never replaced");
    place.run(["show"]).exits(0);
}

#[test]
fn paths_of_any_bytes() {
    let place = Place::new();
    let odd = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let repo = place.dir.join(odd(b"r\xff\xfepo"));
    fs::rename(&place.repo, &repo).unwrap();
    fs::write(repo.join(odd(b"caf\xe9.txt")), "x\n").unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "a name in Latin-1"]);
    fs::write(repo.join(odd(b"dirty\xe9.txt")), "x\n").unwrap();
    let diff = place.dir.join(odd(b"good\xff.diff"));
    fs::copy(place.diff("good.diff", "2"), &diff).unwrap();
    let before = bakeoff::pipeline::fingerprint(&repo).unwrap();
    let run = |args: &[&OsStr]| {
        let mut command = place.bakeoff(args);
        command.current_dir(&repo).env("BAKEOFF_HOME", place.dir.join(odd(b"st\xffte")));
        Done::run(command)
    };
    let words = |text: &'static str| text.split(' ').map(OsStr::new).collect::<Vec<_>>();
    run(&words("run x")).exits(0);
    run(&words("run x --dirty --json")).exits(0).json();
    run(&[OsStr::new("gate"), diff.as_os_str()]).exits(0);
    let family = odd(&[b"f:", std::os::unix::ffi::OsStrExt::as_bytes(diff.as_os_str())].concat());
    let out = place.dir.join(odd(b"out\xff.diff"));
    run(&[OsStr::new("pick"), &family, OsStr::new("-o"), out.as_os_str()]).exits(0);
    assert!(fs::read_to_string(&out).unwrap().contains("+2"));
    run(&words("show")).exits(0).prints(&["good"]);
    assert_eq!(bakeoff::pipeline::fingerprint(&repo).unwrap(), before);
    run(&[OsStr::new("apply"), OsStr::new("-C"), repo.as_os_str()]).exits(0);
    assert_eq!(fs::read_to_string(repo.join("value.txt")).unwrap(), "2\n");
    run(&[odd(b"run\xff").as_os_str()]).exits(2);
    run(&[OsStr::new("run"), odd(b"task\xff").as_os_str()]).exits(2).says(&["UTF-8"]);
}

#[test]
fn an_empty_command_proves_nothing() {
    let place = Place::new();
    let diff = place.diff("good.diff", "2");
    let diff = diff.to_str().unwrap();
    for (flag, line) in
        [("--test", ""), ("--test", "  "), ("--check", " # none\n"), ("--setup", "\t")]
    {
        place
            .run(["gate", diff, flag, line])
            .exits(2)
            .says(&["command is empty", "proves nothing"]);
    }
    assert!(place.runs().is_empty());
    let lanes = "[judges]\nenabled = false\n[lanes.one]\nmodel = \"scripted:one\"\n";
    place.configure("[gates]\ncheck = \"sh check.sh\"\ncarry = [\"./\"]\n", lanes);
    place.run(["gate", diff]).exits(2).says(&["carry", "below the repository's top"]);
}
