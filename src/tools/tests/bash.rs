//! `run_bash` up to the launcher: what is refused, and the job that is asked for. A double of the
//! launcher records jobs and runs nothing; the real one is in the integration tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::jobs::{JobBook, JobLimits};
use crate::model::LaneId;
use crate::sandbox::{JobExit, JobSpec, JobStatus, Launch, Mount, Network, SandboxError};
use crate::tools::Jobs;
use crate::tools::testing::Fixture;

#[derive(Default)]
struct Recorder {
    jobs: Mutex<Vec<JobSpec>>,
    exit: Mutex<Option<JobExit>>,
}

impl Launch for Recorder {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        self.jobs.lock().unwrap().push(spec);
        let exit = self.exit.lock().unwrap().clone();
        async move { exit.ok_or_else(|| SandboxError::Setup("told to".to_owned())) }.boxed()
    }
}

fn exit(status: JobStatus, output: &[u8], dropped: u64) -> JobExit {
    JobExit { status, output: output.to_vec(), dropped, elapsed: Duration::ZERO }
}

fn recorded() -> (Fixture, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    *recorder.exit.lock().unwrap() = Some(exit(JobStatus::Exited(0), b"out\n", 0));
    let launch: Arc<dyn Launch> = recorder.clone();
    (Fixture::with(Some(launch)), recorder)
}

fn last(recorder: &Recorder) -> JobSpec {
    recorder.jobs.lock().unwrap().last().unwrap().clone()
}

// contract C4
#[test]
fn nothing_runs_or_is_looked_after_where_the_working_directory_is_gone() {
    let (mut fixture, recorder) = recorded();
    let book = JobBook::new(JobLimits::default());
    let jobs = Jobs { table: book.open(&LaneId::of("one", 1)), book };
    fixture.context.jobs = Some(jobs.clone());
    let calls = [
        ("run_bash", json!({"command": "ls"})),
        ("run_bash", json!({"command": "ls", "background": true})),
        ("bash_jobs", json!({"action": "list"})),
    ];
    let refused = |fixture: &Fixture| {
        for (name, arguments) in &calls {
            let said = fixture.refused(name, arguments.clone());
            assert!(said.contains("the working directory") && said.contains("not there"), "{said}");
        }
    };
    fixture.done("bash_jobs", json!({"action": "list"}));
    let top = fixture.top().to_owned();
    std::fs::rename(&top, top.with_file_name("moved")).unwrap();
    refused(&fixture);
    // Another directory of that name is not it.
    std::fs::create_dir(&top).unwrap();
    refused(&fixture);
    assert!(recorder.jobs.lock().unwrap().is_empty() && jobs.table.list().is_empty());
}

// contract C18
#[test]
fn without_a_sandbox_nothing_runs() {
    let fixture = Fixture::new();
    assert!(
        fixture.refused("run_bash", json!({"command": "ls"})).contains("no sandbox, no execution")
    );
    let (fixture, recorder) = recorded();
    *recorder.exit.lock().unwrap() = None;
    assert!(fixture.refused("run_bash", json!({"command": "ls"})).contains("was not run"));
}

#[test]
fn a_job_has_a_fixed_environment_and_a_read_only_workspace() {
    let (fixture, recorder) = recorded();
    fixture.put("src/a.rs", "");
    let text = fixture.done("run_bash", json!({"command": "ls -la", "dir": "src"}));
    assert_eq!(text, "[exit 0]\nout\n");
    let job = last(&recorder);
    assert_eq!(job.argv, ["ls", "-la"]);
    assert_eq!(job.cwd, fixture.top().join("src"));
    assert_eq!(job.network, Network::Off);
    assert_eq!(job.limits.wall, Duration::from_secs(20));
    let env: Vec<String> = job
        .env
        .iter()
        .map(|(key, value)| format!("{}={}", key.display(), value.display()))
        .collect();
    assert_eq!(env, ["PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/nonexistent"]);
    let top = fixture.top().to_owned();
    assert_eq!(job.mounts, [Mount::ReadOnly { from: top.clone(), at: top }]);
}

#[test]
fn git_writes_nothing_but_what_it_stages_and_that_elsewhere() {
    let (fixture, recorder) = recorded();
    let writable = |command: &str| {
        fixture.done("run_bash", json!({ "command": command }));
        let job = last(&recorder);
        let mounts = job.mounts.iter().filter_map(|mount| match mount {
            Mount::ReadWrite { at, .. } => {
                Some(at.strip_prefix(fixture.top()).unwrap().display().to_string())
            }
            Mount::ReadOnly { .. } => None,
            other => panic!("{other:?}"),
        });
        mounts.collect::<Vec<_>>()
    };
    assert_eq!(writable("git status"), Vec::<String>::new());
    assert_eq!(writable("git diff HEAD"), Vec::<String>::new());
    for command in ["git add -A", "git reset -q", "git rm --cached a", "git restore --staged a"] {
        let dirs = writable(command);
        let [dir] = &dirs[..] else { panic!("{command}: {dirs:?}") };
        let name = dir.strip_prefix(".git/bakeoff-staging-").unwrap();
        assert!(name.ends_with("/given") && !fixture.top().join(dir).exists(), "{command}: {dir}");
    }
    let env = last(&recorder).env;
    let has = |key: &str| env.iter().any(|(name, _)| name == key);
    assert!(
        has("GIT_DIR")
            && has("GIT_WORK_TREE")
            && has("GIT_CONFIG_NOSYSTEM")
            && has("GIT_ATTR_SOURCE")
    );
}

#[test]
fn what_the_words_lead_to_on_disk_is_looked_at() {
    let (fixture, recorder) = recorded();
    fixture.put("plain.txt", "");
    fixture.put(".env", "K=1");
    fixture.link("/etc", "link-to-etc");
    fixture.link("../outside.txt", "out");
    fixture.link(".env", "innocent");
    fixture.link(".git", "g");
    fixture.link("plain.txt", "inside");
    mkfifoat(CWD, fixture.top().join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    for command in [
        "cat link-to-etc/passwd",
        "ls link-to-etc",
        "head out",
        "grep -r x link-to-etc",
        "wc innocent",
        "cat g/config",
        "ls g",
        "sort pipe",
        "git log -- g/config",
        "git reset nosuch",
        "git blame link-to-etc/passwd",
        "git add link-to-etc/passwd",
    ] {
        fixture.refused("run_bash", json!({ "command": command }));
    }
    fixture.refused("run_bash", json!({"command": "ls", "dir": "link-to-etc"}));
    fixture.refused("run_bash", json!({"command": "ls", "dir": ".git"}));
    fixture.refused("run_bash", json!({"command": "ls", "dir": "plain.txt"}));
    assert!(recorder.jobs.lock().unwrap().is_empty());
    for command in [
        "cat inside",
        "cat nowhere.txt",
        "git add link-to-etc",
        "ls -la .env",
        "git reset plain.txt",
    ] {
        fixture.done("run_bash", json!({ "command": command }));
    }
}

#[test]
fn how_it_ended_is_told_and_output_has_a_cap() {
    let (fixture, recorder) = recorded();
    let run = |end: JobExit| {
        *recorder.exit.lock().unwrap() = Some(end);
        fixture.call("run_bash", json!({"command": ["cat", "plain.txt"]}))
    };
    let output = run(exit(JobStatus::Exited(1), b"\xff\n", 7));
    assert!(
        !output.is_error && output.text.starts_with("[exit 1; 7 bytes of output were left out"),
        "{}",
        output.text
    );
    assert!(run(exit(JobStatus::TimedOut, b"part", 0)).text.contains("20 seconds"));
    assert!(run(exit(JobStatus::Signalled(9), b"", 0)).is_error);
    assert!(run(exit(JobStatus::Killed, b"", 0)).is_error);
    assert!(run(exit(JobStatus::Exited(0), &vec![b'x'; 1 << 20], 0)).text.len() < 50 * 1024);
    assert!(
        fixture.refused("run_bash", json!({"command": "ls", "watch": "x"})).contains("background")
    );
    assert!(fixture.refused("run_bash", json!({"command": 3})).contains("command"));
}

#[test]
fn a_workspace_without_a_repository_has_no_git() {
    let (fixture, _) = recorded();
    std::fs::remove_dir_all(fixture.top().join(".git")).unwrap();
    let told = fixture.refused("run_bash", json!({"command": "git status"}));
    assert!(told.contains("no git repository"), "{told}");
    fixture.done("run_bash", json!({"command": "git --version"}));
}
