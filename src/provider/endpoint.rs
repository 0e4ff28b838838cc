//! Where a model server is and how it is spoken to.
//!
//! Lives here: the endpoint's settings and the rules for its base URL. Never here: the environment;
//! keys are handed in.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{ErrorClass, ProviderError};
use crate::model::Wire;

/// How long a call may take, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// From the request until the first byte of the answer's body. Long, because a local server may
    /// read a long prompt before it says anything.
    pub first_byte: Duration,
    /// Between two pieces of the answer. Comments and pings of the server count as pieces.
    pub idle: Duration,
    /// The whole call.
    pub whole: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            whole: Duration::from_secs(1800),
        }
    }
}

/// Which field of an OpenAI chat request carries the largest answer's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLimitField {
    /// `max_completion_tokens` for OpenAI's and Azure's own hosts, `max_tokens` for all others, and
    /// the other one once a server has said that it wants it.
    #[default]
    Auto,
    /// Always `max_tokens`.
    MaxTokens,
    /// Always `max_completion_tokens`.
    MaxCompletionTokens,
}

/// Fields of a request's body that only the engine sets.
const OWN_FIELDS: [&str; 11] = [
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "seed",
    "tool_choice",
    "tools",
    "system",
    "messages",
];

/// Such fields of OpenAI responses: the server keeps nothing, so that nothing can be gone on with.
const OWN_RESPONSES_FIELDS: [&str; 8] = [
    "input",
    "instructions",
    "max_output_tokens",
    "store",
    "include",
    "background",
    "conversation",
    "previous_response_id",
];

/// A model server as the operator configured it.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the config; errors name it.
    pub name: String,
    /// The dialect it speaks.
    pub wire: Wire,
    /// Its base URL, with or without `/v1` and a closing slash; for a script, the file's path.
    pub base_url: String,
    /// The key, if it wants one.
    pub key: Option<SecretString>,
    /// Headers that every request carries in addition. Their values are treated as secrets.
    pub headers: Vec<(String, SecretString)>,
    /// Fields that every request's body carries in addition (`thinking`, `reasoning_effort`, routing).
    pub body: Map<String, Value>,
    /// How long its calls may take.
    pub deadlines: Deadlines,
    /// How the largest answer is told to an OpenAI chat server.
    pub output_limit: OutputLimitField,
}

impl Endpoint {
    /// An endpoint without a key, with the default deadlines.
    pub fn new(name: impl Into<String>, wire: Wire, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            wire,
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            body: Map::new(),
            deadlines: Deadlines::default(),
            output_limit: OutputLimitField::Auto,
        }
    }

    /// The same endpoint with a key.
    pub fn with_key(mut self, key: impl Into<SecretString>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Which server it is: scheme, host and port of the base URL. Several providers may be at one. `None` for
    /// a script, or where the base URL is none.
    pub fn origin(&self) -> Option<String> {
        if self.wire == Wire::Scripted {
            return None;
        }
        let mut url = Url::parse(self.base_url.trim()).ok()?;
        if url.host_str() == Some("localhost") {
            // People write both.
            url.set_host(Some("127.0.0.1")).ok()?;
        }
        Some(url.origin().ascii_serialization())
    }

    /// The extra fields of every request's body.
    ///
    /// # Errors
    /// When one of them is a field that the engine sets itself.
    pub(super) fn extra_body(&self) -> Result<Map<String, Value>, ProviderError> {
        let of_responses =
            |key: &str| self.wire == Wire::OpenaiResponses && OWN_RESPONSES_FIELDS.contains(&key);
        let own = |key: &&String| OWN_FIELDS.contains(&key.as_str()) || of_responses(key);
        match self.body.keys().find(own) {
            None => Ok(self.body.clone()),
            Some(key) => {
                let message = format!(
                    "`providers.{}.body` may not set `{key}`, which the engine sets itself; take it \
                     out",
                    self.name
                );
                Err(ProviderError::new(ErrorClass::BadRequest, message))
            }
        }
    }

    /// The URL of `resource` (`chat/completions`, `responses`, `messages`) under the base URL.
    pub(super) fn url(&self, resource: &str) -> Result<Url, ProviderError> {
        let fail = |why: &str| {
            // The URL itself is not repeated: it may hold credentials.
            let message = format!(
                "the base URL of provider {} {why}; set `providers.{}.base_url` to an http or \
                 https URL such as https://host/v1",
                self.name, self.name
            );
            ProviderError::new(ErrorClass::BadRequest, message)
        };
        let mut url = Url::parse(self.base_url.trim()).map_err(|_| fail("is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(fail("is not an http or https URL"));
        }
        let path = resource_path(url.path(), resource);
        url.set_path(&path);
        url.set_fragment(None);
        Ok(url)
    }
}

/// The path of `resource` under a base path. `/v1` is added unless the base already names a version
/// (`/v1`, `/v1beta/openai`, `/api/paas/v4`) or a deployment, as Azure's do.
fn resource_path(base: &str, resource: &str) -> String {
    let base = base.trim_end_matches('/');
    let base = base.strip_suffix(resource).unwrap_or(base).trim_end_matches('/');
    let versioned = base.split('/').any(|part| is_version(part) || part == "deployments");
    let version = if versioned { "" } else { "/v1" };
    format!("{base}{version}/{resource}")
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Host and port as errors may show them, without credentials, path and query.
pub(super) fn shown_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether the host is this machine, so that no proxy is asked.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = Url::parse(&self.base_url).map(|url| shown_host(&url));
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("host", &host.unwrap_or_default())
            .field("has_key", &self.key.is_some())
            .field("headers", &headers)
            .field("body", &self.body)
            .field("deadlines", &self.deadlines)
            .field("output_limit", &self.output_limit)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str) -> String {
        let endpoint = Endpoint::new("x", Wire::OpenaiChat, base);
        endpoint.url("chat/completions").unwrap().to_string()
    }

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        for (base, want) in [
            ("http://localhost:11434", "http://localhost:11434/v1/chat/completions"),
            ("http://localhost:8080/", "http://localhost:8080/v1/chat/completions"),
            ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
            ("http://localhost:8000/v1/ ", "http://localhost:8000/v1/chat/completions"),
            ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
            ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
            ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat/completions"),
            ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
            ("https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
            (
                "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
        ] {
            assert_eq!(url(base), want, "{base}");
        }
    }

    #[test]
    fn one_server_is_known_by_scheme_host_and_port() {
        let origin = |base: &str| Endpoint::new("x", Wire::Anthropic, base).origin().unwrap();
        let same =
            ["https://H.example/v1", "https://h.example:443/", "https://u:p@h.example/a?b=c"];
        assert!(same.iter().all(|base| origin(base) == "https://h.example"));
        for other in ["http://h.example", "https://h.example:8443", "https://g.example"] {
            assert_ne!(origin(other), "https://h.example");
        }
        assert_eq!(origin("http://localhost:8080/v1"), origin("http://127.0.0.1:8080"));
        assert_eq!(Endpoint::new("x", Wire::Scripted, "script.toml").origin(), None);
    }

    #[test]
    fn a_useless_base_url_is_refused_without_repeating_it() {
        for base in ["", "api.host/v1", "ftp://h/v1", "file:///etc/passwd", "http://u:pw@/x"] {
            let error = Endpoint::new("x", Wire::Anthropic, base).url("messages").expect_err(base);
            assert_eq!(error.class, ErrorClass::BadRequest);
            assert!(error.message.contains("providers.x.base_url"), "{error}");
            assert!(!error.message.contains("pw"), "{error}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let mut endpoint = Endpoint::new("x", Wire::Anthropic, "https://u:pw@h:9/v1?k=q-secret")
            .with_key("sk-secret".to_owned());
        endpoint.headers.push(("x-team".into(), "h-secret".to_owned().into()));
        let shown = format!("{endpoint:?}");
        assert!(shown.contains("h:9") && shown.contains("x-team"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("pw"), "{shown}");
    }
}
