//! One command in one tree, as a job of the sandbox.

use std::ffi::OsString;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::{Gatekeeper, Work};
use crate::gate::error::GateError;
use crate::gate::grounds::Ground;
use crate::gate::outcome::Outcome;
use crate::gate::{carry, env};
use crate::jobs::mint_token;
use crate::model::{EventSink, GateKind, RunEvent};
use crate::sandbox::{JobExit, JobSpec, JobStatus, Limits, Mount, Network, SandboxError};

/// Output kept of one command: enough for a compiler's JSON of a large workspace.
const OUTPUT_BYTES: usize = 16 << 20;

/// Processes of one gate at once: a build uses one for each core, test runners more.
const PROCESSES: u64 = 4096;

impl Gatekeeper {
    /// Runs a command in a tree. The inner error says why it could not run.
    pub(super) async fn run(
        &self,
        work: &Work<'_>,
        tree: &dyn Ground,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Result<Outcome, String>, GateError> {
        let Some(launch) = &self.launch else {
            return Ok(Err("no sandbox, no execution: see `bakeoff doctor`".to_owned()));
        };
        events.send(RunEvent::GateBegan {
            candidate: work.who.cloned(),
            command: work.command.line.clone(),
        });
        let cwd = tree.cwd(&self.plan.dir);
        let root = cwd.to_string_lossy().into_owned();
        let job = self.job(work, tree)?;
        match launch.run(job, cancel).await {
            Err(SandboxError::Cancelled) => Err(GateError::Cancelled),
            Err(error) => Ok(Err(error.to_string())),
            Ok(JobExit { status: JobStatus::Killed, .. }) if cancel.is_cancelled() => {
                Err(GateError::Cancelled)
            }
            Ok(JobExit { status: JobStatus::Killed, .. }) => {
                Ok(Err("the engine ended the command".to_owned()))
            }
            Ok(exit) => Ok(Ok(Outcome::of(work.command, exit, &root))),
        }
    }

    /// What an operator's own command finds in a workspace that is seen at `top`: the gates' tools, and an
    /// environment for a person. Variables that were named for the gates are not in it.
    pub fn personal(&self, top: &Path) -> (Vec<Mount>, Vec<(OsString, OsString)>) {
        let programs = carry::program_dirs(top, &self.carry);
        let env = env::personal(&self.toolchains.env, &programs);
        (self.toolchains.mounts.clone(), env.into_iter().chain(env::ceiling(top)).collect())
    }

    fn job(&self, work: &Work<'_>, tree: &dyn Ground) -> Result<JobSpec, GateError> {
        let network = match work.gate {
            GateKind::Setup if self.plan.setup_network => Network::Host,
            _ => Network::Off,
        };
        let tools = match (&self.fetching, network) {
            (Some(fetching), Network::Host) => &fetching.tools,
            _ => &self.toolchains,
        };
        let who = work.who.map_or("base", |id| id.as_str());
        let programs = carry::program_dirs(&tree.cwd(""), &self.carry);
        let shell = ["sh", "-c", work.command.line.as_str()];
        let mut env = env::environment(&tools.env, &programs, &self.env, network);
        if work.gate == GateKind::Test {
            env::name_tests(&mut env);
        }
        let mut mounts = tools.mounts.clone();
        for (name, at) in &tools.kept {
            mounts.extend(tree.cache(name, at)?);
        }
        mounts.extend(tree.mounts());
        Ok(JobSpec {
            token: mint_token(),
            label: format!("{} {who}", work.label),
            argv: shell.into_iter().map(OsString::from).collect(),
            env: env.into_iter().chain(env::ceiling(&tree.cwd(""))).collect(),
            cwd: tree.cwd(&self.plan.dir),
            mounts,
            network,
            limits: Limits {
                wall: work.wall,
                memory_bytes: self.plan.memory_bytes,
                disk_bytes: self.plan.disk_bytes,
                processes: PROCESSES,
                output_bytes: OUTPUT_BYTES,
                ..Limits::default()
            },
            stdin: Vec::new(),
        })
    }
}
