//! The same work on many items, over a few threads. Never here: an async runtime.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::error::Result;

/// How many items a thread takes at a time.
const BATCH: usize = 32;
/// The most threads: beyond it the file system is the limit.
const MOST: usize = 8;

/// Runs `work` for each index below `count`, in parallel, each thread with its own state from `init`.
/// The results stand in the order of the indices. The first error ends the rest.
pub(crate) fn map<S, T: Send>(
    count: usize,
    init: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MOST);
    let (next, stop, done) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
    let one = || -> Result<()> {
        let mut state = init()?;
        let mut mine = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let start = next.fetch_add(BATCH, Ordering::Relaxed);
            if start >= count {
                break;
            }
            for index in start..count.min(start + BATCH) {
                mine.push((index, work(&mut state, index)?));
            }
        }
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut mine);
        Ok(())
    };
    let one = || one().inspect_err(|_| stop.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let extra = threads.min(count.div_ceil(BATCH)).saturating_sub(1);
        let others: Vec<_> = (0..extra).map(|_| scope.spawn(one)).collect();
        let mut result = one();
        for other in others {
            let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(theirs);
        }
        result
    })?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::RepoError;

    #[test]
    fn results_stand_in_order_and_an_error_ends_it() {
        let squares = map(1000, || Ok(()), |(), i| Ok(i * i)).unwrap();
        assert!(squares.iter().enumerate().all(|(i, s)| *s == i * i) && squares.len() == 1000);
        let failed = map(
            1000,
            || Ok(()),
            |(), i| if i == 700 { Err(RepoError::DirtyNeedsHead) } else { Ok(i) },
        );
        assert!(failed.is_err());
    }
}
