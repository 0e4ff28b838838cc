//! One streaming POST to a model server.
//!
//! Lives here: the client, its TLS, the deadlines, cancellation, and the words of every error that the
//! network or a status causes. Never here: what a body means; dialects hand in an [`Answer`].

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::endpoint::{is_loopback, shown_host};
use super::mask::Mask;
use super::sse::{self, Fault};
use super::{Deadlines, Endpoint, ErrorClass, ProviderError, refusal};
use crate::model::chat::{Delta, ModelReply};

/// Where pieces of an answer go as they stream in.
pub(super) type Sink<'a> = dyn FnMut(Delta) + Send + 'a;

/// The most bytes that are read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long an error's body may take once its status is known.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// How long the closing bytes of a finished answer may take, so that its connection can be used again.
const DRAIN_TIME: Duration = Duration::from_millis(50);

/// A dialect's reader of one answer.
pub(super) trait Answer: Send {
    /// Takes one event; `Ok(true)` says that the answer has come to its end.
    fn event(&mut self, data: &str, sink: &mut Sink<'_>) -> Result<bool, Broken>;

    /// Takes an answer that came whole, as JSON, from a server that does not stream.
    fn whole(&mut self, body: &str, sink: &mut Sink<'_>) -> Result<(), Broken>;

    /// The whole answer, once its end has come.
    fn finish(self) -> Result<ModelReply, Broken>
    where
        Self: Sized;
}

/// What is wrong with an answer that had begun.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It breaks the dialect's rules: why.
    Protocol(String),
    /// The server reports an error inside the stream.
    InBand(refusal::Words),
}

/// A client of one endpoint's resource. No `Debug`: a URL may hold a secret.
pub(super) struct Http {
    client: Client,
    url: Url,
    /// User and password of the base URL, taken out of it so that no log can show them.
    login: Option<(String, SecretString)>,
    name: String,
    host: String,
    has_key: bool,
    headers: HeaderMap,
    deadlines: Deadlines,
    mask: Mask,
}

impl Http {
    /// A client of `resource`. `auth` turns the key into a header.
    pub(super) fn new(
        endpoint: &Endpoint,
        resource: &str,
        auth: impl FnOnce(&Url, &str) -> (HeaderName, String),
    ) -> Result<Self, ProviderError> {
        let mut url = endpoint.url(resource)?;
        let mask = mask(endpoint, &url);
        let login = take_login(&mut url);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let key = endpoint.key.as_ref().map(|key| key.expose_secret().trim());
        let key = key.filter(|key| !key.is_empty());
        if let Some(key) = key {
            let (name, value) = auth(&url, key);
            headers.insert(name, secret_value(&value, || key_error(&endpoint.name))?);
        }
        for (name, value) in &endpoint.headers {
            let (name, value) = extra_header(&endpoint.name, name, value)?;
            headers.insert(name, value);
        }
        Ok(Self {
            client: client(endpoint, &url)?,
            host: shown_host(&url),
            name: endpoint.name.clone(),
            has_key: key.is_some(),
            headers,
            deadlines: endpoint.deadlines,
            mask,
            url,
            login,
        })
    }

    /// The URL that requests go to.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends `body` and reads the answer to its end.
    pub(super) async fn ask<A: Answer>(
        &self,
        body: Vec<u8>,
        model: &str,
        mut answer: A,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let mut begun = false;
        let exchange = self.exchange(body, model, &mut answer, sink, &mut begun);
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ProviderError::cancelled()),
            () = sleep(self.deadlines.whole) => Err(self.late("the whole answer", self.deadlines.whole, model)),
            result = exchange => result,
        };
        let finished = match result {
            Ok(()) => answer.finish().map_err(|broken| self.broken(broken, model)),
            Err(error) => Err(error),
        };
        // Once the request is out, only the server knows what it will charge for.
        finished.map_err(|error| error.charged(begun))
    }

    async fn exchange<A: Answer>(
        &self,
        body: Vec<u8>,
        model: &str,
        answer: &mut A,
        sink: &mut Sink<'_>,
        begun: &mut bool,
    ) -> Result<(), ProviderError> {
        let first = Instant::now() + self.deadlines.first_byte;
        let mut request = self.client.post(self.url.clone()).headers(self.headers.clone());
        if let Some((user, password)) = &self.login {
            request = request.basic_auth(user, Some(password.expose_secret()));
        }
        *begun = true;
        let response = match timeout_at(first, request.body(body).send()).await {
            Err(_) => return Err(self.late("the first byte", self.deadlines.first_byte, model)),
            Ok(Err(error)) => {
                *begun = !error.is_connect() && !error.is_builder();
                return Err(self.unreachable(error, model));
            }
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status != StatusCode::OK || !has_kind(&response, "text/event-stream") {
            *begun = status == StatusCode::OK;
            return self.unstreamed(response, first, model, answer, sink).await;
        }
        let body = response.bytes_stream().boxed();
        let mut events = sse::events(body, first, self.deadlines.idle);
        while let Some(event) = events.next().await {
            let event = event.map_err(|fault| self.interrupted(fault, model))?;
            let over = answer.event(&event.data, sink);
            if over.map_err(|broken| self.broken(broken, model))? {
                let rest = async { while events.next().await.is_some() {} };
                timeout(DRAIN_TIME, rest).await.ok();
                break;
            }
        }
        Ok(())
    }

    /// Reads an answer that is no event stream: an error, or a whole answer as JSON.
    async fn unstreamed<A: Answer>(
        &self,
        mut response: Response,
        first: Instant,
        model: &str,
        answer: &mut A,
        sink: &mut Sink<'_>,
    ) -> Result<(), ProviderError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let ok = status == StatusCode::OK;
        let is_json = has_kind(&response, "application/json");
        let limit = if ok { sse::MAX_LINE } else { MAX_ERROR_BODY };
        let late = if ok { first } else { first.min(Instant::now() + ERROR_BODY_TIME) };
        let body = body(&mut response, limit, late).await;
        let words = refusal::words(&body);
        if ok && is_json && !words.is_error {
            return answer.whole(&body, sink).map_err(|broken| self.broken(broken, model));
        }
        let is_error = !ok || words.is_error;
        let (class, what) = match is_error {
            true => (refusal::class(status.as_u16(), &words), format!("answered {status}")),
            false => {
                let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
                let kind = kind.unwrap_or("no content type");
                (ErrorClass::Protocol, format!("answered with {kind} in place of an event stream"))
            }
        };
        let words = match headers.get(LOCATION).and_then(|to| to.to_str().ok()) {
            Some(to) if status.is_redirection() => format!("it points to {to}"),
            _ => words.message,
        };
        let mut error = self.error(class, &what, &words, model);
        error.retry_after = refusal::retry_after(&headers, SystemTime::now());
        Err(error)
    }

    fn unreachable(&self, error: reqwest::Error, model: &str) -> ProviderError {
        if error.is_connect() && error.is_timeout() {
            return self.late("a connection", self.deadlines.connect, model);
        }
        let class = match error.is_builder() {
            true => ErrorClass::BadRequest,
            false => ErrorClass::Unreachable,
        };
        self.error(class, "could not be reached", &cause(error.without_url()), model)
    }

    fn interrupted(&self, fault: Fault<reqwest::Error>, model: &str) -> ProviderError {
        let protocol = |what: &str, why: &str| self.error(ErrorClass::Protocol, what, why, model);
        match fault {
            Fault::FirstByte => self.late("the first byte", self.deadlines.first_byte, model),
            Fault::Idle => self.late("the next byte", self.deadlines.idle, model),
            Fault::TooLong => protocol("sent an answer that is too long", ""),
            Fault::Encoding => protocol("sent an answer that is not UTF-8", ""),
            Fault::Transport(error) => {
                protocol("broke the answer off", &cause(error.without_url()))
            }
        }
    }

    fn broken(&self, broken: Broken, model: &str) -> ProviderError {
        match broken {
            Broken::Protocol(why) => {
                self.error(ErrorClass::Protocol, "sent a broken answer", &why, model)
            }
            Broken::InBand(words) => {
                let class = refusal::class(0, &words);
                self.error(class, "ended the answer with an error", &words.message, model)
            }
        }
    }

    fn late(&self, what: &str, limit: Duration, model: &str) -> ProviderError {
        let what = format!("did not give {what} within {limit:?}");
        self.error(ErrorClass::Timeout, &what, "", model)
    }

    fn error(&self, class: ErrorClass, what: &str, words: &str, model: &str) -> ProviderError {
        // Masked before it is cut: a cut key would no longer be recognised.
        let words = refusal::clipped(&self.mask.apply(words));
        let colon = if words.is_empty() { "" } else { ": " };
        let advice = refusal::advice(class, &self.name, model, self.has_key);
        let (name, host) = (&self.name, &self.host);
        ProviderError::new(class, format!("{name} ({host}) {what}{colon}{words}; {advice}"))
    }
}

fn has_kind(response: &Response, kind: &str) -> bool {
    let told = response.headers().get(CONTENT_TYPE).and_then(|told| told.to_str().ok());
    told.is_some_and(|told| told.trim_start().to_ascii_lowercase().starts_with(kind))
}

/// The body as text, as far as it comes until `late` and fits into about `limit` bytes.
async fn body(response: &mut Response, limit: usize, late: Instant) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > limit {
                break;
            }
        }
    };
    timeout_at(late, read).await.ok();
    String::from_utf8_lossy(&body).into_owned()
}

/// The innermost cause, which is the one that says something ("connection refused").
fn cause(error: reqwest::Error) -> String {
    let outer = error.to_string();
    let mut source = error.source();
    let mut inner = None;
    while let Some(error) = source {
        inner = Some(error.to_string());
        source = error.source();
    }
    inner.unwrap_or(outer)
}

fn client(endpoint: &Endpoint, url: &Url) -> Result<Client, ProviderError> {
    // The first one counts; a second call changes nothing and is no error here.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut builder = Client::builder()
        .connect_timeout(endpoint.deadlines.connect)
        // A redirect would carry the key to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("bakeoff/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No TLS can happen, so that a machine without trusted certificates will do.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        let message = format!(
            "provider {}: the TLS client could not be made: {}; install the system's trusted \
             certificates (package ca-certificates)",
            endpoint.name,
            cause(error.without_url())
        );
        ProviderError::new(ErrorClass::Unreachable, message)
    })
}

/// Takes user and password out of the URL, to be sent as a header that is marked as sensitive.
fn take_login(url: &mut Url) -> Option<(String, SecretString)> {
    let plain = |text: &str| percent_decoded(text);
    let login = url.password().map(|password| (plain(url.username()), plain(password).into()));
    // Both are only refused for URLs without a host, which `Endpoint::url` does not let through.
    url.set_username("").ok();
    url.set_password(None).ok();
    login
}

fn percent_decoded(text: &str) -> String {
    // A query is the only place where the URL type decodes; `+` must not become a space there.
    let query = format!("http://x/?v={}", text.replace('+', "%2B"));
    let value =
        Url::parse(&query).ok().and_then(|url| Some(url.query_pairs().next()?.1.into_owned()));
    value.unwrap_or_else(|| text.to_owned())
}

fn mask(endpoint: &Endpoint, url: &Url) -> Mask {
    let headers = endpoint.headers.iter().map(|(_, value)| value.clone());
    let key = endpoint.key.as_ref().map(|key| SecretString::from(key.expose_secret().trim()));
    let password = url.password().map(|text| SecretString::from(percent_decoded(text)));
    let query =
        url.query_pairs().filter(|(name, _)| name.contains("key") || name.contains("token"));
    let query = query.map(|(_, value)| SecretString::from(value.into_owned()));
    Mask::new(headers.chain(key).chain(password).chain(query))
}

fn extra_header(
    provider: &str,
    name: &str,
    value: &SecretString,
) -> Result<(HeaderName, HeaderValue), ProviderError> {
    let fail = || {
        let message = format!(
            "`providers.{provider}.headers` has a header {name:?} that can't be sent; use letters, \
             digits and dashes for its name and one line of text for its value"
        );
        ProviderError::new(ErrorClass::BadRequest, message)
    };
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fail())?;
    Ok((header, secret_value(value.expose_secret(), fail)?))
}

fn secret_value(
    value: &str,
    fail: impl FnOnce() -> ProviderError,
) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| fail())?;
    value.set_sensitive(true);
    Ok(value)
}

fn key_error(provider: &str) -> ProviderError {
    let message = format!(
        "the key of provider {provider} has characters that no header can carry; set the variable \
         that `providers.{provider}.key_env` names again, as one line"
    );
    ProviderError::new(ErrorClass::Auth, message)
}
