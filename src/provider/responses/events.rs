//! The events of OpenAI responses as they stand in a stream, as far as they are read here.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::Usage;
use crate::provider::counts::{self, Counts};

/// One event. Its fields differ by its kind; those that are not read here are passed over.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Cow<'a, str>,
    /// Which output item it is about. Some servers (older llama.cpp) leave it out.
    #[serde(default)]
    pub output_index: Option<u64>,
    #[serde(borrow, default)]
    pub item_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub item: Option<Map<String, Value>>,
    /// A piece of text or arguments. Audio and tools of the server's own send other forms.
    #[serde(default)]
    pub delta: Value,
    #[serde(default)]
    pub response: Option<Whole>,
    #[serde(default)]
    pub error: Value,
}

/// A response: whole, or as far as it has come.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Whole {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub output: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    pub error: Value,
    #[serde(default)]
    pub incomplete_details: Value,
    /// Read leniently, as all usage is: see [`counts`].
    #[serde(default)]
    pub usage: Value,
}

/// Input tokens include those read from and written to a cache.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Counted {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

/// What the server counted.
pub(super) fn usage(told: Value) -> Usage {
    let mut counts = Counts::<Counted>::default();
    counts.take(told, |_, new| new);
    let counted = counts.finish();
    let details = counted.input_tokens_details.unwrap_or_default();
    let (input, output) = (counted.input_tokens, counted.output_tokens);
    counts::usage_with_cache(input, output, details.cached_tokens, details.cache_write_tokens)
}
