//! A real model: llama-server with SmolLM2-135M, in every dialect that it speaks.
//!
//! Only where asked for (`BAKEOFF_PEER_MODEL=1 tests/peers/run.sh`): building the server takes a quarter of an
//! hour. The model can't code; what matters is that its stream is read, counted, cancelled and
//! taken for what it is.

#[path = "../it/support/place.rs"]
mod place;

use std::sync::Arc;
use std::time::Duration;

use bakeoff::model::chat::{
    Delta, Message, ModelReply, ModelRequest, Purpose, ReplyStop, ToolChoice, ToolSpec,
};
use bakeoff::model::{LaneId, Wire};
use bakeoff::provider::{Endpoint, ErrorClass, Provider, ProviderError, connect};
use place::Place;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{control, peer};

const MODEL: &str = "smollm2";
const WIRES: [Wire; 3] = [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic];

fn request(text: &str, most: u32) -> ModelRequest {
    ModelRequest {
        model: MODEL.into(),
        system: "You are a helpful assistant.".into(),
        tools: [].into(),
        messages: vec![Message::user(text)],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: most,
        temperature: Some(0.0),
        seed: Some(1),
        purpose: Purpose::Worker { lane: LaneId::of("llama", 1), turn: 0 },
    }
}

fn server(wire: Wire) -> Arc<dyn Provider> {
    connect(&Endpoint::new("llama", wire, peer("LLAMA"))).unwrap()
}

async fn ask(
    wire: Wire,
    request: &ModelRequest,
) -> (Result<ModelReply, ProviderError>, Vec<Delta>) {
    let mut seen = Vec::new();
    let mut sink = |delta| seen.push(delta);
    let reply = server(wire).call(request, &mut sink, &CancellationToken::new()).await;
    (reply, seen)
}

#[tokio::test]
#[ignore = "needs a model started by tests/peers/run.sh"]
async fn llama_streams_text_and_counts_it() {
    for wire in WIRES {
        let (reply, seen) = ask(wire, &request("What is the capital of France?", 100)).await;
        let reply = reply.unwrap();
        assert!(reply.text().contains("Paris"), "{wire}: {reply:?}");
        assert_eq!(reply.stop, ReplyStop::EndTurn, "{wire}");
        let pieces = seen.iter().filter(|delta| matches!(delta, Delta::Text(_))).count();
        assert!(pieces > 1, "{wire}: it came in {pieces} pieces");
        let usage = reply.usage;
        let read = usage.input_tokens + usage.cache_read_tokens;
        assert!(read > 10 && usage.output_tokens > 1, "{wire}: {usage:?}");
        // Cut by the largest answer.
        let (cut, _) = ask(wire, &request("Tell a very long story.", 8)).await;
        let cut = cut.unwrap();
        assert_eq!((cut.stop, cut.usage.output_tokens), (ReplyStop::MaxTokens, 8), "{wire}");
    }
}

#[tokio::test]
#[ignore = "needs a model started by tests/peers/run.sh"]
async fn llama_takes_tools_and_its_own_answer_back() {
    for wire in WIRES {
        let parameters = json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
        });
        let mut first = request("What is two and two?", 30);
        let (name, description) = ("read_file".to_owned(), "Reads a file.".to_owned());
        first.tools = Arc::new([ToolSpec { name, description, parameters }]);
        let reply = ask(wire, &first).await.0.unwrap();
        let mut second = first;
        second.messages.push(Message {
            role: bakeoff::model::chat::Role::Assistant,
            blocks: reply.blocks.clone(),
        });
        second.messages.push(Message::user("And three and three?"));
        second.tool_choice = ToolChoice::Forbidden;
        let again = ask(wire, &second).await.0.unwrap();
        assert!(!again.text().is_empty(), "{wire}: {again:?}");
        // What it had read is read from its cache, where the dialect says so.
        let usage = again.usage;
        assert!(
            usage.input_tokens + usage.cache_read_tokens > reply.usage.output_tokens,
            "{usage:?}"
        );
    }
}

#[tokio::test]
#[ignore = "needs a model started by tests/peers/run.sh"]
async fn llama_is_full_in_every_dialect() {
    for wire in WIRES {
        let (result, _) = ask(wire, &request(&"one two three ".repeat(10_000), 10)).await;
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::ContextOverflow, "{wire}: {error}");
        assert!(!error.maybe_charged, "{wire}: {error}");
    }
}

/// Whether the server works on anything.
fn is_busy() -> bool {
    let slots = control("GET", &format!("{}/slots", peer("LLAMA")), "");
    let slots: Value = serde_json::from_str(&slots).unwrap();
    slots.as_array().unwrap().iter().any(|slot| slot["is_processing"] == true)
}

#[tokio::test]
#[ignore = "needs a model started by tests/peers/run.sh"]
async fn llama_stops_when_it_is_cancelled() {
    for wire in WIRES {
        let cancel = CancellationToken::new();
        let (long, stop) = (request("Tell a very long story.", 4000), cancel.clone());
        let mut sink = |delta| {
            if matches!(delta, Delta::Text(_)) {
                stop.cancel();
            }
        };
        let error = server(wire).call(&long, &mut sink, &cancel).await.unwrap_err();
        assert_eq!((error.class, error.maybe_charged), (ErrorClass::Cancelled, true), "{wire}");
        let idle = async {
            while is_busy() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), idle).await.expect("the server stops, too");
    }
}

#[test]
#[ignore = "needs a model started by tests/peers/run.sh"]
fn llama_in_a_whole_run_leaves_no_change_and_is_told_so() {
    let place = Place::new();
    let lane = |name: &str, wire: &str| {
        let url = peer("LLAMA");
        format!(
            "[providers.{name}]\nwire = \"{wire}\"\nbase_url = \"{url}\"\nkey_env = \"\"\n\
             [lanes.{name}]\nmodel = \"{name}:{MODEL}\"\nturns = 2\n"
        )
    };
    let lanes =
        [("chat", "openai-chat"), ("responses", "openai-responses"), ("messages", "anthropic")];
    let lanes = lanes.map(|(name, wire)| lane(name, wire)).concat();
    place.config(&format!(
        "[gates]\ncheck = \"sh check.sh\"\n[limits]\nmax_output_tokens = 24\n[judges]\nenabled = false\n{lanes}"
    ));
    let done = place.run(["run", "Set the number in value.txt to 2.", "-q", "--json"]);
    let record = done.json();
    for lane in record["lanes"].as_array().unwrap() {
        // It answers, calls what it likes, or fills its context: it never fails.
        let kind = lane["stop"]["kind"].as_str().unwrap();
        assert!(["quit", "limit", "submitted"].contains(&kind), "{lane:#}");
        assert!(
            lane["turns"].as_u64().unwrap() > 0 && lane["usage"]["output_tokens"] != 0,
            "{lane:#}"
        );
        assert_eq!(lane["usage"]["cost"]["partly_unknown"], true, "nobody said what it costs");
    }
    assert!(["no_winner", "limit", "done"].contains(&record["exit"].as_str().unwrap()), "{done:?}");
    place.run(["replay"]).exits(0);
    place.nothing_left("a real model");
}
