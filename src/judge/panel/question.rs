//! Questions: which judge is shown which pair in which order, and which model answers.
//!
//! Never here: replies.

use std::collections::BTreeSet;

use super::{JudgeModel, PanelInput};
use crate::judge::definition::{Judge, LooksAt};
use crate::judge::duel::duel_views;
use crate::judge::facts::{Finalist, view};
use crate::model::chat::{Message, ModelRequest, Purpose};
use crate::model::{CandidateId, Order};
use crate::prompt::{JudgeTask, PromptError};

/// One judge, one pair, one order, one model.
pub(super) struct Seat<'a> {
    pub(super) judge: &'a Judge,
    pub(super) model: &'a JudgeModel,
    pub(super) left: &'a Finalist,
    pub(super) right: &'a Finalist,
    pub(super) order: Order,
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
pub(super) fn seats<'a>(input: &PanelInput<'a>) -> Vec<Seat<'a>> {
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
pub(super) struct Question<'a> {
    pub(super) judge: &'a Judge,
    pub(super) model: &'a JudgeModel,
    pub(super) ids: [&'a CandidateId; 2],
    pub(super) shown: [&'a Finalist; 2],
    pub(super) order: Order,
    /// The duel that its judge is told of.
    pub(super) duel: Option<u32>,
    pub(super) ballot: [String; 2],
    pub(super) nonce: String,
    pub(super) system: String,
    pub(super) message: String,
}

/// The fact on a candidate whose text speaks to its judges.
const SPEAKS: &str =
    "a text of it speaks to its judges; that has no weight, and does not belong in a change";

impl<'a> Question<'a> {
    pub(super) fn new(
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
            duels: duel_views(input.duels),
            nonce: nonce.clone(),
        };
        Ok(Self {
            judge,
            model: seat.model,
            ids: [&seat.left.id, &seat.right.id],
            shown,
            order: seat.order,
            duel: input.duels.last().map(|duel| duel.number),
            ballot,
            nonce,
            system: system.to_owned(),
            message: input.templates.render(&task, input.fencer)?.text,
        })
    }

    pub(super) fn request(
        &self,
        attempt: usize,
        messages: Vec<Message>,
        max_output_tokens: u32,
    ) -> ModelRequest {
        ModelRequest::question(
            &self.model.name.model,
            self.system.clone(),
            messages,
            max_output_tokens,
            Purpose::Judge {
                judge: self.judge.id.to_string(),
                ballot: self.ballot[attempt.min(1)].clone(),
            },
        )
    }
}
