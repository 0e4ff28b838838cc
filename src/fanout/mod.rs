//! Many worker runs at once: bounded, cancellable, each on its own.
//!
//! Lives here: the plan's attempts as a list, how many of them run at once, early stop. Never here:
//! gates, git, models: what an attempt does is the caller's closure.

mod attempts;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::model::Stop;

pub use attempts::{LaneRun, lane_runs};

/// How an attempt came to its end.
#[derive(Debug)]
pub struct LaneEnd<W> {
    /// The attempt.
    pub lane: LaneRun,
    /// What its closure gave; `Err` when it panicked (`Failed`, class `internal`) or was never begun
    /// or did not come back after the end was called for (`Cancelled`).
    pub result: Result<W, Stop>,
}

/// How a fan-out goes on.
#[derive(Clone, Debug)]
pub struct FanoutOptions {
    /// Attempts at once; 0 is taken as 1.
    pub max_parallel: usize,
    /// Ends the whole fan-out.
    pub cancel: CancellationToken,
    /// How long attempts that were told to stop may take before they are dropped.
    pub grace: Duration,
}

/// Runs every attempt and returns their ends in the order of `lanes`, whatever the order of arrival.
///
/// `start` makes an attempt's work; the token it gets is cancelled when the fan-out is. `enough` sees
/// each result as it arrives: once it says yes, running attempts are told to stop and no further one
/// begins. A panic of one attempt leaves the others untouched.
pub async fn run<W: Send + 'static>(
    lanes: Vec<LaneRun>,
    options: &FanoutOptions,
    start: impl Fn(LaneRun, CancellationToken) -> BoxFuture<'static, W>,
    mut enough: impl FnMut(&LaneRun, &W) -> bool,
) -> Vec<LaneEnd<W>> {
    let mut field = Field::new(lanes, options.cancel.child_token());
    let mut late = std::pin::pin!(late(field.halt.clone(), options.grace));
    loop {
        field.fill(options.max_parallel.max(1), &start);
        let Some(at) = field.next(late.as_mut()).await else {
            return field.ends();
        };
        if let (lane, Some(Ok(result))) = &field.slots[at]
            && enough(lane, result)
        {
            field.halt.cancel();
        }
    }
}

/// The attempts of a fan-out: those that wait, run and ended.
struct Field<W> {
    slots: Vec<(LaneRun, Option<Result<W, Stop>>)>,
    waiting: usize,
    running: JoinSet<W>,
    places: Vec<(Id, usize)>,
    halt: CancellationToken,
    dropped: bool,
}

impl<W: Send + 'static> Field<W> {
    fn new(lanes: Vec<LaneRun>, halt: CancellationToken) -> Self {
        Self {
            slots: lanes.into_iter().map(|lane| (lane, None)).collect(),
            waiting: 0,
            running: JoinSet::new(),
            places: Vec::new(),
            halt,
            dropped: false,
        }
    }

    /// Begins attempts up to the bound, in plan order.
    fn fill(
        &mut self,
        most: usize,
        start: &impl Fn(LaneRun, CancellationToken) -> BoxFuture<'static, W>,
    ) {
        while self.running.len() < most
            && self.waiting < self.slots.len()
            && !self.halt.is_cancelled()
        {
            let (lane, token) = (self.slots[self.waiting].0.clone(), self.halt.child_token());
            let work =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| start(lane, token)));
            match work {
                Ok(work) => {
                    let id = self.running.spawn(work).id();
                    self.places.push((id, self.waiting));
                }
                Err(_) => self.slots[self.waiting].1 = Some(Err(internal())),
            }
            self.waiting += 1;
        }
    }

    /// Waits for one attempt's end and says which; `None` when nothing runs any more.
    async fn next(&mut self, late: Pin<&mut impl Future<Output = ()>>) -> Option<usize> {
        let joined = tokio::select! {
            biased;
            joined = self.running.join_next_with_id() => joined,
            () = late, if !self.dropped => {
                self.dropped = true;
                self.running.abort_all();
                self.running.join_next_with_id().await
            }
        };
        let (id, result) = match joined? {
            Ok((id, work)) => (id, Ok(work)),
            Err(error) => (error.id(), Err(stop_of(&error))),
        };
        let at = self.places.iter().find(|(known, _)| *known == id)?.1;
        self.slots[at].1 = Some(result);
        Some(at)
    }

    fn ends(self) -> Vec<LaneEnd<W>> {
        let end = |(lane, result): (LaneRun, Option<Result<W, Stop>>)| LaneEnd {
            lane,
            result: result.unwrap_or(Err(Stop::Cancelled)),
        };
        self.slots.into_iter().map(end).collect()
    }
}

async fn late(halt: CancellationToken, grace: Duration) {
    halt.cancelled().await;
    tokio::time::sleep(grace).await;
}

fn stop_of(error: &JoinError) -> Stop {
    if error.is_panic() { internal() } else { Stop::Cancelled }
}

fn internal() -> Stop {
    Stop::Failed {
        class: "internal".to_owned(),
        message: "the worker broke off by a fault of the engine; please report it with the run's \
                  record"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
