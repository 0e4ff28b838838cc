//! A small repository with settings, a script and a private state, for runs of the product's program.

#![allow(dead_code, reason = "each test file uses its own part of the support code")]

use std::borrow::BorrowMut;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// The longest that anything in these tests is waited for. Nothing needs it unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Gates that take no time: the value is a number, and at least 2.
const GATES: &str = "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n";

/// Two scripted lanes, `one` and `two`.
const LANES: &str = r#"[judges]
enabled = false
[lanes.one]
model = "scripted:one"
family = "one"
[lanes.two]
model = "scripted:two"
family = "two"
"#;

/// A directory of its own: repository, settings, state, temporary files.
pub struct Place {
    _dir: tempfile::TempDir,
    pub dir: PathBuf,
    pub repo: PathBuf,
}

impl Place {
    /// A repository with one commit and two scripted lanes, which set its value to 2 and to 3.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let place = Self { repo: top.join("repo"), dir: top, _dir: dir };
        for sub in ["repo", "home", "config/bakeoff", "tmp"] {
            fs::create_dir_all(place.dir.join(sub)).unwrap();
        }
        place.write(
            "check.sh",
            "grep -qx '[0-9][0-9]*' value.txt || { echo 'not a number'; exit 1; }\n",
        );
        place.write("test.sh", "[ \"$(cat value.txt)\" -ge 2 ] || { echo 'too small'; exit 1; }\n");
        place.write("value.txt", "1\n");
        place.git(&["init", "-q", "-b", "main", "."]);
        place.git(&["config", "user.name", "Ada"]);
        place.git(&["config", "user.email", "ada@localhost"]);
        place.git(&["config", "gc.auto", "0"]);
        place.commit("base");
        place.configure(GATES, LANES);
        place.script(&writes(&[("one", "2"), ("two", "3")]));
        place
    }

    /// A repository whose one lane takes an hour to answer.
    pub fn with_slow_model() -> Self {
        let place = Self::new();
        let slow = writes(&[("one", "2"), ("two", "3")]);
        place.script(
            &slow.replace("[[worker.turns]]\ncalls", "[[worker.turns]]\ndelay_ms = 3600000\ncalls"),
        );
        place
    }

    /// Writes the user's settings: a scripted provider, and these parts.
    pub fn configure(&self, gates: &str, rest: &str) {
        let script = self.dir.join("script.toml");
        let provider = format!("[providers.scripted]\nwire = \"scripted\"\nscript = {script:?}\n");
        self.config(&format!("{provider}{gates}{rest}"));
    }

    pub fn config(&self, text: &str) {
        fs::write(self.dir.join("config/bakeoff/config.toml"), text).unwrap();
    }

    pub fn script(&self, text: &str) {
        fs::write(self.dir.join("script.toml"), text).unwrap();
    }

    /// Writes a file of the repository.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.repo.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repo.join(path)).unwrap()
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(&self.repo, args)
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// A diff that sets the value, in a file of its own.
    pub fn diff(&self, name: &str, value: &str) -> PathBuf {
        let path = self.dir.join(name);
        let text = format!("--- a/value.txt\n+++ b/value.txt\n@@ -1 +1 @@\n-1\n+{value}\n");
        fs::write(&path, text).unwrap();
        path
    }

    /// The program, in the repository, with an environment of this place alone.
    pub fn bakeoff<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command
            .args(args)
            .current_dir(&self.repo)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.join("home"))
            .env("BAKEOFF_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.dir.join("config"))
            .env("TMPDIR", self.dir.join("tmp"))
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        Done::run(self.bakeoff(args))
    }

    /// `$BAKEOFF_HOME`.
    pub fn home(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The directories of all runs, oldest first.
    pub fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.home().join("state/runs"));
        let mut runs: Vec<_> = entries.into_iter().flatten().map(|e| e.unwrap().path()).collect();
        runs.sort();
        runs
    }

    /// The record of the newest run.
    pub fn record(&self) -> Value {
        let path = self.runs().pop().unwrap().join("record.json");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    pub fn fingerprint(&self) -> String {
        bakeoff::pipeline::fingerprint(&self.repo).unwrap()
    }

    /// No temporary file, no workspace, no gate's tree, no lease, no socket, no process of any run.
    pub fn nothing_left(&self, context: &str) {
        self.nothing_alive(context);
        self.no_files_left(context);
    }

    pub fn no_files_left(&self, context: &str) {
        assert_eq!(names(&self.dir.join("tmp")), [""; 0], "{context}: temporary files");
        for run in self.runs() {
            for sub in ["lanes", "gates", "leases", "lanes.git"] {
                assert_eq!(names(&run.join(sub)), [""; 0], "{context}: {sub} of a run");
            }
            let known = [
                "artifacts",
                "base.index",
                "fence.secret",
                "gates",
                "journal.jsonl",
                "lanes",
                "lanes.git",
                "leases",
                "record.json",
                "repo.git",
            ];
            let odd = names(&run).into_iter().find(|name| !known.contains(&name.as_str()));
            assert_eq!(odd, None, "{context}: left in a run's directory");
        }
    }

    /// Waits until no process is left that was started here: by its environment, its working directory
    /// or its command line. The sandbox clears a job's environment, and jobs hold paths of the place.
    pub fn nothing_alive(&self, context: &str) {
        let begun = Instant::now();
        loop {
            let alive = self.alive();
            if alive.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{context}: still there: {alive:?}");
            std::thread::yield_now();
        }
    }

    /// The command lines of the processes that belong to this place.
    pub fn alive(&self) -> Vec<String> {
        let needle = self.dir.as_os_str().as_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let dir = entry.path();
            if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit)
                || entry.file_name() == std::process::id().to_string().as_str()
            {
                continue;
            }
            let read = |name: &str| fs::read(dir.join(name)).unwrap_or_default();
            let cwd = fs::read_link(dir.join("cwd")).unwrap_or_default();
            let (cmdline, environ) = (read("cmdline"), read("environ"));
            let belongs = [&cmdline, &environ, cwd.as_os_str().as_bytes()]
                .iter()
                .any(|bytes| bytes.windows(needle.len()).any(|window| window == needle));
            let zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
            if belongs && !zombie {
                found.push(String::from_utf8_lossy(&cmdline).replace('\0', " "));
            }
        }
        found
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A script whose lanes each write a value and submit.
pub fn writes(lanes: &[(&str, &str)]) -> String {
    let each = |(lane, value): &(&str, &str)| {
        format!(
            "[[worker]]\nlane = \"{lane}\"\n[[worker.turns]]\ncalls = [{{ name = \"write_file\", arguments = \
             {{ path = \"value.txt\", content = \"{value}\\n\" }} }}]\n[[worker.turns]]\ncalls = [{{ name = \
             \"submit\", arguments = {{ answer = \"done\", claims = [] }} }}]\n"
        )
    };
    "version = 1\n".to_owned() + &lanes.iter().map(each).collect::<String>()
}

/// A command that ended.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Waits for a command's end and takes what it wrote. One that does not end is killed, and the test fails with its
/// words.
#[track_caller]
pub fn output_of(child: Child) -> Output {
    output_within(child, PATIENCE)
}

#[track_caller]
fn output_within(mut child: Child, patience: Duration) -> Output {
    drop(child.stdin.take());
    let (over, ends) = channel();
    let out = gather(child.stdout.take(), over.clone());
    let err = gather(child.stderr.take(), over);
    let begun = Instant::now();
    let left = || patience.saturating_sub(begun.elapsed());
    // Who still writes there holds the end back, too.
    let mut hangs = (0..2).any(|_| ends.recv_timeout(left()).is_err());
    while !hangs && child.try_wait().unwrap().is_none() {
        hangs = left().is_zero();
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let taken = |from: &Mutex<Vec<u8>>| std::mem::take(&mut *from.lock().unwrap());
    if hangs {
        let line = killed(&mut child);
        let [out, err] = [&out, &err].map(|one| String::from_utf8_lossy(&taken(one)).into_owned());
        panic!("{line} did not end within {patience:?}; it wrote\n{out}\nand\n{err}");
    }
    Output { status: child.wait().unwrap(), stdout: taken(&out), stderr: taken(&err) }
}

/// Reads on a thread of its own, which says when it has come to the end.
fn gather(
    from: Option<impl Read + Send + 'static>,
    over: std::sync::mpsc::Sender<()>,
) -> Arc<Mutex<Vec<u8>>> {
    let all = Arc::<Mutex<Vec<u8>>>::default();
    let (kept, mut buffer) = (all.clone(), vec![0; 64 << 10]);
    std::thread::spawn(move || {
        if let Some(mut from) = from {
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                kept.lock().unwrap().extend(&buffer[..count]);
            }
        }
        over.send(()).ok();
    });
    all
}

/// Kills what hangs; its command line.
fn killed(child: &mut Child) -> String {
    let line = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
    child.kill().ok();
    child.wait().ok();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

impl Done {
    /// Runs a command to its end.
    #[track_caller]
    pub fn run(mut command: impl BorrowMut<Command>) -> Self {
        let command = command.borrow_mut();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self::of_child(child)
    }

    /// Waits for the end of one that was started.
    #[track_caller]
    pub fn of_child(child: Child) -> Self {
        Self::of(output_of(child))
    }

    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts how it ended and gives itself back.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// Asserts that standard error holds every one of these words.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }

    #[track_caller]
    pub fn prints(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "{word:?} is not in: {}", self.out);
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }
}

/// A run under way whose events are read one by one.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    /// The events so far.
    pub events: Vec<Value>,
}

impl Running {
    /// Starts a command with `--events`.
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.arg("--events").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|count| count > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, events: Vec::new() }
    }

    /// Reads on until an event fits.
    #[track_caller]
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) {
        while let Some(event) = self.next() {
            if fits(&event) {
                return;
            }
        }
        panic!("the run ended first: {:?}", self.events);
    }

    #[track_caller]
    fn next(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let command = killed(&mut self.child);
                panic!("{command} says nothing more behind {:?}", self.events.last());
            }
        };
        let event: Value = serde_json::from_str(&line).unwrap();
        self.events.push(event.clone());
        Some(event)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Reads what is left and waits for the end.
    #[track_caller]
    pub fn end(mut self) -> (Done, Vec<Value>) {
        while self.next().is_some() {}
        (Done::of_child(self.child), self.events)
    }
}

/// Whether an event is of this kind.
pub fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["event"] == kind
}

#[test]
#[should_panic(expected = "sleep 1000 did not end within 100ms; it wrote")]
fn what_hangs_is_a_failure_with_words() {
    let child = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().unwrap();
    output_within(child, Duration::from_millis(100));
}
