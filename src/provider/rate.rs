//! The rate gate of one endpoint: after a "too many requests", one waits and all wait.
//!
//! While the gate is shut nobody asks. When the wait is over one call goes first as a probe; the others
//! follow once its answer has begun, or one of them takes its place if it failed. Every lane that
//! uses the endpoint must share the gate. Never here: which errors shut it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The gate; clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct RateGate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the wait ends; `None` while the gate stands open.
    until: Option<Instant>,
    /// Whether a probe is under way.
    probing: bool,
}

/// The right to ask once. A probe that is dropped without a word gives its place to the next one.
#[derive(Debug)]
pub(super) struct Passed {
    gate: RateGate,
    probe: bool,
}

enum Step {
    Go(bool),
    Sleep(Instant),
    Wait,
}

impl RateGate {
    /// Waits until asking is allowed, but not past `latest`; `None` as soon as that is known to be too
    /// early. Dropping the future gives up the place.
    pub(super) async fn pass(&self, latest: Instant) -> Option<Passed> {
        loop {
            // Registered before the state is read, so that no change is missed.
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.step() {
                Step::Go(probe) => return Some(Passed { gate: self.clone(), probe }),
                Step::Sleep(until) if until > latest => return None,
                Step::Sleep(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = changed => {}
                },
                Step::Wait => timeout_at(latest, changed).await.ok()?,
            }
        }
    }

    /// Whether callers must wait now.
    pub fn is_shut(&self) -> bool {
        self.state().until.is_some()
    }

    fn step(&self) -> Step {
        let mut state = self.state();
        match state.until {
            None => Step::Go(false),
            Some(until) if Instant::now() < until => Step::Sleep(until),
            Some(_) if state.probing => Step::Wait,
            Some(_) => {
                state.probing = true;
                Step::Go(true)
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic halfway, so that the state is good even after a poisoning.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passed {
    /// The server has begun to answer: everybody may go. Later calls do nothing.
    pub(super) fn open(&mut self) {
        if std::mem::take(&mut self.probe) {
            self.gate.change(|state| *state = State::default());
        }
    }

    /// The server asked to wait: everybody waits, and never less than somebody was told before.
    pub(super) fn shut(mut self, wait: Duration) {
        let until = Instant::now() + wait;
        let probe = std::mem::take(&mut self.probe);
        self.gate.change(|state| {
            state.until = state.until.max(Some(until));
            state.probing &= !probe;
        });
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if self.probe {
            self.gate.change(|state| state.probing = false);
        }
    }
}
