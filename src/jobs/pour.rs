//! What comes from a file or a pipe into a job: bytes as they are, no faster than the job reads them.
//!
//! Never here: what is typed (`keyboard`), whose bytes they are.

use std::time::Duration;

use super::entry::Entry;
use super::keyboard::{Keyboard, Told};
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
            let told = Told { tail: self.tail(), written: self.written() };
            let (now, later) = keyboard.portion(&state, &told, rest).await?;
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
    /// What is put in at once, and what comes after it. The answer to a question for a secret is a line of its own.
    async fn portion<'b>(
        &self,
        state: &InputState,
        told: &Told,
        bytes: &'b [u8],
    ) -> Result<(Feeding, &'b [u8]), String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let line = String::from_utf8_lossy(&bytes[..end]);
        let (secret, dark) = self.poured(&line, told, state).await?;
        let (now, later) = bytes.split_at(if secret { end } else { bytes.len() });
        Ok((Feeding::Write { bytes: now.to_vec(), hidden: secret || dark }, later))
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
    use std::sync::Arc;

    use super::super::keyboard::{Answers, Asker};
    use super::*;
    use crate::journal::Learnt;

    #[tokio::test]
    async fn the_answer_to_a_question_is_a_secret_and_the_rest_of_a_pipe_is_data() {
        let learnt = Learnt::default();
        let asker = Asker { name: "one/1: ./go".into(), stamp: Arc::new(|| None), alone: true };
        let keyboard = Keyboard::new(asker, &learnt, Answers::default());
        let state = InputState { open: true, terminal: None, ..InputState::default() };
        let told = |tail: &str, written| Told { tail: tail.to_owned(), written };
        let all = b"open-sesame\nrest \xff";
        let write = |bytes: &[u8], hidden| Feeding::Write { bytes: bytes.to_vec(), hidden };
        let (now, later) = keyboard.portion(&state, &told("Name: ", 6), all).await.unwrap();
        assert!(now == write(all, false) && later.is_empty());
        let (now, later) = keyboard.portion(&state, &told("Password: ", 16), all).await.unwrap();
        assert!(now == write(b"open-sesame\n", true) && later == b"rest \xff");
        // Nothing new was asked.
        let (now, later) = keyboard.portion(&state, &told("Password: ", 16), later).await.unwrap();
        assert!(
            later.is_empty()
                && matches!(now, Feeding::Write { bytes, .. } if bytes == b"rest \xff")
        );
        assert_eq!(learnt.hide("open-sesame rest"), "[masked] rest");
    }
}
