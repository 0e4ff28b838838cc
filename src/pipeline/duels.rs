//! The judges' word and what comes after it: controls for length, and duels of finalists that are close.
//!
//! A duel's end is a fact that the judges of its pair are told when they vote anew. It throws nobody out,
//! and a test that does not count changes nothing. Never here: how a test is written or run.

use std::collections::BTreeMap;

use super::decide::Judged;
use super::run::Run;
use super::{Close, Heard, Pairing, PipelineError, Survivor};
use crate::journal::Checkpoint;
use crate::judge::{DuelText, duel_fact};
use crate::model::{
    Ballot, CandidateId, Choice, Control, ControlResult, Decision, Duel, DuelResult, Evidence,
    RunEvent, Stage,
};

impl Run<'_> {
    /// Asks the judges; while two finalists are close, lets a test tell them apart, and asks again.
    pub(super) async fn settle(
        &mut self,
        finalists: &mut [Survivor],
    ) -> Result<Judged, PipelineError> {
        let mut judged = self.judge(finalists).await?;
        let most = self.record.plan.judging.duels.as_ref().map_or(0, |duels| duels.most);
        for _ in 0..most {
            let Some(pair) = self.close(finalists, &judged) else { break };
            let Some(duel) = self.duel(pair, finalists).await? else { break };
            for finalist in finalists.iter_mut() {
                finalist.facts.extend(duel_fact(&duel, &finalist.id));
            }
            match duel.result {
                DuelResult::Told { .. } => judged = self.vote_anew(&duel, finalists).await?,
                DuelResult::NotWritten { .. } => break,
                // Nothing new to tell judges; another test may.
                DuelResult::Alike { .. } | DuelResult::Void { .. } => {}
            }
        }
        Ok(judged)
    }

    /// The two that are close, the lower id first; nobody where judges decided or can't be reached.
    fn close(&self, finalists: &[Survivor], judged: &Judged) -> Option<[CandidateId; 2]> {
        let judge = self.phases.judge.as_ref()?;
        if self.phases.duels.is_none() || self.cancelled(Checkpoint::Duel) {
            return None;
        }
        let unheard = match judged {
            Judged::Silent { unreachable: None } => true,
            Judged::Said(decision) if decision.winner().is_none() => false,
            _ => return None,
        };
        let ballots = current(&self.record.ballots);
        let mut pair = match judge.close(finalists, &ballots, &self.record.controls) {
            Some(Close::Two(pair)) if !unheard => pair,
            Some(Close::Unheard | Close::Two(_)) => self.likeliest(finalists)?,
            None => return None,
        };
        pair.sort();
        Some(pair)
    }

    /// The two with the highest scores, where no voice counts.
    fn likeliest(&self, finalists: &[Survivor]) -> Option<[CandidateId; 2]> {
        let score = |id: &CandidateId| self.row(id).and_then(|row| row.score).unwrap_or(0.0);
        let mut ids: Vec<&CandidateId> = finalists.iter().map(|one| &one.id).collect();
        ids.sort_by(|a, b| score(b).total_cmp(&score(a)).then_with(|| a.cmp(b)));
        match ids.as_slice() {
            [first, second, ..] => Some([(*first).clone(), (*second).clone()]),
            _ => None,
        }
    }

    async fn duel(
        &mut self,
        pair: [CandidateId; 2],
        finalists: &[Survivor],
    ) -> Result<Option<Duel>, PipelineError> {
        let Some(duels) = &self.phases.duels else { return Ok(None) };
        self.begin_stage(Stage::Duel, None)?;
        let number = self.record.duels.len() as u32 + 1;
        let of = Pairing { number, pair, finalists, before: &self.record.duels };
        let duel = duels.fight(of).await?;
        self.count("duels", duel.usage);
        self.tell.send(RunEvent::Dueled { duel: Box::new(duel.clone()) });
        self.record.duels.push(duel.clone());
        self.tell.check()?;
        Ok(Some(duel))
    }

    /// The judges of a pair vote anew, now that they know how a test ended.
    async fn vote_anew(
        &mut self,
        duel: &Duel,
        finalists: &[Survivor],
    ) -> Result<Judged, PipelineError> {
        let Some(judge) = &self.phases.judge else { return Ok(Judged::NotAsked) };
        let pair: Vec<Survivor> =
            finalists.iter().filter(|one| duel.pair.contains(&one.id)).cloned().collect();
        let test = match &duel.test {
            Some(id) => String::from_utf8_lossy(&self.dir.artifacts().get(id)?).into_owned(),
            None => String::new(),
        };
        let texts = [DuelText { number: duel.number, test }];
        self.begin_stage(Stage::Judge, None)?;
        let heard = judge.panel(&pair, &texts).await?;
        self.heard(heard, finalists).await
    }

    /// Asks the judges about every pair.
    pub(super) async fn judge(&mut self, finalists: &[Survivor]) -> Result<Judged, PipelineError> {
        let Some(judge) = &self.phases.judge else { return Ok(Judged::NotAsked) };
        if finalists.len() < 2 || self.cancelled(Checkpoint::Judge) {
            return Ok(Judged::NotAsked);
        }
        self.begin_stage(Stage::Judge, None)?;
        let heard = judge.panel(finalists, &[]).await?;
        self.heard(heard, finalists).await
    }

    /// Takes ballots into the record and says what all that count come to.
    async fn heard(
        &mut self,
        heard: Heard,
        finalists: &[Survivor],
    ) -> Result<Judged, PipelineError> {
        let Heard { ballots, unreachable } = heard;
        let is_word = |ballot: &Ballot| !matches!(ballot.choice, Choice::Abstain { .. });
        let new = ballots.iter().any(is_word);
        let why = ballots.iter().find_map(|ballot| match &ballot.choice {
            Choice::Abstain { reason } => Some(reason.clone()),
            _ => None,
        });
        self.record.ballots.extend(ballots);
        if !new {
            let why = why.unwrap_or_else(|| "no ballot was given".to_owned());
            let text = format!("no judge gave a valid ballot, so that only evidence counts: {why}");
            self.warn("judges-abstained", text);
        }
        let current = current(&self.record.ballots);
        let judged = match current.iter().any(is_word) {
            true => Judged::Said(self.verdict(finalists, &current).await?),
            false => Judged::Silent { unreachable },
        };
        self.tell.check()?;
        Ok(judged)
    }

    /// The count; where it has a winner, again without judges that length sways.
    async fn verdict(
        &mut self,
        finalists: &[Survivor],
        ballots: &[Ballot],
    ) -> Result<Decision, PipelineError> {
        let Some(judge) = &self.phases.judge else {
            return Err(PipelineError::Internal("ballots without judges".to_owned()));
        };
        // Without some judges another one may win, by voices that were not tried yet. Nobody is asked twice,
        // so that this ends.
        loop {
            let count = judge.tally(finalists, ballots, &self.record.controls);
            let tries = |_: &&CandidateId| !self.cancelled(Checkpoint::Control);
            let Some(winner) = count.winner().filter(tries) else {
                return Ok(count);
            };
            let asked = judge.control(finalists, ballots, winner, &self.record.controls).await?;
            if asked.is_empty() {
                return Ok(count);
            }
            self.take_controls(asked);
        }
    }

    fn take_controls(&mut self, asked: Vec<Control>) {
        let void: Vec<String> = asked.iter().filter_map(void_in_words).collect();
        for control in &asked {
            self.count("judges", control.usage);
        }
        self.record.controls.extend(asked);
        if !void.is_empty() {
            let text = format!("the word of some judges does not count: {}", void.join("; "));
            self.warn("judges-swayed-by-length", text);
        }
    }

    /// What counting duels say, for the decision's evidence.
    pub(super) fn duel_evidence(&self) -> Vec<Evidence> {
        let told = self.record.duels.iter().flat_map(|duel| {
            let line = |candidate: &CandidateId| {
                let text = duel_fact(duel, candidate)?;
                Some(Evidence { candidate: candidate.clone(), text, score: None })
            };
            duel.pair.iter().filter_map(line).collect::<Vec<_>>()
        });
        told.collect()
    }
}

fn void_in_words(control: &Control) -> Option<String> {
    let Control { judge, model, on, result, .. } = control;
    match result {
        ControlResult::Cleared => None,
        ControlResult::Padded => Some(format!(
            "{judge} by {model} preferred a copy of {on} to which the engine had added lines that do nothing"
        )),
        ControlResult::Silent { reason } => Some(format!(
            "{judge} by {model} took the longer change each time and could not be cleared: {reason}"
        )),
    }
}

/// The ballots that count: where a pair was voted on anew, the last ones on it.
pub(super) fn current(ballots: &[Ballot]) -> Vec<Ballot> {
    let mut last: BTreeMap<(&CandidateId, &CandidateId), Option<u32>> = BTreeMap::new();
    for ballot in ballots {
        let known = last.entry((&ballot.left, &ballot.right)).or_default();
        *known = (*known).max(ballot.duel);
    }
    let counts = |ballot: &&Ballot| {
        last.get(&(&ballot.left, &ballot.right)).is_none_or(|duel| *duel == ballot.duel)
    };
    ballots.iter().filter(counts).cloned().collect()
}
