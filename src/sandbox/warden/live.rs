//! The engine's side of a live job. Never here: permits.

use std::os::fd::OwnedFd;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, oneshot};

use super::super::job::{JobExit, JobSpec, SandboxError};
use super::super::live::{Feeding, InputState, Live, Process};
use super::super::tier::Tier;
use super::client::{Ending, Warden};
use super::table::Reaped;

/// A live job of a warden. Dropping it before its end kills it.
pub(crate) struct LiveJob {
    id: u64,
    warden: Warden,
    ending: Mutex<Option<oneshot::Receiver<Ending>>>,
}

impl Warden {
    /// Starts a live job. Permits are the caller's duty.
    pub(crate) fn launch_live(
        &self,
        spec: JobSpec,
        tier: Tier,
        live: Live,
    ) -> Result<LiveJob, SandboxError> {
        let channel: Vec<OwnedFd> = live.channel.into_iter().collect();
        let (id, ending) =
            self.begin(spec, tier, Some(live.sink), (&channel, live.feed, live.credit))?;
        Ok(LiveJob { id, warden: self.clone(), ending: Mutex::new(Some(ending)) })
    }
}

impl Process for LiveJob {
    fn is_live(&self) -> bool {
        self.warden.is_running(self.id)
    }

    fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>> {
        async move {
            let ending = self.ending.lock().await.take();
            match ending {
                Some(ending) => ending.await.unwrap_or_else(|_| Err(self.warden.gone())),
                None => Err(SandboxError::WardenGone("its end was told already".into())),
            }
        }
        .boxed()
    }

    fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>> {
        self.warden.end_job(self.id).boxed()
    }

    fn feed(&self, what: Feeding) -> BoxFuture<'_, Result<InputState, String>> {
        self.warden.feed(self.id, what).boxed()
    }

    fn allow(&self, bytes: Option<u64>) {
        self.warden.allow(self.id, bytes);
    }
}

impl Drop for LiveJob {
    fn drop(&mut self) {
        if self.is_live() {
            self.warden.stop(self.id, true);
        }
    }
}
