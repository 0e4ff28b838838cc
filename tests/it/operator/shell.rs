//! The operator's own commands in a running run, by the product's program and in a real terminal.

use super::screen::{Terminal, tmux};
use super::*;

impl Stage {
    /// Both workers are at work, and what they are told next is the test's to say.
    fn at_work() -> (Self, Running) {
        let stage = Self::new();
        let running = stage.start();
        LANES.iter().for_each(|lane| drop(stage.asked(lane)));
        (stage, running)
    }

    /// A command without anybody at a terminal.
    fn shell(&self, args: &[&str]) -> Done {
        self.place.run([&["shell", "--lane", "one/1"], args].concat())
    }

    /// Waits until a command waits for an answer.
    fn until_asks(&self, id: &str) {
        let asks = || {
            let list = self.place.run(["jobs", "--json"]).exits(0).json();
            let jobs = list["jobs"].as_array().unwrap().clone();
            jobs.iter().any(|card| card["id"] == id && card["state"] == "needs_approval")
        };
        let begun = std::time::Instant::now();
        while !asks() {
            assert!(begun.elapsed() < PATIENCE, "{id} never asked");
        }
    }

    /// Ends the run.
    fn ends(&self, running: Running) -> Done {
        self.submits("one", "2\n");
        self.submits("two", "3\n");
        running.end().0
    }
}

// contract R11 together: text sent to a shell goes to its stdin
// contract R15
#[test]
fn a_command_runs_in_the_workspace_with_its_own_output_input_and_exit_status() {
    let (stage, running) = Stage::at_work();
    stage.after("one", "write_file", json!({"path": "sub/new.txt", "content": "of the worker\n"}));
    let done = stage.shell(&["--", "cat", "sub/new.txt;", "echo", "over", "# a comment"]);
    assert_eq!(done.exits(0).out, "of the worker\nover\n");
    stage.shell(&["--", "echo told >&2; exit 7 # so it is"]).exits(7).prints(&["told"]);
    stage.shell(&["--dir", "sub", "--", "cat new.txt # below"]).exits(0).prints(&["of the worker"]);
    stage.shell(&["--dir", "no/such", "--", "echo here"]).exits(127);
    let seen = stage.place.repo.join("sub");
    stage.shell(&["--dir", seen.to_str().unwrap(), "--", "cat new.txt"]).exits(0);
    for elsewhere in ["../..", "/etc"] {
        let done = stage.shell(&["--dir", elsewhere, "--", "echo here"]).exits(125);
        assert!(done.out.is_empty(), "{}", done.out);
        done.says(&["is no directory below the workspace's top"]);
    }
    let done = stage.shell(&["--", "ln -s /etc elsewhere"]).exits(0);
    assert!(done.err.is_empty(), "{}", done.err);
    let done = stage.shell(&["--dir", "elsewhere", "--", "echo here"]).exits(125);
    assert_eq!(done.out, "bakeoff: the directory ./elsewhere leads out of the workspace\n");
    stage.shell(&["--", "rm elsewhere"]).exits(0);
    stage.shell(&["--", "no-such-program"]).exits(127);
    stage.shell(&["--", "kill -9 $$"]).exits(137);
    // Git is there, and what the command changes is part of the lane's work.
    let changed = "git status --short && echo more >> sub/new.txt && git log --oneline | wc -l";
    stage.shell(&["--", changed]).exits(0).prints(&["?? sub/", "1"]);
    let read = stage.after("one", "read_file", json!({"path": "sub/new.txt"}));
    assert!(last(&read, "tool").contains("more"), "{read}");
    // The same policy as for everything else.
    let outside = stage.place.dir.join("outside.txt");
    std::fs::write(&outside, "BAIT").unwrap();
    let path = outside.to_str().unwrap();
    let done = stage.shell(&["--", &format!("cat {path} || echo kept")]).exits(0);
    assert!(done.out.contains("kept") && !done.out.contains("BAIT"));
    // Its input is what comes in, to its end.
    let mut child = stage.place.bakeoff(["shell", "--lane", "one/1", "--", "cat; exit 3"]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb").unwrap();
    let done = ended(child).exits(3);
    assert_eq!(done.out, "a\nb");
    let json = stage.shell(&["--json", "--", "echo x; exit 4"]).exits(4).json();
    assert_eq!(
        (&json["code"], &json["output"], &json["state"]),
        (&json!(4), &json!("x\n"), &json!("ended"))
    );
    // What can't be run is refused with what to do.
    stage.place.run(["shell", "--", "true"]).exits(125).says(&["say which lane: one/1, two/1"]);
    stage
        .place
        .run(["shell", "--lane", "x/1", "--", "true"])
        .exits(125)
        .says(&["there are one/1, two/1"]);
    stage.shell(&["--", "  "]).exits(125).says(&["there is no command"]);
    stage.ends(running).exits(0);
    stage.place.run(["shell", "--", "true"]).exits(125).says(&["the run is not going on"]);
}

// contract S2
// contract S3
// contract S4
// contract S5 in part: of the operator's commands nothing is left for memory, earlier runs or titles
// contract S11
// contract R10 together: the operator's own live on
#[test]
fn what_is_left_running_is_listed_survives_a_worker_and_ends_with_the_run_untold() {
    let (stage, mut running) = Stage::at_work();
    let before = stage.server.requests().len();
    let done = stage.shell(&["--detach", "--", "echo HOST-$((6 * 7)); sleep 1000"]).exits(0);
    assert!(
        done.err.starts_with("shell#1 is started, and runs until the run ends"),
        "{}",
        done.err
    );
    let done = stage.shell(&["--", "echo HOST-$((6 * 8)); exit 5"]).exits(5);
    assert!(done.err.contains("left by earlier commands, until the run ends: shell#1"));
    stage.place.run(["attach", "shell#2"]).exits(0).prints(&["HOST-48"]).says(&["is over: exit 5"]);
    assert_eq!(stage.listed(&[]), ["one/1", "shell#1", "two/1"]);
    stage.shell(&["--", "true"]).exits(0);
    assert_eq!(stage.listed(&["--all"]), ["one/1", "shell#1", "shell#3", "two/1"]);
    assert_eq!(stage.server.requests().len(), before, "no model was called");
    // The worker's tools are made of its own table: they neither list nor read nor end it.
    let told = stage.after("one", "bash_jobs", json!({"action": "list"}));
    assert!(!told.to_string().contains("HOST-") && last(&told, "tool") == "no jobs", "{told}");
    for action in ["read", "kill"] {
        let told = stage.after("one", "bash_jobs", json!({"action": action, "job_id": "shell#1"}));
        assert!(last(&told, "tool").contains("you have no job shell#1"), "{told}");
    }
    // A worker's end is not its end.
    stage.place.run(["stop", "one/1"]).exits(0);
    running.until(is("lane_ended"));
    assert_eq!(stage.listed(&[]), ["shell#1", "two/1"]);
    stage.submits("two", "3\n");
    let (done, events) = running.end();
    done.exits(0);
    assert!(events.len() > 10 && events.iter().all(|event| !event.to_string().contains("shell#")));
    let journal = std::fs::read_to_string(stage.place.runs()[0].join("journal.jsonl")).unwrap();
    assert!(!journal.contains("shell#") && !journal.contains("HOST-"), "{journal}");
    stage.place.nothing_left("commands of the operator");
    for request in stage.server.requests() {
        let text = request.json().to_string();
        assert!(!text.contains("HOST-") && !text.contains("ended: exit 5"), "{text}");
    }
    let record = stage.place.record().to_string();
    assert!(!record.contains("HOST-") && !record.contains("shell#"), "{record}");
}

// contract S5
#[test]
fn what_a_command_left_is_in_no_context_of_this_run_or_the_next() {
    const WORD: &str = "HOST-LEFTOVER";
    let more = "[side]\nmodel = \"own:side\"\nshared_endpoint = true\n[judges]\nuse = [\"correctness\"]\nmodels = [\"own:judge\"]";
    for excluded in [false, true] {
        let stage = Stage::with("max_parallel = 2", more);
        let whole = |args: &[&str]| {
            let args = [args, &["--no-synth"]].concat();
            let running = Running::start(stage.place.bakeoff(args));
            (running, LANES.map(|lane| stage.asked(lane)))
        };
        let ends = |running: Running| {
            stage.submits("one", "2000000000000\n");
            stage.submits("two", "3000000000000\n");
            running.end().0.exits(0);
        };
        let kept_out: &[&str] = if excluded { &["--exclude-from-context"] } else { &[] };
        let (running, _) = whole(&[&["run", "raise the value"], kept_out].concat());
        let left = format!("echo {WORD}; exec sleep 1000");
        stage.shell(&["--detach", "--", &left]).exits(0);
        stage.shell(&["--", &format!("echo {WORD}")]).exits(0).prints(&[WORD]);
        ends(running);
        let (running, first) = whole(&["run", "raise it again", "--prior", "5"]);
        for request in &first {
            let told = last(request, "user").contains("BEGIN PRIOR RUNS");
            assert_eq!(told, !excluded, "{request}");
        }
        ends(running);
        let all = stage.server.requests();
        let of = |model: &str| all.iter().filter(|one| one.json()["model"] == model).count();
        assert_eq!(of("side"), if excluded { 2 } else { 4 }, "title and capsule");
        assert!(of("judge") >= 2 && of("one") >= 4, "{} {}", of("judge"), of("one"));
        for request in all {
            let text = request.json().to_string();
            assert!(!text.contains(WORD) && !text.contains("shell#"), "{text}");
        }
    }
}

/// A command with these bytes in its standard input, a file.
fn fed(stage: &Stage, script: &str, input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let path = stage.place.dir.join("input");
    std::fs::write(&path, input).unwrap();
    let mut child = stage.place.bakeoff(["shell", "--lane", "one/1", "--", script]);
    let child = child.stdin(std::fs::File::open(&path).unwrap());
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = output_of(child);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.stdout, told)
}

#[test]
fn all_output_comes_however_slowly_it_is_read_and_all_input_however_slowly_it_is_taken() {
    let (stage, running) = Stage::at_work();
    // More than is kept of a job, to a reader that waits until the job can't go on.
    let script = "seq 1 60000; : > written; while [ ! -e read ]; do sleep 0.01; done; seq 1 9";
    let mut child = stage.child(&["shell", "--lane", "one/1", "--no-input", "--", script]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = 0;
    let mut line = String::new();
    while lines < 60000 {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "{lines} lines came");
        lines += 1;
        assert_eq!(line, format!("{lines}\n"));
    }
    stage.shell(&["--", ": > read"]).exits(0);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!(rest.lines().count(), 9);
    Done::of_child(child).exits(0);
    let all: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let done = stage.shell(&["--no-input", "--", "seq 1 200000; exit 3"]).exits(3);
    assert!(done.out == all, "{} of {} bytes", done.out.len(), all.len());
    let json = stage.shell(&["--no-input", "--json", "--", "seq 1 200000"]).exits(0).json();
    assert_eq!((&json["dropped_bytes"], &json["input_lost"]), (&json!(0), &json!(null)));
    assert!(json["output"] == all.as_str());
    // Who looks on later sees what is kept, and is told of the rest beside it.
    let done = stage.place.run(["attach", "shell#4"]).exits(0);
    assert!(done.err.contains("bytes of output are gone]") && !done.out.contains("gone"));
    // Bytes as they are, with a long line and without a last line's end.
    let mut input: Vec<u8> = (0..=255).collect();
    input.extend(vec![b'x'; 300 << 10]);
    input.extend((0..400_000).flat_map(|n: u32| n.to_le_bytes()));
    let taken = "sleep 0.3; cat > taken; wc -c < taken; cksum < taken";
    let (code, out, told) = fed(&stage, taken, &input);
    let same = std::fs::File::open(stage.place.dir.join("input")).unwrap();
    let sum = std::process::Command::new("cksum").stdin(same).output().unwrap().stdout;
    let expected = format!("{}\n{}", input.len(), String::from_utf8(sum).unwrap());
    assert_eq!(
        (code, String::from_utf8_lossy(&out).as_ref()),
        (Some(0), expected.as_str()),
        "{told}"
    );
    // A command that reads and writes at once; one that wants no more; no input at all; none that can be read.
    let (code, out, told) = fed(&stage, "cat", all.as_bytes());
    assert!(code == Some(0) && out == all.as_bytes(), "{code:?} {} {told}", out.len());
    let (code, out, told) = fed(&stage, "head -n 1; exit 5", all.as_bytes());
    assert_eq!((code, out.as_slice(), told.as_str()), (Some(5), &b"1\n"[..], ""));
    let (code, out, _) = fed(&stage, "cat; echo end", b"");
    assert_eq!((code, out.as_slice()), (Some(0), &b"end\n"[..]));
    let mut child = stage.place.bakeoff(["shell", "--lane", "one/1", "--", "cat"]);
    let child = child.stdin(std::fs::File::open(&stage.place.dir).unwrap());
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ended(child).exits(125).says(&["standard input can't be read"]);
    // Nobody reads on.
    for args in [&["--", "yes"][..], &["--json", "--", "echo x"]] {
        let args = [&["shell", "--lane", "one/1", "--no-input"], args].concat();
        let mut child = stage.child(&args);
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(141));
    }
    stage.ends(running).exits(0);
    stage.place.nothing_left("commands with much to say");
}

// contract R20
#[test]
fn who_reads_a_command_in_a_pipe_gets_its_bytes_and_others_its_text() {
    let (stage, running) = Stage::at_work();
    let mut input: Vec<u8> = (0..=255).collect();
    input.extend(b"a\r\nb\x1b[2J\x1b]0;t\x07\x9b\xe2\x82");
    input.extend((0..200_000).flat_map(|n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()));
    let (code, out, told) = fed(&stage, "cat", &input);
    assert!(code == Some(0) && out == input, "{code:?} {} {told}", out.len());
    // A change with carriage returns can be applied from there.
    stage.shell(&["--", "printf 'one\\r\\ntwo\\r\\n' > crlf.txt; git add -N crlf.txt"]).exits(0);
    let diff = stage.shell(&["--no-input", "--", "git diff -- crlf.txt"]).exits(0);
    assert!(diff.out.contains("+one\r\n+two\r\n"), "{:?}", diff.out);
    // The same command, looked at by others, and as JSON.
    let colours = "printf 'a\\r\\n\\033[2J\\033[31mred\\033[0m\\377\\n'";
    let (_, out, _) = fed(&stage, colours, b"");
    assert_eq!(out, b"a\r\n\x1b[2J\x1b[31mred\x1b[0m\xff\n");
    let seen = stage.place.run(["attach", "shell#4"]).exits(0);
    assert_eq!(seen.out, "a\nred\u{fffd}\n");
    let json = stage.shell(&["--no-input", "--json", "--", colours]).exits(0).json();
    assert_eq!(json["output"], "a\n\u{1b}[31mred\u{1b}[0m\u{fffd}\n");
    stage.ends(running).exits(0);
}

#[test]
fn a_viewer_that_is_gone_while_nothing_can_go_on_takes_its_command_along() {
    let (stage, running) = Stage::at_work();
    // Its output waits for its viewer, or its viewer's input for it.
    for script in ["echo up; exec yes", "echo up; exec sleep 1000"] {
        let mut child = stage.place.bakeoff(["shell", "--lane", "one/1", "--", script]);
        let child = child.stdin(std::fs::File::open("/dev/zero").unwrap());
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
        assert_eq!(&up, b"up\n");
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = std::time::Instant::now();
        while stage.listed(&[]) != ["one/1", "two/1"] {
            assert!(begun.elapsed() < PATIENCE, "{script}: {:?}", stage.listed(&[]));
        }
    }
    stage.ends(running).exits(0);
    stage.place.nothing_left("commands that waited");
}

#[test]
fn ctrl_c_ends_a_command_and_a_viewer_that_is_gone_takes_it_along() {
    let (stage, running) = Stage::at_work();
    for signal in [Signal::INT, Signal::KILL] {
        let mut child =
            stage.child(&["shell", "--lane", "one/1", "--", "echo up; exec sleep 1000"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let done = Done::of_child(child);
        if signal == Signal::INT {
            done.exits(130);
            assert_eq!(stage.listed(&[]), ["one/1", "two/1"]);
        }
        let begun = std::time::Instant::now();
        while stage.listed(&[]) != ["one/1", "two/1"] {
            assert!(begun.elapsed() < PATIENCE, "{:?}", stage.listed(&[]));
        }
    }
    // Without anybody who could answer, a question for a password ends it.
    let ask = "printf 'Password: '; read w; sleep 1000";
    let silent = || {
        let mut child = stage.place.bakeoff(["shell", "--lane", "one/1", "--", ask]);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        // An end of its input would be an answer.
        let held = child.stdin.take();
        let done = ended(child);
        drop(held);
        done
    };
    // In a terminal the first one reads the end of the input; which waits on behind that asks all the same.
    let twice = ask.replace("read w", "read w; read w");
    for done in [silent(), stage.shell(&["--pty", "--", &twice])] {
        let done = done.exits(125);
        assert!(done.err.contains("asked for a secret (Password:)"), "{}", done.err);
    }
    // One that reads an input without anything in it is told its end, and one that does not read goes on.
    let ends = "printf 'Password: '; read w || exit 9";
    stage.shell(&["--no-input", "--", ends]).exits(9);
    let busy = "printf 'Scanning for leaked passwords, password: '; sleep 4; echo none";
    for args in [&["--no-input"][..], &[][..]] {
        let busy =
            if args.is_empty() { busy.replace("password: ", "secrets: ") } else { busy.to_owned() };
        stage.shell(&[args, &["--", &busy]].concat()).exits(0).prints(&["none"]);
    }
    stage.ends(running).exits(0);
    stage.place.nothing_left("commands that were ended");
}

// contract R22 in part: left while nothing can be seen yet
#[test]
fn before_the_engine_answers_a_ctrl_c_leaves_also_where_it_was_ignored() {
    let (stage, running) = Stage::at_work();
    running.signal(Signal::STOP);
    for args in [&["shell", "--lane", "one/1", "--", "true"][..], &["attach", "one/1"]] {
        let given = stage.place.bakeoff(args);
        let mut command = Command::new("sh");
        // As behind `&` in a script.
        command.args(["-c", "trap '' INT; echo; exec \"$0\" \"$@\""]).arg(given.get_program());
        command.args(given.get_args()).current_dir(&stage.place.repo).env_clear();
        command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let status = loop {
            // The first may come before anybody minds them.
            let _ = rustix::process::kill_process(pid, Signal::INT);
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(130), "{args:?}");
    }
    running.signal(Signal::CONT);
    stage.ends(running).exits(0);
}

// contract R18
#[test]
fn a_program_in_a_terminal_that_outlives_a_ctrl_c_ends_with_its_own_status() {
    let (stage, running) = Stage::at_work();
    let script = "trap 'echo caught' INT; echo up; read -r x || read -r x; exit 4";
    stage.after("one", "write_file", json!({"path": "sub/go.sh", "content": script}));
    for args in [&["--", "MODE=x", "sh", "sub/go.sh"][..], &["--dir", "sub", "--", "sh go.sh # so"]]
    {
        let args = [&["shell", "--lane", "one/1", "--pty"], args].concat();
        let mut child = stage.place.bakeoff(args);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (mut keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut until = |word: &str| {
            let (mut seen, mut byte) = (Vec::new(), [0]);
            while !seen.ends_with(word.as_bytes()) {
                std::io::Read::read_exact(&mut out, &mut byte).unwrap();
                seen.push(byte[0]);
            }
        };
        until("up\n");
        keys.write_all(b"\x03").unwrap();
        until("caught\n");
        keys.write_all(b"x\n").unwrap();
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(4));
    }
    stage.ends(running).exits(0);
}

/// Ctrl-Z and ctrl-\\ leave the terminal as it was before: ctrl-D ends what is typed into a program.
fn is_suspended_and_quit(terminal: &Terminal) {
    let ends = |word: &str| {
        terminal.types(&format!("cat; echo {word}''ed"));
        terminal.key("C-d");
        terminal.shows("modes as before", |screen| screen.contains(&format!("\n{word}ed\n")));
    };
    terminal.types("clear; bakeoff shell --lane one/1 -- 'echo up; cat; exit 9'");
    terminal.shows("it runs", |screen| screen.contains("up\n") && !screen.contains("exit 9"));
    terminal.key("C-z");
    terminal.shows("the shell again", |screen| screen.contains("Stopped"));
    ends("end");
    terminal.types("fg");
    terminal.types("once more");
    terminal.shows("the answer", |screen| screen.matches("once more\n").count() == 2);
    terminal.key("C-d");
    terminal.shows("the shell again", |screen| screen.contains("left by earlier commands"));
    terminal.types("echo code $?");
    terminal.shows("its end", |screen| screen.contains("\ncode 9\n"));
    terminal.types("bakeoff shell --lane one/1 -- 'echo u''p2; exec sleep 1000'; echo code $?");
    terminal.shows("it runs", |screen| screen.contains("\nup2\n"));
    terminal.key("C-\\");
    terminal.shows("it is over", |screen| screen.contains("\ncode 130\n"));
    ends("finish");
}

#[test]
fn lines_of_a_pipe_are_data_and_not_secrets_of_the_whole_run() {
    let (stage, running) = Stage::at_work();
    let read = "stty -echo; printf 'Password: '; while read -r line; do :; done; echo over";
    for (args, told) in [(&["--pty"][..], "over"), (&[][..], "over")] {
        let args = [&["shell", "--lane", "one/1"], args, &["--", read]].concat();
        let mut child = stage.place.bakeoff(args);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"the answer\nreturn value\nvalue.txt\n").unwrap();
        ended(child).exits(0).prints(&[told]);
    }
    let write = json!({"path": "notes.txt", "content": "return value of value.txt\n"});
    stage.after("one", "write_file", write);
    let read = stage.after("one", "run_bash", json!({"command": "cat notes.txt"}));
    assert!(last(&read, "tool").contains("return value of value.txt"), "{read}");
    stage.ends(running).exits(0);
}

#[test]
fn a_candidate_with_a_secret_in_its_diff_is_told_of_everywhere() {
    const SECRET: &str = "a-secret-of-the-operator";
    let stage = Stage::new();
    let mut command = stage.place.bakeoff(["run", "raise the value"]);
    command.env("DEPLOY_TOKEN", SECRET);
    let running = Running::start(command);
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    let write = json!({"path": "notes.txt", "content": format!("{SECRET}\n")});
    stage.after("one", "write_file", write);
    stage.ends(running).exits(0);
    let warning = "its diff holds a known secret";
    let record = stage.place.record();
    let warnings = record["warnings"].as_array().unwrap();
    let found = warnings.iter().find(|one| one["code"] == "secret-in-diff").unwrap();
    let id = found["message"].as_str().unwrap().split(':').next().unwrap();
    let diff = stage.place.run(["diff", "--candidate", id]).exits(0);
    assert!(
        diff.err.contains(warning) && diff.out.contains("+[masked]"),
        "{}{}",
        diff.out,
        diff.err
    );
    let other = stage.place.run(["diff", "--candidate", if id == "c1" { "c2" } else { "c1" }]);
    assert!(!other.exits(0).err.contains(warning));
    let replay = stage.place.run(["replay"]).exits(2);
    assert!(
        replay.err.contains("can't be derived again") && replay.err.contains(id),
        "{}",
        replay.err
    );
    assert!(!replay.out.contains("differences"), "{}", replay.out);
}

// contract R19 in part: in a real terminal, and in no file
// contract R21 together: attach answers unseen
// contract R22 together: a typed line goes to the input of what is attached to
// contract R14 together: whoever attaches gives it their size, also a new one
#[test]
fn a_detached_terminal_is_attached_to_answered_unseen_resized_and_left() {
    const SECRET: &str = "open-sesame-7";
    if !tmux() {
        return;
    }
    let (stage, running) = Stage::at_work();
    let terminal = Terminal::new(&stage.place);
    let ask = "(trap \"stty size < /dev/tty\" WINCH; : > /tmp/up; while :; do sleep 0.1; done) & \
               while [ ! -e /tmp/up ]; do sleep 0.01; done; stty -echo; printf \"Password: \"; read w; stty echo; \
               echo; echo \"[$w]\"; exec cat -n";
    terminal.types(&format!("bakeoff shell --lane one --detach --pty -- '{ask}'"));
    terminal.shows("it is started", |screen| screen.contains("shell#1 is started"));
    stage.until_asks("shell#1");
    // Not the size that it was started with.
    terminal.tmux(&["resize-window", "-x", "96", "-y", "20"]);
    terminal.types("clear; bakeoff attach shell#1");
    let screen = terminal.shows("its question", |screen| {
        screen.contains("shell#1: asks: Password:") && screen.contains("20 96\n")
    });
    assert!(screen.starts_with("shell shell#1: "), "cleared first:\n{screen}");
    terminal.types(SECRET);
    terminal.shows("its use", |screen| screen.contains("\n[[masked]]\n"));
    let numbered = |screen: &str, line: &str| {
        screen.lines().any(|one| one.trim_start().starts_with("1 ") && one.ends_with(line))
    };
    // Shown again only once the viewer was told that no secret is asked for any more.
    terminal.echoes();
    terminal.types("a typed line");
    terminal.shows("the program's answer", |screen| numbered(screen, " a typed line"));
    terminal.tmux(&["resize-window", "-x", "90", "-y", "30"]);
    terminal.shows("the new size", |screen| screen.contains("\n30 90\n"));
    terminal.key("C-]");
    terminal.shows("left", |screen| screen.contains("left; it goes on\n"));
    assert_eq!(stage.listed(&[]), ["one/1", "shell#1", "two/1"]);
    let all = String::from_utf8(terminal.tmux(&["capture-pane", "-p", "-S", "-"]).stdout).unwrap();
    assert!(!all.contains("sesame"), "{all}");
    assert_eq!(all.matches("a typed line").count(), 2, "typed, and answered: {all}");
    drop(terminal);
    // Who looks on without a terminal sees the same, and so do all files of the run.
    stage.place.run(["stop", "shell#1"]).exits(0);
    let seen = stage.place.run(["attach", "shell#1"]).exits(0).prints(&["[[masked]]"]);
    assert!(!seen.out.contains("sesame") && !seen.err.contains("sesame"), "{}", seen.out);
    stage.ends(running).exits(0);
    assert_eq!(holding(&stage.place.dir, SECRET), [""; 0]);
    stage.place.nothing_left("a terminal that was left");
}

/// The files below a directory that hold a word.
fn holding(dir: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(holding(&path, word));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let holds = bytes.windows(word.len()).any(|part| part == word.as_bytes());
            found.extend(holds.then(|| path.display().to_string()));
        }
    }
    found
}

// contract R19 in part: in a real terminal
// contract R21 together: attach answers unseen
// contract R22 together: typed lines go to the standard input
// contract R35 together: the terminal of a command
#[test]
fn in_a_terminal_lines_are_shown_once_and_secrets_never() {
    if !tmux() {
        return;
    }
    let (stage, running) = Stage::at_work();
    let terminal = Terminal::new(&stage.place);
    terminal.types("bakeoff shell --lane one/1 --pty -- 'stty size; cat; exit 6'; echo code $?");
    terminal.shows("the terminal's size", |screen| screen.contains("\n24 100\n"));
    terminal.types("typed once");
    let screen = terminal.shows("the answer", |screen| screen.matches("typed once").count() == 2);
    assert!(screen.contains("\ntyped once\ntyped once\n"), "{screen}");
    terminal.key("C-d");
    terminal.shows("its end", |screen| screen.contains("code 6\n"));
    terminal.types("clear");
    terminal.shows("cleared", |screen| !screen.contains("code 6"));
    let ask = "stty -echo; printf \"Password: \"; read w; stty echo; echo; echo \"[$w]\"";
    terminal.types(&format!("bakeoff shell --lane one/1 --pty -- '{ask}'; echo code $?"));
    terminal.shows("the question", |screen| screen.contains("\nPassword:"));
    stage.until_asks("shell#2");
    // The viewer's own terminal goes dark, too, a moment later.
    terminal.types("open-sesame");
    let screen = terminal.shows("its use", |screen| screen.contains("\ncode 0\n"));
    assert!(screen.contains("[[masked]]"), "{screen}");
    // Left running, it goes on.
    terminal.types("clear");
    terminal.shows("cleared", |screen| !screen.contains("masked"));
    stage.shell(&["--detach", "--pty", "--no-input", "--", "sleep 1000"]).exits(0);
    terminal.types("bakeoff shell --lane one/1 --pty -- 'cat'");
    terminal.types("half");
    terminal.shows("it runs", |screen| screen.matches("half").count() >= 2);
    terminal.key("C-]");
    terminal.shows("left", |screen| {
        screen.contains("goes on without you, and runs until the run ends")
    });
    assert!(stage.listed(&[]).contains(&"shell#4".to_owned()));
    terminal.types("bakeoff shell --lane one/1 --pty -- 'echo up; exec sleep 1000'; echo code $?");
    terminal.shows("it runs", |screen| screen.contains("\nup\n"));
    terminal.key("C-c");
    terminal.shows("the program got it", |screen| screen.contains("\ncode 130\n"));
    // However short it is, its command does not show it; that others would is said.
    let pin = ask.replace("Password", "PIN").replace("[$w]", "[$w-$w]");
    terminal.types("clear");
    terminal.shows("cleared", |screen| !screen.contains("code 130"));
    terminal.types(&format!("bakeoff shell --lane one/1 --pty -- '{pin}'; echo code $?"));
    terminal.shows("the question", |screen| screen.contains("\nPIN:"));
    stage.until_asks("shell#6");
    terminal.types("417");
    let screen = terminal.shows("its use", |screen| screen.contains("\ncode 0\n"));
    assert!(screen.contains("\n[[masked]-[masked]]\n"), "{screen}");
    let joined = screen.replace('\n', "");
    assert!(
        joined.contains("shorter than 4 characters: it is hidden in this command's output only")
    );
    let seen = stage.place.run(["attach", "shell#6"]).exits(0).prints(&["[[masked]-"]);
    assert!(!seen.out.contains("417"), "{}", seen.out);
    // What is known is hidden in titles, too.
    stage.shell(&["--detach", "--", "echo open-sesame; exec sleep 1000"]).exits(0);
    let listed = stage.place.run(["jobs"]).exits(0).prints(&["echo [masked]; exec"]);
    assert!(!listed.out.contains("open-sesame"), "{}", listed.out);
    is_suspended_and_quit(&terminal);
    stage.ends(running).exits(0);
    // Its shell is of this place, too.
    drop(terminal);
    stage.place.nothing_left("commands in terminals");
}
