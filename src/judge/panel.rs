//! The panel: which judge is asked what, in which order, by which model.
//!
//! Lives here: every pair of finalists in both orders before every judge, bounded in parallel and
//! cancellable; one more question after an invalid reply. Never here: counting; a model's error is an
//! abstention told in its ballot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::definition::{Judge, LooksAt};
use super::facts::{Finalist, view};
use super::reply::{self, Fault, Reply, Shown, ShownChoice};
use super::steering::steering;
use crate::fence::Fencer;
use crate::model::chat::{Message, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice};
use crate::model::{Ballot, CandidateId, Choice, EventSink, ModelRef, Order, RunEvent, Usage};
use crate::prompt::{JudgeRetry, JudgeSystem, JudgeTask, PromptError, Templates};
use crate::provider::{ErrorClass, Provider, ProviderError};

/// A model that answers for judges.
#[derive(Clone)]
pub struct JudgeModel {
    /// Its name.
    pub name: ModelRef,
    /// How it is reached: with retry, budget and journal around it already.
    pub provider: Arc<dyn Provider>,
}

/// What a panel needs.
pub struct PanelInput<'a> {
    /// The operator's task, if there is one.
    pub task: Option<&'a str>,
    /// The finalists, at least two. Equal trees are one finalist.
    pub finalists: &'a [Finalist],
    /// The judges.
    pub judges: &'a [Judge],
    /// Their models, used in turn; at least one.
    pub models: &'a [JudgeModel],
    /// The prompts.
    pub templates: &'a Templates,
    /// The run's fencer; nonces come from it too.
    pub fencer: &'a Fencer,
    /// How many questions may be open at once.
    pub max_parallel: usize,
    /// The largest reply, in tokens.
    pub max_output_tokens: u32,
    /// The longest time of one ballot; `None` leaves it to the provider's own deadlines.
    pub ballot_time: Option<Duration>,
    /// Who listens.
    pub events: &'a EventSink,
    /// Ends the panel: what was not asked yet abstains.
    pub cancel: &'a CancellationToken,
}

/// What a panel gave.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// A ballot for every question, in the order of pairs, judges and orders.
    pub ballots: Vec<Ballot>,
    /// The errors of models, one for each ballot that abstained for one.
    pub errors: Vec<ProviderError>,
    /// Finalists whose text speaks to their judges, for the tally's rules.
    pub steering: BTreeSet<CandidateId>,
}

impl Panel {
    /// The first model error, when no ballot at all could be got because of such errors.
    pub fn unreachable(&self) -> Option<&ProviderError> {
        let lost = !self.ballots.is_empty() && self.errors.len() == self.ballots.len();
        self.errors.first().filter(|_| lost)
    }

    /// What the panel used.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.ballots.iter().for_each(|ballot| usage += ballot.usage);
        usage
    }
}

/// Asks every judge about every pair in both orders.
///
/// # Errors
/// A [`PromptError`] when a judge's template can't be rendered: a mistake of the configuration, found
/// before any model is asked.
pub async fn panel(input: &PanelInput<'_>) -> Result<Panel, PromptError> {
    let steering = steering(input.task, input.finalists);
    let seats = seats(input);
    let system = input.templates.render(&JudgeSystem, input.fencer)?.text;
    let questions: Vec<Question> = seats
        .iter()
        .map(|seat| Question::new(input, seat, &system, &steering))
        .collect::<Result<_, _>>()?;
    let broken = Broken::default();
    // Boxed one by one: the compiler can't show that a lazy map over borrowed questions is `Send`.
    let mut asked = Vec::with_capacity(questions.len());
    for question in questions {
        asked.push(ask(input, question, &broken).boxed());
    }
    let answers: Vec<(Ballot, Option<ProviderError>)> =
        stream::iter(asked).buffered(input.max_parallel.max(1)).collect().await;
    let mut panel = Panel { steering: steering.clone(), ..Panel::default() };
    for (ballot, error) in answers {
        panel.ballots.push(ballot);
        panel.errors.extend(error);
    }
    Ok(panel)
}

/// One judge, one pair, one order, one model.
struct Seat<'a> {
    judge: &'a Judge,
    model: &'a JudgeModel,
    left: &'a Finalist,
    right: &'a Finalist,
    order: Order,
}

impl<'a> Seat<'a> {
    fn shown(&self) -> [&'a Finalist; 2] {
        match self.order {
            Order::Forward => [self.left, self.right],
            Order::Reverse => [self.right, self.left],
        }
    }

    fn id(&self, attempt: u32) -> String {
        let order = match self.order {
            Order::Forward => "forward",
            Order::Reverse => "reverse",
        };
        format!("{}:{}:{order}:{attempt}", self.left.id, self.right.id)
    }
}

/// Both orders of a pair go to the same model. With one judge and several models, two of them answer
/// for it, so that no single voice decides.
fn seats<'a>(input: &PanelInput<'a>) -> Vec<Seat<'a>> {
    let mut finalists: Vec<&Finalist> = input.finalists.iter().collect();
    finalists.sort_by(|a, b| a.id.cmp(&b.id));
    finalists.dedup_by(|a, b| a.id == b.id);
    let pairs = finalists.iter().enumerate().flat_map(|(index, left)| {
        finalists.iter().skip(index + 1).map(move |right| (*left, *right))
    });
    let voices = if input.judges.len() == 1 { input.models.len().min(2) } else { 1 };
    let mut seats = Vec::new();
    for (pair, (left, right)) in pairs.enumerate() {
        for (place, judge) in input.judges.iter().enumerate() {
            for voice in 0..voices {
                let turn = (pair + place + voice) % input.models.len().max(1);
                let Some(model) = input.models.get(turn) else { continue };
                for order in [Order::Forward, Order::Reverse] {
                    seats.push(Seat { judge, model, left, right, order });
                }
            }
        }
    }
    seats
}

/// A question, ready to be asked.
struct Question<'a> {
    judge: &'a Judge,
    model: &'a JudgeModel,
    ids: [&'a CandidateId; 2],
    shown: [&'a Finalist; 2],
    order: Order,
    ballot: [String; 2],
    nonce: String,
    system: String,
    message: String,
}

/// The fact on a candidate whose text speaks to its judges.
const SPEAKS: &str =
    "a text of it speaks to its judges; that has no weight, and does not belong in a change";

impl<'a> Question<'a> {
    fn new(
        input: &PanelInput<'a>,
        seat: &Seat<'a>,
        system: &str,
        steering: &BTreeSet<CandidateId>,
    ) -> Result<Self, PromptError> {
        let judge = seat.judge;
        let shown = seat.shown();
        let ballot = [seat.id(0), seat.id(1)];
        let purpose = format!("{}:{}:{}", judge.id, seat.model.name, ballot[0]);
        let nonce = input.fencer.nonce(&purpose);
        let see = |finalist: &Finalist, name: &str| {
            let mut view = view(finalist, name, Some(judge));
            if steering.contains(&finalist.id) {
                view.facts.push(SPEAKS.to_owned());
            }
            view
        };
        let [first, second] = shown;
        let task = JudgeTask {
            template: judge.template.clone(),
            title: judge.title.clone(),
            criteria: judge.criteria.clone(),
            scale: judge.scale.clone(),
            veto: judge.veto.clone(),
            task: input.task.filter(|_| judge.looks_at(LooksAt::Task)).map(str::to_owned),
            candidates: [see(first, "FIRST"), see(second, "SECOND")],
            nonce: nonce.clone(),
        };
        Ok(Self {
            judge,
            model: seat.model,
            ids: [&seat.left.id, &seat.right.id],
            shown,
            order: seat.order,
            ballot,
            nonce,
            system: system.to_owned(),
            message: input.templates.render(&task, input.fencer)?.text,
        })
    }

    fn request(
        &self,
        attempt: usize,
        messages: Vec<Message>,
        max_output_tokens: u32,
    ) -> ModelRequest {
        ModelRequest {
            model: self.model.name.model.clone(),
            system: self.system.clone(),
            tools: Arc::from([]),
            messages,
            tool_choice: ToolChoice::Forbidden,
            max_output_tokens,
            temperature: None,
            seed: None,
            purpose: Purpose::Judge {
                judge: self.judge.id.to_string(),
                ballot: self.ballot[attempt.min(1)].clone(),
            },
        }
    }
}

/// Models that answered with an error that asking again can't mend: they are not asked again.
#[derive(Default)]
struct Broken(Mutex<BTreeMap<ModelRef, ProviderError>>);

impl Broken {
    fn get(&self, model: &ModelRef) -> Option<ProviderError> {
        self.0.lock().ok()?.get(model).cloned()
    }

    fn note(&self, model: &ModelRef, error: &ProviderError) {
        use ErrorClass::{Auth, Budget, Payment, UnknownModel};
        if matches!(error.class, Auth | Payment | UnknownModel | Budget)
            && let Ok(mut broken) = self.0.lock()
        {
            broken.insert(model.clone(), error.clone());
        }
    }
}

/// Why there is no valid reply.
enum Silence {
    Model(ProviderError),
    Fault(Fault),
}

async fn ask(
    input: &PanelInput<'_>,
    question: Question<'_>,
    broken: &Broken,
) -> (Ballot, Option<ProviderError>) {
    let mut usage = Usage::default();
    let said = match broken.get(&question.model.name) {
        Some(error) => Err(Silence::Model(error)),
        None => converse(input, &question, &mut usage).await,
    };
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
    usage: &mut Usage,
) -> Result<Reply, Silence> {
    let mut messages = vec![Message::user(&question.message)];
    let mut attempt = 0;
    loop {
        let request = question.request(attempt, messages.clone(), input.max_output_tokens);
        let reply = call(input, question, &request).await.map_err(Silence::Model)?;
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
        return Err(ProviderError::new(ErrorClass::Cancelled, "the panel was stopped"));
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

fn valid(reply: &ModelReply, nonce: &str, shown: [&Finalist; 2]) -> Result<Reply, Fault> {
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
            usage,
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A finalist with nothing but an id and a diff.
    pub(in crate::judge) fn finalist(id: &str, diff: &str) -> Finalist {
        Finalist {
            id: CandidateId::new(id),
            diff: diff.to_owned(),
            answer: String::new(),
            claims: Vec::new(),
            files: Vec::new(),
            flags: Vec::new(),
            gates: Vec::new(),
            partial: false,
            facts: Vec::new(),
        }
    }
}
