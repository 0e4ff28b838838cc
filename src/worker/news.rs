//! Telling a worker of its jobs: at turn boundaries, or when it waits (contracts R6 and S13).

use std::future::pending;

use super::run::Loop;
use super::{Review, texts};
use crate::model::chat::{Block, Message, Role};
use crate::tools::{Jobs, Submission};

impl Loop {
    /// Folds what there is to tell into the conversation. On a resume the worker is told what it was told
    /// before, and nothing else, until the past is over.
    pub(super) fn fold_news(&mut self, waited: bool) {
        let Some(jobs) = self.input.context.jobs.clone() else { return };
        match self.past_message() {
            Some(message) => {
                if let Some(text) = news_in(message) {
                    let text = text.to_owned();
                    jobs.table.told_in(&text);
                    self.history.say(&text);
                }
            }
            None => {
                let notices = jobs.table.take_notices(self.input.context.number);
                if !notices.is_empty() {
                    let text = self.input.voice.news(&notices, waited);
                    self.history.say(&text);
                }
            }
        }
    }

    /// Whether a submission is the end. One that is sent back is answered with what the reviewer says; where
    /// the past goes on behind it, the worker is told what it was told then.
    pub(super) async fn stands(&mut self, submission: &Submission) -> bool {
        let told = self.past_message().map(|message| news_in(message).map(str::to_owned));
        let review = self.input.review.clone();
        let said = match (&review, &told) {
            (None, told) => return told.is_none(),
            (Some(review), _) => self.reviewed(&**review, submission).await,
        };
        match (told, said) {
            (Some(None), _) => false,
            (Some(Some(text)), _) | (None, Some(text)) => {
                self.history.say(&text);
                false
            }
            (None, None) => true,
        }
    }

    /// A review ends with the worker: what is not found to be wrong by then stands.
    async fn reviewed(&self, review: &dyn Review, submission: &Submission) -> Option<String> {
        tokio::select! {
            biased;
            said = review.review(submission) => said,
            () = self.input.cancel.cancelled() => None,
        }
    }

    /// The worker ended its turn. Where a job of its runs it waits for that, and is woken by the news:
    /// true when there is some.
    pub(super) async fn woken(&mut self) -> bool {
        let Some(jobs) = self.input.context.jobs.clone() else { return false };
        match self.past_message() {
            Some(message) if news_in(message).is_none() => return false,
            Some(_) => {}
            None if !self.wait_for(&jobs).await => return false,
            None => {}
        }
        let before = self.history.messages().len();
        self.fold_news(true);
        self.history.messages().len() > before
    }

    async fn wait_for(&self, jobs: &Jobs) -> bool {
        let number = self.input.context.number;
        if jobs.table.has_live(number) {
            self.tell("waiting for a background job".to_owned(), self.turns);
        }
        let deadline = async {
            match self.limits.work_until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            noticed = jobs.table.noticed(number) => noticed,
            () = self.input.cancel.cancelled() => false,
            () = deadline => false,
        }
    }

    /// What came next in the conversation that is gone through again, if it is not over.
    fn past_message(&self) -> Option<&Message> {
        let said = self.history.messages();
        let next = self.input.past.get(said.len())?;
        self.input.past.starts_with(said).then_some(next)
    }
}

/// The news in a message: what the engine says as a user and the loop does not say by itself.
fn news_in(message: &Message) -> Option<&str> {
    let own = [texts::NUDGE, texts::NUDGE_CUT, texts::SUMMARIZE];
    match (message.role, message.blocks.as_slice()) {
        (Role::User, [Block::Text { text }]) if !own.contains(&text.as_str()) => Some(text),
        _ => None,
    }
}
