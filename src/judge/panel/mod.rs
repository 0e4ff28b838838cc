//! The panel: which judge is asked what, in which order, by which model.
//!
//! Lives here: every pair of finalists in both orders before every judge, bounded in parallel and
//! cancellable; one more question after an invalid reply. Never here: counting; a model's error is an
//! abstention told in its ballot.

mod ask;
mod question;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

use super::definition::Judge;
use super::duel::DuelText;
use super::facts::Finalist;
use super::steering::steering;
use super::tally::Voter;
use crate::fence::Fencer;
use crate::model::{Ballot, CandidateId, EventSink, ModelRef, Order, Usage};
use crate::prompt::{JudgeSystem, PromptError, Templates};
use crate::provider::{Provider, ProviderError};
use ask::{Broken, ask};
use question::{Question, Seat, seats};

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
    /// Duels' tests that judges are to see.
    pub duels: &'a [DuelText],
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
    let mut panel = Panel::default();
    for (ballot, error) in hear(input, &seats(input), &steering).await? {
        panel.ballots.push(ballot);
        panel.errors.extend(error);
    }
    Ok(Panel { steering, ..panel })
}

/// Asks some voters about one pair in one order; in the voters' order. Nobody is told of it.
///
/// # Errors
/// A [`PromptError`] when a judge's template can't be rendered.
pub(super) async fn compare(
    input: &PanelInput<'_>,
    pair: [&Finalist; 2],
    order: Order,
    voters: &BTreeSet<Voter>,
) -> Result<Vec<Ballot>, PromptError> {
    let steering = steering(input.task, input.finalists);
    let silence = EventSink::none();
    let input = PanelInput { events: &silence, ..*input };
    let seat = |(id, model): &Voter| {
        let judge = input.judges.iter().find(|judge| judge.id == *id)?;
        let model = input.models.iter().find(|one| one.name.to_string() == *model)?;
        Some(Seat { judge, model, left: pair[0], right: pair[1], order })
    };
    let seats: Vec<Seat<'_>> = voters.iter().filter_map(seat).collect();
    let heard = hear(&input, &seats, &steering).await?;
    Ok(heard.into_iter().map(|(ballot, _)| ballot).collect())
}

type Heard = Vec<(Ballot, Option<ProviderError>)>;

async fn hear(
    input: &PanelInput<'_>,
    seats: &[Seat<'_>],
    steering: &BTreeSet<CandidateId>,
) -> Result<Heard, PromptError> {
    let system = input.templates.render(&JudgeSystem, input.fencer)?.text;
    let questions: Vec<Question> = seats
        .iter()
        .map(|seat| Question::new(input, seat, &system, steering))
        .collect::<Result<_, _>>()?;
    let broken = Broken::default();
    // Boxed one by one: the compiler can't show that a lazy map over borrowed questions is `Send`.
    let mut asked = Vec::with_capacity(questions.len());
    for question in questions {
        asked.push(ask(input, question, &broken).boxed());
    }
    Ok(stream::iter(asked).buffered(input.max_parallel.max(1)).collect().await)
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
            refuted: Vec::new(),
        }
    }
}
