//! What ties a worker to its operator: the words for it, and what who attaches sees of it.
//!
//! Never here: sockets, screens. What is seen is foreign text, raw; whoever prints it makes it safe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::activity;
use super::history::Call;
use super::more::Questions;
use super::steering::Letters;
use crate::jobs::{Reading, Ring};
use crate::journal::Masker;
use crate::model::chat::{Block, ModelReply};
use crate::model::{Steer, clip};

/// How much of a worker's doings is kept to be seen, in bytes.
const KEPT: usize = 256 << 10;

/// The most bytes of one result, or of one text of the model's, that are shown.
const SHOWN: usize = 2 << 10;

/// What a worker did, as text that only grows. Clones share it.
#[derive(Clone)]
pub struct Scroll(Arc<Shared>);

struct Shared {
    ring: Mutex<Ring>,
    more: Notify,
    masker: Masker,
}

impl Default for Scroll {
    fn default() -> Self {
        Self::new(Masker::default())
    }
}

impl Scroll {
    /// An empty one, which holds none of the masker's secrets.
    pub fn new(masker: Masker) -> Self {
        Self(Arc::new(Shared { ring: Mutex::new(Ring::new(KEPT)), more: Notify::new(), masker }))
    }

    /// Adds a line, or several.
    pub fn say(&self, text: &str) {
        let line = format!("{text}\n");
        self.ring().push(&self.0.masker.mask(line.as_bytes()));
        self.0.more.notify_waiters();
    }

    /// As much of a text as is shown of one. A secret is masked before it is cut, by which it would not be known any more.
    fn brief(&self, text: &str) -> String {
        clip(&self.masked(text), SHOWN).text
    }

    fn masked(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.0.masker.mask(text.as_bytes())).into_owned()
    }

    /// How much was added, in bytes.
    pub fn written(&self) -> u64 {
        self.ring().written()
    }

    /// What was added from `offset` on.
    pub fn read(&self, offset: u64) -> Reading {
        self.ring().read(offset, true)
    }

    /// Waits until more than `offset` bytes were added or `over` holds; who makes it hold calls [`Self::wake`].
    pub async fn beyond(&self, offset: u64, over: impl Fn() -> bool) {
        loop {
            let woken = self.0.more.notified();
            if over() || self.written() > offset {
                return;
            }
            woken.await;
        }
    }

    /// Lets everybody who waits look again.
    pub fn wake(&self) {
        self.0.more.notify_waiters();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's seat. One without an operator hears nothing and shows nothing.
#[derive(Clone, Default)]
pub struct Seat {
    letters: Option<Letters>,
    /// Those of its nested workers.
    questions: Option<Questions>,
    scroll: Option<Scroll>,
    /// What stands before each of its lines: something where it is a nested worker's.
    mark: String,
}

impl Seat {
    /// A seat at which letters arrive, and whose doings are seen.
    pub fn new(letters: Letters, scroll: Scroll) -> Self {
        Self { letters: Some(letters), scroll: Some(scroll), ..Self::default() }
    }

    /// One whose nested workers may ask for more.
    #[must_use]
    pub fn with_questions(self, questions: Questions) -> Self {
        Self { questions: Some(questions), ..self }
    }

    /// The seat of a nested worker: seen with its parent, and spoken to through it alone.
    pub(super) fn nested(&self, number: u32) -> Self {
        let mark = format!("[subtask {number}] ");
        Self { letters: None, mark, ..self.clone() }
    }

    /// The way in which it asks for more than its cap, if it may.
    pub(super) fn questions(&self) -> Option<&Questions> {
        self.questions.as_ref().filter(|_| !self.mark.is_empty())
    }

    /// The words for it, if it hears any.
    pub(super) fn letters(&self) -> Option<&Letters> {
        self.letters.as_ref()
    }

    /// A turn's answer is there.
    pub(super) fn replied(&self, turn: u32, reply: &ModelReply) {
        let texts = reply.blocks.iter().filter_map(|block| match block {
            Block::Text { text } if !text.trim().is_empty() => Some(text.trim()),
            _ => None,
        });
        self.show(&format!("— turn {turn}"));
        texts.for_each(|text| self.show_briefly("", text));
    }

    /// A tool is called.
    pub(super) fn called(&self, call: &Call) {
        self.show(&format!("> {}", activity::describe(&call.name, &call.arguments)));
    }

    /// A tool answered.
    pub(super) fn answered(&self, text: &str, is_error: bool) {
        let mark = if is_error { "! " } else { "" };
        self.show_briefly(mark, text.trim_end());
    }

    /// The engine said something in the conversation.
    pub(super) fn told(&self, text: &str) {
        self.show_briefly("engine: ", text.trim_end());
    }

    /// The operator's word was told.
    pub(super) fn steered(&self, steer: &Steer) {
        self.show(&format!("operator {} ({}): {}", steer.id, steer.from, steer.text));
    }

    /// A text without what who attaches does not get to see.
    pub(super) fn masked(&self, text: &str) -> String {
        let masked = self.scroll.as_ref().map(|scroll| scroll.masked(text));
        masked.unwrap_or_else(|| text.to_owned())
    }

    fn show_briefly(&self, mark: &str, text: &str) {
        let Some(scroll) = &self.scroll else { return };
        self.show(&format!("{mark}{}", scroll.brief(text)));
    }

    fn show(&self, text: &str) {
        let Some(scroll) = &self.scroll else { return };
        match self.mark.is_empty() {
            true => scroll.say(text),
            false => scroll.say(&format!(
                "{}{}",
                self.mark,
                text.replace('\n', &format!("\n{}", self.mark))
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_workers_lines_are_marked_and_a_long_result_is_cut() {
        let (steering, scroll) = (super::super::Steering::default(), Scroll::default());
        let seat = Seat::new(steering.letters(&crate::model::LaneId::of("one", 1)), scroll.clone());
        let nested = seat.nested(2);
        assert!(seat.letters().is_some() && nested.letters().is_none());
        nested.answered("one\ntwo\n", true);
        seat.answered(&"x".repeat(1 << 20), false);
        let text = scroll.read(0).text();
        assert!(text.starts_with("[subtask 2] ! one\n[subtask 2] two\nxxx"), "{}", &text[..80]);
        assert!(text.len() < 2 * SHOWN, "{}", text.len());
        Seat::default().told("nobody looks");
    }

    #[test]
    fn who_attaches_sees_no_secret() {
        let secret = "tokval-55667788";
        let scroll = Scroll::new(Masker::new([secret.to_owned()]));
        let steering = super::super::Steering::default();
        let seat = Seat::new(steering.letters(&crate::model::LaneId::of("one", 1)), scroll.clone());
        // One of them lies where the text is cut.
        for pad in SHOWN - secret.len() - 5..SHOWN {
            seat.answered(&format!("{}{secret} {secret}", "x".repeat(pad)), false);
        }
        seat.told(&format!("say {secret}"));
        scroll.say(secret);
        let text = scroll.read(0).text();
        assert!(text.contains("[masked]") && !text.contains("tokval"), "{text}");
    }
}
