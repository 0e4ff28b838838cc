//! Gate trees as a job sees them: the admitted tree and nothing else, on real overlays and as copies.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bakeoff::model::{Admission, LaneId, RunToken, TreeId};
use bakeoff::patch::{Rules, admit};
use bakeoff::repo::{GateTree, RepoError, Store};
use bakeoff::sandbox::{
    JobSpec, JobStatus, Launch, Launcher, Limits, Network, Permit, Tier, Warden, WardenOptions,
};
use tokio_util::sync::CancellationToken;

use super::{Fixture, git, lend, text, write_at};

/// Runs a shell line in a gate tree, in the sandbox, and gives what it printed.
fn shell(tree: &GateTree, line: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let warden =
            Warden::start(&WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() })
                .unwrap();
        let report = warden.prove().await;
        let launcher = Launcher::new(warden, Permit::grant(&report, true).unwrap());
        let spec = JobSpec {
            token: RunToken::new("0123456789abcdef0123456789abcdef"),
            label: "test".into(),
            argv: ["sh", "-c", line].map(OsString::from).into(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: tree.cwd(""),
            mounts: tree.mounts(),
            network: Network::Off,
            limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
            stdin: Vec::new(),
        };
        let exit = launcher.run(spec, &CancellationToken::new()).await.unwrap();
        let output = text(&exit.output);
        assert_eq!(exit.status, JobStatus::Exited(0), "{line}: {output}");
        output
    })
}

/// The tree that a worker's edits make, by way of its diff.
fn tree_of(store: &Store, edit: impl FnOnce(&Path)) -> TreeId {
    let workspace = store.lease(&LaneId::of("edit", 1)).unwrap();
    edit(&workspace.path);
    let diff = store.diff(&workspace).unwrap();
    match admit(&diff, store.base_tree(), store, &Rules::default()).unwrap() {
        Admission::Admitted { tree, .. } => tree,
        Admission::Refused(refusal) => panic!("{refusal:?}\n{}", text(&diff)),
    }
}

/// Any tree at all, made by git in a workspace, so that links and type changes come in too.
fn tree_by_git(store: &Store, edit: impl FnOnce(&Path)) -> TreeId {
    let workspace = store.lease(&LaneId::of("edit", 1)).unwrap();
    edit(&workspace.path);
    git(&workspace.path, &["add", "-A"]);
    let tree = TreeId::new(text(&git(&workspace.path, &["write-tree"])).trim());
    lend(&workspace);
    tree
}

/// What the sandbox's own view shows of a tree: each path with its kind, mode and contents' hash.
const LIST: &str = "find . -mindepth 1 ! -type d -printf '%P %y %m [%l] ' \
    \\( -type f -exec sha256sum {} \\; -o -printf '\\n' \\) | LC_ALL=C sed 's/  .*//' | LC_ALL=C sort";

fn checkout(fixture: &Fixture, store: &Store, tree: &TreeId) -> String {
    let out = fixture.dir.path().join(format!("checkout-{tree}"));
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out).unwrap();
    let git_dir = fixture.paths("r").run.join("repo.git");
    let index = fixture.dir.path().join("index");
    let _ = fs::remove_file(&index);
    let run = |args: &[&str]| {
        let status = std::process::Command::new("git")
            .arg("--git-dir")
            .arg(&git_dir)
            .arg("--work-tree")
            .arg(&out)
            .args(args)
            .env("GIT_INDEX_FILE", &index)
            .current_dir(&out)
            .status();
        assert!(status.unwrap().success());
    };
    let _ = store;
    run(&["read-tree", tree.as_str()]);
    run(&["checkout-index", "-a"]);
    let listed = std::process::Command::new("sh").args(["-c", LIST]).current_dir(&out).output();
    text(&listed.unwrap().stdout)
}

#[test]
fn a_job_sees_the_admitted_tree_and_nothing_else() {
    let fixture = Fixture::sample();
    for n in 0..30 {
        fixture.write(&format!("many/dir{}/file{n}.txt", n % 5), format!("{n}\n").as_bytes());
    }
    fixture.commit("many");
    let store = fixture.store("r");
    type Edit = Box<dyn Fn(&Path)>;
    let edits: Vec<(&str, Edit)> = vec![
        ("nothing", Box::new(|_| {})),
        ("edit", Box::new(|p| fs::write(p.join("src/lib.rs"), "other\n").unwrap())),
        ("delete one", Box::new(|p| fs::remove_file(p.join("many/dir0/file0.txt")).unwrap())),
        ("delete a directory", Box::new(|p| fs::remove_dir_all(p.join("many")).unwrap())),
        ("delete a part", Box::new(|p| fs::remove_dir_all(p.join("src/deep")).unwrap())),
        (
            "directory to file",
            Box::new(|p| {
                fs::remove_dir_all(p.join("many/dir1")).unwrap();
                fs::write(p.join("many/dir1"), "now a file\n").unwrap();
            }),
        ),
        (
            "file to directory",
            Box::new(|p| {
                fs::remove_file(p.join("README.md")).unwrap();
                write_at(p, b"README.md/deep/inside", b"x\n");
            }),
        ),
        (
            "link to directory",
            Box::new(|p| {
                fs::remove_file(p.join("link")).unwrap();
                write_at(p, b"link/inside", b"x\n");
            }),
        ),
        (
            "modes and links",
            Box::new(|p| {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(p.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
                fs::remove_file(p.join("crlf.txt")).unwrap();
                std::os::unix::fs::symlink("run.sh", p.join("crlf.txt")).unwrap();
            }),
        ),
        ("new directories", Box::new(|p| write_at(p, b"a/b/c/d.txt", b"new\n"))),
        (
            "everything goes",
            Box::new(|p| {
                for entry in fs::read_dir(p).unwrap().map(|e| e.unwrap()) {
                    match entry.file_name().to_str() {
                        Some(".git") => {}
                        _ if entry.file_type().unwrap().is_dir() => {
                            fs::remove_dir_all(entry.path()).unwrap()
                        }
                        _ => fs::remove_file(entry.path()).unwrap(),
                    }
                }
                write_at(p, b"only", b"one\n");
            }),
        ),
    ];
    for (name, edit) in edits {
        let tree = tree_by_git(&store, edit);
        let expected = checkout(&fixture, &store, &tree);
        for tier in [Tier::Namespaces, Tier::Landlock] {
            let gate = store.gate_tree(&tree, None, tier).unwrap();
            assert_eq!(gate.verify().unwrap(), tree, "{name} {tier:?}");
            assert_eq!(shell(&gate, LIST), expected, "{name} {tier:?}");
        }
    }
}

#[test]
fn a_tree_on_disk_that_is_not_the_admitted_one_is_found() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, |p| fs::write(p.join("src/lib.rs"), "good\n").unwrap());
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let gate = store.gate_tree(&tree, None, tier).unwrap();
        let root = match &gate.mounts()[0] {
            bakeoff::sandbox::Mount::Overlay { upper, .. } => upper.clone(),
            bakeoff::sandbox::Mount::ReadWrite { from, .. } => from.clone(),
            other => panic!("{other:?}"),
        };
        gate.verify().unwrap();
        fs::write(root.join("src/lib.rs"), "evil\n").unwrap();
        let refused = gate.verify();
        assert!(matches!(refused, Err(RepoError::Mismatch(_))), "{refused:?}");
        assert!(refused.unwrap_err().to_string().contains("src/lib.rs"));
        drop(gate);
        assert!(!root.exists());
    }
}

#[test]
fn the_bases_output_is_carried_and_its_sources_are_not() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, |p| {
        fs::write(p.join("src/lib.rs"), "candidate\n").unwrap();
        fs::write(p.join("late.txt"), "tracked by the candidate\n").unwrap();
        fs::remove_dir_all(p.join("src/deep")).unwrap();
    });
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let base = store.gate_tree(store.base_tree(), None, tier).unwrap();
        shell(
            &base,
            "mkdir -p target/debug src/deep/out && echo built > target/debug/lib && \
             echo out > src/deep/out/x && echo stale > late.txt && touch src/lib.rs && \
             chmod 700 src && chmod 000 target/debug",
        );
        let layer = base.into_layer().unwrap();
        assert_eq!(layer.rewritten(), &[] as &[String], "{tier:?}");
        let gate = store.gate_tree(&tree, Some(&layer), tier).unwrap();
        assert_eq!(gate.verify().unwrap(), tree);
        let seen = shell(
            &gate,
            "chmod 755 target/debug; cat target/debug/lib src/lib.rs late.txt; ls -d src/deep 2>&1 || true; \
             stat -c %a src; test src/lib.rs -nt target/debug/lib && echo newer; \
             test README.md -ot target/debug/lib && echo older; echo more > target/debug/lib",
        );
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(&lines[..3], ["built", "candidate", "tracked by the candidate"], "{tier:?}");
        if tier == Tier::Namespaces {
            assert!(seen.contains("No such file"), "{seen}");
        }
        assert!(seen.contains("755") && seen.ends_with("newer\nolder\n"), "{tier:?} {seen}");
        drop(gate);
        let again = store.gate_tree(&tree, Some(&layer), tier).unwrap();
        assert!(shell(&again, "chmod 755 target/debug; cat target/debug/lib") == "built\n");
    }
}

#[test]
fn output_made_from_rewritten_sources_is_thrown_away() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let rewrites = [
        ("echo changed > src/lib.rs", "src/lib.rs"),
        ("rm README.md", "README.md"),
        ("rm -r src && mkdir -p src && echo x > src/lib.rs", "src"),
        ("chmod 644 run.sh", "run.sh"),
        ("rm -r src && echo x > src", "src"),
    ];
    for tier in [Tier::Namespaces, Tier::Landlock] {
        for (line, named) in rewrites {
            let base = store.gate_tree(store.base_tree(), None, tier).unwrap();
            shell(&base, &format!("mkdir -p target && echo built > target/lib && {line}"));
            let layer = base.into_layer().unwrap();
            let rewritten = layer.rewritten().join(" ");
            assert!(rewritten.contains(named), "{tier:?} {line}: {rewritten}");
            let gate = store.gate_tree(store.base_tree(), Some(&layer), tier).unwrap();
            gate.verify().unwrap();
            assert_eq!(
                shell(&gate, "ls target 2>/dev/null; cat src/lib.rs | head -n 1"),
                "pub fn one() -> u32 {\n"
            );
        }
    }
}

#[test]
fn a_candidates_own_changes_are_no_rewriting_and_a_runs_are() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let tree = tree_of(&store, |p| {
        fs::write(p.join("src/lib.rs"), "candidate\n").unwrap();
        fs::write(p.join("late.txt"), "new\n").unwrap();
        fs::remove_file(p.join("README.md")).unwrap();
        fs::remove_dir_all(p.join("src/deep")).unwrap();
    });
    let runs = [
        ("mkdir target && echo built > target/lib && echo out > README.md", ""),
        ("mkdir src/deep && echo out > src/deep/x", ""),
        ("echo changed > src/lib.rs", "src/lib.rs"),
        ("rm late.txt", "late.txt"),
    ];
    for tier in [Tier::Namespaces, Tier::Landlock] {
        for (line, named) in runs {
            let gate = store.gate_tree(&tree, None, tier).unwrap();
            shell(&gate, line);
            let left = gate.into_layer().unwrap();
            assert_eq!(left.rewritten().join(" "), named, "{tier:?} {line}");
        }
    }
}

#[test]
fn a_gate_trees_place_is_the_users_path_where_it_can_be() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let mounted = store.gate_tree(store.base_tree(), None, Tier::Namespaces).unwrap();
    let top = fixture.top().canonicalize().unwrap();
    assert_eq!(mounted.cwd("src"), top.join("src"));
    assert_eq!(
        shell(&mounted, "pwd; echo x > new; ls -a .git 2>&1 | tail -n 1 | grep -c 'No such'"),
        format!("{}\n1\n", top.display())
    );
    assert!(!top.join("new").exists(), "the user's directory is not written to");
    let copied = store.gate_tree(store.base_tree(), None, Tier::None).unwrap();
    assert_ne!(copied.cwd(""), top);
}
