//! Reasoning beside the text of an OpenAI chat answer, in whatever field a server sends it.
//!
//! `reasoning_content` (DeepSeek, llama.cpp, older vLLM), `reasoning` (OpenRouter, Ollama, newer vLLM),
//! `reasoning_details` (OpenRouter: a list of typed pieces with signatures), and `extra_content` of a
//! tool call (Gemini's thought signatures). Pieces are joined and sent back in the field they came in.
//! Never here: IO.

use serde_json::{Map, Value};

use crate::provider::bound;

/// Where the extra fields of tool calls are kept in a raw reasoning block, by the call's id.
pub(super) const CALL_EXTRAS: &str = "tool_call_extras";

/// Fields whose text goes on from piece to piece.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    fields: Map<String, Value>,
    /// What they hold, in bytes.
    held: usize,
}

impl Reasoning {
    /// How much has come, in bytes.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes a delta's fields; gives the new text for the live view.
    pub(super) fn take(&mut self, delta: &mut Map<String, Value>) -> Option<String> {
        let mut shown = None;
        for field in TEXTS {
            if let Some(Value::String(text)) = delta.remove(field)
                && !text.is_empty()
            {
                self.held += text.len();
                append(self.fields.entry(field).or_insert_with(|| "".into()), &text);
                // Some servers send the same text in both fields.
                shown.get_or_insert(text);
            }
        }
        if let Some(Value::Array(pieces)) = delta.remove("reasoning_details") {
            self.take_details(pieces);
        }
        shown
    }

    fn take_details(&mut self, pieces: Vec<Value>) {
        let all =
            self.fields.entry("reasoning_details").or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(all) = all else { return };
        for piece in pieces {
            let same = |known: &&mut Value| {
                known.get("index").is_some()
                    && known.get("index") == piece.get("index")
                    && known.get("type") == piece.get("type")
            };
            match (all.iter_mut().rev().find(same), piece) {
                (Some(Value::Object(known)), Value::Object(piece)) => {
                    self.held += merge(known, piece);
                }
                (_, piece) => {
                    self.held += bound::weight(&piece);
                    all.push(piece);
                }
            }
        }
    }

    /// Keeps the extra fields of a tool call.
    pub(super) fn keep_call_extra(&mut self, id: &str, extra: Map<String, Value>) {
        let all = self.fields.entry(CALL_EXTRAS).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(all) = all {
            all.insert(id.to_owned(), Value::Object(extra));
        }
    }

    /// The raw block, if there was any reasoning.
    pub(super) fn finish(self) -> Option<Value> {
        (!self.fields.is_empty()).then_some(Value::Object(self.fields))
    }
}

/// Joins a piece to the one that it continues: text grows, everything else is as it was told last. Gives what
/// that holds beyond what was held, in bytes.
fn merge(known: &mut Map<String, Value>, piece: Map<String, Value>) -> usize {
    let mut more = 0_usize;
    for (key, value) in piece {
        match (known.get_mut(&key), &value) {
            (Some(old @ Value::String(_)), Value::String(text))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                more += text.len();
                append(old, text);
            }
            (Some(_), Value::Null) => {}
            (Some(old), _) => {
                more += bound::weight(&value).saturating_sub(bound::weight(old));
                *old = value;
            }
            (None, _) => {
                more += key.len() + bound::weight(&value);
                known.insert(key, value);
            }
        }
    }
    more
}

fn append(to: &mut Value, text: &str) {
    if let Value::String(known) = to {
        known.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_are_joined_field_by_field() {
        let mut reasoning = Reasoning::default();
        let mut shown = String::new();
        for delta in [
            json!({"reasoning": "I ", "reasoning_details": [{"type": "reasoning.text", "text": "I ", "index": 0, "format": "f"}]}),
            json!({"reasoning": "see", "reasoning_details": [{"type": "reasoning.text", "text": "see", "index": 0, "signature": null}]}),
            json!({"reasoning": null, "reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "sig"}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz", "index": 1}]}),
        ] {
            let Value::Object(mut delta) = delta else { unreachable!() };
            shown += &reasoning.take(&mut delta).unwrap_or_default();
            assert!(delta.is_empty());
        }
        assert_eq!(shown, "I see");
        let want = json!({
            "reasoning": "I see",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "I see", "index": 0, "format": "f", "signature": "sig"},
                {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
            ],
        });
        assert_eq!(reasoning.finish().unwrap().to_string(), want.to_string());
        assert!(Reasoning::default().finish().is_none());
    }
}
