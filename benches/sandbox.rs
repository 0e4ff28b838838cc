//! What the sandbox costs, against a plain spawn in the same run: medians and a ratio.
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
    let cancel = CancellationToken::new();
    let (mut jobs, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        launcher.run(job(), &cancel).await.expect("the job runs");
        jobs.push(begin.elapsed());
        let begin = Instant::now();
        std::process::Command::new("true").status().expect("true is there");
        plain.push(begin.elapsed());
    }
    let (job, plain) = (median(jobs), median(plain));
    println!("tier {}: warden and all probes {ready:.1?}", report.tier.name());
    println!(
        "one job {job:.2?}, a plain spawn {plain:.2?}: {:.1} times",
        job.as_secs_f64() / plain.as_secs_f64()
    );
}
