//! Where things go that somebody listens to. Never here: what they are.

use std::fmt;
use std::sync::Arc;

/// A listener. Cheap to clone; sending never blocks and never fails.
pub struct Sink<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Sink<T> {
    /// A sink that hands everything to `listener`, which must not block.
    pub fn new(listener: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// A sink that drops everything.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    /// Tells of something.
    pub fn send(&self, it: T) {
        (self.0)(it);
    }
}

impl<T> Clone for Sink<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}
