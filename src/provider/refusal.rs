//! Reads what a server answers when it does not answer the question.
//!
//! Lives here: the error bodies of the dialects (OpenAI, Azure, Anthropic, llama.cpp, vLLM, Ollama,
//! OpenRouter, LiteLLM) with their ways to say that the context is full, and the forms of
//! Retry-After. Pure. Never here: HTTP itself.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::ErrorClass;

/// The longest piece of a server's own words in an error, in characters.
pub(super) const MAX_WORDS: usize = 300;

/// The longest wait that is read from a header; a longer one is taken as this.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a server said in an error body or an in-band error event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Its message, or the whole body when it is of no known form.
    pub message: String,
    /// Its machine-readable codes (`type`, `code`, `status`), lower case, joined by a space.
    pub codes: String,
    /// The HTTP status that it names in the body, if any.
    pub status: Option<u16>,
    /// Whether the body says that it is an error (an `error` or `detail` field, or the kind `error`).
    pub is_error: bool,
}

/// Reads an error body: `{"error": {...}}`, `{"error": "text"}`, `{"detail": ...}`, or the fields at
/// the top, as JSON or inside a one-element list; anything else is taken as text.
pub(super) fn words(body: &str) -> Words {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        return Words { message: one_line(body), ..Words::default() };
    };
    let value = value.get(0).unwrap_or(&value);
    let named = value.get("error").or_else(|| value.get("detail")).filter(|error| !error.is_null());
    let kind = value.get("object").or_else(|| value.get("type"));
    let is_error = named.is_some() || kind.is_some_and(|kind| kind == "error");
    let error = named.unwrap_or(value);
    let message = match error {
        Value::String(text) => text.clone(),
        _ => ["message", "msg", "detail"]
            .iter()
            .find_map(|key| error.get(*key).and_then(Value::as_str))
            .map_or_else(|| error.to_string(), str::to_owned),
    };
    let message = one_line(&with_cause(error, message));
    Words { message, codes: codes(error), status: status(error), is_error }
}

/// OpenRouter and LiteLLM put the words of the server behind them beside their own.
fn with_cause(error: &Value, message: String) -> String {
    match error.pointer("/metadata/raw").and_then(Value::as_str) {
        Some(raw) if !message.contains(raw) => format!("{message}: {raw}"),
        _ => message,
    }
}

fn codes(error: &Value) -> String {
    let codes = ["type", "code", "status", "error_type"].iter().filter_map(|key| error.get(*key));
    let inner = error.pointer("/innererror/code").into_iter();
    let codes: Vec<_> = codes.chain(inner).filter_map(Value::as_str).collect();
    codes.join(" ").to_ascii_lowercase()
}

fn status(error: &Value) -> Option<u16> {
    ["code", "status", "status_code"].iter().find_map(|key| {
        let value = error.get(*key)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Codes that say that the context is full, whatever the status.
const OVERFLOW_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "context_exceeded",
    "context_window_exceeded",
    "contextwindowexceeded",
];

/// Words that say so where there is no code: OpenAI and vLLM, Anthropic (two), llama.cpp (two),
/// LiteLLM, Gemini, Groq and Mistral; older vLLM, where a conversation leaves less than no room.
const OVERFLOW_WORDS: &[&str] = &[
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the available context size",
    "context size has been exceeded",
    "contextwindowexceedederror",
    "exceeds the maximum number of tokens allowed",
    "reduce the length of the messages",
    "maximum model length",
    "exceeds the context window",
    "too large for model with",
    "max_tokens must be at least 1, got -",
];

/// Words of servers that answer a wrong key with 400: Gemini.
const BAD_KEY_WORDS: &[&str] = &["api key not valid", "api_key_invalid", "invalid api key"];

/// Words of servers that answer an unknown model with 400: OpenRouter, LiteLLM, Mistral, DeepSeek.
const UNKNOWN_MODEL_WORDS: &[&str] = &[
    "not a valid model",
    "invalid model",
    "model not exist",
    "model_not_found",
    "unknown model",
    "no such model",
];

/// The class of an error with this HTTP status (0 for one inside a stream without a status).
pub(super) fn class(status: u16, words: &Words) -> ErrorClass {
    let status = if matches!(status, 0 | 200) { words.status.unwrap_or(0) } else { status };
    let said = format!("{} {}", words.codes, words.message.to_ascii_lowercase());
    let says = |what: &[&str]| what.iter().any(|what| said.contains(what));
    if !matches!(status, 401 | 403 | 429) && (says(OVERFLOW_CODES) || says(OVERFLOW_WORDS)) {
        return ErrorClass::ContextOverflow;
    }
    if says(&["insufficient_quota", "billing_error", "credit balance is too low"]) {
        return ErrorClass::Payment;
    }
    if matches!(status, 400 | 422) && says(BAD_KEY_WORDS) {
        return ErrorClass::Auth;
    }
    if matches!(status, 400 | 422) && says(UNKNOWN_MODEL_WORDS) {
        return ErrorClass::UnknownModel;
    }
    by_status(status).unwrap_or_else(|| by_code(&said))
}

fn by_status(status: u16) -> Option<ErrorClass> {
    Some(match status {
        401 | 403 | 407 => ErrorClass::Auth,
        // Done, and no answer: 204 has none, and 206 is a part of one.
        201..300 => ErrorClass::Protocol,
        402 => ErrorClass::Payment,
        404 => ErrorClass::UnknownModel,
        408 => ErrorClass::Timeout,
        413 => ErrorClass::ContextOverflow,
        429 => ErrorClass::RateLimited,
        409 | 425 | 500..600 => ErrorClass::Overloaded,
        300..500 => ErrorClass::BadRequest,
        _ => return None,
    })
}

/// For errors inside a stream, which carry no status.
fn by_code(said: &str) -> ErrorClass {
    let says = |what: &[&str]| what.iter().any(|what| said.contains(what));
    if says(&["rate_limit", "rate limit", "too many requests", "resource_exhausted"]) {
        ErrorClass::RateLimited
    } else if says(&["authentication", "permission_error", "invalid_api_key", "unauthorized"]) {
        ErrorClass::Auth
    } else if says(&["model_not_found", "not_found_error"]) {
        ErrorClass::UnknownModel
    } else if says(&["invalid_request", "badrequest", "bad_request", "invalid_argument"]) {
        ErrorClass::BadRequest
    } else {
        // `overloaded_error`, `api_error`, `server_error` and what nobody has named yet: the server
        // gave up in the middle of an answer, and asking again may help.
        ErrorClass::Overloaded
    }
}

/// How long the server asks to wait: `retry-after-ms`, or `retry-after` as seconds (also with a
/// fraction) or as an HTTP date. A date that has passed is no wait.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or(LONGEST_WAIT);
    if let Some(millis) = text("retry-after-ms").and_then(number) {
        return Some(seconds(millis / 1000.0).min(LONGEST_WAIT));
    }
    let value = text("retry-after")?;
    let wait = match number(value) {
        Some(number) => seconds(number),
        None => {
            let date = httpdate::parse_http_date(value).ok()?;
            date.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

/// What the operator can do about an error of this class.
pub(super) fn advice(class: ErrorClass, provider: &str, model: &str, has_key: bool) -> String {
    match class {
        ErrorClass::Auth if !has_key => format!(
            "no key is set for provider {provider}: put one into the environment variable that \
             `providers.{provider}.key_env` names"
        ),
        ErrorClass::Auth => format!(
            "check the key of provider {provider} (the variable that `providers.{provider}.key_env` \
             names) and that it may use {model}"
        ),
        ErrorClass::Payment => format!("add credit to the account of provider {provider}"),
        ErrorClass::UnknownModel => format!(
            "check that the server has the model {model} and that `providers.{provider}.base_url` \
             is right"
        ),
        ErrorClass::RateLimited => "lower `--max-parallel` or try again later".to_owned(),
        ErrorClass::Overloaded => "try again later or use another model".to_owned(),
        ErrorClass::Unreachable => {
            format!("check that the server runs and that `providers.{provider}.base_url` is right")
        }
        ErrorClass::Timeout => {
            "try again, or allow more time in the provider's deadlines".to_owned()
        }
        ErrorClass::ContextOverflow => {
            format!("use a model with a longer context than {model}, or a smaller task")
        }
        ErrorClass::BadRequest => {
            format!("check that {model} can do chat with tools on this server")
        }
        ErrorClass::Protocol => {
            "check that the base URL leads to a model server and to no proxy that cuts streams"
                .to_owned()
        }
        ErrorClass::TooLong => {
            format!(
                "use another model or server than {model}: this one does not keep to the largest answer"
            )
        }
        ErrorClass::Budget | ErrorClass::Cancelled => "start the run again".to_owned(),
    }
}

/// Cuts a server's words to [`MAX_WORDS`] characters.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_WORDS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(status: u16, body: &str) -> ErrorClass {
        class(status, &words(body))
    }

    #[test]
    fn every_dialect_of_a_full_context_is_known() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4390,"n_ctx":4096}}"#,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}"#,
            ),
            (
                400,
                r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: too long","type":null,"param":null,"code":"400"}}"#,
            ),
            (
                0,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error"}}"#,
            ),
        ] {
            assert_eq!(class_of(status, body), ErrorClass::ContextOverflow, "{body}");
        }
    }

    #[test]
    fn classes_come_from_the_status_or_else_from_the_code() {
        use ErrorClass::*;
        for (status, body, want) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                Auth,
            ),
            (403, "forbidden", Auth),
            (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, Payment),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                Payment,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                Payment,
            ),
            (
                429,
                r#"{"error":{"message":"Request too large: please reduce the length of the messages"}}"#,
                RateLimited,
            ),
            (404, r#"{"error":"model 'x' not found"}"#, UnknownModel),
            (400, r#"{"error":{"message":"x/y is not a valid model ID"}}"#, UnknownModel),
            (400, r#"{"error":{"message":"Model Not Exist","type":"x"}}"#, UnknownModel),
            (400, r#"{"error":{"message":"Invalid model name in model=z"}}"#, UnknownModel),
            (400, r#"[{"error":{"code":400,"message":"API key not valid."}}]"#, Auth),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Overloaded,
            ),
            (500, "", Overloaded),
            (502, "<html>bad gateway</html>", Overloaded),
            (301, "", BadRequest),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, BadRequest),
            (200, r#"{"error":{"code":429,"message":"slow down"}}"#, RateLimited),
            (
                0,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Overloaded,
            ),
            (
                0,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#,
                RateLimited,
            ),
            (
                0,
                r#"{"error":{"message":"what is that","type":"invalid_request_error"}}"#,
                BadRequest,
            ),
            (0, r#"{"error":"boom"}"#, Overloaded),
        ] {
            assert_eq!(class_of(status, body), want, "{status} {body}");
        }
    }

    #[test]
    fn words_are_found_in_every_form() {
        assert_eq!(words(r#"[{"error":{"message":"a\n b"}}]"#).message, "a b");
        assert_eq!(words(r#"{"error":"text"}"#).message, "text");
        assert_eq!(words(r#"{"detail":"Not Found"}"#).message, "Not Found");
        assert_eq!(words(r#"{"detail":[{"msg":"m"}]}"#).message, r#"[{"msg":"m"}]"#);
        assert_eq!(words("<html>\n oops").message, "<html> oops");
        assert_eq!(
            words(r#"{"error":{"message":"Provider returned error","metadata":{"raw":"full"}}}"#)
                .message,
            "Provider returned error: full"
        );
        assert_eq!(words("42").message, "42");
        assert_eq!(clipped(&"é".repeat(400)).chars().count(), 301);
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 37);
        let read = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers, now).map(|wait| wait.as_millis())
        };
        assert_eq!(read("retry-after", "20"), Some(20_000));
        assert_eq!(read("retry-after", " 0.25"), Some(250));
        assert_eq!(read("retry-after-ms", "1500"), Some(1500));
        assert_eq!(read("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(37_000));
        assert_eq!(read("retry-after", "Sun, 06 Nov 1983 08:49:37 GMT"), Some(0));
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-3"), None);
        assert_eq!(read("retry-after", "1e300"), Some(LONGEST_WAIT.as_millis()));
        assert_eq!(read("retry-after", "nan"), None);
    }
}
