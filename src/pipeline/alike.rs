//! Recorded requests of which something was masked, found by what they were.
//!
//! An engine names a request by what its journal may hold of it. One that knows of other secrets, or a replay, which
//! knows of none, masks other words, even its own where an environment's secret is an ordinary word. Never here: what a
//! call's answer is worth (`memory`).

use std::sync::OnceLock;

use bstr::ByteSlice;

use super::memory::Asked;
use crate::journal::{Artifacts, MASK};

/// The requests with a mask in them, read when one is looked for.
#[derive(Debug, Default)]
pub(super) struct Alike(OnceLock<Vec<(Asked, Vec<u8>)>>);

impl Alike {
    /// The one of `calls` whose request is `bytes` but for what was masked of it.
    pub(super) fn find<'a>(
        &self,
        artifacts: &Artifacts,
        calls: impl Iterator<Item = &'a Asked>,
        provider: &str,
        bytes: &[u8],
    ) -> Option<Asked> {
        let masked =
            self.0.get_or_init(|| calls.filter_map(|call| masked(artifacts, call)).collect());
        let mut known = masked.iter().filter(|(asked, _)| asked.0 == provider);
        known.find(|(_, recorded)| is_alike(recorded, bytes)).map(|(asked, _)| asked.clone())
    }
}

fn masked(artifacts: &Artifacts, asked: &Asked) -> Option<(Asked, Vec<u8>)> {
    let bytes = artifacts.get(&asked.1).ok().filter(|bytes| bytes.contains_str(MASK))?;
    Some((asked.clone(), bytes))
}

/// Whether `bytes` is `recorded` with something in the place of each mask.
fn is_alike(recorded: &[u8], bytes: &[u8]) -> bool {
    let Some((first, others)) = recorded.split_once_str(MASK) else { return recorded == bytes };
    let Some(mut rest) = bytes.strip_prefix(first) else { return false };
    let (middle, last) = others.rsplit_once_str(MASK).unwrap_or((&[], others));
    let Some(before) = rest.strip_suffix(last) else { return false };
    rest = before;
    middle.split_str(MASK).all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_masked_fits_and_nothing_else() {
        for (recorded, bytes) in [
            ("a [masked] b", "a secret b"),
            ("a [masked] b", "a [masked] b"),
            ("[masked]", "x"),
            ("[masked] a [masked]", "one a two"),
            ("a [masked] b [masked] c [masked] d", "a 1 b 2 c 3 d"),
            ("a [masked][masked] b", "a 12 b"),
            ("plain", "plain"),
        ] {
            assert!(is_alike(recorded.as_bytes(), bytes.as_bytes()), "{recorded}: {bytes}");
        }
        for (recorded, bytes) in [
            ("a [masked] b", "a secret c"),
            ("a [masked] b", "x secret b"),
            ("a [masked] b [masked] c [masked] d", "a 1 b 2 x 3 d"),
            ("aa[masked]aa", "aaa"),
            ("plain", "plain "),
        ] {
            assert!(!is_alike(recorded.as_bytes(), bytes.as_bytes()), "{recorded}: {bytes}");
        }
    }
}
