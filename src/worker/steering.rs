//! The operator's words to workers under way (contracts C26 and C32).
//!
//! A text is kept in the journal before it is used. It is told at the worker's next turn boundary, under a
//! label that names who sent it, and counts as told once the model answered a request with it; what a
//! worker never read is missed. Who may write here is a matter of access, not of words: the control socket alone makes a
//! [`Sender`]. Never here: sockets, the label's words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{Fate, LaneId, Sender, Steer};

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 16 << 10;

/// Keeps a text in the journal, with what became of it; tells why it can't.
pub type Keep = Arc<dyn Fn(&Steer) -> Result<(), String> + Send + Sync>;

/// Why a text was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    /// There are no workers to speak to yet, or there will be none.
    #[error(
        "no worker of the run has begun; try again once `bakeoff probe` shows the stage workers"
    )]
    NotOpen,
    /// All workers have ended.
    #[error("the run's workers have ended, so that nobody reads it any more")]
    Closed,
    /// This one has ended.
    #[error("{lane} has ended, so that nobody reads it any more")]
    Over {
        /// It.
        lane: LaneId,
    },
    /// There is no such lane.
    #[error("no lane is called {asked:?}; there are {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// The lanes.
        known: String,
    },
    /// The lane has several workers.
    #[error("lane {asked} has several attempts: name one of {attempts}")]
    Several {
        /// What was asked for.
        asked: String,
        /// Its workers.
        attempts: String,
    },
    /// There is nothing to say.
    #[error("the text is empty")]
    Empty,
    /// There is too much to say.
    #[error(
        "the text has {0} bytes, and at most {MAX_TEXT} are taken; put the rest into a file of the repository"
    )]
    TooLong(usize),
    /// The journal can't be written.
    #[error("the text could not be kept in the run's journal, so that it is not used: {0}")]
    Journal(String),
}

impl SteerError {
    /// Whether the text came too late.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Closed | Self::Over { .. })
    }
}

/// The way to all workers of a run. Clones share it.
#[derive(Clone, Default)]
pub struct Steering(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Woken whenever a text comes in or its fate is known.
    changed: Notify,
}

#[derive(Default)]
struct State {
    keep: Option<Keep>,
    closed: bool,
    /// Every lane, and whether it is over.
    lanes: BTreeMap<LaneId, bool>,
    letters: Vec<Letter>,
}

struct Letter {
    steer: Steer,
    /// Whether it stands in the conversation that the worker has now.
    said: bool,
}

impl std::fmt::Debug for Steering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steering").finish_non_exhaustive()
    }
}

impl Steering {
    /// Takes texts for these lanes from now on. `past` is what the journal holds of an earlier engine: what
    /// was not missed then is told again where the conversation does not hold it.
    pub fn open(&self, lanes: impl IntoIterator<Item = LaneId>, past: Vec<Steer>, keep: Keep) {
        let mut state = self.lock();
        state.keep = Some(keep);
        state.lanes = lanes.into_iter().map(|lane| (lane, false)).collect();
        state.letters = past.into_iter().map(|steer| Letter { steer, said: false }).collect();
    }

    /// Takes a text for a lane, by its id or, where it has one attempt, its name.
    ///
    /// # Errors
    /// When nobody will read it; see [`SteerError`].
    pub fn post(&self, lane: &str, from: &Sender, text: &str) -> Result<Steer, SteerError> {
        let text = text.trim();
        match text.len() {
            0 => return Err(SteerError::Empty),
            1..=MAX_TEXT => {}
            more => return Err(SteerError::TooLong(more)),
        }
        let mut state = self.lock();
        let lane = state.find(lane)?;
        let id = format!("s{}", state.letters.len() + 1);
        let (from, text) = (from.clone(), text.to_owned());
        let steer = Steer { id, lane, from, text, whole: None, fate: Fate::Waiting };
        state.keep(&steer).map_err(SteerError::Journal)?;
        state.letters.push(Letter { steer: steer.clone(), said: false });
        drop(state);
        self.0.changed.notify_waiters();
        Ok(steer)
    }

    /// The lane of the run that an operator means, by its id or, where it has one attempt, its name; also
    /// one that has ended.
    pub fn lane(&self, asked: &str) -> Option<LaneId> {
        LaneId::meant(asked, self.lock().lanes.keys()).cloned()
    }

    /// Whether the run has come to its workers.
    pub fn is_open(&self) -> bool {
        self.lock().keep.is_some()
    }

    /// Waits until it is known what became of a text.
    pub async fn fate(&self, id: &str) -> Fate {
        loop {
            let woken = self.0.changed.notified();
            let found = self.all().into_iter().find(|steer| steer.id == id);
            match found.map(|steer| steer.fate) {
                Some(Fate::Waiting) => woken.await,
                Some(fate) => return fate,
                None => return Fate::Missed,
            }
        }
    }

    /// Every text so far, in the order of arrival.
    pub fn all(&self) -> Vec<Steer> {
        self.lock().letters.iter().map(|letter| letter.steer.clone()).collect()
    }

    /// The texts for a worker that begins its conversation.
    pub fn letters(&self, lane: &LaneId) -> Letters {
        // A conversation that begins anew holds none of them.
        let mut state = self.lock();
        state.of(lane).for_each(|letter| letter.said = false);
        drop(state);
        Letters { steering: self.clone(), lane: lane.clone() }
    }

    /// A lane is over: what its worker did not read is missed.
    pub fn end(&self, lane: &LaneId) {
        let mut state = self.lock();
        state.lanes.entry(lane.clone()).and_modify(|over| *over = true);
        state.miss(|steer| steer.lane == *lane);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// All workers have ended.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.miss(|_| true);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Nothing here is changed in two steps: a panic of another leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, asked: &str) -> Result<LaneId, SteerError> {
        if self.closed {
            return Err(SteerError::Closed);
        }
        if self.keep.is_none() || self.lanes.is_empty() {
            return Err(SteerError::NotOpen);
        }
        let Some(lane) = LaneId::meant(asked, self.lanes.keys()) else {
            let known: Vec<&str> = self.lanes.keys().map(LaneId::as_str).collect();
            let of_it = |id: &&&str| id.rsplit_once('/').is_some_and(|(name, _)| name == asked);
            let attempts: Vec<&str> = known.iter().filter(of_it).copied().collect();
            let asked = asked.to_owned();
            return Err(match attempts.is_empty() {
                true => SteerError::Unknown { asked, known: known.join(", ") },
                false => SteerError::Several { asked, attempts: attempts.join(", ") },
            });
        };
        match self.lanes.get(lane) {
            Some(true) => Err(SteerError::Over { lane: lane.clone() }),
            _ => Ok(lane.clone()),
        }
    }

    fn keep(&self, steer: &Steer) -> Result<(), String> {
        self.keep.as_ref().map_or(Ok(()), |keep| keep(steer))
    }

    fn of(&mut self, lane: &LaneId) -> impl Iterator<Item = &mut Letter> {
        self.letters.iter_mut().filter(move |letter| letter.steer.lane == *lane)
    }

    fn miss(&mut self, whose: impl Fn(&Steer) -> bool) {
        self.decide(whose, Fate::Missed);
    }

    /// Writes down what became of texts whose fate was open. What can't be journaled ends the run by itself.
    fn decide(&mut self, whose: impl Fn(&Steer) -> bool, fate: Fate) {
        let mut decided = Vec::new();
        for Letter { steer, .. } in &mut self.letters {
            if steer.fate == Fate::Waiting && whose(steer) {
                steer.fate = fate;
                decided.push(steer.clone());
            }
        }
        for steer in &decided {
            let _ = self.keep(steer);
        }
    }
}

/// The texts for one worker.
#[derive(Clone, Debug)]
pub struct Letters {
    steering: Steering,
    lane: LaneId,
}

impl Letters {
    /// Those that are to be told now. They are not given again in this conversation.
    pub(super) fn take(&self) -> Vec<Steer> {
        let mut state = self.steering.lock();
        let open = |letter: &&mut Letter| !letter.said && letter.steer.fate != Fate::Missed;
        let taken = state.of(&self.lane).filter(open).map(|letter| {
            letter.said = true;
            letter.steer.clone()
        });
        taken.collect()
    }

    /// The worker was told `text` before a resume: the texts in it are not told again.
    pub(super) fn told_in(&self, text: &str) {
        let mut state = self.steering.lock();
        state
            .of(&self.lane)
            .filter(|letter| text.contains(&label(&letter.steer)))
            .for_each(|letter| letter.said = true);
    }

    /// The model answered in this turn: what was said by then it has read.
    pub(super) fn heard(&self, turn: u32) {
        let mut state = self.steering.lock();
        let said: Vec<String> = state
            .of(&self.lane)
            .filter(|letter| letter.said)
            .map(|letter| letter.steer.id.clone())
            .collect();
        state.decide(|steer| said.contains(&steer.id), Fate::Told { turn });
        drop(state);
        self.steering.0.changed.notify_waiters();
    }

    /// Whether there is one to be told.
    pub(super) fn waiting(&self) -> bool {
        let mut state = self.steering.lock();
        state.of(&self.lane).any(|letter| !letter.said && letter.steer.fate != Fate::Missed)
    }

    /// Waits until there is one.
    pub(super) async fn arrived(&self) {
        loop {
            let woken = self.steering.0.changed.notified();
            if self.waiting() {
                return;
            }
            woken.await;
        }
    }
}

/// How a text is labelled: no other text in a prompt can read so, because every fence neutralises it.
pub(super) fn label(steer: &Steer) -> String {
    format!("{} {} from {}", crate::fence::STEERING, steer.id, steer.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Kept = Arc<Mutex<Vec<Steer>>>;

    fn lane(attempt: u32) -> LaneId {
        LaneId::of("one", attempt)
    }

    fn ada() -> Sender {
        Sender::of_peer(1000, Some("ada".to_owned()))
    }

    fn open(past: Vec<Steer>) -> (Steering, Kept) {
        let (steering, kept) = (Steering::default(), Kept::default());
        let keep = kept.clone();
        let lanes = [lane(1), lane(2), LaneId::of("two", 1)];
        steering.open(
            lanes,
            past,
            Arc::new(move |steer| {
                keep.lock().unwrap().push(steer.clone());
                Ok(())
            }),
        );
        (steering, kept)
    }

    #[test]
    fn a_text_is_kept_first_then_told_once_and_counts_when_it_was_answered() {
        let (steering, kept) = open(Vec::new());
        let letters = steering.letters(&lane(1));
        let steer = steering.post("one/1", &ada(), " use tabs\n").unwrap();
        assert_eq!((steer.id.as_str(), steer.text.as_str()), ("s1", "use tabs"));
        assert_eq!(kept.lock().unwrap().as_slice(), std::slice::from_ref(&steer));
        assert!(letters.waiting() && !steering.letters(&lane(2)).waiting());
        assert_eq!(letters.take(), [steer]);
        assert!(!letters.waiting() && letters.take().is_empty());
        assert_eq!(steering.all()[0].fate, Fate::Waiting, "nobody has answered");
        letters.heard(4);
        letters.heard(5);
        assert_eq!(steering.all()[0].fate, Fate::Told { turn: 4 });
        assert_eq!(kept.lock().unwrap().len(), 2);
    }

    #[test]
    fn what_nobody_read_is_missed_and_what_comes_later_is_refused() {
        let (steering, _) = open(Vec::new());
        let letters = steering.letters(&lane(1));
        steering.post("one/1", &ada(), "first").unwrap();
        letters.take();
        letters.heard(1);
        steering.post("one/1", &ada(), "second").unwrap();
        steering.end(&lane(1));
        let fates: Vec<Fate> = steering.all().into_iter().map(|steer| steer.fate).collect();
        assert_eq!(fates, [Fate::Told { turn: 1 }, Fate::Missed]);
        let late = steering.post("one/1", &ada(), "third").unwrap_err();
        assert!(late.is_late() && late.to_string().starts_with("one/1 has ended"), "{late}");
        steering.close();
        assert_eq!(steering.post("two", &ada(), "x"), Err(SteerError::Closed));
    }

    #[test]
    fn a_lane_is_named_by_its_id_or_by_a_name_that_means_one() {
        let (steering, kept) = open(Vec::new());
        assert_eq!(steering.post("two", &ada(), "x").unwrap().lane, LaneId::of("two", 1));
        assert_eq!(steering.lane("two/1"), steering.lane("two"));
        assert_eq!((steering.lane("one"), steering.lane("one/2")), (None, Some(lane(2))));
        let error = steering.post("one", &ada(), "x").unwrap_err().to_string();
        assert_eq!(error, "lane one has several attempts: name one of one/1, one/2");
        let error = steering.post("three", &ada(), "x").unwrap_err().to_string();
        assert_eq!(error, "no lane is called \"three\"; there are one/1, one/2, two/1");
        assert_eq!(steering.post("two", &ada(), " \n"), Err(SteerError::Empty));
        let long = "x".repeat(MAX_TEXT + 1);
        assert_eq!(steering.post("two", &ada(), &long), Err(SteerError::TooLong(MAX_TEXT + 1)));
        assert_eq!(kept.lock().unwrap().len(), 1);
        assert_eq!(Steering::default().post("two", &ada(), "x"), Err(SteerError::NotOpen));
    }

    #[test]
    fn what_the_journal_refuses_is_not_used() {
        let steering = Steering::default();
        steering.open([lane(1)], Vec::new(), Arc::new(|_| Err("disk full".to_owned())));
        let refused = steering.post("one/1", &ada(), "x").unwrap_err();
        assert_eq!(refused, SteerError::Journal("disk full".to_owned()));
        assert!(!steering.letters(&lane(1)).waiting());
    }

    #[test]
    fn after_a_resume_only_what_the_conversation_lacks_is_told() {
        let steer = |id: &str, fate| Steer {
            whole: None,
            id: id.to_owned(),
            lane: lane(1),
            from: ada(),
            text: "t".to_owned(),
            fate,
        };
        let past = vec![
            steer("s1", Fate::Told { turn: 2 }),
            steer("s2", Fate::Waiting),
            steer("s3", Fate::Missed),
        ];
        let (steering, _) = open(past.clone());
        let letters = steering.letters(&lane(1));
        letters.told_in(&format!("{}:\n\nt", label(&past[0])));
        let ids: Vec<String> = letters.take().into_iter().map(|steer| steer.id).collect();
        assert_eq!(ids, ["s2"]);
        letters.heard(3);
        let fates: Vec<Fate> = steering.all().into_iter().map(|steer| steer.fate).collect();
        assert_eq!(fates, [Fate::Told { turn: 2 }, Fate::Told { turn: 3 }, Fate::Missed]);
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let (steering, _) = open(Vec::new());
        let letters = steering.letters(&lane(1));
        let asked = async {
            letters.arrived().await;
            letters.take();
            letters.heard(1);
        };
        let posted = async {
            let steer = steering.post("one/1", &ada(), "x").unwrap();
            steering.fate(&steer.id).await
        };
        assert_eq!(tokio::join!(asked, posted).1, Fate::Told { turn: 1 });
        assert_eq!(steering.fate("s9").await, Fate::Missed);
    }
}
