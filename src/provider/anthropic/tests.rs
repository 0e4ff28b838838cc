//! Transcripts as the protocol's documents describe them, and the requests that answer them.

use serde_json::{Map, Value, json};

use super::request::body;
use super::stream::Stream;
use crate::model::chat::{Block, Message, ModelReply, ModelRequest, ReplyStop, Role, ToolChoice};
use crate::model::{Cost, Usage};
use crate::provider::ErrorClass;
use crate::provider::http::Broken;
use crate::provider::refusal;
use crate::provider::testing::{assert_cuts, read, request};

/// Thinking with a signature, redacted thinking, text, two calls, pings between.
const WHOLE: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see – é"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCg=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Zm9v"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Two files"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_a","name":"read_file","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": "}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"\\u0061\" }"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_b","name":"list_dir","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn whole() -> ModelReply {
    read(WHOLE, Stream::default()).expect("a whole answer")
}

fn raw(raw: Value) -> Block {
    Block::Reasoning { wire: "anthropic".into(), raw }
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

#[test]
fn thinking_text_and_calls_are_put_together() {
    let reply = whole();
    let thinking =
        json!({"type": "thinking", "thinking": "Let me see – é", "signature": "EqQBCg=="});
    let want = [
        raw(thinking),
        raw(json!({"type": "redacted_thinking", "data": "Zm9v"})),
        Block::text("Two files"),
        call("toolu_a", "read_file", r#"{"path": "\u0061" }"#),
        call("toolu_b", "list_dir", "{}"),
    ];
    assert_eq!(reply.blocks, want);
    assert_eq!((reply.stop, reply.model.as_str()), (ReplyStop::ToolUse, "claude-x-1"));
    let usage = Usage {
        calls: 1,
        input_tokens: 25,
        output_tokens: 89,
        cache_read_tokens: 2000,
        cache_write_tokens: 100,
        cost: Cost::UNKNOWN,
    };
    assert_eq!(reply.usage, usage);
}

#[test]
fn no_cut_changes_an_answer_and_no_beginning_is_one() {
    assert_cuts::<Stream>(WHOLE, r#"{"type":"message_stop"}"#);
}

/// The events of the transcript, each with its blank line.
fn events() -> Vec<&'static str> {
    WHOLE.split_inclusive("\n\n").collect()
}

#[test]
fn an_answer_that_lacks_any_event_but_pings_and_pieces_is_broken() {
    for left_out in 0..events().len() {
        let event = events()[left_out];
        let harmless = event.contains("ping") || event.contains("_delta\",");
        let mut rest = events();
        rest.remove(left_out);
        let reply = read(&rest.concat(), Stream::default());
        if event.contains("\"message_delta\"") || !harmless {
            assert!(matches!(reply, Err(Broken::Protocol(_))), "without {event}: {reply:?}");
        }
    }
}

#[test]
fn an_error_event_at_any_place_is_that_error() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for at in 0..events().len() {
        let mut with = events();
        with.insert(at, error);
        let reply = read(&with.concat(), Stream::default());
        let Err(Broken::InBand(words)) = reply else { panic!("at {at}: {reply:?}") };
        assert_eq!(refusal::class(0, &words), ErrorClass::Overloaded);
    }
}

#[test]
fn unknown_events_are_passed_over_and_unknown_blocks_are_kept() {
    let unknown_event = "event: later\ndata: {\"type\":\"later\",\"x\":[1]}\n\n";
    let text = WHOLE.replace("event: ping\ndata: {\"type\": \"ping\"}\n\n", unknown_event);
    assert_eq!(read(&text, Stream::default()), Ok(whole()));
    let block = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
    let text = WHOLE.replace(r#"{"type":"redacted_thinking","data":"Zm9v"}"#, block);
    let reply = read(&text, Stream::default()).unwrap();
    assert_eq!(reply.blocks[1], raw(serde_json::from_str(block).unwrap()));
}

#[test]
fn stops_are_told_apart() {
    for (reason, want) in [
        ("end_turn", ReplyStop::EndTurn),
        ("stop_sequence", ReplyStop::EndTurn),
        ("max_tokens", ReplyStop::MaxTokens),
        ("model_context_window_exceeded", ReplyStop::MaxTokens),
        ("refusal", ReplyStop::Refusal),
        ("pause_turn", ReplyStop::Other("pause_turn".into())),
    ] {
        let end = format!(r#""stop_reason":"{reason}","stop_sequence""#);
        let text = WHOLE.replace(r#""stop_reason":"tool_use","stop_sequence""#, &end);
        assert_eq!(read(&text, Stream::default()).unwrap().stop, want);
    }
}

fn sent(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request, &Map::new()).unwrap()).unwrap()
}

fn conversation() -> ModelRequest {
    let mut request = request();
    request.messages.push(Message { role: Role::Assistant, blocks: whole().blocks });
    let result =
        |id: &str, is_error| Block::ToolResult { id: id.into(), content: "x\n".into(), is_error };
    let blocks = vec![result("toolu_a", false), result("toolu_b", true)];
    request.messages.push(Message { role: Role::Tool, blocks });
    request
}

#[test]
fn a_request_has_the_documented_form() {
    let mut request = conversation();
    request.temperature = Some(0.5);
    request.seed = Some(7);
    request.tool_choice = ToolChoice::Forbidden;
    insta::assert_snapshot!(serde_json::to_string_pretty(&sent(&request)).unwrap());
    request.tools = [].into();
    request.system = String::new();
    let sent = sent(&request);
    assert!(sent.get("tool_choice").is_none() && sent.get("system").is_none());
}

// contract R28
#[test]
fn arguments_go_back_byte_for_byte_and_invalid_ones_inside_an_object() {
    let body = String::from_utf8(body(&conversation(), &Map::new()).unwrap()).unwrap();
    assert!(body.contains(r#""input":{"path": "\u0061" }"#), "{body}");
    let mut request = request();
    let bad = ["{\"path\": ", "[1]", "", "{} trailing"];
    let blocks = bad.iter().map(|bad| call("x", "read_file", bad)).collect();
    request.messages.push(Message { role: Role::Assistant, blocks });
    let sent = sent(&request);
    let inputs: Vec<_> = sent["messages"][1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["input"])
        .collect();
    let wrapped = |text: &str| json!({ "not_json": text });
    assert_eq!(inputs[0], &wrapped(bad[0]));
    assert_eq!(inputs[1], &wrapped(bad[1]));
    assert_eq!(inputs[2], &json!({}));
    assert_eq!(inputs[3], &wrapped(bad[3]));
}

#[test]
fn what_the_server_would_refuse_is_left_out() {
    let mut request = request();
    let foreign = Block::Reasoning { wire: "openai-chat".into(), raw: json!({"reasoning": "x"}) };
    let blocks = vec![foreign, Block::text(" \n")];
    request.messages.push(Message { role: Role::Assistant, blocks });
    request.messages.push(Message::user("Go on."));
    let sent = sent(&request);
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2);
}
