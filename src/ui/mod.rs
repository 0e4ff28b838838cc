//! A run as it goes on: bars on a terminal, lines elsewhere, JSON lines for programs.
//!
//! Lives here: listeners of run events. Never here: a call back into the run, results (the caller
//! prints those).

mod plain;

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{EventSink, RunEvent};

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

/// Somebody who is told of events.
trait Listen: Send {
    fn tell(&mut self, event: &RunEvent);
    fn close(&mut self) {}
}

/// Shows a run's progress until it is closed.
pub struct Listener(Arc<Mutex<Box<dyn Listen>>>);

impl Listener {
    /// Begins to listen.
    pub fn start(mode: Mode) -> Self {
        match mode {
            Mode::Events => Self::of(Events(Some(std::io::stdout()))),
            Mode::Silent => Self::of(Nobody),
            Mode::Live | Mode::Plain => Self::of(plain::Plain::new(std::io::stderr())),
        }
    }

    /// Writes one JSON object a line to a writer of the caller's.
    pub fn events_to(writer: impl Write + Send + 'static) -> Self {
        Self::of(Events(Some(writer)))
    }

    fn of(listen: impl Listen + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(listen))))
    }

    /// Where the run sends its events.
    pub fn sink(&self) -> EventSink {
        let shared = self.0.clone();
        EventSink::new(move |event| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).tell(&event);
        })
    }

    /// Clears what is live, so that results can be printed.
    pub fn close(self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
}

struct Nobody;

impl Listen for Nobody {
    fn tell(&mut self, _: &RunEvent) {}
}

/// JSON lines. A writer that fails is given up: the run goes on without a reader.
struct Events<W>(Option<W>);

impl<W: Write + Send> Listen for Events<W> {
    fn tell(&mut self, event: &RunEvent) {
        let Some(writer) = &mut self.0 else { return };
        let Ok(mut bytes) = serde_json::to_vec(event) else { return };
        bytes.push(b'\n');
        if writer.write_all(&bytes).and_then(|()| writer.flush()).is_err() {
            self.0 = None;
        }
    }
}
