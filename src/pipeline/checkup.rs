//! What works on this machine, for `doctor`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::python;
use crate::repo::{Spaces, Tried};
use crate::sandbox::{Launcher, Permit, Warden, toolchain};

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
    let python = match Permit::grant(&report, false) {
        Ok(permit) => python::find(&Launcher::new(warden.clone(), permit), path, home).await,
        Err(_) => Err("not tried: no sandbox was proved".to_owned()),
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
        python: python.map(|python| python.program),
    }
}
