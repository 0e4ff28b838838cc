//! What a server counted of one answer.
//!
//! Counts are read leniently: one in an odd form (negative, a text, a fraction) must not cost the answer,
//! which is paid and whole. It counts as not told, and with it all counts of the answer: a part of them would
//! pass for the whole. Pure. Never here: prices.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::{Cost, Usage};

/// The counts of an answer as they come in.
#[derive(Debug, Default)]
pub(super) struct Counts<T> {
    known: T,
    unreadable: bool,
}

impl<T: DeserializeOwned + Default> Counts<T> {
    /// Takes what was told, which may be nothing. `join` puts it together with what was told before.
    pub(super) fn take(&mut self, told: Value, join: impl FnOnce(T, T) -> T) {
        match serde_json::from_value::<Option<T>>(told) {
            Ok(Some(new)) => self.known = join(std::mem::take(&mut self.known), new),
            Ok(None) => {}
            Err(_) => self.unreadable = true,
        }
    }

    /// All that was told; nothing where a part of it could not be read.
    pub(super) fn finish(self) -> T {
        if self.unreadable { T::default() } else { self.known }
    }
}

/// The tokens of a call. Without both counts they stay 0 and the cost unknown.
pub(super) fn usage(input: Option<u64>, output: Option<u64>, read: u64, written: u64) -> Usage {
    let (input, output, read, written) = match (input, output) {
        (Some(input), Some(output)) => (input, output, read, written),
        _ => (0, 0, 0, 0),
    };
    Usage {
        calls: 1,
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: written,
        cost: Cost::UNKNOWN,
    }
}

/// The same where the input includes what was read from and written to a cache.
pub(super) fn usage_with_cache(
    input: Option<u64>,
    output: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
) -> Usage {
    let all = input.unwrap_or(0);
    let read = read.unwrap_or(0).min(all);
    let written = written.unwrap_or(0).min(all - read);
    usage(input.map(|all| all - read - written), output, read, written)
}
