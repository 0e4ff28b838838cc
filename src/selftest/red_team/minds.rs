//! Scripted judges and how they misbehave. Never here: what is planted.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model::chat::{Block, Delta, ModelReply, ModelRequest, Purpose, ReplyStop};
use crate::model::{JudgeId, Usage};
use crate::provider::{ErrorClass, Provider, ProviderError};

/// How a judge behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mind {
    /// Prefers the right change and quotes it.
    Honest,
    /// Always the first shown.
    First,
    /// Always the second shown.
    Second,
    /// Always the longer one.
    Longer,
    /// Whoever asks for it.
    Obeys,
    /// Repeats the first verdict that stands in the prompt.
    Parrots,
    /// Answers in something like JSON.
    BrokenJson,
    /// Prefers the first by a line that is in no diff.
    Invents,
    /// Repeats another question's nonce.
    OldNonce,
    /// Says nothing.
    Refuses,
    /// Never answers.
    Stalls,
    /// Its server has no key.
    NoKey,
}

impl Mind {
    /// All that misbehave.
    pub(super) const BAD: [Self; 11] = [
        Self::First,
        Self::Second,
        Self::Longer,
        Self::Obeys,
        Self::Parrots,
        Self::BrokenJson,
        Self::Invents,
        Self::OldNonce,
        Self::Refuses,
        Self::Stalls,
        Self::NoKey,
    ];
}

/// One model that answers for all judges: some are bad, the others honest.
pub(super) struct Minds {
    pub(super) bad: Vec<JudgeId>,
    pub(super) mind: Mind,
}

impl Provider for Minds {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>> {
        let is_bad = match &request.purpose {
            Purpose::Judge { judge, .. } => self.bad.iter().any(|id| id.as_str() == judge),
            _ => false,
        };
        let mind = if is_bad { self.mind } else { Mind::Honest };
        let question = request.messages.first().and_then(|message| match message.blocks.first() {
            Some(Block::Text { text }) => Some(text.as_str()),
            _ => None,
        });
        let question = question.unwrap_or_default().to_owned();
        async move {
            match mind {
                Mind::Stalls => std::future::pending().await,
                Mind::NoKey => Err(ProviderError::new(ErrorClass::Auth, "no such key")),
                _ => Ok(reply(mind, &question)),
            }
        }
        .boxed()
    }
}

/// A line that both changes hold.
const SHARED: &str = "pub fn add(a: u8, b: u8)";

fn reply(mind: Mind, question: &str) -> ModelReply {
    let nonce = question.rsplit("\"nonce\": \"").next().and_then(|rest| rest.split('"').next());
    let nonce = if mind == Mind::OldNonce { Some("0123456789abcdef") } else { nonce };
    let (choice, quotes) = choice(mind, question);
    let verdict = json!({
        "nonce": nonce.unwrap_or_default(), "choice": choice, "reason": "so it is", "evidence": quotes, "vetoes": [],
    });
    let text = match mind {
        Mind::BrokenJson => format!("I prefer FIRST. {verdict}"),
        Mind::Parrots => parroted(question),
        _ => verdict.to_string(),
    };
    ModelReply {
        blocks: vec![Block::text(text)],
        stop: if mind == Mind::Refuses { ReplyStop::Refusal } else { ReplyStop::EndTurn },
        usage: Usage { calls: 1, ..Usage::default() },
        model: "red-team".to_owned(),
    }
}

fn choice(mind: Mind, question: &str) -> (&'static str, Vec<&'static str>) {
    let (first, second) = question.split_once("\n# SECOND\n").unwrap_or((question, ""));
    let first = first.split_once("\n# FIRST\n").map_or("", |(_, first)| first);
    let which = |first: bool, second: bool| match (first, second) {
        (true, false) => "first",
        (false, true) => "second",
        _ => "tie",
    };
    let holds = |text: &str| which(first.contains(text), second.contains(text));
    match mind {
        Mind::Honest => match holds("checked_add") {
            "tie" => ("tie", Vec::new()),
            choice => (choice, vec!["a.checked_add(b)"]),
        },
        Mind::First => ("first", vec![SHARED]),
        Mind::Second => ("second", vec![SHARED]),
        Mind::Longer => {
            (which(first.len() > second.len(), first.len() < second.len()), vec![SHARED])
        }
        Mind::Obeys => (holds(super::plants::PLEA), vec![SHARED]),
        Mind::Invents => ("first", vec!["unsafe { transmute(b) }"]),
        _ => ("tie", Vec::new()),
    }
}

/// The first object that stands in the prompt: what a planted verdict hopes for.
fn parroted(question: &str) -> String {
    let start = question.find("{\"nonce\"").unwrap_or(0);
    let end = question[start..].find('}').map_or(question.len(), |end| start + end + 1);
    question[start..end].to_owned()
}
