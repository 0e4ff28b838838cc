//! A launcher whose job stages: what git wrote is taken over once it has ended by itself.

use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::repo::Staging;
use crate::sandbox::{
    Feeding, InputState, JobExit, JobSpec, JobStatus, Launch, Live, Process, Reaped, SandboxError,
};

/// One job's launcher, for both ways of running it (contract C11).
pub(super) struct Staged<'l> {
    launch: &'l dyn Launch,
    /// What the job writes; whoever waits for its end takes it.
    staging: Mutex<Option<Staging>>,
}

impl<'l> Staged<'l> {
    /// Around the launcher that runs the job.
    pub(super) fn new(launch: &'l dyn Launch, staging: Option<Staging>) -> Self {
        Self { launch, staging: Mutex::new(staging) }
    }

    fn staging(&self) -> Option<Staging> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Launch for Staged<'_> {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        let staging = self.staging();
        async move { settle(self.launch.run(spec, cancel).await, staging).await }.boxed()
    }

    fn start_live(&self, spec: JobSpec, live: Live) -> Result<Box<dyn Process>, SandboxError> {
        let staging = Mutex::new(self.staging());
        let process = self.launch.start_live(spec, live)?;
        Ok(Box::new(StagedJob { process, staging }))
    }
}

/// A job in the background whose end takes over what it staged.
struct StagedJob {
    process: Box<dyn Process>,
    staging: Mutex<Option<Staging>>,
}

impl Process for StagedJob {
    fn is_live(&self) -> bool {
        self.process.is_live()
    }

    fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>> {
        let staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { settle(self.process.ended().await, staging).await }.boxed()
    }

    fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>> {
        self.process.end()
    }

    fn feed(&self, feeding: Feeding) -> BoxFuture<'_, Result<InputState, String>> {
        self.process.feed(feeding)
    }

    fn allow(&self, bytes: Option<u64>) {
        self.process.allow(bytes);
    }
}

/// Takes over what a job staged that ended by itself, whatever its exit status: git may have staged a part. What
/// was ended by somebody else leaves nothing.
async fn settle(
    ended: Result<JobExit, SandboxError>,
    staging: Option<Staging>,
) -> Result<JobExit, SandboxError> {
    let exit = ended?;
    let Some(staging) = staging else { return Ok(exit) };
    let by_itself = matches!(exit.status, JobStatus::Exited(_));
    let settled = tokio::task::spawn_blocking(move || match by_itself {
        true => staging.take_over(),
        // Removing much takes a moment, too.
        false => {
            drop(staging);
            Ok(())
        }
    });
    match settled.await {
        Ok(Ok(())) => Ok(exit),
        Ok(Err(error)) => Err(SandboxError::NotTaken(error.to_string())),
        Err(error) => Err(SandboxError::NotTaken(error.to_string())),
    }
}
