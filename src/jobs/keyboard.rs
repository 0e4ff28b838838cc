//! What is put into a job, and what the job asks for (contracts R16, R19 and R21).
//!
//! Decides whether what is put in is a secret: it is learnt before it is written, and written with a terminal's echo
//! off; and which earlier answer may be given again. Never here: how it comes to the job (`sandbox`), who typed it.

use std::sync::{Arc, Mutex};

use secrecy::{ExposeSecret, SecretString};

use super::entry::lock;
use super::handle::Input;
use super::prompts::{Prompt, PromptKind};
use crate::journal::{Learnt, MIN_LEARNT_BYTES};
use crate::sandbox::{Feeding, InputState, Process, TerminalModes, TerminalSize};

/// What an operator answered to questions for secrets, kept as long as the engine's run. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Vec<Answer>>>);

/// The workspace and the command, then the question.
type Question = (String, String);
/// What the files are that the command may be made of, if that can be told.
type Stamp = Arc<dyn Fn() -> Option<[u8; 32]> + Send + Sync>;

#[derive(Clone)]
struct Answer {
    question: Question,
    secret: SecretString,
    /// The files to which it was given.
    files: [u8; 32],
}

impl Answers {
    fn keep(&self, answer: Answer) {
        self.forget(&answer.question);
        lock(&self.0).push(answer);
    }

    fn forget(&self, question: &Question) {
        lock(&self.0).retain(|known| known.question != *question);
    }

    /// Takes it out: it comes back when it proves right.
    fn take(&self, question: &Question) -> Option<Answer> {
        let mut all = lock(&self.0);
        let at = all.iter().position(|known| known.question == *question)?;
        Some(all.swap_remove(at))
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// One to any question.
    #[cfg(test)]
    pub(super) fn keep_any(&self) {
        self.keep(Answer { question: Question::default(), secret: "any".into(), files: [0; 32] });
    }

    /// Wipes them from memory.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Who a keyboard belongs to.
pub(super) struct Asker {
    /// Whose questions are answered alike: the workspace and the command.
    pub name: String,
    /// What the files are that it may be made of.
    pub stamp: Stamp,
    /// Whether nobody types: lines come from a file or a pipe.
    pub alone: bool,
}

/// What a job has said when something is put into it.
pub(super) struct Told {
    /// The end of what it wrote.
    pub tail: String,
    /// How much it wrote, in bytes.
    pub written: u64,
}

/// The keyboard of one job.
pub(super) struct Keyboard {
    asker: Asker,
    secrets: Learnt,
    answers: Answers,
    /// What the job waits for an answer to.
    asks: Mutex<Option<Prompt>>,
    typed: Mutex<Typed>,
}

/// What was put into a job so far.
#[derive(Default)]
struct Typed {
    /// A secret that has no end yet.
    line: String,
    /// How much the job had written at the last line: what has no new output before it answers no question.
    written: Option<u64>,
    /// Whether the job had its first line, or its input was closed.
    begun: bool,
    /// Questions for secrets that were answered.
    answered: Vec<String>,
    /// Whether a secret was too short to be hidden elsewhere, and nobody was told so.
    short: bool,
    /// The answer to the first of them. It is kept for other jobs when this one ends well.
    first: Option<Answer>,
}

impl Keyboard {
    /// The keyboard of a job of `asker`.
    pub(super) fn new(asker: Asker, secrets: &Learnt, answers: Answers) -> Self {
        let (asks, typed) = Default::default();
        Self { asker, secrets: secrets.of_one_command(), answers, asks, typed }
    }

    /// What is to be hidden in the job's output.
    pub(super) fn secrets(&self) -> &Learnt {
        &self.secrets
    }

    /// What its operator is to be told of what was typed; each is given once.
    pub(super) fn take_note(&self) -> Option<String> {
        std::mem::take(&mut lock(&self.typed).short).then(|| {
            format!(
                "what you typed is shorter than {MIN_LEARNT_BYTES} characters: it is hidden in this command's output \
                 only, and not in other outputs and files"
            )
        })
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

    /// What was answered before to this question by the same command over the same files. Only the first question of a
    /// job is answered so, and before anything else was put in: what asks later may be another program. A question
    /// that comes again was answered wrongly, and what is known to it is forgotten.
    pub(super) async fn known(&self, prompt: &Prompt) -> Option<SecretString> {
        let question = self.question(prompt)?;
        if self.is_wrong(&question) || lock(&self.typed).begun {
            return None;
        }
        let known = self.answers.take(&question)?;
        let same = self.files().await == Some(known.files);
        let mut typed = lock(&self.typed);
        if !same || std::mem::replace(&mut typed.begun, true) {
            return None;
        }
        typed.first = Some(known.clone());
        Some(known.secret)
    }

    /// Whether a question was answered before in this job: wrongly, since it comes again.
    fn is_wrong(&self, question: &Question) -> bool {
        let mut typed = lock(&self.typed);
        let wrong = typed.answered.contains(&question.1);
        if wrong {
            typed.first = None;
            self.answers.forget(question);
        }
        wrong
    }

    fn question(&self, prompt: &Prompt) -> Option<Question> {
        let named = prompt.kind == PromptKind::Secret && !prompt.text.is_empty();
        named.then(|| (self.asker.name.clone(), prompt.text.clone()))
    }

    async fn files(&self) -> Option<[u8; 32]> {
        let stamp = self.asker.stamp.clone();
        tokio::task::spawn_blocking(move || stamp()).await.ok().flatten()
    }

    /// The job is over. What it was told first was right if it ended well.
    pub(super) fn over(&self, well: bool) {
        let mut typed = lock(&self.typed);
        wipe(&mut typed.line);
        if let Some(first) = typed.first.take().filter(|_| well) {
            self.answers.keep(first);
        }
    }

    /// Puts something in.
    ///
    /// # Errors
    /// In words, when it takes none, or no more secrets can be hidden.
    pub(super) async fn put(
        &self,
        process: &dyn Process,
        told: &Told,
        input: Input,
    ) -> Result<(), String> {
        let state = process.feed(Feeding::Look).await?;
        let prompt = Prompt::of(&told.tail, state.terminal);
        let dark = is_dark(&state, prompt.as_ref());
        let mut whole = true;
        let what = match input {
            Input::Close => {
                // What was begun was handed on to the program as it is.
                let begun = std::mem::take(&mut lock(&self.typed).line);
                self.learn(begun)?;
                Feeding::Close
            }
            Input::Secret { text } => {
                self.secret_line(&text, prompt.as_ref()).await?;
                Feeding::Write { bytes: line(&text), hidden: true }
            }
            Input::Submit { text } => {
                if self.is_secret(told.written, &state, prompt.as_ref()) {
                    self.secret_line(&text, prompt.as_ref()).await?;
                }
                Feeding::Write { bytes: line(&text), hidden: dark }
            }
            Input::Write { text } => {
                whole = text.contains(['\n', '\r']);
                if dark {
                    self.keys(&text, prompt.as_ref()).await?;
                }
                Feeding::Write { bytes: text.into_bytes(), hidden: dark }
            }
        };
        if whole {
            let mut typed = lock(&self.typed);
            (typed.begun, typed.written) = (true, Some(told.written));
        }
        process.feed(what).await?;
        if whole {
            self.note(None);
        }
        Ok(())
    }

    /// Whether the next line of a file or a pipe answers a question for a secret, so that it is learnt, and whether
    /// its terminal is dark.
    ///
    /// # Errors
    /// In words, when no more secrets can be hidden.
    pub(super) async fn poured(
        &self,
        line: &str,
        told: &Told,
        state: &InputState,
    ) -> Result<(bool, bool), String> {
        let prompt = Prompt::of(&told.tail, state.terminal);
        let secret = self.is_secret(told.written, state, prompt.as_ref());
        if secret {
            self.secret_line(line.trim_end_matches(['\r', '\n']), prompt.as_ref()).await?;
        }
        let mut typed = lock(&self.typed);
        (typed.begun, typed.written) = (true, Some(told.written));
        Ok((secret, is_dark(state, prompt.as_ref())))
    }

    /// Whether a line is a secret. A terminal's program shows none of the operator's lines while its echo is off; of
    /// lines that nobody types, or without a terminal, the first one behind a question is its answer, and the others
    /// are data. What was begun as a secret is ended as one.
    fn is_secret(&self, written: u64, state: &InputState, prompt: Option<&Prompt>) -> bool {
        let typed = lock(&self.typed);
        let answers = typed.written != Some(written)
            && prompt.is_some_and(|prompt| self.question(prompt).is_some());
        let operator = !self.asker.alone && state.terminal.is_some_and(hides);
        answers || operator || !typed.line.is_empty()
    }

    /// Learns a secret before it is written: what the job makes of it comes later.
    async fn secret_line(&self, text: &str, prompt: Option<&Prompt>) -> Result<(), String> {
        let secret = std::mem::take(&mut lock(&self.typed).line) + text;
        self.learn(secret.clone())?;
        let Some(question) = prompt.and_then(|prompt| self.question(prompt)) else {
            return Ok(());
        };
        if self.is_wrong(&question) {
            return Ok(());
        }
        let first = !lock(&self.typed).begun && !secret.is_empty();
        let files = if first { self.files().await } else { None };
        let mut typed = lock(&self.typed);
        typed.answered.push(question.1.clone());
        if let Some(files) = files {
            typed.first = Some(Answer { question, secret: secret.into(), files });
        }
        Ok(())
    }

    fn learn(&self, secret: String) -> Result<(), String> {
        let secret = SecretString::from(secret);
        if self.secrets.add(secret.expose_secret()) {
            let length = secret.expose_secret().trim().len();
            lock(&self.typed).short |= (1..MIN_LEARNT_BYTES).contains(&length);
            return Ok(());
        }
        Err("so many secrets were typed in this run that no further one can be masked: it was not given to the command"
            .to_owned())
    }

    /// Follows a secret that is typed key by key, as a terminal edits a line; its end makes it known.
    async fn keys(&self, text: &str, prompt: Option<&Prompt>) -> Result<(), String> {
        for key in text.chars() {
            match key {
                '\n' | '\r' => self.secret_line("", prompt).await?,
                '\u{8}' | '\u{7f}' => drop(lock(&self.typed).line.pop()),
                // It hands on what there is of a line.
                '\u{4}' => {}
                // The ends of a line without its use: erased, interrupted, suspended.
                '\u{15}' | '\u{3}' | '\u{1a}' | '\u{1c}' => wipe(&mut lock(&self.typed).line),
                key => lock(&self.typed).line.push(key),
            }
        }
        Ok(())
    }
}

/// Whether what is typed now is a secret: the terminal shows nothing of the line that it waits for, or the
/// question is for one. A program that reads keys with the echo off (an editor, a shell's prompt) echoes them
/// itself, and is believed.
fn is_dark(state: &InputState, prompt: Option<&Prompt>) -> bool {
    state.terminal.is_some_and(hides)
        || prompt.is_some_and(|prompt| prompt.kind == PromptKind::Secret)
}

/// Whether a terminal shows nothing of the line that it waits for.
pub(super) fn hides(modes: TerminalModes) -> bool {
    !modes.echo && modes.canonical
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
            async move { Ok(InputState { open: true, terminal, ..InputState::default() }) }.boxed()
        }
    }

    fn told(tail: &str, written: u64) -> Told {
        Told { tail: tail.to_owned(), written }
    }

    fn submit(text: &str) -> Input {
        Input::Submit { text: text.into() }
    }

    fn secret(text: &str) -> Input {
        Input::Secret { text: text.into() }
    }

    fn asker(name: &str, alone: bool, files: u8) -> Asker {
        Asker { name: name.to_owned(), stamp: Arc::new(move || Some([files; 32])), alone }
    }

    fn keyboard() -> (Keyboard, Learnt, Answers) {
        let (learnt, answers) = (Learnt::default(), Answers::default());
        let asker = asker("lane: ./go", false, 1);
        (Keyboard::new(asker, &learnt, answers.clone()), learnt, answers)
    }

    fn written(process: &Fake) -> Vec<(String, bool)> {
        let shown = |feeding: &Feeding| match feeding {
            Feeding::Write { bytes, hidden } => {
                (String::from_utf8_lossy(bytes).into_owned(), *hidden)
            }
            other => (format!("{other:?}"), false),
        };
        lock(&process.fed).iter().map(shown).collect()
    }

    #[tokio::test]
    async fn what_is_typed_in_the_dark_is_learnt_before_it_is_written() {
        // contract R16 in part: what a job reads is tested with real ones
        // contract R19 in part: that nothing of it is stored is tested with real terminals
        let (keyboard, learnt, _) = keyboard();
        let process = Fake::default();
        process.echo.store(true, Ordering::SeqCst);
        let write = |text: &str| Input::Write { text: text.into() };
        keyboard.put(&process, &told("Name: ", 1), submit("ada")).await.unwrap();
        // The question alone is enough.
        keyboard.put(&process, &told("Password: ", 2), submit("open-sesame")).await.unwrap();
        process.echo.store(false, Ordering::SeqCst);
        keyboard.put(&process, &told("", 3), write("let\u{7f}tmeinX\u{8}")).await.unwrap();
        assert!(!learnt.hide("letmein").contains("masked"), "the line has no end yet");
        keyboard.put(&process, &told("", 3), write("\r")).await.unwrap();
        keyboard.put(&process, &told("", 4), write("never\u{3}gone\n")).await.unwrap();
        keyboard.put(&process, &told("", 5), Input::Close).await.unwrap();
        // A shell's own prompt.
        process.keys.store(true, Ordering::SeqCst);
        keyboard.put(&process, &told("$ ", 6), submit("ls -la")).await.unwrap();
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
    async fn a_short_secret_is_hidden_in_its_own_command_and_said_to_be_nowhere_else() {
        // contract R19 in part: however short it is
        let (keyboard, learnt, _) = keyboard();
        let process = Fake::default();
        for (line, told_of) in [("open-sesame", false), ("417", true), ("", false)] {
            keyboard.put(&process, &told("PIN: ", 1), secret(line)).await.unwrap();
            let note = keyboard.take_note();
            assert_eq!(note.is_some(), told_of, "{line}: {note:?}");
            assert!(keyboard.take_note().is_none(), "once");
        }
        assert_eq!(keyboard.secrets().hide("417 open-sesame"), "[masked] [masked]");
        assert_eq!(learnt.hide("417 open-sesame"), "417 [masked]");
    }

    #[tokio::test]
    async fn a_secret_that_is_ended_in_parts_is_one() {
        // contract R19 in part: what is handed on without a line's end
        let (keyboard, learnt, _) = keyboard();
        let process = Fake::default();
        let question = Prompt::of("Password: ", None);
        for (end, whole) in [(submit("sesame"), "open-sesame"), (secret("up-now"), "open-up-now")] {
            keyboard.note(question.clone());
            let part = Input::Write { text: "open-".into() };
            keyboard.put(&process, &told("Password: ", 1), part).await.unwrap();
            assert_eq!(keyboard.asks(), question, "it waits for the rest");
            keyboard.put(&process, &told("Password: ", 1), end).await.unwrap();
            assert_eq!(keyboard.asks(), None);
            assert_eq!(learnt.hide(whole), "[masked]");
        }
        let part = Input::Write { text: "all-of-it".into() };
        keyboard.put(&process, &told("Password: ", 1), part).await.unwrap();
        keyboard.put(&process, &told("Password: ", 1), Input::Close).await.unwrap();
        assert_eq!(learnt.hide("all-of-it"), "[masked]");
    }

    #[tokio::test]
    async fn of_lines_that_nobody_types_one_answers_a_question_and_the_rest_is_data() {
        // contract R19 in part: only what answers a question is hidden
        let (learnt, answers) = (Learnt::default(), Answers::default());
        let keyboard = Keyboard::new(asker("lane: ./go", true, 1), &learnt, answers);
        let process = Fake::default();
        for (line, written) in [("first-one", 10), ("second-one", 10), ("third-one", 10)] {
            keyboard.put(&process, &told("Password: ", written), submit(line)).await.unwrap();
        }
        // A dark terminal asks for nothing by that.
        keyboard.put(&process, &told("got it\n", 17), submit("fourth-one")).await.unwrap();
        assert_eq!(
            learnt.hide("first-one second-one third-one fourth-one"),
            "[masked] second-one third-one fourth-one"
        );
    }

    #[tokio::test]
    async fn a_secret_that_can_not_be_hidden_is_not_given_away() {
        let (keyboard, learnt, _) = keyboard();
        let process = Fake::default();
        assert!((0..100).any(|number| !learnt.add(&format!("value-{number}"))), "there is an end");
        let refused = keyboard.put(&process, &told("PIN: ", 1), secret("open-sesame")).await;
        assert!(refused.unwrap_err().contains("no further one can be masked"));
        assert!(written(&process).is_empty());
    }

    #[tokio::test]
    async fn an_answer_is_given_again_once_and_forgotten_when_it_is_asked_for_again() {
        // contract R21 in part: the cache
        let (keyboard, learnt, answers) = keyboard();
        let process = Fake::default();
        let words = "[sudo] password for ada: ";
        let prompt = Prompt::of(words, None).unwrap();
        let job =
            |name: &str, files| Keyboard::new(asker(name, false, files), &learnt, answers.clone());
        let right = async || {
            let first = job("lane: ./go", 1);
            first.put(&process, &told(words, 1), secret("open-sesame")).await.unwrap();
            first.over(true);
        };
        keyboard.put(&process, &told(words, 1), secret("open-sesame")).await.unwrap();
        assert!(
            job("lane: ./go", 1).known(&prompt).await.is_none(),
            "nobody knows that it is right"
        );
        assert!(keyboard.known(&prompt).await.is_none(), "it was wrong");
        keyboard.over(true);
        assert!(job("lane: ./go", 1).known(&prompt).await.is_none(), "and is not kept");
        right().await;
        assert!(job("lane: ./stop", 1).known(&prompt).await.is_none(), "another command");
        let begun = job("lane: ./go", 1);
        begun.put(&process, &told("$ ", 1), submit("su")).await.unwrap();
        assert!(begun.known(&prompt).await.is_none(), "another program within it");
        let again = job("lane: ./go", 1);
        let known = again.known(&prompt).await.unwrap();
        assert_eq!(answer(&known), secret("open-sesame"));
        again.put(&process, &told(words, 1), answer(&known)).await.unwrap();
        assert!(again.known(&prompt).await.is_none(), "it was wrong this time");
        again.over(true);
        assert!(job("lane: ./go", 1).known(&prompt).await.is_none(), "and is known no more");
        right().await;
        assert!(job("lane: ./go", 2).known(&prompt).await.is_none(), "over other files");
        right().await;
        let failing = job("lane: ./go", 1);
        assert!(failing.known(&prompt).await.is_some());
        failing.over(false);
        assert!(job("lane: ./go", 1).known(&prompt).await.is_none(), "it did not help");
        right().await;
        assert!(!lock(&answers.0).is_empty());
        answers.clear();
        assert!(lock(&answers.0).is_empty());
    }
}
