//! What the lanes of a run send has one beginning, so that a server's prefix cache serves them all.

use serde_json::{Value, json};

use super::support::place::Place;
use super::support::server::{Reply, Request, Server};

/// The bytes before the conversation (tools, system prompt) and the first message, cache marks left out.
fn parts(request: &Request) -> (String, String) {
    let text = String::from_utf8(request.body.clone()).unwrap();
    let text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let body: Value = serde_json::from_str(&text).unwrap();
    let mut messages =
        body.get("messages").or(body.get("input")).unwrap().as_array().unwrap().clone();
    let system = match messages[0]["role"] == "system" {
        true => messages.remove(0),
        false => body.get("system").or(body.get("instructions")).unwrap().clone(),
    };
    assert_eq!((messages.len(), &messages[0]["role"]), (1, &json!("user")));
    (format!("{}{system}", body["tools"]), messages[0].to_string())
}

/// How many bytes two texts have in common at their beginning.
fn common(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}

// contract R28
#[test]
fn all_lanes_send_the_same_bytes_up_to_what_sets_them_apart() {
    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        // A refusal is enough: the first request of each worker run is what matters here.
        let server = Server::start(|_| Reply::json(400, r#"{"error":{"message":"not today"}}"#));
        let place = Place::new();
        place.config(&format!(
            "[providers.own]\nwire = \"{wire}\"\nbase_url = \"{}\"\nkey_env = \"\"\n\
             [gates]\ncheck = \"sh check.sh\"\n[judges]\nenabled = false\n\
             [lanes.one]\nmodel = \"own:m-1\"\nattempts = 3\ntemperature = 0.2\n[lanes.two]\nmodel = \"own:m-2\"\nattempts = 2\n",
            server.url()
        ));
        place.run(["run", "Raise the value."]).exits(3);
        let sent: Vec<_> = server.requests().iter().map(parts).collect();
        assert_eq!(sent.len(), 5, "{wire}");
        let (prefix, task) = &sent[0];
        assert!(prefix.len() > 4000 && prefix.contains("submit"), "{wire}: {prefix}");
        for (other, words) in &sent {
            assert_eq!(other, prefix, "{wire}");
            // The task comes first; how this attempt shall differ comes behind it.
            let shared = &task[..common(task, words)];
            assert!(shared.contains("Raise the value."), "{wire}: {task}\n{words}");
        }
    }
}

/// A model that thinks in secret before every call, over the responses wire: it writes the value, then submits.
fn thinker(request: &Request) -> Reply {
    let body = request.json();
    let input = body["input"].as_array().unwrap();
    let turn = input.iter().filter(|item| item["type"] == "function_call").count();
    let (name, arguments) = match turn {
        0 => ("list_dir", json!({"path": "."})),
        1 => ("write_file", json!({"path": "value.txt", "content": "2\n"})),
        _ => ("submit", json!({"answer": "done", "claims": []})),
    };
    let items = [
        json!({"id": format!("rs_{turn}"), "type": "reasoning", "summary": [], "encrypted_content": format!("secret {turn}==")}),
        json!({"id": format!("fc_{turn}"), "type": "function_call", "status": "completed", "arguments": arguments.to_string(),
            "call_id": format!("call_{turn}"), "name": name}),
    ];
    let done = items.iter().enumerate().map(
        |(at, item)| json!({"type": "response.output_item.done", "output_index": at, "item": item}),
    );
    let end = json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "model": "m",
        "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 900}, "output_tokens": 10}}});
    let events = done.chain([end]).map(|event| format!("data: {event}\n\n"));
    Reply::sse(events.collect::<String>())
}

// contract R28
#[test]
fn a_whole_run_over_the_responses_wire_sends_back_what_it_was_sent() {
    let server = Server::start(thinker);
    let place = Place::new();
    place.config(&format!(
        "[providers.own]\nwire = \"openai-responses\"\nbase_url = \"{}\"\nkey_env = \"\"\n\
         [gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n[judges]\nenabled = false\n[lanes.one]\nmodel = \"own:m\"\n",
        server.url()
    ));
    place.run(["run", "Raise the value."]).exits(0);
    let lane = &place.record()["lanes"][0];
    assert_eq!((&lane["turns"], &lane["stop"]["kind"]), (&json!(3), &json!("submitted")));
    // What came from the server's cache is in the record and in the report.
    assert_eq!(lane["usage"]["cache_read_tokens"], 2700);
    place.run(["show"]).exits(0).prints(&["(2,700 from cache)"]);
    let sent: Vec<Value> = server.requests().iter().map(Request::json).collect();
    assert_eq!(sent.len(), 3);
    for pair in sent.windows(2) {
        let (before, after) =
            (pair[0]["input"].as_array().unwrap(), pair[1]["input"].as_array().unwrap());
        assert!(after.starts_with(before), "{after:#?}");
        let kinds: Vec<_> =
            after[before.len()..].iter().map(|item| item["type"].as_str()).collect();
        assert_eq!(kinds, [Some("reasoning"), Some("function_call"), Some("function_call_output")]);
    }
    assert_eq!(sent[2]["input"][4]["encrypted_content"], "secret 1==");
    place.run(["replay"]).exits(0);
}
