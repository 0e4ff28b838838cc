#!/usr/bin/env bash
# Measures the crate hakoniwa beside the warden: one `true` in its default container, from a small process and
# from one of 512 MiB, against a plain spawn in the same run. Nothing of it is part of the product (LGPL-3.0).
#
# Usage: scripts/hakoniwa.sh          Needs: cargo, a C compiler, the package registry.
set -euo pipefail
version=1.8.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
cat >"$dir/Cargo.toml" <<TOML
[package]
name = "compare"
version = "0.0.0"
edition = "2021"
[dependencies]
hakoniwa = "=$version"
TOML
cat >"$dir/src/main.rs" <<'RUST'
use std::time::{Duration, Instant};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn compare(engine: &str) {
    let (mut jobs, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let begin = Instant::now();
        let mut container = hakoniwa::Container::new();
        container.rootfs("/").expect("the root file system");
        let status = container.command("/bin/true").status().expect("it runs");
        assert!(status.success(), "{status:?}");
        jobs.push(begin.elapsed());
        let begin = Instant::now();
        std::process::Command::new("true").status().expect("it runs");
        plain.push(begin.elapsed());
    }
    let (job, plain) = (median(jobs), median(plain));
    let times = job.as_secs_f64() / plain.as_secs_f64();
    println!("{engine}: one container {job:.2?}, a plain spawn {plain:.2?}: {times:.1} times");
}

fn main() {
    compare("a small engine");
    let held = vec![1u8; 512 << 20];
    compare("an engine of 512 MiB");
    drop(std::hint::black_box(held));
}
RUST
cargo run --quiet --release --manifest-path "$dir/Cargo.toml"
