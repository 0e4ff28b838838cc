//! One output item of OpenAI responses: taken apart for the engine, put together for the next request.
//!
//! An item goes back exactly as it was received (contract R28), with fields that this version does not
//! know (`phase`, signatures of other servers). What the engine reads of it, texts and arguments, stands in
//! blocks of their own; the rest is a frame, a raw block before them in which `null` stands where
//! each of them belongs. Never here: IO.

use serde_json::{Map, Value};

use super::WIRE;
use crate::model::chat::Block;

/// The blocks of an item: its frame, then what was taken out of it. `nth` names a call without an id.
pub(super) fn blocks(mut item: Map<String, Value>, nth: &str) -> Result<Vec<Block>, String> {
    let inner = match kind(&item) {
        "message" => texts(&mut item),
        "function_call" => vec![call(&mut item, nth)?],
        "" => return Err("an output item has no type".to_owned()),
        // Reasoning, and what later versions add.
        _ => Vec::new(),
    };
    let frame = Block::Reasoning { wire: WIRE.to_owned(), raw: Value::Object(item) };
    Ok([frame].into_iter().chain(inner).collect())
}

fn texts(item: &mut Map<String, Value>) -> Vec<Block> {
    let Some(Value::Array(parts)) = item.get_mut("content") else { return Vec::new() };
    let slots = parts.iter_mut().filter_map(slot);
    let full = slots.filter(|slot| slot.as_str().is_some_and(|text| !text.is_empty()));
    let text = |slot: &mut Value| match slot.take() {
        Value::String(text) => Some(Block::Text { text }),
        _ => None,
    };
    full.filter_map(text).collect()
}

/// Where the text of a content part stands.
fn slot(part: &mut Value) -> Option<&mut Value> {
    let field = match part.get("type")?.as_str()? {
        "output_text" | "text" => "text",
        "refusal" => "refusal",
        _ => return None,
    };
    part.get_mut(field)
}

fn call(item: &mut Map<String, Value>, nth: &str) -> Result<Block, String> {
    let field = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, mut id) = (field("name"), field("call_id"));
    if name.is_empty() {
        return Err("a function call has no name".to_owned());
    }
    if id.is_empty() {
        // A result needs an id that is unique in the conversation.
        id = format!("call_{nth}");
        item.insert("call_id".to_owned(), id.clone().into());
    }
    let arguments = match item.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        // Some servers send the JSON itself.
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => String::new(),
    };
    item.insert("arguments".to_owned(), Value::Null);
    Ok(Block::ToolCall { id, name, arguments })
}

/// Puts an item together again from its frame and the blocks behind it, and says how many of them it took;
/// `None` when they are not what was taken out of it.
pub(super) fn whole(frame: &Value, behind: &[Block]) -> Option<(Map<String, Value>, usize)> {
    let mut item = frame.as_object()?.clone();
    let mut taken = 0;
    match kind(&item) {
        "message" => {
            let parts = item.get_mut("content").and_then(Value::as_array_mut);
            let slots = parts.into_iter().flatten().filter_map(slot);
            for slot in slots.filter(|slot| slot.is_null()) {
                let Some(Block::Text { text }) = behind.get(taken) else { return None };
                *slot = text.as_str().into();
                taken += 1;
            }
        }
        "function_call" => {
            let Some(Block::ToolCall { arguments, .. }) = behind.first() else { return None };
            item.insert("arguments".to_owned(), arguments.as_str().into());
            taken = 1;
        }
        _ => {}
    }
    Some((item, taken))
}

/// Whether an item can be understood without what the server keeps: it keeps nothing, so that
/// reasoning is only there when it was sent along, encrypted or as text.
pub(super) fn stands_alone(item: &Map<String, Value>) -> bool {
    let full = |field: &str| match item.get(field) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    kind(item) != "reasoning" || full("encrypted_content") || full("content")
}

/// Whether a message holds a refusal.
pub(super) fn refuses(item: &Map<String, Value>) -> bool {
    let parts = item.get("content").and_then(Value::as_array);
    kind(item) == "message" && parts.into_iter().flatten().any(|part| part["type"] == "refusal")
}

/// The item's type.
pub(super) fn kind(item: &Map<String, Value>) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}
