//! What a worker and those nested below it used, added up as it is used: a nested worker that is dropped
//! half-way has been paid all the same.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Usage;

/// A sum of usage. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Bill(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines {
    sum: Mutex<Usage>,
    above: Option<Bill>,
}

impl Bill {
    /// A bill of its own that is part of another one.
    pub fn under(above: &Self) -> Self {
        Self(Arc::new(Lines { sum: Mutex::default(), above: Some(above.clone()) }))
    }

    /// Adds to this bill and to all above it.
    pub fn add(&self, usage: Usage) {
        *self.0.sum.lock().unwrap_or_else(PoisonError::into_inner) += usage;
        if let Some(above) = &self.0.above {
            above.add(usage);
        }
    }

    /// The sum so far.
    pub fn total(&self) -> Usage {
        *self.0.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
