//! What the unit tests of this module share: reading a transcript, and a model to ask.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;

use super::http::{Answer, Broken};
use super::sse;
use crate::model::LaneId;
use crate::model::chat::{Delta, Message, ModelReply, ModelRequest, Purpose, ToolChoice, ToolSpec};

/// Reads a transcript that comes in these pieces, and what the live view saw of it.
pub(super) fn read_pieces(
    pieces: Vec<Vec<u8>>,
    mut answer: impl Answer,
) -> (Result<ModelReply, Broken>, Vec<Delta>) {
    let mut seen = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let result = runtime.expect("a runtime with time").block_on(async {
        let pieces = pieces.into_iter().map(Ok::<_, Infallible>);
        let hour = Duration::from_secs(3600);
        let stream = futures_util::stream::iter(pieces);
        let mut events = sse::events(stream, Instant::now() + hour, hour);
        while let Some(event) = events.next().await {
            let event = event.map_err(|_| Broken::Protocol("the stream broke".into()))?;
            if answer.event(&event.data, &mut |delta| seen.push(delta))? {
                break;
            }
        }
        answer.finish()
    });
    (result, seen)
}

/// Reads a whole transcript.
pub(super) fn read(text: &str, answer: impl Answer) -> Result<ModelReply, Broken> {
    read_pieces(vec![text.as_bytes().to_vec()], answer).0
}

/// Asserts that a transcript gives the same reply wherever its bytes are cut, and that no beginning
/// of it that lacks its end is taken for an answer.
pub(super) fn assert_cuts<A: Answer + Default>(text: &str, needed: &str) {
    let bytes = text.as_bytes();
    let whole = read(text, A::default()).expect("the transcript is whole");
    let end = text.rfind(needed).expect("the transcript has its end") + needed.len();
    for at in 0..=bytes.len() {
        let pieces = vec![bytes[..at].to_vec(), bytes[at..].to_vec()];
        let (reply, _) = read_pieces(pieces, A::default());
        assert_eq!(reply.as_ref(), Ok(&whole), "cut at {at}");
        let (short, _) = read_pieces(vec![bytes[..at].to_vec()], A::default());
        assert_eq!(short.is_ok(), at >= end, "ended at {at} of {end}");
    }
    let single = bytes.iter().map(|byte| vec![*byte]).collect();
    assert_eq!(read_pieces(single, A::default()).0, Ok(whole));
}

/// A request with one tool and one message.
pub(super) fn request() -> ModelRequest {
    ModelRequest {
        model: "m".into(),
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
