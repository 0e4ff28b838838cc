//! What works on this machine, for `doctor`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{git, python, trial};
use crate::repo::{Spaces, Tried};
use crate::sandbox::{
    Feed, JobStatus, Launch, Launcher, Live, Permit, TerminalSize, Warden, toolchain,
};

/// What was found.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// The strongest tier's name.
    pub tier: &'static str,
    /// Whether every probe of the strong tier was stopped.
    pub proven: bool,
    /// Name, whether the attack was stopped, and what stopped it.
    pub probes: Vec<(String, bool, String)>,
    /// What gives the strong tier here; empty when there is a proof.
    pub advice: String,
    /// The ways to make workspaces, in the order in which they were tried.
    pub workspaces: Vec<Tried>,
    /// The one that is taken.
    pub workspace: &'static str,
    /// Tools by name.
    pub toolchains: Vec<(String, PathBuf)>,
    /// Why a command of the operator's can't have a terminal (`shell --pty`), where that is so.
    pub terminals: Result<(), String>,
    /// The git of `run_bash` and its version, or why no command of git's runs.
    pub git: Result<(PathBuf, String), String>,
    /// The Python of `code_execution`, or why models are not offered that tool.
    pub python: Result<PathBuf, String>,
}

/// Attacks the sandbox, tries the ways to make workspaces in `state`, and looks for tools.
pub async fn checkup(warden: &Warden, state: &Path, path: &OsStr, home: &Path) -> Checkup {
    let report = warden.prove().await;
    // Where it can't be made the directory's own line says so.
    let _ = std::fs::create_dir_all(state);
    // A directory of its own: what leases its parts is no run.
    let place = state.join("try");
    let spaces = Spaces::try_all(warden, &place, report.tier.can_mount());
    let _ = std::fs::remove_dir_all(&place);
    let (python, git, terminals) = match Permit::grant(&report, false) {
        Ok(permit) => {
            let launcher = Launcher::new(warden.clone(), permit);
            (
                python::find(&launcher, path, home).await,
                git::find(&launcher, path, home).await,
                terminal(&launcher).await,
            )
        }
        Err(_) => {
            let untried = || "not tried: no sandbox was proved".to_owned();
            (Err(untried()), Err(untried()), Err(untried()))
        }
    };
    let probes = report.probes.iter();
    Checkup {
        tier: report.tier.name(),
        proven: Permit::grant(&report, false).is_ok(),
        probes: probes.map(|p| (p.name.clone(), p.stopped, p.detail.clone())).collect(),
        advice: report.advice(),
        workspaces: spaces.tried().to_vec(),
        workspace: spaces.backend().name(),
        toolchains: toolchain::discover(path, home).found,
        terminals,
        git: git.map(|(git, version)| (git.program, version)),
        python: python.map(|python| python.program),
    }
}

/// Gives a job a terminal, as `shell --pty` does, and lets it look.
async fn terminal(launch: &dyn Launch) -> Result<(), String> {
    let argv = ["/bin/sh", "-c", "test -t 0 && test -t 1 && test -w /dev/tty"];
    let spec = trial::job("terminal", argv, Vec::new(), Vec::new());
    let feed = Feed::Terminal(TerminalSize { rows: 40, columns: 120 });
    let live = Live { feed, ..Live::new(Arc::new(|_| {})) };
    let process = launch.start_live(spec, live).map_err(|error| error.to_string())?;
    match process.ended().await.map_err(|error| error.to_string())?.status {
        JobStatus::Exited(0) => Ok(()),
        other => Err(format!("what a job is given is no terminal ({other:?})")),
    }
}
