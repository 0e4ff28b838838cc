//! Asking: one question, once more after an invalid reply, and the ballot that comes of it.
//!
//! Never here: what a ballot is worth.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::PanelInput;
use super::question::Question;
use crate::judge::facts::Finalist;
use crate::judge::reply::{self, Fault, Reply, Shown, ShownChoice};
use crate::model::chat::{Message, ModelReply, ModelRequest, ReplyStop, Role};
use crate::model::{Ballot, Choice, ModelRef, Order, RunEvent, Usage};
use crate::prompt::JudgeRetry;
use crate::provider::{ErrorClass, ProviderError};

/// Models that answered with an error that asking again can't mend: they are not asked again.
#[derive(Default)]
pub(super) struct Broken(Mutex<BTreeMap<ModelRef, ProviderError>>);

impl Broken {
    fn get(&self, model: &ModelRef) -> Option<ProviderError> {
        self.0.lock().ok()?.get(model).cloned()
    }

    fn note(&self, model: &ModelRef, error: &ProviderError) {
        use ErrorClass::{Auth, Budget, Payment, TooLong, UnknownModel};
        if matches!(error.class, Auth | Payment | UnknownModel | TooLong | Budget)
            && let Ok(mut broken) = self.0.lock()
        {
            // What one call may have cost is none of the next one's, which is not made.
            broken.insert(model.clone(), ProviderError { maybe_charged: false, ..error.clone() });
        }
    }
}

/// Why there is no valid reply.
pub(super) enum Silence {
    Model(ProviderError),
    Fault(Fault),
}

pub(super) async fn ask(
    input: &PanelInput<'_>,
    question: Question<'_>,
    broken: &Broken,
) -> (Ballot, Option<ProviderError>) {
    let mut usage = Usage::default();
    let said = converse(input, &question, broken, &mut usage).await;
    let (ballot, error) = match said {
        Ok(reply) => (question.ballot(reply, usage), None),
        Err(Silence::Fault(fault)) => (question.abstains(fault.message, usage), None),
        Err(Silence::Model(error)) => {
            broken.note(&question.model.name, &error);
            let reason = format!("its model gave no answer ({}): {error}", error.class.name());
            (question.abstains(reason, usage), Some(error))
        }
    };
    input.events.send(RunEvent::Balloted { ballot: ballot.clone() });
    (ballot, error)
}

/// The question, and once more after an invalid reply.
async fn converse(
    input: &PanelInput<'_>,
    question: &Question<'_>,
    broken: &Broken,
    usage: &mut Usage,
) -> Result<Reply, Silence> {
    let mut messages = vec![Message::user(&question.message)];
    let mut attempt = 0;
    loop {
        let request = question.request(attempt, messages.clone(), input.max_output_tokens);
        let known = broken.get(&question.model.name).filter(|_| attempt == 0);
        let reply = match known {
            // Which question was the first to find that out hangs on time, so that each is kept.
            Some(error) => question.model.provider.instead(&request, error),
            None => call(input, question, &request).await,
        };
        let reply = reply.map_err(|error| {
            *usage += error.usage();
            Silence::Model(error)
        })?;
        *usage += reply.usage;
        let fault = match valid(&reply, &question.nonce, question.shown) {
            Ok(reply) => return Ok(reply),
            Err(fault) => fault,
        };
        attempt += 1;
        if attempt >= question.ballot.len() {
            return Err(Silence::Fault(fault));
        }
        let retry = JudgeRetry {
            fault: fault.message.clone(),
            quoted: fault.quoted.clone(),
            nonce: question.nonce.clone(),
        };
        let Ok(retry) = input.templates.render(&retry, input.fencer) else {
            return Err(Silence::Fault(fault));
        };
        messages.push(Message { role: Role::Assistant, blocks: reply.blocks });
        messages.push(Message::user(retry.text));
    }
}

async fn call(
    input: &PanelInput<'_>,
    question: &Question<'_>,
    request: &ModelRequest,
) -> Result<ModelReply, ProviderError> {
    if input.cancel.is_cancelled() {
        // Kept, so that a replay hears the same.
        let error = ProviderError::new(ErrorClass::Cancelled, "the panel was stopped");
        return question.model.provider.instead(request, error);
    }
    let mut sink = |_| {};
    let call = question.model.provider.call(request, &mut sink, input.cancel);
    match input.ballot_time {
        None => call.await,
        Some(time) => tokio::time::timeout(time, call).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} s", time.as_secs());
            Err(ProviderError::new(ErrorClass::Timeout, message))
        }),
    }
}

pub(super) fn valid(
    reply: &ModelReply,
    nonce: &str,
    shown: [&Finalist; 2],
) -> Result<Reply, Fault> {
    match reply.stop {
        ReplyStop::MaxTokens => Err(Fault::new("it was cut off before its end; be brief.")),
        ReplyStop::Refusal => Err(Fault::new("it is a refusal.")),
        _ => reply::read(&reply.text(), nonce, shown),
    }
}

impl Question<'_> {
    fn ballot(&self, reply: Reply, usage: Usage) -> Ballot {
        let left_first = self.order == Order::Forward;
        let choice = match (reply.choice, left_first) {
            (ShownChoice::Tie, _) => Choice::Tie,
            (ShownChoice::First, true) | (ShownChoice::Second, false) => Choice::Left,
            (ShownChoice::Second, true) | (ShownChoice::First, false) => Choice::Right,
        };
        let [first, second] = self.shown;
        let vetoed = |shown: &Shown| match shown {
            Shown::First => first.id.clone(),
            Shown::Second => second.id.clone(),
        };
        // A judge without the right to veto is told so; what it writes there is left out.
        let vetoes = reply.vetoes.iter().filter(|_| self.judge.veto.is_some()).map(vetoed);
        Ballot {
            vetoes: vetoes.collect(),
            reason: reply.reason,
            evidence: reply.evidence,
            ..self.empty(choice, usage)
        }
    }

    fn abstains(&self, reason: String, usage: Usage) -> Ballot {
        self.empty(Choice::Abstain { reason }, usage)
    }

    fn empty(&self, choice: Choice, usage: Usage) -> Ballot {
        let [left, right] = self.ids;
        Ballot {
            judge: self.judge.id.clone(),
            model: self.model.name.to_string(),
            origin: self.judge.origin.clone(),
            left: left.clone(),
            right: right.clone(),
            order: self.order,
            choice,
            vetoes: Vec::new(),
            reason: String::new(),
            evidence: Vec::new(),
            duel: self.duel,
            usage,
        }
    }
}
