//! Many worker runs at once: bounded, cancellable, each on its own.
//!
//! Lives here: the plan's attempts as a list, how many of them run at once, and the brake by which the
//! caller holds or ends them early. Never here: gates, git, models: what an attempt does is the
//! caller's closure, and so is what is enough.

mod attempts;
mod brake;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::model::Stop;

pub use attempts::{LaneRun, lane_runs};
pub use brake::Brake;

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
    /// Holds or ends the whole fan-out.
    pub brake: Brake,
    /// How long attempts that were told to stop may take before they are dropped.
    pub grace: Duration,
}

/// Runs every attempt and returns their ends in the order of `lanes`, whatever the order of arrival.
///
/// `start` makes an attempt's work; the token it gets is cancelled when the fan-out is. `ended` sees
/// each result as it arrives. While the brake is held no attempt begins; once it is pulled, running ones
/// are told to stop and no further one begins. A panic of one attempt leaves the others untouched.
pub async fn run<W: Send + 'static>(
    lanes: Vec<LaneRun>,
    options: &FanoutOptions,
    start: impl Fn(LaneRun, CancellationToken) -> BoxFuture<'static, W>,
    mut ended: impl FnMut(&LaneRun, &W),
) -> Vec<LaneEnd<W>> {
    let mut field = Field::new(lanes, options);
    let mut late = std::pin::pin!(late(field.halt.clone(), options.grace));
    loop {
        field.fill(&start);
        match field.next(late.as_mut()).await {
            Step::Ended(at) => {
                if let (lane, Some(Ok(result))) = &field.slots[at] {
                    ended(lane, result);
                }
            }
            Step::Released => {}
            Step::Over => return field.ends(),
        }
    }
}

/// What a fan-out waited for.
enum Step {
    /// An attempt ended.
    Ended(usize),
    /// The brake is held no longer.
    Released,
    /// Nothing runs and nothing will.
    Over,
}

/// The attempts of a fan-out: those that wait, run and ended.
struct Field<W> {
    slots: Vec<(LaneRun, Option<Result<W, Stop>>)>,
    most: usize,
    waiting: usize,
    running: JoinSet<W>,
    places: Vec<(Id, usize)>,
    halt: CancellationToken,
    held: watch::Receiver<bool>,
    dropped: bool,
}

impl<W: Send + 'static> Field<W> {
    fn new(lanes: Vec<LaneRun>, options: &FanoutOptions) -> Self {
        Self {
            slots: lanes.into_iter().map(|lane| (lane, None)).collect(),
            most: options.max_parallel.max(1),
            waiting: 0,
            running: JoinSet::new(),
            places: Vec::new(),
            halt: options.brake.token().clone(),
            held: options.brake.held(),
            dropped: false,
        }
    }

    /// Whether an attempt could begin if nobody held it back.
    fn has_room(&self) -> bool {
        self.running.len() < self.most
            && self.waiting < self.slots.len()
            && !self.halt.is_cancelled()
    }

    /// Begins attempts up to the bound, in plan order.
    fn fill(&mut self, start: &impl Fn(LaneRun, CancellationToken) -> BoxFuture<'static, W>) {
        while self.has_room() && !*self.held.borrow() {
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

    /// Waits for one attempt's end, or for the brake where it alone keeps attempts from beginning.
    async fn next(&mut self, late: Pin<&mut impl Future<Output = ()>>) -> Step {
        let held_back = self.has_room();
        let joined = tokio::select! {
            biased;
            joined = self.running.join_next_with_id(), if !self.running.is_empty() => joined,
            () = late, if !self.dropped && !self.running.is_empty() => {
                self.dropped = true;
                self.running.abort_all();
                self.running.join_next_with_id().await
            }
            () = released(&mut self.held, &self.halt), if held_back => return Step::Released,
            else => None,
        };
        let Some(joined) = joined else { return Step::Over };
        let (id, result) = match joined {
            Ok((id, work)) => (id, Ok(work)),
            Err(error) => (error.id(), Err(stop_of(&error))),
        };
        match self.places.iter().find(|(known, _)| *known == id) {
            Some((_, at)) => {
                self.slots[*at].1 = Some(result);
                Step::Ended(*at)
            }
            None => Step::Over,
        }
    }

    fn ends(self) -> Vec<LaneEnd<W>> {
        let end = |(lane, result): (LaneRun, Option<Result<W, Stop>>)| LaneEnd {
            lane,
            result: result.unwrap_or(Err(Stop::Cancelled)),
        };
        self.slots.into_iter().map(end).collect()
    }
}

/// Waits until nothing is held any more, or all is over.
async fn released(held: &mut watch::Receiver<bool>, halt: &CancellationToken) {
    tokio::select! {
        () = halt.cancelled() => {}
        // Where nobody can hold any more, nothing is held.
        _ = held.wait_for(|held| !held) => {}
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
