//! Verdicts on diffs, in the engine's own store, against git's temporary index in the same run.
//!
//! `cargo bench --bench patch` makes a repository of 38,600 files with a history of its own;
//! `cargo bench --bench patch -- REPOSITORY` takes the last commits of a real one. The diff of a commit
//! is what its files' versions differ in from the base, so that every diff applies to the base.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bakeoff::model::Admission;
use bakeoff::patch::{Rules, admit};
use bakeoff::repo::{Store, StorePaths, UserRepo};

/// Diffs to judge, each once: what a verdict writes makes a second one on the same diff cheaper.
const DIFFS: usize = 400;
/// Diffs that git judges: it takes so long that a part has to do.
const BY_GIT: usize = 20;
/// Directories of the repository that is made, and files in each.
const SHAPE: (usize, usize) = (1930, 20);

fn main() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let repository = given.map_or_else(|| make(&place.path().join("made")), PathBuf::from);
    let user = UserRepo::discover(&repository).expect("a repository");
    let base = format!("HEAD~{}", if made(&repository) { 0 } else { DIFFS });
    let commit = user.resolve(&base).expect("enough history");
    let paths = StorePaths { cache: place.path().join("cache"), run: place.path().join("run") };
    let store = Store::prepare(&user, &commit, false, &paths).expect("the engine's store");
    let diffs = diffs(&repository, &base);
    let mut ours = Vec::new();
    let mut admitted = Vec::new();
    let mut kept = Vec::new();
    for diff in &diffs {
        let begin = Clock::start();
        let draft = store.draft();
        let verdict = admit(diff, store.base_tree(), &draft, &rules()).expect("the store");
        ours.push(begin.ours());
        draft.keep().expect("the store");
        kept.push(begin.ours());
        admitted.push(verdict);
    }
    let mut theirs = Vec::new();
    for (diff, verdict) in diffs.iter().zip(&admitted).step_by(diffs.len().div_ceil(BY_GIT)) {
        let begin = Clock::start();
        let tree = by_git(&repository, &base, place.path(), diff);
        theirs.push(begin.children());
        if let Admission::Admitted { tree: ours, .. } = verdict {
            assert_eq!(tree.as_deref(), Some(ours.as_str()), "git has another tree");
        }
    }
    tell(&repository, &base, &diffs, &admitted);
    compare("a verdict", &ours, &theirs);
    compare("a verdict with its objects written", &kept, &theirs);
}

fn rules() -> Rules {
    Rules { binary: true, links: true, submodules: true, ..Rules::default() }
}

fn made(repository: &Path) -> bool {
    repository.ends_with("made")
}

/// What something took: on the wall, and on a core. On a busy machine only the second says much.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    core: Duration,
}

struct Clock {
    wall: Instant,
    own: Duration,
    children: Duration,
}

impl Clock {
    fn start() -> Self {
        let (own, children) = (used(libc::RUSAGE_SELF), used(libc::RUSAGE_CHILDREN));
        Self { wall: Instant::now(), own, children }
    }

    fn ours(&self) -> Took {
        Took { wall: self.wall.elapsed(), core: used(libc::RUSAGE_SELF) - self.own }
    }

    fn children(&self) -> Took {
        Took { wall: self.wall.elapsed(), core: used(libc::RUSAGE_CHILDREN) - self.children }
    }
}

/// Time on a core, in the program and in the kernel for it.
fn used(who: libc::c_int) -> Duration {
    // SAFETY: the structure is plain numbers, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn tell(repository: &Path, base: &str, diffs: &[Vec<u8>], admitted: &[Admission]) {
    let files = git(repository, &["ls-tree", "-r", "--name-only", "-z", base], b"", &[]);
    let files = files.iter().filter(|byte| **byte == 0).count();
    let bytes = diffs.iter().map(Vec::len).sum::<usize>() / diffs.len();
    let good = admitted.iter().filter(|verdict| verdict.tree().is_some()).count();
    println!(
        "{files} files; {} diffs, {bytes} bytes on average, {good} of them admitted",
        diffs.len()
    );
}

/// Medians and their ratio, on the wall and on a core.
fn compare(what: &str, ours: &[Took], theirs: &[Took]) {
    for (unit, of) in [("wall", (|took| took.wall) as fn(&Took) -> Duration), ("core", |t| t.core)]
    {
        let (ours, theirs) = (times(ours, of), times(theirs, of));
        let (median, slow) = (ours[ours.len() / 2], ours[(ours.len() - 1) * 95 / 100]);
        let (git, mean) =
            (theirs[theirs.len() / 2], ours.iter().sum::<Duration>() / ours.len() as u32);
        println!(
            "{what}, {unit} time: median {median:.2?} ({:.0} a second), mean {mean:.2?}, 95 % within \
             {slow:.2?}; git's temporary index {git:.2?}: {:.0} times",
            1.0 / median.as_secs_f64(),
            git.as_secs_f64() / median.as_secs_f64()
        );
    }
}

fn times(took: &[Took], of: fn(&Took) -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = took.iter().map(of).collect();
    times.sort_unstable();
    times
}

/// For each of the last commits: what its files differ in from the base.
fn diffs(repository: &Path, base: &str) -> Vec<Vec<u8>> {
    let range = if made(repository) { "HEAD..changes" } else { "HEAD" };
    let most = format!("--max-count={DIFFS}");
    let log = git(repository, &["rev-list", "--no-merges", &most, range], b"", &[]);
    let commits = String::from_utf8(log).expect("ids");
    let diff = |commit: &str| {
        let parent = format!("{commit}^");
        let names = ["diff-tree", "-r", "--name-only", "-z", &parent, commit];
        let names = git(repository, &names, b"", &[]);
        let names: Vec<String> = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| format!(":(top,literal){}", String::from_utf8_lossy(name)))
            .collect();
        let arguments = ["diff-tree", "-p", "--binary", "--full-index", base, commit, "--"];
        let arguments: Vec<&str> =
            arguments.into_iter().chain(names.iter().map(String::as_str)).collect();
        git(repository, &arguments, b"", &[])
    };
    commits.lines().map(diff).filter(|diff| !diff.is_empty()).collect()
}

/// The plain way: an index of the base, the diff applied to it, a tree written.
fn by_git(repository: &Path, base: &str, place: &Path, diff: &[u8]) -> Option<String> {
    let index = place.join("git-index");
    let _ = std::fs::remove_file(&index);
    let index = [("GIT_INDEX_FILE", index.as_path())];
    git(repository, &["read-tree", base], b"", &index);
    git(repository, &["apply", "--cached", "--whitespace=nowarn", "-"], diff, &index);
    let tree = git(repository, &["write-tree"], b"", &index);
    String::from_utf8(tree).ok().map(|id| id.trim().to_owned())
}

fn git(repository: &Path, arguments: &[&str], input: &[u8], env: &[(&str, &Path)]) -> Vec<u8> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"])
        .args(["-c", "gc.auto=0", "-c", "core.autocrlf=false"])
        .args(arguments)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("git is there");
    child.stdin.take().expect("a pipe").write_all(input).expect("git reads");
    child.wait_with_output().expect("git ends").stdout
}

/// A repository of some 38,600 files, and on top of it a branch of commits that change one to four
/// files each, all of them in another place.
fn make(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a directory");
    git(folder, &["init", "-q", "-b", "main", "."], b"", &[]);
    let (directories, files) = SHAPE;
    let mut stream = String::from("commit refs/heads/main\n");
    let _ = write!(stream, "{WHO}data 4\nbase");
    for number in 0..directories * files {
        put(&mut stream, number, None);
    }
    for change in 0..DIFFS {
        let _ = write!(stream, "\ncommit refs/heads/changes\n{WHO}data 6\nchange");
        if change == 0 {
            stream.push_str("\nfrom refs/heads/main");
        }
        for part in 0..=change % 4 {
            put(&mut stream, (change * 191 + part * 7919) % (directories * files), Some(change));
        }
    }
    stream.push('\n');
    git(folder, &["fast-import", "--quiet"], stream.as_bytes(), &[]);
    folder.to_path_buf()
}

const WHO: &str = "committer bench <bench@example.invalid> 0 +0000\n";

/// Writes a file: some 180 lines of code, with a few of them changed.
fn put(stream: &mut String, number: usize, change: Option<usize>) {
    let directory = number / SHAPE.1;
    let mut text = String::new();
    for line in 0..60 {
        let value = if change.is_some() && line % 23 == 5 { 7 } else { number % 97 };
        let _ = write!(text, "fn f{line}_{number}() -> u32 {{\n    {value} + {line}\n}}\n\n");
    }
    let _ = write!(
        stream,
        "\nM 100644 inline area{}/part{}/unit{directory}/file{number}.rs\ndata {}\n{text}",
        directory % 40,
        directory % 7,
        text.len()
    );
}
