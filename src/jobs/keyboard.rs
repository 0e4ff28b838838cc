//! What is put into a job, and what the job asks for (contracts R16, R19 and R21).
//!
//! Decides whether what is typed is a secret: it is learnt before it is written, and written with a terminal's echo
//! off. Never here: how it comes to the job (`sandbox`), who typed it.

use std::sync::{Arc, Mutex};

use secrecy::{ExposeSecret, SecretString};

use super::entry::lock;
use super::handle::Input;
use super::prompts::{Prompt, PromptKind};
use crate::journal::Learnt;
use crate::sandbox::{Feeding, InputState, Process, TerminalModes, TerminalSize};

/// What an operator answered to questions for secrets, kept as long as the engine's run: the same question of
/// the same command in the same workspace is answered again. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Vec<Answer>>>);

struct Answer {
    /// The workspace and the command, then the question.
    question: (String, String),
    secret: SecretString,
}

impl Answers {
    fn keep(&self, question: (String, String), secret: &str) {
        self.forget(&question);
        lock(&self.0).push(Answer { question, secret: secret.into() });
    }

    fn forget(&self, question: &(String, String)) {
        lock(&self.0).retain(|known| known.question != *question);
    }

    fn find(&self, question: &(String, String)) -> Option<SecretString> {
        let all = lock(&self.0);
        all.iter().find(|known| known.question == *question).map(|known| known.secret.clone())
    }

    /// Wipes them from memory.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// The keyboard of one job.
pub(super) struct Keyboard {
    /// Whose questions are answered alike: the workspace and the command.
    asker: String,
    secrets: Learnt,
    answers: Answers,
    /// A secret that is being typed key by key.
    line: Mutex<String>,
    /// What the job waits for an answer to.
    asks: Mutex<Option<Prompt>>,
    /// Questions that were answered without the operator.
    answered: Mutex<Vec<String>>,
}

impl Keyboard {
    /// The keyboard of a job of `asker`.
    pub(super) fn new(asker: String, secrets: Learnt, answers: Answers) -> Self {
        let (line, asks, answered) = Default::default();
        Self { asker, secrets, answers, line, asks, answered }
    }

    /// What the job waits for an answer to.
    pub(super) fn asks(&self) -> Option<Prompt> {
        lock(&self.asks).clone()
    }

    /// Notes what the job waits with; whether that is something else than before.
    pub(super) fn note(&self, prompt: Option<Prompt>) -> bool {
        let mut asks = lock(&self.asks);
        let changed = *asks != prompt;
        *asks = prompt;
        changed
    }

    /// What was answered before to this question. It is given to a job once: a job that asks again has not
    /// taken it, and then it is forgotten.
    pub(super) fn known(&self, prompt: &Prompt) -> Option<SecretString> {
        let question = (self.asker.clone(), prompt.text.clone());
        if prompt.kind != PromptKind::Secret || prompt.text.is_empty() {
            return None;
        }
        let mut answered = lock(&self.answered);
        if answered.contains(&prompt.text) {
            self.answers.forget(&question);
            return None;
        }
        let known = self.answers.find(&question)?;
        answered.push(prompt.text.clone());
        Some(known)
    }

    /// Puts something in. `tail` is the end of what the job wrote.
    pub(super) async fn put(
        &self,
        process: &dyn Process,
        tail: &str,
        input: Input,
    ) -> Result<(), String> {
        let state = process.feed(Feeding::Look).await?;
        let prompt = Prompt::of(tail, state.terminal);
        let dark = is_dark(&state, prompt.as_ref());
        let what = match input {
            Input::Close => Feeding::Close,
            Input::Secret { text } => self.secret_line(&text, prompt.as_ref()),
            Input::Submit { text } if dark => self.secret_line(&text, prompt.as_ref()),
            Input::Submit { text } => Feeding::Write { bytes: line(&text), hidden: false },
            Input::Write { text } => {
                if dark {
                    self.keys(&text, prompt.as_ref());
                }
                Feeding::Write { bytes: text.into_bytes(), hidden: dark }
            }
        };
        process.feed(what).await?;
        self.note(None);
        Ok(())
    }

    /// Whether what comes now is a secret.
    pub(super) fn in_the_dark(&self, state: &InputState, tail: &str) -> bool {
        is_dark(state, Prompt::of(tail, state.terminal).as_ref())
    }

    /// Learns what comes in the dark, before it is written.
    pub(super) fn typed_unseen(&self, text: &str, tail: &str, state: &InputState) {
        self.keys(text, Prompt::of(tail, state.terminal).as_ref());
    }

    fn secret_line(&self, text: &str, prompt: Option<&Prompt>) -> Feeding {
        self.learn(text, prompt);
        Feeding::Write { bytes: line(text), hidden: true }
    }

    /// Learns a secret before it is written: what the job makes of it comes later.
    fn learn(&self, secret: &str, prompt: Option<&Prompt>) {
        self.secrets.add(secret);
        if let Some(prompt) = prompt.filter(|one| !one.text.is_empty() && !secret.is_empty()) {
            self.answers.keep((self.asker.clone(), prompt.text.clone()), secret);
        }
    }

    /// Follows a secret that is typed key by key, as a terminal edits a line; its end makes it known.
    fn keys(&self, text: &str, prompt: Option<&Prompt>) {
        let mut typed = lock(&self.line);
        for key in text.chars() {
            match key {
                '\n' | '\r' => {
                    self.learn(&typed, prompt);
                    wipe(&mut typed);
                }
                '\u{8}' | '\u{7f}' => drop(typed.pop()),
                // The ends of a line without its use: erased, interrupted, closed, suspended.
                '\u{15}' | '\u{3}' | '\u{4}' | '\u{1a}' | '\u{1c}' => wipe(&mut typed),
                key => typed.push(key),
            }
        }
    }
}

/// Whether what is typed now is a secret: the terminal shows nothing of the line that it waits for, or the
/// question is for one. A program that reads keys with the echo off (an editor, a shell's prompt) echoes them
/// itself, and is believed.
fn is_dark(state: &InputState, prompt: Option<&Prompt>) -> bool {
    let dark = |modes: TerminalModes| !modes.echo && modes.canonical;
    state.terminal.is_some_and(dark)
        || prompt.is_some_and(|prompt| prompt.kind == PromptKind::Secret)
}

fn line(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\n"].concat()
}

fn wipe(text: &mut String) {
    // Its memory is overwritten when it goes.
    drop(SecretString::from(std::mem::take(text)));
}

/// A size as the sandbox takes it.
pub(super) fn terminal_size(size: super::handle::Size) -> TerminalSize {
    // Nobody can read on less.
    TerminalSize { rows: size.rows.max(1), columns: size.columns.max(1) }
}

/// A secret as an input.
pub(super) fn answer(secret: &SecretString) -> Input {
    Input::Secret { text: secret.expose_secret().to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::sandbox::{JobExit, Reaped, SandboxError};

    /// A process that keeps what is done with its input.
    #[derive(Default)]
    struct Fake {
        echo: AtomicBool,
        keys: AtomicBool,
        fed: Mutex<Vec<Feeding>>,
    }

    impl Process for Fake {
        fn is_live(&self) -> bool {
            true
        }

        fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>> {
            std::future::pending().boxed()
        }

        fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>> {
            async { Ok(Reaped::default()) }.boxed()
        }

        fn feed(&self, what: Feeding) -> BoxFuture<'_, Result<InputState, String>> {
            if what != Feeding::Look {
                lock(&self.fed).push(what);
            }
            let echo = self.echo.load(Ordering::SeqCst);
            let canonical = !self.keys.load(Ordering::SeqCst);
            let terminal = Some(TerminalModes { echo, canonical });
            async move { Ok(InputState { open: true, terminal, waiting: 0 }) }.boxed()
        }
    }

    fn keyboard() -> (Keyboard, Learnt, Answers) {
        let (learnt, answers) = (Learnt::default(), Answers::default());
        (Keyboard::new("lane: ./go".into(), learnt.clone(), answers.clone()), learnt, answers)
    }

    fn written(process: &Fake) -> Vec<(String, bool)> {
        let told = |feeding: &Feeding| match feeding {
            Feeding::Write { bytes, hidden } => {
                (String::from_utf8_lossy(bytes).into_owned(), *hidden)
            }
            other => (format!("{other:?}"), false),
        };
        lock(&process.fed).iter().map(told).collect()
    }

    #[tokio::test]
    async fn what_is_typed_in_the_dark_is_learnt_before_it_is_written() {
        // contract R16 in part: what a job reads is tested with real ones
        // contract R19 in part: that nothing of it is stored is tested with real terminals
        let (keyboard, learnt, _) = keyboard();
        let process = Fake::default();
        process.echo.store(true, Ordering::SeqCst);
        let submit = |text: &str| Input::Submit { text: text.into() };
        let write = |text: &str| Input::Write { text: text.into() };
        keyboard.put(&process, "Name: ", submit("ada")).await.unwrap();
        // The question alone is enough.
        keyboard.put(&process, "Password: ", submit("open-sesame")).await.unwrap();
        process.echo.store(false, Ordering::SeqCst);
        keyboard.put(&process, "", write("let\u{7f}tmeinX\u{8}")).await.unwrap();
        assert!(!learnt.hide("letmein").contains("masked"), "the line has no end yet");
        keyboard.put(&process, "", write("\r")).await.unwrap();
        keyboard.put(&process, "", write("never\u{3}gone\n")).await.unwrap();
        keyboard.put(&process, "", Input::Close).await.unwrap();
        // A shell's own prompt.
        process.keys.store(true, Ordering::SeqCst);
        keyboard.put(&process, "$ ", submit("ls -la")).await.unwrap();
        let expected = [
            ("ada\n", false),
            ("open-sesame\n", true),
            ("let\u{7f}tmeinX\u{8}", true),
            ("\r", true),
            ("never\u{3}gone\n", true),
            ("Close", false),
            ("ls -la\n", false),
        ];
        assert_eq!(written(&process), expected.map(|(text, hidden)| (text.to_owned(), hidden)));
        let hidden = learnt.hide("ada open-sesame letmein never gone ls -la");
        assert_eq!(hidden, "ada [masked] [masked] never [masked] ls -la");
    }

    #[tokio::test]
    async fn an_answer_is_given_again_once_and_forgotten_when_it_is_asked_for_again() {
        // contract R21 in part: the cache
        let (keyboard, learnt, answers) = keyboard();
        let process = Fake::default();
        let prompt = Prompt::of("[sudo] password for ada: ", None).unwrap();
        let secret = Input::Secret { text: "open-sesame".into() };
        keyboard.put(&process, "[sudo] password for ada: ", secret).await.unwrap();
        let again = Keyboard::new("lane: ./go".into(), learnt.clone(), answers.clone());
        let other = Keyboard::new("lane: ./stop".into(), learnt, answers.clone());
        assert!(other.known(&prompt).is_none(), "another command's question is another one");
        let known = again.known(&prompt).unwrap();
        assert_eq!(answer(&known), Input::Secret { text: "open-sesame".into() });
        assert!(again.known(&prompt).is_none(), "it was wrong");
        assert!(keyboard.known(&prompt).is_none(), "and is known no more");
        keyboard.put(&process, "Token: ", Input::Secret { text: "t-1234".into() }).await.unwrap();
        answers.clear();
        assert!(lock(&answers.0).is_empty());
    }
}
