//! The request body of OpenAI chat completions.
//!
//! Contract R28: `messages` and `tools` depend only on the conversation and come out byte for byte the
//! same in every request, so that each request extends the one before. Never here: IO.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{WIRE, reasoning};
use crate::model::chat::{Block, Message, ModelRequest, Role, ToolChoice, ToolSpec};
use crate::provider::{ErrorClass, ProviderError};

/// What differs from server to server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Send `max_completion_tokens` in place of `max_tokens`.
    pub completion_limit: bool,
    /// Ask for usage at the end of the stream.
    pub usage: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Left out for "auto", which is the default wherever tools are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Said<'a>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// A message. `extra` holds reasoning fields as they were received.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Called<'a>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The body's bytes, with the operator's own fields in `extra`.
pub(super) fn body(
    request: &ModelRequest,
    options: Options,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>, ProviderError> {
    let has_tools = !request.tools.is_empty();
    let limit = Some(request.max_output_tokens);
    let body = Body {
        model: &request.model,
        stream: true,
        stream_options: options.usage.then_some(StreamOptions { include_usage: true }),
        max_tokens: limit.filter(|_| !options.completion_limit),
        max_completion_tokens: limit.filter(|_| options.completion_limit),
        temperature: request.temperature,
        seed: request.seed,
        tool_choice: (has_tools && request.tool_choice == ToolChoice::Forbidden).then_some("none"),
        tools: request.tools.iter().map(tool).collect(),
        messages: messages(request),
        extra,
    };
    serde_json::to_vec(&body)
        .map_err(|error| ProviderError::new(ErrorClass::BadRequest, error.to_string()))
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, parameters } = spec;
    Tool { kind: "function", function: Function { name, description, parameters } }
}

fn messages(request: &ModelRequest) -> Vec<Said<'_>> {
    let system = (!request.system.is_empty()).then(|| said("system", request.system.clone()));
    let rest = request.messages.iter().flat_map(|message| match message.role {
        Role::User => vec![said("user", text(message))],
        Role::Tool => results(message),
        Role::Assistant => assistant(message).into_iter().collect(),
    });
    system.into_iter().chain(rest).collect()
}

fn said<'a>(role: &'static str, content: String) -> Said<'a> {
    Said {
        role,
        tool_call_id: None,
        content: Some(content),
        extra: Map::new(),
        tool_calls: Vec::new(),
    }
}

fn text(message: &Message) -> String {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Every result is a message of its own; text beside results becomes a user message after them.
fn results(message: &Message) -> Vec<Said<'_>> {
    let results = message.blocks.iter().filter_map(|block| match block {
        Block::ToolResult { id, content, .. } => {
            Some(Said { tool_call_id: Some(id), ..said("tool", content.clone()) })
        }
        _ => None,
    });
    let mut all: Vec<_> = results.collect();
    let text = text(message);
    if !text.is_empty() {
        all.push(said("user", text));
    }
    all
}

/// The model's own message; `None` when nothing of it can be sent on this wire.
fn assistant(message: &Message) -> Option<Said<'_>> {
    let raw = message.blocks.iter().filter_map(|block| match block {
        Block::Reasoning { wire, raw } if wire == WIRE => raw.as_object(),
        _ => None,
    });
    let mut extra: Map<String, Value> =
        raw.flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    let call_extras = extra.shift_remove(reasoning::CALL_EXTRAS);
    let calls = message.blocks.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, arguments } => {
            let extra = call_extras.as_ref().and_then(|all| all.get(id)?.as_object().cloned());
            let function = Called { name, arguments };
            Some(Call { id, kind: "function", function, extra: extra.unwrap_or_default() })
        }
        _ => None,
    });
    let tool_calls: Vec<_> = calls.collect();
    let content = Some(text(message)).filter(|text| !text.is_empty());
    let nothing = content.is_none() && tool_calls.is_empty();
    (!nothing).then_some(Said { role: "assistant", tool_call_id: None, content, extra, tool_calls })
}
