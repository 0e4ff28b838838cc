//! Transcripts as the servers' documents describe them, and the requests that answer them.

use serde_json::{Map, Value, json};

use super::request::{Options, body};
use super::stream::Stream;
use super::{WIRE, refuses_encrypted};
use crate::model::chat::{
    Block, Delta, Message, ModelReply, ModelRequest, ReplyStop, Role, ToolChoice,
};
use crate::model::{Cost, Usage};
use crate::provider::http::{Answer, Broken};
use crate::provider::testing::{assert_cuts, read, read_pieces, request};
use crate::provider::{ErrorClass, refusal};

/// OpenAI: reasoning with encrypted content, a message with a phase, two parallel calls whose pieces mix.
const OPENAI: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-x-2026","output":[],"parallel_tool_calls":true,"store":false,"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-x-2026","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA-first","summary":[]}}

event: response.reasoning_summary_part.added
data: {"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Let me see – é"}

event: response.reasoning_summary_text.done
data: {"type":"response.reasoning_summary_text.done","sequence_number":5,"item_id":"rs_1","output_index":0,"summary_index":0,"text":"Let me see – é"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA-whole==","summary":[{"type":"summary_text","text":"Let me see – é"}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":7,"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"phase":"commentary","role":"assistant"}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":8,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":9,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Two ","logprobs":[]}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"files","logprobs":[]}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":11,"item_id":"msg_1","output_index":1,"content_index":0,"text":"Two files","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":12,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"Two files"}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Two files"}],"phase":"commentary","role":"assistant"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_a","name":"read_file"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":15,"output_index":3,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_b","name":"read_file"}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":16,"item_id":"fc_1","output_index":2,"delta":"{ \"path\":"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":17,"item_id":"fc_2","output_index":3,"delta":"{\"path\": \"\\u0062\" }"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":18,"item_id":"fc_1","output_index":2,"delta":"\"a\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":19,"item_id":"fc_2","output_index":3,"arguments":"{\"path\": \"\\u0062\" }"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":20,"output_index":3,"item":{"id":"fc_2","type":"function_call","status":"completed","arguments":"{\"path\": \"\\u0062\" }","call_id":"call_b","name":"read_file"}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":21,"output_index":2,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{ \"path\":\"a\"}","call_id":"call_a","name":"read_file"}}

event: response.completed
data: {"type":"response.completed","sequence_number":22,"response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"gpt-x-2026","output":[],"usage":{"input_tokens":1200,"input_tokens_details":{"cached_tokens":1024},"output_tokens":34,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":1234}}}

"#;

const PLAIN: Options = Options { encrypted: true, ids: true };

fn whole() -> ModelReply {
    read(OPENAI, Stream::default()).expect("a whole answer")
}

fn call(id: &str, arguments: &str) -> Block {
    Block::ToolCall { id: id.into(), name: "read_file".into(), arguments: arguments.into() }
}

fn raw(raw: Value) -> Block {
    Block::Reasoning { wire: WIRE.into(), raw }
}

/// The items of the transcript as they were received, each as its bytes.
fn received() -> Vec<String> {
    let data = OPENAI.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
    let done = events.filter(|event| event["type"] == "response.output_item.done");
    let mut items: Vec<_> =
        done.map(|event| (event["output_index"].as_u64(), event["item"].to_string())).collect();
    items.sort();
    items.into_iter().map(|(_, item)| item).collect()
}

#[test]
fn reasoning_text_and_parallel_calls_are_put_together() {
    let (reply, seen) = read_pieces(vec![OPENAI.as_bytes().to_vec()], Stream::default());
    let reply = reply.unwrap();
    let plain = reply.blocks.iter().filter(|block| !matches!(block, Block::Reasoning { .. }));
    let want = [
        Block::text("Two files"),
        call("call_a", r#"{ "path":"a"}"#),
        call("call_b", r#"{"path": "\u0062" }"#),
    ];
    assert!(plain.eq(&want), "{:#?}", reply.blocks);
    assert_eq!((reply.stop, reply.model.as_str()), (ReplyStop::ToolUse, "gpt-x-2026"));
    let usage = Usage {
        calls: 1,
        input_tokens: 176,
        output_tokens: 34,
        cache_read_tokens: 1024,
        cache_write_tokens: 0,
        cost: Cost::UNKNOWN,
    };
    assert_eq!(reply.usage, usage);
    let text = |delta: &Delta| match delta {
        Delta::Text(text) => format!("T{text}"),
        Delta::Reasoning(text) => format!("R{text}"),
        Delta::ToolStart { name } => format!("S{name}"),
        Delta::ToolArguments(text) => format!("A{text}"),
        Delta::Restarted => "again".to_owned(),
    };
    let seen: Vec<_> = seen.iter().map(text).collect();
    let want = ["RLet me see – é", "TTwo ", "Tfiles", "Sread_file", "Sread_file"];
    assert_eq!(seen[..5], want);
    assert_eq!(seen.len(), 8, "three pieces of arguments follow: {seen:?}");
}

#[test]
fn no_cut_changes_an_answer_and_no_beginning_is_one() {
    let end = OPENAI.trim_end();
    assert_cuts::<Stream>(OPENAI, &end[end.len() - 20..]);
}

/// The events of the transcript, each with its blank line.
fn events() -> Vec<&'static str> {
    OPENAI.split_inclusive("\n\n").collect()
}

#[test]
fn an_answer_that_lacks_the_end_of_anything_is_broken() {
    for left_out in 0..events().len() {
        let event = events()[left_out];
        let mut rest = events();
        rest.remove(left_out);
        let reply = read(&rest.concat(), Stream::default());
        let needed = event.contains("output_item.done") || event.contains("response.completed");
        match needed {
            true => assert!(matches!(reply, Err(Broken::Protocol(_))), "{event}: {reply:?}"),
            // What an item holds is what its end says: the pieces may come as they like.
            false => assert_eq!(reply, Ok(whole()), "{event}"),
        }
    }
    for bad in ["data: {\"type\n\n", "data: 7\n\n", "data: <html>\n\n", "data: [DONE]\n\n", ""] {
        assert!(matches!(read(bad, Stream::default()), Err(Broken::Protocol(_))), "{bad}");
    }
}

#[test]
fn errors_inside_the_stream_are_that_error_at_any_place() {
    for (event, class, said) in [
        (
            r#"{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached","param":null,"sequence_number":3}"#,
            ErrorClass::RateLimited,
            "Rate limit reached",
        ),
        (
            r#"{"type":"error","error":{"type":"server_error","code":"server_error","message":"oops"}}"#,
            ErrorClass::Overloaded,
            "oops",
        ),
        (
            r#"{"error":{"message":"gateway gave up","type":"api_error","code":"502"}}"#,
            ErrorClass::Overloaded,
            "gateway gave up",
        ),
        (
            r#"{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"The model failed"},"output":[]}}"#,
            ErrorClass::Overloaded,
            "The model failed",
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
            ErrorClass::ContextOverflow,
            "Your input exceeds",
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"insufficient_quota","message":"no credit"}}}"#,
            ErrorClass::Payment,
            "no credit",
        ),
        (r#"{"type":"response.failed"}"#, ErrorClass::Overloaded, "the response is failed"),
        (
            r#"{"type":"response.cancelled","response":{"status":"cancelled"}}"#,
            ErrorClass::Overloaded,
            "the response is cancelled",
        ),
    ] {
        for at in 0..events().len() {
            let event = format!("data: {event}\n\n");
            let mut with = events();
            with.insert(at, &event);
            let reply = read(&with.concat(), Stream::default());
            let Err(Broken::InBand(words)) = reply else { panic!("{event} at {at}: {reply:?}") };
            assert_eq!(refusal::class(0, &words), class, "{event}");
            assert!(words.message.contains(said), "{words:?}");
        }
    }
}

fn event(event: Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// An answer of these items, each only by its end, closed by `end`.
fn answer(items: &[Value], end: Value) -> String {
    let items = items.iter().enumerate().map(|(index, item)| {
        event(json!({"type": "response.output_item.done", "output_index": index, "item": item}))
    });
    items.chain([event(end)]).collect()
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "r1", "model": "m", "status": "completed"}})
}

fn incomplete(reason: Value) -> Value {
    json!({"type": "response.incomplete", "response": {"id": "r1", "model": "m",
        "status": "incomplete", "incomplete_details": reason}})
}

fn message(part: Value) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [part]})
}

#[test]
fn stops_are_told_apart() {
    let text = message(json!({"type": "output_text", "text": "x", "annotations": []}));
    let refusal = message(json!({"type": "refusal", "refusal": "I can't."}));
    let called =
        json!({"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "{}"});
    let reply = |items: &[Value], end: Value| read(&answer(items, end), Stream::default()).unwrap();
    assert_eq!(reply(std::slice::from_ref(&text), completed()).stop, ReplyStop::EndTurn);
    assert_eq!(reply(&[text.clone(), called.clone()], completed()).stop, ReplyStop::ToolUse);
    let refused = reply(&[refusal], completed());
    assert_eq!((refused.stop.clone(), refused.text().as_str()), (ReplyStop::Refusal, "I can't."));
    let cut = |reason: &str| {
        reply(std::slice::from_ref(&text), incomplete(json!({ "reason": reason }))).stop
    };
    assert_eq!(cut("max_output_tokens"), ReplyStop::MaxTokens);
    assert_eq!(cut("content_filter"), ReplyStop::Refusal);
    assert_eq!(cut("odd"), ReplyStop::Other("odd".into()));
    let unsaid = reply(&[text], incomplete(Value::Null));
    assert_eq!(unsaid.stop, ReplyStop::Other("incomplete".into()));
    assert_eq!(unsaid.usage, Usage { calls: 1, cost: Cost::UNKNOWN, ..Usage::default() });
}

#[test]
fn a_cut_answer_keeps_the_items_that_have_their_end() {
    let added = json!({"type": "response.output_item.added", "output_index": 1,
        "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "read_file", "arguments": ""}});
    let done = json!({"type": "response.output_item.done", "output_index": 0,
        "item": message(json!({"type": "output_text", "text": "x"}))});
    let begun = event(done) + &event(added);
    let text = format!("{begun}{}", event(incomplete(json!({"reason": "max_output_tokens"}))));
    let reply = read(&text, Stream::default()).unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("x", ReplyStop::MaxTokens));
    assert!(!reply.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. })));
    // The closing response may bring the end of what the stream left open.
    let mut end = completed();
    end["response"]["output"] = json!([message(json!({"type": "output_text", "text": "x"})),
        {"type": "function_call", "id": "f", "call_id": "c", "name": "read_file", "arguments": "{}"}]);
    let reply = read(&format!("{begun}{}", event(end.clone())), Stream::default()).unwrap();
    assert_eq!(reply.blocks.last(), Some(&call("c", "{}")));
    assert_eq!(reply.text(), "x");
    // Or everything, from a server that streams nothing but the end.
    let only = read(&event(end), Stream::default()).unwrap();
    assert_eq!(only.blocks, reply.blocks);
}

#[test]
fn servers_that_number_or_fill_items_differently_are_understood() {
    // Older llama.cpp: no index, items known by their ids, [DONE] after the end.
    let events = [
        json!({"type": "response.output_item.added", "item": {"type": "reasoning", "id": "rs", "content": [], "encrypted_content": "", "summary": []}}),
        json!({"type": "response.reasoning_text.delta", "item_id": "rs", "delta": "hm"}),
        json!({"type": "response.output_item.added", "item": {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "read_file", "arguments": "", "status": "in_progress"}}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{\"path\":1}"}),
        json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "hm"}], "encrypted_content": "", "summary": []}}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "read_file", "arguments": "", "status": "completed"}}),
        completed(),
    ];
    let text: String = events.into_iter().map(event).collect();
    let reply = read(&format!("{text}data: [DONE]\n\n"), Stream::default()).unwrap();
    assert_eq!(reply.blocks.last(), Some(&call("x", "{\"path\":1}")), "pieces fill an empty end");
    // Arguments as JSON, and no id of the call.
    let item = json!({"type": "function_call", "name": "read_file", "arguments": {"path": "a"}});
    let reply = read(&answer(&[item], completed()), Stream::default()).unwrap();
    assert_eq!(reply.blocks.last(), Some(&call("call_r1_0", r#"{"path":"a"}"#)));
    // Neither a name nor a type is a broken answer.
    for item in [json!({"type": "function_call", "arguments": "{}"}), json!({"id": "x"})] {
        let reply = read(&answer(&[item], completed()), Stream::default());
        assert!(matches!(reply, Err(Broken::Protocol(_))), "{reply:?}");
    }
}

#[test]
fn an_answer_that_came_whole_is_read_and_one_that_is_not_over_is_not() {
    let items: Vec<Value> =
        received().iter().map(|item| serde_json::from_str(item).unwrap()).collect();
    let body = |status: &str| {
        json!({"id": "resp_1", "object": "response", "status": status, "model": "gpt-x-2026",
            "error": null, "output": items, "usage": {"input_tokens": 1200,
            "input_tokens_details": {"cached_tokens": 1024}, "output_tokens": 34}})
        .to_string()
    };
    let mut seen = Vec::new();
    let mut stream = Stream::default();
    stream.whole(&body("completed"), &mut |delta| seen.push(delta)).unwrap();
    assert_eq!(stream.finish(), Ok(whole()));
    assert_eq!(seen, [Delta::Text("Two files".into())]);
    for status in ["in_progress", "queued"] {
        let broken = Stream::default().whole(&body(status), &mut |_| {});
        assert!(matches!(broken, Err(Broken::Protocol(_))), "{broken:?}");
    }
}

fn sent_with(request: &ModelRequest, options: Options) -> Value {
    serde_json::from_slice(&body(request, options, &Map::new()).unwrap()).unwrap()
}

fn sent(request: &ModelRequest) -> Value {
    sent_with(request, PLAIN)
}

fn conversation() -> ModelRequest {
    let mut request = request();
    request.messages.push(Message { role: Role::Assistant, blocks: whole().blocks });
    let result =
        |id: &str| Block::ToolResult { id: id.into(), content: "x\n".into(), is_error: false };
    let blocks = vec![result("call_a"), result("call_b"), Block::text("And now?")];
    request.messages.push(Message { role: Role::Tool, blocks });
    request
}

// contract R28
#[test]
fn items_go_back_byte_for_byte_as_they_came() {
    let body = String::from_utf8(body(&conversation(), PLAIN, &Map::new()).unwrap()).unwrap();
    let together = received().join(",");
    assert!(body.contains(&together), "{together}\nis not in\n{body}");
    // Blocks survive being written down and read again, as on a resume.
    let mut resumed = conversation();
    let text = serde_json::to_string(&resumed.messages).unwrap();
    resumed.messages = serde_json::from_str(&text).unwrap();
    assert_eq!(
        String::from_utf8(super::request::body(&resumed, PLAIN, &Map::new()).unwrap()).unwrap(),
        body
    );
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
    let sent = sent_with(&request, Options { encrypted: false, ids: false });
    for field in ["tool_choice", "instructions", "include", "tools"] {
        assert!(sent.get(field).is_none(), "{field}");
    }
    assert!(!sent.to_string().contains("\"id\""), "{sent}");
}

#[test]
fn what_the_server_could_not_understand_is_left_out() {
    let mut request = request();
    let bare = raw(json!({"type": "reasoning", "id": "rs_9", "summary": []}));
    let open = raw(
        json!({"type": "reasoning", "id": "rs_8", "content": [{"type": "reasoning_text", "text": "hm"}]}),
    );
    let foreign = Block::Reasoning { wire: "anthropic".into(), raw: json!({"type": "thinking"}) };
    let called = raw(
        json!({"type": "function_call", "id": "fc_9", "call_id": "c", "name": "read_file", "arguments": null}),
    );
    let blocks = vec![bare, foreign, called.clone(), call("c", "{broken")];
    request.messages.push(Message { role: Role::Assistant, blocks });
    let items = &sent(&request)["input"];
    // Reasoning that only the server could look up is gone, and with it the ids that point to it.
    let want = json!([{"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "{broken"}]);
    assert_eq!(items.as_array().unwrap()[1..], want.as_array().unwrap()[..]);
    request.messages[1].blocks = vec![open, called, Block::text("not the call")];
    let items = sent(&request)["input"].clone();
    let kinds: Vec<_> =
        items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "reasoning", "message"], "a frame without its call is no call");
    // What came over another wire is built anew.
    request.messages[1].blocks = vec![Block::text("hi"), call("c", "{}")];
    let items = sent(&request)["input"].clone();
    assert_eq!(
        items[1],
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]})
    );
    assert_eq!(
        items[2],
        json!({"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "{}"})
    );
}

#[test]
fn an_answer_of_all_the_tokens_that_it_may_have_is_cut_whatever_the_server_calls_it() {
    let mut request = request();
    for (most, want) in [(34, ReplyStop::MaxTokens), (35, ReplyStop::ToolUse)] {
        request.max_output_tokens = most;
        assert_eq!(super::cut(whole(), &request).stop, want);
    }
    let refused = ModelReply { stop: ReplyStop::Refusal, ..whole() };
    request.max_output_tokens = 34;
    assert_eq!(super::cut(refused, &request).stop, ReplyStop::Refusal);
}

#[test]
fn a_refusal_to_encrypt_is_known() {
    for message in [
        "encrypted content is not supported with this model.",
        "invalid value: 'reasoning.encrypted_content'. supported values are: …",
        "unknown parameter: 'include'.",
    ] {
        assert!(refuses_encrypted(message), "{message}");
    }
    for message in ["the encrypted content could not be verified", "invalid prompt"] {
        assert!(!refuses_encrypted(message), "{message}");
    }
}
