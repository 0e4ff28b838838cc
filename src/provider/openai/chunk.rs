//! The chunks of OpenAI chat completions as they stand in a stream, as far as they are read here.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::Usage;
use crate::provider::counts;

#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub choices: Option<Vec<Choice>>,
    /// Read leniently, as all usage is: see [`counts`].
    #[serde(default)]
    pub usage: Value,
    #[serde(default)]
    pub error: Value,
    #[serde(default)]
    pub object: Value,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub index: u32,
    /// A piece; in a whole answer it is called `message`.
    #[serde(default, alias = "message")]
    pub delta: Option<Map<String, Value>>,
    #[serde(default)]
    pub finish_reason: Option<String>,
}

/// Input tokens include those read from and written to a cache.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counted {
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    #[serde(default)]
    pub completion_tokens: Option<u64>,
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default)]
    pub prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    /// OpenRouter's name for tokens written to a cache.
    #[serde(default)]
    pub cache_write_tokens: Option<u64>,
}

impl Counted {
    /// What the server counted.
    pub fn usage(self) -> Usage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let read = details.cached_tokens.or(self.prompt_cache_hit_tokens);
        let (input, output) = (self.prompt_tokens, self.completion_tokens);
        counts::usage_with_cache(input, output, read, details.cache_write_tokens)
    }
}
