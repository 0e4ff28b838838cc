//! Notices that a job waits for an answer: it is quiet, has taken all of its input, and its output ends with a
//! question, or its terminal is dark (contract R21). What can be seen to wait for something else asks for no secret.
//!
//! A question for a secret that was answered before in the engine's run is answered again; where nobody is there to
//! answer it, the job is ended at once. Never here: what is a question (`prompts`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::entry::{Entry, lock};
use super::handle::Input;
use super::keyboard::{Keyboard, Told, answer, hides};
use super::prompts::{Prompt, PromptKind};
use super::table::JobTable;
use crate::sandbox::Feeding;

/// How long a job has written nothing when it is asked whether it waits.
const QUIET: Duration = Duration::from_millis(150);
/// So often it is asked before words alone, with nobody there to answer them, are taken for a question; and before a
/// pipe is believed to bring no answer.
const PATIENT: u32 = 13;
/// So many bytes of output are looked at for a question.
const TAIL: u64 = 1024;

impl Entry {
    /// The end of what it wrote.
    pub(super) fn tail(&self) -> String {
        let output = lock(&self.output);
        let from = output.ring.written().saturating_sub(TAIL);
        output.ring.read(from, true).text() + output.capture.held()
    }

    /// Whether nobody can answer it now.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.is_nobody() && self.attended.load(Ordering::SeqCst) == 0
    }

    /// How much it wrote, with what is held back, in bytes.
    pub(super) fn written(&self) -> u64 {
        let output = lock(&self.output);
        output.ring.written() + output.capture.held().len() as u64
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
        let tail = self.tail();
        let told = Told { tail, written: self.written() };
        keyboard.put(&*self.process, &told, input).await
    }

    /// What it waits with, when it has been quiet for so many looks.
    async fn question(&self, quiet: u32) -> Option<Asked> {
        let state = self.process.feed(Feeding::Look).await.ok()?;
        // Who reads an input that is closed has been told its end. A terminal can be read on behind that, and where
        // nobody could have answered that is why the job can't go on.
        let alone = self.is_alone();
        let waits = state.open || (alone && state.terminal.is_some());
        if !waits || state.waiting > 0 {
            return None;
        }
        let prompt = Prompt::of(&self.tail(), state.terminal)?;
        let dark = state.terminal.is_some_and(hides);
        let secret = prompt.kind == PromptKind::Secret;
        // Words are no proof that it reads, and nobody is there who could tell. A file or a pipe may be about to bring
        // the answer.
        let fed = state.open && self.alone.no_terminal && !self.alone.no_input;
        let waited = quiet >= PATIENT && (dark || prompt.is_plain());
        if alone && secret && (!dark || fed) && !waited {
            return None;
        }
        // Darkness is none either: it may be at work. Where that can't be told it is believed to read.
        if secret && self.process.feed(Feeding::Inspect).await.ok()?.awaited == Some(false) {
            return None;
        }
        Some(Asked { prompt, unseen: dark || state.terminal.is_none() })
    }
}

/// What a job waits with.
struct Asked {
    prompt: Prompt,
    /// Whether no terminal shows the answer.
    unseen: bool,
}

impl JobTable {
    /// Listens to a job with an open input until it ends.
    pub(super) fn listen(&self, entry: &Arc<Entry>) {
        let (table, entry) = (self.downgrade(), Arc::downgrade(entry));
        tokio::spawn(async move {
            let (mut heard, mut quiet) = (0, 0);
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
                quiet = if written == heard { quiet + 1 } else { 0 };
                let asked = match quiet {
                    0 => None,
                    quiet => entry.question(quiet).await,
                };
                heard = written;
                table.hear(&entry, keyboard, asked).await;
            }
        });
    }

    /// Does what a question asks for, when it is a new one.
    async fn hear(&self, entry: &Arc<Entry>, keyboard: &Keyboard, asked: Option<Asked>) {
        if !keyboard.note(asked.as_ref().map(|asked| asked.prompt.clone())) {
            return;
        }
        let Some(Asked { prompt, unseen }) =
            asked.filter(|asked| asked.prompt.kind == PromptKind::Secret)
        else {
            self.changed(entry);
            return;
        };
        let known = if unseen { keyboard.known(&prompt).await } else { None };
        if let Some(secret) = known {
            // When it can't be written the job has just ended.
            let _ = entry.put(answer(&secret)).await;
        } else if entry.is_alone() {
            let _ = entry.why.set(format!(
                "it asked for a secret ({}), and nobody is there to answer: {}",
                if prompt.text.is_empty() {
                    "its terminal's echo is off"
                } else {
                    prompt.text.as_str()
                },
                entry.alone.advice()
            ));
            self.end(entry).await;
        }
        self.changed(entry);
    }
}
