//! Transcripts as the servers' documents describe them, and the requests that answer them.

use reqwest::Url;
use serde_json::{Map, Value, json};

use super::request::{Options, body};
use super::stream::Stream;
use super::{auth, is_first_party};
use crate::model::chat::{
    Block, Delta, Message, ModelReply, ModelRequest, ReplyStop, Role, ToolChoice,
};
use crate::model::{Cost, Usage};
use crate::provider::http::Broken;
use crate::provider::testing::{assert_cuts, read, read_pieces, request};

/// OpenAI: text, two parallel calls whose pieces mix, usage in a chunk of its own.
const OPENAI: &str = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[{"index":0,"delta":{"content":"Two files – é"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read_file","arguments":""}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"read_file","arguments":"{\"path\": "}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{ \"path\":\"a\"}"}},{"index":1,"function":{"arguments":"\"\\u0062\" }"}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"chatcmpl-1","model":"gpt-x-2026","choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":34,"total_tokens":1234,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]

"#;

fn call(id: &str, arguments: &str) -> Block {
    Block::ToolCall { id: id.into(), name: "read_file".into(), arguments: arguments.into() }
}

fn ok(text: &str) -> ModelReply {
    read(text, Stream::default()).expect("a whole answer")
}

#[test]
fn parallel_calls_are_put_together_byte_for_byte() {
    let (reply, seen) = read_pieces(vec![OPENAI.as_bytes().to_vec()], Stream::default());
    let reply = reply.unwrap();
    let calls = [call("call_a", r#"{ "path":"a"}"#), call("call_b", r#"{"path": "\u0062" }"#)];
    let [text, rest @ ..] = reply.blocks.as_slice() else { panic!("{reply:?}") };
    assert_eq!(text, &Block::text("Two files – é"));
    assert_eq!(rest, calls);
    assert_eq!(reply.stop, ReplyStop::ToolUse);
    assert_eq!(reply.model, "gpt-x-2026");
    let usage = Usage {
        calls: 1,
        input_tokens: 176,
        output_tokens: 34,
        cache_read_tokens: 1024,
        cache_write_tokens: 0,
        cost: Cost::UNKNOWN,
    };
    assert_eq!(reply.usage, usage);
    let starts = seen.iter().filter(|delta| matches!(delta, Delta::ToolStart { .. })).count();
    assert_eq!(starts, 2);
}

#[test]
fn no_cut_changes_an_answer_and_no_beginning_is_one() {
    assert_cuts::<Stream>(OPENAI, "[DONE]");
}

#[test]
fn an_answer_without_its_end_is_a_protocol_error() {
    for end in [
        "",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    ] {
        let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
        let reply = read(&format!("{text}{end}"), Stream::default());
        assert!(matches!(reply, Err(Broken::Protocol(_))), "{reply:?}");
    }
    for bad in ["data: {\"cho\n\n", "data: 7\n\n", "data: <html>\n\n"] {
        assert!(matches!(read(bad, Stream::default()), Err(Broken::Protocol(_))), "{bad}");
    }
}

/// An answer made of these deltas, with a finish reason and no usage.
fn answer(deltas: &[Value], finish: &str) -> String {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "r1", "model": "m", "choices": [choice]}))
    };
    let deltas: String = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    format!(": ping\n\n{deltas}{}data: [DONE]\n\n", chunk(&json!({}), finish.into()))
}

/// Whole streams as the documents of servers other than OpenAI's show them: the same text, stop and counts in each.
const OTHERS: [(&str, &str); 6] = [
    (
        "Azure: filters first, beside the text and behind it",
        r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}

data: {"choices":[{"content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","obfuscation":"x","system_fingerprint":"fp"}

data: {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":"Hi"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk"}

data: {"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_results":{},"content_filter_offsets":{"check_offset":0,"start_offset":0,"end_offset":2}}]}

data: {"choices":[{"content_filter_results":{},"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk"}

data: {"choices":[],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":10,"total_tokens":12,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":4}}}

data: [DONE]

"#,
    ),
    (
        "vLLM: fields of its own, null where OpenAI has none",
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

"#,
    ),
    (
        "llama.cpp: no text at first, and its times behind",
        r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-x","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],"created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-x","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-x","object":"chat.completion.chunk"}

data: {"choices":[],"created":1,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-x","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":10,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}},"timings":{"cache_n":4,"prompt_n":6,"prompt_ms":1.5,"predicted_n":2,"predicted_ms":2.5}}

data: [DONE]

"#,
    ),
    (
        "Ollama: a finish reason in a piece that has an empty text",
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

"#,
    ),
    (
        "OpenRouter: comments, whose provider it is, usage beside a last empty piece",
        r#": OPENROUTER PROCESSING

: OPENROUTER PROCESSING

data: {"id":"gen-1","provider":"Someone","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}

data: {"id":"gen-1","provider":"Someone","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"end_turn","logprobs":null}]}

data: {"id":"gen-1","provider":"Someone","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"cost":0.0012,"is_byok":false,"prompt_tokens_details":{"cached_tokens":4},"cost_details":{"upstream_inference_cost":null}}}

data: [DONE]

"#,
    ),
    (
        "LiteLLM: usage in OpenAI's words and in Anthropic's",
        r#"data: {"id":"chatcmpl-1","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi","role":"assistant"}}]}

data: {"id":"chatcmpl-1","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"finish_reason":"stop","index":0,"delta":{}}]}

data: {"id":"chatcmpl-1","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":2,"prompt_tokens":10,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"cache_creation_input_tokens":0,"cache_read_input_tokens":4}}

data: [DONE]

"#,
    ),
];

#[test]
fn streams_of_other_servers_are_read_as_their_documents_show_them() {
    for (server, text) in OTHERS {
        let reply = ok(text);
        assert_eq!(reply.blocks, [Block::text("Hi")], "{server}");
        assert_eq!((reply.stop, reply.model.as_str()), (ReplyStop::EndTurn, "m"), "{server}");
        let usage = reply.usage;
        let tokens = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens);
        assert_eq!(tokens, (6, 4, 2), "{server}");
        assert_cuts::<Stream>(text, "[DONE]");
    }
    // OpenRouter tells a provider that went away in the middle so.
    let gone = r#"data: {"id":"gen-1","object":"chat.completion.chunk","created":1,"model":"m","provider":"Someone","error":{"code":"server_error","message":"Provider disconnected unexpectedly"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}

"#;
    assert!(matches!(read(gone, Stream::default()), Err(Broken::InBand(_))));
}

#[test]
fn servers_that_number_or_name_calls_differently_are_understood() {
    let f = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    // Ollama: whole calls in one delta, finish reason "stop" in older versions.
    let ollama = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "index": 0, "type": "function", "function": f("read_file", "{\"path\":\"a\"}".into())},
        {"id": "call_2", "index": 1, "type": "function", "function": f("read_file", "{\"path\":\"b\"}".into())},
    ]});
    let reply = ok(&answer(&[ollama], "stop"));
    assert_eq!(reply.stop, ReplyStop::ToolUse);
    assert_eq!(
        reply.blocks,
        [call("call_1", r#"{"path":"a"}"#), call("call_2", r#"{"path":"b"}"#)]
    );
    // Without an index, and with every call numbered 0.
    for index in [Value::Null, json!(0)] {
        let piece = |id: Value, function: Value| json!({"tool_calls": [{"index": index, "id": id, "function": function}]});
        let deltas = [
            piece("x".into(), f("read_file", "{\"path\"".into())),
            piece(Value::Null, json!({"arguments": ":1}"})),
            piece("y".into(), f("read_file", "{}".into())),
        ];
        let reply = ok(&answer(&deltas, "tool_calls"));
        assert_eq!(reply.blocks, [call("x", r#"{"path":1}"#), call("y", "{}")], "{index}");
    }
    // The id in every piece, arguments as JSON, no id at all.
    let deltas = [
        json!({"tool_calls": [{"index": 0, "id": "x", "function": f("read_file", "{".into())}]}),
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": "}"}}]}),
        json!({"tool_calls": [{"index": 1, "function": f("read_file", json!({"path": "a"}))}]}),
    ];
    let reply = ok(&answer(&deltas, "tool_calls"));
    assert_eq!(reply.blocks, [call("x", "{}"), call("call_r1_1", r#"{"path":"a"}"#)]);
}

#[test]
fn a_server_that_counts_nothing_leaves_tokens_at_nought_and_the_cost_unknown() {
    let reply = ok(&answer(&[json!({"content": "hi"})], "stop"));
    assert_eq!(reply.usage, Usage { calls: 1, cost: Cost::UNKNOWN, ..Usage::default() });
    assert_eq!(reply.stop, ReplyStop::EndTurn);
    assert_eq!(reply.text(), "hi");
}

#[test]
fn stops_are_told_apart() {
    let stop = |delta: Value, finish: &str| ok(&answer(&[delta], finish)).stop;
    assert_eq!(stop(json!({"content": "x"}), "length"), ReplyStop::MaxTokens);
    assert_eq!(stop(json!({"content": "x"}), "model_length"), ReplyStop::MaxTokens);
    assert_eq!(stop(json!({"content": "x"}), "content_filter"), ReplyStop::Refusal);
    assert_eq!(stop(json!({"refusal": "I can't."}), "stop"), ReplyStop::Refusal);
    assert_eq!(stop(json!({"content": "x"}), "tool_calls"), ReplyStop::EndTurn);
    assert_eq!(stop(json!({"content": "x"}), "odd"), ReplyStop::Other("odd".into()));
    assert_eq!(ok(&answer(&[json!({"refusal": "I can't."})], "stop")).text(), "I can't.");
}

#[test]
fn azure_hosts_have_their_own_key_header_and_field() {
    for (url, azure, first_party) in [
        (
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
            true,
            true,
        ),
        ("https://r.services.ai.azure.com/openai/v1/chat/completions", true, true),
        ("https://r.openai.azure.us/openai/v1/chat/completions", true, true),
        ("https://api.openai.com/v1/chat/completions", false, true),
        ("https://azure.com.example.net/v1/chat/completions", false, false),
        ("http://127.0.0.1:4000/v1/chat/completions", false, false),
    ] {
        let parsed = Url::parse(url).unwrap();
        let (name, value) = auth(&parsed, "k-1");
        let want = if azure { ("api-key", "k-1") } else { ("authorization", "Bearer k-1") };
        assert_eq!((name.as_str(), value.as_str()), want, "{url}");
        assert_eq!(is_first_party(&parsed), first_party, "{url}");
    }
}

#[test]
fn images_in_an_answer_are_left_out_and_never_sent() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let part = |text: &str| json!({"type": "text", "text": text});
    let deltas = [
        json!({"content": [part("a "), image, part("b")]}),
        json!({"content": " c", "images": [image]}),
    ];
    let reply = ok(&answer(&deltas, "stop"));
    assert_eq!((reply.text().as_str(), reply.blocks.len()), ("a b c", 1));
    let next = said(&answered(reply, request()));
    assert!(!next.to_string().contains("image"), "{next}");
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
    let error = "data: {\"id\":\"g\",\"error\":{\"code\":502,\"message\":\"Provider disconnected\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\ndata: [DONE]\n\n";
    for text in [format!("{begun}{error}"), error.to_owned()] {
        let reply = read(&text, Stream::default());
        let Err(Broken::InBand(words)) = reply else { panic!("{reply:?}") };
        assert_eq!((words.message.as_str(), words.status), ("Provider disconnected", Some(502)));
    }
}

const PLAIN: Options = Options { completion_limit: false, usage: true };

fn said(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request, PLAIN, &Map::new()).unwrap()).unwrap()
}

fn answered(reply: ModelReply, mut request: ModelRequest) -> ModelRequest {
    request.messages.push(Message { role: Role::Assistant, blocks: reply.blocks });
    request
}

// contract R28
#[test]
fn reasoning_goes_back_in_the_field_it_came_in() {
    let deltas = [
        json!({"role": "assistant", "content": null, "reasoning_content": "Let me "}),
        json!({"reasoning_content": "see."}),
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "read_file", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "sig=="}}}]}),
    ];
    let reply = ok(&answer(&deltas, "tool_calls"));
    let sent = &said(&answered(reply, request()))["messages"][2];
    let want = json!({"role": "assistant", "content": null, "reasoning_content": "Let me see.",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "read_file", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "sig=="}}}]});
    assert_eq!(sent.to_string(), want.to_string());
    // Another wire's reasoning stays out.
    let foreign = Block::Reasoning { wire: "anthropic".into(), raw: json!({"type": "thinking"}) };
    let mut request = request();
    request.messages.push(Message { role: Role::Assistant, blocks: vec![foreign] });
    assert_eq!(said(&request)["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_request_has_the_documented_form() {
    let mut request = answered(ok(OPENAI), request());
    let result =
        |id: &str| Block::ToolResult { id: id.into(), content: "x\n".into(), is_error: false };
    let blocks = vec![result("call_a"), result("call_b")];
    request.messages.push(Message { role: Role::Tool, blocks });
    request.temperature = Some(0.5);
    request.seed = Some(7);
    request.tool_choice = ToolChoice::Forbidden;
    insta::assert_snapshot!(serde_json::to_string_pretty(&said(&request)).unwrap());
    let options = Options { completion_limit: true, usage: false };
    let body: Value =
        serde_json::from_slice(&body(&request, options, &Map::new()).unwrap()).unwrap();
    assert_eq!(body["max_completion_tokens"], 1000);
    assert!(body.get("max_tokens").is_none() && body.get("stream_options").is_none());
    request.tools = [].into();
    assert!(said(&request).get("tool_choice").is_none(), "no choice without tools");
}
