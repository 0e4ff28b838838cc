//! The request body of OpenAI responses.
//!
//! Stateless: the server is told to keep nothing, and each request carries the whole conversation, with
//! the model's own items as they were received. Contract R28: `instructions`, `tools` and `input`
//! depend only on the conversation and come out byte for byte the same in every request. Never here: IO.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{WIRE, item};
use crate::model::chat::{Block, Message, ModelRequest, Role, ToolChoice, ToolSpec};
use crate::provider::{ErrorClass, ProviderError};

/// What differs from server to server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Ask for reasoning in encrypted form, so that it can be sent back.
    pub encrypted: bool,
    /// Send the items' ids back.
    pub ids: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'a [&'a str],
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// Left out for "auto", which is the default wherever tools are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// A tool. Strict is the server's default, and asks for schemas without optional fields.
#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Received(Map<String, Value>),
    Said(Said<'a>),
    Called(Called<'a>),
    Output(Output<'a>),
}

#[derive(Serialize)]
struct Said<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Called<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: &'a str,
    output: &'a str,
}

/// The body's bytes, with the operator's own fields in `extra`.
pub(super) fn body(
    request: &ModelRequest,
    options: Options,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>, ProviderError> {
    let forbidden = request.tool_choice == ToolChoice::Forbidden && !request.tools.is_empty();
    let body = Body {
        model: &request.model,
        stream: true,
        store: false,
        include: if options.encrypted { &["reasoning.encrypted_content"] } else { &[] },
        max_output_tokens: request.max_output_tokens,
        temperature: request.temperature,
        tool_choice: forbidden.then_some("none"),
        tools: request.tools.iter().map(tool).collect(),
        instructions: &request.system,
        input: request.messages.iter().flat_map(|message| items(message, options)).collect(),
        extra,
    };
    serde_json::to_vec(&body)
        .map_err(|error| ProviderError::new(ErrorClass::BadRequest, error.to_string()))
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let ToolSpec { name, description, parameters } = spec;
    Tool { kind: "function", name, description, parameters, strict: false }
}

fn items(message: &Message, options: Options) -> Vec<Item<'_>> {
    match message.role {
        Role::User => user(message).into_iter().collect(),
        // Every result is an item of its own; text beside results becomes a user message after them.
        Role::Tool => {
            let results = message.blocks.iter().filter_map(output);
            results.chain(user(message)).collect()
        }
        Role::Assistant => assistant(&message.blocks, options),
    }
}

fn output(block: &Block) -> Option<Item<'_>> {
    let Block::ToolResult { id, content, .. } = block else { return None };
    Some(Item::Output(Output { kind: "function_call_output", call_id: id, output: content }))
}

/// The texts of one of our messages; `None` when it has none.
fn user(message: &Message) -> Option<Item<'_>> {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text } if !text.is_empty() => Some(Part { kind: "input_text", text }),
        _ => None,
    });
    let content: Vec<_> = texts.collect();
    let said = Said { kind: "message", role: "user", content };
    (!said.content.is_empty()).then_some(Item::Said(said))
}

/// The model's own items: as received, or built from blocks that came over another wire.
fn assistant(blocks: &[Block], options: Options) -> Vec<Item<'_>> {
    let frames = blocks.iter().filter_map(frame);
    // An item whose reasoning is not there may not name itself, or the server asks for the reasoning.
    let whole = frames.filter_map(Value::as_object).all(item::stands_alone);
    let ids = options.ids && whole;
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(block) = blocks.get(at) {
        at += 1;
        let received = frame(block).and_then(|raw| item::whole(raw, &blocks[at..]));
        match (received, block) {
            (Some((mut item, taken)), _) => {
                at += taken;
                if !ids {
                    item.shift_remove("id");
                }
                items.extend(item::stands_alone(&item).then_some(Item::Received(item)));
            }
            (None, block) => items.extend(built(block)),
        }
    }
    items
}

fn frame(block: &Block) -> Option<&Value> {
    match block {
        Block::Reasoning { wire, raw } if wire == WIRE => Some(raw),
        _ => None,
    }
}

fn built(block: &Block) -> Option<Item<'_>> {
    Some(match block {
        Block::Text { text } if !text.is_empty() => Item::Said(Said {
            kind: "message",
            role: "assistant",
            content: vec![Part { kind: "output_text", text }],
        }),
        Block::ToolCall { id, name, arguments } => {
            Item::Called(Called { kind: "function_call", call_id: id, name, arguments })
        }
        _ => return None,
    })
}
