//! What a job is started with, and the bounds of the table that it stands in.

use std::time::Duration;

use super::watch::Watch;
use crate::model::LeaseId;
use crate::sandbox::JobSpec;

/// Bounds of one table.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// The longest that a job may run.
    pub ceiling: Duration,
    /// How long the output of an ended job stays readable, from its exit.
    pub retention: Duration,
    /// Jobs at once.
    pub running: usize,
    /// Ended jobs that are kept; the one that ended first goes first.
    pub ended: usize,
    /// Output that is kept of each, in bytes.
    pub output: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            ceiling: Duration::from_secs(1800),
            retention: Duration::from_secs(600),
            running: 16,
            ended: 32,
            output: 256 << 10,
        }
    }
}

/// A job to start.
pub struct Order {
    /// The process.
    pub spec: JobSpec,
    /// The workspace that it works in.
    pub lease: LeaseId,
    /// Its command line, for lists.
    pub label: String,
    /// Which worker of the run starts it: 0 is the top.
    pub by: u32,
    /// A pattern to watch for.
    pub watch: Option<Watch>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::jobs::{JobBook, JobTable};
    use crate::model::{JobId, LaneId, RunToken};
    use crate::sandbox::{
        JobExit, JobStatus, Launch, Limits, Live, Network, Process, Reaped, SandboxError,
    };

    /// A process that writes a line and ends when it is told to.
    struct Told(Arc<Notify>);

    impl Process for Told {
        fn is_live(&self) -> bool {
            true
        }

        fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>> {
            async {
                self.0.notified().await;
                let status = JobStatus::Exited(0);
                Ok(JobExit { status, output: Vec::new(), dropped: 0, elapsed: Duration::ZERO })
            }
            .boxed()
        }

        fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>> {
            async { Ok(Reaped::default()) }.boxed()
        }
    }

    #[derive(Default)]
    struct Starts(Arc<Notify>);

    impl Launch for Starts {
        fn run<'a>(
            &'a self,
            _: JobSpec,
            _: &'a CancellationToken,
        ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
            async { Err(SandboxError::NotPermitted("only live ones".into())) }.boxed()
        }

        fn start_live(&self, _: JobSpec, _: Live) -> Result<Box<dyn Process>, SandboxError> {
            Ok(Box::new(Told(self.0.clone())))
        }
    }

    fn start(table: &JobTable, launch: &Starts) -> JobId {
        let spec = JobSpec {
            token: RunToken::new("t"),
            label: "true".to_owned(),
            argv: vec!["true".into()],
            env: Vec::new(),
            cwd: "/".into(),
            mounts: Vec::new(),
            network: Network::Off,
            limits: Limits::default(),
            stdin: Vec::new(),
        };
        let (lease, label) = (LeaseId::new("a"), "true".to_owned());
        table.start(launch, Order { spec, lease, label, by: 0, watch: None }).unwrap()
    }

    // contract R7
    #[tokio::test(start_paused = true)]
    async fn what_ended_is_kept_for_its_time_from_the_exit_on() {
        let second = Duration::from_secs(1);
        let limits = JobLimits::default();
        let table = JobBook::new(limits).open(&LaneId::of("one", 1));
        let launch = Starts::default();
        let id = start(&table, &launch);
        // However long it runs, and whenever it is read, the time begins with its exit.
        tokio::time::advance(limits.retention * 2).await;
        assert!(table.read(&id, 0).is_some());
        launch.0.notify_one();
        table.wait(&id, u64::MAX, second).await;
        let is_there = || table.list().iter().any(|job| job.id == id);
        assert!(is_there() && !table.has_live(0));
        tokio::time::advance(limits.retention - second).await;
        assert!(is_there() && table.read(&id, 0).is_some());
        tokio::time::advance(second).await;
        assert!(!is_there() && table.read(&id, 0).is_none());
    }
}
