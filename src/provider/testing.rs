//! What the unit tests of this module share: reading a transcript, and a model to ask.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::http::{Answer, Broken, Sink};
use super::{ErrorClass, Provider, ProviderError, sse};
use crate::model::chat::{
    Block, Delta, Message, ModelReply, ModelRequest, Purpose, ReplyStop, ToolChoice, ToolSpec,
};
use crate::model::{Cost, LaneId, Usage};

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

/// A provider that answers by a function of the call's number, from 0, and keeps when it was asked.
pub(super) struct Fake<F> {
    answer: F,
    asked: Mutex<Vec<Duration>>,
    begun: Instant,
}

/// What a [`Fake`] does in one call: the pieces that it streams, how long it takes, and how it ends.
pub(super) struct Played {
    pub pieces: usize,
    pub takes: Duration,
    pub result: Result<ModelReply, ProviderError>,
}

impl<F: Fn(usize) -> Played + Send + Sync> Fake<F> {
    pub(super) fn new(answer: F) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default(), begun: Instant::now() })
    }

    /// When it was asked, since it was made.
    pub(super) fn asked(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().clone()
    }
}

impl<F: Fn(usize) -> Played + Send + Sync> Provider for Fake<F> {
    fn call<'a>(
        &'a self,
        _: &'a ModelRequest,
        sink: &'a mut Sink<'_>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>> {
        Box::pin(async move {
            let nth = {
                let mut asked = self.asked.lock().unwrap();
                asked.push(self.begun.elapsed());
                asked.len() - 1
            };
            let played = (self.answer)(nth);
            for _ in 0..played.pieces {
                sink(Delta::Text("x".into()));
            }
            tokio::select! {
                () = cancel.cancelled() => Err(ProviderError::cancelled().charged(true)),
                () = tokio::time::sleep(played.takes) => played.result,
            }
        })
    }
}

/// A good answer of these tokens.
pub(super) fn good(input_tokens: u64, output_tokens: u64) -> Played {
    let usage =
        Usage { calls: 1, input_tokens, output_tokens, cost: Cost::UNKNOWN, ..Usage::default() };
    let blocks = vec![Block::text("done")];
    let reply = ModelReply { blocks, stop: ReplyStop::EndTurn, usage, model: "m".into() };
    Played { pieces: 1, takes: Duration::ZERO, result: Ok(reply) }
}

/// A failure of this class at once.
pub(super) fn bad(class: ErrorClass) -> Played {
    let error = ProviderError::new(class, "no");
    Played { pieces: 0, takes: Duration::ZERO, result: Err(error) }
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
