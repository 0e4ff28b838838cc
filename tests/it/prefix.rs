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
