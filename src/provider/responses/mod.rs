//! OpenAI responses, as OpenAI, Azure, OpenRouter, LiteLLM, vLLM, llama.cpp and Ollama speak it.
//!
//! Lives here: the provider and what it learns of its server (whether it encrypts reasoning, whether it
//! knows its items' ids again). Never here: HTTP, which is `http`'s.

mod events;
mod item;
mod request;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::http::{Http, Sink};
use super::openai::{auth, names_unknown};
use super::{Ask, Endpoint, ErrorClass, ProviderError};
use crate::model::chat::{ModelReply, ModelRequest, ReplyStop};

/// The name of this wire in raw blocks.
const WIRE: &str = "openai-responses";

/// An OpenAI responses server.
pub(super) struct OpenaiResponses {
    http: Http,
    /// Whether encrypted reasoning is asked for.
    encrypted: AtomicBool,
    /// Whether the items' ids are sent back.
    ids: AtomicBool,
    extra: Map<String, Value>,
}

impl OpenaiResponses {
    /// A client of this endpoint.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ProviderError> {
        Ok(Self {
            http: Http::new(endpoint, "responses", auth)?,
            encrypted: AtomicBool::new(true),
            ids: AtomicBool::new(true),
            extra: endpoint.extra_body()?,
        })
    }

    /// Learns from a refused form; true when the request is worth sending again in another form.
    /// Each thing is learnt once, so that this ends.
    fn learn(&self, error: &ProviderError, sent: request::Options) -> bool {
        let refused = matches!(error.class, ErrorClass::BadRequest | ErrorClass::UnknownModel);
        let message = error.message.to_ascii_lowercase();
        if refused && sent.encrypted && refuses_encrypted(&message) {
            self.encrypted.store(false, Ordering::Relaxed);
            return true;
        }
        // A gateway that lost what an id stood for, although the item itself is there.
        if refused && sent.ids && message.contains("item with id") && message.contains("not found")
        {
            self.ids.store(false, Ordering::Relaxed);
            return true;
        }
        false
    }
}

/// Models that don't reason refuse to encrypt it, and some servers don't know the field.
fn refuses_encrypted(message: &str) -> bool {
    let said = message.contains("encrypted content") || message.contains("encrypted_content");
    let refused = ["not supported", "unsupported", "invalid value"];
    said && refused.iter().any(|word| message.contains(word)) || names_unknown(message, "include")
}

impl Ask for OpenaiResponses {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let body = || {
            let options = request::Options {
                encrypted: self.encrypted.load(Ordering::Relaxed),
                ids: self.ids.load(Ordering::Relaxed),
            };
            Ok((request::body(request, options, &self.extra)?, options))
        };
        let learn = |error: &ProviderError, sent| self.learn(error, sent);
        let reply =
            self.http.ask_as_learnt::<stream::Stream, _>(body, learn, request, sink, cancel).await;
        reply.map(|reply| cut(reply, request))
    }
}

/// The same, told as cut where it has all the tokens that it may have: llama.cpp calls such an answer
/// completed. One that ends there by itself is told so, too, and costs a reminder.
fn cut(mut reply: ModelReply, request: &ModelRequest) -> ModelReply {
    let ended = matches!(reply.stop, ReplyStop::EndTurn | ReplyStop::ToolUse);
    if ended && reply.usage.output_tokens >= u64::from(request.max_output_tokens) {
        reply.stop = ReplyStop::MaxTokens;
    }
    reply
}

#[cfg(test)]
mod tests;
