//! The history that a workspace shows: so many ancestors and nothing else, whatever the cache holds.

use std::path::{Path, PathBuf};

use super::{Fixture, git, text};
use bakeoff::model::LaneId;
use bakeoff::repo::{Store, StorePaths, UserRepo, Workspace};

/// Commits `first` to `last`, each with a file of its own and a change to a shared one.
fn commits(fixture: &Fixture, first: u32, last: u32) {
    for n in first..=last {
        fixture.write(&format!("own{n}.txt"), format!("text of {n}\n").as_bytes());
        fixture.write("shared.txt", format!("shared {n}\n").as_bytes());
        fixture.commit(&format!("commit {n}"));
    }
}

fn prepare(top: &Path, rev: &str, history: u32, paths: &StorePaths) -> Store {
    let user = UserRepo::discover(top).unwrap();
    Store::prepare_with(&user, &user.resolve(rev).unwrap(), false, history, paths).unwrap()
}

fn lease(store: &Store) -> (Workspace, PathBuf) {
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    let path = workspace.path.clone();
    (workspace, path)
}

fn subjects(path: &Path) -> Vec<String> {
    text(&git(path, &["log", "--format=%s"])).lines().map(str::to_owned).collect()
}

/// The contents of all files in the object store that hold `word`.
fn blobs_with(path: &Path, word: &str) -> Vec<String> {
    let format = "--batch-check=%(objecttype) %(objectname)";
    let all = text(&git(path, &["cat-file", "--batch-all-objects", format]));
    let blobs = all.lines().filter_map(|line| line.strip_prefix("blob "));
    let contents = blobs.map(|id| text(&git(path, &["cat-file", "blob", id])));
    contents.filter(|text| text.contains(word)).collect()
}

/// Everything that reads history works, to the last commit.
fn check(path: &Path, shown: &[&str]) {
    assert_eq!(subjects(path), shown);
    let patches = text(&git(path, &["log", "-p", "--stat"]));
    assert_eq!(patches.matches("\ncommit ").count() + 1, shown.len());
    for n in 0..shown.len() {
        git(path, &["show", &format!("HEAD~{n}")]);
    }
    git(path, &["blame", "shared.txt"]);
    git(path, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(text(&git(path, &["status", "--porcelain"])), "");
    assert_eq!(text(&git(path, &["reflog"])), "");
    assert_eq!(text(&git(path, &["stash", "list"])), "");
}

#[test]
fn so_many_ancestors_are_shown_and_nothing_later_or_beside() {
    let fixture = Fixture::new();
    commits(&fixture, 1, 6);
    fixture.git(&["checkout", "-q", "-b", "other", "HEAD~3"]);
    fixture.write("beside.txt", b"text of another branch\n");
    fixture.commit("beside");
    fixture.git(&["tag", "v1"]);
    fixture.git(&["checkout", "-q", "main"]);
    for (history, shown) in [
        (2, &["commit 5", "commit 4", "commit 3"][..]),
        (0, &["commit 5"]),
        (50, &["commit 5", "commit 4", "commit 3", "commit 2", "commit 1"]),
    ] {
        let paths = fixture.paths(&format!("r{history}"));
        let store = prepare(&fixture.top(), "main~1", history, &paths);
        let (_workspace, path) = lease(&store);
        check(&path, shown);
        for hidden in ["text of 6", "shared 6", "another branch"] {
            assert!(blobs_with(&path, hidden).is_empty(), "{hidden}");
        }
        let refs = text(&git(&path, &["for-each-ref", "--format=%(refname)"]));
        assert_eq!(refs, "refs/heads/base\n");
        assert_eq!(blobs_with(&path, "text of 1").len(), 1, "it is a file of the base");
        assert_eq!(blobs_with(&path, "shared 1").len(), usize::from(history == 50));
    }
}

/// A base is made from a cached one only where that is its ancestor: the packs of another would bring
/// later commits along.
#[test]
fn what_the_cache_holds_of_later_commits_and_other_branches_stays_there() {
    let fixture = Fixture::new();
    commits(&fixture, 1, 4);
    fixture.git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    fixture.write("beside.txt", b"text of another branch\n");
    fixture.commit("beside");
    fixture.git(&["checkout", "-q", "main"]);
    let run = |rev: &str, name: &str| {
        let store = prepare(&fixture.top(), rev, 50, &fixture.paths(name));
        let (workspace, path) = lease(&store);
        (store, workspace, path)
    };
    drop(run("main", "first"));
    drop(run("other", "second"));
    let (_store, _workspace, path) = run("main~1", "third");
    check(&path, &["commit 3", "commit 2", "commit 1"]);
    assert!(blobs_with(&path, "text of 4").is_empty() && blobs_with(&path, "branch").is_empty());
    // A later one lies on its ancestors, however many.
    commits(&fixture, 5, 25);
    for n in (0..=20).rev() {
        let (_store, _workspace, path) = run(&format!("main~{n}"), &format!("r{n}"));
        assert_eq!(subjects(&path).len(), 25 - n);
        assert!(blobs_with(&path, &format!("shared {}\n", 26 - n)).is_empty());
        git(&path, &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(text(&git(&path, &["status", "--porcelain"])), "");
    }
}

#[test]
fn merges_and_uncommitted_work_have_a_history_too() {
    let fixture = Fixture::new();
    commits(&fixture, 1, 2);
    fixture.git(&["checkout", "-q", "-b", "side", "HEAD~1"]);
    fixture.write("side.txt", b"side\n");
    fixture.commit("side");
    fixture.git(&["checkout", "-q", "main"]);
    fixture.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    fixture.write("shared.txt", b"not committed\n");
    let user = fixture.user();
    let head = user.resolve("HEAD").unwrap();
    let store = Store::prepare_with(&user, &head, true, 50, &fixture.paths("dirty")).unwrap();
    let (_workspace, path) = lease(&store);
    let shown = subjects(&path);
    assert_eq!((shown[0].as_str(), shown[1].as_str()), ("Uncommitted changes", "merge"));
    assert_eq!(shown.len(), 5);
    git(&path, &["fsck", "--strict", "--no-dangling"]);
    assert!(text(&git(&path, &["show", "HEAD"])).contains("+not committed"));
    // One parent of the merge lies within the border and the other does not: both stay out.
    let store = prepare(&fixture.top(), "HEAD", 1, &fixture.paths("one"));
    let (_workspace, path) = lease(&store);
    check(&path, &["merge"]);
}

#[test]
fn the_history_of_shallow_and_partial_clones_ends_where_theirs_does() {
    let fixture = Fixture::new();
    commits(&fixture, 1, 5);
    fixture.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", fixture.top().display());
    let clone = |name: &str, filter: &str| {
        let to = fixture.dir.path().join(name);
        git(fixture.dir.path(), &["clone", "-q", filter, &url, to.to_str().unwrap()]);
        to
    };
    let paths = |name: &str| {
        let dir = fixture.dir.path().join(format!("home-{name}"));
        StorePaths { cache: dir.join("cache"), run: dir.join("run") }
    };
    let (shallow, partial) =
        (clone("shallow", "--depth=2"), clone("partial", "--filter=blob:none"));
    // Nobody could fetch anything now.
    std::fs::rename(fixture.top(), fixture.dir.path().join("away")).unwrap();
    let store = prepare(&shallow, "HEAD", 50, &paths("shallow"));
    let (_workspace, path) = lease(&store);
    check(&path, &["commit 5", "commit 4"]);
    let store = prepare(&partial, "HEAD", 50, &paths("partial"));
    let (_workspace, path) = lease(&store);
    check(&path, &["commit 5"]);
}
