//! Background jobs and snippets with real processes: starting, reading, ending, telling.

use std::sync::Arc;
use std::time::Duration;

use bakeoff::jobs::{
    JobBook, JobLimits, JobState, JobTable, KillReport, Matched, Notice, Order, ReapJournal,
    RunScope, Watch, WatchState, mint_token, sweep_journals,
};
use bakeoff::model::{JobId, LaneId, LeaseId, RunToken};
use bakeoff::sandbox::{JobSpec, JobStatus, Launcher, Limits};

use crate::sandbox::stage::*;
use crate::sandbox::survive::WAYS;

/// A worker run: its launcher, token and table.
struct Worker {
    launcher: Launcher,
    token: RunToken,
    table: JobTable,
    book: JobBook,
}

impl Worker {
    async fn new(limits: JobLimits) -> Self {
        let book = JobBook::new(limits);
        let table = book.open(&LaneId::of("fast", 1));
        Self { launcher: launcher().await, token: mint_token(), table, book }
    }

    fn order(&self, mut spec: JobSpec) -> Order {
        spec.token = self.token.clone();
        let (lease, label) = (LeaseId::new("a"), "a script".to_owned());
        Order { spec, lease, label, by: 0, watch: None }
    }

    fn start(&self, script: &str) -> JobId {
        self.table.start(&self.launcher, self.order(sh(script))).unwrap()
    }

    /// The end of a job, once it is there.
    async fn ended(&self, id: &JobId) -> JobState {
        self.table.wait(id, u64::MAX, PATIENCE).await;
        self.table.read(id, 0).unwrap().0.state
    }
}

fn text(table: &JobTable, id: &JobId) -> String {
    table.read(id, 0).unwrap().1.text()
}

#[test]
fn output_is_read_while_a_job_runs_and_after_it() {
    // contract R7
    // contract R8
    for system in ALL {
        on(system, || async {
            let worker = Worker::new(JobLimits::default()).await;
            let dir = folder();
            let post = Signpost::new(dir.path());
            let mut spec =
                sh("echo one; read line < $SIGNPOST; echo two >&2; printf '\\303'; exit 3");
            spec.mounts.push(shared(dir.path()));
            let id = worker
                .table
                .start(&worker.launcher, worker.order(with_env(spec, "SIGNPOST", post.path())));
            let id = id.unwrap();
            worker.table.wait(&id, 0, PATIENCE).await;
            let (view, reading) = worker.table.read(&id, 0).unwrap();
            assert_eq!((view.state, reading.text().as_str()), (JobState::Running, "one\n"));
            std::fs::write(post.path(), "go\n").unwrap();
            let JobState::Ended(end) = worker.ended(&id).await else { panic!("it has not ended") };
            assert_eq!(end.status, Ok(JobStatus::Exited(3)));
            let (_, rest) = worker.table.read(&id, reading.next).unwrap();
            assert_eq!(rest.text(), "two\n\u{fffd}");
        });
    }
}

#[test]
fn a_kill_ends_the_whole_tree_and_says_so_when_proven() {
    // contract C3 together: what is not proven is tested with a process that does not end
    // contract R9
    for system in ALL {
        on(system, move || async move {
            let worker = Worker::new(JobLimits { running: 100, ..JobLimits::default() }).await;
            let dir = folder();
            for (what, script) in WAYS {
                let (post, nonce) = (Signpost::new(&mkdir(dir.path(), what)), nonce());
                let spec = with_env(sh(script), "SIGNPOST", post.path());
                let mut spec = with_env(spec, "NONCE", &nonce);
                spec.mounts.push(shared(dir.path()));
                let id = worker.table.start(&worker.launcher, worker.order(spec)).unwrap();
                post.reached().await;
                let report = worker.table.kill(&id).await.unwrap();
                assert!(
                    matches!(report, KillReport::Proven(JobState::Ended(_))),
                    "{what}: {report:?}"
                );
                nothing_alive(&nonce);
                let again = worker.table.kill(&id).await.unwrap();
                assert!(matches!(again, KillReport::Over(_)), "{what}: {again:?}");
            }
            assert_eq!(worker.table.kill(&JobId::new("fast/1#999")).await, None);
            // Whoever ended a job knows that it is over.
            assert!(worker.table.take_notices(0).is_empty());
        });
    }
}

fn mkdir(dir: &std::path::Path, name: &str) -> std::path::PathBuf {
    let path = dir.join(name.replace(' ', "-"));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn an_end_is_told_once_and_wakes_who_waits() {
    // contract R6
    // contract S13 in part: the fold into the conversation is tested with the loop
    on(System::Here, || async {
        let worker = Worker::new(JobLimits::default()).await;
        let id = worker.start("echo x; exit 7");
        assert!(worker.table.noticed(0).await);
        let notices = worker.table.take_notices(0);
        let [Notice::Ended { id: told, state: JobState::Ended(end), written: 2, .. }] = &*notices
        else {
            panic!("{notices:?}")
        };
        assert_eq!((told, &end.status), (&id, &Ok(JobStatus::Exited(7))));
        assert!(worker.table.take_notices(0).is_empty());
        assert!(!worker.table.noticed(0).await, "nothing can come any more");
        // A read that shows the end tells it, too.
        let seen = worker.start("true");
        worker.ended(&seen).await;
        assert!(worker.table.take_notices(0).is_empty());
        // A job that can't be run is told as well, and is no hang.
        let mut spec = sh("");
        spec.argv = vec!["/no/such/program".into()];
        worker.table.start(&worker.launcher, worker.order(spec)).unwrap();
        assert!(worker.table.noticed(0).await);
        assert!(
            matches!(&worker.table.take_notices(0)[..], [Notice::Ended { state: JobState::Ended(end), .. }] if end.status.is_err())
        );
    });
}

#[test]
fn a_thousand_quick_jobs_leave_a_bounded_table() {
    // contract S8 in part: for a worker's table; the operator's is of the same kind
    on(System::Here, || async {
        let worker = Worker::new(JobLimits { running: 8, ended: 5, ..JobLimits::default() }).await;
        let mut told = 0;
        for round in 0..60 {
            for _ in 0..5 {
                worker.start("echo $$");
            }
            while worker.table.has_live(0) {
                worker.table.noticed(0).await;
                told += worker.table.take_notices(0).len();
            }
            told += worker.table.take_notices(0).len();
            assert!(worker.table.list().len() <= 5, "round {round}");
        }
        assert_eq!(told, 300);
        let limits = JobLimits { retention: Duration::ZERO, running: 2, ..JobLimits::default() };
        let worker = Worker::new(limits).await;
        let busy = [worker.start("sleep 1000"), worker.start("sleep 1000")];
        let refusal = worker.table.start(&worker.launcher, worker.order(sh("true"))).unwrap_err();
        assert!(refusal.contains("2 jobs run already"), "{refusal}");
        worker.table.kill(&busy[0]).await;
        assert_eq!(worker.table.list().len(), 1, "an ended job goes when its time is over");
        assert!(worker.table.read(&busy[0], 0).is_none());
    });
}

#[test]
fn a_job_that_floods_is_kept_in_bounds_and_one_that_hangs_has_a_ceiling() {
    // contract C10 in part: the ceiling
    on(System::Here, || async {
        let limits =
            JobLimits { output: 3000, ceiling: Duration::from_secs(1), ..JobLimits::default() };
        let worker = Worker::new(limits).await;
        let flood = worker.start("echo first; yes | head -c 50000000; echo last");
        worker.ended(&flood).await;
        let (view, reading) = worker.table.read(&flood, 0).unwrap();
        let text = reading.text();
        assert!(text.starts_with("first\ny\n") && text.len() < 3100, "{}", text.len());
        if let JobState::Ended(end) = view.state
            && end.status == Ok(JobStatus::Exited(0))
        {
            assert_eq!(view.written, 50_000_000 + 11);
            assert!(text.ends_with("y\nlast\n") && text.contains("bytes of output are gone"));
        }
        let hangs = worker.start("trap '' TERM; while :; do sleep 1000; done");
        let JobState::Ended(end) = worker.ended(&hangs).await else { panic!() };
        assert_eq!(end.status, Ok(JobStatus::TimedOut));
    });
}

#[test]
fn a_watched_line_is_told_and_a_flood_of_them_is_not() {
    // contract R37
    on(System::Here, || async {
        let worker = Worker::new(JobLimits::default()).await;
        let mut order = worker.order(sh("echo starting; echo 'ready on 80'; exec sleep 1000"));
        order.watch = Some(Watch::new("ready on [0-9]+").unwrap());
        let id = worker.table.start(&worker.launcher, order).unwrap();
        assert!(worker.table.noticed(0).await);
        let matched = Matched { line: "ready on 80".to_owned(), of: None };
        assert_eq!(worker.table.take_notices(0), [Notice::Matched { id: id.clone(), matched }]);
        worker.table.kill(&id).await;
        let mut order = worker.order(sh("yes error | head -n 1000"));
        order.watch = Some(Watch::new("error").unwrap());
        let id = worker.table.start(&worker.launcher, order).unwrap();
        worker.table.wait(&id, u64::MAX, PATIENCE).await;
        let notices = worker.table.take_notices(0);
        assert!(
            matches!(
                &notices[..],
                [
                    Notice::Matched { .. },
                    Notice::Unwatched { state: WatchState::Flooded, .. },
                    Notice::Ended { .. }
                ]
            ),
            "{notices:?}"
        );
        let (view, _) = worker.table.read(&id, 0).unwrap();
        assert_eq!(view.watch, Some(WatchState::Flooded));
    });
}

#[test]
fn tables_are_apart_and_a_workspace_shows_whose_jobs_it_has() {
    // contract C2 in part: the tool is tested with the whole run
    on(System::Here, || async {
        let one = Worker::new(JobLimits::default()).await;
        let table = one.book.open(&LaneId::of("slow", 2));
        let other = Worker {
            launcher: one.launcher.clone(),
            token: mint_token(),
            table,
            book: one.book.clone(),
        };
        let (mine, theirs) = (one.start("sleep 1000"), other.start("sleep 1000"));
        assert_eq!((mine.as_str(), theirs.as_str()), ("fast/1#1", "slow/2#1"));
        assert!(one.table.read(&theirs, 0).is_none() && one.table.kill(&theirs).await.is_none());
        let seen = one.book.of_lease(&LeaseId::new("a"));
        let owners: Vec<&str> = seen.iter().map(|job| job.owner.as_str()).collect();
        assert_eq!(owners, ["fast/1", "slow/2"]);
        assert!(one.book.of_lease(&LeaseId::new("b")).is_empty());
        drop(one.table);
        assert_eq!(other.book.all().len(), 1, "a table that nobody holds is gone");
    });
}

// contract C33-delegate-2
#[test]
fn a_nested_worker_s_jobs_are_handed_over_or_ended_and_all_end_with_the_token() {
    // contract C8 in part: the tool is tested with the whole run
    for system in [System::Here, System::NoNamespaces] {
        on(system, || async {
            let worker = Worker::new(JobLimits::default()).await;
            let nonce = nonce();
            let start = |by: u32| {
                let spec = with_env(sh("sleep 1000"), "NONCE", &nonce);
                let order = Order { by, ..worker.order(spec) };
                worker.table.start(&worker.launcher, order).unwrap()
            };
            let [own, kept, stopped] = [start(0), start(1), start(2)];
            let handed: Vec<JobId> =
                worker.table.hand_over(1, 0).into_iter().map(|job| job.id).collect();
            assert_eq!(handed, std::slice::from_ref(&kept));
            let killed = worker.table.kill_of(2).await;
            assert!(matches!(&killed[..], [(id, KillReport::Proven(_))] if *id == stopped));
            assert_eq!(worker.table.list().iter().filter(|job| job.state.is_live()).count(), 2);
            let scope = RunScope::new(worker.token.clone(), worker.launcher.clone())
                .with_table(worker.table.clone());
            let reaped = scope.finish().await;
            assert_eq!((reaped.killed, reaped.survivors), (2, vec![]));
            nothing_alive(&nonce);
            for id in [own, kept] {
                assert!(!worker.ended(&id).await.is_live());
            }
            // Nobody is left to be told, and nothing more starts.
            assert!(worker.table.take_notices(0).is_empty());
            assert!(worker.table.start(&worker.launcher, worker.order(sh("true"))).is_err());
        });
    }
}

#[test]
fn what_a_dead_engine_left_is_ended_at_the_next_start_and_a_stranger_is_not() {
    // contract C10
    on(System::Here, || async {
        let state = folder();
        let launcher = launcher().await;
        let warden = warden();
        let journal = ReapJournal::begin(state.path(), &warden).unwrap();
        assert_eq!(
            sweep_journals(state.path()),
            Default::default(),
            "a living engine's is left alone"
        );
        let dir = state.path().join("reap");
        let read = || {
            let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
            files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
        };
        let text = read();
        assert!(text.lines().count() == 2 && text.contains("warden"), "{text}");
        drop(journal);
        assert_eq!(read(), "");
        // What is no file is no journal, and nobody waits for a writer.
        let (fifo, link) = (dir.join("7-1.jsonl"), dir.join("8-1.jsonl"));
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(sweep_journals(state.path()), Default::default());
        [fifo, link].iter().for_each(|path| std::fs::remove_file(path).unwrap());
        // A process that an engine left, as that engine's journal has it.
        let mut left = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", left.id())).unwrap();
        let start: u64 =
            stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let engine =
            serde_json::json!({"engine": {"pid": 4194305, "start": 1, "boot": boot.trim()}});
        let line = |pid: u32, start: u64, boot: &str| {
            serde_json::json!({"born": [pid, {"pid": pid, "start": start, "boot": boot}]})
                .to_string()
        };
        let sweep = |lines: &[String]| {
            std::fs::write(
                dir.join("4194305-1.jsonl"),
                format!("{engine}\n{}\n{{\"born", lines.join("\n")),
            )
            .unwrap();
            sweep_journals(state.path())
        };
        // The same id with another start or in another boot is a stranger, and so is one struck out.
        let gone = format!("{{\"gone\":{}}}", left.id());
        for strangers in [
            vec![line(left.id(), start - 1, boot.trim())],
            vec![line(left.id(), start, "another")],
            vec![line(left.id(), start, boot.trim()), gone],
        ] {
            let swept = sweep(&strangers);
            assert_eq!((swept.journals, swept.killed), (1, 0), "{strangers:?}");
            assert!(left.try_wait().unwrap().is_none());
        }
        let swept = sweep(&[line(left.id(), start, boot.trim())]);
        assert_eq!((swept.journals, swept.killed), (1, 1));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(read(), "");
        drop(launcher);
    });
}

#[test]
fn the_reap_journal_notes_every_job_and_strikes_it_out() {
    // contract C10 in part: the journal's lines
    for system in [System::Here, System::NoNamespaces] {
        on(system, || async {
            let state = folder();
            let warden = warden();
            let report = warden.prove().await;
            let permit = bakeoff::sandbox::Permit::grant(&report, true).unwrap();
            let launcher = Launcher::new(warden.clone(), permit);
            let _journal = ReapJournal::begin(state.path(), &warden).unwrap();
            run(&launcher, sh("true")).await.unwrap();
            let entry =
                std::fs::read_dir(state.path().join("reap")).unwrap().next().unwrap().unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let kinds: Vec<String> = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .map(|line| line.as_object().unwrap().keys().next().unwrap().clone())
                .collect();
            assert_eq!(kinds, ["engine", "warden", "born", "gone"], "{text}");
        });
    }
}

#[test]
fn live_output_waits_for_a_slow_engine_and_loses_nothing() {
    on(System::Here, || async {
        use bakeoff::sandbox::{Launch, Live, LiveEvent};
        let launcher = launcher().await;
        let sum = Arc::new(std::sync::Mutex::new((0u64, false)));
        let counted = sum.clone();
        let sink = Arc::new(move |event: LiveEvent<'_>| {
            let mut counted = counted.lock().unwrap();
            match event {
                LiveEvent::Started(process) => counted.1 = process.is_there(),
                LiveEvent::Output(bytes) => {
                    if counted.0 == 0 {
                        // As a machine does that has other things to do.
                        std::thread::sleep(Duration::from_millis(300));
                    }
                    counted.0 += bytes.len() as u64;
                }
            }
        });
        let spec = JobSpec {
            limits: Limits { wall: PATIENCE, ..Limits::default() },
            ..sh("head -c 40000000 /dev/zero")
        };
        let process = launcher.start_live(spec, Live::new(sink)).unwrap();
        let exit = process.ended().await.unwrap();
        assert_eq!((exit.status, exit.output.len()), (JobStatus::Exited(0), 0));
        assert!(!process.is_live());
        assert_eq!(*sum.lock().unwrap(), (40_000_000, true));
    });
}

#[test]
fn text_is_readable_in_pieces() {
    on(System::Here, || async {
        let worker = Worker::new(JobLimits::default()).await;
        let id = worker.start("printf 'a\\377b\\033[31mred\\033[0m\\r\\n'");
        worker.ended(&id).await;
        assert_eq!(text(&worker.table, &id), "a\u{fffd}b\u{1b}[31mred\u{1b}[0m\n");
    });
}
