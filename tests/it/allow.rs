//! Mutations of the allow-list's rows: whatever the list lets through is executed and watched.
//!
//! A refused mutant costs microseconds. An accepted one runs on the bare host, outside of the sandbox, under
//! `strace`, so that the list alone is what is tested: nothing but the named program may be executed,
//! nothing written but what its job may write, nothing read outside of the workspace, nobody connected to.
//! `BAKEOFF_ALLOW_MUTANTS=1000000 BAKEOFF_ALLOW_EACH=1000000 cargo test --test it -- mutants_of` is the long run.

mod mutate;
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff::model::RunToken;
use bakeoff::sandbox::{JobExit, JobSpec, JobStatus, Launch, SandboxError};
use bakeoff::tools::{Registry, ToolContext, open_workspace};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tools::{rows, script};
use mutate::Mutator;
use watch::Watched;

/// How often one shape of command is executed where nothing else is asked for; the others of its shape are counted.
const PER_SHAPE: u32 = 12;

/// How many mutants: `BAKEOFF_ALLOW_MUTANTS`, or few enough for every run of the tests.
fn how_many() -> u64 {
    let asked = std::env::var("BAKEOFF_ALLOW_MUTANTS").ok();
    asked.map_or(4_000, |count| count.parse().unwrap())
}

/// How often one shape is executed: `BAKEOFF_ALLOW_EACH`. What waits to be ended (`tail -f`) takes seconds.
fn how_often(job: &JobSpec) -> u32 {
    let asked = std::env::var("BAKEOFF_ALLOW_EACH").ok();
    match shape(&job.argv).starts_with("tail ") {
        true => PER_SHAPE,
        false => asked.map_or(PER_SHAPE, |count| count.parse().unwrap()),
    }
}

/// The number of the first mutant, for a long run in parts: `BAKEOFF_ALLOW_FROM`.
fn first() -> u64 {
    std::env::var("BAKEOFF_ALLOW_FROM").map_or(0, |first| first.parse().unwrap())
}

/// Takes down the job of a command that passed, and runs nothing.
#[derive(Default)]
struct Recorder(Mutex<Option<JobSpec>>);

impl Launch for Recorder {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        *self.0.lock().unwrap() = Some(spec);
        let exit = JobExit {
            status: JobStatus::Exited(0),
            output: Vec::new(),
            dropped: 0,
            elapsed: Duration::ZERO,
        };
        Box::pin(async move { Ok(exit) })
    }
}

/// A repository to run in, as one of the corpora's scripts makes it.
struct Ground {
    top: PathBuf,
    context: ToolContext,
    recorder: Arc<Recorder>,
    index: Vec<u8>,
}

impl Ground {
    fn new(top: PathBuf) -> Self {
        let recorder = Arc::new(Recorder::default());
        let context = ToolContext::new(
            Arc::new(open_workspace(&top).unwrap()),
            RunToken::new("0123456789abcdef0123456789abcdef"),
            Some(recorder.clone() as _),
            CancellationToken::new(),
        );
        let index = std::fs::read(top.join(".git/index")).unwrap();
        Self { top, context, recorder, index }
    }

    /// The job of a command that is accepted.
    fn job(
        &self,
        registry: &Registry,
        command: &Value,
        runtime: &tokio::runtime::Runtime,
    ) -> Option<JobSpec> {
        let arguments = json!({ "command": command }).to_string();
        runtime.block_on(registry.call(&self.context, "run_bash", &arguments));
        self.recorder.0.lock().unwrap().take()
    }

    /// Executes a job, watched, and brings the index back.
    fn watch(&self, job: &JobSpec) -> Watched {
        let watched = watch::run(job, &self.top);
        std::fs::write(self.top.join(".git/index"), &self.index).unwrap();
        let _ = std::fs::remove_file(self.top.join(".git/index.lock"));
        watched
    }
}

/// What all threads found.
#[derive(Default)]
struct Found {
    mutants: u64,
    accepted: u64,
    executed: u64,
    by_shape: HashMap<String, u32>,
    faults: Vec<String>,
}

/// What makes two commands alike: the program, its options by name, and what kind of operands it has.
fn shape(argv: &[std::ffi::OsString]) -> String {
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let kind = |word: &str| match word {
        word if word.starts_with("--") => word.split('=').next().unwrap_or_default().to_owned(),
        word if word.starts_with('-') => {
            word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
        }
        word if word.starts_with(":(exclude,top,icase") => String::new(),
        word if word.starts_with('/') => "/".to_owned(),
        word if word.contains(':') => "a:b".to_owned(),
        word if word.contains("..") => "a..b".to_owned(),
        word if word.contains(['~', '^', '@']) => "a^".to_owned(),
        _ => "word".to_owned(),
    };
    let named = if words[0] == "git" { 3 } else { 1 };
    let (name, rest) = words.split_at(named.min(words.len()));
    let mut kinds: Vec<String> = rest.iter().map(|word| kind(word)).collect();
    kinds.sort();
    kinds.dedup();
    format!("{} {}", name.join(" "), kinds.join(" "))
}

fn commands(name: &str) -> Vec<Value> {
    let rows = rows(name);
    rows.iter().map(|row| row.get("argv_or_line").unwrap_or(&row["line"]).clone()).collect()
}

/// One thread's share.
fn work(thread: u64, count: u64, dir: &Path, found: &Mutex<Found>) {
    let (plain, hostile) =
        (dir.join(format!("plain{thread}")), dir.join(format!("hostile{thread}")));
    let (mark, out) = (dir.join("mark"), dir.join("out"));
    script("make_fixture.sh", &[&plain]);
    script("make_hostile_repository.sh", &[&hostile, &mark]);
    // The nested repository has a HEAD that is no commit of the other; both are there for `git status`.
    let grounds = [Ground::new(plain.clone()), Ground::new(hostile)];
    let fill = |text: &str| {
        let text =
            text.replace("@MARK", &mark.to_string_lossy()).replace("@OUT", &out.to_string_lossy());
        text.replace("@EXE", &plain.join("exe.sh").to_string_lossy())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let registry = Registry::standard();
    let hostile = commands("hostile.jsonl");
    let legit = [commands("legit.jsonl"), commands("hostile_repository.jsonl")].concat();
    let mutator = Mutator::new(&hostile, &legit, fill);
    for n in first() / 2..first() / 2 + count {
        let seed = (thread << 48) | n;
        let mut rng = fastrand::Rng::with_seed(seed);
        let command = mutator.mutant(&mut rng);
        let ground = &grounds[usize::from(rng.u8(..4) == 0)];
        let job = ground.job(&registry, &command, &runtime);
        let run = {
            let mut found = found.lock().unwrap();
            found.mutants += 1;
            job.filter(|job| {
                found.accepted += 1;
                let times = found.by_shape.entry(shape(&job.argv)).or_default();
                *times += 1;
                let run = *times <= how_often(job);
                found.executed += u64::from(run);
                run
            })
        };
        if let Some(job) = run {
            let watched = ground.watch(&job);
            let faults = watched
                .faults
                .iter()
                .map(|fault| format!("seed {seed}: {command} ran {:?}: {fault}", job.argv));
            found.lock().unwrap().faults.extend(faults);
        }
    }
    assert!(!mark.exists() && !out.exists() && !dir.join("plain0/MARK").exists());
}

// contract C12
#[test]
fn mutants_of_the_rows_execute_write_and_read_nothing_else() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var("BAKEOFF_TEST_TOOLS").is_err(), "strace is missing");
        eprintln!("skipped: there is no strace");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (found, top) = (&found, &top);
            scope.spawn(move || work(thread, how_many() / 2, top, found));
        }
    });
    let found = found.into_inner().unwrap();
    eprintln!(
        "{} mutants, {} accepted, of {} shapes, {} executed and watched, {} faults",
        found.mutants,
        found.accepted,
        found.by_shape.len(),
        found.executed,
        found.faults.len()
    );
    assert!(found.executed > 50, "few mutants were accepted: the oracle saw too little");
    assert!(found.faults.is_empty(), "{}", found.faults.join("\n"));
}

/// The oracle sees each kind of thing that it is there for.
#[test]
fn the_watch_sees_what_it_must() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var("BAKEOFF_TEST_TOOLS").is_err(), "strace is missing");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap().join("space");
    script("make_fixture.sh", &[&top]);
    let ground = Ground::new(top.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let harmless = |command: &str| {
        ground.job(&Registry::standard(), &json!(command), &runtime).expect("it is on the list")
    };
    for command in ["cat README.md", "ls -la", "git status", "git add README.md", "git log -p"] {
        assert_eq!(ground.watch(&harmless(command)).faults, [""; 0], "{command}");
    }
    let faults = |command: &str, argv: &[&str]| {
        let mut job = harmless(command);
        job.argv = argv.iter().map(Into::into).collect();
        ground.watch(&job).faults.join("\n")
    };
    assert!(faults("true", &["env", "true"]).contains("executed"));
    assert!(faults("true", &["sort", "-o", "sorted", "README.md"]).contains("wrote"));
    assert!(faults("true", &["tee", "../beside"]).contains("wrote"));
    assert!(faults("true", &["cat", "link-to-etc/hostname"]).contains("read"));
    assert!(faults("true", &["cat", ".git/config"]).contains("read"));
    assert!(faults("true", &["grep", "-r", "K=", "."]).contains("read"));
    for argv in [
        &["sort", "/etc/passwd"][..],
        &["sort", "--files0-from=/etc/passwd"],
        &["sort", "/proc/meminfo"],
        &["sort", "-T/tmp", "link-to-etc/passwd"],
        &["cat", "/usr/share/zoneinfo/UTC"],
        &["cat", "/usr/bin/true"],
        &["cat", "/proc/self/environ"],
        &["cat", "/etc/ld.so.cache"],
        &["ls", "/etc"],
        &["ls", "/usr"],
        &["grep", "-f/etc/passwd", "x", "README.md"],
        &["grep", "x", "/proc/self/maps"],
    ] {
        assert!(faults("true", argv).contains("read"), "{argv:?}");
    }
    // One of two paths outside, whichever.
    std::fs::write(top.join("moved"), "").unwrap();
    for argv in [
        &["mv", "moved", "../beside"][..],
        &["mv", "../beside", "moved"],
        &["ln", "moved", "../beside"],
        &["ln", "-s", "README.md", "../link"],
    ] {
        assert!(faults("true", argv).contains("wrote"), "{argv:?}");
    }
    assert!(
        faults("git status", &["git", "-c", "core.fsmonitor=./exe.sh", "status"])
            .contains("executed")
    );
    assert!(faults("git status", &["git", "branch", "new"]).contains("wrote"));
    assert!(
        faults("git status", &["git", "diff", "--no-index", "../space-evil/x", "f.txt"])
            .contains("read")
    );
}
