//! Whether a run was cut off, by its time limit or by a person, as its stages see it.
//!
//! A time limit strikes by the clock, which a replay does not have. So the place at which the stages saw
//! it first is journaled, and a replay sees it there. Never here: what becomes of a run that was cut off.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::Attempt;
use super::run::Run;
use crate::fanout::Brake;
use crate::journal::{Checkpoint, Entry};
use crate::model::{Limit, Stop};

/// What the stages of a run have seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    /// How often each place was come to.
    at: BTreeMap<Checkpoint, u32>,
    cut: bool,
}

impl Run<'_> {
    /// Whether the run was cut off, seen from one place of its stages. What was seen once stays so.
    pub(super) fn cancelled(&self, at: Checkpoint) -> bool {
        let mut looks = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = looks.at.entry(at).or_default();
        *nth += 1;
        let nth = *nth;
        if !looks.cut {
            looks.cut = match self.memory.is_replay() {
                true => self.memory.timed_out() == Some((at, nth)),
                false => self.cancel.is_cancelled(),
            };
            if looks.cut && self.limit.is_cancelled() {
                self.keep_time_out(at, nth);
            }
        }
        looks.cut
    }

    /// Whether it was the time limit that cut off a run that was.
    pub(super) fn is_timed_out(&self) -> bool {
        self.limit.is_cancelled() || (self.memory.is_replay() && self.memory.timed_out().is_some())
    }

    fn keep_time_out(&self, at: Checkpoint, nth: u32) {
        if let Err(error) = self.dir.append(&Entry::TimedOut { at, nth }) {
            self.tell.fail(error);
        }
    }
}

/// Why a worker was cut off by the time of the run.
const RUN_IS_OVER: &str = "the time of the run is over; raise `--max-seconds`";

impl Attempt {
    /// The same with why it was stopped: because enough candidates were there, or by the run's time limit.
    pub(super) fn cut(mut self, brake: &Brake, limit: &CancellationToken) -> Self {
        if self.stop == Stop::Cancelled && brake.is_pulled() {
            self.stop = Stop::NotNeeded;
        } else if self.stop == Stop::Cancelled && limit.is_cancelled() {
            self.stop = Stop::Limit { limit: Limit::Time };
            self.why = Some(RUN_IS_OVER.to_owned());
            self.with_the_run = true;
        }
        self
    }
}
