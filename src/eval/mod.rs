//! How often a way of choosing is right, measured on pools of diffs whose outcome is known.
//!
//! Lives here: reading a pool, finding each task's base, the ways of choosing, and what is counted. The
//! known outcomes are only looked at when the choice is made. Never here: processes, models, the network,
//! and a write anywhere: what a diff makes of its base stays in memory.

mod base;
mod measure;
mod pool;
mod prepare;
mod row;
mod selector;
mod sparse;
mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::Family;
use base::Places;

pub use measure::{Compared, Coverage, Measured, Report};
pub use pool::{Pool, PoolError, read};
pub use row::Families;
pub use selector::Selector;
pub use table::{as_json, as_text};

/// What is asked of a pool.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where repositories are looked for.
    pub repos: Vec<std::path::PathBuf>,
    /// Ways of choosing, the one that others are compared with first.
    pub selectors: Vec<Selector>,
    /// Families that are trusted, the most trusted first.
    pub trust: Vec<Family>,
    /// How often tasks are drawn anew for an interval.
    pub draws: usize,
    /// What the draws begin with.
    pub seed: u64,
}

/// Measures every way of choosing that was asked for on all tasks, as many at once as there are
/// processors.
pub fn evaluate(pool: &Pool, question: &Question) -> Report {
    let places = Places::new(&question.repos, pool.beside.as_deref());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(pool.tasks.len()) {
            scope.spawn(|| {
                while let Some(task) = pool.tasks.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let prepared = prepare::prepare(task, &places);
                    let result = selector::choices(task, &prepared, question);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
                }
            });
        }
    });
    let mut results = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by(|a, b| a.task.cmp(&b.task));
    measure::measure(pool, question, results)
}

#[cfg(test)]
mod tests;
