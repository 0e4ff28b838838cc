//! Applying a winner: exact, refusing what would lose work, and taken back when it fails.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bakeoff::model::{LaneId, TreeId};
use bakeoff::repo::{Applied, ApplyTo, RepoError, Store, apply_tree};

use super::{Fixture, git, lend, snapshot, text, write_at};

fn tree_of(store: &Store, edit: impl FnOnce(&Path)) -> TreeId {
    let workspace = store.lease(&LaneId::of("edit", 1)).unwrap();
    edit(&workspace.path);
    git(&workspace.path, &["add", "-A", "-f"]);
    let tree = TreeId::new(text(&git(&workspace.path, &["write-tree"])).trim());
    lend(&workspace);
    tree
}

fn commit(message: &str) -> ApplyTo {
    ApplyTo::Commit { message: message.into() }
}

fn branch(name: &str) -> ApplyTo {
    ApplyTo::Branch { name: name.into(), message: "a change".into() }
}

/// A change of every kind.
fn edit_all(top: &Path) {
    fs::write(top.join("src/lib.rs"), "pub fn one() -> u32 {\n    3\n}\n").unwrap();
    write_at(top, b"brand/new/file.txt", b"new\n");
    fs::remove_dir_all(top.join("src/deep")).unwrap();
    fs::set_permissions(top.join("README.md"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(top.join("link")).unwrap();
    write_at(top, b"link/inside", b"a directory now\n");
    fs::remove_file(top.join("bin.dat")).unwrap();
    symlink("run.sh", top.join("bin.dat")).unwrap();
}

fn apply(
    fixture: &Fixture,
    store: &Store,
    tree: &TreeId,
    to: &ApplyTo,
) -> Result<Applied, RepoError> {
    apply_tree(&fixture.user(), store, tree, to, store.base_tree())
}

fn work_tree(fixture: &Fixture) -> TreeId {
    let index = fixture.dir.path().join("check-index");
    fs::copy(fixture.top().join(".git/index"), &index).unwrap();
    let run = |args: &[&str]| {
        let output = std::process::Command::new("git")
            .args(args)
            .current_dir(fixture.top())
            .env("GIT_INDEX_FILE", &index)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    run(&["add", "-A"]);
    TreeId::new(run(&["write-tree"]))
}

fn no_leftovers(fixture: &Fixture) {
    let names = fs::read_dir(fixture.top()).unwrap().map(|e| e.unwrap().file_name());
    assert!(!names.into_iter().any(|n| n.to_string_lossy().starts_with(".bakeoff-apply")));
}

#[test]
fn to_the_working_tree_alone() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, edit_all);
    fixture.write("unrelated.txt", b"mine\n");
    fixture.write("crlf.txt", b"my own edit\n");
    let git_before = snapshot(&fixture.top().join(".git"));
    let applied = apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap();
    let Applied::Done { paths, commit: None } = applied else { panic!("{applied:?}") };
    assert!(paths.contains(&"brand/new/file.txt".to_owned()));
    assert_eq!(snapshot(&fixture.top().join(".git")), git_before, "only files are written");
    assert_eq!(fs::read(fixture.top().join("crlf.txt")).unwrap(), b"my own edit\n");
    assert!(!fixture.top().join("src/deep").exists());
    no_leftovers(&fixture);
    fs::remove_file(fixture.top().join("unrelated.txt")).unwrap();
    fixture.git(&["checkout", "-q", "--", "crlf.txt"]);
    assert_eq!(work_tree(&fixture), tree);
}

#[test]
fn to_a_branch_without_touching_the_checkout() {
    let fixture = Fixture::sample();
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.git(&["config", "user.email", "ada@localhost"]);
    let store = fixture.store("r");
    let tree = tree_of(&store, edit_all);
    fixture.write("src/lib.rs", b"uncommitted\n");
    let status = fixture.git(&["status", "--porcelain"]);
    let index = fs::read(fixture.top().join(".git/index")).unwrap();
    apply(&fixture, &store, &tree, &branch("fix/one")).unwrap();
    assert_eq!(text(&fixture.git(&["rev-parse", "fix/one^{tree}"])).trim(), tree.as_str());
    assert_eq!(fixture.git(&["rev-parse", "fix/one~1"]), fixture.git(&["rev-parse", "main"]));
    assert_eq!(text(&fixture.git(&["log", "-1", "--format=%an %s", "fix/one"])), "Ada a change\n");
    assert_eq!(fs::read(fixture.top().join(".git/index")).unwrap(), index);
    assert_eq!(fixture.git(&["status", "--porcelain"]), status);
    for (name, word) in [("fix/one", "exists"), ("bad..name", "valid"), ("fix", "fix")] {
        let refused = apply(&fixture, &store, &tree, &branch(name)).unwrap_err();
        assert!(refused.to_string().contains(word), "{refused}");
    }
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn to_a_commit_on_the_current_branch() {
    let fixture = Fixture::sample();
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.git(&["config", "user.email", "ada@localhost"]);
    let store = fixture.store("r");
    let tree = tree_of(&store, edit_all);
    fixture.write("staged.txt", b"staged, not part of it\n");
    fixture.git(&["add", "staged.txt"]);
    apply(&fixture, &store, &tree, &commit("the winner")).unwrap();
    assert_eq!(text(&fixture.git(&["rev-parse", "HEAD^{tree}"])).trim(), tree.as_str());
    assert_eq!(text(&fixture.git(&["status", "--porcelain"])), "A  staged.txt\n");
    assert_eq!(text(&fixture.git(&["rev-list", "--count", "HEAD"])), "3\n");
    assert!(text(&fixture.git(&["reflog", "-1"])).contains("bakeoff"));
    no_leftovers(&fixture);
}

#[test]
fn what_would_lose_work_is_refused_and_named() {
    type Mess = fn(&Fixture);
    let messes: [(&str, Mess); 6] = [
        ("src/lib.rs", |f| f.write("src/lib.rs", b"uncommitted\n")),
        ("src/lib.rs", |f| fs::remove_file(f.top().join("src/lib.rs")).unwrap()),
        ("brand/new/file.txt", |f| f.write("brand/new/file.txt", b"untracked\n")),
        ("brand", |f| f.write("brand", b"a file in the way\n")),
        ("brand", |f| symlink("/etc", f.top().join("brand")).unwrap()),
        ("src/deep/er/file.txt", |f| f.write("src/deep/er/file.txt", b"uncommitted\n")),
    ];
    for (named, mess) in messes {
        let fixture = Fixture::sample();
        let store = fixture.store("r");
        let tree = tree_of(&store, edit_all);
        mess(&fixture);
        let before = snapshot(&fixture.top());
        let refused = apply(&fixture, &store, &tree, &ApplyTo::WorkTree);
        let Err(RepoError::WouldOverwrite { path, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(path, named);
        assert_eq!(snapshot(&fixture.top()), before);
    }
}

#[test]
fn a_directory_with_an_untracked_file_does_not_become_a_file() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, |top| {
        fs::remove_dir_all(top.join("src")).unwrap();
        fs::write(top.join("src"), "a file now\n").unwrap();
    });
    fixture.write("src/notes.txt", b"mine\n");
    let before = snapshot(&fixture.top());
    let refused = apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap_err();
    assert!(refused.to_string().contains("src/notes.txt"), "{refused}");
    assert_eq!(snapshot(&fixture.top()), before);
    fs::remove_file(fixture.top().join("src/notes.txt")).unwrap();
    apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap();
    assert_eq!(work_tree(&fixture), tree);
}

#[test]
fn staged_work_on_a_touched_file_and_odd_states_refuse_a_commit() {
    let fixture = Fixture::sample();
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.git(&["config", "user.email", "ada@localhost"]);
    let store = fixture.store("r");
    let tree = tree_of(&store, edit_all);
    fixture.write("src/lib.rs", b"staged\n");
    fixture.git(&["add", "src/lib.rs"]);
    fixture.write("src/lib.rs", b"pub fn one() -> u32 {\n    1\n}\n");
    let before = snapshot(&fixture.top());
    let refused = apply(&fixture, &store, &tree, &commit("x")).unwrap_err();
    assert!(refused.to_string().contains("staged"), "{refused}");
    assert_eq!(snapshot(&fixture.top()), before);
    fixture.git(&["reset", "-q", "--hard"]);
    fixture.git(&["checkout", "-q", "--detach"]);
    let refused = apply(&fixture, &store, &tree, &commit("x")).unwrap_err();
    assert!(refused.to_string().contains("detached"), "{refused}");
    fixture.git(&["checkout", "-q", "main"]);
    fs::write(fixture.top().join(".git/index.lock"), "").unwrap();
    let before = snapshot(&fixture.top());
    let refused = apply(&fixture, &store, &tree, &commit("x")).unwrap_err();
    assert!(refused.to_string().contains("index.lock"), "{refused}");
    let after = snapshot(&fixture.top());
    let files = |all: &super::Snapshot| {
        let kept = all.iter().filter(|(path, _)| !path.to_string_lossy().contains("/.git/objects"));
        kept.map(|(path, (mode, _, bytes))| (path.clone(), *mode, bytes.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(files(&after), files(&before), "all is taken back");
}

#[test]
fn a_moved_base_needs_the_gates_again_or_refuses() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, |top| {
        fs::write(top.join("README.md"), "# Sample\n\nMore words.\n").unwrap();
    });
    fixture.write("other.txt", b"somebody else's\n");
    fixture.commit("moved on");
    let before = snapshot(&fixture.top());
    let answer = apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap();
    let Applied::NeedsGates { tree: merged, onto, commit } = answer else { panic!("{answer:?}") };
    assert_eq!(commit, fixture.user().resolve("HEAD").unwrap());
    assert_eq!(snapshot(&fixture.top()), before, "nothing is written yet");
    store.gate_tree(&merged, None, bakeoff::sandbox::Tier::None).unwrap().verify().unwrap();
    let done = apply_tree(&fixture.user(), &store, &merged, &ApplyTo::WorkTree, &onto).unwrap();
    assert!(matches!(done, Applied::Done { .. }));
    assert_eq!(work_tree(&fixture), merged);
    assert!(fixture.top().join("other.txt").exists());
    fixture.git(&["checkout", "-q", "--", "."]);
    fixture.write("README.md", b"# Something else\n");
    fixture.commit("conflicting");
    let refused = apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap_err();
    assert!(refused.to_string().contains("conflicts in README.md"), "{refused}");
}

#[test]
fn a_change_on_uncommitted_work_goes_on_top_of_it() {
    let fixture = Fixture::sample();
    fixture.write("src/lib.rs", b"uncommitted\n");
    fixture.write("extra.txt", b"untracked\n");
    let user = fixture.user();
    let head = user.resolve("HEAD").unwrap();
    let store = Store::prepare(&user, &head, true, &fixture.paths("r")).unwrap();
    let tree = tree_of(&store, |top| {
        fs::write(top.join("src/lib.rs"), "uncommitted\nand more\n").unwrap();
        fs::write(top.join("extra.txt"), "untracked\nand more\n").unwrap();
    });
    apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap();
    assert_eq!(fs::read(fixture.top().join("extra.txt")).unwrap(), b"untracked\nand more\n");
    assert_eq!(work_tree(&fixture), tree);
    let refused = apply(&fixture, &store, &tree, &commit("x")).unwrap_err();
    assert!(refused.to_string().contains("uncommitted"), "{refused}");
}

#[test]
fn line_ends_of_the_checkout_are_kept() {
    let fixture = Fixture::sample();
    fixture.write(".gitattributes", b"*.bat text eol=crlf\n");
    fixture.write("a.bat", b"one\r\n");
    fixture.commit("batch");
    let store = fixture.store("r");
    let tree = tree_of(&store, |top| {
        assert_eq!(
            fs::read(top.join("a.bat")).unwrap(),
            b"one\n",
            "a workspace has the stored bytes"
        );
        fs::write(top.join("a.bat"), "one\ntwo\n").unwrap();
        fs::write(top.join("b.bat"), "new\n").unwrap();
    });
    apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap();
    assert_eq!(fs::read(fixture.top().join("a.bat")).unwrap(), b"one\r\ntwo\r\n");
    assert_eq!(fs::read(fixture.top().join("b.bat")).unwrap(), b"new\r\n");
    assert_eq!(work_tree(&fixture), tree);
}

#[test]
fn no_hook_or_filter_of_the_user_runs() {
    let fixture = Fixture::sample();
    let mark = fixture.dir.path().join("MARK");
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.git(&["config", "user.email", "ada@localhost"]);
    let store = fixture.store("r");
    let tree = tree_of(&store, edit_all);
    let hooks = fixture.top().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
    ] {
        fs::write(hooks.join(hook), format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        fs::set_permissions(hooks.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let filter = format!("touch {}; cat", mark.display());
    fixture.git(&["config", "filter.evil.clean", &filter]);
    fixture.git(&["config", "filter.evil.smudge", &filter]);
    fs::write(fixture.top().join(".git/info/attributes"), "new/* filter=evil\n").unwrap();
    apply(&fixture, &store, &tree, &commit("quietly")).unwrap();
    assert!(!mark.exists());
    let store = fixture.store("r2");
    let tree = tree_of(&store, |top| write_at(top, b"new/file", b"x\n"));
    let refused = apply(&fixture, &store, &tree, &ApplyTo::WorkTree).unwrap_err();
    assert!(refused.to_string().contains("evil"), "{refused}");
    assert!(!mark.exists());
}
