//! Repositories of odd kinds, and checkouts in odd states.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Fixture, git, snapshot, text};
use bakeoff::model::LaneId;
use bakeoff::repo::{RepoError, Store, StorePaths, UserRepo};
use bakeoff::sandbox::Tier;

impl Fixture {
    /// A run's paths outside of any other's cache.
    fn apart(&self, name: &str) -> StorePaths {
        let dir = self.dir.path().join("apart").join(name);
        StorePaths { cache: dir.join("cache"), run: dir.join("run") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A git command that is to stop half way.
    fn git_stops(&self, args: &[&str]) {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
            .args(args)
            .current_dir(self.top())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output();
        assert!(!status.unwrap().status.success(), "git {args:?}");
    }
}

/// Prepares a run, and shows that its workspace and its gate tree hold just what the commit does.
fn check(top: &Path, rev: &str, dirty: bool, paths: &StorePaths) -> Store {
    let before = snapshot(top);
    let user = UserRepo::discover(top).unwrap();
    let store = Store::prepare(&user, &user.resolve(rev).unwrap(), dirty, paths).unwrap();
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let path = &workspace.path;
    assert_eq!(text(&git(path, &["status", "--porcelain"])), "");
    assert!(store.diff(&workspace).unwrap().is_empty());
    git(path, &["fsck", "--strict", "--no-dangling"]);
    let tree = text(&git(path, &["rev-parse", "HEAD^{tree}"]));
    assert_eq!(tree.trim(), store.base_tree().as_str());
    let listed = text(&git(path, &["ls-files", "-s"]));
    assert_eq!(
        listed,
        text(&git(
            path,
            &["ls-tree", "-r", "--format=%(objectmode) %(objectname) 0%x09%(path)", "HEAD"]
        ))
    );
    for tier in [Tier::None, Tier::Namespaces] {
        let laid = store.gate_tree(store.base_tree(), None, tier).unwrap();
        assert_eq!(laid.verify().unwrap(), *store.base_tree());
    }
    drop(workspace);
    let after = snapshot(top);
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).filter(differs).collect();
    assert!(changed.is_empty(), "the checkout is untouched: {changed:?}");
    store
}

#[test]
fn sparse_checkouts_have_the_whole_base_and_no_deletions() {
    let fixture = Fixture::sample();
    fixture.git(&["sparse-checkout", "set", "--no-cone", "/README.md"]);
    assert!(!fixture.top().join("src").exists());
    assert!(fixture.user().dirty().unwrap().is_clean());
    check(&fixture.top(), "HEAD", false, &fixture.apart("clean"));
    fixture.write("README.md", b"# Changed\n");
    let store = check(&fixture.top(), "HEAD", true, &fixture.apart("dirty"));
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert!(workspace.path.join("src/lib.rs").exists());
    assert_eq!(fs::read(workspace.path.join("README.md")).unwrap(), b"# Changed\n");
}

#[test]
fn lfs_pointers_stay_pointers() {
    let fixture = Fixture::sample();
    let pointer = b"version https://git-lfs.github.com/spec/v1\n\
        oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    fixture.write("big.bin", pointer);
    fixture.commit("pointer");
    fixture.write(".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n");
    fixture.git(&["add", ".gitattributes"]);
    fixture.git(&["commit", "-q", "-m", "attributes"]);
    let mark = fixture.path("MARK");
    for key in ["filter.lfs.process", "filter.lfs.smudge", "filter.lfs.clean"] {
        fixture.git(&["config", key, &format!("touch {} #", mark.display())]);
    }
    fixture.git(&["config", "filter.lfs.required", "true"]);
    let store = check(&fixture.top(), "HEAD", false, &fixture.apart("lfs"));
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert_eq!(fs::read(workspace.path.join("big.bin")).unwrap(), pointer);
    let user = fixture.user();
    fixture.write("big.bin", b"what it really is");
    let head = user.resolve("HEAD").unwrap();
    let refused = Store::prepare(&user, &head, true, &fixture.apart("dirty"));
    assert!(matches!(refused, Err(RepoError::Filtered { .. })), "{refused:?}");
    assert!(!mark.exists(), "the filter ran");
}

#[test]
fn links_of_every_kind_are_kept_and_not_followed() {
    let fixture = Fixture::sample();
    for (target, name) in [
        ("nowhere", "dangling"),
        ("loop", "loop"),
        ("/etc/passwd", "absolute"),
        ("../../../../etc", "outside"),
        ("src", "directory"),
        (".", "self"),
    ] {
        symlink(target, fixture.top().join(name)).unwrap();
    }
    fixture.commit("links");
    let store = check(&fixture.top(), "HEAD", false, &fixture.apart("links"));
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert_eq!(fs::read_link(workspace.path.join("absolute")).unwrap(), Path::new("/etc/passwd"));
    let all = snapshot(&workspace.path);
    assert!(!all.keys().any(|path| path.starts_with(workspace.path.join("directory/"))
        && path != &workspace.path.join("directory")));
}

#[test]
fn names_that_differ_by_case_alone_are_two_files() {
    let fixture = Fixture::sample();
    fixture.write("Mixed.txt", b"one\n");
    fixture.commit("one");
    fixture.git(&["mv", "Mixed.txt", "mixed.txt"]);
    fixture.write("MIXED/a", b"upper\n");
    fixture.write("mIXED/a", b"lower\n");
    fixture.commit("renamed");
    check(&fixture.top(), "HEAD~1", false, &fixture.apart("before"));
    // Once alone, and once as the difference to the base before.
    check(&fixture.top(), "HEAD", false, &fixture.apart("after"));
    let store = check(&fixture.top(), "HEAD", false, &fixture.apart("before"));
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert!(!workspace.path.join("Mixed.txt").exists());
    assert_eq!(fs::read(workspace.path.join("mIXED/a")).unwrap(), b"lower\n");
    fs::rename(workspace.path.join("mixed.txt"), workspace.path.join("MiXeD.txt")).unwrap();
    let diff = text(&store.diff(&workspace).unwrap());
    assert!(diff.contains("deleted file mode 100644") && diff.contains("b/MiXeD.txt"), "{diff}");
}

#[test]
fn worktrees_of_worktrees_and_detached_heads_are_read() {
    let fixture = Fixture::sample();
    let (one, two) = (fixture.path("one"), fixture.path("two"));
    fixture.git(&["worktree", "add", "-q", "--detach", one.to_str().unwrap(), "HEAD~1"]);
    git(&one, &["worktree", "add", "-q", "-b", "nested", two.to_str().unwrap(), "main"]);
    check(&one, "HEAD", false, &fixture.apart("one"));
    fs::write(two.join("README.md"), "# Two\n").unwrap();
    let store = check(&two, "HEAD", true, &fixture.apart("two"));
    assert_eq!(store.top(), two.canonicalize().unwrap());
    fixture.git(&["checkout", "-q", "--detach"]);
    check(&fixture.top(), "HEAD", false, &fixture.apart("detached"));
    // A worktree inside of the checkout is nobody's uncommitted change.
    fixture.git(&["worktree", "add", "-q", "--detach", "inside"]);
    check(&fixture.top(), "HEAD", true, &fixture.apart("inside"));
}

#[test]
fn borrowed_objects_are_brought_along() {
    let fixture = Fixture::sample();
    let shared = fixture.path("shared");
    git(fixture.dir.path(), &["clone", "-q", "--shared", "user", "shared"]);
    let deeper = fixture.path("deeper");
    git(fixture.dir.path(), &["clone", "-q", "--shared", "shared", "deeper"]);
    check(&shared, "HEAD", false, &fixture.apart("shared"));
    drop(check(&deeper, "HEAD", false, &fixture.apart("deeper")));
    for dir in [fixture.top(), shared, deeper] {
        fs::remove_dir_all(dir).unwrap();
    }
    let store = Store::reopen(&fixture.apart("deeper")).unwrap();
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    git(&workspace.path, &["log", "-p"]);
}

#[test]
fn a_checkout_in_the_middle_of_something_has_a_base_all_the_same() {
    let fixture = Fixture::sample();
    fixture.git(&["checkout", "-q", "-b", "topic", "HEAD~1"]);
    fixture.write("README.md", b"# Topic\n");
    fixture.commit("topic");
    fixture.git(&["checkout", "-q", "main"]);
    fixture.write("README.md", b"# Main\n");
    fixture.commit("main");
    fixture.git_stops(&["rebase", "topic"]);
    assert!(fixture.top().join(".git/rebase-merge").is_dir());
    let refused = || {
        let user = fixture.user();
        let head = user.resolve("HEAD").unwrap();
        Store::prepare(&user, &head, true, &fixture.apart("conflict")).unwrap_err()
    };
    check(&fixture.top(), "HEAD", false, &fixture.apart("rebase"));
    assert!(matches!(refused(), RepoError::Conflicted { .. }), "{}", refused());
    fixture.git(&["rebase", "--abort"]);
    fixture.git_stops(&["merge", "topic"]);
    check(&fixture.top(), "HEAD", false, &fixture.apart("merge"));
    assert!(matches!(refused(), RepoError::Conflicted { .. }));
    fixture.git(&["merge", "--abort"]);
    fixture.git(&["bisect", "start", "HEAD", "HEAD~2"]);
    check(&fixture.top(), "HEAD", false, &fixture.apart("bisect"));
}

#[test]
fn replaced_and_grafted_objects_are_what_their_names_say() {
    let fixture = Fixture::sample();
    let head = text(&fixture.git(&["rev-parse", "HEAD"]));
    let parent = text(&fixture.git(&["rev-parse", "HEAD~1"]));
    fixture.git(&["replace", head.trim(), parent.trim()]);
    let store = {
        let user = fixture.user();
        let id = bakeoff::model::CommitId::new(head.trim());
        Store::prepare(&user, &id, false, &fixture.apart("replaced")).unwrap()
    };
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert!(workspace.path.join("run.sh").exists(), "a file of the real commit");
    assert_eq!(text(&git(&workspace.path, &["log", "--format=%s"])), "second\nfirst\n");
}

#[test]
fn a_missing_object_of_a_partial_clone_is_named_and_never_fetched() {
    let fixture = Fixture::sample();
    fixture.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", fixture.top().display());
    let partial = fixture.path("partial");
    let to = partial.to_str().unwrap();
    git(fixture.dir.path(), &["clone", "-q", "--filter=blob:none", "--no-checkout", &url, to]);
    let mark = fixture.path("MARK");
    git(&partial, &["config", "remote.origin.url", &format!("ext::touch {}", mark.display())]);
    git(&partial, &["config", "protocol.ext.allow", "always"]);
    let user = UserRepo::discover(&partial).unwrap();
    let head = user.resolve("HEAD").unwrap();
    let refused = Store::prepare(&user, &head, false, &fixture.apart("p")).unwrap_err();
    assert!(matches!(refused, RepoError::MissingObject { .. }), "{refused:?}");
    assert!(refused.to_string().contains("git fetch --refetch"), "{refused}");
    assert!(!mark.exists(), "something was fetched");
}

#[test]
fn a_submodule_with_changes_is_left_as_it_is() {
    let fixture = Fixture::sample();
    let other = Fixture::sample();
    fixture.git(&["submodule", "--quiet", "add", other.top().to_str().unwrap(), "vendor/sub"]);
    fixture.commit("submodule");
    fixture.write("vendor/sub/README.md", b"# Changed inside\n");
    fixture.write("README.md", b"# Changed outside\n");
    let store = check(&fixture.top(), "HEAD", true, &fixture.apart("sub"));
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    assert_eq!(fs::read_dir(workspace.path.join("vendor/sub")).unwrap().count(), 0);
    assert_eq!(fs::read(workspace.path.join("README.md")).unwrap(), b"# Changed outside\n");
    drop((workspace, store));
    // One that is new, one that is gone and one that became a directory of files.
    fixture.git(&["checkout", "-q", "--", "README.md"]);
    fixture.git(&["rm", "-q", "-f", "--cached", "vendor/sub"]);
    fs::remove_dir_all(fixture.top().join("vendor/sub")).unwrap();
    fixture.write("vendor/sub/file", b"a file\n");
    fixture.commit("files instead");
    check(&fixture.top(), "HEAD", false, &fixture.apart("sub"));
    check(&fixture.top(), "HEAD~1", false, &fixture.apart("sub"));
    check(&fixture.top(), "HEAD~2", false, &fixture.apart("sub"));
}

/// Modes, executables and types that change between bases, each base on the one before.
#[test]
fn later_bases_are_right_whatever_changed() {
    let fixture = Fixture::sample();
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
    let chmod = |path: &str, mode| {
        fs::set_permissions(fixture.top().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod("run.sh", 0o644);
    chmod("README.md", 0o755);
    fixture.commit("modes");
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
    fs::remove_file(fixture.top().join("link")).unwrap();
    fixture.write("link/now/a/directory", b"x\n");
    fs::remove_dir_all(fixture.top().join("src/deep")).unwrap();
    fixture.write("src/deep", b"now a file\n");
    fixture.commit("types");
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
    fs::remove_dir_all(fixture.top().join("src")).unwrap();
    fs::remove_dir_all(fixture.top().join("link")).unwrap();
    fixture.commit("less");
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
    fixture.write("src/lib.rs", b"back again\n");
    fixture.write("new.txt", b"not committed\n");
    fixture.git(&["add", "src"]);
    fixture.git(&["commit", "-q", "-m", "back"]);
    check(&fixture.top(), "HEAD", true, &fixture.apart("all"));
    check(&fixture.top(), "HEAD~4", false, &fixture.apart("all"));
}

#[test]
#[ignore = "fifty thousand files take a while: cargo test --test it fifty_thousand -- --ignored"]
fn fifty_thousand_files() {
    let fixture = Fixture::new();
    for n in 0..50_000 {
        fixture.write(
            &format!("d{}/e{}/f{n}.txt", n / 2500, n / 50),
            format!("file {n}\n").as_bytes(),
        );
    }
    fixture.commit("all");
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
    for n in 0..20 {
        fixture.write(&format!("d{n}/e{}/f{}.txt", n * 50, n * 2500), b"changed\n");
    }
    fixture.commit("changed");
    check(&fixture.top(), "HEAD", false, &fixture.apart("all"));
}
