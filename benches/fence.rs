//! What a fence costs: time for a text of a megabyte, and how it grows with the text.
//!
//! `cargo bench --bench fence`, or `cargo bench --manifest-path fuzz/fence/Cargo.toml` to build the fence alone; `-- random` measures the
//! kinds of text whose names hold that. Each figure is the median of 15 runs, in CPU time.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and may panic")]

use std::hint::black_box;
use std::time::Duration;

use bakeoff::fence::{FenceOptions, Fencer, Keep, Untrusted};
use rustix::time::{ClockId, clock_gettime};

const MIB: usize = 1 << 20;
const SIZES: [usize; 5] = [MIB / 4, MIB / 2, MIB, 2 * MIB, 4 * MIB];

/// Code as it stands in diffs.
const CODE: &str =
    "+    let found = self.items.iter().filter(|item| item.id < limit).map(Item::name); // naïve\n";

/// Kinds of text, the worst that is known of each part of the work.
const KINDS: [(&str, &str); 14] = [
    ("a diff of code", CODE),
    ("prose, not ASCII", "Ελληνικά und Deutsch, 漢字 — «quoted» text\n"),
    ("brackets alone", "<"),
    ("forged closing lines", "<<<END UNTRUSTED id=3f9c0a1b2d4e>>>\n"),
    ("the word alone", "untrusted"),
    ("delimiters of the block", "END MEMORY "),
    ("control tokens", "<|im_start|>"),
    ("beginnings of tokens", "<|aaaaaaaa[/A##"),
    ("invisible characters", "\u{200b}"),
    ("escapes", "<U+0041>"),
    ("letters spelt out", "&#x45;\\u004e%44&NewLine;"),
    ("beginnings of entities", "&"),
    ("names of nothing", "&abcdef;&notin "),
    ("numbers of nothing", "&#00000000000000000000000000000000000000000000000000000000000;"),
];

/// The time that this thread had a core, so that other work on the machine does not count.
fn clock() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let begun = clock();
            work();
            clock() - begun
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn fence_of(bytes: &[u8], options: &FenceOptions) -> Duration {
    let (fencer, text) = (Fencer::new([7; 32]), Untrusted::bytes("diff", bytes));
    median(|| {
        black_box(fencer.fence_with(black_box(&text), options));
    })
}

fn main() {
    let delimiters = ["END MEMORY", "END USER MEMORY", "END PRIOR RUNS"].map(String::from).to_vec();
    let whole = FenceOptions { delimiters, ..FenceOptions::default() };
    let cut = FenceOptions { max_bytes: Some(64 << 10), keep: Keep::Ends, ..whole.clone() };
    let heads: Vec<String> = SIZES.iter().map(|size| format!("{} KiB", size >> 10)).collect();
    println!("| Text (ms) | {} | 1 MiB cut to 64 KiB |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(SIZES.len() + 1));
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let kinds = KINDS.iter().map(|(name, unit)| (*name, unit.as_bytes().to_vec()));
    // No text at all.
    let mut rng = fastrand::Rng::with_seed(7);
    let random = (0..4 * MIB).map(|_| rng.u8(..)).collect();
    let bytes = [("bytes that are no UTF-8", vec![0xff]), ("random bytes", random)];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| name.contains(one));
    for (name, unit) in kinds.chain(bytes).filter(|(name, _)| is_wanted(name)) {
        let text = |size: usize| -> Vec<u8> {
            unit.iter().copied().cycle().take(size - size % unit.len().min(size)).collect()
        };
        let times: Vec<String> =
            SIZES.iter().map(|size| ms(fence_of(&text(*size), &whole))).collect();
        println!("| {name} | {} | {} |", times.join(" | "), ms(fence_of(&text(MIB), &cut)));
    }
}
