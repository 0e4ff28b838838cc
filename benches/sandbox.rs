//! What the sandbox costs, against a plain spawn in the same run: medians and a ratio. And what a fork
//! of the engine itself would cost (`pre_exec`), when it is small and when it holds 512 MiB, which is
//! why there is a warden.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::time::{Duration, Instant};

use bakeoff::model::RunToken;
use bakeoff::sandbox::{JobSpec, Launch, Launcher, Limits, Network, Permit, Warden, WardenOptions};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 50;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn job() -> JobSpec {
    JobSpec {
        token: RunToken::new("0123456789abcdef0123456789abcdef"),
        label: "bench".into(),
        argv: vec!["true".into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/tmp".into(),
        mounts: Vec::new(),
        network: Network::Off,
        limits: Limits::default(),
        stdin: Vec::new(),
    }
}

#[tokio::main]
async fn main() {
    let begin = Instant::now();
    let options = WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() };
    let warden = Warden::start(&options).expect("the warden starts");
    let report = warden.prove().await;
    let ready = begin.elapsed();
    let permit = Permit::grant(&report, true).expect("a waiver was given");
    let launcher = Launcher::new(warden, permit);
    println!("tier {}: warden and all probes {ready:.1?}", report.tier.name());
    compare(&launcher, "a small engine").await;
    // Every page written, so that a fork has to copy the tables of all of them.
    let held = vec![1u8; 512 << 20];
    compare(&launcher, "an engine of 512 MiB").await;
    drop(std::hint::black_box(held));
}

/// A job of the warden, a plain spawn, and a spawn that forks because something is to be done between
/// fork and exec.
async fn compare(launcher: &Launcher, engine: &str) {
    let cancel = CancellationToken::new();
    let mut forks = Vec::new();
    let (mut jobs, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        launcher.run(job(), &cancel).await.expect("the job runs");
        jobs.push(begin.elapsed());
    }
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        std::process::Command::new("true").status().expect("true is there");
        plain.push(begin.elapsed());
    }
    // Last, and by themselves: the kernel is still busy with a large copy when its program has ended.
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let mut command = std::process::Command::new("true");
        // SAFETY: nothing at all is done there.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, || Ok(())) };
        command.status().expect("true is there");
        forks.push(begin.elapsed());
    }
    let (job, plain, fork) = (median(jobs), median(plain), median(forks));
    let times = |time: Duration| time.as_secs_f64() / plain.as_secs_f64();
    println!(
        "{engine}: one job {job:.2?} ({:.1} times a plain spawn), a plain spawn {plain:.2?}, one with pre_exec \
         {fork:.2?} ({:.1} times)",
        times(job),
        times(fork),
    );
}
