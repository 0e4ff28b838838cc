//! OpenAI chat completions, as OpenAI, Azure, OpenRouter, LiteLLM, vLLM, llama.cpp and Ollama speak it.
//!
//! Lives here: the provider and what it learns of its server (which field limits the answer, whether
//! usage can be asked for). Never here: HTTP, which is `http`'s.

mod chunk;
mod reasoning;
mod request;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::http::{Http, Sink};
use super::{Ask, Endpoint, ErrorClass, OutputLimitField, ProviderError};
use crate::model::chat::{ModelReply, ModelRequest};

/// The name of this wire in reasoning blocks.
const WIRE: &str = "openai-chat";

/// An OpenAI chat server.
pub(super) struct OpenaiChat {
    http: Http,
    /// Whether the answer is limited by `max_completion_tokens`.
    completion_limit: AtomicBool,
    /// Whether a wrong guess of that may be mended.
    may_switch: AtomicBool,
    /// Whether usage is asked for.
    usage: AtomicBool,
    extra: Map<String, Value>,
}

impl OpenaiChat {
    /// A client of this endpoint.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ProviderError> {
        let http = Http::new(endpoint, "chat/completions", auth)?;
        let completion_limit = match endpoint.output_limit {
            OutputLimitField::Auto => is_first_party(http.url()),
            OutputLimitField::MaxTokens => false,
            OutputLimitField::MaxCompletionTokens => true,
        };
        Ok(Self {
            http,
            completion_limit: AtomicBool::new(completion_limit),
            may_switch: AtomicBool::new(endpoint.output_limit == OutputLimitField::Auto),
            usage: AtomicBool::new(true),
            extra: endpoint.extra_body()?,
        })
    }

    /// Learns from a refused form; true when the request is worth sending again in another form.
    /// Each thing is learnt once, so that this ends.
    fn learn(&self, error: &ProviderError, sent: request::Options) -> bool {
        let refused = error.class == ErrorClass::BadRequest;
        if refused && sent.usage && names_unknown(&error.message, "stream_options") {
            self.usage.store(false, Ordering::Relaxed);
            return true;
        }
        let field = match sent.completion_limit {
            true => "max_completion_tokens",
            false => "max_tokens",
        };
        if !refused || !names_unknown(&error.message, field) {
            return false;
        }
        if self.may_switch.swap(false, Ordering::Relaxed) {
            self.completion_limit.store(!sent.completion_limit, Ordering::Relaxed);
        }
        // Another lane may have learnt it in the meantime.
        sent.completion_limit != self.completion_limit.load(Ordering::Relaxed)
    }
}

impl Ask for OpenaiChat {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let body = || {
            let options = request::Options {
                completion_limit: self.completion_limit.load(Ordering::Relaxed),
                usage: self.usage.load(Ordering::Relaxed),
            };
            Ok((request::body(request, options, &self.extra)?, options))
        };
        let learn = |error: &ProviderError, sent| self.learn(error, sent);
        self.http.ask_as_learnt::<stream::Stream, _>(body, learn, request, sink, cancel).await
    }
}

/// The key's header: Azure has one of its own.
pub(super) fn auth(url: &Url, key: &str) -> (HeaderName, String) {
    match is_azure(url) {
        true => (HeaderName::from_static("api-key"), key.to_owned()),
        false => (AUTHORIZATION, format!("Bearer {key}")),
    }
}

/// Whether a server says that it does not know a field, and not that the field's value is wrong.
pub(super) fn names_unknown(message: &str, field: &str) -> bool {
    const WORDS: [&str; 6] =
        ["unsupported", "not supported", "unrecognized", "unknown", "extra", "unexpected"];
    let message = message.to_ascii_lowercase();
    message.contains(field) && WORDS.iter().any(|word| message.contains(word))
}

/// Azure's own hosts, those of its cloud for governments included.
fn is_azure(url: &Url) -> bool {
    let ends = |host: &str| host.ends_with(".azure.com") || host.ends_with(".azure.us");
    url.host_str().is_some_and(ends)
}

fn is_first_party(url: &Url) -> bool {
    is_azure(url) || url.host_str() == Some("api.openai.com")
}

#[cfg(test)]
mod tests;
