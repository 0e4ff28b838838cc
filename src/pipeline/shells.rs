//! What an operator's own commands see of a lane: its workspace, writable, at the path that its worker sees, with its
//! git directory and the gates' tools.
//!
//! The workspace is not kept for them: it goes when its worker has ended. Never here: the table in which they stand
//! (`jobs::host`).

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use super::adapters::GateProve;
use super::alone::as_program;
use crate::jobs::{Command, Ground};
use crate::model::{GatePlan, LeaseId, RunToken};
use crate::repo::Workspace;
use crate::sandbox::{JobSpec, Limits, Network};
use crate::tools::git_view;

/// Runs a command in a directory; 127 where there is none, as for a command that is none. A link may lead elsewhere.
const IN_DIRECTORY: &str = r#"top=$(pwd -P); cd -- "$1" || exit 127
case $(pwd -P)/ in "$top"/*) exec /bin/sh -c "$2" ;; esac
printf 'bakeoff: the directory %s leads out of the workspace\n' "$1" >&2; exit 125"#;

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
            argv: argv(&script(command), &below(&workspace.path, &command.dir)?),
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

/// The script; a shell with a terminal becomes the program that it is, so that a ctrl-C is the program's alone.
fn script(command: &Command) -> String {
    let program = command.terminal.and_then(|_| as_program(&command.script));
    program.unwrap_or_else(|| command.script.clone())
}

/// The command's words reach the shell as they are: nothing is put behind them, so that a comment at their end
/// ends nothing else (contract R15).
fn argv(script: &str, dir: &Path) -> Vec<OsString> {
    match dir.as_os_str().is_empty() {
        true => vec!["/bin/sh".into(), "-c".into(), script.into()],
        false => {
            // `cd` takes `-`, and names of other shells' variables, for something else.
            let dir = Path::new(".").join(dir).into_os_string();
            vec![
                "/bin/sh".into(),
                "-c".into(),
                IN_DIRECTORY.into(),
                "sh".into(),
                dir,
                script.into(),
            ]
        }
    }
}

/// A directory as it lies below a workspace's top, where the operator may also give the path that the worker sees.
///
/// # Errors
/// In words, when it lies elsewhere.
fn below(top: &Path, dir: &str) -> Result<PathBuf, String> {
    let path = Path::new(dir);
    let path = path.strip_prefix(top).unwrap_or(path);
    let mut depth = 0_usize;
    for part in path.components() {
        let deeper = match part {
            Component::CurDir => Some(depth),
            Component::Normal(_) => Some(depth + 1),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = deeper.ok_or_else(|| {
            format!("{dir:?} is no directory below the workspace's top; give its path from there")
        })?;
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_below_the_top() {
        let top = Path::new("/home/ada/repo");
        let path = |dir| below(top, dir).map(|path| path.to_string_lossy().into_owned());
        for (dir, found) in [
            ("", ""),
            (".", "."),
            ("sub/../other", "sub/../other"),
            ("..sub", "..sub"),
            ("/home/ada/repo", ""),
            ("/home/ada/repo/sub", "sub"),
        ] {
            assert_eq!(path(dir).as_deref(), Ok(found), "{dir}");
        }
        for dir in
            ["..", "../..", "sub/../..", "/", "/etc", "/home/ada/repository", "/home/ada/repo/.."]
        {
            let refused = path(dir).unwrap_err();
            assert!(refused.contains("below the workspace's top"), "{dir}: {refused}");
        }
    }
}
