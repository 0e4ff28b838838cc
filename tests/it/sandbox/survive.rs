//! What tries to outlive its job, its worker run or the engine. Nothing may.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bakeoff::model::RunToken;
use bakeoff::sandbox::{JobSpec, JobStatus, Launch, Launcher, SandboxError};
use bstr::ByteSlice;
use tokio_util::sync::CancellationToken;

use super::stage::*;

/// Ways to survive. Each starts something that stays, and writes to `$SIGNPOST` when it is there.
/// All of them carry `$NONCE` in their environment.
pub const WAYS: [(&str, &str); 10] = [
    ("background child", "sleep 1000 & echo there > $SIGNPOST; wait"),
    (
        "double fork and a session of its own",
        "(setsid sh -c 'sleep 1000 & echo there > $SIGNPOST; wait' &) ; exec sleep 1000",
    ),
    (
        "ignored polite signals",
        "trap '' TERM INT HUP QUIT; echo there > $SIGNPOST; while :; do sleep 1000; done",
    ),
    (
        "ignored signals in a daemon",
        "(setsid sh -c 'trap \"\" TERM HUP INT; echo there > $SIGNPOST; while :; do sleep 1000; done' &); exec sleep 1000",
    ),
    (
        "a stopped child",
        "sh -c 'kill -STOP $$' & while ! grep -q 'State:.T' /proc/$!/status; do :; done; echo there > $SIGNPOST; wait",
    ),
    (
        "a stopped daemon that ignores signals",
        "(setsid sh -c 'trap \"\" TERM CONT; echo there > $SIGNPOST; kill -STOP $$; sleep 1000' &); exec sleep 1000",
    ),
    (
        "three hundred children",
        "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo there > $SIGNPOST; wait",
    ),
    (
        "a deep chain",
        "f() { if [ $1 -gt 0 ]; then (f $(($1-1))) & wait; else echo there > $SIGNPOST; sleep 1000; fi; }; f 40",
    ),
    (
        "closed standard descriptors",
        "(setsid sleep 1000 < /dev/null > /dev/null 2>&1 &); echo there > $SIGNPOST; exec sleep 1000",
    ),
    (
        "a child that is born again",
        "(trap '' TERM; again() { sleep 0.01; (again) & }; again) & echo there > $SIGNPOST; sleep 1000",
    ),
];

/// How a job's end is brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Token,
    Stop,
    Drop,
    TimeLimit,
}

pub fn surviving(script: &str, nonce: &str, post: &Signpost, dir: &std::path::Path) -> JobSpec {
    let spec = with_env(sh(script), "NONCE", nonce);
    let mut spec = with_env(spec, "SIGNPOST", post.path());
    spec.token = RunToken::new(nonce);
    spec.mounts.push(shared(dir));
    spec
}

async fn try_to_survive(launcher: &Launcher, way: &str, script: &str, end: End) {
    if end == End::TimeLimit {
        return try_to_survive_time(launcher, way, script).await;
    }
    let (dir, nonce) = (folder(), nonce());
    let post = Signpost::new(dir.path());
    let spec = surviving(script, &nonce, &post, dir.path());
    let context = format!("{way}, {end:?}, {:?}", launcher.tier());
    let token = spec.token.clone();
    let job = launcher.start(spec).unwrap();
    post.reached().await;
    assert!(!alive(&nonce).is_empty(), "{context}: the attack itself does not work");
    match end {
        End::Token => {
            let reaped = launcher.kill_token(&token).await.unwrap();
            assert_eq!((reaped.killed, reaped.survivors.len()), (1, 0), "{context}");
            nothing_alive(&nonce);
            assert_eq!(job.ended().await.unwrap().status, JobStatus::Killed, "{context}");
        }
        End::Stop => {
            job.stop();
            assert_eq!(job.ended().await.unwrap().status, JobStatus::Killed, "{context}");
            nothing_alive(&nonce);
        }
        End::Drop => {
            drop(job);
            all_die(&nonce);
        }
        End::TimeLimit => unreachable!("tried above"),
    }
}

/// How fast a machine is nobody knows: the limit grows until the attack is there before its end.
async fn try_to_survive_time(launcher: &Launcher, way: &str, script: &str) {
    for seconds in [3, 12, 48, 192] {
        let (dir, nonce) = (folder(), nonce());
        let post = Signpost::new(dir.path());
        let mut spec = surviving(script, &nonce, &post, dir.path());
        spec.limits.wall = Duration::from_secs(seconds);
        let mut job = std::pin::pin!(launcher.start(spec).unwrap().ended());
        let there = tokio::select! {
            _ = post.reached() => true,
            exit = &mut job => {
                assert_eq!(exit.unwrap().status, JobStatus::TimedOut, "{way}");
                false
            }
        };
        if there {
            assert_eq!(job.await.unwrap().status, JobStatus::TimedOut, "{way}");
        }
        nothing_alive(&nonce);
        if there {
            return;
        }
    }
    panic!("{way}: the attack was never there in time");
}

fn all_ways(system: System, end: End) {
    on(system, move || async move {
        let launcher = launcher().await;
        assert_eq!(launcher.tier(), expected_tier(system));
        for (way, script) in WAYS {
            try_to_survive(&launcher, way, script, end).await;
        }
    });
}

#[test]
fn nothing_outlives_the_end_of_its_token() {
    // contract C3 in part
    // contract C6 in part: the warden's half
    // contract C9
    all_ways(System::Here, End::Token);
    all_ways(System::Ordinary, End::Token);
}

#[test]
fn nothing_outlives_the_end_of_its_token_without_namespaces() {
    for system in WEAK {
        all_ways(system, End::Token);
    }
}

#[test]
fn nothing_outlives_a_job_that_nobody_waits_for() {
    all_ways(System::Here, End::Drop);
    all_ways(System::NoNamespaces, End::Drop);
}

#[test]
fn nothing_outlives_its_time_limit() {
    on(System::Here, || async {
        let launcher = launcher().await;
        let tries =
            WAYS.map(|(way, script)| try_to_survive(&launcher, way, script, End::TimeLimit));
        futures_util::future::join_all(tries).await;
    });
}

#[test]
fn stop_is_polite_first_and_final_after_two_seconds() {
    // contract R9
    for system in [System::Here, System::NoNamespaces] {
        on(system, || async {
            let launcher = launcher().await;
            let tries = WAYS.map(|(way, script)| try_to_survive(&launcher, way, script, End::Stop));
            futures_util::future::join_all(tries).await;
            let (dir, nonce) = (folder(), nonce());
            let post = Signpost::new(dir.path());
            let script = "trap 'echo goodbye; exit 3' TERM; echo there > $SIGNPOST; while :; do sleep 0.01; done";
            let job = launcher.start(surviving(script, &nonce, &post, dir.path())).unwrap();
            post.reached().await;
            job.stop();
            let exit = job.ended().await.unwrap();
            assert_eq!(exit.status, JobStatus::Killed);
            // The shell may also say that its child was terminated.
            assert!(exit.output.ends_with(b"goodbye\n"), "{:?}", exit.output.as_bstr());
            let again = dir.path().join("again");
            std::fs::create_dir(&again).unwrap();
            let post = Signpost::new(&again);
            let script = "trap '' TERM; echo there > $SIGNPOST; while :; do sleep 0.01; done";
            let job = launcher.start(surviving(script, &nonce, &post, dir.path())).unwrap();
            post.reached().await;
            let begin = Instant::now();
            job.stop();
            assert_eq!(job.ended().await.unwrap().status, JobStatus::Killed);
            // The other bound is the machine's affair.
            assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
        });
    }
}

#[test]
fn nothing_outlives_a_cancelled_run() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            for (way, script) in WAYS {
                let (dir, nonce) = (folder(), nonce());
                let post = Signpost::new(dir.path());
                let spec = surviving(script, &nonce, &post, dir.path());
                let cancel = CancellationToken::new();
                let job = launcher.run(spec, &cancel);
                let stop = async {
                    post.reached().await;
                    cancel.cancel();
                };
                let (answer, ()) = tokio::join!(job, stop);
                assert!(matches!(answer, Err(SandboxError::Cancelled)), "{way}");
                nothing_alive(&nonce);
            }
        });
    }
}

#[test]
fn what_a_job_leaves_behind_when_it_ends_by_itself_dies_with_it() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let nonce = nonce();
            let script = "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; sleep 1000; :' &); done; (sleep 1000 &) ; exit 7";
            let exit = run(&launcher, with_env(sh(script), "NONCE", &nonce)).await.unwrap();
            assert_eq!(exit.status, JobStatus::Exited(7));
            nothing_alive(&nonce);
        });
    }
}

#[test]
fn a_job_can_not_kill_its_init() {
    on(System::Here, || async {
        let script = "kill -9 1; kill -STOP 1; kill -9 -1; kill -SEGV 1; echo still here";
        assert!(output(&launcher().await, sh(script)).await.ends_with("still here\n"));
    });
}

#[test]
fn a_job_of_the_weaker_tiers_that_kills_its_init_leaves_nothing() {
    for system in WEAK {
        on(system, || async {
            let launcher = launcher().await;
            let nonce = nonce();
            let script = "(setsid sh -c 'sleep 1000; :' &); kill -9 $PPID && sleep 1000";
            let _ = run(&launcher, with_env(sh(script), "NONCE", &nonce)).await;
            nothing_alive(&nonce);
        });
    }
}

#[test]
fn ending_one_token_leaves_its_sibling_in_the_same_directory_alone() {
    // contract C6 in part: the warden's half
    // contract C7
    // contract C9
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let dir = folder();
            let (mine, other) = (nonce(), nonce());
            let mut jobs = Vec::new();
            for (nonce, name) in [(&mine, "mine"), (&other, "other")] {
                let own = dir.path().join(name);
                std::fs::create_dir(&own).unwrap();
                let post = Signpost::new(&own);
                let mut spec =
                    surviving("echo there > $SIGNPOST; sleep 1000", nonce, &post, dir.path());
                spec.cwd = dir.path().into();
                jobs.push(launcher.start(spec).unwrap());
                post.reached().await;
            }
            let reaped = launcher.kill_token(&RunToken::new(&mine)).await.unwrap();
            assert_eq!((reaped.killed, reaped.survivors.len()), (1, 0));
            nothing_alive(&mine);
            assert!(!alive(&other).is_empty(), "the sibling was killed, too");
            launcher.kill_token(&RunToken::new(&other)).await.unwrap();
            nothing_alive(&other);
        });
    }
}

#[test]
fn a_token_that_has_ended_starts_nothing_more() {
    // contract C6 in part: the warden's half
    on(System::Here, || async {
        let launcher = launcher().await;
        let token = RunToken::new(nonce());
        let none = launcher.kill_token(&token).await.unwrap();
        assert_eq!((none.killed, none.survivors.len()), (0, 0));
        let late = run(&launcher, JobSpec { token, ..sh("true") }).await;
        assert!(matches!(late, Err(SandboxError::Setup(text)) if text.contains("token has ended")));
        output(&launcher, sh("true")).await;
    });
}

#[test]
fn the_end_of_the_last_launcher_ends_every_job() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let (dir, nonce) = (folder(), nonce());
            let post = Signpost::new(dir.path());
            let job = launcher.start(surviving(WAYS[3].1, &nonce, &post, dir.path())).unwrap();
            post.reached().await;
            drop(launcher);
            assert!(!alive(&nonce).is_empty(), "the running job still holds the warden");
            drop(job);
            all_die(&nonce);
        });
    }
}

/// The engine of the tests below: a process of its own that starts one job of every kind and says
/// so. It is only that when the test that starts it says so; else it proves nothing and does nothing.
#[test]
fn engine_to_be_killed() {
    let Ok(nonce) = std::env::var("BAKEOFF_TEST_ENGINE") else { return };
    let system = match std::env::var("BAKEOFF_TEST_SYSTEM").as_deref() {
        Ok("NoNamespaces") => System::NoNamespaces,
        Ok("OrdinaryNoNamespaces") => System::OrdinaryNoNamespaces,
        Ok("Nothing") => System::Nothing,
        Ok("Ordinary") => System::Ordinary,
        _ => System::Here,
    };
    on(system, move || async move {
        let launcher = launcher().await;
        assert_eq!(launcher.tier(), expected_tier(system));
        let dir = folder();
        let mut jobs = Vec::new();
        for (index, (_, script)) in WAYS.iter().enumerate() {
            let own = dir.path().join(index.to_string());
            std::fs::create_dir(&own).unwrap();
            let post = Signpost::new(&own);
            jobs.push(launcher.start(surviving(script, &nonce, &post, dir.path())).unwrap());
            post.reached().await;
        }
        println!("\nready");
        std::future::pending::<()>().await;
    });
}

/// Starts an engine and waits until its jobs run.
fn engine(nonce: &str, system: System) -> std::process::Child {
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::survive::engine_to_be_killed", "--nocapture"])
        .env("BAKEOFF_TEST_ENGINE", nonce)
        .env("BAKEOFF_TEST_SYSTEM", format!("{system:?}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line == "ready");
    assert!(ready, "the engine of the test did not come up");
    engine
}

#[test]
fn sigkill_of_the_engine_leaves_nothing() {
    // contract C10 in part: an engine that is killed
    for system in ALL {
        let nonce = nonce();
        let mut engine = engine(&nonce, system);
        assert!(alive(&nonce).len() > 300);
        engine.kill().unwrap();
        engine.wait().unwrap();
        all_die(&nonce);
    }
}

#[test]
fn sigkill_of_the_warden_leaves_nothing_and_the_engine_hears() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let (dir, nonce) = (folder(), nonce());
            let post = Signpost::new(dir.path());
            let job = launcher.start(surviving(WAYS[3].1, &nonce, &post, dir.path())).unwrap();
            post.reached().await;
            let warden = warden_of(&nonce);
            rustix::process::kill_process(warden, rustix::process::Signal::KILL).unwrap();
            let error = job.ended().await.unwrap_err();
            assert!(matches!(error, SandboxError::WardenGone(_)), "{error:?}");
            all_die(&nonce);
            let after = run(&launcher, sh("true")).await.unwrap_err();
            assert!(matches!(after, SandboxError::WardenGone(_)), "{after:?}");
        });
    }
}

/// The warden above a process that carries the nonce.
pub fn warden_of(nonce: &str) -> rustix::process::Pid {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = alive(nonce);
        let pids = found.iter().filter_map(|line| line.split(':').next()?.parse().ok());
        if let Some(warden) = pids.filter_map(climb).next() {
            return warden;
        }
        assert!(Instant::now() < deadline, "no warden above {found:?}");
    }
}

/// The child of this process above `pid`; `None` when one on the way has died meanwhile.
fn climb(mut pid: i32) -> Option<rustix::process::Pid> {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        if parent == i32::try_from(std::process::id()).ok()? {
            return rustix::process::Pid::from_raw(pid);
        }
        pid = parent;
    }
}

#[test]
fn engines_killed_at_random_points_leave_nothing() {
    // contract C10 in part: an engine that is killed
    let nonce = nonce();
    let mut pids = Vec::new();
    for round in 0..12 {
        let mut engine = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::survive::engine_to_be_killed", "--nocapture"])
            .env("BAKEOFF_TEST_ENGINE", &nonce)
            .env("BAKEOFF_TEST_SYSTEM", if round % 2 == 0 { "Here" } else { "Ordinary" })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // A random point of its work: after so many processes of it are to be seen.
        let wanted = fastrand::usize(0..40);
        while alive(&nonce).len() < wanted && engine.try_wait().unwrap().is_none() {}
        engine.kill().unwrap();
        engine.wait().unwrap();
        all_die(&nonce);
        pids.push(engine.id());
    }
    // What they left in the temporary directory goes with the next start.
    on(System::Here, || async { launcher().await });
    for pid in pids {
        let prefix = format!("bakeoff-bait-{pid}-");
        let left = std::fs::read_dir("/tmp").unwrap().flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        assert_eq!(left.count(), 0, "{prefix}");
    }
}
