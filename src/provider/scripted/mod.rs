//! A model that is a data file: no server, no key, the same answers every time.
//!
//! Lives here: the provider over a [`Script`]. The format of scripts is documented in `script` and in
//! `docs/scripted-models.md`. The demo, the selftests and the tests of whole runs use it.
//! Never here: the network.

mod choose;
mod fill;
mod script;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use script::{
    Answer, Counted, Fault, JudgeScript, Script, ScriptError, SynthesizerScript, ToolCall,
    WorkerScript,
};

use super::http::Sink;
use super::{Ask, ErrorClass, ProviderError};
use crate::model::Usage;
use crate::model::chat::{Block, Delta, ModelReply, ModelRequest, Purpose, ReplyStop};

/// The name of this wire in reasoning blocks.
const WIRE: &str = "scripted";

/// Answers by a script. Clone the `Arc` it stands in to share it: it counts faults already given.
#[derive(Debug)]
pub struct Scripted {
    script: Script,
    /// How many faults each question has been given.
    faults: Mutex<HashMap<String, usize>>,
}

impl Scripted {
    /// A provider that answers by this script.
    pub fn new(script: Script) -> Self {
        Self { script, faults: Mutex::default() }
    }

    /// The fault that is due for this question, if one is.
    fn fault<'a>(&self, request: &ModelRequest, answer: &'a Answer) -> Option<&'a Fault> {
        let question = format!("{:?}", request.purpose);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let given = faults.entry(question).or_default();
        let fault = answer.faults.get(*given);
        *given += usize::from(fault.is_some());
        fault.or(answer.error.as_ref())
    }
}

impl Ask for Scripted {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let chosen = choose::answer(&self.script, request).map_err(no_answer)?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            () = sleep(Duration::from_millis(chosen.answer.delay_ms)) => {}
        }
        match self.fault(request, &chosen.answer) {
            Some(fault) => Err(fault.error()),
            None => {
                let reply = reply(request, &chosen).map_err(no_answer)?;
                reply.blocks.iter().for_each(|block| show(block, sink));
                Ok(reply)
            }
        }
    }
}

impl Fault {
    fn error(&self) -> ProviderError {
        let class = ErrorClass::from_name(&self.class).unwrap_or(ErrorClass::BadRequest);
        let said = self.message.as_deref().unwrap_or("no reason given");
        let mut error =
            ProviderError::new(class, format!("the script answers {}: {said}", class.name()));
        error.retry_after = self.retry_after_ms.map(Duration::from_millis);
        error
    }
}

fn no_answer(why: String) -> ProviderError {
    ProviderError::new(ErrorClass::BadRequest, format!("the script can't answer: {why}"))
}

fn reply(request: &ModelRequest, chosen: &choose::Chosen) -> Result<ModelReply, String> {
    let answer = &chosen.answer;
    let values = fill::captures(&answer.capture, &choose::questions(request))?;
    let plain = fill::Filler::new(&values, &chosen.values, chosen.escape);
    let json = fill::Filler::new(&values, &chosen.values, true);
    let mut blocks = Vec::new();
    if let Some(text) = &answer.reasoning {
        blocks.push(Block::Reasoning { wire: WIRE.to_owned(), raw: json!({ "text": text }) });
    }
    blocks.extend(answer.text.as_ref().map(|text| Block::text(plain.fill(text))));
    let turn = match &request.purpose {
        Purpose::Worker { turn, .. } => *turn,
        Purpose::Synthesizer { attempt } => *attempt,
        Purpose::Duel { number } => *number,
        Purpose::Judge { .. }
        | Purpose::Side { .. }
        | Purpose::Skeptic { .. }
        | Purpose::Design => 0,
    };
    for (nth, call) in answer.calls.iter().enumerate() {
        let id = call.id.clone().unwrap_or_else(|| format!("call_{turn}_{nth}"));
        let arguments = json.fill(&call.arguments());
        blocks.push(Block::ToolCall { id, name: call.name.clone(), arguments });
    }
    let usage = answer.usage.unwrap_or_default().usage();
    Ok(ModelReply { blocks, stop: answer.reply_stop(), usage, model: request.model.clone() })
}

fn show(block: &Block, sink: &mut Sink<'_>) {
    match block {
        Block::Text { text } => sink(Delta::Text(text.clone())),
        Block::Reasoning { raw, .. } => {
            sink(Delta::Reasoning(raw["text"].as_str().unwrap_or_default().to_owned()));
        }
        Block::ToolCall { name, arguments, .. } => {
            sink(Delta::ToolStart { name: name.clone() });
            sink(Delta::ToolArguments(arguments.clone()));
        }
        Block::ToolResult { .. } => {}
    }
}

impl Answer {
    fn reply_stop(&self) -> ReplyStop {
        match self.stop.as_deref() {
            None if self.calls.is_empty() => ReplyStop::EndTurn,
            None | Some("tool_use") => ReplyStop::ToolUse,
            Some("end_turn") => ReplyStop::EndTurn,
            Some("max_tokens") => ReplyStop::MaxTokens,
            Some("refusal") => ReplyStop::Refusal,
            Some(other) => ReplyStop::Other(other.to_owned()),
        }
    }
}

impl Counted {
    /// A script costs nothing, and that is known.
    fn usage(self) -> Usage {
        Usage {
            calls: 1,
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
