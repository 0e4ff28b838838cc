//! The wires against aimock (every dialect's streams) and llmock (which grades the client).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff::model::chat::{
    Block, Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice, ToolSpec,
};
use bakeoff::model::{LaneId, Wire};
use bakeoff::provider::{
    Deadlines, Endpoint, ErrorClass, Provider, ProviderError, RetryPolicy, Retrying, connect,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{control, peer};

const WIRES: [(Wire, &str); 3] = [
    (Wire::OpenaiChat, "gpt-5"),
    (Wire::OpenaiResponses, "gpt-5"),
    (Wire::Anthropic, "claude-sonnet-4-5"),
];

fn request(model: &str, text: &str) -> ModelRequest {
    let parameters = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    });
    let description = "Reads a file.".to_owned();
    ModelRequest {
        model: model.into(),
        system: "You fix bugs.".into(),
        tools: Arc::new([ToolSpec { name: "read_file".into(), description, parameters }]),
        messages: vec![Message::user(text)],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 2000,
        temperature: None,
        seed: None,
        purpose: Purpose::Worker { lane: LaneId::of("peer", 1), turn: 0 },
    }
}

async fn ask(provider: &dyn Provider, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
    provider.call(request, &mut |_| {}, &CancellationToken::new()).await
}

/// The request after this reply, with every call answered.
fn answered(mut request: ModelRequest, reply: &ModelReply) -> ModelRequest {
    let results = reply.blocks.iter().filter_map(|block| match block {
        Block::ToolCall { id, .. } => {
            let (id, content) = (id.clone(), "fn main() {}\n".to_owned());
            Some(Block::ToolResult { id, content, is_error: false })
        }
        _ => None,
    });
    let results = results.collect();
    request.messages.push(Message { role: Role::Assistant, blocks: reply.blocks.clone() });
    request.messages.push(Message { role: Role::Tool, blocks: results });
    request
}

fn aimock(wire: Wire) -> Endpoint {
    Endpoint::new("aimock", wire, peer("AIMOCK")).with_key("sk-peer".to_owned())
}

/// The texts of the calls' arguments.
fn arguments(reply: &ModelReply) -> Vec<&str> {
    let calls = reply.blocks.iter().filter_map(|block| match block {
        Block::ToolCall { arguments, .. } => Some(arguments.as_str()),
        _ => None,
    });
    calls.collect()
}

#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_streams_text_and_parallel_calls() {
    for (wire, model) in WIRES {
        let provider = connect(&aimock(wire)).unwrap();
        let first = request(model, "peer: tools");
        let reply = ask(&*provider, &first).await.unwrap();
        assert_eq!(reply.stop, ReplyStop::ToolUse);
        assert_eq!(reply.text(), "I look at two files – é.");
        let parsed: Vec<Value> =
            arguments(&reply).iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(parsed, [json!({"path": "a.rs"}), json!({"path": "b/é.rs"})], "{wire:?}");
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (120, 30), "{wire:?}");
        let reply = ask(&*provider, &answered(first, &reply)).await.unwrap();
        assert_eq!(
            (reply.text().as_str(), reply.stop),
            ("Both files are read.", ReplyStop::EndTurn)
        );
    }
}

// contract R28
#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_takes_thinking_back_as_it_sent_it() {
    let mut endpoint = aimock(Wire::Anthropic);
    endpoint.body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 1024}));
    // Then it refuses a turn whose thinking block or signature is gone.
    endpoint.headers.push(("x-aimock-strict".into(), "true".to_owned().into()));
    let provider = connect(&endpoint).unwrap();
    let first = request("claude-sonnet-4-5", "peer: thinking");
    let reply = ask(&*provider, &first).await.unwrap();
    let kinds = reply.blocks.iter().filter_map(|block| match block {
        Block::Reasoning { raw, .. } => raw["type"].as_str(),
        _ => None,
    });
    let kinds = kinds.collect::<Vec<_>>();
    assert!(kinds.contains(&"thinking") && kinds.contains(&"redacted_thinking"), "{reply:?}");
    let second = answered(first, &reply);
    assert_eq!(ask(&*provider, &second).await.unwrap().text(), "It was as I thought.");
    // The proof that it looks: without the thinking it does refuse.
    let mut without = second;
    without.messages[1].blocks.retain(|block| !matches!(block, Block::Reasoning { .. }));
    assert_eq!(ask(&*provider, &without).await.unwrap_err().class, ErrorClass::BadRequest);
}

#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_reasoning_of_the_chat_dialect_is_kept() {
    let provider = connect(&aimock(Wire::OpenaiChat)).unwrap();
    let first = request("gpt-5", "peer: thinking");
    let reply = ask(&*provider, &first).await.unwrap();
    let Block::Reasoning { raw, .. } = &reply.blocks[0] else { panic!("{reply:?}") };
    let text = "The file is what matters here, so I read it before I say anything.";
    assert!(raw.as_object().unwrap().values().any(|value| value == text), "{raw}");
    let second = answered(first, &reply);
    assert_eq!(ask(&*provider, &second).await.unwrap().text(), "It was as I thought.");
}

#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_errors_have_their_class() {
    for (wire, model) in WIRES {
        let provider = connect(&aimock(wire)).unwrap();
        for (text, class) in [
            ("peer: overloaded", ErrorClass::Overloaded),
            ("peer: overflow", ErrorClass::ContextOverflow),
            ("peer: key", ErrorClass::Auth),
        ] {
            let error = ask(&*provider, &request(model, text)).await.unwrap_err();
            assert_eq!(error.class, class, "{wire:?} {text}: {error}");
        }
    }
}

#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_rate_limit_is_waited_for() {
    for (wire, model) in WIRES {
        let mut endpoint = aimock(wire);
        // Its sequence counts for each test id.
        endpoint.headers.push(("x-test-id".into(), format!("limited-{wire:?}").into()));
        let provider = Retrying::new(connect(&endpoint).unwrap(), RetryPolicy::default());
        let begun = Instant::now();
        let reply = ask(&provider, &request(model, "peer: limited")).await.unwrap();
        assert_eq!(reply.text(), "Now it works.");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{wire:?}: {:?}", begun.elapsed());
    }
}

// contract R28
#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn aimock_reasoning_of_the_responses_dialect_goes_back_as_it_came() {
    let provider = connect(&aimock(Wire::OpenaiResponses)).unwrap();
    let first = request("gpt-5", "peer: thinking");
    let reply = ask(&*provider, &first).await.unwrap();
    let raw = reply.blocks.iter().find_map(|block| match block {
        Block::Reasoning { raw, .. } if raw["type"] == "reasoning" => Some(raw.clone()),
        _ => None,
    });
    let raw = raw.unwrap_or_else(|| panic!("{reply:?}"));
    let text = "The file is what matters here, so I read it before I say anything.";
    assert_eq!(raw["summary"][0]["text"], text, "{raw}");
    let second = answered(first, &reply);
    assert_eq!(ask(&*provider, &second).await.unwrap().text(), "It was as I thought.");
}

/// One scenario of llmock's: what it plays, and the class that a client sees without retries.
struct Scenario {
    name: &'static str,
    behaviors: Value,
    class: Option<ErrorClass>,
    /// Whether its verdict on a client that never asks again holds something against it.
    graded: bool,
}

fn scenarios() -> Vec<Scenario> {
    let fault = |kind: &str| json!([{"type": "stream_fault", "kind": kind, "after_chunks": 2}]);
    let fail = |status: u16| json!([{"type": "fail", "status": status}]);
    let limited =
        |wait: f64| json!([{"type": "fail", "status": 429, "retry_after": wait, "times": 2}]);
    let scenario = |name, behaviors, class, graded| Scenario { name, behaviors, class, graded };
    use ErrorClass::*;
    vec![
        scenario("nothing", json!([{"type": "reply", "text": "fine"}]), None, false),
        scenario("truncate", fault("truncate"), Some(Protocol), true),
        scenario("disconnect", fault("disconnect"), Some(Protocol), true),
        scenario("malformed", fault("malformed"), Some(Protocol), true),
        scenario("rate limit", limited(0.6), Some(RateLimited), true),
        scenario("overloaded", fail(529), Some(Overloaded), true),
        scenario("broken", fail(500), Some(Overloaded), true),
        scenario("unavailable", fail(503), Some(Overloaded), true),
        scenario("key", fail(401), Some(Auth), false),
        scenario("form", fail(400), Some(BadRequest), false),
        scenario(
            "stall",
            json!([{"type": "stream_fault", "kind": "stall", "stall_seconds": 20}]),
            Some(Timeout),
            false,
        ),
        scenario("slow", json!([{"type": "slow_first_token", "seconds": 0.2}]), None, false),
    ]
}

fn llmock(wire: Wire) -> Endpoint {
    let base = peer("LLMOCK");
    let base = if wire == Wire::Anthropic { base + "/anthropic" } else { base };
    let mut endpoint = Endpoint::new("llmock", wire, base).with_key("sk-peer".to_owned());
    endpoint.deadlines = Deadlines { idle: Duration::from_millis(700), ..Deadlines::default() };
    endpoint
}

/// Plays a scenario to a client and gives the client's result and the verdict on it.
async fn play(
    scenario: &Scenario,
    wire: Wire,
    model: &str,
    retrying: bool,
) -> (Result<ModelReply, ProviderError>, Value) {
    let base = peer("LLMOCK");
    control("POST", &format!("{base}/_llmock/reset"), "");
    let body = json!({ "behaviors": scenario.behaviors }).to_string();
    control("POST", &format!("{base}/_llmock/scenario"), &body);
    let wire = connect(&llmock(wire)).unwrap();
    let provider: Arc<dyn Provider> = match retrying {
        true => {
            Arc::new(Retrying::new(wire, RetryPolicy { seed: Some(1), ..RetryPolicy::default() }))
        }
        false => wire,
    };
    // A text of its own for each call, as llmock tells calls apart by their bodies.
    let mut request = request(model, &format!("peer: {} {model} {retrying}", scenario.name));
    request.tools = [].into();
    let result = ask(&*provider, &request).await;
    let verdict = control("GET", &format!("{base}/_llmock/verdict"), "");
    (result, serde_json::from_str(&verdict).unwrap())
}

/// One test, because the scenario and the verdict are the server's, not the client's.
#[tokio::test]
#[ignore = "needs peers started by tests/peers/run.sh"]
async fn llmock_finds_nothing_against_the_client_and_much_against_one_without_retries() {
    for (wire, model) in WIRES {
        for scenario in scenarios() {
            let name = scenario.name;
            let (result, verdict) = play(&scenario, wire, model, true).await;
            assert_eq!(verdict["findings"], json!([]), "{wire:?} {name}: {verdict:#}");
            assert_eq!(verdict["passed"], true);
            let retryable = scenario.class.is_none_or(ErrorClass::is_retryable);
            match result {
                Ok(reply) => assert!(retryable && !reply.text().is_empty(), "{name}: {reply:?}"),
                Err(error) => assert!(!retryable, "{wire:?} {name}: {error}"),
            }
            let (result, verdict) = play(&scenario, wire, model, false).await;
            assert_eq!(result.err().map(|error| error.class), scenario.class, "{wire:?} {name}");
            let found = verdict["findings"].as_array().unwrap();
            assert_eq!(!found.is_empty(), scenario.graded, "{wire:?} {name}: {verdict:#}");
            if name == "truncate" {
                assert_eq!(verdict["passed"], false, "{verdict:#}");
            }
        }
    }
}
