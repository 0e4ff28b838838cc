//! The tool `bash_jobs`: lists, reads and ends the jobs that `run_bash` started in the background.
//!
//! Sees the table of the worker run that calls, and of other worker runs only that they have jobs in the
//! same workspace. Never here: the operator's jobs.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Jobs, Tool, ToolContext, ToolOutput, args, need_directory};
use crate::jobs::{JobView, KillReport, WatchState};
use crate::model::chat::ToolSpec;
use crate::model::{JobId, clip};

/// The most bytes of output in one answer, head and tail.
const MAX_OUTPUT: usize = 48 << 10;
/// The longest that a read waits, in seconds.
const MOST_WAIT: u64 = 60;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to do.
    action: Action,
    /// The job, for read and kill.
    job_id: Option<String>,
    /// For read: the byte to read from, as an earlier read named it. Default: 0, all output so far.
    from: Option<u64>,
    /// For read: wait so long for the job's end or for output behind `from`, in seconds. Default: 0; at most 60.
    wait_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Read,
    Kill,
}

/// Looks after background jobs.
#[derive(Debug)]
pub struct BashJobs;

impl Tool for BashJobs {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "bash_jobs",
            "Looks after jobs that run_bash started in the background. list: the jobs of this workspace. read: how a job of yours stands, and its output. kill: ends a job of yours with all its processes.",
        )
    }

    fn key(&self) -> String {
        "run_bash".to_owned()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        async move { act(context, arguments).await.unwrap_or_else(|refusal| refusal) }.boxed()
    }
}

async fn act(context: &ToolContext, arguments: Value) -> Result<ToolOutput, ToolOutput> {
    let Arguments { action, job_id, from, wait_seconds } = args::parse("bash_jobs", arguments)?;
    need_directory(context)?;
    let Some(jobs) = &context.jobs else {
        return Err(ToolOutput::refused("refused: nothing can run in the background here"));
    };
    if matches!(action, Action::List) {
        return Ok(list(jobs, context));
    }
    let id = job_id.map(|id| JobId::new(id.trim())).ok_or_else(|| {
        ToolOutput::refused("job_id is missing: read and kill need one; list shows them")
    })?;
    match action {
        Action::Kill => kill(jobs, &id).await,
        _ => {
            let wait = Duration::from_secs(wait_seconds.unwrap_or(0).min(MOST_WAIT));
            read(jobs, &id, from.unwrap_or(0), wait).await
        }
    }
}

fn list(jobs: &Jobs, context: &ToolContext) -> ToolOutput {
    let all = jobs.book.of_lease(&context.workspace.id);
    if all.is_empty() {
        return ToolOutput::ok("no jobs");
    }
    let row = |job: &JobView| {
        let (owner, state, age) = (&job.owner, job.state.words(), job.age.as_secs());
        let watch = watch_words(job);
        format!(
            "{}  {owner}  {state}  {age} s  {} bytes{watch}  {}\n",
            job.id, job.written, job.label
        )
    };
    ToolOutput::ok(all.iter().map(row).collect::<String>())
}

/// That a job is not watched any more, behind a semicolon.
fn watch_words(job: &JobView) -> String {
    let words = job.watch.and_then(WatchState::words);
    words.map(|words| format!("; {words}")).unwrap_or_default()
}

fn none(id: &JobId) -> ToolOutput {
    ToolOutput::refused(format!("you have no job {id}; bash_jobs with action list shows the jobs"))
}

async fn read(
    jobs: &Jobs,
    id: &JobId,
    from: u64,
    wait: Duration,
) -> Result<ToolOutput, ToolOutput> {
    // Past the end there is nothing to wait for, and nothing to go on from.
    let (job, _) = jobs.table.read(id, from).ok_or_else(|| none(id))?;
    let from = from.min(job.written);
    if !wait.is_zero() {
        jobs.table.wait(id, from, wait).await;
    }
    let (job, reading) = jobs.table.read(id, from).ok_or_else(|| none(id))?;
    let body = clip(&reading.text(), MAX_OUTPUT).text;
    Ok(ToolOutput::ok(format!(
        "[job {id}: {}; {} bytes so far{}; what comes later is read with from={}]\n{body}",
        job.state.words(),
        job.written,
        watch_words(&job),
        reading.next
    )))
}

async fn kill(jobs: &Jobs, id: &JobId) -> Result<ToolOutput, ToolOutput> {
    let report = jobs.table.kill(id).await.ok_or_else(|| none(id))?;
    let watch = jobs.table.list().iter().find(|job| job.id == *id).map(watch_words);
    let watch = watch.unwrap_or_default();
    match report {
        KillReport::Proven(state) => Ok(ToolOutput::ok(format!(
            "job {id} is over, with all its processes: {}{watch}",
            state.words()
        ))),
        KillReport::Over(state) => {
            Ok(ToolOutput::ok(format!("job {id} had ended before: {}{watch}", state.words())))
        }
        KillReport::Survivors(names) => Err(ToolOutput::refused(format!(
            "job {id} was killed, but these may be alive: {}; it stays listed",
            names.join(", ")
        ))),
    }
}
