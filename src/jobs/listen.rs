//! Notices that a job waits for an answer: it is quiet, has taken all of its input, and its output ends with a
//! question, or its terminal is dark (contract R21).
//!
//! A question for a secret that was answered before in the engine's run is answered again; where nobody is there to
//! answer it, the job is ended at once. Never here: what is a question (`prompts`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::entry::{Entry, lock};
use super::handle::Input;
use super::keyboard::{Keyboard, answer};
use super::prompts::{Prompt, PromptKind};
use super::table::JobTable;
use crate::sandbox::Feeding;

/// How long a job has written nothing when it is asked whether it waits.
const QUIET: Duration = Duration::from_millis(150);
/// So many bytes of output are looked at for a question.
const TAIL: u64 = 1024;

impl Entry {
    /// The end of what it wrote.
    pub(super) fn tail(&self) -> String {
        let output = lock(&self.output);
        let from = output.ring.written().saturating_sub(TAIL);
        output.ring.read(from, true).text() + output.capture.held()
    }

    /// Puts something in.
    ///
    /// # Errors
    /// In words, when it takes no input or no more.
    pub(super) async fn put(&self, input: Input) -> Result<(), String> {
        let Some(keyboard) = &self.keyboard else {
            return Err(format!("{} takes no input: it was started without one", self.id));
        };
        if !self.process.is_live() {
            // Its descriptors are closed; that its input ends is no error.
            return match input {
                Input::Close => Ok(()),
                _ => Err(format!("{} has ended", self.id)),
            };
        }
        keyboard.put(&*self.process, &self.tail(), input).await
    }

    /// What it waits with, when it is quiet.
    async fn question(&self) -> Option<Prompt> {
        // A job that is over waits for nothing. One whose input is closed does neither, but where nobody could have
        // answered that is why it can't go on.
        let state = self.process.feed(Feeding::Look).await.ok()?;
        if !(state.open || self.alone) || state.waiting > 0 {
            return None;
        }
        Prompt::of(&self.tail(), state.terminal)
    }
}

impl JobTable {
    /// Listens to a job with an open input until it ends.
    pub(super) fn listen(&self, entry: &Arc<Entry>) {
        let (table, entry) = (self.downgrade(), Arc::downgrade(entry));
        tokio::spawn(async move {
            let mut heard = 0;
            loop {
                tokio::time::sleep(QUIET).await;
                let Some((entry, table)) = Weak::upgrade(&entry).zip(table.upgrade()) else {
                    return;
                };
                let Some(keyboard) = entry.keyboard.as_ref().filter(|_| entry.process.is_live())
                else {
                    return;
                };
                let written = lock(&entry.output).ring.written();
                let prompt = match written == heard {
                    true => entry.question().await,
                    false => None,
                };
                heard = written;
                table.hear(&entry, keyboard, prompt).await;
            }
        });
    }

    /// Does what a question asks for, when it is a new one.
    async fn hear(&self, entry: &Arc<Entry>, keyboard: &Keyboard, prompt: Option<Prompt>) {
        if !keyboard.note(prompt.clone()) {
            return;
        }
        let Some(prompt) = prompt.filter(|prompt| prompt.kind == PromptKind::Secret) else {
            self.woken();
            return;
        };
        if let Some(secret) = keyboard.known(&prompt) {
            // When it can't be written the job has just ended.
            let _ = entry.put(answer(&secret)).await;
        } else if entry.alone {
            let _ = entry.why.set(format!(
                "it asked for a secret ({}), and nobody is there to answer: start it from a terminal, without \
                 --no-input, or give it the secret in another way",
                if prompt.text.is_empty() { "its terminal's echo is off" } else { prompt.text.as_str() }
            ));
            self.end(entry).await;
        }
        self.woken();
    }
}
