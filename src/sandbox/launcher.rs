//! Running jobs under a permit. Never here: how a job is confined, or whether it may run.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::job::{JobExit, JobSpec, Launch, SandboxError};
use super::live::{Live, Process};
use super::permit::Permit;
use super::tier::Tier;
use super::warden::{Reaped, Started, Warden};
use crate::model::RunToken;

/// A warden together with the leave to use it.
#[derive(Clone, Debug)]
pub struct Launcher {
    warden: Warden,
    permit: Permit,
}

/// A started job. Dropping it before its end kills it.
#[derive(Debug)]
pub struct RunningJob(Started);

impl RunningJob {
    /// Waits for the end. Nothing of the job is alive then.
    ///
    /// # Errors
    /// A [`SandboxError`] when the job could not be run.
    pub async fn ended(mut self) -> Result<JobExit, SandboxError> {
        self.0.ended().await
    }

    /// Asks all of its processes to end, and kills them after 2 s (contract R9).
    pub fn stop(&self) {
        self.0.stop(false);
    }

    /// Kills all of its processes at once.
    pub fn kill(&self) {
        self.0.stop(true);
    }
}

impl Launcher {
    /// A launcher that runs jobs in the permit's tier.
    pub fn new(warden: Warden, permit: Permit) -> Self {
        Self { warden, permit }
    }

    /// The tier that jobs run in.
    pub fn tier(&self) -> Tier {
        self.permit.tier()
    }

    /// The permit.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Starts a job and returns at once.
    ///
    /// # Errors
    /// [`SandboxError::WardenGone`]. Whether the job could be run is told at its end.
    pub fn start(&self, spec: JobSpec) -> Result<RunningJob, SandboxError> {
        self.warden.launch(spec, self.tier()).map(RunningJob)
    }

    /// Kills every job that carries `token`, waits until they are proven dead, and refuses later
    /// ones that carry it (contracts C6 and C9).
    ///
    /// # Errors
    /// [`SandboxError::WardenGone`]; the jobs died with the warden then.
    pub async fn kill_token(&self, token: &RunToken) -> Result<Reaped, SandboxError> {
        self.warden.end_token(token).await
    }

    /// As [`Launcher::kill_token`], without waiting: for a destructor.
    pub fn kill_token_unawaited(&self, token: &RunToken) {
        self.warden.end_token_unawaited(token);
    }
}

impl Launch for Launcher {
    fn run<'a>(
        &'a self,
        spec: JobSpec,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(SandboxError::Cancelled);
            }
            let mut started = self.warden.launch(spec, self.tier())?;
            tokio::select! {
                ending = started.ended() => return ending,
                () = cancel.cancelled() => started.stop(true),
            }
            // Only when nothing of it is alive any more may the caller tidy up.
            let _ = started.ended().await;
            Err(SandboxError::Cancelled)
        })
    }

    fn start_live(&self, spec: JobSpec, live: Live) -> Result<Box<dyn Process>, SandboxError> {
        Ok(Box::new(self.warden.launch_live(spec, self.tier(), live)?))
    }
}
