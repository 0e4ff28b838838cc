//! The events of Anthropic messages as they stand in a stream, as far as they are read here.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::Usage;
use crate::provider::{bound, counts};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: u64,
        delta: Piece,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: Value,
    },
    MessageStop,
    Error,
    /// `ping`, and what later versions add.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub model: Option<String>,
    /// Read leniently, as all usage is: see [`counts`](crate::provider::counts).
    #[serde(default)]
    pub usage: Value,
}

/// An answer that did not stream.
#[derive(Deserialize)]
pub(super) struct Whole {
    #[serde(default)]
    pub model: Option<String>,
    pub content: Vec<Map<String, Value>>,
    #[serde(default)]
    pub stop_reason: Option<String>,
    /// Read leniently, as all usage is: see [`counts`](crate::provider::counts).
    #[serde(default)]
    pub usage: Value,
}

#[derive(Deserialize)]
pub(super) struct Ending {
    #[serde(default)]
    pub stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Piece {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    CitationsDelta {
        citation: Value,
    },
    #[serde(other)]
    Other,
}

impl Piece {
    /// What it adds to its block, in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Self::TextDelta { text } => text.len(),
            Self::InputJsonDelta { partial_json } => partial_json.len(),
            Self::ThinkingDelta { thinking } => thinking.len(),
            Self::SignatureDelta { signature } => signature.len(),
            Self::CitationsDelta { citation } => bound::weight(citation),
            Self::Other => 0,
        }
    }
}

/// Counts are running totals; a later one replaces an earlier one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counted {
    #[serde(default)]
    pub input_tokens: Option<u64>,
    #[serde(default)]
    pub output_tokens: Option<u64>,
    #[serde(default)]
    pub cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub cache_read_input_tokens: Option<u64>,
}

impl Counted {
    /// These counts with later ones.
    pub fn then(self, new: Self) -> Self {
        Self {
            input_tokens: new.input_tokens.or(self.input_tokens),
            output_tokens: new.output_tokens.or(self.output_tokens),
            cache_creation_input_tokens: new
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            cache_read_input_tokens: new.cache_read_input_tokens.or(self.cache_read_input_tokens),
        }
    }

    /// Input tokens are told apart from those read from and written to the cache already.
    pub fn usage(self) -> Usage {
        let cached = (self.cache_read_input_tokens, self.cache_creation_input_tokens);
        let (read, written) = (cached.0.unwrap_or(0), cached.1.unwrap_or(0));
        counts::usage(self.input_tokens, self.output_tokens, read, written)
    }
}
