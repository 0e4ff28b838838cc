//! What a run's store and base layer cost on a large repository, against git's own ways in the same run.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bakeoff::repo::{Store, StorePaths, UserRepo};

/// Files of the repository and their mean size in bytes.
const FILES: usize = 38_600;
const BYTES: usize = 9_200;
/// Files that a later base changes.
const CHANGED: usize = 20;
const ROUNDS: usize = 5;

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(FILES);
    let dir =
        tempfile::tempdir_in(std::env::var_os("BENCH_DIR").unwrap_or("/var/tmp".into())).unwrap();
    let top = dir.path().join("user");
    make(&top, count);
    let user = UserRepo::discover(&top).unwrap();
    println!("{count} files, {} MB", size_mb(&top, ".git"));

    let (mut first, mut again, mut later, mut clones, mut trees) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    let mut cores = Vec::new();
    for round in 0..ROUNDS {
        let home = dir.path().join(format!("home{round}"));
        let head = user.resolve("HEAD").unwrap();
        let before = on_a_core();
        first.push(prepare(&user, &head, &home, "first"));
        cores.push(on_a_core() - before);
        again.push(prepare(&user, &head, &home, "again"));
        change(&top, round, count);
        let head = user.resolve("HEAD").unwrap();
        later.push(prepare(&user, &head, &home, "later"));
        let clone = dir.path().join("clone");
        clones.push(timed(|| git(&top, &["clone", "-q", "--shared", ".", &text(&clone)])));
        fs::remove_dir_all(&clone).unwrap();
        trees.push(timed(|| git(&top, &["worktree", "add", "-q", "--detach", &text(&clone)])));
        git(&top, &["worktree", "remove", "--force", &text(&clone)]);
        println!(
            "  round {round}: {:?} {:?} {:?} {:?} {:?}",
            first[round], again[round], later[round], clones[round], trees[round]
        );
        fs::remove_dir_all(home).unwrap();
    }
    let (clone, tree) = (median(clones), median(trees));
    println!("a first base takes {:.2?} of a core's time", median(cores));
    println!("git clone --shared   {clone:>9.0?}");
    println!("git worktree add     {tree:>9.0?}");
    for (name, times) in
        [("first base", first), ("the same base again", again), ("a later base", later)]
    {
        let time = median(times);
        println!(
            "{name:<20} {time:>9.0?}  {:.2} of a clone, {:.2} of a worktree",
            ratio(time, clone),
            ratio(time, tree)
        );
    }
}

fn prepare(user: &UserRepo, head: &bakeoff::model::CommitId, home: &Path, run: &str) -> Duration {
    let paths = StorePaths { cache: home.join("cache"), run: home.join("runs").join(run) };
    timed(|| drop(Store::prepare(user, head, false, &paths).unwrap()))
}

/// A repository of text files, of which no two are alike, in directories of 40.
fn make(top: &Path, count: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    for n in 0..count {
        let dir = top.join(format!("d{}/e{}", n / 1600, n / 40));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{n}.rs")), words(&mut random)).unwrap();
    }
    git(top, &["init", "-q", "-b", "main"]);
    git(top, &["config", "gc.auto", "0"]);
    commit(top, "all");
    git(top, &["repack", "-adq", "--depth=1", "--window=1"]);
}

fn change(top: &Path, round: usize, count: usize) {
    for n in 0..CHANGED {
        let n = (n * 997 + round) % count;
        let file = top.join(format!("d{}/e{}/f{n}.rs", n / 1600, n / 40));
        fs::write(file, format!("changed in {round}\n")).unwrap();
    }
    commit(top, "change");
}

fn words(random: &mut fastrand::Rng) -> String {
    let length = random.usize(BYTES / 4..BYTES * 7 / 4);
    let mut text = String::new();
    while text.len() < length {
        for _ in 0..random.usize(3..12) {
            text.push_str(WORDS[random.usize(..WORDS.len())]);
            text.push_str(&format!("_{:x} ", random.u16(..) % 997));
        }
        text.push('\n');
    }
    text
}

const WORDS: [&str; 16] = [
    "fn", "let", "match", "value", "return", "index", "self", "struct", "impl", "where", "result",
    "option", "string", "buffer", "length", "offset",
];

fn commit(top: &Path, message: &str) {
    git(top, &["add", "-A"]);
    git(top, &["-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-qm", message]);
}

fn git(dir: &Path, args: &[&str]) {
    let status = Command::new("git").args(args).current_dir(dir).status().unwrap();
    assert!(status.success(), "git {args:?}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Time on a core of this program so far, and of the kernel for it: on a busy machine it says more than
/// the wall does.
fn on_a_core() -> Duration {
    // SAFETY: the structure is plain numbers, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn size_mb(dir: &Path, but: &str) -> u64 {
    let mut todo: Vec<PathBuf> = vec![dir.to_owned()];
    let mut bytes = 0;
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == but => {}
                true => todo.push(entry.path()),
                false => bytes += entry.metadata().unwrap().len(),
            }
        }
    }
    bytes / 1_000_000
}
