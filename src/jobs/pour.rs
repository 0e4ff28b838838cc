//! What comes from a file or a pipe into a job: bytes as they are, no faster than the job reads them.
//!
//! Never here: what is typed (`keyboard`), whose bytes they are.

use std::time::Duration;

use super::entry::Entry;
use super::keyboard::Keyboard;
use crate::sandbox::{Feeding, InputState, Process};

/// With so many bytes unread no more are given.
const ENOUGH: u64 = 256 << 10;
/// How long the first look for room waits, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

impl Entry {
    /// Puts bytes in, as far as the job has a use for them; gives whether it has one for more.
    ///
    /// # Errors
    /// In words, when it takes no input.
    pub(super) async fn pour(&self, bytes: Vec<u8>) -> Result<bool, String> {
        let Some(keyboard) = &self.keyboard else {
            return Err(format!("{} takes no input: it was started without one", self.id));
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let Some(state) = room(&*self.process).await else { return Ok(false) };
            let (now, later) = keyboard.portion(&state, &self.tail(), rest);
            if let Err(reason) = self.process.feed(now).await {
                // It may have closed its input, or ended, in the meantime.
                return if reads(&*self.process).await.is_none() { Ok(false) } else { Err(reason) };
            }
            rest = later;
        }
        Ok(true)
    }
}

impl Keyboard {
    /// What is put in at once, and what comes after it. In the dark that is a line, which is a secret.
    fn portion<'b>(&self, state: &InputState, tail: &str, bytes: &'b [u8]) -> (Feeding, &'b [u8]) {
        let hidden = self.in_the_dark(state, tail);
        let end = match hidden {
            true => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
            false => bytes.len(),
        };
        let (now, later) = bytes.split_at(end);
        if hidden {
            self.typed_unseen(&String::from_utf8_lossy(now), tail, state);
        }
        (Feeding::Write { bytes: now.to_vec(), hidden }, later)
    }
}

/// How its input stands, if it is open.
async fn reads(process: &dyn Process) -> Option<InputState> {
    if !process.is_live() {
        return None;
    }
    process.feed(Feeding::Look).await.ok().filter(|state| state.open)
}

/// Waits until it has read most of what it was given; `None` when it reads no more.
async fn room(process: &dyn Process) -> Option<InputState> {
    let (mut pause, longest) = PAUSES;
    loop {
        let state = reads(process).await?;
        if state.waiting < ENOUGH {
            return Some(state);
        }
        tokio::time::sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::super::keyboard::Answers;
    use super::*;
    use crate::journal::Learnt;

    #[test]
    fn of_what_comes_in_the_dark_a_line_is_a_secret_and_the_rest_waits() {
        let learnt = Learnt::default();
        let keyboard = Keyboard::new("one/1: ./go".into(), learnt.clone(), Answers::default());
        let state = InputState { open: true, terminal: None, waiting: 0 };
        let all = b"open-sesame\nrest \xff";
        let write = |bytes: &[u8], hidden| Feeding::Write { bytes: bytes.to_vec(), hidden };
        let (now, later) = keyboard.portion(&state, "Name: ", all);
        assert!(now == write(all, false) && later.is_empty());
        let (now, later) = keyboard.portion(&state, "Password: ", all);
        assert!(now == write(b"open-sesame\n", true) && later == b"rest \xff");
        assert_eq!(learnt.hide("open-sesame rest"), "[masked] rest");
    }
}
