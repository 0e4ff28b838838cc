//! A run as it goes on: bars on a terminal, lines elsewhere, JSON lines for programs.
//!
//! Lives here: listeners of run events. Never here: a call back into the run, results (the caller
//! prints those). Progress goes to standard error; only JSON lines, which are a result, go to standard
//! output. A reader that goes away is no reason to end a run.

mod bars;
mod cards;
mod lines;
mod screen;
mod words;

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::printable::hanging;
use crate::model::{Card, CardSink, EventSink, RunEvent};

/// How often a live view moves while nothing happens.
const TICK: Duration = Duration::from_millis(120);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One JSON object a line, on standard output.
    Events,
    /// Nothing.
    Silent,
    /// Bars on standard error, which is a terminal.
    Live,
    /// Lines on standard error.
    Plain,
}

/// A line as standard error takes it: wrapped at words when that is a terminal.
pub fn fitted(text: &str) -> String {
    // Asked anew each time, as a terminal's width can change.
    match screen::size().1 {
        0 => text.to_owned(),
        columns => hanging(text, usize::from(columns)),
    }
}

/// Who looks on at a run.
#[derive(Clone, Debug)]
pub struct Audience {
    /// Is told of the run's events.
    pub events: EventSink,
    /// Is shown what else is live, which the run does not record: the operator's own commands.
    pub cards: CardSink,
}

impl Audience {
    /// One that is told of the run's events alone.
    pub fn of(events: EventSink) -> Self {
        Self { events, cards: CardSink::none() }
    }
}

/// Somebody who is told of events, on a thread of its own.
trait Listen: Send {
    /// Something happened, `at` after the beginning.
    fn tell(&mut self, event: &RunEvent, at: Duration);
    /// Something beside the run's events stands so. Only who shows what is live has a use for it.
    fn card(&mut self, _card: &Card, _at: Duration) {}
    /// Nothing happened for a moment.
    fn tick(&mut self, _at: Duration) {}
    /// The end: what is live goes away.
    fn close(&mut self) {}
}

enum Message {
    Event(Box<RunEvent>),
    Card(Card),
    Close,
}

/// Shows a run's progress until it is closed or dropped. Telling it never waits for a slow reader.
pub struct Listener {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Begins to listen.
    pub fn start(mode: Mode) -> Self {
        match mode {
            Mode::Events => Self::events_to(std::io::stdout()),
            Mode::Silent => Self::of(Silent),
            Mode::Live => Self::of(bars::Bars::stderr()),
            Mode::Plain => Self::of(lines::Lines::new(std::io::stderr())),
        }
    }

    /// Writes one JSON object a line to a writer of the caller's.
    pub fn events_to(writer: impl Write + Send + 'static) -> Self {
        Self::of(lines::Events::new(writer))
    }

    fn of(listen: impl Listen + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || listen_to(&receiver, listen))
            .ok(); // Without a thread there is no progress, and the run goes on.
        Self { sender, thread }
    }

    /// Where the run sends its events, and what else is live is shown. Nobody listens any more after the end.
    pub fn audience(&self) -> Audience {
        let (events, cards) = (self.sender.clone(), self.sender.clone());
        Audience {
            events: EventSink::new(move |event| drop(events.send(Message::Event(Box::new(event))))),
            cards: CardSink::new(move |card| drop(cards.send(Message::Card(card)))),
        }
    }

    /// Shows what was told so far and clears what is live, so that results can be printed.
    pub fn close(self) {}
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Close);
        if let Some(thread) = self.thread.take() {
            // A listener that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

fn listen_to(receiver: &mpsc::Receiver<Message>, mut listen: impl Listen) {
    let began = Instant::now();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(Message::Event(event)) => listen.tell(&event, began.elapsed()),
            Ok(Message::Card(card)) => listen.card(&card, began.elapsed()),
            Err(RecvTimeoutError::Timeout) => listen.tick(began.elapsed()),
            Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    listen.close();
}

struct Silent;

impl Listen for Silent {
    fn tell(&mut self, _: &RunEvent, _: Duration) {}
}

#[cfg(test)]
mod tests;
