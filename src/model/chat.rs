//! A conversation with a model, in no wire's dialect.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CandidateId, LaneId, Usage};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The engine's side.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning, kept as its server sent it and sent back unchanged (contract R28).
    Reasoning {
        /// The wire that it came from; other wires leave it out.
        wire: String,
        /// The block as received.
        raw: Value,
    },
    /// A call of a tool.
    ToolCall {
        /// The server's id of the call.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments' JSON text, byte for byte as the model wrote it (it may be invalid).
        arguments: String,
    },
    /// The result of a tool call, bytes unchanged (contract C30).
    ToolResult {
        /// The id of the call.
        id: String,
        /// The result's text.
        content: String,
        /// Whether the tool refused or failed.
        is_error: bool,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub blocks: Vec<Block>,
}

impl Message {
    /// A user message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, blocks: vec![Block::text(text)] }
    }
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments (an object).
    pub parameters: Value,
}

/// Whether the model may call tools in this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It may not; the tools stay in the request, so that the prefix stays the same.
    Forbidden,
}

/// What a request is for: it names journal entries and lets scripted models answer by role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Purpose {
    /// A worker's turn.
    Worker {
        /// The lane.
        lane: LaneId,
        /// The turn, from 0.
        turn: u32,
    },
    /// A judge's ballot.
    Judge {
        /// The judge's id.
        judge: String,
        /// Pair and order and attempt as text (`c1:c2:forward:0`).
        ballot: String,
    },
    /// A skeptic's look at what an author claims.
    Skeptic {
        /// Whose claims.
        candidate: CandidateId,
    },
    /// The plan for all workers.
    Design,
    /// A test that is to tell two finalists apart.
    Duel {
        /// Its number in the run, from 1.
        number: u32,
    },
    /// The synthesizer.
    Synthesizer {
        /// The attempt, from 0.
        attempt: u32,
    },
    /// A side call.
    Side {
        /// Which.
        call: SideCall,
    },
}

impl Purpose {
    /// The role that pays for it, as records name it.
    pub fn role(&self) -> &'static str {
        match self {
            Self::Worker { .. } => "workers",
            Self::Judge { .. } => "judges",
            Self::Skeptic { .. } => "skeptics",
            Self::Design => "design",
            Self::Duel { .. } => "duels",
            Self::Synthesizer { .. } => "synthesizer",
            Self::Side { .. } => "side",
        }
    }
}

/// What is asked beside a run's own work.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SideCall {
    /// The run's title.
    Title,
    /// The capsule that hands it over.
    Capsule,
}

impl SideCall {
    /// Its name, as records and scripts write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Capsule => "capsule",
        }
    }
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequest {
    /// The model's name on its server.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools, in registration order; the same for every lane.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation. It only grows.
    pub messages: Vec<Message>,
    /// Whether tools may be called.
    pub tool_choice: ToolChoice,
    /// The largest answer, in tokens.
    pub max_output_tokens: u32,
    /// Sampling temperature, when set by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// A seed for servers that take one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What it is for. Never sent.
    pub purpose: Purpose,
}

impl ModelRequest {
    /// A question to whoever has no tools: judges, the synthesizer, side calls.
    pub fn question(
        model: &str,
        system: String,
        messages: Vec<Message>,
        max_output_tokens: u32,
        purpose: Purpose,
    ) -> Self {
        Self {
            model: model.to_owned(),
            system,
            tools: Arc::from([]),
            messages,
            tool_choice: ToolChoice::Forbidden,
            max_output_tokens,
            temperature: None,
            seed: None,
            purpose,
        }
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStop {
    /// It was done.
    EndTurn,
    /// It wants its tool calls answered.
    ToolUse,
    /// The answer reached `max_output_tokens`.
    MaxTokens,
    /// It refused.
    Refusal,
    /// Something else, as the server named it.
    Other(String),
}

/// A model's whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReply {
    /// What it said.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: ReplyStop,
    /// What the server counted.
    pub usage: Usage,
    /// The model that answered, as the server named it.
    pub model: String,
}

impl ModelReply {
    /// All text blocks, joined.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A piece of a reply as it streams in, for the live view only: the reply itself is what counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning text.
    Reasoning(String),
    /// A tool call begins.
    ToolStart {
        /// The tool's name.
        name: String,
    },
    /// A piece of a tool call's arguments.
    ToolArguments(String),
    /// What came so far was of a try that broke off; the answer begins anew.
    Restarted,
}
