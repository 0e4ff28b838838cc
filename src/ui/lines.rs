//! Events as lines: for people without a terminal, and for programs.

use std::io::Write;
use std::time::Duration;

use super::Listen;
use super::words::words;
use crate::model::printable::line;
use crate::model::{RunEvent, duration};

/// After so long a silence a worker's activity is a line, too: a job's log that stands still looks
/// dead to whoever watches it.
const SILENCE: Duration = Duration::from_secs(30);

/// A writer that is given up once it fails.
struct Patient<W>(Option<W>);

impl<W: Write> Patient<W> {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(writer) = &mut self.0
            && writer.write_all(bytes).and_then(|()| writer.flush()).is_err()
        {
            self.0 = None;
        }
    }
}

/// Lines for people, each with the time since the beginning.
pub struct Lines<W> {
    writer: Patient<W>,
    last: Duration,
}

impl<W: Write> Lines<W> {
    /// Lines go to `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer: Patient(Some(writer)), last: Duration::ZERO }
    }
}

impl<W: Write + Send> Listen for Lines<W> {
    fn tell(&mut self, event: &RunEvent, at: Duration) {
        let text = words(event).or_else(|| match event {
            RunEvent::LaneActivity { lane, turn, activity, .. } if at - self.last >= SILENCE => {
                Some(line(&format!("{lane} turn {turn}: {activity}")))
            }
            _ => None,
        });
        if let Some(text) = text {
            self.last = at;
            let time = duration(at.as_millis() as u64);
            self.writer.write(format!("{time:>10}  {text}\n").as_bytes());
        }
    }
}

/// One JSON object a line.
pub struct Events<W>(Patient<W>);

impl<W: Write> Events<W> {
    /// Objects go to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Patient(Some(writer)))
    }
}

impl<W: Write + Send> Listen for Events<W> {
    fn tell(&mut self, event: &RunEvent, _: Duration) {
        // An event holds nothing that JSON can't.
        if let Ok(mut bytes) = serde_json::to_vec(event) {
            bytes.push(b'\n');
            self.0.write(&bytes);
        }
    }
}
