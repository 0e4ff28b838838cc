//! The wires over real HTTP, against a server of ours that fails in every way we know.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff::config::{Config, Sources};
use bakeoff::model::chat::{
    Block, Delta, Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice, ToolSpec,
};
use bakeoff::model::{Cost, LaneId, MicroUsd, Wire};
use bakeoff::provider::{
    Ceiling, Ceilings, Deadlines, Endpoint, ErrorClass, Ledger, Metered, OutputLimitField, Price,
    Priced, Pricing, Provider, ProviderError, RateGate, RetryPolicy, Retrying, connect,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::place::PATIENCE;
use crate::support::server::{Reply, Request, Server};

const KEY: &str = "sk-test-0123456789abcdef";
pub(crate) const WIRES: [Wire; 3] = [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic];

pub(crate) fn endpoint(server: &Server, wire: Wire) -> Endpoint {
    Endpoint::new("test", wire, server.url()).with_key(KEY.to_owned())
}

fn request() -> ModelRequest {
    ModelRequest {
        model: "m-1".into(),
        system: "You fix bugs.".into(),
        tools: Arc::new([ToolSpec {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }]),
        messages: vec![Message::user("Fix it.")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 1000,
        temperature: None,
        seed: None,
        purpose: Purpose::Worker { lane: LaneId::of("fast", 1), turn: 0 },
    }
}

/// The events of a whole answer, each with its blank line.
pub(crate) fn events(wire: Wire) -> Vec<String> {
    let data = |data: Value| format!("data: {data}\n\n");
    match wire {
        Wire::Anthropic => [
            json!({"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 10, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ]
        .map(|event| format!("event: {}\n{}", event["type"].as_str().unwrap(), data(event.clone())))
        .to_vec(),
        Wire::OpenaiResponses => [
            json!({"type": "response.created", "response": {"id": "r", "model": "m-1", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg", "type": "message", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "msg", "delta": "done"}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"id": "msg", "type": "message",
                "role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]}}),
            json!({"type": "response.completed", "response": {"id": "r", "model": "m-1", "status": "completed",
                "usage": {"input_tokens": 10, "output_tokens": 5}}}),
        ]
        .map(|event| format!("event: {}\n{}", event["type"].as_str().unwrap(), data(event.clone())))
        .to_vec(),
        _ => {
            let choice = |delta: Value, finish: Value| {
                data(json!({"id": "r", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
            };
            vec![
                choice(json!({"role": "assistant", "content": ""}), Value::Null),
                choice(json!({"content": "done"}), Value::Null),
                choice(json!({}), "stop".into()),
                data(json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})),
                "data: [DONE]\n\n".to_owned(),
            ]
        }
    }
}

pub(crate) fn good(wire: Wire) -> Reply {
    Reply::sse(events(wire).concat())
}

async fn ask_with(
    provider: &dyn Provider,
    cancel: &CancellationToken,
) -> Result<ModelReply, ProviderError> {
    provider.call(&request(), &mut |_| {}, cancel).await
}

pub(crate) async fn ask(provider: &dyn Provider) -> Result<ModelReply, ProviderError> {
    ask_with(provider, &CancellationToken::new()).await
}

/// The error of one call to a server that gives this reply.
async fn error_of(wire: Wire, reply: Reply) -> ProviderError {
    let server = Server::scripted([reply]);
    let error = ask(&*connect(&endpoint(&server, wire)).unwrap()).await.unwrap_err();
    assert!(!error.message.contains(KEY), "{error}");
    assert!(error.message.contains("127.0.0.1:"), "the host is told: {error}");
    error
}

#[tokio::test]
async fn an_answer_is_read_and_its_connection_used_again() {
    for wire in WIRES {
        let server = Server::scripted([good(wire), good(wire)]);
        let provider = connect(&endpoint(&server, wire)).unwrap();
        for _ in 0..2 {
            let mut seen = Vec::new();
            let cancel = CancellationToken::new();
            let reply = provider.call(&request(), &mut |delta| seen.push(delta), &cancel).await;
            let reply = reply.unwrap();
            assert_eq!(reply.text(), "done");
            assert_eq!(reply.stop, ReplyStop::EndTurn);
            assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
            assert_eq!(seen, [Delta::Text("done".into())]);
        }
        assert_eq!(server.connections(), 1, "{wire:?}");
        let request = &server.requests()[0];
        let (path, auth) = match wire {
            Wire::Anthropic => ("/v1/messages", request.header("x-api-key").map(str::to_owned)),
            _ => (
                match wire {
                    Wire::OpenaiResponses => "/v1/responses",
                    _ => "/v1/chat/completions",
                },
                request.header("authorization").map(|v| v.replace("Bearer ", "")),
            ),
        };
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path));
        assert_eq!(auth.as_deref(), Some(KEY));
        assert_eq!(request.header("anthropic-version").is_some(), wire == Wire::Anthropic);
    }
}

#[tokio::test]
async fn extra_headers_are_sent_and_no_key_means_no_header() {
    let server = Server::scripted([good(Wire::OpenaiChat)]);
    let mut endpoint = Endpoint::new("test", Wire::OpenaiChat, server.url());
    endpoint.headers.push(("x-team".into(), "blue".to_owned().into()));
    ask(&*connect(&endpoint).unwrap()).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.header("authorization"), None);
    endpoint.headers.push(("bad name".into(), "hidden-value".to_owned().into()));
    let error = connect(&endpoint).err().unwrap();
    assert!(
        error.message.contains("bad name") && !error.message.contains("hidden-value"),
        "{error}"
    );
    let error = connect(&endpoint_with_key(&server, "sk-bad\nkey")).err().unwrap();
    assert_eq!(error.class, ErrorClass::Auth);
    assert!(!error.message.contains("sk-bad"), "{error}");
}

#[tokio::test]
async fn the_operators_body_fields_are_sent_and_ours_are_not_theirs() {
    for wire in WIRES {
        let server = Server::scripted([good(wire)]);
        let mut endpoint = endpoint(&server, wire);
        endpoint.body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 500}));
        ask(&*connect(&endpoint).unwrap()).await.unwrap();
        assert_eq!(server.requests()[0].json()["thinking"]["budget_tokens"], 500);
        endpoint.body.insert("messages".into(), json!([]));
        let error = connect(&endpoint).err().unwrap();
        assert!(error.message.contains("may not set `messages`"), "{error}");
    }
}

fn endpoint_with_key(server: &Server, key: &str) -> Endpoint {
    Endpoint::new("test", Wire::OpenaiChat, server.url()).with_key(key.to_owned())
}

#[tokio::test]
async fn every_status_has_its_class_its_words_and_its_advice() {
    use ErrorClass::*;
    for wire in WIRES {
        for (status, class, advice) in [
            (401, Auth, "key_env"),
            (403, Auth, "key_env"),
            (402, Payment, "credit"),
            (404, UnknownModel, "m-1"),
            (400, BadRequest, "tools"),
            (500, Overloaded, "try again"),
            (529, Overloaded, "try again"),
        ] {
            let body = json!({"error": {"message": "the server's words", "type": "x"}}).to_string();
            let error = error_of(wire, Reply::json(status, &body)).await;
            assert_eq!(error.class, class, "{status}: {error}");
            assert!(error.message.contains(&status.to_string()), "{error}");
            assert!(error.message.contains("the server's words"), "{error}");
            assert!(error.message.contains(advice), "{error}");
            assert!(!error.maybe_charged, "a refusal costs nothing: {error}");
        }
        // Done, it says, and gives no whole answer: nobody knows what it charges.
        for status in [201, 202, 204, 206, 226] {
            let (first, rest) = (Reply::json(status, ""), || Reply::json(status, "{\"x\": 1}"));
            let server = Server::scripted([first, rest(), rest(), good(wire)]);
            let provider = Retrying::new(connect(&endpoint(&server, wire)).unwrap(), quick());
            let error = ask(&provider).await.unwrap_err();
            assert_eq!(error.class, Protocol, "{status}: {error}");
            assert!(error.maybe_charged && error.message.contains("base URL"), "{error}");
            assert_eq!(server.requests().len(), 3, "{status}: {error}");
        }
        let reply = Reply::json(429, "{}").header("retry-after", "7");
        let error = error_of(wire, reply).await;
        assert_eq!((error.class, error.retry_after), (RateLimited, Some(Duration::from_secs(7))));
        let overflow = r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
        assert_eq!(error_of(wire, Reply::json(400, overflow)).await.class, ContextOverflow);
    }
    let server = Server::scripted([Reply::json(401, "{}")]);
    let error =
        ask(&*connect(&Endpoint::new("test", Wire::OpenaiChat, server.url())).unwrap()).await;
    assert!(error.unwrap_err().message.contains("no key is set for provider test"));
}

#[tokio::test]
async fn a_key_that_the_server_echoes_is_masked_and_its_words_are_cut() {
    let echo = json!({"error": {"message": format!("bad key {KEY}: {}", "x".repeat(1000))}});
    let error = error_of(Wire::OpenaiChat, Reply::json(401, &echo.to_string())).await;
    assert!(error.message.contains("bad key [secret]"), "{error}");
    assert!(error.message.len() < 700, "{error}");
    // Not JSON, in the stream, and cut so that only a part of the key would be left.
    let error = error_of(
        Wire::OpenaiChat,
        Reply::new(500, "text/plain", format!("{}{KEY}", "x".repeat(290))),
    )
    .await;
    assert!(!error.message.contains("sk-test"), "{error}");
    let in_band = format!("data: {echo}\n\n");
    let error = error_of(Wire::OpenaiChat, Reply::sse(in_band)).await;
    assert!(error.message.contains("[secret]") && !format!("{error:?}").contains(KEY), "{error}");
}

/// Where a test's log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_most_talkative_log_holds_no_key() {
    let log = Log::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || to.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    for wire in WIRES {
        let echo = json!({"error": {"message": format!("overloaded, {KEY}")}}).to_string();
        let server = Server::scripted([Reply::json(503, &echo), good(wire)]);
        let provider = Retrying::new(connect(&endpoint(&server, wire)).unwrap(), quick());
        ask(&provider).await.unwrap();
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("asking again") && log.contains("[secret]"), "{log}");
    assert!(!log.contains(KEY), "{log}");
}

#[tokio::test]
async fn credentials_in_the_url_stay_out_of_errors() {
    let server =
        Server::scripted([Reply::json(500, r#"{"error":"user:hunter22 and q-hunter33"}"#)]);
    let url = server.url().replace("http://", "http://user:hunter22@") + "/v1?api_key=q-hunter33";
    let error =
        ask(&*connect(&Endpoint::new("test", Wire::OpenaiChat, url)).unwrap()).await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter"), "{error}");
    assert!(
        server.requests()[0].header("authorization").is_some_and(|auth| auth.starts_with("Basic "))
    );
}

#[tokio::test]
async fn an_answer_cut_after_any_event_is_a_protocol_error() {
    for wire in WIRES {
        let all = events(wire);
        for kept in 0..all.len() {
            for broken in [false, true] {
                let reply = Reply::sse(all[..kept].concat());
                let reply = if broken { reply.broken() } else { reply };
                let error = error_of(wire, reply).await;
                assert_eq!(error.class, ErrorClass::Protocol, "{kept} {broken}: {error}");
                assert!(error.maybe_charged, "nobody knows what was charged: {error}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_the_stream_is_that_error() {
    let anthropic = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let openai = "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":null}}\n\n";
    let responses = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Overloaded\",\"param\":null,\"sequence_number\":2}\n\n";
    let failed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"Overloaded\"}}}\n\n";
    for (wire, event) in [
        (Wire::Anthropic, anthropic),
        (Wire::OpenaiChat, openai),
        (Wire::OpenaiResponses, responses),
        (Wire::OpenaiResponses, failed),
    ] {
        for kept in 0..events(wire).len() {
            let text = events(wire)[..kept].concat() + event;
            let error = error_of(wire, Reply::sse(text)).await;
            assert_eq!(error.class, ErrorClass::Overloaded, "{error}");
            assert!(error.message.contains("Overloaded") && error.maybe_charged, "{error}");
        }
    }
}

#[tokio::test]
async fn what_is_no_event_stream_is_told() {
    let error =
        error_of(Wire::OpenaiChat, Reply::new(200, "text/html", "<html>login</html>")).await;
    assert_eq!(error.class, ErrorClass::Protocol);
    assert!(error.message.contains("text/html") && error.message.contains("login"), "{error}");
    let error =
        error_of(Wire::OpenaiChat, Reply::json(200, r#"{"error":{"code":429,"message":"slow"}}"#))
            .await;
    assert_eq!(error.class, ErrorClass::RateLimited);
    let error =
        error_of(Wire::Anthropic, Reply::json(302, "").header("location", "http://127.0.0.1:1/"))
            .await;
    assert_eq!(error.class, ErrorClass::BadRequest, "a redirect is not followed: {error}");
    assert!(error.message.contains("points to http://127.0.0.1:1/"), "{error}");
}

#[tokio::test]
async fn an_answer_that_comes_whole_is_taken_and_half_of_one_is_not() {
    let openai = json!({"id": "r", "object": "chat.completion", "model": "m-1", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": "done", "tool_calls": [{"id": "c", "type": "function",
        "function": {"name": "read_file", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5}});
    let anthropic = json!({"type": "message", "model": "m-1", "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "done"}, {"type": "tool_use", "id": "c", "name": "read_file", "input": {}}],
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    let responses = json!({"id": "r", "object": "response", "status": "completed", "error": null, "model": "m-1",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
            {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "{}"}],
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    for (wire, body) in [
        (Wire::OpenaiChat, openai),
        (Wire::OpenaiResponses, responses),
        (Wire::Anthropic, anthropic),
    ] {
        let body = body.to_string();
        let half = Reply::json(200, &body[..body.len() - 30]);
        let server = Server::scripted([Reply::json(200, &body), half]);
        let provider = connect(&endpoint(&server, wire)).unwrap();
        let reply = ask(&*provider).await.unwrap();
        assert_eq!((reply.text().as_str(), &reply.stop), ("done", &ReplyStop::ToolUse));
        let raw = |block: &&Block| !matches!(block, Block::Reasoning { .. });
        assert_eq!(reply.blocks.iter().filter(raw).count(), 2);
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
        assert_eq!(ask(&*provider).await.unwrap_err().class, ErrorClass::Protocol);
    }
}

#[tokio::test]
async fn a_line_without_end_is_broken_off() {
    let line = format!("data: {{\"choices\":[],\"x\":\"{}", "x".repeat(5 << 20));
    let error = error_of(Wire::OpenaiChat, Reply::sse(line).stalled()).await;
    assert_eq!(error.class, ErrorClass::TooLong);
    assert!(error.message.contains("sent more than 4 MiB for one answer"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // A port that was free a moment ago, and on which nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = Endpoint::new("test", Wire::OpenaiChat, format!("http://127.0.0.1:{port}"));
    let error = ask(&*connect(&endpoint).unwrap()).await.unwrap_err();
    assert_eq!((error.class, error.maybe_charged), (ErrorClass::Unreachable, false));
    assert!(error.message.contains("efused") && error.message.contains("base_url"), "{error}");
}

#[tokio::test]
async fn a_plain_server_behind_an_https_url_is_unreachable() {
    let server = Server::scripted([]);
    let url = server.url().replace("http:", "https:");
    // On a machine without trusted certificates there is no TLS client, and that is told, too.
    let error = match connect(&Endpoint::new("test", Wire::OpenaiChat, url)) {
        Ok(provider) => ask(&*provider).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.class, ErrorClass::Unreachable, "{error}");
}

fn hasty(server: &Server, deadlines: Deadlines) -> Arc<dyn Provider> {
    let mut endpoint = endpoint(server, Wire::OpenaiChat);
    endpoint.deadlines = deadlines;
    connect(&endpoint).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_deadline_is_kept_and_named() {
    // Long enough for a slow machine to have sent its request by then.
    let soon = Duration::from_secs(1);
    let first = Deadlines { first_byte: soon, ..Deadlines::default() };
    let idle = Deadlines { idle: soon, ..Deadlines::default() };
    let whole = Deadlines { whole: soon, ..Deadlines::default() };
    let begun = || Reply::sse(events(Wire::OpenaiChat)[0].clone()).stalled();
    for (deadlines, reply, word) in [
        (first, Reply::silence(), "first byte"),
        (first, Reply::sse("").stalled(), "first byte"),
        (idle, begun(), "next byte"),
        (whole, begun(), "whole answer"),
    ] {
        let server = Server::scripted([reply]);
        let error = ask(&*hasty(&server, deadlines)).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Timeout, "{error}");
        assert!(error.message.contains(word) && error.maybe_charged, "{error}");
        assert!(server.wait_for_leaving(1, PATIENCE), "the connection is closed");
    }
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_in_time_is_named_and_costs_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody is let in, and the queue before the door is full: what comes then gets no answer at all.
    rustix::net::listen(&listener, 0).unwrap();
    let quick = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200));
    let queue: Vec<_> = std::iter::from_fn(|| quick().ok()).take(100).collect();
    assert!(queue.len() < 100, "the queue is never full");
    let mut endpoint = Endpoint::new("test", Wire::OpenaiChat, format!("http://{address}"));
    endpoint.deadlines = Deadlines { connect: Duration::from_secs(1), ..Deadlines::default() };
    let error = ask(&*connect(&endpoint).unwrap()).await.unwrap_err();
    assert_eq!((error.class, error.maybe_charged), (ErrorClass::Timeout, false), "{error}");
    assert!(error.message.contains("a connection within 1s"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_closes_the_stream() {
    for reply in [Reply::silence(), Reply::sse(events(Wire::OpenaiChat)[..2].concat()).stalled()] {
        let server = Server::scripted([reply]);
        let provider = Retrying::new(
            connect(&endpoint(&server, Wire::OpenaiChat)).unwrap(),
            RetryPolicy::default(),
        );
        let cancel = CancellationToken::new();
        let call = ask_with(&provider, &cancel);
        let stop = async {
            // The server has the request: now it is cancelled in the middle.
            while server.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(call, stop);
        assert_eq!(result.unwrap_err().class, ErrorClass::Cancelled);
        assert!(server.wait_for_leaving(1, PATIENCE), "the stream is closed");
    }
}

#[tokio::test]
async fn the_other_output_limit_is_tried_once_and_remembered() {
    let refuse = r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#;
    let wire = Wire::OpenaiChat;
    let server = Server::scripted([Reply::json(400, refuse), good(wire), good(wire)]);
    let provider = connect(&endpoint(&server, wire)).unwrap();
    ask(&*provider).await.unwrap();
    ask(&*provider).await.unwrap();
    let fields: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.json().get("max_completion_tokens").is_some())
        .collect();
    assert_eq!(fields, [false, true, true]);
    // Fixed by the operator: no second try.
    let server = Server::scripted([Reply::json(400, refuse), good(wire)]);
    let mut fixed = endpoint(&server, wire);
    fixed.output_limit = OutputLimitField::MaxTokens;
    assert!(ask(&*connect(&fixed).unwrap()).await.is_err());
    assert_eq!(server.requests().len(), 1);
    // Refused whatever is sent: both are tried, then it ends.
    let both = r#"{"error":{"message":"unknown fields max_tokens, max_completion_tokens, stream_options"}}"#;
    let server = Server::start(move |_| Reply::json(400, both));
    assert!(ask(&*connect(&endpoint(&server, wire)).unwrap()).await.is_err());
    assert_eq!(server.requests().len(), 3);
}

pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy {
        first_wait: Duration::from_millis(5),
        longest_wait: Duration::from_millis(20),
        seed: Some(1),
        ..RetryPolicy::default()
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_says() {
    for wire in WIRES {
        let limited = Reply::json(429, "{}").header("retry-after-ms", "80");
        let server = Server::scripted([limited, good(wire)]);
        let provider = Retrying::new(connect(&endpoint(&server, wire)).unwrap(), quick());
        let reply = ask(&provider).await.unwrap();
        let at: Vec<_> = server.requests().iter().map(|request| request.at).collect();
        assert!(at[1] - at[0] >= Duration::from_millis(80), "{at:?}");
        assert_eq!(reply.text(), "done");
    }
}

#[tokio::test]
async fn a_retry_after_a_begun_answer_makes_the_cost_partly_unknown() {
    let wire = Wire::OpenaiChat;
    let price = Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None };
    let pricing = Pricing::new("test").with_price("m-1", price);
    for (first, charged) in
        [(Reply::sse(events(wire)[..2].concat()), true), (Reply::json(500, "{}"), false)]
    {
        let server = Server::scripted([first, good(wire)]);
        let run = Ceiling { money: Some(MicroUsd(1_000_000)), tokens: None };
        let ledger = Ledger::new(Ceilings { run, ..Ceilings::default() });
        let wire = connect(&endpoint(&server, wire)).unwrap();
        let priced = Arc::new(Priced::new(wire, pricing.clone()));
        let metered = Metered::new(priced, ledger.clone(), pricing.clone());
        let provider = Retrying::new(Arc::new(metered), quick());
        let reply = ask(&provider).await.unwrap();
        assert_eq!(reply.usage.cost, Cost { known: MicroUsd(15), partly_unknown: charged });
        let totals = ledger.totals();
        assert_eq!((totals.spent.money, totals.reserved.money), (MicroUsd(15), MicroUsd(0)));
        assert_eq!(totals.held.money > MicroUsd(0), charged, "{totals:?}");
    }
}

/// A whole answer that counts its input or output like this.
fn counting(wire: Wire, input: &Value, output: &Value) -> Reply {
    let all = events(wire).concat();
    let (read, wrote) = match wire {
        Wire::OpenaiChat => ("\"prompt_tokens\":10", "\"completion_tokens\":5"),
        _ => ("\"input_tokens\":10", "\"output_tokens\":5"),
    };
    assert!(all.contains(read) && all.contains(wrote));
    let told = |text: &str, count: &Value| {
        format!("{}{count}", text.trim_end_matches(|one: char| one.is_ascii_digit()))
    };
    Reply::sse(all.replace(read, &told(read, input)).replace(wrote, &told(wrote, output)))
}

#[tokio::test]
async fn a_count_that_cannot_be_read_is_not_counted_and_costs_no_second_answer() {
    let price = Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None };
    let pricing = Pricing::new("test").with_price("m-1", price);
    let odd = [json!(-5), json!("5"), json!(5.5), Value::Null, json!([5]), json!(true)];
    let counts = odd.iter().flat_map(|odd| [(odd.clone(), json!(5)), (json!(10), odd.clone())]);
    for (wire, (input, output)) in
        WIRES.iter().flat_map(|wire| counts.clone().map(|it| (*wire, it)))
    {
        let server = Server::scripted([counting(wire, &input, &output), good(wire)]);
        let run = Ceiling { money: Some(MicroUsd(1_000_000)), tokens: None };
        let ledger = Ledger::new(Ceilings { run, ..Ceilings::default() });
        let wire = connect(&endpoint(&server, wire)).unwrap();
        let priced = Arc::new(Priced::new(wire, pricing.clone()));
        let metered = Metered::new(priced, ledger.clone(), pricing.clone());
        let reply = ask(&Retrying::new(Arc::new(metered), quick())).await.unwrap();
        let told = format!("{input} {output}: {:?}", reply.usage);
        assert_eq!((reply.text().as_str(), server.requests().len()), ("done", 1), "{told}");
        assert_eq!((reply.usage.tokens(), reply.usage.cost), (0, Cost::UNKNOWN), "{told}");
        assert!(ledger.totals().held.money > MicroUsd(0), "what it may have cost is kept: {told}");
    }
}

#[tokio::test]
async fn lanes_share_one_rate_gate() {
    let wire = Wire::OpenaiChat;
    // Long enough for a slow machine to see the gate shut.
    let wait = Duration::from_secs(1);
    let first = Mutex::new(true);
    let server = Server::start(move |_| {
        if std::mem::take(&mut *first.lock().unwrap()) {
            return Reply::json(429, "{}").header("retry-after-ms", "1000");
        }
        good(wire)
    });
    let provider = connect(&endpoint(&server, wire)).unwrap();
    let gate = RateGate::default();
    let provider = Arc::new(Retrying::with_gate(provider, quick(), gate.clone()));
    // The first lane is told to wait; the others come while it waits.
    let first = tokio::spawn({
        let provider = provider.clone();
        async move { ask(&*provider).await }
    });
    while !gate.is_shut() {
        assert!(!first.is_finished(), "the gate was never seen shut");
        tokio::task::yield_now().await;
    }
    let others = futures_util::future::join_all((0..8).map(|_| ask(&*provider))).await;
    assert!(first.await.unwrap().is_ok() && others.iter().all(Result::is_ok));
    let at: Vec<_> = server.requests().iter().map(|request| request.at).collect();
    assert_eq!(at.len(), 10, "nobody was refused a second time");
    assert!(at[1..].iter().all(|later| *later >= at[0] + wait), "{at:?}");
}

#[test]
fn the_default_models_have_a_price_so_that_a_budget_can_be_kept() {
    let nothing = |_: &str| None;
    let sources = Sources { user: None, repository: None, trusted: false, env: &nothing };
    let config = Config::load(&sources).unwrap();
    let mut seen = 0;
    for (name, provider) in &config.providers {
        for model in &provider.default_models.value {
            let most = Pricing::new(name).most(model, 1000, 1000);
            assert!(most > Some(MicroUsd(0)), "{name}:{model} {most:?}");
            seen += 1;
        }
    }
    assert!(seen > 3);
}

/// The parts of a body that must only grow, with cache marks left out: what comes first (tools, system),
/// then the conversation.
fn conversation(request: &Request) -> (Vec<String>, Vec<String>) {
    #[derive(serde::Deserialize)]
    struct Body {
        tools: Box<RawValue>,
        #[serde(default, alias = "instructions")]
        system: Option<Box<RawValue>>,
        #[serde(alias = "input")]
        messages: Vec<Box<RawValue>>,
    }
    let text = String::from_utf8(request.body.clone()).unwrap();
    let text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let body: Body = serde_json::from_str(&text).unwrap();
    let prefix = [Some(body.tools), body.system].into_iter().flatten();
    let raw = |value: Box<RawValue>| value.get().to_owned();
    (prefix.map(raw).collect(), body.messages.into_iter().map(raw).collect())
}

/// What a model of this wire thought, raw: something that another serializer would write otherwise.
fn thought(wire: Wire) -> Block {
    let (wire, raw) = match wire {
        Wire::Anthropic => (
            "anthropic",
            json!({"type": "thinking", "thinking": "z\u{e9}", "signature": "a", "n": 1.10}),
        ),
        Wire::OpenaiResponses => (
            "openai-responses",
            json!({"type": "reasoning", "id": "rs", "encrypted_content": "gA==", "summary": [], "n": 1.10}),
        ),
        _ => ("openai-chat", json!({"reasoning_content": "z\u{e9}", "n": 1.10})),
    };
    Block::Reasoning { wire: wire.into(), raw }
}

/// A turn of a conversation: what the model thought, said and called, and what came back.
fn take_turn(request: &mut ModelRequest, wire: Wire, reply: ModelReply, turn: usize) {
    let mut blocks = vec![thought(wire)];
    blocks.extend(reply.blocks);
    let id = format!("call_{turn}");
    let arguments = [r#"{ "b": 1e2,"a":"\u00e9" }"#, "{broken"][turn % 2].to_owned();
    blocks.push(Block::ToolCall { id: id.clone(), name: "read_file".into(), arguments });
    request.messages.push(Message { role: Role::Assistant, blocks });
    let content = format!("line {turn}\r\n\u{2028}\"end\"");
    let result = Block::ToolResult { id, content, is_error: turn == 3 };
    request.messages.push(Message { role: Role::Tool, blocks: vec![result] });
    if turn == 4 {
        request.messages.push(Message::user("Go on."));
    }
    // The last turn may not call tools; that changes nothing of the prefix.
    request.tool_choice = [ToolChoice::Auto, ToolChoice::Forbidden][turn / 4];
    request.purpose = Purpose::Worker { lane: LaneId::of("fast", 1), turn: turn as u32 + 1 };
}

// contract R28
#[tokio::test]
async fn each_request_extends_the_one_before_byte_for_byte() {
    for wire in WIRES {
        let server = Server::start(move |_| good(wire));
        let provider = connect(&endpoint(&server, wire)).unwrap();
        let cancel = CancellationToken::new();
        let mut request = request();
        for turn in 0..6 {
            let reply = provider.call(&request, &mut |_| {}, &cancel).await.unwrap();
            take_turn(&mut request, wire, reply, turn);
        }
        let sent: Vec<_> = server.requests().iter().map(conversation).collect();
        for pair in sent.windows(2) {
            assert_eq!(pair[0].0, pair[1].0, "tools and system");
            assert!(pair[1].1.starts_with(&pair[0].1), "{wire:?}: {pair:#?}");
            assert!(pair[1].1.len() > pair[0].1.len());
        }
    }
}

/// The bytes up to where the conversations of two requests part.
fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

// contract R28
#[tokio::test]
async fn lanes_of_a_model_share_the_bytes_of_system_and_tools() {
    for wire in WIRES {
        let server = Server::start(move |_| good(wire));
        let provider = connect(&endpoint(&server, wire)).unwrap();
        for lane in 1..=3_u32 {
            let mut request = request();
            // What differs from lane to lane: seed, temperature, the task's last lines.
            request.seed = Some(u64::from(lane) * 7919);
            request.temperature = Some(f64::from(lane) / 10.0);
            request.messages = vec![Message::user(format!("Fix it.\n\nApproach {lane}."))];
            request.purpose = Purpose::Worker { lane: LaneId::of("fast", lane), turn: 0 };
            provider.call(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
        }
        let requests = server.requests();
        let prefixes: Vec<_> = requests.iter().map(|request| conversation(request).0).collect();
        assert!(prefixes.windows(2).all(|pair| pair[0] == pair[1]), "{wire:?}: {prefixes:#?}");
        // The messages, up to the words in which the tasks differ.
        let raw: Vec<_> = requests.iter().map(|request| conversation(request).1.concat()).collect();
        for pair in raw.windows(2) {
            let shared = common(pair[0].as_bytes(), pair[1].as_bytes());
            assert!(pair[0][..shared].ends_with("Approach "), "{wire:?}: {pair:#?}");
        }
    }
}

#[tokio::test]
async fn what_a_responses_server_does_not_know_is_learnt_once() {
    let wire = Wire::OpenaiResponses;
    let plain = r#"{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}"#;
    let lost = r#"{"error":{"message":"Item with id 'rs' not found. Items are not persisted when `store` is set to false.","type":"invalid_request_error"}}"#;
    let replies = [Reply::json(400, plain), Reply::json(404, lost), good(wire), good(wire)];
    let server = Server::scripted(replies);
    let provider = connect(&endpoint(&server, wire)).unwrap();
    let mut request = request();
    let blocks = vec![thought(wire), Block::text("hm")];
    request.messages.push(Message { role: Role::Assistant, blocks });
    for _ in 0..2 {
        provider.call(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
    }
    let sent: Vec<_> = server.requests().iter().map(Request::json).collect();
    let told = |body: &Value| (body.get("include").is_some(), body["input"][1].get("id").is_some());
    let told: Vec<_> = sent.iter().map(told).collect();
    assert_eq!(told, [(true, true), (false, true), (false, false), (false, false)]);
    assert!(sent.iter().all(|body| body["store"] == false), "nothing is kept there");
    // Refused whatever is sent: it ends.
    let server = Server::start(move |_| Reply::json(400, plain));
    assert!(ask(&*connect(&endpoint(&server, wire)).unwrap()).await.is_err());
    assert_eq!(server.requests().len(), 2);
    // What the engine sets is not the operator's.
    for field in ["store", "previous_response_id", "input"] {
        let mut own = endpoint(&server, wire);
        own.body.insert(field.into(), json!("x"));
        let error = connect(&own).err().unwrap();
        assert!(error.message.contains(&format!("may not set `{field}`")), "{error}");
    }
}
