//! What works on this machine, for `doctor`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::sandbox::{Permit, Warden, toolchain};

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
    /// Tools by name.
    pub toolchains: Vec<(String, PathBuf)>,
}

/// Attacks the sandbox and looks for tools.
pub async fn checkup(warden: &Warden, path: &OsStr, home: &Path) -> Checkup {
    let report = warden.prove().await;
    let probes = report.probes.iter();
    Checkup {
        tier: report.tier.name(),
        proven: Permit::grant(&report, false).is_ok(),
        probes: probes.map(|p| (p.name.clone(), p.stopped, p.detail.clone())).collect(),
        advice: report.advice(),
        toolchains: toolchain::discover(path, home).found,
    }
}
