//! The stream of Anthropic messages: events to one reply.
//!
//! An answer is whole only with `message_start`, every block closed, a `stop_reason` and
//! `message_stop`. Thinking blocks, and blocks of types that are not known here, are kept as received
//! to be sent back unchanged. Events and deltas of unknown types are passed over, as the protocol's
//! versioning rules ask. Never here: IO.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::WIRE;
use super::events::{Counted, Event, Piece, Whole};
use crate::model::chat::{Block, Delta, ModelReply, ReplyStop};
use crate::provider::counts::Counts;
use crate::provider::http::{Answer, Broken, Sink};
use crate::provider::{bound, refusal};

/// A content block as it comes in: its first form, and the arguments' JSON text.
#[derive(Debug)]
struct Open {
    block: Map<String, Value>,
    json: String,
    closed: bool,
}

/// An answer as it comes in.
#[derive(Debug, Default)]
pub(super) struct Stream {
    started: bool,
    model: String,
    blocks: BTreeMap<u64, Open>,
    stop: Option<String>,
    usage: Counts<Counted>,
    /// What the blocks hold, in bytes.
    held: usize,
    done: bool,
}

impl Answer for Stream {
    fn event(&mut self, data: &str, sink: &mut Sink<'_>) -> Result<bool, Broken> {
        let event: Event = serde_json::from_str(data)
            .map_err(|error| protocol(format!("an event is not as documented ({error})")))?;
        match event {
            Event::MessageStart { message } => {
                self.started = true;
                self.model = message.model.unwrap_or_default();
                // The output that is told here is the beginning of a count, which the end tells whole.
                let begun = |old: Counted, new| Counted { output_tokens: None, ..old.then(new) };
                self.usage.take(message.usage, begun);
            }
            Event::ContentBlockStart { index, content_block } => {
                self.open(index, content_block, sink)?;
            }
            Event::ContentBlockDelta { index, delta } => {
                self.held += self.open_block(index)?.take(delta, sink);
            }
            Event::ContentBlockStop { index } => self.open_block(index)?.closed = true,
            Event::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                self.usage.take(usage, Counted::then);
            }
            Event::MessageStop => self.done = true,
            Event::Error => return Err(Broken::InBand(refusal::words(data))),
            Event::Other => {}
        }
        Ok(self.done)
    }

    fn whole(&mut self, body: &str, sink: &mut Sink<'_>) -> Result<(), Broken> {
        let message: Whole = serde_json::from_str(body)
            .map_err(|error| protocol(format!("the answer is not as documented ({error})")))?;
        for (index, block) in (0..).zip(message.content) {
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                sink(Delta::Text(text.to_owned()));
            }
            self.open(index, block, sink)?;
            self.open_block(index)?.closed = true;
        }
        (self.started, self.done) = (true, true);
        (self.model, self.stop) = (message.model.unwrap_or_default(), message.stop_reason);
        self.usage.take(message.usage, Counted::then);
        Ok(())
    }

    fn held(&self) -> usize {
        self.held
    }

    fn finish(self) -> Result<ModelReply, Broken> {
        let missing = |what: &str| Err(protocol(format!("it ends without {what}")));
        if !self.started {
            return missing("`message_start`");
        }
        let Some(stop_reason) = self.stop else { return missing("a `stop_reason`") };
        if !self.done {
            return missing("`message_stop`");
        }
        if self.blocks.values().any(|open| !open.closed) {
            return missing("the end of a content block");
        }
        let blocks: Result<Vec<_>, _> = self.blocks.into_values().map(Open::finish).collect();
        let blocks = blocks?.into_iter().flatten().collect();
        Ok(ModelReply {
            blocks,
            stop: stop(stop_reason),
            usage: self.usage.finish().usage(),
            model: self.model,
        })
    }
}

impl Stream {
    fn open(
        &mut self,
        index: u64,
        block: Map<String, Value>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Broken> {
        if kind(&block) == "tool_use" {
            let name = block.get("name").and_then(Value::as_str).unwrap_or_default();
            sink(Delta::ToolStart { name: name.to_owned() });
        }
        self.held += bound::weight_of(&block);
        let open = Open { block, json: String::new(), closed: false };
        match self.blocks.insert(index, open) {
            None => Ok(()),
            Some(_) => Err(protocol(format!("content block {index} begins twice"))),
        }
    }

    fn open_block(&mut self, index: u64) -> Result<&mut Open, Broken> {
        let open = self.blocks.get_mut(&index).filter(|open| !open.closed);
        open.ok_or_else(|| protocol(format!("content block {index} goes on without being open")))
    }
}

impl Open {
    /// Takes a piece, and gives how much more is held with it, in bytes.
    fn take(&mut self, piece: Piece, sink: &mut Sink<'_>) -> usize {
        let more = piece.weight();
        match piece {
            Piece::TextDelta { text } => {
                self.append("text", &text);
                sink(Delta::Text(text));
            }
            Piece::ThinkingDelta { thinking } => {
                self.append("thinking", &thinking);
                sink(Delta::Reasoning(thinking));
            }
            Piece::SignatureDelta { signature } => self.append("signature", &signature),
            Piece::InputJsonDelta { partial_json } => {
                self.json.push_str(&partial_json);
                sink(Delta::ToolArguments(partial_json));
            }
            Piece::CitationsDelta { citation } => {
                let all = self.block.entry("citations").or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(all) = all {
                    all.push(citation);
                }
            }
            Piece::Other => {}
        }
        more
    }

    fn append(&mut self, field: &str, text: &str) {
        match self.block.get_mut(field) {
            Some(Value::String(known)) => known.push_str(text),
            _ => {
                self.block.insert(field.to_owned(), text.into());
            }
        }
    }

    fn finish(self) -> Result<Option<Block>, Broken> {
        let field = |name: &str| {
            self.block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match kind(&self.block) {
            "text" => {
                let text = field("text");
                Ok((!text.is_empty()).then_some(Block::Text { text }))
            }
            "tool_use" => {
                let (id, name) = (field("id"), field("name"));
                if id.is_empty() || name.is_empty() {
                    return Err(protocol("a tool call has no id or no name".into()));
                }
                let whole = || self.block.get("input").map(Value::to_string);
                let streamed = Some(self.json).filter(|json| !json.is_empty());
                let arguments = streamed.or_else(whole).unwrap_or_default();
                Ok(Some(Block::ToolCall { id, name, arguments }))
            }
            "" => Err(protocol("a content block has no type".into())),
            _ => Ok(Some(self.received())),
        }
    }

    /// Thinking, or something that this version does not know: it goes back as it came.
    fn received(mut self) -> Block {
        if let Ok(input) = serde_json::from_str(&self.json) {
            self.block.insert("input".into(), input);
        }
        Block::Reasoning { wire: WIRE.to_owned(), raw: Value::Object(self.block) }
    }
}

fn protocol(why: String) -> Broken {
    Broken::Protocol(why)
}

fn kind(block: &Map<String, Value>) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn stop(reason: String) -> ReplyStop {
    match reason.as_str() {
        "end_turn" | "stop_sequence" => ReplyStop::EndTurn,
        "tool_use" => ReplyStop::ToolUse,
        // What the context's end cut off is as little whole as what the limit did.
        "max_tokens" | "model_context_window_exceeded" => ReplyStop::MaxTokens,
        "refusal" => ReplyStop::Refusal,
        // `pause_turn`, and what later versions add.
        _ => ReplyStop::Other(reason),
    }
}
