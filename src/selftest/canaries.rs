//! The selftest of the sandbox: its attacks are stopped, and would be noticed if they were not.

use crate::sandbox::{Permit, SandboxError, Spoil, Warden};

/// What is wrong with the sandbox or with what probes it; empty when nothing is.
///
/// # Errors
/// When the strong tier can't be had here.
pub async fn canaries(warden: &Warden) -> Result<Vec<String>, SandboxError> {
    let report = warden.prove().await;
    let mut faults: Vec<String> = report
        .probes
        .iter()
        .filter(|probe| !probe.stopped)
        .map(|probe| format!("{} was not stopped: {}", probe.name, probe.detail))
        .collect();
    if report.trouble.is_some() {
        // No strong tier: nothing can be said of it.
        Permit::grant(&report, false)?;
    }
    for spoil in [Spoil::ShowsBait, Spoil::SharesBait, Spoil::HostNetwork] {
        let spoiled = warden.probe_spoiled(report.tier, spoil).await?;
        if spoiled.probes.iter().all(|probe| probe.stopped) {
            faults.push(format!("the probes don't notice a job that is spoiled ({spoil:?})"));
        }
    }
    Ok(faults)
}
