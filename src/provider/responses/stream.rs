//! The stream of OpenAI responses: events to one reply.
//!
//! An answer is whole only with `response.completed` (or `response.incomplete`, which says why it was
//! cut) and the end of every output item. What an item holds is what its end says; the pieces before it
//! are for the live view. Unknown events are passed over, unknown items kept as received. Never here: IO.

use serde_json::{Map, Value, json};

use super::events::{Event, Whole, usage};
use super::item;
use crate::model::chat::{Block, Delta, ModelReply, ReplyStop};
use crate::provider::http::{Answer, Broken, Sink};
use crate::provider::{bound, refusal};

/// An output item as it comes in.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: String,
    item: Map<String, Value>,
    /// The pieces of a call's arguments, for servers whose items end without them.
    arguments: String,
    closed: bool,
}

/// An answer as it comes in.
#[derive(Debug, Default)]
pub(super) struct Stream {
    items: Vec<Open>,
    /// What the items hold, and the pieces of text before them, in bytes.
    held: usize,
    end: Option<Whole>,
}

impl Answer for Stream {
    fn event(&mut self, data: &str, sink: &mut Sink<'_>) -> Result<bool, Broken> {
        if data.trim() == "[DONE]" {
            return Ok(true);
        }
        let event: Event<'_> = serde_json::from_str(data)
            .map_err(|error| protocol(format!("an event is not as documented ({error})")))?;
        if event.kind == "error" || !event.error.is_null() {
            return Err(Broken::InBand(refusal::words(data)));
        }
        match event.kind.as_ref() {
            "response.output_item.added" => self.item(event, false, sink),
            "response.output_item.done" => self.item(event, true, sink),
            "response.function_call_arguments.delta" => self.arguments(event, sink),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.piece(event.delta).map(Delta::Text).into_iter().for_each(sink);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.piece(event.delta).map(Delta::Reasoning).into_iter().for_each(sink);
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let status = event.kind.strip_prefix("response.").map(str::to_owned);
                return self.close(Whole { status, ..event.response.unwrap_or_default() });
            }
            _ => {}
        }
        Ok(false)
    }

    fn whole(&mut self, body: &str, sink: &mut Sink<'_>) -> Result<(), Broken> {
        let whole: Whole = serde_json::from_str(body)
            .map_err(|error| protocol(format!("the answer is not as documented ({error})")))?;
        self.close(whole)?;
        let items = self.items.iter().filter_map(|open| item::blocks(open.item.clone(), "").ok());
        for block in items.flatten() {
            if let Block::Text { text } = block {
                sink(Delta::Text(text));
            }
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.held
    }

    fn finish(mut self) -> Result<ModelReply, Broken> {
        let Some(end) = self.end.take() else {
            return Err(protocol("it ends without `response.completed`".to_owned()));
        };
        if self.items.iter().all(|open| open.index.is_some()) {
            self.items.sort_by_key(|open| open.index);
        }
        let cut = end.status.as_deref() == Some("incomplete");
        if !cut && self.items.iter().any(|open| !open.closed) {
            return Err(protocol("it ends without the end of an output item".to_owned()));
        }
        let reply = end.id.as_deref().unwrap_or_default();
        let refuses = self.items.iter().any(|open| item::refuses(&open.item));
        let mut blocks = Vec::new();
        for (nth, open) in self.items.into_iter().filter(|open| open.closed).enumerate() {
            let item = item::blocks(open.finish(), &format!("{reply}_{nth}")).map_err(protocol)?;
            blocks.extend(item);
        }
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        Ok(ModelReply {
            blocks,
            stop: stop(cut, &end.incomplete_details, calls, refuses),
            usage: usage(end.usage),
            model: end.model.unwrap_or_default(),
        })
    }
}

impl Stream {
    /// An item begins or ends.
    fn item(&mut self, event: Event<'_>, closed: bool, sink: &mut Sink<'_>) {
        let Some(item) = event.item else { return };
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let open = self.open(event.output_index, &id);
        let is_new = open.item.is_empty();
        let (more, less) = (bound::weight_of(&item), bound::weight_of(&open.item));
        (open.item, open.closed) = (item, open.closed || closed);
        if is_new && item::kind(&open.item) == "function_call" {
            let name = open.item.get("name").and_then(Value::as_str).unwrap_or_default();
            sink(Delta::ToolStart { name: name.to_owned() });
        }
        self.held = (self.held + more).saturating_sub(less);
    }

    /// A piece of text, if there is anything in it.
    fn piece(&mut self, delta: Value) -> Option<String> {
        match delta {
            Value::String(text) if !text.is_empty() => {
                self.held += text.len();
                Some(text)
            }
            _ => None,
        }
    }

    fn arguments(&mut self, event: Event<'_>, sink: &mut Sink<'_>) {
        let Some(text) = self.piece(event.delta) else { return };
        let id = event.item_id.unwrap_or_default();
        self.open(event.output_index, &id).arguments.push_str(&text);
        sink(Delta::ToolArguments(text));
    }

    /// The item with this index, or else this id; without either it is the last one's.
    fn open(&mut self, index: Option<u64>, id: &str) -> &mut Open {
        let at = match (index, id) {
            (Some(_), _) => self.items.iter().position(|open| open.index == index),
            (None, "") => self.items.iter().rposition(|open| !open.closed),
            (None, id) => self.items.iter().position(|open| open.id == id),
        };
        let at = at.unwrap_or_else(|| {
            self.held += bound::EMPTY + id.len();
            self.items.push(Open { index, id: id.to_owned(), ..Open::default() });
            self.items.len() - 1
        });
        &mut self.items[at]
    }

    /// The response ends. What it says of items counts where the stream did not say it.
    fn close(&mut self, mut whole: Whole) -> Result<bool, Broken> {
        match whole.status.as_deref() {
            Some("completed" | "incomplete") => {}
            Some("failed" | "cancelled") => return Err(Broken::InBand(failure(&whole))),
            other => {
                let other = other.unwrap_or("missing");
                return Err(protocol(format!("its status is {other}")));
            }
        }
        let all = whole.output.take().unwrap_or_default();
        let streamed = !self.items.is_empty();
        for (index, item) in (0..).zip(all) {
            self.held += bound::weight_of(&item);
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            let same = |open: &&mut Open| match open.index {
                Some(known) => known == index,
                None => open.id == id,
            };
            match self.items.iter_mut().find(same) {
                Some(open) if !open.closed => (open.item, open.closed) = (item, true),
                None if !streamed => {
                    let index = Some(index);
                    self.items.push(Open { index, item, closed: true, ..Open::default() });
                }
                _ => {}
            }
        }
        self.end = Some(whole);
        Ok(true)
    }
}

impl Open {
    fn finish(mut self) -> Map<String, Value> {
        let lacks = self.item.get("arguments").is_none_or(|told| told == "" || told.is_null());
        if lacks && !self.arguments.is_empty() {
            self.item.insert("arguments".to_owned(), self.arguments.into());
        }
        self.item
    }
}

fn failure(whole: &Whole) -> refusal::Words {
    let status = whole.status.as_deref().unwrap_or_default();
    match whole.error.is_null() {
        true => refusal::Words {
            message: format!("the response is {status}"),
            ..refusal::Words::default()
        },
        false => refusal::words(&json!({ "error": whole.error }).to_string()),
    }
}

fn stop(cut: bool, details: &Value, calls: bool, refuses: bool) -> ReplyStop {
    if cut {
        return match details["reason"].as_str() {
            Some("max_output_tokens" | "max_tokens") => ReplyStop::MaxTokens,
            Some("content_filter") => ReplyStop::Refusal,
            reason => ReplyStop::Other(reason.unwrap_or("incomplete").to_owned()),
        };
    }
    match (calls, refuses) {
        (true, _) => ReplyStop::ToolUse,
        (false, true) => ReplyStop::Refusal,
        (false, false) => ReplyStop::EndTurn,
    }
}

fn protocol(why: String) -> Broken {
    Broken::Protocol(why)
}
