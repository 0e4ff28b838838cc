//! The synthesizer: proposes one more candidate, and nothing more.
//!
//! Lives here: what it is shown (finalists, ballots, how they add up, the base's files), and the
//! reading of its reply. Its diff goes the way of every other: admission, gates, judges.
//! Never here: picking, and running anything.

mod question;
mod reply;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::fence::Fencer;
use crate::judge::{Finalist, Tally};
use crate::model::chat::{Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice};
use crate::model::{Ballot, ModelRef, Usage};
use crate::prompt::{PromptError, SynthRetry, SynthSystem, Templates};
use crate::provider::{Provider, ProviderError};
use question::task;
use reply::{Fault, Said};

/// A file of the base commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseFile {
    /// Its path from the repository's top, lossily decoded.
    pub path: String,
    /// Its contents, lossily decoded.
    pub contents: String,
}

/// What the synthesizer needs.
pub struct SynthInput<'a> {
    /// The operator's task, if there is one.
    pub task: Option<&'a str>,
    /// The finalists, at least one.
    pub finalists: &'a [Finalist],
    /// The judges' ballots; empty when nobody judged.
    pub ballots: &'a [Ballot],
    /// How they add up.
    pub tally: Option<&'a Tally>,
    /// The base's files that the finalists touch; those over the budget are left out.
    pub files: &'a [BaseFile],
    /// The prompts.
    pub templates: &'a Templates,
    /// The run's fencer.
    pub fencer: &'a Fencer,
    /// The model's name.
    pub model: &'a ModelRef,
    /// How it is reached.
    pub provider: Arc<dyn Provider>,
    /// The largest reply, in tokens.
    pub max_output_tokens: u32,
    /// Ends the request.
    pub cancel: &'a CancellationToken,
}

/// One more candidate, not admitted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// A unified diff against the base, as the model wrote it.
    pub diff: Vec<u8>,
    /// What it says of it: foreign text.
    pub answer: String,
    /// What it cost.
    pub usage: Usage,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthesis {
    /// The proposal; `None` when the model declined or gave no usable reply, twice.
    pub proposal: Option<Proposal>,
    /// Why there is none, in a sentence; the model's own words when it declined: foreign text.
    pub why_none: Option<String>,
    /// What asking cost.
    pub usage: Usage,
}

/// Why the synthesizer could not be asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SynthError {
    /// Its model gave no answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A template can't be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// How often a reply is asked for.
const ATTEMPTS: u32 = 2;

/// Asks for one more candidate; after a reply that can't be used, once more.
///
/// # Errors
/// See [`SynthError`].
pub async fn propose(input: &SynthInput<'_>) -> Result<Synthesis, SynthError> {
    let system = input.templates.render(&SynthSystem, input.fencer)?.text;
    let question = input.templates.render(&task(input), input.fencer)?.text;
    let mut messages = vec![Message::user(question)];
    let mut usage = Usage::default();
    let mut attempt = 0;
    loop {
        let request = request(input, &system, messages.clone(), attempt);
        let reply = input.provider.call(&request, &mut |_| {}, input.cancel).await?;
        usage += reply.usage;
        let fault = match read(&reply) {
            Ok(Said::Declined(why)) => return Ok(none(why, usage)),
            Ok(Said::Proposed { diff, answer }) => {
                let proposal = Proposal { diff: diff.into_bytes(), answer, usage };
                return Ok(Synthesis { proposal: Some(proposal), why_none: None, usage });
            }
            Err(fault) => fault,
        };
        attempt += 1;
        if attempt == ATTEMPTS {
            return Ok(none(format!("its reply can't be used: {}", fault.message), usage));
        }
        let retry = SynthRetry { fault: fault.message, quoted: fault.quoted };
        let retry = input.templates.render(&retry, input.fencer)?.text;
        messages.push(Message { role: Role::Assistant, blocks: reply.blocks });
        messages.push(Message::user(retry));
    }
}

fn none(why: String, usage: Usage) -> Synthesis {
    Synthesis { proposal: None, why_none: Some(why), usage }
}

fn read(reply: &ModelReply) -> Result<Said, Fault> {
    match reply.stop {
        ReplyStop::MaxTokens => {
            Err(Fault::new("it was cut off before its end; propose a smaller change, or decline."))
        }
        ReplyStop::Refusal => Ok(Said::Declined("the model refused".to_owned())),
        _ => reply::read(&reply.text()),
    }
}

fn request(
    input: &SynthInput<'_>,
    system: &str,
    messages: Vec<Message>,
    attempt: u32,
) -> ModelRequest {
    ModelRequest {
        model: input.model.model.clone(),
        system: system.to_owned(),
        tools: Arc::from([]),
        messages,
        tool_choice: ToolChoice::Forbidden,
        max_output_tokens: input.max_output_tokens,
        temperature: None,
        seed: None,
        purpose: Purpose::Synthesizer { attempt },
    }
}

#[cfg(test)]
mod tests;
