//! How a fan-out is held back or ended early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A fan-out's brake; clones are the same one.
#[derive(Clone, Debug)]
pub struct Brake {
    halt: CancellationToken,
    held: Arc<watch::Sender<bool>>,
    pulled: Arc<AtomicBool>,
}

impl Brake {
    /// A brake that is also pulled when `cancel` is.
    pub fn new(cancel: &CancellationToken) -> Self {
        Self {
            halt: cancel.child_token(),
            held: Arc::new(watch::Sender::new(false)),
            pulled: Arc::default(),
        }
    }

    /// Whether further attempts are to wait. Those at work go on.
    pub fn hold(&self, hold: bool) {
        self.held.send_if_modified(|held| std::mem::replace(held, hold) != hold);
    }

    /// Ends the fan-out: those at work are told to stop, and no further one begins.
    pub fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.halt.cancel();
    }

    /// Whether it was pulled, rather than the run cancelled.
    pub fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.halt
    }

    pub(super) fn held(&self) -> watch::Receiver<bool> {
        self.held.subscribe()
    }
}
