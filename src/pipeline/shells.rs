//! What an operator's own commands see of a lane: its workspace, writable, at the path that its worker sees, with its
//! git directory and the gates' tools.
//!
//! The workspace is not kept for them: it goes when its worker has ended. Never here: the table in which they stand
//! (`jobs::host`).

use std::ffi::OsString;
use std::sync::{Arc, Weak};

use super::adapters::GateProve;
use crate::jobs::{Command, Ground};
use crate::model::{GatePlan, LeaseId, RunToken};
use crate::repo::Workspace;
use crate::sandbox::{JobSpec, Limits, Network};
use crate::tools::git_view;

/// Runs a command in a directory; 127 where there is none, as for a command that is none.
const IN_DIRECTORY: &str = "cd -- \"$1\" || exit 127; exec /bin/sh -c \"$2\"";

/// Processes of one command at once, as for a gate.
const PROCESSES: u64 = 4096;

/// A lane's workspace.
pub(super) struct LaneGround {
    lease: LeaseId,
    workspace: Weak<Workspace>,
    prove: Arc<GateProve>,
    plan: GatePlan,
}

impl LaneGround {
    /// Over a workspace; bounds are those of the gates.
    pub(super) fn new(workspace: &Arc<Workspace>, prove: &Arc<GateProve>, plan: &GatePlan) -> Self {
        Self {
            lease: workspace.id.clone(),
            workspace: Arc::downgrade(workspace),
            prove: prove.clone(),
            plan: plan.clone(),
        }
    }
}

impl Ground for LaneGround {
    fn lease(&self) -> LeaseId {
        self.lease.clone()
    }

    fn job(&self, command: &Command) -> Result<JobSpec, String> {
        let workspace = self.workspace.upgrade().ok_or("its worker has just ended")?;
        let (mut mounts, mut env) = self.prove.keeper.personal(&workspace.path);
        mounts.push(workspace.mount(true));
        mounts.extend(git_view(&workspace)?);
        if command.terminal.is_none() {
            env.push(("NO_COLOR".into(), "1".into()));
        }
        Ok(JobSpec {
            // The table's owner stamps it.
            token: RunToken::new(""),
            label: "shell".to_owned(),
            argv: argv(command),
            env,
            cwd: workspace.path.clone(),
            mounts,
            network: Network::Off,
            limits: Limits {
                memory_bytes: self.plan.memory_bytes,
                disk_bytes: self.plan.disk_bytes,
                processes: PROCESSES,
                ..Limits::default()
            },
            stdin: Vec::new(),
        })
    }
}

/// The command's words reach the shell as they are: nothing is put behind them, so that a comment at their end
/// ends nothing else (contract R15).
fn argv(command: &Command) -> Vec<OsString> {
    let script = command.script.as_str();
    let words = match command.dir.as_str() {
        "" => vec!["/bin/sh", "-c", script],
        dir => vec!["/bin/sh", "-c", IN_DIRECTORY, "sh", dir, script],
    };
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    // `cd` takes `-`, and names of other shells' variables, for something else.
    if let Some(dir) = words.get_mut(4).filter(|_| !command.dir.starts_with('/')) {
        *dir = format!("./{}", command.dir).into();
    }
    words
}
