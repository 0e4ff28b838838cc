//! A killed engine leaves a workspace behind, and the next start takes it away.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bakeoff::model::LaneId;
use bakeoff::repo::{Spaces, Store, StorePaths, UserRepo, sweep};
use bakeoff::sandbox::{Warden, WardenOptions};

use super::Fixture;

const TOP: &str = "BAKEOFF_TEST_TOP";
const COPIES: &str = "BAKEOFF_TEST_COPIES";
const HOME: &str = "BAKEOFF_TEST_HOME";

#[test]
#[ignore = "the process that the test below kills"]
fn a_child_that_leases_and_waits() {
    let (Ok(top), Ok(home)) = (std::env::var(TOP), std::env::var(HOME)) else { return };
    let home = PathBuf::from(home);
    let paths = StorePaths { cache: home.join("cache"), run: home.join("runs/killed") };
    let user = UserRepo::discover(top.as_ref()).unwrap();
    let store = Store::prepare(&user, &user.resolve("HEAD").unwrap(), false, &paths).unwrap();
    let warden = Warden::start(&WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() });
    let spaces = Spaces::probe(&warden.unwrap(), &paths.run, true);
    let store = match std::env::var_os(COPIES) {
        Some(_) => store,
        None => store.with_spaces(spaces),
    };
    let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
    // An overlay has its upper directory written to and its work directory in use.
    let root = format!("/proc/self/fd/{}", workspace.root.as_raw_fd());
    std::fs::remove_file(format!("{root}/run.sh")).unwrap();
    std::fs::write(format!("{root}/src/lib.rs"), "changed\n").unwrap();
    let gate = store.gate_tree(store.base_tree(), None, bakeoff::sandbox::Tier::None).unwrap();
    let lane = paths.run.join("lanes/a_2f1");
    eprintln!("LEASED {} {}", lane.display(), gate.cwd("").display());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn what_a_killed_engine_leaves_is_swept_and_nothing_else() {
    for copies in [true, false] {
        kill_and_sweep(copies);
    }
}

fn kill_and_sweep(copies: bool) {
    let fixture = Fixture::sample();
    let home = fixture.dir.path().join("home");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "repo::killed::a_child_that_leases_and_waits",
            "--ignored",
            "--nocapture",
        ])
        .env(TOP, fixture.top())
        .env(HOME, &home)
        .envs(copies.then_some((COPIES, "1")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.find_map(|l| l.unwrap().strip_prefix("LEASED ").map(str::to_owned)).unwrap();
    let left: Vec<PathBuf> = line.split(' ').map(PathBuf::from).collect();
    let mine = fixture.store("live");
    let held = mine.lease(&LaneId::of("a", 1)).unwrap();
    assert_eq!(sweep(&home).unwrap().leases, 0, "both owners live");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(left.iter().all(|path| path.exists()));
    let swept = sweep(&home).unwrap();
    assert_eq!((swept.leases, swept.failed.len()), (2, 0));
    assert!(swept.files > 10 && swept.bytes > 0, "{swept:?}");
    assert!(left.iter().all(|path| !path.exists()));
    assert_eq!(fs::read_dir(home.join("runs/killed/leases")).unwrap().count(), 0);
    assert!(held.path.join("README.md").exists());
    assert_eq!(sweep(&home).unwrap().leases, 0);
}
