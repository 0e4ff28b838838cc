//! How much one answer may hold, whatever its server sends.
//!
//! The largest answer is asked for in tokens, and a server may disregard that: what it sends would fill the
//! memory and go back with every further request. Pure. Never here: what an answer means.

use serde_json::{Map, Value};

/// What any answer may hold beside its tokens, in bytes: signatures, encrypted reasoning, ids, items of the
/// server's own.
const BASE: usize = 1 << 20;

/// The most that a token may stand for, in bytes. The longest tokens of the vocabularies in use are runs of
/// 128 blanks; some servers send the same reasoning in two fields, and items of responses come in pieces and whole.
/// What escapes a text on the wire is taken off before it is counted, and escapes in a call's arguments are
/// tokens of the model's own.
const PER_TOKEN: usize = 256;

/// What a piece without contents holds all the same, in bytes: about its place in memory.
pub(super) const EMPTY: usize = 64;

/// The most that an answer of at most `tokens` tokens may hold, in bytes.
pub(super) fn most(tokens: u32) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(PER_TOKEN).saturating_add(BASE)
}

/// What a JSON value holds, in bytes.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => EMPTY + text.len(),
        Value::Array(all) => EMPTY + all.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => weight_of(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => EMPTY,
    }
}

/// What a JSON object holds, in bytes.
pub(super) fn weight_of(fields: &Map<String, Value>) -> usize {
    EMPTY + fields.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bound_grows_with_what_was_asked_for() {
        assert_eq!(most(0), 1 << 20);
        assert_eq!(most(16_384), 5 << 20);
        assert!(most(u32::MAX) > 1 << 30);
        assert_eq!(weight(&json!({"abc": ["four", null]})), 4 * EMPTY + 7);
    }
}
