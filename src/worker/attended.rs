//! A lane's worker in the operator's hands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::seat::{Scroll, Seat};
use super::steering::Steering;
use crate::jobs::{Board, Handle, Input, Reading, Source, StopReport};
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
}

/// A worker under way. Dropping it is its end.
pub struct Attended {
    worker: Arc<Worker>,
}

struct Worker {
    lane: LaneId,
    began: Instant,
    stop: CancellationToken,
    scroll: Scroll,
    steering: Steering,
    state: Mutex<State>,
}

struct State {
    model: String,
    how: Option<String>,
    end: Option<Instant>,
}

impl Attended {
    /// Puts the worker of a lane on the board. `stop` ends it.
    pub fn begin(floor: &Floor, lane: &LaneId, stop: CancellationToken) -> Self {
        let worker = Arc::new(Worker {
            lane: lane.clone(),
            began: Instant::now(),
            stop,
            scroll: Scroll::default(),
            steering: floor.steering.clone(),
            state: Mutex::new(State { model: String::new(), how: None, end: None }),
        });
        floor.board.add(worker.clone());
        Self { worker }
    }

    /// The seat for a conversation with this model, which begins now.
    pub fn seat(&self, model: &str) -> Seat {
        let Worker { lane, scroll, steering, .. } = &*self.worker;
        self.worker.state().model = model.to_owned();
        scroll.say(&format!("{lane} begins with {model}"));
        Seat::new(steering.letters(lane), scroll.clone())
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.state().end.is_some()
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
            None if self.stop.is_cancelled() => CardState::Stopping { alive: Vec::new() },
            None => CardState::Running,
        };
        let until = state.end.unwrap_or_else(Instant::now);
        Card {
            state: stands,
            age: until.saturating_duration_since(self.began).as_secs(),
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
            self.stop.cancel();
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

    /// A line to a worker is a word for its next turn.
    fn takes_texts(&self) -> bool {
        true
    }

    fn feed_input<'a>(
        &'a self,
        input: Input,
        from: &'a Sender,
    ) -> BoxFuture<'a, Result<(), String>> {
        let taken = match input {
            Input::Submit { text } => {
                self.steering.post(self.lane.as_str(), from, &text).map_err(|e| e.to_string()).map(
                    |steer| {
                        self.scroll
                            .say(&format!("{} waits for the next turn of {}", steer.id, self.lane));
                    },
                )
            }
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
