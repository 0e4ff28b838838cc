//! The tool `code_execution`: a Python snippet in the sandbox, which may call the worker's other tools.
//!
//! The snippet sees the interpreter, the system's directories and the workspace, has no network, and one
//! socket, which it inherits. Never here: which interpreter (`sandbox::toolchain` looks), whether a
//! model may have the tool at all (whoever makes the registry decides).

mod serve;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Registry, Tool, ToolContext, ToolOutput, args, need_directory};
use crate::jobs::Ring;
use crate::model::chat::ToolSpec;
use crate::sandbox::toolchain::Python;
use crate::sandbox::{
    CHANNEL, JobExit, JobSpec, JobStatus, Limits, Live, LiveEvent, Mount, Network, SandboxError,
};

const NAME: &str = "code_execution";
/// What runs the snippet.
const BOOTSTRAP: &str = include_str!("bootstrap.py");
/// How long a snippet may take when it does not say.
const DEFAULT_SECONDS: u64 = 60;
/// The longest that one may ask for.
const MOST_SECONDS: u64 = 300;
/// The longest snippet, in bytes.
const MAX_CODE: usize = 256 << 10;
/// The most bytes of output that are kept, head and tail.
const MAX_OUTPUT: usize = 48 << 10;
/// The most git directories that are named.
const MAX_NAMED: usize = 8;
/// Memory of each process, in bytes.
const MEMORY: u64 = 2 << 30;

/// The most that one snippet may take on disk, in bytes.
const MOST_DISK: u64 = 1 << 30;
/// What all changes of a workspace may take on disk before a snippet is left the least, in bytes.
const WORKSPACE_DISK: u64 = 2 << 30;
/// What a snippet may take on disk however much is there, in bytes.
const LEAST_DISK: u64 = 16 << 20;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The Python 3 code. What it prints is the answer.
    code: String,
    /// The longest that it may take, in seconds, from 1 to 300. Default: 60.
    timeout_seconds: Option<u64>,
}

/// Runs snippets with one interpreter.
pub struct CodeExecution {
    python: Python,
    /// What a snippet may call.
    tools: Registry,
}

impl CodeExecution {
    /// The tool's name, and its key.
    pub const NAME: &'static str = NAME;

    /// With this interpreter; a snippet may call nothing until the tool stands in a registry.
    pub fn new(python: Python) -> Self {
        Self { python, tools: Registry::empty() }
    }

    async fn run(&self, context: &ToolContext, arguments: Value) -> Result<ToolOutput, ToolOutput> {
        let arguments: Arguments = args::parse(NAME, arguments)?;
        if arguments.code.len() > MAX_CODE {
            return Err(ToolOutput::refused(format!(
                "the code has {} bytes, at most {MAX_CODE} are taken; nothing was run",
                arguments.code.len()
            )));
        }
        need_directory(context)?;
        let seconds = arguments.timeout_seconds.unwrap_or(DEFAULT_SECONDS);
        if !(1..=MOST_SECONDS).contains(&seconds) {
            return Err(ToolOutput::refused(format!(
                "timeout_seconds is {seconds}, and must be from 1 to {MOST_SECONDS}; nothing was run. What takes longer is a job: \
                 run_bash with background"
            )));
        }
        let Some(launch) = &context.launch else {
            return Err(ToolOutput::refused("refused: no sandbox, no execution"));
        };
        let not_run = |error: &dyn std::fmt::Display| {
            ToolOutput::refused(format!("the code was not run: {error}"))
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|e| not_run(&e))?;
        let output = Arc::new(Mutex::new(Ring::new(MAX_OUTPUT)));
        let live = Live { channel: Some(theirs.into()), ..Live::new(keep(output.clone())) };
        let before = git_within(context).await.map_err(|error| not_run(&error))?;
        let (wall, disk) = (Duration::from_secs(seconds), disk_left(held(context).await));
        let spec = self.job(context, &before, wall, disk);
        let process = launch.start_live(spec, live).map_err(|e| not_run(&e))?;
        let calls = serve::calls(ours, &arguments.code, &self.tools, context);
        let mut ended = process.ended();
        let exit = tokio::select! {
            biased;
            exit = &mut ended => exit,
            // The snippet may go on without its channel; what it prints counts.
            () = calls => ended.await,
        };
        let exit = exit.map_err(|error: SandboxError| not_run(&error))?;
        let made = made_since(context, &before).await;
        let ring = output.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answer(&exit, &made, &ring, seconds))
    }

    fn job(
        &self,
        context: &ToolContext,
        git: &[PathBuf],
        wall: Duration,
        disk_bytes: u64,
    ) -> JobSpec {
        let workspace = &context.workspace;
        let mut mounts = self.python.mounts.clone();
        mounts.push(workspace.mount(!context.read_only));
        mounts.extend(git.iter().map(|at| Mount::Covered { at: at.clone() }));
        // Isolated: no variable of Python's own is heeded. Compiled files would stand in the diff.
        let (channel, longest) = (CHANNEL.to_string(), serve::MAX_QUESTION.to_string());
        let options = ["-I", "-B", "-X", "utf8", "-c", BOOTSTRAP, &channel, &longest];
        let program = self.python.program.clone().into_os_string();
        JobSpec {
            token: context.token.clone(),
            label: NAME.to_owned(),
            argv: [program].into_iter().chain(options.map(Into::into)).collect(),
            env: self.python.env.clone(),
            cwd: workspace.path.clone(),
            mounts,
            network: Network::Off,
            limits: Limits {
                wall,
                memory_bytes: MEMORY,
                processes: 64,
                file_bytes: 1 << 30,
                output_bytes: MAX_OUTPUT,
                disk_bytes,
                ..Limits::default()
            },
            stdin: Vec::new(),
        }
    }
}

/// What a snippet may take on disk, in bytes, where its workspace's changes hold so much: a second one does not
/// begin anew. A little is left, so that code can tidy up.
fn disk_left(held: u64) -> u64 {
    WORKSPACE_DISK.saturating_sub(held).clamp(LEAST_DISK, MOST_DISK)
}

/// The git directories that the code is to be kept from.
async fn git_within(context: &ToolContext) -> Result<Vec<PathBuf>, String> {
    let workspace = context.workspace.clone();
    let found = tokio::task::spawn_blocking(move || workspace.git_within()).await;
    found.map_err(|error| error.to_string())?
}

/// What the workspace's changes hold on disk; as much as can be where that can't be told.
async fn held(context: &ToolContext) -> u64 {
    let workspace = context.workspace.clone();
    tokio::task::spawn_blocking(move || workspace.held()).await.unwrap_or(u64::MAX)
}

/// What is said of git directories that came to be while the code ran: whoever wrote one can have a program
/// run by the next git command there.
async fn made_since(context: &ToolContext, before: &[PathBuf]) -> String {
    let top = &context.workspace.path;
    let named = |path: &PathBuf| path.strip_prefix(top).unwrap_or(path).display().to_string();
    let made = match git_within(context).await {
        Ok(after) => after.iter().filter(|path| !before.contains(path)).map(named).collect(),
        Err(error) => vec![format!("perhaps, since this failed: {error}")],
    };
    if made.is_empty() {
        return String::new();
    }
    let made: Vec<String> = made.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
    format!(
        "[a git repository was made: {}; run no git there before its config and hooks were looked at]\n",
        made.join(", ")
    )
}

fn keep(output: Arc<Mutex<Ring>>) -> crate::sandbox::LiveSink {
    Arc::new(move |event| {
        if let LiveEvent::Output(bytes) = event {
            output.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    })
}

impl Tool for CodeExecution {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            NAME,
            "Runs Python 3 code in a sandbox: no network, the workspace as working directory, its changes are part of your work. What it prints comes back, and a traceback when it fails. call_tool(name, **arguments) calls any of your other tools but submit and delegate_subtask from inside and returns the answer as text; a tool that refuses raises ToolError. A process that the code leaves running ends with it; for one that goes on, start a job with run_bash.",
        )
    }

    fn within(&self, others: &Registry) -> Option<Arc<dyn Tool>> {
        let tools = others.without([NAME, "delegate_subtask"]).without_submit();
        Some(Arc::new(Self { python: self.python.clone(), tools }))
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        async move { self.run(context, arguments).await.unwrap_or_else(|refusal| refusal) }.boxed()
    }
}

/// One line on how it ended, then what it printed. A snippet that failed is an error: its worker is to
/// look at it (contract C17).
fn answer(exit: &JobExit, made: &str, output: &Ring, seconds: u64) -> ToolOutput {
    let (how, is_error) = match exit.status {
        JobStatus::Exited(code) => (format!("exit {code}"), code != 0),
        JobStatus::Signalled(9) => {
            let most = MEMORY >> 20;
            let why = format!("perhaps for want of memory, of which each process has {most} MiB");
            (format!("ended by signal 9, {why}"), true)
        }
        JobStatus::Signalled(signal) => (format!("ended by signal {signal}"), true),
        JobStatus::TimedOut => {
            let more = format!("timeout_seconds may be up to {MOST_SECONDS}");
            (format!("stopped after {seconds} seconds ({more}); its output so far follows"), true)
        }
        JobStatus::DiskLimit { held, left: Some(left) } => {
            (format!("stopped: {}", JobStatus::disk_words(held, Some(left))), true)
        }
        JobStatus::DiskLimit { held, left: None } => {
            let (most, all) = (MOST_DISK >> 20, WORKSPACE_DISK >> 20);
            let words =
                format!("{most} MiB are the most, and the workspace's changes may hold {all} MiB");
            (format!("stopped: it held {} MiB on disk; {words}", held >> 20), true)
        }
        JobStatus::Killed => ("stopped by the engine".to_owned(), true),
    };
    let text = format!("[{how}]\n{made}{}", output.read(0, true).text());
    ToolOutput { is_error, ..ToolOutput::ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_already_counts_against_the_disk() {
        assert_eq!(disk_left(0), MOST_DISK);
        assert_eq!(disk_left(WORKSPACE_DISK - (300 << 20)), 300 << 20);
        assert_eq!(disk_left(WORKSPACE_DISK), LEAST_DISK);
        assert_eq!(disk_left(u64::MAX), LEAST_DISK);
    }
}
