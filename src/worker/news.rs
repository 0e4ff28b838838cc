//! Telling a worker what there is to tell: at turn boundaries, or when it waits (contracts R6 and S13).
//!
//! That are the ends of its jobs, and the operator's words.

use std::future::pending;

use super::limits::comes;
use super::run::Loop;
use super::steering::Letters;
use super::{Review, texts};
use crate::model::chat::{Block, Message, Role};
use crate::tools::{Jobs, Submission};

impl Loop {
    /// Folds what there is to tell into the conversation. On a resume the worker is told what it was told
    /// before, and nothing else, until the past is over.
    pub(super) fn fold_news(&mut self, waited: bool) {
        let mut told = false;
        while let Some(text) = self.past_message().and_then(news_in).map(str::to_owned) {
            self.told_again(&text);
            told = true;
        }
        // The past ends with a request, which is made again as it was.
        if !told && self.past_message().is_none() && (waited || !self.ends_the_past()) {
            self.tell_news(waited);
        }
    }

    fn told_again(&mut self, text: &str) {
        if let Some(jobs) = &self.input.context.jobs {
            jobs.table.told_in(text);
        }
        if let Some(letters) = self.input.seat.letters() {
            letters.told_in(text);
        }
        self.input.seat.told(text);
        self.history.say(text);
    }

    fn tell_news(&mut self, waited: bool) {
        let jobs = self.input.context.jobs.as_ref();
        let notices = jobs.map(|jobs| jobs.table.take_notices(self.input.context.number));
        if let Some(notices) = notices.filter(|notices| !notices.is_empty()) {
            let text = self.input.voice.news(&notices, waited);
            self.input.seat.told(&text);
            self.history.say(&text);
        }
        // The operator's word comes last: nothing stands between it and the answer.
        let letters = self.input.seat.letters().map(Letters::take).unwrap_or_default();
        for steer in letters {
            self.input.seat.steered(&steer);
            self.history.say(&self.input.voice.steering(&steer));
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

    /// The worker ended its turn. Where the operator has a word for it, or a job of its runs and it waits
    /// for that, it is woken by the news: true when there is some.
    pub(super) async fn woken(&mut self) -> bool {
        match self.past_message() {
            Some(message) if news_in(message).is_none() => return false,
            Some(_) => {}
            None if !self.wait().await => return false,
            None => {}
        }
        let before = self.history.messages().len();
        self.fold_news(true);
        self.history.messages().len() > before
    }

    async fn wait(&self) -> bool {
        let letters = self.input.seat.letters();
        let jobs = self.input.context.jobs.as_ref();
        match (letters, jobs) {
            (Some(letters), _) if letters.waiting() => true,
            (_, Some(jobs)) => self.wait_for(jobs, letters).await,
            (_, None) => false,
        }
    }

    async fn wait_for(&self, jobs: &Jobs, letters: Option<&Letters>) -> bool {
        let number = self.input.context.number;
        if jobs.table.has_live(number) {
            self.tell("waiting for a background job".to_owned(), self.turns);
        }
        let word = async {
            match letters {
                Some(letters) => letters.arrived().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            noticed = jobs.table.noticed(number) => noticed,
            () = word => true,
            () = self.input.cancel.cancelled() => false,
            () = comes(self.limits.work_until) => false,
        }
    }

    /// What came next in the conversation that is gone through again, if it is not over.
    pub(super) fn past_message(&self) -> Option<&Message> {
        let said = self.history.messages();
        let next = self.input.past.get(said.len())?;
        self.input.past.starts_with(said).then_some(next)
    }

    /// Whether what was said is all of the past.
    fn ends_the_past(&self) -> bool {
        !self.input.past.is_empty() && self.input.past == self.history.messages()
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
