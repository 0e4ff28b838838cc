//! A lane's worker in the operator's hands.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::more::{Extensions, Questions};
use super::seat::{Scroll, Seat};
use super::steering::Steering;
use crate::jobs::{Board, Handle, Input, Reading, Source, StopReport};
use crate::journal::Masker;
use crate::model::{Card, CardState, LaneId, Sender};

/// How long what a worker did stays readable, from its end: as long as a job's output.
const RETENTION: Duration = Duration::from_secs(600);

/// How long a worker that was told to stop may take until its operator is told that it has not yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an operator finds in a run: the list of what is live, and the way to speak to workers. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    /// What is live.
    pub board: Board,
    /// The way to speak to workers.
    pub steering: Steering,
    /// What nested workers are granted beyond their caps.
    pub extensions: Extensions,
    /// What who attaches to a worker does not get to see.
    pub masker: Masker,
    /// Workers that have not begun.
    line: Line,
}

/// Workers on the board that wait for a place. Clones share it.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Vec<Arc<Worker>>>>);

impl Line {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().map(|worker| &worker.lane)).finish()
    }
}

/// The workers that wait. Dropping it is the end of those that have not begun by then.
#[derive(Debug)]
pub struct LinedUp(Line);

impl Drop for LinedUp {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.0.lock());
        for worker in left {
            worker.give_up("it never began");
        }
    }
}

impl Floor {
    /// That of a run on a terminal where somebody can answer, or of one that nobody sees.
    pub fn watched(watched: bool) -> Self {
        Self { extensions: Extensions::watched(watched), ..Self::default() }
    }

    /// Puts workers on the board that begin when there is a place for them, each with its model's name.
    #[must_use]
    pub fn line_up(&self, workers: impl IntoIterator<Item = (LaneId, String)>) -> LinedUp {
        for (lane, model) in workers {
            let worker = Worker::new(self, &lane, model);
            self.line.lock().push(worker.clone());
            self.board.add(worker);
        }
        LinedUp(self.line.clone())
    }

    /// Whether the operator stopped a worker before it began.
    pub fn never_begins(&self, lane: &LaneId) -> bool {
        self.line.lock().iter().any(|worker| worker.lane == *lane && worker.has_ended())
    }
}

/// A worker under way. Dropping it is its end.
pub struct Attended {
    worker: Arc<Worker>,
}

struct Worker {
    lane: LaneId,
    scroll: Scroll,
    steering: Steering,
    questions: Questions,
    state: Mutex<State>,
}

struct State {
    model: String,
    /// When it began, or was lined up.
    since: Instant,
    /// Ends it; absent while it waits for a place.
    stop: Option<CancellationToken>,
    how: Option<String>,
    end: Option<Instant>,
}

impl Attended {
    /// Puts the worker of a lane on the board, or begins the one that waited there. `stop` ends it.
    pub fn begin(floor: &Floor, lane: &LaneId, stop: CancellationToken) -> Self {
        let mut line = floor.line.lock();
        let at = line.iter().position(|worker| worker.lane == *lane);
        let waiting = at.map(|at| line.swap_remove(at));
        drop(line);
        let begun = waiting.filter(|worker| worker.begin(&stop));
        let worker = begun.unwrap_or_else(|| {
            let worker = Worker::new(floor, lane, String::new());
            worker.begin(&stop);
            floor.board.add(worker.clone());
            worker
        });
        Self { worker }
    }

    /// The seat for a conversation with this model, which begins now.
    pub fn seat(&self, model: &str) -> Seat {
        let Worker { lane, scroll, steering, questions, .. } = &*self.worker;
        self.worker.state().model = model.to_owned();
        scroll.say(&format!("{lane} begins with {model}"));
        Seat::new(steering.letters(lane), scroll.clone()).with_questions(questions.clone())
    }

    /// Says how it ended; it ends when this is dropped.
    pub fn ended(&self, how: String) {
        self.worker.scroll.say(&format!("{} ended: {how}", self.worker.lane));
        self.worker.state().how = Some(how);
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Worker { lane, scroll, steering, .. } = &*self.worker;
        steering.end(lane);
        self.worker.state().end = Some(Instant::now());
        scroll.wake();
    }
}

impl Worker {
    /// One that has not begun.
    fn new(floor: &Floor, lane: &LaneId, model: String) -> Arc<Self> {
        Arc::new(Self {
            lane: lane.clone(),
            scroll: Scroll::new(floor.masker.clone()),
            steering: floor.steering.clone(),
            questions: Questions::new(floor.extensions.clone()),
            state: Mutex::new(State {
                model,
                since: Instant::now(),
                stop: None,
                how: None,
                end: None,
            }),
        })
    }

    /// It has a place now; false when it was stopped in the very moment, and `stop` with it.
    fn begin(&self, stop: &CancellationToken) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            stop.cancel();
            return false;
        }
        (state.since, state.stop) = (Instant::now(), Some(stop.clone()));
        drop(state);
        self.scroll.wake();
        true
    }

    /// It never begins; false when it has begun or is over.
    fn give_up(&self, how: &str) -> bool {
        let mut state = self.state();
        if state.stop.is_some() || state.end.is_some() {
            return false;
        }
        (state.how, state.end) = (Some(how.to_owned()), Some(Instant::now()));
        drop(state);
        self.steering.end(&self.lane);
        self.scroll.say(&format!("{} ended: {how}", self.lane));
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// A word for its next turn.
    fn steer(&self, text: &str, from: &Sender) -> Result<(), String> {
        let steer = self.steering.post(self.lane.as_str(), from, text);
        let steer = steer.map_err(|error| error.to_string())?;
        self.scroll.say(&format!("{} waits for the next turn of {}", steer.id, self.lane));
        Ok(())
    }
}

impl Source for Worker {
    fn name(&self) -> String {
        format!("worker {}", self.lane)
    }

    fn handles(self: Arc<Self>) -> Vec<Arc<dyn Handle>> {
        let is_old = Source::is_over(&*self);
        (!is_old).then_some(self as Arc<dyn Handle>).into_iter().collect()
    }

    fn is_over(&self) -> bool {
        self.state().end.is_some_and(|end| end.elapsed() >= RETENTION)
    }
}

impl Handle for Worker {
    fn card(&self) -> Card {
        let state = self.state();
        let ended = || CardState::Ended {
            how: state.how.clone().unwrap_or_else(|| "broken off".to_owned()),
        };
        let stands = match state.end {
            Some(_) => ended(),
            None => match &state.stop {
                None => CardState::Waiting,
                Some(stop) if stop.is_cancelled() => CardState::Stopping { alive: Vec::new() },
                Some(_) => match self.questions.prompt() {
                    Some(prompt) => CardState::NeedsApproval { prompt, secret: false },
                    None => CardState::Running,
                },
            },
        };
        let until = state.end.unwrap_or_else(Instant::now);
        Card {
            state: stands,
            age: until.saturating_duration_since(state.since).as_secs(),
            bytes: self.scroll.written(),
            ..Card::worker(&self.lane, &state.model)
        }
    }

    fn stop(&self) -> BoxFuture<'_, StopReport> {
        async move {
            let before = self.card().state;
            if !before.is_live() {
                let how = format!("it had ended before: {}", before.words());
                return StopReport { how, survivors: Vec::new() };
            }
            let how = "stopped before it began";
            if self.give_up(how) {
                return StopReport { how: how.to_owned(), survivors: Vec::new() };
            }
            if let Some(stop) = &self.state().stop {
                stop.cancel();
            }
            // Its jobs end with it, and its workspace is read, before it is over (contract R10).
            let over = self.scroll.beyond(u64::MAX, || self.has_ended());
            let _ = tokio::time::timeout(PATIENCE, over).await;
            let state = self.card().state;
            let survivors = if state.is_live() { vec![self.lane.to_string()] } else { Vec::new() };
            StopReport { how: state.words(), survivors }
        }
        .boxed()
    }

    fn read_from(&self, offset: u64) -> Reading {
        self.scroll.read(offset)
    }

    fn written_beyond(&self, offset: u64) -> BoxFuture<'_, ()> {
        self.scroll.beyond(offset, || self.has_ended()).boxed()
    }

    /// A line to a worker is a word for its next turn, or the answer where one of its nested workers asks.
    fn takes_texts(&self) -> bool {
        true
    }

    fn attend(&self, is_there: bool) {
        self.questions.attend(is_there);
    }

    fn feed_input<'a>(
        &'a self,
        input: Input,
        from: &'a Sender,
    ) -> BoxFuture<'a, Result<(), String>> {
        let taken = match input {
            Input::Submit { text } => match self.questions.answer(&text, from) {
                Ok(false) => self.steer(&text, from),
                answered => answered.map(drop),
            },
            Input::Write { .. } | Input::Secret { .. } | Input::Close => Err(format!(
                "a worker takes whole lines, as words for its next turn; `bakeoff stop {}` ends it",
                self.lane
            )),
        };
        std::future::ready(taken).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fate;

    fn floor(lane: &LaneId) -> Floor {
        let floor = Floor::default();
        floor.steering.open([lane.clone()], Vec::new(), Arc::new(|_| Ok(())));
        floor
    }

    // contract R3 in part: one id; that of jobs is tested with whole runs
    #[tokio::test]
    async fn a_worker_is_found_stopped_and_seen_under_its_lanes_id() {
        let lane = LaneId::of("one", 1);
        let (floor, stop) = (floor(&lane), CancellationToken::new());
        let attended = Attended::begin(&floor, &lane, stop.clone());
        attended.seat("p:m");
        let handle = floor.board.find("one/1").unwrap();
        let card = handle.card();
        assert_eq!((card.title.as_str(), &card.state), ("p:m", &CardState::Running));
        let ended = async {
            stop.cancelled().await;
            assert_eq!(handle.card().state.words(), "stopping");
            attended.ended("PARTIAL (cancelled)".to_owned());
            drop(attended);
        };
        let (report, ()) = tokio::join!(handle.stop(), ended);
        assert_eq!((report.how.as_str(), report.survivors.len()), ("PARTIAL (cancelled)", 0));
        assert!(floor.board.cards(false).is_empty(), "the card goes at the end");
        let text = floor.board.find("one/1").unwrap().read_from(0).text();
        assert_eq!(text, "one/1 begins with p:m\none/1 ended: PARTIAL (cancelled)\n");
        assert!(handle.stop().await.how.starts_with("it had ended before"));
    }

    #[tokio::test]
    async fn a_worker_that_waits_is_listed_spoken_to_and_stopped_as_one_that_works() {
        let [one, two, three] = [1, 2, 3].map(|attempt| LaneId::of("one", attempt));
        let floor = Floor::default();
        let lanes = [one.clone(), two.clone(), three.clone()];
        floor.steering.open(lanes.clone(), Vec::new(), Arc::new(|_| Ok(())));
        let line = floor.line_up(lanes.map(|lane| (lane, "p:m".to_owned())));
        let state = |id: &str| floor.board.find(id).unwrap().card().state;
        assert_eq!((state("one/1"), state("one/2")), (CardState::Waiting, CardState::Waiting));
        let (ada, text) = (Sender::of_peer(7, None), "use tabs".to_owned());
        let second = floor.board.find("one/2").unwrap();
        second.feed_input(Input::Submit { text }, &ada).await.unwrap();
        let first = floor.board.find("one/1").unwrap();
        let begun = Attended::begin(&floor, &one, CancellationToken::new());
        assert_eq!(first.card().state, CardState::Running, "it is the same");
        assert_eq!(second.stop().await.how, "stopped before it began");
        assert!(floor.never_begins(&two) && !floor.never_begins(&one));
        assert_eq!(floor.steering.all()[0].fate, Fate::Missed);
        assert!(second.read_from(0).text().ends_with("one/2 ended: stopped before it began\n"));
        assert!(second.stop().await.how.starts_with("it had ended before"));
        // One that had its place in the moment in which it was stopped.
        let cut = CancellationToken::new();
        drop(Attended::begin(&floor, &two, cut.clone()));
        assert!(cut.is_cancelled());
        drop(line);
        assert_eq!(state("one/3"), CardState::Ended { how: "it never began".to_owned() });
        assert_eq!(state("one/1"), CardState::Running);
        drop(begun);
    }

    #[tokio::test]
    async fn a_line_put_in_is_a_word_for_the_next_turn_and_nothing_else_is_taken() {
        let lane = LaneId::of("one", 1);
        let floor = floor(&lane);
        let attended = Attended::begin(&floor, &lane, CancellationToken::new());
        let (handle, ada) = (floor.board.find("one/1").unwrap(), Sender::of_peer(7, None));
        let line = |text: &str| Input::Submit { text: text.to_owned() };
        handle.feed_input(line("use tabs"), &ada).await.unwrap();
        assert_eq!(floor.steering.all()[0].text, "use tabs");
        for input in [line(" "), Input::Close, Input::Write { text: "x".to_owned() }] {
            handle.feed_input(input, &ada).await.unwrap_err();
        }
        handle.resize(crate::jobs::Size { rows: 1, columns: 1 }).unwrap_err();
        drop(attended);
        assert_eq!(floor.steering.all()[0].fate, Fate::Missed);
        assert!(handle.feed_input(line("late"), &ada).await.unwrap_err().contains("has ended"));
    }
}
