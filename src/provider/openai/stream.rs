//! The stream of OpenAI chat completions: chunks to one reply.
//!
//! An answer is whole only with a `finish_reason` and the closing `[DONE]`. Usage may come in the last
//! chunk, in one of its own, or not at all. Only the first choice is read. Never here: IO.

use serde_json::{Map, Value};

use super::WIRE;
use super::chunk::{Chunk, Counted};
use super::reasoning::Reasoning;
use crate::model::chat::{Block, Delta, ModelReply, ReplyStop};
use crate::provider::counts::Counts;
use crate::provider::http::{Answer, Broken, Sink};
use crate::provider::{bound, refusal};

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
}

/// An answer as it comes in.
#[derive(Debug, Default)]
pub(super) struct Stream {
    id: String,
    model: String,
    text: String,
    refusal: String,
    reasoning: Reasoning,
    /// Each call with the index that the server gave it.
    calls: Vec<(Option<u64>, Call)>,
    finish: Option<String>,
    usage: Counts<Counted>,
    /// What texts and calls hold, in bytes.
    held: usize,
    done: bool,
}

impl Answer for Stream {
    fn event(&mut self, data: &str, sink: &mut Sink<'_>) -> Result<bool, Broken> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(true);
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| Broken::Protocol(format!("a chunk is not as documented ({error})")))?;
        if !chunk.error.is_null() || chunk.object == "error" {
            return Err(Broken::InBand(refusal::words(data)));
        }
        self.id = chunk.id.filter(|id| !id.is_empty()).unwrap_or(std::mem::take(&mut self.id));
        self.model =
            chunk.model.filter(|m| !m.is_empty()).unwrap_or(std::mem::take(&mut self.model));
        self.usage.take(chunk.usage, |_, new| new);
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, sink)?;
            }
            self.finish = choice.finish_reason.or(self.finish.take());
        }
        Ok(false)
    }

    fn whole(&mut self, body: &str, sink: &mut Sink<'_>) -> Result<(), Broken> {
        self.event(body, sink)?;
        self.done = true;
        Ok(())
    }

    fn held(&self) -> usize {
        self.held + self.reasoning.held()
    }

    fn finish(self) -> Result<ModelReply, Broken> {
        let missing = |what: &str| Err(Broken::Protocol(format!("it ends without {what}")));
        let Some(finish) = self.finish else { return missing("a `finish_reason`") };
        if !self.done {
            return missing("`[DONE]`");
        }
        if finish == "error" {
            let words =
                refusal::Words { message: "finish_reason is error".into(), ..Default::default() };
            return Err(Broken::InBand(words));
        }
        let mut blocks = Vec::new();
        let mut reasoning = self.reasoning;
        let stop = stop(finish, !self.calls.is_empty(), !self.refusal.is_empty());
        let calls: Vec<_> = self
            .calls
            .into_iter()
            .enumerate()
            .map(|(nth, (_, call))| call.finish(nth, &self.id, &mut reasoning))
            .collect::<Result<_, _>>()?;
        blocks
            .extend(reasoning.finish().map(|raw| Block::Reasoning { wire: WIRE.to_owned(), raw }));
        let texts = [self.text, self.refusal].into_iter().filter(|text| !text.is_empty());
        blocks.extend(texts.map(|text| Block::Text { text }));
        blocks.extend(calls);
        Ok(ModelReply { blocks, stop, usage: self.usage.finish().usage(), model: self.model })
    }
}

impl Stream {
    fn delta(&mut self, mut delta: Map<String, Value>, sink: &mut Sink<'_>) -> Result<(), Broken> {
        if let Some(text) = self.reasoning.take(&mut delta) {
            sink(Delta::Reasoning(text));
        }
        if let Some(text) = delta.get("content").map(content).filter(|text| !text.is_empty()) {
            self.held += text.len();
            self.text.push_str(&text);
            sink(Delta::Text(text));
        }
        if let Some(Value::String(text)) = delta.get("refusal") {
            self.held += text.len();
            self.refusal.push_str(text);
            sink(Delta::Text(text.clone()));
        }
        match delta.remove("tool_calls") {
            Some(Value::Array(pieces)) => {
                pieces.into_iter().try_for_each(|piece| self.call(piece, sink))
            }
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Broken::Protocol("`tool_calls` is not a list".into())),
        }
    }

    /// Takes a piece of a tool call. A piece belongs to the call with its index, unless it brings
    /// another id (servers that number every call 0); without an index it goes on with the last
    /// call, unless it brings an id or a name of its own.
    fn call(&mut self, piece: Value, sink: &mut Sink<'_>) -> Result<(), Broken> {
        let Value::Object(mut piece) = piece else {
            return Err(Broken::Protocol("a tool call is not an object".into()));
        };
        let index = piece.remove("index").and_then(|index| index.as_u64());
        let id = string(piece.remove("id"));
        let function = piece.remove("function");
        let name = string(function.as_ref().and_then(|function| function.get("name")).cloned());
        let known = self.calls.iter().rposition(|(of, call)| {
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            let same_name = name.is_empty() || call.name.is_empty();
            match index {
                Some(_) => *of == index && same_id,
                None => same_id && (same_name || !id.is_empty()),
            }
        });
        let at = known.unwrap_or(self.calls.len());
        if known.is_none() {
            self.held += bound::EMPTY;
            self.calls.push((index, Call::default()));
        }
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            self.held += id.len();
            call.id = id;
        }
        if call.name.is_empty() && !name.is_empty() {
            sink(Delta::ToolStart { name: name.clone() });
            self.held += name.len();
            call.name = name;
        }
        if let Some(text) =
            function.as_ref().and_then(|function| arguments(function.get("arguments")?))
        {
            self.held += text.len();
            call.arguments.push_str(&text);
            sink(Delta::ToolArguments(text));
        }
        if let Some(extra) = piece.remove("extra_content") {
            self.held += bound::weight(&extra);
            let old = call.extra.insert("extra_content".into(), extra);
            self.held -= old.as_ref().map_or(0, bound::weight);
        }
        Ok(())
    }
}

impl Call {
    fn finish(self, nth: usize, reply: &str, kept: &mut Reasoning) -> Result<Block, Broken> {
        if self.name.is_empty() {
            return Err(Broken::Protocol("a tool call has no name".into()));
        }
        // Some servers give calls no id; results need one that is unique in the conversation.
        let id = match self.id.is_empty() {
            true => format!("call_{reply}_{nth}"),
            false => self.id,
        };
        if !self.extra.is_empty() {
            kept.keep_call_extra(&id, self.extra);
        }
        Ok(Block::ToolCall { id, name: self.name, arguments: self.arguments })
    }
}

fn string(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Arguments are a string of JSON; some servers send the JSON itself.
fn arguments(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Object(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Text, or a list of typed parts of which the text counts.
fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

fn stop(finish: String, calls: bool, refused: bool) -> ReplyStop {
    match finish.as_str() {
        "content_filter" => ReplyStop::Refusal,
        // Mistral's word for the end of the context.
        "length" | "model_length" => ReplyStop::MaxTokens,
        // Some servers say "stop" after tool calls, and some say "tool_calls" without any.
        "stop" | "tool_calls" | "function_call" | "eos" if calls => ReplyStop::ToolUse,
        "stop" | "tool_calls" | "function_call" | "eos" if refused => ReplyStop::Refusal,
        "stop" | "tool_calls" | "function_call" | "eos" => ReplyStop::EndTurn,
        _ => ReplyStop::Other(finish),
    }
}
