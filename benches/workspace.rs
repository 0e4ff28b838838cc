//! A workspace made, edited, read back and thrown away, against `git worktree` in the same run:
//! medians, ratios, how both grow with the repository, disk and inodes.
//!
//! `cargo bench --bench workspace [-- FILES…]` makes repositories of so many files (1,000, 10,000 and
//! 38,000); `-- PATH` takes a repository that is there. `BAKEOFF_BENCH_DIR` says where it all lies.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bakeoff::model::LaneId;
use bakeoff::repo::{Spaces, Store, StorePaths, UserRepo, Workspace};
use bakeoff::sandbox::{Warden, WardenOptions};

const SIZES: [usize; 3] = [1_000, 10_000, 38_000];
const CANDIDATES: [usize; 2] = [8, 32];
/// Candidates at work at once, in both ways.
const AT_ONCE: usize = 4;
/// Rounds of ours.
const ROUNDS: usize = 5;
/// Candidates of the plain way, each of which takes seconds: their pace stands for more of them.
const PLAIN: usize = 8;

/// How often `git worktree add` failed beside others.
static FAILED: AtomicUsize = AtomicUsize::new(0);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn git(dir: &Path, args: &[&str]) -> Vec<u8> {
    try_git(dir, args).unwrap_or_else(|error| panic!("git {args:?}: {error}"))
}

fn try_git(dir: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new("git")
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git is there");
    let is_done = output.status.success();
    if is_done { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}

/// A repository of `files` files of about 9 KB on average, the size of those that the design measured.
fn make_repository(dir: &Path, files: usize) {
    fs::create_dir_all(dir).expect("the directory can be made");
    git(dir, &["init", "-q", "-b", "main"]);
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git is there");
    let mut pipe = std::io::BufWriter::new(import.stdin.take().expect("a pipe was asked for"));
    let head = "commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\ndata 4\nbase\n";
    pipe.write_all(head.as_bytes()).expect("git reads");
    for n in 0..files {
        let lines = 10 + n * 7919 % 400;
        let body: String =
            (0..lines).map(|line| format!("let value_{n}_{line} = {};\n", line * n)).collect();
        let (top, sub) = (n / 1000, n / 25 % 40);
        write!(pipe, "M 100644 inline src/m{top}/d{sub}/f{n}.rs\ndata {}\n{body}\n", body.len())
            .expect("git reads");
    }
    pipe.flush().expect("git reads");
    drop(pipe);
    assert!(import.wait().expect("git ends").success());
}

/// Runs `work` for `count` candidates, a few at a time, and gives the time of each and of all.
fn candidates(count: usize, work: impl Fn(usize) + Sync) -> (Vec<Duration>, Duration) {
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    let one = || {
        let mut times = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return times;
            }
            let begin = Instant::now();
            work(n);
            times.push(begin.elapsed());
        }
    };
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE.min(count)).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no candidate panics")).collect()
    });
    (times, begin.elapsed())
}

fn edit(root: &Path, file: &str) {
    let path = root.join(file);
    let mut text = fs::read(&path).expect("the file is there");
    text.extend_from_slice(b"// changed\n");
    fs::write(&path, text).expect("the file can be written");
}

fn ours(store: &Store, file: &str, n: usize) {
    let workspace = store.lease(&LaneId::of("bench", n as u32 + 1)).expect("a workspace");
    edit(&reach(&workspace), file);
    let diff = store.diff(&workspace).expect("a diff");
    assert!(diff.ends_with(b"+// changed\n"));
    store.release(workspace).expect("nothing is left");
}

fn plain(repository: &Path, dir: &Path, file: &str, n: usize) {
    let path = dir.join(format!("w{n}"));
    let shown = path.to_str().expect("a plain path");
    // Beside the end of another, git may fail for want of that one's files: a user tries again.
    while let Err(error) =
        try_git(repository, &["worktree", "add", "-q", "--detach", shown, "HEAD"])
    {
        assert!(error.contains(".git/worktrees/"), "{error}");
        FAILED.fetch_add(1, Ordering::Relaxed);
        git(repository, &["worktree", "prune"]);
    }
    edit(&path, file);
    assert!(git(&path, &["diff"]).ends_with(b"+// changed\n"));
    git(repository, &["worktree", "remove", "--force", shown]);
}

/// A path to the workspace in this process.
fn reach(workspace: &Workspace) -> PathBuf {
    format!("/proc/self/fd/{}", workspace.root.as_raw_fd()).into()
}

/// Inodes and bytes on disk below a path.
fn measure(path: &Path) -> (u64, u64) {
    let Ok(meta) = fs::symlink_metadata(path) else { return (0, 0) };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let below = entries.map(|entry| measure(&entry.path()));
    below.fold((1, meta.blocks() * 512), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn footprint(paths: &[PathBuf]) -> String {
    let (inodes, bytes) =
        paths.iter().map(|p| measure(p)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    format!("{inodes} inodes, {:.1} KiB", bytes as f64 / 1024.0)
}

struct Bench {
    repository: PathBuf,
    dir: PathBuf,
    file: String,
    store: Store,
    /// Of the plain way.
    pace: Duration,
}

impl Bench {
    fn prepare(warden: &Warden, repository: PathBuf, dir: PathBuf) -> Self {
        let files = git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
        let files = String::from_utf8_lossy(&files).into_owned();
        let file = files.lines().nth(files.lines().count() / 2).expect("a file").to_owned();
        let paths = StorePaths { cache: dir.join("cache"), run: dir.join("run") };
        let user = UserRepo::discover(&repository).expect("a repository");
        let head = user.resolve("HEAD").expect("a commit");
        let begin = Instant::now();
        let store = Store::prepare(&user, &head, false, &paths).expect("a store");
        let first = begin.elapsed();
        let begin = Instant::now();
        let spaces = Spaces::probe(warden, &paths.run, true);
        let probing = begin.elapsed();
        println!(
            "\n{} files, {}: first store and base layer {first:.1?}, probing the backends {probing:.1?}",
            files.lines().count(),
            spaces.backend().name()
        );
        Self { repository, dir, file, store: store.with_spaces(spaces), pace: Duration::ZERO }
    }

    /// How long one candidate of the plain way takes, as a share of all of them.
    fn measure_plain(&mut self) {
        rustix::fs::sync();
        let (times, all) = candidates(PLAIN, |n| plain(&self.repository, &self.dir, &self.file, n));
        self.pace = all / u32::try_from(PLAIN).unwrap_or(1);
        println!(
            "git worktree: {PLAIN} candidates {all:.1?} ({:.1?} each), {} of their commands failed",
            median(times),
            FAILED.swap(0, Ordering::Relaxed)
        );
    }

    fn run(&self, count: usize) {
        // What others wrote before must not be waited for here.
        rustix::fs::sync();
        let mut rounds = Vec::new();
        let mut singles = Vec::new();
        for _ in 0..ROUNDS {
            let (times, all) = candidates(count, |n| ours(&self.store, &self.file, n));
            rounds.push(all);
            singles.extend(times);
        }
        let (all, single) = (median(rounds), median(singles));
        let plain_all = self.pace * u32::try_from(count).unwrap_or(u32::MAX);
        println!(
            "{count} candidates: ours {all:.1?} ({single:.2?} each), git worktree {plain_all:.1?}: {:.0} times as a whole",
            plain_all.as_secs_f64() / all.as_secs_f64()
        );
    }

    /// What one candidate takes on disk, and what git costs in it.
    fn footprints(&self) {
        let workspace = self.store.lease(&LaneId::of("disk", 1)).expect("a workspace");
        edit(&reach(&workspace), &self.file);
        let run = self.dir.join("run");
        let parts = ["lanes/disk_2f1", "lanes.git/disk_2f1", "leases/lane-disk_2f1.lease"];
        let all = parts.map(|part| run.join(part));
        println!("one candidate with an edit: {}", footprint(&all));
        let begin = Instant::now();
        workspace.ready_for_git().expect("an index");
        println!("git's index for it, the first of the run: {:.1?}", begin.elapsed());
        let second = self.store.lease(&LaneId::of("disk", 2)).expect("a workspace");
        let begin = Instant::now();
        second.ready_for_git().expect("an index");
        println!("git's index for the next: {:.1?}; then {}", begin.elapsed(), footprint(&all));
        let path = self.dir.join("w-disk");
        let shown = path.to_str().expect("a plain path");
        git(&self.repository, &["worktree", "add", "-q", "--detach", shown, "HEAD"]);
        let git_dir = self.repository.join(".git/worktrees/w-disk");
        println!("git worktree: {}", footprint(&[path.clone(), git_dir]));
        git(&self.repository, &["worktree", "remove", "--force", shown]);
    }
}

fn main() {
    let options = WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() };
    let warden = Warden::start(&options).expect("the warden starts");
    let place =
        std::env::var_os("BAKEOFF_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let place = tempfile::tempdir_in(place).expect("a directory");
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let sizes: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let given = arguments.iter().find(|a| Path::new(a).is_dir());
    let repositories: Vec<PathBuf> = match given {
        Some(path) => vec![fs::canonicalize(path).expect("a path")],
        None => {
            let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
            let made = sizes.into_iter().map(|files| {
                let dir = place.path().join(format!("repository-{files}"));
                make_repository(&dir, files);
                dir
            });
            made.collect()
        }
    };
    for (n, repository) in repositories.into_iter().enumerate() {
        let dir = place.path().join(format!("engine-{n}"));
        fs::create_dir(&dir).expect("a directory");
        let mut bench = Bench::prepare(&warden, repository, dir.clone());
        bench.measure_plain();
        for count in CANDIDATES {
            bench.run(count);
        }
        bench.footprints();
        drop(bench);
        let _ = fs::remove_dir_all(dir);
    }
}
