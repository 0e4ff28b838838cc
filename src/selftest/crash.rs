//! The selftest of a crash: an engine is killed while a worker's command runs, and what is left is looked for.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::processes::{Process, descendants};
use super::scenario::{LaidOut, Scenario};
use crate::model::Exit;
use crate::repo;
use crate::sandbox::Engine;

/// How long the run may take to get to its middle. It only guards against hanging.
const PATIENCE: Duration = Duration::from_secs(50);

/// How long processes may take to go; they need milliseconds.
const GOING: Duration = Duration::from_secs(20);

/// Why an engine could not be killed in the middle of a run.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// Nothing can be run here, as the engine itself says; nothing is proved of it.
    #[error("{0}")]
    Infra(String),
    /// It can't be started, or the disk refuses.
    #[error("the run to be killed: {0}")]
    Io(#[from] io::Error),
}

/// Starts a run of this program in a scenario, kills it with SIGKILL while the worker's `tail -f` runs, and
/// gives what is left of it that must not be.
///
/// # Errors
/// When the run can't be started, nothing can be run here, or the disk refuses.
pub fn crash(
    program: &Path,
    scenario: &Scenario,
    place: &LaidOut,
    dir: &Path,
) -> Result<Vec<String>, CrashError> {
    let home = dir.join("home");
    let config = dir.join("config/bakeoff");
    fs::create_dir_all(&config)?;
    fs::create_dir_all(&home)?;
    fs::write(config.join("config.toml"), &place.config.1)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let env: [(OsString, OsString); 4] = [
        ("PATH".into(), path),
        ("HOME".into(), home.clone().into()),
        ("BAKEOFF_HOME".into(), home.clone().into()),
        ("XDG_CONFIG_HOME".into(), dir.join("config").into()),
    ];
    let task = scenario.task.trim();
    let mut engine =
        Engine::start(program, &["run", "-q", "--no-judge", task], &env, &place.repository)?;
    let Some(below) = middle(&mut engine) else {
        let said = engine.said().trim().to_owned();
        return match engine.code() {
            Some(code) if code == i32::from(Exit::Infra.code()) => Err(CrashError::Infra(said)),
            _ => Ok(vec![format!("the run never came to its middle: {said}")]),
        };
    };
    engine.kill();
    let mut faults = outlived(&below);
    repo::sweep(&home).map_err(io::Error::other)?;
    faults.extend(left_on_disk(&home.join("state/runs")));
    Ok(faults)
}

/// Waits for the worker's command, and gives all processes of the run that there are then.
fn middle(engine: &mut Engine) -> Option<Vec<Process>> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && engine.is_running() {
        let below = descendants(engine.id());
        if below.iter().any(|process| process.command().starts_with("tail -f ")) {
            return Some(below);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Those that are still there when they had time enough to go.
fn outlived(processes: &[Process]) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let alive: Vec<&Process> = processes.iter().filter(|process| process.is_alive()).collect();
        if alive.is_empty() || begun.elapsed() > GOING {
            let told = |process: &&Process| {
                format!("process {} outlived its engine: {}", process.pid, process.command())
            };
            let told = alive.iter().map(told).collect();
            alive.iter().for_each(|process| end(process.pid));
            return told;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends what should have ended by itself: a fault that was found must not stay on the machine.
fn end(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may be gone by now.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// What the next start's sweep must have taken away.
fn left_on_disk(runs: &Path) -> Vec<String> {
    let entries = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let runs = entries(runs);
    if runs.is_empty() {
        return vec!["the run has left no directory: nothing was proved".to_owned()];
    }
    let parts = runs.iter().flat_map(|run| ["lanes", "gates", "leases"].map(|part| run.join(part)));
    let left = parts.flat_map(|part| entries(&part));
    left.map(|path| format!("{} is left", path.display())).collect()
}
