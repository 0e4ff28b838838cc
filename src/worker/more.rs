//! More tool rounds for nested workers (contract R26).
//!
//! A nested worker that its own cap alone keeps from going on asks for more where somebody can answer: who is attached
//! to its lane with a terminal, or sits at the run's own. The answer is in the journal before it is used, so that a
//! run that goes on asks nothing twice. Where nobody can answer, or nobody does in time, it is no. Never here: sockets,
//! screens.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::comes;
use super::run::Loop;
use super::texts;
use crate::model::chat::{Block, Message};
use crate::model::{Extension, LaneId, Sender};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most rounds that one answer grants: more is a slip of the finger.
const MOST: u32 = 1000;

/// Keeps an answer in the journal; tells why it can't.
pub type KeepExtension = Arc<dyn Fn(&Extension) -> Result<(), String> + Send + Sync>;

/// What nested workers of a run were granted. Clones share it.
#[derive(Clone, Default)]
pub struct Extensions(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    keep: Option<KeepExtension>,
    known: Vec<Extension>,
    /// Whether somebody sits at the run's own terminal.
    watched: bool,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.lock().known).finish()
    }
}

impl Extensions {
    /// Those of a run that is looked at on a terminal where somebody can answer, or of one that is not.
    pub fn watched(watched: bool) -> Self {
        let extensions = Self::default();
        extensions.lock().watched = watched;
        extensions
    }

    /// From now on answers are kept. `past` is what the journal holds of an earlier engine.
    pub fn open(&self, past: Vec<Extension>, keep: KeepExtension) {
        let mut state = self.lock();
        (state.known, state.keep) = (past, Some(keep));
    }

    /// Every answer so far.
    pub fn all(&self) -> Vec<Extension> {
        self.lock().known.clone()
    }

    fn known(&self, lane: &LaneId, rounds: u32) -> Option<Extension> {
        let state = self.lock();
        let found = state.known.iter().find(|known| known.lane == *lane && known.rounds == rounds);
        found.cloned()
    }

    /// Keeps an answer; gives what it grants: nothing where it can't be kept, which ends the run by itself.
    fn keep(&self, extension: Extension) -> u32 {
        let mut state = self.lock();
        if state.keep.as_ref().is_some_and(|keep| keep(&extension).is_err()) {
            return 0;
        }
        let granted = extension.granted;
        state.known.push(extension);
        granted
    }

    /// Nothing here is changed in two steps: a panic of another leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The questions of one lane's nested workers: one at a time, as they work one after the other. Clones share them.
#[derive(Clone)]
pub struct Questions(Arc<Lane>);

struct Lane {
    extensions: Extensions,
    open: Mutex<Option<Question>>,
    /// Whether there ever was one.
    asked: AtomicBool,
    /// Terminals that are attached.
    attended: AtomicU32,
    /// Woken when there is an answer, or somebody left.
    changed: Notify,
}

struct Question {
    lane: LaneId,
    rounds: u32,
    /// What a yes grants.
    usual: u32,
    answer: Option<(u32, Sender)>,
}

/// Takes the question back, also when nobody waits for its answer any more.
struct Asked<'q>(&'q Questions);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Questions {
    /// Those of a lane of the run that these extensions are of.
    pub fn new(extensions: Extensions) -> Self {
        let (open, asked, attended) = Default::default();
        Self(Arc::new(Lane { extensions, open, asked, attended, changed: Notify::new() }))
    }

    /// A terminal is attached to the lane from now on, or is no more.
    pub(super) fn attend(&self, is_there: bool) {
        match is_there {
            true => self.0.attended.fetch_add(1, Ordering::SeqCst),
            false => self.0.attended.fetch_sub(1, Ordering::SeqCst),
        };
        self.0.changed.notify_waiters();
    }

    /// The question that waits for an answer, if one does.
    pub(super) fn prompt(&self) -> Option<String> {
        let open = self.lock();
        let waits = open.as_ref().filter(|question| question.answer.is_none());
        waits.map(|Question { lane, rounds, usual, .. }| {
            format!("more rounds for {lane} after {rounds}? (y = {usual}, n, a number)")
        })
    }

    /// Takes a line as the answer; false when it is none.
    ///
    /// # Errors
    /// In words, when it is meant as one and can't be it: no worker is to read that as an instruction.
    pub(super) fn answer(&self, line: &str, from: &Sender) -> Result<bool, String> {
        let mut open = self.lock();
        let waits = open.as_mut().filter(|question| question.answer.is_none());
        let usual = waits.as_ref().map(|question| question.usual);
        let granted = match granted(line, usual.unwrap_or_default()) {
            None => return Ok(false),
            Some(_) if !self.0.asked.load(Ordering::SeqCst) => return Ok(false),
            Some(granted) => granted,
        };
        let Some(question) = waits else {
            return Err(format!(
                "{:?} answers nothing: no question is open any more; to say it to the worker use `bakeoff steer`",
                line.trim()
            ));
        };
        let granted = granted.ok_or(format!("give a number from 0 to {MOST}, y or n"))?;
        question.answer = Some((granted, from.clone()));
        drop(open);
        self.0.changed.notify_waiters();
        Ok(true)
    }

    fn is_answerable(&self) -> bool {
        self.0.attended.load(Ordering::SeqCst) > 0 || self.0.extensions.lock().watched
    }

    /// Asks, and waits for the answer; gives the rounds that are granted.
    async fn ask(&self, lane: &LaneId, rounds: u32, usual: u32) -> u32 {
        let (lane, answer) = (lane.clone(), None);
        self.0.asked.store(true, Ordering::SeqCst);
        *self.lock() = Some(Question { lane: lane.clone(), rounds, usual, answer });
        let asked = Asked(self);
        let answered = tokio::time::timeout(PATIENCE, self.answered()).await;
        drop(asked);
        let (granted, from) = match answered.ok().flatten() {
            Some((granted, from)) => (granted, Some(from)),
            None => (0, None),
        };
        self.0.extensions.keep(Extension { lane, rounds, granted, from })
    }

    /// The answer; `None` once nobody is there to give one.
    async fn answered(&self) -> Option<(u32, Sender)> {
        loop {
            let woken = self.0.changed.notified();
            let answer = self.lock().as_ref().and_then(|question| question.answer.clone());
            if answer.is_some() || !self.is_answerable() {
                return answer;
            }
            woken.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Question>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a line grants, if it is an answer; of a number that can't be granted nothing.
fn granted(line: &str, usual: u32) -> Option<Option<u32>> {
    let line = line.trim().to_ascii_lowercase();
    let number = line.strip_prefix(['-', '+']).unwrap_or(&line);
    match line.as_str() {
        "y" | "yes" => Some(Some(usual)),
        "n" | "no" => Some(Some(0)),
        _ if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) => None,
        line => Some(line.parse().ok().filter(|granted| *granted <= MOST)),
    }
}

/// Why a worker has no more rounds than its cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denied {
    /// Nothing was asked: something else would have stopped it as well.
    #[default]
    NotAsked,
    /// Nobody was there to answer.
    Nobody,
    /// The answer was no, or there was none.
    Refused,
}

impl Loop {
    /// Whether it goes on after all: a nested worker that its own cap alone stops asks for more rounds, and is told
    /// how many it got.
    pub(super) async fn goes_on(&mut self) -> bool {
        if !self.capped_alone() {
            return false;
        }
        let Some(questions) = self.input.seat.questions().cloned() else {
            self.denied = Denied::Nobody;
            return false;
        };
        let rounds = self.spent.rounds;
        let granted = match questions.0.extensions.known(&self.input.lane, rounds) {
            Some(known) => known.granted,
            // It was cut off here before: the answer was no without a question.
            None if self.past_message().is_some_and(summarizes) || !questions.is_answerable() => {
                self.denied = Denied::Nobody;
                return false;
            }
            None => self.ask_for_more(&questions, rounds).await,
        };
        if granted == 0 {
            self.denied = Denied::Refused;
            return false;
        }
        self.limits.extend(granted);
        let text = texts::granted(granted);
        self.input.seat.told(&text);
        self.history.say(&text);
        true
    }

    /// Whether nothing but its own cap of rounds keeps it from going on.
    fn capped_alone(&self) -> bool {
        let now = Instant::now();
        !self.input.cancel.is_cancelled()
            && !self.input.turns.are_used_up()
            && self.limits.are_rounds_alone(&self.spent, now)
    }

    /// Asks as long as it may work.
    async fn ask_for_more(&self, questions: &Questions, rounds: u32) -> u32 {
        let parent = self.input.lane.worker_run();
        let way = format!("asks for more tool rounds; `bakeoff attach {parent}` answers");
        self.tell(way, self.turns);
        let usual = self.input.limits.max_tool_iterations;
        tokio::select! {
            biased;
            () = self.input.cancel.cancelled() => 0,
            granted = questions.ask(&self.input.lane, rounds, usual) => granted,
            () = comes(self.limits.work_until) => 0,
        }
    }
}

/// Whether a message is the last request to a worker that was cut off.
fn summarizes(message: &Message) -> bool {
    matches!(message.blocks.as_slice(), [Block::Text { text }] if text == texts::SUMMARIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Sender {
        Sender::of_peer(7, Some("ada".to_owned()))
    }

    fn lane() -> LaneId {
        LaneId::of("one", 1).nested(1)
    }

    fn questions(watched: bool) -> (Questions, Extensions) {
        let extensions = Extensions::watched(watched);
        (Questions::new(extensions.clone()), extensions)
    }

    // contract R26 together: the answer
    #[tokio::test]
    async fn a_line_that_is_an_answer_is_one_and_no_other_is() {
        assert_eq!(questions(true).0.answer("y", &ada()), Ok(false), "nothing was asked");
        for (line, granted) in [("y", 5), (" YES ", 5), ("12", 12), ("0", 0), ("n", 0), ("No", 0)] {
            let (lane, (questions, extensions)) = (lane(), questions(true));
            let asked = questions.ask(&lane, 8, 5);
            let answered = async {
                tokio::task::yield_now().await;
                assert_eq!(
                    questions.prompt().unwrap(),
                    "more rounds for one/1+1 after 8? (y = 5, n, a number)"
                );
                for other in ["yes please", "", "-", "1e3", "use tabs"] {
                    assert_eq!(questions.answer(other, &ada()), Ok(false), "{other:?}");
                }
                for number in ["-1", "1001", "99999999999999999999"] {
                    let refused = questions.answer(number, &ada()).unwrap_err();
                    assert_eq!(refused, "give a number from 0 to 1000, y or n", "{number}");
                }
                assert_eq!(questions.answer(line, &ada()), Ok(true), "{line:?}");
                assert_eq!(questions.prompt(), None);
                // The answer of a second one is no instruction to a worker.
                for late in ["3", "y", "no"] {
                    let refused = questions.answer(late, &ada()).unwrap_err();
                    assert!(refused.contains("answers nothing"), "{refused}");
                }
                assert_eq!(questions.answer("use tabs", &ada()), Ok(false));
            };
            assert_eq!(tokio::join!(asked, answered).0, granted, "{line:?}");
            assert_eq!(extensions.known(&lane, 9), None);
            let extension = Extension { lane, rounds: 8, granted, from: Some(ada()) };
            assert_eq!(extensions.known(&extension.lane, 8).as_ref(), Some(&extension));
            assert_eq!(extensions.all(), [extension]);
        }
    }

    // contract R26 together: nobody answers
    #[tokio::test(start_paused = true)]
    async fn without_an_answer_in_time_or_anybody_to_give_one_it_is_no() {
        let (lane, (questions, extensions)) = (lane(), questions(false));
        assert!(!questions.is_answerable());
        questions.attend(true);
        assert!(questions.is_answerable());
        assert_eq!(questions.ask(&lane, 2, 2).await, 0, "in time");
        let asked = questions.ask(&lane, 3, 2);
        let left = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            questions.attend(false);
            Instant::now()
        };
        let begun = Instant::now();
        let (granted, at) = tokio::join!(asked, left);
        assert_eq!((granted, begun.elapsed()), (0, at - begun), "who leaves is not waited for");
        let none = |rounds| Extension { lane: lane.clone(), rounds, granted: 0, from: None };
        assert_eq!(extensions.all(), [none(2), none(3)]);
        assert_eq!(questions.prompt(), None);
    }

    #[tokio::test]
    async fn what_the_journal_refuses_is_not_granted() {
        let (lane, (questions, extensions)) = (lane(), questions(true));
        extensions.open(Vec::new(), Arc::new(|_| Err("disk full".to_owned())));
        let asked = questions.ask(&lane, 2, 2);
        let answered = async {
            tokio::task::yield_now().await;
            assert_eq!(questions.answer("y", &ada()), Ok(true));
        };
        assert_eq!(tokio::join!(asked, answered).0, 0);
        assert!(extensions.all().is_empty());
    }
}
