//! Anthropic messages, streaming.
//!
//! Lives here: the provider. Never here: HTTP, which is `http`'s.

mod events;
mod request;
mod stream;

use reqwest::Url;
use reqwest::header::HeaderName;
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::http::{Http, Sink};
use super::{Ask, Endpoint, ProviderError};
use crate::model::chat::{ModelReply, ModelRequest};

/// The name of this wire in reasoning blocks.
const WIRE: &str = "anthropic";
/// The version of the protocol that is spoken here.
const VERSION: &str = "2023-06-01";
/// The header that names the version, which is no secret.
pub(super) const VERSION_HEADER: &str = "anthropic-version";

/// An Anthropic messages server.
pub(super) struct Anthropic {
    http: Http,
    extra: Map<String, Value>,
}

impl Anthropic {
    /// A client of this endpoint. An `anthropic-version` among its headers outranks ours.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ProviderError> {
        let mut endpoint = endpoint.clone();
        if !endpoint.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER)) {
            endpoint.headers.push((VERSION_HEADER.into(), SecretString::from(VERSION)));
        }
        let http = Http::new(&endpoint, "messages", auth)?;
        Ok(Self { http, extra: endpoint.extra_body()? })
    }
}

impl Ask for Anthropic {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let body = request::body(request, &self.extra)?;
        self.http.ask(body, request, stream::Stream::default(), sink, cancel).await
    }
}

fn auth(_: &Url, key: &str) -> (HeaderName, String) {
    (HeaderName::from_static("x-api-key"), key.to_owned())
}

#[cfg(test)]
mod tests;
