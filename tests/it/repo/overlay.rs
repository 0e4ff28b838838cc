//! Workspaces of every kind that this system has: the same tree, the same diff, the same git.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bakeoff::model::{LaneId, RunToken};
use bakeoff::repo::{Backend, GateLayer, Spaces, Store, Wish, Workspace};
use bakeoff::sandbox::{
    JobSpec, JobStatus, Launch, Launcher, Limits, Mount, Network, Permit, Warden, WardenOptions,
};
use tokio_util::sync::CancellationToken;

use super::random::{Choices, random_edit};
use super::{Fixture, snapshot, text};

/// Where the program is, for a process that may not reach its own place.
const PROGRAM: &str = "BAKEOFF_TEST_PROGRAM";

/// A warden with the leave to run jobs, and the kinds of workspaces that work here. What does not work
/// is told, with the reason.
struct Yard {
    launcher: Launcher,
    runtime: tokio::runtime::Runtime,
    stores: Vec<(Backend, Store)>,
}

impl Yard {
    fn new(fixture: &Fixture) -> Self {
        let program = std::env::var_os(PROGRAM).unwrap_or(env!("CARGO_BIN_EXE_bakeoff").into());
        let options = WardenOptions { program: program.into() };
        let warden = Warden::start(&options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let permit = Permit::grant(&runtime.block_on(warden.prove()), true).unwrap();
        let over = permit.tier().can_mount();
        let _run = fixture.store("probe");
        let spaces = Spaces::try_all(&warden, &fixture.paths("probe").run, over);
        let mut stores = Vec::new();
        for tried in spaces.tried() {
            let name = tried.backend.name();
            match &tried.trouble {
                Some(trouble) => eprintln!("{name} does not work here: {trouble}"),
                None => {
                    let spaces = spaces.clone().with(tried.backend).unwrap();
                    stores.push((tried.backend, fixture.store(name).with_spaces(spaces)));
                }
            }
        }
        assert_eq!(stores.last().unwrap().0, Backend::Copy, "a copy always works");
        Self { launcher: Launcher::new(warden, permit), runtime, stores }
    }

    /// Runs a program as a job that sees the workspace, and gives its output.
    fn run(&self, workspace: &Workspace, argv: &[&str]) -> String {
        workspace.ready_for_git().unwrap();
        let own = workspace.git_dir.clone();
        let objects = own.join("../../repo.git/objects").canonicalize().unwrap();
        let base = Mount::ReadOnly { from: objects.clone(), at: objects };
        let git = Mount::ReadWrite { from: own.clone(), at: own };
        self.run_in(vec![workspace.mount(true), base, git], workspace.path.clone(), argv)
    }

    fn run_in(&self, mounts: Vec<Mount>, cwd: PathBuf, argv: &[&str]) -> String {
        let fixed = [
            ("PATH", "/usr/bin:/bin"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
        ];
        let spec = JobSpec {
            token: RunToken::new("0123456789abcdef0123456789abcdef"),
            label: argv[0].to_owned(),
            argv: argv.iter().map(Into::into).collect(),
            env: fixed.map(|(name, value)| (name.into(), value.into())).into(),
            cwd,
            mounts,
            network: Network::Off,
            limits: Limits::default(),
            stdin: Vec::new(),
        };
        let exit = self.runtime.block_on(self.launcher.run(spec, &CancellationToken::new()));
        let exit = exit.unwrap();
        let output = text(&exit.output);
        assert_eq!(exit.status, JobStatus::Exited(0), "{argv:?}: {output}");
        output
    }
}

/// A path that leads to the workspace from any process of this machine.
pub(super) fn reach(workspace: &Workspace) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), workspace.root.as_raw_fd()).into()
}

pub(super) fn lease(store: &Store) -> Workspace {
    store.lease(&LaneId::of("a", 1)).unwrap()
}

/// What a scan of every file of the workspace finds, whatever its kind.
pub(super) fn scanned(store: &Store, workspace: &Workspace) -> String {
    let root = workspace.root.try_clone().unwrap();
    let whole = Workspace::borrowed(root, workspace.path.clone(), workspace.git_dir.clone());
    text(&store.diff(&whole).unwrap())
}

pub(super) fn diff(store: &Store, workspace: &Workspace) -> String {
    text(&store.diff(workspace).unwrap())
}

#[test]
fn what_a_workspaces_own_changes_take_on_disk_is_known_of_overlays() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let workspace = lease(store);
        let root = reach(&workspace);
        let before = workspace.held();
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/big"), vec![1; 3 << 20]).unwrap();
        std::os::unix::fs::symlink("/usr", root.join("new/link")).unwrap();
        let grown = workspace.held() - before;
        match backend {
            Backend::Reflink | Backend::Copy => assert_eq!(grown, 0, "{backend:?}"),
            _ => assert!((3 << 20..4 << 20).contains(&grown), "{backend:?}: {grown}"),
        }
        fs::remove_dir_all(root.join("new")).unwrap();
        assert_eq!(workspace.held(), before);
    }
}

#[test]
fn every_kind_of_workspace_holds_the_base_and_nothing_is_left_of_it() {
    let fixture = Fixture::sample();
    let user = snapshot(&fixture.top());
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let workspace = lease(store);
        let root = reach(&workspace);
        assert_eq!(
            fs::read(root.join("src/lib.rs")).unwrap(),
            b"pub fn one() -> u32 {\n    1\n}\n"
        );
        assert_eq!(fs::metadata(root.join("run.sh")).unwrap().mode() & 0o777, 0o755);
        assert_eq!(diff(store, &workspace), "", "{backend:?}");
        assert_eq!(yard.run(&workspace, &["git", "status", "--porcelain"]), "", "{backend:?}");
        fs::write(root.join("README.md"), "other\n").unwrap();
        assert_eq!(yard.run(&workspace, &["git", "status", "--porcelain"]), " M README.md\n");
        let run = fixture.paths(backend.name()).run;
        store.release(workspace).unwrap();
        let left = |dir: &str| fs::read_dir(run.join(dir)).unwrap().count();
        assert_eq!((left("lanes"), left("leases"), left("lanes.git")), (0, 0, 0));
        let again = lease(store);
        assert_eq!(diff(store, &again), "", "{backend:?}");
    }
    assert_eq!(snapshot(&fixture.top()), user);
}

#[test]
fn git_of_a_workspace_reads_no_file_again_and_sees_what_changed() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let workspace = lease(store);
        workspace.ready_for_git().unwrap();
        // Of a file whose stamp is known, git believes the stamp: what the index says is never read.
        let debug = yard.run(&workspace, &["git", "ls-files", "--debug", "src/lib.rs"]);
        let stat = fs::symlink_metadata(reach(&workspace).join("src/lib.rs")).unwrap();
        let inode = format!("ino: {}", stat.ino() as u32);
        // A copy that was made just now can't be told from one that changes now, so that it is read.
        if !matches!(backend, Backend::Copy | Backend::Reflink) {
            assert!(debug.contains(&inode), "{backend:?}: {debug} has no {inode}");
            assert!(debug.contains(&format!("ctime: {}", stat.ctime())), "{backend:?}: {debug}");
        }
        fs::write(reach(&workspace).join("new.txt"), "new\n").unwrap();
        yard.run(&workspace, &["git", "add", "-A"]);
        let args = ["git", "diff", "--cached", "--full-index", "--binary", "--no-renames"];
        assert_eq!(yard.run(&workspace, &args), diff(store, &workspace), "{backend:?}");
        let log = yard.run(&workspace, &["git", "log", "--format=%s"]);
        assert_eq!(log, "second\nfirst\n");
    }
}

/// A change of the kinds that an overlay keeps in ways of its own, beside those of `random_edit`.
fn overlay_edit(root: &Path, choices: &mut Choices) {
    const DIRS: [&str; 5] = ["src", "src/deep", "src/deep/er", "new dir", "moved"];
    const FILES: [&str; 5] =
        ["README.md", "src/lib.rs", "run.sh", "src/deep/er/file.txt", "moved/lib.rs"];
    let dir = root.join(DIRS[choices.below(DIRS.len())]);
    let other = root.join(DIRS[choices.below(DIRS.len())]);
    let file = root.join(FILES[choices.below(FILES.len())]);
    // What does not fit what is there fails, as it would for a worker.
    match choices.below(11) {
        0 => drop(rename(&dir, &root.join("moved"))),
        1 => drop(rename(&dir, &other)),
        2 => drop(fs::remove_dir_all(&dir)),
        3 => {
            drop(fs::remove_dir_all(&dir));
            drop(fs::create_dir(&dir));
            drop(fs::write(dir.join("lib.rs"), "again\n"));
        }
        4 => drop(fs::hard_link(&file, root.join("linked"))),
        5 => drop(fs::hard_link(&file, dir.join("linked"))),
        6 => {
            if let Ok(bytes) = fs::read(&file) {
                // Put back as it was, by way of nothing.
                fs::remove_file(&file).unwrap();
                fs::write(&file, bytes).unwrap();
            }
        }
        7 => {
            drop(fs::remove_file(&file));
            drop(fs::create_dir_all(file.join("inside")));
            drop(fs::write(file.join("inside/x"), "x\n"));
        }
        8 => {
            drop(fs::remove_dir_all(&dir));
            drop(symlink("README.md", &dir));
        }
        9 => {
            drop(fs::create_dir_all(dir.join("nested/.git")));
            drop(fs::write(dir.join("nested/.git/HEAD"), "ref: refs/heads/x\n"));
            drop(fs::write(dir.join("nested/file"), "nested\n"));
        }
        _ => {
            drop(fs::create_dir_all(root.join("target/deep")));
            drop(fs::write(root.join("target/deep/out"), "ignored\n"));
            drop(fs::write(dir.join("x.log"), "ignored\n"));
        }
    }
}

/// Renames as `mv` does: where a directory can't be moved in one step it is copied.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == ErrorKind::CrossesDevices => {
            Command::new("mv").arg(from).arg(to).output().map(drop)
        }
        other => other,
    }
}

#[test]
fn the_diff_of_an_overlay_is_that_of_a_full_scan() {
    let fixture = Fixture::sample();
    let mut changed = 0;
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        for seed in 0..60 {
            let workspace = lease(store);
            let root = reach(&workspace);
            let mut choices = Choices(seed);
            for step in 0..=choices.below(12) {
                match choices.below(3) {
                    0 if !root.join("src").is_symlink() => random_edit(&root, &mut choices),
                    _ => overlay_edit(&root, &mut choices),
                }
                let ours = diff(store, &workspace);
                let whole = scanned(store, &workspace);
                assert_eq!(ours, whole, "{backend:?}, seed {seed}, step {step}");
                changed += usize::from(!ours.is_empty());
            }
        }
    }
    assert!(changed > 100);
}

/// What carried directories and a base's gates leave under a workspace: `loose` is carried and `gen` is
/// output, as is `src/made.txt`, and the base ignores none of them.
fn left(yard: &Yard, store: &Store) -> GateLayer {
    let over = yard.launcher.tier().can_mount();
    let patience = Duration::from_secs(60);
    let wish = Wish { carry: vec!["loose".to_owned()], made_by: Vec::new(), over, patience };
    let standing = store.stand(&wish).unwrap();
    assert!(standing.notes.is_empty() && !standing.secret, "{:?}", standing.notes);
    let below = standing.layer.as_ref();
    let tree = store.gate_tree(store.base_tree(), below, yard.launcher.tier()).unwrap();
    let build = "cat loose/dep.txt && mkdir -p target gen/deep && \
        echo made | tee target/out gen/deep/out src/made.txt > gen/out.txt";
    assert_eq!(yard.run_in(tree.mounts(), tree.cwd(""), &["sh", "-c", build]), "carried\n");
    tree.into_layer().unwrap()
}

/// A change to what lies under a workspace, or beside it.
fn edit_left(root: &Path, choices: &mut Choices) {
    const FILES: [&str; 8] = [
        "loose/dep.txt",
        "loose/new.txt",
        "gen/out.txt",
        "gen/deep/out",
        "gen/mine.txt",
        "target/out",
        "src/made.txt",
        "src/mine",
    ];
    let file = root.join(FILES[choices.below(FILES.len())]);
    let dir = root.join(["loose", "gen"][choices.below(2)]);
    match choices.below(10) {
        0 => drop(fs::remove_file(&file)),
        1 => drop(rename(&dir, &root.join("kept"))),
        8 => {
            // A file or a link in a directory's place.
            let dir = root.join(["loose", "gen", "gen/deep", "src"][choices.below(4)]);
            drop(fs::remove_dir_all(&dir));
            match choices.below(2) {
                0 => drop(fs::write(&dir, "a file\n")),
                _ => drop(symlink("README.md", &dir)),
            }
        }
        9 => {
            // A directory in a file's place.
            drop(fs::remove_file(&file));
            drop(fs::create_dir_all(file.join("in/it")));
            drop(fs::write(file.join("in/it/x"), "x\n"));
        }
        2 => drop(fs::remove_dir_all(&dir)),
        3 => drop(rename(&file, &root.join("src/moved"))),
        4 => drop(fs::create_dir(&dir)),
        5 => drop(fs::set_permissions(&file, fs::Permissions::from_mode(0o755))),
        _ => drop(fs::write(&file, "edited\n")),
    }
}

/// The sections of a diff but for those of new files at paths that lay under the workspace.
fn without_left(diff: &str) -> String {
    let is_left = |section: &str| {
        let path = section.split(" b/").nth(1).and_then(|rest| rest.lines().next());
        let is_at = |path: &str, at: &str| {
            path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        path.is_some_and(|path| {
            let files = ["loose", "gen/out.txt", "gen/deep/out", "src/made.txt"];
            ["gen", "gen/deep"].contains(&path) || files.iter().any(|at| is_at(path, at))
        })
    };
    let sections = diff.split_inclusive('\n').fold(Vec::<String>::new(), |mut all, line| {
        match all.last_mut() {
            Some(last) if !line.starts_with("diff --git ") => last.push_str(line),
            _ => all.push(line.to_owned()),
        }
        all
    });
    sections.into_iter().filter(|section| !is_left(section)).collect()
}

#[test]
fn what_lies_under_a_workspace_never_enters_its_diff() {
    let fixture = Fixture::sample();
    fixture.write("loose/dep.txt", b"carried\n");
    let yard = Yard::new(&fixture);
    let mut changed = 0;
    for (backend, store) in &yard.stores {
        let below = left(&yard, store);
        for seed in 0..40 {
            let workspace = store.lease_over(&LaneId::of("a", 1), &below).unwrap();
            let root = reach(&workspace);
            for (path, text) in [("loose/dep.txt", "carried\n"), ("gen/out.txt", "made\n")] {
                assert_eq!(fs::read_to_string(root.join(path)).unwrap(), text, "{backend:?}");
            }
            assert_eq!(diff(store, &workspace), "", "{backend:?}");
            let mut choices = Choices(seed);
            for step in 0..=choices.below(12) {
                match choices.below(4) {
                    0 if !root.join("src").is_symlink() => random_edit(&root, &mut choices),
                    1 => overlay_edit(&root, &mut choices),
                    _ => edit_left(&root, &mut choices),
                }
                let ours = diff(store, &workspace);
                let whole = without_left(&scanned(store, &workspace));
                assert_eq!(ours, whole, "{backend:?}, seed {seed}, step {step}");
                changed += usize::from(!ours.is_empty());
            }
        }
    }
    assert!(changed > 100);
}

#[test]
fn what_an_overlay_keeps_in_ways_of_its_own_is_read_right() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let check = |what: &str, edit: &dyn Fn(&Path), expected: &[&str]| {
            let workspace = lease(store);
            edit(&reach(&workspace));
            let found = diff(store, &workspace);
            let heads: Vec<&str> = found
                .lines()
                .filter(|line| {
                    ["diff --git", "new file", "deleted file", "old mode", "new mode"]
                        .iter()
                        .any(|head| line.starts_with(head))
                })
                .collect();
            assert_eq!(heads, expected, "{backend:?}: {what}\n{found}");
            assert_eq!(found, scanned(store, &workspace), "{backend:?}: {what}");
        };
        check(
            "a deletion",
            &|root| fs::remove_file(root.join("run.sh")).unwrap(),
            &["diff --git a/run.sh b/run.sh", "deleted file mode 100755"],
        );
        check(
            "a deleted directory",
            &|root| fs::remove_dir_all(root.join("src/deep")).unwrap(),
            &[
                "diff --git a/src/deep/er/file.txt b/src/deep/er/file.txt",
                "deleted file mode 100644",
            ],
        );
        let anew = |root: &Path| {
            fs::remove_dir_all(root.join("src")).unwrap();
            fs::create_dir(root.join("src")).unwrap();
            fs::write(root.join("src/lib.rs"), "pub fn one() -> u32 {\n    1\n}\n").unwrap();
        };
        check(
            "a directory made anew, one file of it as it was",
            &anew,
            &[
                "diff --git a/src/deep/er/file.txt b/src/deep/er/file.txt",
                "deleted file mode 100644",
            ],
        );
        let moved =
            |root: &Path| rename(&root.join("src/deep"), &root.join("src/shallow")).unwrap();
        check(
            "a renamed directory",
            &moved,
            &[
                "diff --git a/src/deep/er/file.txt b/src/deep/er/file.txt",
                "deleted file mode 100644",
                "diff --git a/src/shallow/er/file.txt b/src/shallow/er/file.txt",
                "new file mode 100644",
            ],
        );
        let mode = |root: &Path| {
            let path = root.join("README.md");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        check(
            "a mode",
            &mode,
            &["diff --git a/README.md b/README.md", "old mode 100644", "new mode 100755"],
        );
        let kept = |root: &Path| {
            mode(root);
            fs::set_permissions(root.join("README.md"), fs::Permissions::from_mode(0o644)).unwrap();
            let bytes = fs::read(root.join("bin.dat")).unwrap();
            fs::remove_file(root.join("bin.dat")).unwrap();
            fs::write(root.join("bin.dat"), bytes).unwrap();
            rename(&root.join("src"), &root.join("s")).unwrap();
            rename(&root.join("s"), &root.join("src")).unwrap();
        };
        check("what was put back as it was", &kept, &[]);
        let linked = |root: &Path| fs::hard_link(root.join("crlf.txt"), root.join("same")).unwrap();
        check("a hard link", &linked, &["diff --git a/same b/same", "new file mode 100644"]);
        let kinds = |root: &Path| {
            fs::remove_file(root.join("link")).unwrap();
            fs::create_dir(root.join("link")).unwrap();
            fs::write(root.join("link/file"), "").unwrap();
            fs::remove_file(root.join("run.sh")).unwrap();
            symlink("README.md", root.join("run.sh")).unwrap();
            fs::remove_dir_all(root.join("src")).unwrap();
            fs::write(root.join("src"), "no directory any more\n").unwrap();
        };
        check(
            "other kinds",
            &kinds,
            &[
                "diff --git a/link b/link",
                "deleted file mode 120000",
                "diff --git a/link/file b/link/file",
                "new file mode 100644",
                "diff --git a/run.sh b/run.sh",
                "deleted file mode 100755",
                "diff --git a/run.sh b/run.sh",
                "new file mode 120000",
                "diff --git a/src b/src",
                "new file mode 100644",
                "diff --git a/src/deep/er/file.txt b/src/deep/er/file.txt",
                "deleted file mode 100644",
                "diff --git a/src/lib.rs b/src/lib.rs",
                "deleted file mode 100644",
            ],
        );
        let case =
            |root: &Path| fs::rename(root.join("README.md"), root.join("Readme.md")).unwrap();
        check(
            "a name's case",
            &case,
            &[
                "diff --git a/README.md b/README.md",
                "deleted file mode 100644",
                "diff --git a/Readme.md b/Readme.md",
                "new file mode 100644",
            ],
        );
        let ignored = |root: &Path| {
            fs::create_dir_all(root.join("target/debug")).unwrap();
            fs::write(root.join("target/debug/out"), "built\n").unwrap();
            fs::write(root.join("src/x.log"), "log\n").unwrap();
            fs::create_dir_all(root.join("sub/.git")).unwrap();
            fs::write(root.join("sub/.git/config"), "[core]\n").unwrap();
            fs::write(root.join("sub/file"), "").unwrap();
        };
        check(
            "what is ignored, and git's own",
            &ignored,
            &["diff --git a/sub/file b/sub/file", "new file mode 100644"],
        );
    }
}

#[test]
fn lanes_side_by_side_see_neither_each_other_nor_the_users_checkout() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let lanes = ["a", "b"].map(|name| store.lease(&LaneId::of(name, 1)).unwrap());
        let [one, two] = &lanes;
        fs::write(reach(one).join("README.md"), "one\n").unwrap();
        fs::remove_file(reach(two).join("run.sh")).unwrap();
        fixture.write("src/lib.rs", b"another branch\n");
        fixture.write("users.txt", b"");
        assert!(!reach(one).join("users.txt").exists());
        assert!(fs::read(reach(two).join("src/lib.rs")).unwrap().starts_with(b"pub fn"));
        assert!(reach(one).join("run.sh").exists());
        assert_eq!(fs::read(reach(two).join("README.md")).unwrap(), b"# Sample\n");
        let paths = |workspace| -> Vec<String> {
            let diff = diff(store, workspace);
            diff.lines().filter_map(|l| l.strip_prefix("diff --git ")).map(str::to_owned).collect()
        };
        assert_eq!(paths(one), ["a/README.md b/README.md"], "{backend:?}");
        assert_eq!(paths(two), ["a/run.sh b/run.sh"], "{backend:?}");
        let top = fixture.top();
        if yard.launcher.tier().can_mount() {
            assert!(lanes.iter().all(|lane| lane.path == top), "{backend:?}");
        }
        fixture.git(&["checkout", "-q", "--", "."]);
        fs::remove_file(top.join("users.txt")).unwrap();
    }
}

#[test]
fn a_panic_ends_a_lease() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let run = fixture.paths(backend.name()).run;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let workspace = lease(store);
            fs::write(reach(&workspace).join("README.md"), "changed\n").unwrap();
            assert_eq!(fs::read_dir(run.join("lanes")).unwrap().count(), 1);
            panic!("the worker's own mistake");
        }));
        assert!(panicked.is_err());
        assert_eq!(fs::read_dir(run.join("lanes")).unwrap().count(), 0, "{backend:?}");
        assert_eq!(fs::read_dir(run.join("leases")).unwrap().count(), 0, "{backend:?}");
    }
}

/// The tests above as user 65534, who may do nothing that root may.
#[test]
fn all_of_this_works_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return; // They were run as one already.
    }
    let place = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let program = copy(env!("CARGO_BIN_EXE_bakeoff").as_ref(), "bakeoff");
    let tmp = place.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new(tests)
        .args(["repo::overlay", "--skip", "all_of_this"])
        .current_dir("/")
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")])
        .env("TMPDIR", &tmp)
        .env(PROGRAM, &program)
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" passed; 0 failed; 0 ignored"), "{said}");
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "an ordinary user can remove all of it");
}

/// What a gate of the base leaves lies under a workspace, and is nothing that its worker changed.
#[test]
fn gates_see_their_tree_and_workspaces_what_they_left() {
    let fixture = Fixture::sample();
    let yard = Yard::new(&fixture);
    for (backend, store) in &yard.stores {
        let tree = store.gate_tree(store.base_tree(), None, yard.launcher.tier()).unwrap();
        assert_eq!(&tree.verify().unwrap(), store.base_tree());
        let build = "cat README.md && pwd && mkdir target && echo built > target/out";
        let said = yard.run_in(tree.mounts(), tree.cwd(""), &["sh", "-c", build]);
        if yard.launcher.tier().can_mount() {
            assert_eq!(said, format!("# Sample\n{}\n", fixture.top().display()), "{backend:?}");
        }
        let left = tree.into_layer().unwrap();
        assert!(left.rewritten().is_empty());
        let workspace = store.lease_over(&LaneId::of("a", 1), &left).unwrap();
        let out = reach(&workspace).join("target/out");
        assert_eq!(fs::read(&out).unwrap(), b"built\n", "{backend:?}");
        fs::write(&out, "rebuilt\n").unwrap();
        fs::remove_file(reach(&workspace).join("crlf.txt")).unwrap();
        let diff = diff(store, &workspace);
        assert!(diff.starts_with("diff --git a/crlf.txt") && !diff.contains("target"), "{diff}");
        drop(workspace);
        let again = store.lease_over(&LaneId::of("a", 1), &left).unwrap();
        assert_eq!(fs::read(reach(&again).join("target/out")).unwrap(), b"built\n");
    }
}

fn works(argv: &[&str]) -> bool {
    Command::new(argv[0]).args(&argv[1..]).output().is_ok_and(|output| output.status.success())
}

/// The tests above on a file system that takes no upper directory: another overlay.
#[test]
fn all_of_this_works_where_no_upper_directory_can_lie() {
    if !works(&["unshare", "--mount", "true"]) {
        return; // Only root can lay such a place out.
    }
    let place = tempfile::tempdir().unwrap();
    for name in ["lower", "upper", "work", "at"] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    let script = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work at && TMPDIR=$PWD/at exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["repo::overlay", "--skip", "all_of_this", "--nocapture"])
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" passed; 0 failed; 0 ignored"), "{said}");
    assert!(said.contains("overlay-root does not work here"), "{said}");
    assert!(!said.contains("overlay-memory does not work here"), "{said}");
}

/// The tests above where no namespace can be had: copies, and jobs of the weaker tier.
#[test]
fn all_of_this_works_where_namespaces_are_refused() {
    if !works(&["unshare", "--user", "--map-root-user", "setpriv", "--version"]) {
        return; // They are refused here, and the tests above ran so.
    }
    let refuse = "echo 0 > /proc/sys/user/max_user_namespaces && \
        exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", refuse, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["repo::overlay", "--skip", "all_of_this", "--nocapture"])
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" passed; 0 failed; 0 ignored"), "{said}");
    assert!(said.contains("overlay-user does not work here"), "{said}");
}
