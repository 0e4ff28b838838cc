//! One streaming POST to a model server.
//!
//! Lives here: the deadlines, cancellation, and the words of every error that the
//! network or a status causes. Never here: how the client is made (`client`), and what a body means:
//! dialects hand in an [`Answer`].

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::mask::Mask;
use super::sse::{self, Fault};
use super::{Deadlines, ErrorClass, ProviderError, bound, refusal};
use crate::model::chat::{Delta, ModelReply, ModelRequest};

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

    /// How much is held of it so far, in bytes, or about that: all that grows with what the server sends.
    fn held(&self) -> usize;

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

/// What an answer is measured by.
#[derive(Clone, Copy)]
struct Asked<'a> {
    model: &'a str,
    /// The most that it may hold, in bytes.
    most: usize,
}

/// A client of one endpoint's resource. No `Debug`: a URL may hold a secret.
pub(super) struct Http {
    pub(super) client: Client,
    pub(super) url: Url,
    /// User and password of the base URL, taken out of it so that no log can show them.
    pub(super) login: Option<(String, SecretString)>,
    pub(super) name: String,
    pub(super) host: String,
    pub(super) has_key: bool,
    pub(super) headers: HeaderMap,
    pub(super) deadlines: Deadlines,
    pub(super) mask: Mask,
}

impl Http {
    /// The URL that requests go to.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Asks, and again each time that `learn` has found in a refusal how this server wants to be asked. `body` makes
    /// a request as far as that is known, with what `learn` is to be told of it.
    pub(super) async fn ask_as_learnt<A: Answer + Default, O: Copy>(
        &self,
        body: impl Fn() -> Result<(Vec<u8>, O), ProviderError>,
        learn: impl Fn(&ProviderError, O) -> bool,
        request: &ModelRequest,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        loop {
            let (bytes, sent) = body()?;
            match self.ask(bytes, request, A::default(), sink, cancel).await {
                Err(error) if learn(&error, sent) => {}
                result => return result,
            }
        }
    }

    /// Sends `body`, which is `request` as the server wants it, and reads the answer to its end.
    pub(super) async fn ask<A: Answer>(
        &self,
        body: Vec<u8>,
        request: &ModelRequest,
        mut answer: A,
        sink: &mut Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let mut begun = false;
        let model = request.model.as_str();
        let asked = Asked { model, most: bound::most(request.max_output_tokens) };
        let exchange = self.exchange(body, asked, &mut answer, sink, &mut begun);
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
        asked: Asked<'_>,
        answer: &mut A,
        sink: &mut Sink<'_>,
        begun: &mut bool,
    ) -> Result<(), ProviderError> {
        let model = asked.model;
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
            *begun = status.is_success();
            return self.unstreamed(response, first, asked, answer, sink).await;
        }
        let body = response.bytes_stream().boxed();
        let mut events = sse::events(body, first, self.deadlines.idle);
        while let Some(event) = events.next().await {
            let event = event.map_err(|fault| self.interrupted(fault, model))?;
            let over = answer.event(&event.data, sink);
            let over = over.map_err(|broken| self.broken(broken, model))?;
            self.bounded(answer, asked)?;
            if over {
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
        asked: Asked<'_>,
        answer: &mut A,
        sink: &mut Sink<'_>,
    ) -> Result<(), ProviderError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let ok = status == StatusCode::OK;
        let is_json = has_kind(&response, "application/json");
        let model = asked.model;
        // A body's text may be escaped, which its bound counts without: a small one has room for that.
        let limit = if ok { sse::MAX_LINE.max(asked.most) } else { MAX_ERROR_BODY };
        let late = if ok { first } else { first.min(Instant::now() + ERROR_BODY_TIME) };
        let body = body(&mut response, limit, late).await;
        if ok && is_json && body.len() > limit {
            return Err(self.too_long(limit, model));
        }
        let words = refusal::words(&body);
        if ok && is_json && !words.is_error {
            answer.whole(&body, sink).map_err(|broken| self.broken(broken, model))?;
            return self.bounded(answer, asked);
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
            Fault::Line => self.too_long(sse::MAX_LINE, model),
            Fault::Whole => self.too_long(sse::MAX_ANSWER, model),
            Fault::Encoding => protocol("sent an answer that is not UTF-8", ""),
            Fault::Transport(error) => {
                protocol("broke the answer off", &cause(error.without_url()))
            }
        }
    }

    /// Refuses an answer that holds more than it may.
    fn bounded(&self, answer: &impl Answer, asked: Asked<'_>) -> Result<(), ProviderError> {
        match answer.held() > asked.most {
            true => Err(self.too_long(asked.most, asked.model)),
            false => Ok(()),
        }
    }

    fn too_long(&self, most: usize, model: &str) -> ProviderError {
        let what = format!("sent more than {} MiB for one answer", most >> 20);
        let why = "the answer was broken off";
        self.error(ErrorClass::TooLong, &what, why, model)
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
pub(super) fn cause(error: reqwest::Error) -> String {
    let outer = error.to_string();
    let mut source = error.source();
    let mut inner = None;
    while let Some(error) = source {
        inner = Some(error.to_string());
        source = error.source();
    }
    inner.unwrap_or(outer)
}
