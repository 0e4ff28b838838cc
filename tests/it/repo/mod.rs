//! The user's repository stays untouched; workspaces and diffs agree with git.

mod apply;
mod draft;
mod gate_tree;
mod history;
mod killed;
mod large;
mod odd;
mod overlay;
mod random;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bakeoff::model::LaneId;
use bakeoff::repo::{RepoError, Store, StorePaths, UserRepo, Workspace};

/// A repository in a temporary directory, with room for the engine beside it.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.top()).unwrap();
        fixture.git(&["init", "-q", "-b", "main"]);
        fixture
    }

    /// One with a few files of each kind, committed twice.
    fn sample() -> Self {
        let fixture = Self::new();
        fixture.write("README.md", b"# Sample\n");
        fixture.write("src/lib.rs", b"pub fn one() -> u32 {\n    1\n}\n");
        fixture.commit("first");
        fixture.write(".gitignore", b"*.log\n/target/\n.env\n");
        fixture.write("src/deep/er/file.txt", b"deep\n");
        fixture.write("crlf.txt", b"one\r\ntwo\r\n");
        fixture.write("bin.dat", b"\0\x01\x02binary");
        fixture.write("run.sh", b"#!/bin/sh\necho hi\n");
        fs::set_permissions(fixture.top().join("run.sh"), fs::Permissions::from_mode(0o755))
            .unwrap();
        symlink("src/lib.rs", fixture.top().join("link")).unwrap();
        fixture.write_bytes(b"caf\xe9 name", b"latin one\n");
        fixture.commit("second");
        fixture
    }

    fn top(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    fn paths(&self, run: &str) -> StorePaths {
        let home = self.dir.path().join("home");
        StorePaths { cache: home.join("cache"), run: home.join("runs").join(run) }
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        self.write_bytes(path.as_bytes(), bytes);
    }

    fn write_bytes(&self, path: &[u8], bytes: &[u8]) {
        write_at(&self.top(), path, bytes);
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    fn git(&self, args: &[&str]) -> Vec<u8> {
        git(&self.top(), args)
    }

    fn user(&self) -> UserRepo {
        UserRepo::discover(&self.top()).unwrap()
    }

    fn store(&self, run: &str) -> Store {
        let user = self.user();
        Store::prepare(&user, &user.resolve("HEAD").unwrap(), false, &self.paths(run)).unwrap()
    }
}

fn write_at(root: &Path, path: &[u8], bytes: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Runs git without the machine's configuration and gives its output.
fn git(dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        // A collection in the background would change the checkout while a test looks at it.
        .args([
            "-c",
            "protocol.file.allow=always",
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
        ])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {error}");
    output.stdout
}

/// Copies what git wrote into a workspace's own objects to where the run's are looked for.
fn lend(workspace: &Workspace) {
    let run = workspace.git_dir.join("../../repo.git/objects");
    for dir in fs::read_dir(workspace.git_dir.join("objects")).unwrap().map(Result::unwrap) {
        let to = run.join(dir.file_name());
        fs::create_dir_all(&to).unwrap();
        for object in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            if object.file_name() != "alternates" {
                let _ = fs::copy(object.path(), to.join(object.file_name()));
            }
        }
    }
}

/// Of each path: mode, modification time, bytes.
type Snapshot = BTreeMap<PathBuf, (u32, i64, Vec<u8>)>;

/// Every file's bytes, mode and modification time below a directory, links by their targets.
fn snapshot(root: &Path) -> Snapshot {
    use std::os::unix::fs::MetadataExt;
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else {
            fs::read(&path).unwrap()
        };
        all.insert(path, (meta.mode(), meta.mtime_nsec() ^ meta.mtime(), bytes));
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_users_repository_is_untouched_by_all_but_apply() {
    let fixture = Fixture::sample();
    fixture.write("src/lib.rs", b"changed\n");
    fixture.write("new.txt", b"untracked\n");
    let before = snapshot(&fixture.top());
    let user = fixture.user();
    let head = user.resolve("HEAD").unwrap();
    user.dirty().unwrap();
    user.diff_from(&head, "HEAD~1").unwrap();
    for dirty in [false, true] {
        let store =
            Store::prepare(&user, &head, dirty, &fixture.paths(&format!("r{dirty}"))).unwrap();
        let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
        fs::write(workspace.path.join("README.md"), "other\n").unwrap();
        assert!(!store.diff(&workspace).unwrap().is_empty());
        store.release(workspace).unwrap();
    }
    assert_eq!(snapshot(&fixture.top()), before);
}

#[test]
fn a_workspace_is_a_worktree_that_git_works_in() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let workspace = store.lease(&LaneId::of("fast lane", 2)).unwrap();
    let path = workspace.path.clone();
    assert_eq!(text(&git(&path, &["status", "--porcelain"])), "");
    assert_eq!(text(&git(&path, &["log", "--format=%s"])), "second\nfirst\n");
    assert_eq!(git(&path, &["rev-parse", "HEAD"]), fixture.git(&["rev-parse", "HEAD"]));
    assert_eq!(text(&git(&path, &["branch", "-a", "--format=%(refname)"])).lines().count(), 2);
    fs::write(path.join("src/lib.rs"), "pub fn one() -> u32 {\n    2\n}\n").unwrap();
    fs::write(path.join("new.txt"), "new\n").unwrap();
    assert_eq!(text(&git(&path, &["status", "--porcelain"])), " M src/lib.rs\n?? new.txt\n");
    git(&path, &["add", "-A"]);
    let staged = git(&path, &["diff", "--cached", "--full-index", "--binary", "--no-renames"]);
    assert_eq!(text(&store.diff(&workspace).unwrap()), text(&staged));
    git(&path, &["fsck", "--strict"]);
    drop(workspace);
    assert!(!path.exists());
}

#[test]
fn a_run_outlives_the_users_repository_and_the_cached_pack() {
    let fixture = Fixture::sample();
    let (tree, files) = {
        let store = fixture.store("r");
        (
            store.base_tree().clone(),
            store.lease(&LaneId::of("a", 1)).map(|w| snapshot(&w.path).len()).unwrap(),
        )
    };
    fs::remove_dir_all(fixture.top()).unwrap();
    fs::remove_dir_all(fixture.paths("r").cache).unwrap();
    let store = Store::reopen(&fixture.paths("r")).unwrap();
    assert_eq!(store.base_tree(), &tree);
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert_eq!(snapshot(&workspace.path).len(), files);
}

#[test]
fn eight_prepare_at_once() {
    let fixture = Arc::new(Fixture::sample());
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let fixture = Arc::clone(&fixture);
            std::thread::spawn(move || {
                let store = fixture.store(&format!("r{n}"));
                let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
                assert!(store.diff(&workspace).unwrap().is_empty());
                store.base_tree().clone()
            })
        })
        .collect();
    let trees: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(trees.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn uncommitted_changes_are_counted_and_taken_along_without_ignored_files() {
    let fixture = Fixture::sample();
    fixture.write("src/lib.rs", b"changed\n");
    fixture.write("new/file.txt", b"untracked\n");
    fixture.write(".env", b"SECRET=1\n");
    fixture.write("target/out", b"built\n");
    fs::remove_file(fixture.top().join("crlf.txt")).unwrap();
    fixture.write("staged.txt", b"staged\n");
    fixture.git(&["add", "staged.txt"]);
    let user = fixture.user();
    let dirty = user.dirty().unwrap();
    assert_eq!((dirty.tracked, dirty.untracked), (3, 1), "{dirty:?}");
    let head = user.resolve("HEAD").unwrap();
    let store = Store::prepare(&user, &head, true, &fixture.paths("r")).unwrap();
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let names: Vec<_> = snapshot(&workspace.path)
        .keys()
        .filter_map(|p| {
            p.strip_prefix(&workspace.path).ok().map(|p| text(p.as_os_str().as_bytes()))
        })
        .collect();
    for there in ["new/file.txt", "staged.txt"] {
        assert!(names.iter().any(|n| n == there), "{there}");
    }
    for gone in [".env", "target", "target/out", "crlf.txt"] {
        assert!(!names.iter().any(|n| n == gone), "{gone}");
    }
    assert_eq!(fs::read(workspace.path.join("src/lib.rs")).unwrap(), b"changed\n");
    assert!(store.diff(&workspace).unwrap().is_empty());
    assert_eq!(text(&git(&workspace.path, &["status", "--porcelain"])), "");
    fixture.git(&["stash", "-q", "-u"]);
    let parent = user.resolve("HEAD~1").unwrap();
    let refused = Store::prepare(&user, &parent, true, &fixture.paths("r2"));
    assert!(matches!(refused, Err(RepoError::DirtyNeedsHead)));
    let clean = Store::prepare(&user, &head, true, &fixture.paths("r3")).unwrap();
    assert!(!clean.is_dirty());
    assert_eq!(clean.base_commit(), head);
}

#[test]
fn bad_repositories_are_named_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, args: &[&str]| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        git(&path, args);
        path
    };
    let plain = dir.path().join("plain");
    fs::create_dir(&plain).unwrap();
    assert!(matches!(UserRepo::discover(&plain), Err(RepoError::NotARepository(_))));
    let missing = UserRepo::discover(&dir.path().join("missing"));
    assert!(matches!(missing, Err(RepoError::NoDirectory { .. })));
    let bare = make("bare", &["init", "-q", "--bare"]);
    assert!(matches!(UserRepo::discover(&bare), Err(RepoError::Bare(_))));
    let empty = make("empty", &["init", "-q"]);
    assert!(matches!(UserRepo::discover(&empty), Err(RepoError::Empty(_))));
    let sha256 = make("sha256", &["init", "-q", "--object-format=sha256"]);
    let refused = UserRepo::discover(&sha256);
    assert!(matches!(refused, Err(RepoError::Sha256(_))), "{refused:?}");
    let reftable = make("reftable", &["init", "-q", "--ref-format=reftable"]);
    let refused = UserRepo::discover(&reftable).unwrap_err().to_string();
    assert!(refused.contains("ref-format=files"), "{refused}");
    let foreign = make("foreign", &["init", "-q"]);
    git(&foreign, &["config", "core.worktree", "/etc"]);
    let refused = UserRepo::discover(&foreign);
    assert!(matches!(refused, Err(RepoError::ForeignWorkTree { .. })), "{refused:?}");
}

#[test]
fn an_unknown_revision_names_what_is_near() {
    let fixture = Fixture::sample();
    fixture.git(&["branch", "feature/login"]);
    let user = fixture.user();
    let hint = |rev: &str| user.resolve(rev).unwrap_err().to_string();
    assert!(hint("mian").contains("did you mean \"main\""), "{}", hint("mian"));
    assert!(hint("login").contains("\"feature/login\""), "{}", hint("login"));
    assert!(hint("0123456789012345678901234567890123456789").contains("git log"));
    assert!(user.resolve("feature/login~1").is_ok());
}

#[test]
fn diffs_of_revisions_start_at_the_shared_commit() {
    let fixture = Fixture::sample();
    fixture.git(&["checkout", "-q", "-b", "topic"]);
    fixture.write("topic.txt", b"topic\n");
    fixture.commit("topic");
    fixture.git(&["checkout", "-q", "main"]);
    fixture.write("main.txt", b"main\n");
    fixture.commit("main");
    let user = fixture.user();
    let base = user.resolve("main").unwrap();
    let expected =
        fixture.git(&["diff", "--full-index", "--binary", "--no-renames", "main...topic"]);
    assert_eq!(text(&user.diff_from(&base, "topic").unwrap()), text(&expected));
    assert!(text(&expected).contains("topic.txt") && !text(&expected).contains("main.txt"));
}

#[test]
fn partial_shallow_and_linked_repositories_are_read() {
    let fixture = Fixture::sample();
    fixture.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", fixture.top().display());
    let clone = |name: &str, args: &[&str]| {
        let to = fixture.dir.path().join(name);
        let all = [&["clone", "-q"], args, &[url.as_str(), to.to_str().unwrap()]].concat();
        git(fixture.dir.path(), &all);
        to
    };
    let prepare = |top: &Path, run: &str, rev: &str| {
        let user = UserRepo::discover(top)?;
        let paths = StorePaths {
            cache: fixture.dir.path().join(run).join("cache"),
            run: fixture.dir.path().join(run).join("run"),
        };
        Store::prepare(&user, &user.resolve(rev)?, false, &paths)
    };
    let shallow = clone("shallow", &["--depth=1"]);
    prepare(&shallow, "s", "HEAD").unwrap();
    let unknown = UserRepo::discover(&shallow).unwrap().resolve("HEAD~1").unwrap_err();
    assert!(unknown.to_string().contains("--unshallow"), "{unknown}");
    let partial = clone("partial", &["--filter=blob:none"]);
    prepare(&partial, "p", "HEAD").unwrap();
    let bare_of_blobs = clone("blobless", &["--filter=blob:none", "--no-checkout"]);
    let refused = prepare(&bare_of_blobs, "m", "HEAD");
    assert!(matches!(refused, Err(RepoError::MissingObject { .. })), "{refused:?}");
    let linked = fixture.dir.path().join("linked");
    fixture.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let store = prepare(&linked, "l", "HEAD").unwrap();
    assert_eq!(store.top(), linked.canonicalize().unwrap());
}

#[test]
fn nothing_that_a_hostile_repository_configures_ever_runs() {
    let fixture = Fixture::sample();
    let mark = fixture.dir.path().join("MARK");
    let touch = format!("touch {} #", mark.display());
    fixture.write(".gitattributes", b"* filter=evil diff=evil merge=evil text\n");
    fixture.commit("attributes");
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.gitProxy",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "alias.status",
        "uploadpack.packObjectsHook",
    ] {
        fixture.git(&["config", key, &touch]);
    }
    let hooks = fixture.top().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "post-checkout",
        "post-index-change",
        "pre-commit",
        "reference-transaction",
        "post-commit",
        "fsmonitor-watchman",
    ] {
        fs::write(hooks.join(hook), format!("#!/bin/sh\n{touch}\n")).unwrap();
        fs::set_permissions(hooks.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(fixture.top().join("README.md"), "# Changed\n").unwrap();
    let _ = fs::remove_file(&mark);
    let user = fixture.user();
    let head = user.resolve("HEAD").unwrap();
    assert_eq!(user.dirty().unwrap().tracked, 1);
    let with_filter = Store::prepare(&user, &head, true, &fixture.paths("d"));
    assert!(matches!(with_filter, Err(RepoError::Filtered { .. })), "{with_filter:?}");
    let store = fixture.store("r");
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    fs::write(workspace.path.join("README.md"), "# Other\n").unwrap();
    store.diff(&workspace).unwrap();
    user.diff_from(&head, "HEAD~1").unwrap();
    for args in
        [&["status"][..], &["diff"], &["log", "-p"], &["add", "-A"], &["commit", "-qm", "x"]]
    {
        git(&workspace.path, args);
    }
    assert!(!mark.exists(), "something of the repository ran");
}

#[test]
fn a_submodule_stays_a_link_and_an_empty_directory() {
    let fixture = Fixture::sample();
    let other = Fixture::sample();
    fixture.git(&["submodule", "--quiet", "add", other.top().to_str().unwrap(), "vendor/sub"]);
    fixture.commit("submodule");
    let store = fixture.store("r");
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let sub = workspace.path.join("vendor/sub");
    assert_eq!(fs::read_dir(&sub).unwrap().count(), 0);
    assert!(store.diff(&workspace).unwrap().is_empty());
    assert_eq!(text(&git(&workspace.path, &["status", "--porcelain"])), "");
    assert!(fixture.user().dirty().unwrap().is_clean());
}

#[test]
fn a_changed_file_that_looks_old_is_still_found() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let file = workspace.path.join("README.md");
    let before = fs::metadata(&file).unwrap();
    fs::write(&file, b"# sAMPLE\n").unwrap();
    let times = fs::FileTimes::new().set_modified(before.modified().unwrap());
    fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), before.len());
    assert!(text(&store.diff(&workspace).unwrap()).contains("+# sAMPLE"));
}

#[test]
fn a_link_planted_in_a_workspace_never_leads_out() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let outside = fixture.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file.txt"), "secret of the host\n").unwrap();
    fs::remove_dir_all(workspace.path.join("src/deep")).unwrap();
    symlink(&outside, workspace.path.join("src/deep")).unwrap();
    let diff = text(&store.diff(&workspace).unwrap());
    assert!(!diff.contains("secret of the host"));
    assert!(diff.contains("new file mode 120000") && diff.contains("deleted file mode 100644"));
    drop(workspace);
    assert!(outside.join("file.txt").exists(), "clearing follows no link");
}
