//! Progress as lines.

use std::io::Write;

use super::Listen;
use crate::model::RunEvent;

/// Writes lines. A writer that fails is given up.
pub struct Plain<W>(Option<W>);

impl<W: Write> Plain<W> {
    /// Lines go to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Some(writer))
    }
}

impl<W: Write + Send> Listen for Plain<W> {
    fn tell(&mut self, event: &RunEvent) {
        let (Some(writer), Some(line)) = (&mut self.0, words(event)) else { return };
        if writer.write_all(format!("{line}\n").as_bytes()).is_err() {
            self.0 = None;
        }
    }
}

fn words(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::StageBegan { stage, .. } => Some(format!("{stage:?}").to_lowercase()),
        _ => None,
    }
}
