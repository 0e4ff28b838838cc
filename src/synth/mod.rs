//! The synthesizer: proposes one more candidate, and nothing more.
//!
//! Lives here: what it is shown (finalists, ballots, how they add up, the base's files), and the
//! reading of its reply. Its diff goes the way of every other: admission, gates, judges.
//! Never here: picking, and running anything.

mod reply;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::fence::Fencer;
use crate::judge::{Finalist, Tally, TallyOutcome, view};
use crate::model::chat::{Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice};
use crate::model::{Ballot, CandidateId, Choice, ModelRef, Usage};
use crate::prompt::{
    PromptError, SynthBallot, SynthFile, SynthRetry, SynthSystem, SynthTask, Templates,
};
use crate::provider::{Provider, ProviderError};
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

/// The most bytes of all base files in one prompt.
const FILES_BYTES: usize = 192 << 10;
/// The most ballots in one prompt.
const MOST_BALLOTS: usize = 24;
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

/// Letters in the order of ids: nothing about a candidate's author shows.
fn names(finalists: &[Finalist]) -> BTreeMap<CandidateId, String> {
    let mut ids: Vec<&CandidateId> = finalists.iter().map(|finalist| &finalist.id).collect();
    ids.sort();
    ids.dedup();
    let name = |index: usize| match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("N{}", index + 1),
    };
    ids.into_iter().enumerate().map(|(index, id)| (id.clone(), name(index))).collect()
}

fn task(input: &SynthInput<'_>) -> SynthTask {
    let names = names(input.finalists);
    let name = |id: &CandidateId| names.get(id).cloned().unwrap_or_else(|| "?".to_owned());
    let mut candidates: Vec<_> =
        input.finalists.iter().map(|finalist| view(finalist, &name(&finalist.id), None)).collect();
    candidates.sort_by(|a, b| a.name.cmp(&b.name));
    let ballots = input.ballots.iter().filter(|ballot| !ballot.reason.is_empty());
    SynthTask {
        task: input.task.map(str::to_owned),
        candidates,
        ballots: ballots.take(MOST_BALLOTS).map(|ballot| words(ballot, &name)).collect(),
        standing: input.tally.map(|tally| standing(tally, &name)).unwrap_or_default(),
        files: files(input.files),
    }
}

fn words(ballot: &Ballot, name: &dyn Fn(&CandidateId) -> String) -> SynthBallot {
    let (left, right) = (name(&ballot.left), name(&ballot.right));
    let said = match ballot.choice {
        Choice::Left => format!("preferred {left} to {right}"),
        Choice::Right => format!("preferred {right} to {left}"),
        Choice::Tie => format!("found {left} and {right} equal"),
        Choice::Abstain { .. } => format!("abstained on {left} and {right}"),
    };
    let vetoes: Vec<String> = ballot.vetoes.iter().map(name).collect();
    let vetoed = match vetoes.is_empty() {
        true => String::new(),
        false => format!(" and would not ship {}", vetoes.join(" and ")),
    };
    let fact = format!("Judge `{}` {said}{vetoed}.", ballot.judge);
    SynthBallot { fact, reason: ballot.reason.clone() }
}

fn standing(tally: &Tally, name: &dyn Fn(&CandidateId) -> String) -> Vec<String> {
    let mut lines: Vec<String> = tally
        .standings
        .iter()
        .map(|standing| {
            let (wins, losses) = (standing.wins, standing.losses);
            format!("{} won {wins} pair(s) and lost {losses}", name(&standing.candidate))
        })
        .collect();
    if let TallyOutcome::Winner { candidate } = &tally.outcome {
        lines.push(format!("{} is the best so far; yours has to beat it", name(candidate)));
    }
    lines
}

/// The files in their order, as long as they are within the budget together.
fn files(files: &[BaseFile]) -> Vec<SynthFile> {
    let mut left = FILES_BYTES;
    let fits = |file: &&BaseFile| match left.checked_sub(file.contents.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let shown = files.iter().filter(fits);
    shown
        .map(|file| SynthFile { path: file.path.clone(), contents: file.contents.clone() })
        .collect()
}

#[cfg(test)]
mod tests;
