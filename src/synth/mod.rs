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
use crate::judge::{Finalist, Tally, gate_fact, gate_name};
use crate::model::chat::{Block, Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role};
use crate::model::{Ballot, GateReport, ModelRef, Usage};
use crate::prompt::{PromptError, SynthFix, SynthRetry, SynthSystem, Templates};
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
    /// A change of its own that failed a gate, to be mended.
    pub mend: Option<Mend<'a>>,
    /// Ends the request.
    pub cancel: &'a CancellationToken,
}

/// A proposal that failed.
#[derive(Clone, Copy, Debug)]
pub struct Mend<'a> {
    /// What it proposed.
    pub diff: &'a [u8],
    /// The gate that it failed.
    pub report: &'a GateReport,
    /// Which mending this is, from 0.
    pub round: u32,
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
    if let Some(mend) = &input.mend {
        messages.extend(mended(input, mend)?);
    }
    // Attempts are numbered through, so that each has a name of its own in the journal.
    let first = input.mend.map_or(0, |mend| ATTEMPTS * (mend.round + 1));
    let mut usage = Usage::default();
    let mut attempt = 0;
    loop {
        let request = request(input, &system, messages.clone(), first + attempt);
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

/// What was proposed, as the model's own word, and what came of it.
fn mended(input: &SynthInput<'_>, mend: &Mend<'_>) -> Result<[Message; 2], PromptError> {
    let diff = String::from_utf8_lossy(mend.diff);
    let said = Block::text(format!("```diff\n{}\n```", diff.trim_end()));
    let fix = SynthFix {
        gate: gate_name(mend.report.gate).to_owned(),
        command: mend.report.command.clone(),
        facts: vec![gate_fact(mend.report)],
        output: mend.report.output.text.clone(),
    };
    let fix = input.templates.render(&fix, input.fencer)?.text;
    Ok([Message { role: Role::Assistant, blocks: vec![said] }, Message::user(fix)])
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
    ModelRequest::question(
        &input.model.model,
        system.to_owned(),
        messages,
        input.max_output_tokens,
        Purpose::Synthesizer { attempt },
    )
}

#[cfg(test)]
mod tests;
