//! The request body of Anthropic messages.
//!
//! Contract R28: `system`, `tools` and `messages` depend only on the conversation and come out byte for
//! byte the same in every request, cache marks left out. The marks stand on the last tool, on the
//! system prompt, and on the last two messages of ours: the newest one writes the cache for the next
//! request, the one before is where this request reads it. Never here: IO.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::WIRE;
use crate::model::chat::{Block, Message, ModelRequest, Role, ToolChoice, ToolSpec};
use crate::provider::{ErrorClass, ProviderError};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// Left out for "auto", which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    messages: Vec<Said<'a>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Choice {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Clone, Copy, Serialize)]
struct CacheMark {
    #[serde(rename = "type")]
    kind: &'static str,
}

const MARK: Option<CacheMark> = Some(CacheMark { kind: "ephemeral" });

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

/// A content block; what was received (reasoning) goes out as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text(Text<'a>),
    Result(ToolResult<'a>),
    Use(ToolUse<'a>),
    Received(&'a Value),
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_use_id: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    input: Box<RawValue>,
}

/// The body's bytes, with the operator's own fields in `extra`.
pub(super) fn body(
    request: &ModelRequest,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>, ProviderError> {
    let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = MARK;
    }
    let mut messages: Vec<_> = request.messages.iter().filter_map(said).collect();
    let ours = messages.iter_mut().rev().filter(|message| message.role == "user");
    ours.take(2).filter_map(|message| message.content.last_mut()).for_each(mark);
    let forbidden = request.tool_choice == ToolChoice::Forbidden && !tools.is_empty();
    let body = Body {
        model: &request.model,
        stream: true,
        max_tokens: request.max_output_tokens,
        temperature: request.temperature,
        tool_choice: forbidden.then_some(Choice { kind: "none" }),
        tools,
        system: text(&request.system, MARK).into_iter().collect(),
        messages,
        extra,
    };
    serde_json::to_vec(&body)
        .map_err(|error| ProviderError::new(ErrorClass::BadRequest, error.to_string()))
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, parameters } = spec;
    Tool { name, description, input_schema: parameters, cache_control: None }
}

/// A text block; `None` for blank text, which the server refuses.
fn text(text: &str, cache_control: Option<CacheMark>) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text(Text { kind: "text", text, cache_control }))
}

/// A message; `None` when nothing of it can be sent, as the server refuses empty ones.
fn said(message: &Message) -> Option<Said<'_>> {
    let role = match message.role {
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<_> = message.blocks.iter().filter_map(part).collect();
    (!content.is_empty()).then_some(Said { role, content })
}

fn part(block: &Block) -> Option<Part<'_>> {
    Some(match block {
        Block::Text { text: words } => return text(words, None),
        Block::Reasoning { wire, raw } if wire == WIRE => Part::Received(raw),
        Block::Reasoning { .. } => return None,
        Block::ToolCall { id, name, arguments } => {
            Part::Use(ToolUse { kind: "tool_use", id, name, input: input(arguments) })
        }
        Block::ToolResult { id, content, is_error } => Part::Result(ToolResult {
            kind: "tool_result",
            tool_use_id: id,
            content,
            is_error: *is_error,
            cache_control: None,
        }),
    })
}

/// Arguments as the model wrote them when they are an object. This wire can carry nothing else, so
/// that other text goes back inside an object, for the model to see what it wrote.
fn input(arguments: &str) -> Box<RawValue> {
    let is_object = arguments.trim_start().starts_with('{');
    let raw = match arguments.trim().is_empty() {
        true => RawValue::from_string("{}".to_owned()),
        false if is_object => RawValue::from_string(arguments.trim().to_owned()),
        false => serde_json::value::to_raw_value(&serde_json::json!({ "not_json": arguments })),
    };
    let wrapped = || serde_json::value::to_raw_value(&serde_json::json!({ "not_json": arguments }));
    raw.or_else(|_| wrapped()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn mark(part: &mut Part<'_>) {
    match part {
        Part::Text(text) => text.cache_control = MARK,
        Part::Result(result) => result.cache_control = MARK,
        Part::Use(_) | Part::Received(_) => {}
    }
}
