//! One answer holds no more than the largest that was asked for can, whatever its server sends.

use bakeoff::model::Wire;
use bakeoff::provider::{ErrorClass, Retrying, connect};
use serde_json::{Value, json};

use crate::provider::{WIRES, ask, endpoint, events, good, quick};
use crate::support::place::PATIENCE;
use crate::support::server::{Reply, Server};

/// More than an answer of 1000 tokens may hold (1 MiB and 256 bytes a token), in pieces of this many bytes.
const PIECES: usize = 400;
const PIECE: usize = 4096;

fn data(event: Value) -> String {
    let kind = event["type"].as_str().map_or_else(String::new, |kind| format!("event: {kind}\n"));
    format!("{kind}data: {event}\n\n")
}

fn choice(delta: Value) -> Value {
    json!({"id": "r", "model": "m-1", "choices": [{"index": 0, "delta": delta}]})
}

/// The piece of this number of an answer that does not end.
type Flood = Box<dyn Fn(usize) -> Value>;

/// Answers that don't end, by what grows in them.
fn floods(wire: Wire) -> Vec<(&'static str, Flood)> {
    let text = || "x".repeat(PIECE);
    let call = move |nth: usize, id: String, name: &str| {
        choice(
            json!({"tool_calls": [{"index": nth, "id": id, "function": {"name": name, "arguments": ""}}]}),
        )
    };
    let piece = move |kind: &'static str, field: &'static str| -> Flood {
        Box::new(
            move |_| json!({"type": "content_block_delta", "index": 0, "delta": {"type": kind, field: text()}}),
        )
    };
    let plain = move |kind: &'static str| -> Flood {
        Box::new(
            move |_| json!({"type": kind, "output_index": 0, "item_id": "msg", "delta": text()}),
        )
    };
    match wire {
        Wire::Anthropic => vec![
            ("text", piece("text_delta", "text")),
            ("thinking", piece("thinking_delta", "thinking")),
            ("a signature", piece("signature_delta", "signature")),
            ("arguments", piece("input_json_delta", "partial_json")),
            ("citations", piece("citations_delta", "citation")),
            (
                "blocks",
                Box::new(move |nth| {
                    json!({"type": "content_block_start", "index": nth + 1,
                "content_block": {"type": "tool_use", "id": text(), "name": "x"}})
                }),
            ),
        ],
        Wire::OpenaiResponses => vec![
            ("text", plain("response.output_text.delta")),
            ("reasoning", plain("response.reasoning_summary_text.delta")),
            ("arguments", plain("response.function_call_arguments.delta")),
            (
                "items",
                Box::new(move |nth| {
                    json!({"type": "response.output_item.done", "output_index": nth + 1,
                "item": {"id": "r", "type": "reasoning", "encrypted_content": text()}})
                }),
            ),
        ],
        _ => vec![
            ("text", Box::new(move |_| choice(json!({"content": text()})))),
            ("a refusal", Box::new(move |_| choice(json!({"refusal": text()})))),
            ("reasoning", Box::new(move |_| choice(json!({"reasoning": text()})))),
            (
                "details",
                Box::new(move |_| {
                    choice(
                        json!({"reasoning_details": [{"type": "t", "index": 0, "data": text()}]}),
                    )
                }),
            ),
            (
                "pieces of details",
                Box::new(move |_| choice(json!({"reasoning_details": [{"data": text()}]}))),
            ),
            ("ids", Box::new(move |nth| call(nth, format!("{nth}{}", text()), "x"))),
            ("names", Box::new(move |nth| call(nth, String::new(), &text()))),
            (
                "arguments",
                Box::new(move |_| {
                    choice(json!({"tool_calls": [{"index": 0, "function": {"arguments": text()}}]}))
                }),
            ),
        ],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_end_is_broken_off_and_not_asked_for_again() {
    for wire in WIRES {
        let opening = &events(wire)[..2];
        for (what, flood) in floods(wire) {
            let body =
                opening.concat() + &(0..PIECES).map(|nth| data(flood(nth))).collect::<String>();
            let server = Server::scripted([Reply::sse(body).stalled(), good(wire)]);
            let provider = Retrying::new(connect(&endpoint(&server, wire)).unwrap(), quick());
            let error = ask(&provider).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::TooLong, "{wire:?} {what}: {error}");
            assert!(error.message.contains("sent more than 1 MiB for one answer"), "{error}");
            assert!(error.message.contains("m-1") && error.maybe_charged, "{error}");
            assert!(server.wait_for_leaving(1, PATIENCE), "the stream is closed");
            assert_eq!(server.requests().len(), 1, "{wire:?} {what}: it may have been paid");
        }
    }
}

/// A whole answer as JSON with this text.
fn whole(wire: Wire, text: &str) -> String {
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    match wire {
        Wire::Anthropic => json!({"type": "message", "model": "m-1", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}], "usage": usage}),
        Wire::OpenaiResponses => json!({"id": "r", "object": "response", "status": "completed", "model": "m-1",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}], "usage": usage}),
        _ => json!({"id": "r", "model": "m-1", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text}}]}),
    }
    .to_string()
}

#[tokio::test]
async fn an_answer_that_comes_whole_has_the_same_bound() {
    for wire in WIRES {
        for (bytes, told) in [(2 << 20, "1 MiB"), (6 << 20, "4 MiB")] {
            let long = Reply::json(200, &whole(wire, &"x".repeat(bytes)));
            let server = Server::scripted([long, good(wire)]);
            let provider = Retrying::new(connect(&endpoint(&server, wire)).unwrap(), quick());
            let error = ask(&provider).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::TooLong, "{wire:?} {bytes}: {error}");
            assert!(error.message.contains(&format!("sent more than {told}")), "{error}");
            assert_eq!(server.requests().len(), 1, "{wire:?}: it may have been paid");
        }
        // What is within the bound is taken however its text is escaped.
        let text = "\u{1}\"é".repeat(100 << 10);
        let server = Server::scripted([Reply::json(200, &whole(wire, &text))]);
        let reply = ask(&*connect(&endpoint(&server, wire)).unwrap()).await.unwrap();
        assert_eq!(reply.text(), text);
    }
}

#[tokio::test]
async fn what_carries_nothing_does_not_count() {
    let ping = |wire| match wire {
        Wire::Anthropic => data(json!({"type": "ping", "padding": "x".repeat(PIECE)})),
        Wire::OpenaiResponses => {
            data(json!({"type": "response.in_progress", "padding": "x".repeat(PIECE)}))
        }
        _ => data(choice(json!({"content": "", "padding": "x".repeat(PIECE)}))),
    };
    for wire in WIRES {
        let all = events(wire);
        let body = all[..2].concat() + &ping(wire).repeat(2 * PIECES) + &all[2..].concat();
        let server = Server::scripted([Reply::sse(body)]);
        let reply = ask(&*connect(&endpoint(&server, wire)).unwrap()).await.unwrap();
        assert_eq!(reply.text(), "done", "{wire:?}");
    }
}
