//! A repository of fifty thousand files.

use std::fs;
use std::path::Path;
use std::process::Command;

use bakeoff::repo::{Backend, Spaces};
use bakeoff::sandbox::{Tier, Warden, WardenOptions};

use super::Fixture;
use super::overlay::{diff, lease, reach, scanned};

/// The number of files and directories at and below a path.
fn inodes(path: &Path) -> usize {
    let below =
        fs::read_dir(path).into_iter().flatten().map(|entry| inodes(&entry.unwrap().path()));
    1 + below.sum::<usize>()
}

/// Fifty thousand files, of which none is ever in the user's checkout.
fn large() -> Fixture {
    let fixture = Fixture::new();
    let mut stream =
        "commit refs/heads/main\ncommitter t <t@localhost> 0 +0000\ndata 0\n".to_owned();
    for n in 0..50_000 {
        let text = format!("file {n}\n");
        let path = format!("d{}/e{}/f{n}.txt", n / 2500, n / 50);
        stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
    }
    let file = fixture.dir.path().join("stream");
    fs::write(&file, stream).unwrap();
    let import = format!("git fast-import --quiet < '{}'", file.display());
    let done = Command::new("sh").args(["-c", &import]).current_dir(fixture.top()).status();
    assert!(done.unwrap().success());
    fixture
}

#[test]
fn fifty_thousand_files_cost_a_worker_what_it_changes() {
    let fixture = large();
    let program = env!("CARGO_BIN_EXE_bakeoff").into();
    let warden = Warden::start(&WardenOptions { program }).unwrap();
    let store = fixture.store("r");
    let run = fixture.paths("r").run;
    let store = store.with_spaces(Spaces::probe(&warden, &run, false));
    let workspace = lease(&store);
    let root = reach(&workspace);
    assert_eq!(diff(&store, &workspace), "");
    fs::write(root.join("d19/e999/f49999.txt"), "changed\n").unwrap();
    fs::remove_file(root.join("d0/e0/f0.txt")).unwrap();
    let ours = diff(&store, &workspace);
    let heads: Vec<&str> = ours.lines().filter(|line| line.starts_with("diff ")).collect();
    let paths = ["d0/e0/f0.txt", "d19/e999/f49999.txt"];
    assert_eq!(heads, paths.map(|path| format!("diff --git a/{path} b/{path}")));
    assert_eq!(ours, scanned(&store, &workspace));
    if [Backend::RootOverlay, Backend::UserOverlay].contains(&store.spaces().backend()) {
        // Of the lane's directory without the merged view, which another namespace shows.
        let count = inodes(&run.join("lanes")) + inodes(&run.join("lanes.git"));
        assert!(count < 50, "{count} files and directories for two changes");
    }
    let tree = store.gate_tree(store.base_tree(), None, Tier::Namespaces).unwrap();
    assert_eq!(&tree.verify().unwrap(), store.base_tree());
}
