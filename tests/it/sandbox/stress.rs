//! Kills without end: random ways to survive, random ends, random points, every tier. Nothing may.
//!
//! `cargo test --test it sandbox::stress -- --ignored --nocapture` makes a thousand kills
//! (`BAKEOFF_STRESS_KILLS` for another number, `BAKEOFF_STRESS_SEED` to repeat a run).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use bakeoff::sandbox::{JobSpec, Launch, Launcher, SandboxError};
use fastrand::Rng;
use tokio_util::sync::CancellationToken;

use super::stage::*;
use super::survive::{WAYS, surviving, warden_of};

/// Too slow to be one of the ways that every test takes.
const CROWD: (&str, &str) = (
    "two thousand children",
    "i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i+1)); done; echo there > $SIGNPOST; wait",
);

/// How a job's end is brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Token,
    Stop,
    Kill,
    Drop,
    Cancel,
    WardenKilled,
    EngineKilled,
}

const ENDS: [End; 7] = [
    End::Token,
    End::Stop,
    End::Kill,
    End::Drop,
    End::Cancel,
    End::WardenKilled,
    End::EngineKilled,
];

fn way(rng: &mut Rng) -> (&'static str, &'static str) {
    if rng.u8(0..30) == 0 { CROWD } else { WAYS[rng.usize(0..WAYS.len())] }
}

/// Kills `kills` times and tells what was killed how.
fn stress(kills: usize, seed: u64) {
    let begin = Instant::now();
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    let mut rng = Rng::with_seed(seed);
    let mut made = 0;
    while made < kills {
        let system = ALL[rng.usize(0..ALL.len())];
        // Several kills by one warden, as in a run.
        let rounds = rng.usize(1..6).min(kills - made);
        let own = Rng::with_seed(rng.u64(..));
        for (way, end) in on(system, move || rounds_of(system, rounds, own)) {
            for key in [format!("{end:?}"), format!("{system:?}"), way.to_owned()] {
                *tally.entry(key).or_default() += 1;
            }
            made += 1;
        }
    }
    let mut text =
        format!("stress, seed {seed}: {made} kills in {:.0?}, 0 survivors\n", begin.elapsed());
    for (key, count) in tally {
        text += &format!("  {count:>5}  {key}\n");
    }
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

async fn rounds_of(system: System, rounds: usize, mut rng: Rng) -> Vec<(&'static str, End)> {
    let mut launcher = None;
    let mut done = Vec::new();
    for _ in 0..rounds {
        let end = ENDS[rng.usize(0..ENDS.len())];
        if end == End::EngineKilled {
            done.push((kill_an_engine(system, &mut rng), end));
            continue;
        }
        let own = match launcher.take() {
            Some(launcher) => launcher,
            None => super::stage::launcher().await,
        };
        let chosen = way(&mut rng);
        kill_a_job(&own, chosen, end, &mut rng).await;
        if end != End::WardenKilled {
            launcher = Some(own);
        }
        done.push((chosen.0, end));
    }
    done
}

/// The job is killed when the attack is there, or at once, in the middle of its start.
async fn kill_a_job(launcher: &Launcher, way: (&str, &str), end: End, rng: &mut Rng) {
    let (dir, nonce) = (folder(), nonce());
    let post = Signpost::new(dir.path());
    let spec = with_crowd(surviving(way.1, &nonce, &post, dir.path()));
    let waits = rng.u8(0..4) > 0;
    let token = spec.token.clone();
    if end == End::Cancel {
        let cancel = CancellationToken::new();
        let stop = async {
            if waits {
                post.reached().await;
            }
            cancel.cancel();
        };
        let (answer, ()) = tokio::join!(launcher.run(spec, &cancel), stop);
        assert!(matches!(answer, Err(SandboxError::Cancelled)), "{way:?}: {answer:?}");
        return nothing_alive(&nonce);
    }
    let job = launcher.start(spec).unwrap();
    if waits || end == End::WardenKilled {
        post.reached().await;
    }
    match end {
        End::Token => {
            let reaped = launcher.kill_token(&token).await.unwrap();
            assert_eq!(reaped.survivors, [""; 0], "{way:?}");
        }
        End::Stop => {
            job.stop();
            job.ended().await.unwrap();
        }
        End::Kill => {
            job.kill();
            job.ended().await.unwrap();
        }
        End::Drop => {
            drop(job);
            return all_die(&nonce);
        }
        End::WardenKilled => {
            let warden = warden_of(&nonce);
            rustix::process::kill_process(warden, rustix::process::Signal::KILL).unwrap();
            assert!(matches!(job.ended().await, Err(SandboxError::WardenGone(_))), "{way:?}");
            return all_die(&nonce);
        }
        End::Cancel | End::EngineKilled => unreachable!("done elsewhere"),
    }
    nothing_alive(&nonce);
}

fn with_crowd(mut spec: JobSpec) -> JobSpec {
    spec.limits.processes = 8192;
    spec
}

/// Starts an engine of its own that starts jobs, and kills it after a random number of its steps.
fn kill_an_engine(system: System, rng: &mut Rng) -> &'static str {
    let nonce = nonce();
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::stress::engine_to_be_killed", "--nocapture"])
        .env("BAKEOFF_TEST_STRESS_ENGINE", &nonce)
        .env("BAKEOFF_TEST_STRESS_SEED", rng.u64(..).to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(engine.stdout.take().unwrap()).lines().map_while(Result::ok);
    let wanted = rng.usize(0..10);
    let steps = lines.filter(|line| line.starts_with("step")).take(wanted).count();
    assert_eq!(steps, wanted, "the engine of the test ended early, on {system:?}");
    engine.kill().unwrap();
    engine.wait().unwrap();
    all_die(&nonce);
    "an engine at a random point"
}

/// The engine of the function above; it inherits the system. Else it proves nothing and does nothing.
#[test]
fn engine_to_be_killed() {
    let Ok(nonce) = std::env::var("BAKEOFF_TEST_STRESS_ENGINE") else { return };
    let seed = std::env::var("BAKEOFF_TEST_STRESS_SEED").unwrap().parse().unwrap();
    on(System::Here, move || async move {
        let mut rng = Rng::with_seed(seed);
        let step = |what: &str| println!("\nstep {what}");
        step("began");
        let launcher = launcher().await;
        step("has a warden");
        let dir = folder();
        let mut jobs = Vec::new();
        for number in 0..4 {
            let own = dir.path().join(number.to_string());
            std::fs::create_dir(&own).unwrap();
            let post = Signpost::new(&own);
            let spec = with_crowd(surviving(way(&mut rng).1, &nonce, &post, dir.path()));
            jobs.push(launcher.start(spec).unwrap());
            step("started");
            post.reached().await;
            step("is there");
        }
        std::future::pending::<()>().await;
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn some_kills_leave_no_survivor() {
    stress(40, fastrand::u64(..));
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_kills_leave_no_survivor() {
    let kills = number("BAKEOFF_STRESS_KILLS").unwrap_or(1000);
    let seed = number("BAKEOFF_STRESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    stress(kills.try_into().unwrap(), seed);
}
