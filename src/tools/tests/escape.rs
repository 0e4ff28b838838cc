//! Nothing leaves the workspace, and git's own is never touched.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, RenameFlags, mkfifoat, renameat_with, unlinkat};
use serde_json::json;

use crate::tools::testing::Fixture;

/// Paths that must be refused by every tool that takes one.
const OUT: &[&str] = &[
    "../outside.txt",
    "..",
    "a/../../outside.txt",
    "/etc/passwd",
    "/",
    "a\u{0}b",
    "~/x",
    "",
    "link",
    "dir-link/outside.txt",
    "absolute-link",
    "absolute-dir/passwd",
    "chain",
    ".git",
    ".git/config",
    ".GIT/config",
    ".git./config",
    ".git /config",
    "git~1/config",
    ".g\u{200c}it/config",
    "git-link",
    "git-dir-link/config",
    "sub/up/.git/config",
];

fn hostile() -> Fixture {
    let fixture = Fixture::new();
    fixture.put("sub/inner.txt", "inner\n");
    fixture.link("../outside.txt", "link");
    fixture.link("..", "dir-link");
    fixture.link("/etc/passwd", "absolute-link");
    fixture.link("/etc", "absolute-dir");
    fixture.link("link", "chain");
    fixture.link(".git/config", "git-link");
    fixture.link("sub/../.git", "git-dir-link");
    fixture.link("..", "sub/up");
    fixture
}

#[test]
fn no_path_leads_out_or_into_git() {
    let fixture = hostile();
    for path in OUT {
        for (name, arguments) in [
            ("read_file", json!({"path": path})),
            ("list_dir", json!({"path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
            ("grep", json!({"pattern": ".", "path": path})),
            ("write_file", json!({"path": path, "content": "BROKEN"})),
            ("edit_file", json!({"path": path, "old_string": "S", "new_string": "BROKEN"})),
            (
                "multi_edit",
                json!({"path": path, "edits": [{"old_string": "S", "new_string": "BROKEN"}]}),
            ),
        ] {
            let text = fixture.refused(name, arguments);
            assert!(
                !text.contains("SECRET-OF-GIT") && !text.contains("OUTSIDE"),
                "{name} {path:?}: {text}"
            );
        }
    }
    assert_eq!(
        std::fs::read_to_string(fixture.outer.path().join("outside.txt")).unwrap(),
        "OUTSIDE\n"
    );
    assert_eq!(fixture.get(".git/config"), "SECRET-OF-GIT\n");
    let beside: Vec<_> = std::fs::read_dir(fixture.outer.path()).unwrap().collect();
    assert_eq!(beside.len(), 2, "nothing new beside the workspace");
}

#[test]
fn files_under_a_directory_link_that_leaves_can_not_be_made() {
    let fixture = hostile();
    for path in [
        "dir-link/new.txt",
        "absolute-dir/bakeoff-test-new",
        "git-dir-link/hooks/x",
        "dir-link/a/b",
    ] {
        fixture.refused("write_file", json!({"path": path, "content": "x"}));
    }
    assert!(
        !fixture.outer.path().join("new.txt").exists() && !fixture.outer.path().join("a").exists()
    );
    assert!(!fixture.top().join(".git/hooks").exists());
}

#[test]
fn links_inside_are_read_and_written_beneath_but_never_replaced() {
    let fixture = Fixture::new();
    fixture.put("real/file.txt", "old\n");
    fixture.link("real", "alias");
    fixture.link("real/file.txt", "file-link");
    fixture.link("real/../real/file.txt", "winding");
    assert_eq!(fixture.done("read_file", json!({"path": "alias/file.txt"})), "old\n");
    assert_eq!(fixture.done("read_file", json!({"path": "winding"})), "old\n");
    fixture.done("write_file", json!({"path": "alias/file.txt", "content": "new\n"}));
    assert_eq!(fixture.get("real/file.txt"), "new\n");
    let told = fixture.refused("write_file", json!({"path": "file-link", "content": "x"}));
    assert!(told.contains("real/file.txt"), "{told}");
    fixture
        .refused("edit_file", json!({"path": "file-link", "old_string": "new", "new_string": "x"}));
    assert!(fixture.top().join("file-link").is_symlink());
    fixture.link("loop-b", "loop-a");
    fixture.link("loop-a", "loop-b");
    fixture.refused("read_file", json!({"path": "loop-a"}));
}

#[test]
fn an_absolute_path_under_the_workspace_is_taken() {
    let fixture = Fixture::new();
    fixture.put("src/a.rs", "a\n");
    let path = fixture.top().join("src/a.rs");
    assert_eq!(fixture.done("read_file", json!({"path": path})), "a\n");
    let evil = format!("{}-evil/x", fixture.top().display());
    let told = fixture.refused("read_file", json!({"path": evil}));
    assert!(told.contains("relative to its top"), "says what is allowed: {told}");
}

#[test]
fn fifos_sockets_and_devices_are_refused_without_waiting() {
    let fixture = Fixture::new();
    mkfifoat(CWD, fixture.top().join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.top().join("sock")).unwrap();
    for path in ["pipe", "sock"] {
        for (name, arguments) in [
            ("read_file", json!({"path": path})),
            ("grep", json!({"pattern": "x", "path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"})),
        ] {
            let told = fixture.refused(name, arguments);
            assert!(told.contains("regular file"), "{told}");
        }
    }
    assert!(
        fixture.done("grep", json!({"pattern": "x"})).contains("no match"),
        "a walk passes them over"
    );
}

/// A thread swaps a directory for a link that leads out, over and over, while the tools work in it.
#[test]
fn a_link_swapped_in_during_the_call_leads_nowhere() {
    let fixture = Fixture::new();
    let outer = fixture.outer.path().to_owned();
    std::fs::create_dir_all(outer.join("target")).unwrap();
    std::fs::write(outer.join("target/f.txt"), "OUTSIDE\n").unwrap();
    fixture.put("dir/f.txt", "inside\n");
    fixture.link("../target", "evil");
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, top) = (Arc::clone(&stop), fixture.top().to_owned());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, top.join("dir"), CWD, top.join("evil"), RenameFlags::EXCHANGE)
                    .unwrap();
            }
        })
    };
    for round in 0..300 {
        for (name, arguments) in [
            ("read_file", json!({"path": "dir/f.txt"})),
            ("write_file", json!({"path": "dir/f.txt", "content": format!("inside {round}\n")})),
            ("write_file", json!({"path": "dir/new.txt", "content": "inside\n"})),
            ("grep", json!({"pattern": "OUTSIDE", "files_only": true})),
            ("list_dir", json!({"path": "dir"})),
        ] {
            let output = fixture.call(name, arguments);
            assert!(
                !output.text.contains("OUTSIDE\n") && !output.text.contains("target.txt"),
                "{}",
                output.text
            );
            assert!(name != "grep" || output.text.contains("no match"), "{}", output.text);
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(std::fs::read_to_string(outer.join("target/f.txt")).unwrap(), "OUTSIDE\n");
    assert_eq!(
        std::fs::read_dir(outer.join("target")).unwrap().count(),
        1,
        "nothing was made outside"
    );
}

/// The same for a file's own name, which becomes a link out between the look and the open.
#[test]
fn a_file_swapped_for_a_link_during_the_call_is_not_read() {
    let fixture = Fixture::new();
    fixture.put("f.txt", "inside\n");
    fixture.link("../outside.txt", "evil");
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, top) = (Arc::clone(&stop), fixture.top().to_owned());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, top.join("f.txt"), CWD, top.join("evil"), RenameFlags::EXCHANGE)
                    .unwrap();
            }
        })
    };
    for _ in 0..500 {
        let read = fixture.call("read_file", json!({"path": "f.txt"}));
        assert!(!read.text.contains("OUTSIDE"), "{}", read.text);
        let edit = fixture.call(
            "edit_file",
            json!({"path": "f.txt", "old_string": "OUTSIDE", "new_string": "x"}),
        );
        assert!(edit.is_error, "{}", edit.text);
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(
        std::fs::read_to_string(fixture.outer.path().join("outside.txt")).unwrap(),
        "OUTSIDE\n"
    );
}

#[test]
fn writes_keep_the_mode_and_leave_no_temporary_file() {
    let fixture = Fixture::new();
    fixture.put("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(fixture.top().join("run.sh"), std::fs::Permissions::from_mode(0o750))
        .unwrap();
    fixture.done("write_file", json!({"path": "run.sh", "content": "#!/bin/sh\ntrue\n"}));
    let mode =
        |path: &str| fixture.top().join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run.sh"), 0o750);
    fixture.done("write_file", json!({"path": "new/deep/er.txt", "content": "x"}));
    assert_eq!(mode("new/deep/er.txt"), 0o644);
    fixture.done("write_file", json!({"path": "new/tool", "content": "x", "executable": true}));
    assert_eq!(mode("new/tool"), 0o755);
    // A directory in the way: refused, and nothing is left beside it.
    fixture.refused("write_file", json!({"path": "new/deep", "content": "x"}));
    fixture.refused("write_file", json!({"path": "run.sh/under", "content": "x"}));
    let names: Vec<_> = std::fs::read_dir(fixture.top().join("new"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("tmp")), "{names:?}");
}

#[test]
fn a_moved_workspace_is_still_the_one_that_was_opened() {
    let fixture = Fixture::new();
    fixture.put("f.txt", "mine\n");
    let moved = fixture.outer.path().join("moved");
    std::fs::rename(fixture.top(), &moved).unwrap();
    std::fs::create_dir(fixture.top()).unwrap();
    std::fs::write(fixture.top().join("f.txt"), "a stranger's\n").unwrap();
    assert_eq!(fixture.done("read_file", json!({"path": "f.txt"})), "mine\n");
    unlinkat(CWD, fixture.top().join("f.txt"), AtFlags::empty()).unwrap();
}
