//! The loop itself: ask, answer the calls, until `submit` or a reason to stop.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::history::{Call, History, result};
use super::limits::{Limits, SUMMARY_TOKENS, Spent, comes};
use super::live::{BEAT, Live};
use super::more::Denied;
use super::{WorkerInput, WorkerOutcome, activity, texts};
use crate::journal::MASK;
use crate::model::chat::{
    self, Block, Delta, ModelReply, ModelRequest, Purpose, ReplyStop, Role, ToolChoice,
};
use crate::model::{Claim, Limit, RunEvent, Stop, clip};
use crate::provider::{ErrorClass, ProviderError};
use crate::tools::Submission;

/// How long a call that was told to stop may take to come back by itself.
const GRACE: Duration = Duration::from_millis(500);

/// How long the last word of a worker without a time limit may take.
const LAST_WORD: Duration = Duration::from_secs(120);

/// The largest answer that is kept, in bytes.
const ANSWER_CAP: usize = 64 * 1024;
/// The same of an answer that it hands in.
const SUBMITTED_CAP: usize = 16 * 1024;
/// And of what it claims of its change, each.
const CLAIM_CAP: usize = 1024;

/// A worker run in progress.
pub struct Loop {
    pub(super) input: WorkerInput,
    pub(super) history: History,
    pub(super) limits: Limits,
    pub(super) spent: Spent,
    pub(super) turns: u32,
    pub(super) denied: Denied,
    nudged: bool,
    last_text: String,
}

impl Loop {
    /// Begins: the clock starts here.
    pub fn new(input: WorkerInput) -> Self {
        let whole = input.limits.max_seconds.map(Duration::from_secs);
        Self::within(input, whole)
    }

    fn within(mut input: WorkerInput, whole: Option<Duration>) -> Self {
        Self {
            history: History::new(std::mem::take(&mut input.task_message)),
            limits: Limits::new(&input.limits, whole, Instant::now()),
            spent: Spent::default(),
            turns: 0,
            denied: Denied::default(),
            nudged: false,
            last_text: String::new(),
            input,
        }
    }

    /// Goes on to the end.
    pub async fn run(mut self) -> WorkerOutcome {
        loop {
            self.spent.no_turns = self.must_stop().is_none() && !self.input.turns.take();
            if let Some(stop) = self.must_stop() {
                if self.goes_on().await {
                    continue;
                }
                return self.cut_off(stop).await;
            }
            self.fold_news(false);
            let max = self.input.limits.max_output_tokens;
            let reply = match self.ask(ToolChoice::Auto, max, self.limits.work_until).await {
                Ok(reply) => reply,
                Err(error) => match self.weigh_error(error) {
                    Some(failed) => return self.end(failed),
                    None => continue,
                },
            };
            let calls = self.history.reply(&reply);
            if calls.is_empty() {
                if self.woken().await {
                    continue;
                }
                if self.must_stop().is_none() && self.gives_up(&reply) {
                    return self.end(Stop::Quit);
                }
                continue;
            }
            if let Some(submission) = self.answer(&reply, calls).await
                && self.stands(&submission).await
            {
                self.last_text = self.kept(&submission.answer, SUBMITTED_CAP);
                let claims = submission.claims.into_iter().map(|claim| self.claim(claim)).collect();
                return self.end_with(Stop::Submitted, claims);
            }
        }
    }

    /// The one place where a worker is told to stop.
    fn must_stop(&self) -> Option<Stop> {
        if self.input.cancel.is_cancelled() {
            return Some(Stop::Cancelled);
        }
        self.limits.reached(&self.spent, Instant::now()).map(|limit| Stop::Limit { limit })
    }

    /// A failed call: a limit or a cancellation is left to [`Self::must_stop`], the rest is the end.
    fn weigh_error(&mut self, error: ProviderError) -> Option<Stop> {
        match error.class {
            ErrorClass::Budget | ErrorClass::ContextOverflow => {
                (self.spent.refused, self.spent.said) = (Some(error.class), Some(error.message));
                None
            }
            _ if self.must_stop().is_some() => None,
            class => Some(Stop::Failed { class: class.name().to_owned(), message: error.message }),
        }
    }

    /// A turn without a call: nudged once, then over. A refusal is not argued with.
    fn gives_up(&mut self, reply: &ModelReply) -> bool {
        if self.nudged || reply.stop == ReplyStop::Refusal {
            return true;
        }
        self.nudged = true;
        let cut = reply.stop == ReplyStop::MaxTokens;
        self.history.say(if cut { texts::NUDGE_CUT } else { texts::NUDGE });
        false
    }

    /// Answers every call of a turn, in order, each under its id.
    async fn answer(&mut self, reply: &ModelReply, calls: Vec<Call>) -> Option<Submission> {
        let last_is_cut = reply.stop == ReplyStop::MaxTokens
            && matches!(reply.blocks.last(), Some(Block::ToolCall { .. }));
        let last = calls.len() - 1;
        let mut round = Round::default();
        for (at, call) in calls.iter().enumerate() {
            let skip = round.skip(last_is_cut && at == last, self.out_of_time());
            match skip {
                Some(why) => round.refuse(call, why),
                None => self.call(call, &mut round).await,
            }
        }
        let submission = self.conclude(round);
        self.spent.usage = self.input.context.bill.total();
        self.spent.rounds += 1;
        self.nudged = false;
        submission
    }

    /// Adds a turn's results to the conversation: those that the model was told before, if it was.
    fn conclude(&mut self, round: Round) -> Option<Submission> {
        let said = self.history.messages();
        let told = self.input.past.get(said.len()).filter(|past| past.role == Role::Tool);
        // What was masked of them is there again, since the tools were called.
        let told = told.filter(|past| !is_masked(past));
        match told.filter(|_| self.input.past.starts_with(said)) {
            Some(past) => self.history.results(past.blocks.clone()),
            None => self.history.results(round.results),
        }
        round.submission
    }

    async fn call(&self, call: &Call, round: &mut Round) {
        self.tell(activity::describe(&call.name, &call.arguments), self.turns);
        self.input.seat.called(call);
        let halt = self.input.cancel.child_token();
        let mut context = self.input.context.clone();
        context.cancel = halt.clone();
        context.until = self.limits.work_until.map(Instant::into_std);
        let called = self.input.toolbox.call(&context, &call.name, &call.arguments);
        match bounded(called, &halt, self.limits.work_until).await {
            None => round.refuse(call, texts::STOPPED),
            Some(output) => match output.submission {
                Some(_) if round.failed => round.refuse(call, texts::SUBMIT_HELD),
                submission => {
                    round.failed |= output.is_error;
                    round.submission = submission;
                    self.input.seat.answered(&output.text, output.is_error);
                    round.results.push(result(call, &output.text, output.is_error));
                }
            },
        }
    }

    /// Whether a tool call would come too late.
    fn out_of_time(&self) -> bool {
        self.input.cancel.is_cancelled()
            || self.limits.work_until.is_some_and(|until| Instant::now() >= until)
    }

    /// One request: always the history so far, never less (contract R28).
    async fn ask(
        &mut self,
        tool_choice: ToolChoice,
        max_output_tokens: u32,
        until: Option<Instant>,
    ) -> Result<ModelReply, ProviderError> {
        let request = self.request(tool_choice, max_output_tokens);
        let turn = self.turns + 1;
        let begun = "thinking".to_owned();
        self.tell(begun.clone(), turn);
        let halt = self.input.cancel.child_token();
        let live = Mutex::new(Live::new(begun, Instant::now()));
        let show = |words: Option<String>| words.into_iter().for_each(|say| self.tell(say, turn));
        let mut sink = |delta: Delta| show(lock(&live).take(delta, Instant::now()));
        let called = self.input.provider.call(&request, &mut sink, &halt);
        let beat = || show(lock(&live).silent(Instant::now()));
        let late = || ProviderError::new(ErrorClass::Cancelled, "the worker was told to stop");
        let reply = beating(bounded(called, &halt, until), beat).await.ok_or_else(late)?;
        let reply = reply.inspect_err(|error| self.input.context.bill.add(error.usage()))?;
        self.turns = turn;
        if let Some(letters) = self.input.seat.letters() {
            letters.heard(turn);
        }
        self.input.seat.replied(turn, &reply);
        self.input.context.bill.add(reply.usage);
        self.spent.usage = self.input.context.bill.total();
        self.spent.last_call = reply.usage.tokens();
        let text = reply.text();
        if !text.trim().is_empty() {
            self.last_text = text;
        }
        Ok(reply)
    }

    fn request(&self, tool_choice: ToolChoice, max_output_tokens: u32) -> ModelRequest {
        ModelRequest {
            model: self.input.model.clone(),
            system: self.input.system.clone(),
            tools: self.input.toolbox.specs(),
            messages: self.history.messages().to_vec(),
            tool_choice,
            max_output_tokens,
            temperature: self.input.temperature,
            seed: self.input.seed,
            purpose: Purpose::Worker { lane: self.input.lane.clone(), turn: self.turns },
        }
    }

    /// The end of a worker that did not finish. What a limit cut off may say a last word, without
    /// tools (contract R27); where that fails, its last text stands.
    async fn cut_off(mut self, stop: Stop) -> WorkerOutcome {
        let may_speak = matches!(&stop, Stop::Limit { limit } if *limit != Limit::Context);
        if may_speak && self.turns > 0 {
            self.history.say(texts::SUMMARIZE);
            let max = SUMMARY_TOKENS.min(self.input.limits.max_output_tokens);
            let until = self.limits.end.unwrap_or_else(|| Instant::now() + LAST_WORD);
            if let Ok(reply) = self.ask(ToolChoice::Forbidden, max, Some(until)).await {
                let calls = self.history.reply(&reply);
                self.refuse_all(&calls);
            }
        }
        self.end(stop)
    }

    /// Calls in a reply that might hold none stay unanswered in no transcript.
    fn refuse_all(&mut self, calls: &[Call]) {
        if !calls.is_empty() {
            let refused = calls.iter().map(|call| result(call, texts::STOPPED, true)).collect();
            self.history.results(refused);
        }
    }

    fn end(self, stop: Stop) -> WorkerOutcome {
        self.end_with(stop, Vec::new())
    }

    fn end_with(mut self, stop: Stop, claims: Vec<Claim>) -> WorkerOutcome {
        self.spent.usage = self.input.context.bill.total();
        let why = match stop {
            Stop::Limit { limit } => Some(self.limits.words(limit, &self.spent)),
            _ => None,
        };
        WorkerOutcome {
            answer: self.kept(&self.last_text, ANSWER_CAP),
            claims,
            stop,
            why,
            turns: self.turns,
            rounds: self.spent.rounds,
            granted: self.limits.beyond(self.input.limits.max_tool_iterations),
            denied: self.denied,
            usage: self.spent.usage,
            transcript: self.history.into_messages(),
        }
    }

    /// As much of its words as is kept. Where they are cut, no part of a secret stays at the cut.
    fn kept(&self, text: &str, most: usize) -> String {
        match text.len() > most {
            true => clip(&self.input.seat.masked(text), most).text,
            false => text.to_owned(),
        }
    }

    fn claim(&self, claim: Claim) -> Claim {
        let kept = |text: String| self.kept(&text, CLAIM_CAP);
        Claim { text: kept(claim.text), path: claim.path.map(kept), line: claim.line }
    }

    pub(super) fn tell(&self, activity: String, turn: u32) {
        self.input.events.send(RunEvent::LaneActivity {
            lane: self.input.lane.clone(),
            turn,
            activity,
            usage: self.spent.usage,
            context: self.spent.last_call,
        });
    }
}

/// Whether something of a turn's results was masked.
fn is_masked(message: &chat::Message) -> bool {
    message.blocks.iter().any(|block| match block {
        Block::ToolResult { content, .. } => content.contains(MASK),
        _ => false,
    })
}

/// The answers to one turn's calls.
#[derive(Default)]
struct Round {
    results: Vec<Block>,
    submission: Option<Submission>,
    failed: bool,
}

impl Round {
    /// Why the next call is not made, if it is not.
    fn skip(&self, cut: bool, late: bool) -> Option<&'static str> {
        match (&self.submission, cut, late) {
            (Some(_), _, _) => Some(texts::AFTER_SUBMIT),
            (_, true, _) => Some(texts::CUT_CALL),
            (_, _, true) => Some(texts::STOPPED),
            _ => None,
        }
    }

    fn refuse(&mut self, call: &Call, why: &str) {
        self.failed = true;
        self.results.push(result(call, why, true));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `work`, and calls `beat` once a second meanwhile.
async fn beating<T>(work: impl Future<Output = T>, beat: impl Fn()) -> T {
    let mut work = std::pin::pin!(work);
    let mut beats = interval_at(Instant::now() + BEAT, BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = beats.tick() => beat(),
        }
    }
}

/// Waits for `work` until `until` or until `halt` is cancelled. Then `halt` tells the work to stop,
/// and it has [`GRACE`] to come back with what it has; `None` when it does not.
async fn bounded<T>(
    work: impl Future<Output = T>,
    halt: &CancellationToken,
    until: Option<Instant>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Some(done),
        () = halt.cancelled() => {}
        () = comes(until) => halt.cancel(),
    }
    tokio::time::timeout(GRACE, work).await.ok()
}

#[cfg(test)]
mod tests;
