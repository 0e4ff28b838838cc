//! Whether a job waits for an answer: what its output ends with, and what it has made of its terminal
//! (contract R21).
//!
//! Pure. Never here: who answers.

use serde::{Deserialize, Serialize};

use super::keyboard::hides;
use crate::model::printable;
use crate::sandbox::TerminalModes;

/// The most of a question that is shown, in characters.
const LONGEST: usize = 200;

/// A question that a job waits for an answer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// What it asks for.
    pub kind: PromptKind,
    /// Its words, fit for a terminal: one line, foreign.
    pub text: String,
}

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// Something that nobody else may see.
    Secret,
    /// A yes or a no.
    Confirm,
}

/// Words that stand in a question for a secret.
const SECRETS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "pass phrase",
    "passcode",
    "pin",
    "secret",
    "token",
    "otp",
    "api key",
    "verification code",
    "one-time code",
];

/// Those of them that stand for little else.
const PLAIN: [&str; 6] = ["password", "passwd", "passphrase", "pass phrase", "passcode", "pin"];

/// How a question for a yes or a no ends.
const CONFIRMS: [&str; 8] = [
    "[y/n]",
    "(y/n)",
    "[yes/no]",
    "(yes/no)",
    "[n/y]",
    "(y/n/a)",
    "(yes/no/[fingerprint])",
    "[y/n/q]",
];

impl Prompt {
    /// Whether its words alone leave hardly a doubt that a password is asked for, where no terminal is dark.
    pub(super) fn is_plain(&self) -> bool {
        let lower = self.text.to_lowercase();
        lower.ends_with(':') && PLAIN.iter().any(|word| holds_word(&lower, word))
    }

    /// The question that a job waits with: `tail` is the end of its output, `modes` what its terminal is
    /// set to, if it has one. That it waits is for the caller to know.
    pub fn of(tail: &str, modes: Option<TerminalModes>) -> Option<Self> {
        let line = tail.rsplit('\n').next().unwrap_or_default();
        let text = printable::line(line);
        let text = text.trim();
        let dark = modes.is_some_and(hides);
        let kind = match kind_of(text) {
            Some(kind) => kind,
            None if dark => PromptKind::Secret,
            None => return None,
        };
        let skipped = text.chars().count().saturating_sub(LONGEST);
        Some(Self { kind, text: text.chars().skip(skipped).collect() })
    }
}

/// What a line without an end asks for.
fn kind_of(text: &str) -> Option<PromptKind> {
    let lower = text.to_lowercase();
    let bare = lower.trim_end_matches(['?', ':', '>', ' ']);
    if CONFIRMS.iter().any(|end| bare.ends_with(end)) {
        return Some(PromptKind::Confirm);
    }
    let asks = lower.ends_with([':', '?', '>']);
    (asks && SECRETS.iter().any(|word| holds_word(&lower, word))).then_some(PromptKind::Secret)
}

/// Whether a word stands in a text on its own.
fn holds_word(text: &str, word: &str) -> bool {
    let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        apart(before.chars().next_back()) && apart(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(tail: &str) -> Option<PromptKind> {
        Prompt::of(tail, None).map(|prompt| prompt.kind)
    }

    #[test]
    fn questions_are_told_from_output() {
        // contract R21 in part: the detector
        for secret in [
            "[sudo] password for root: ",
            "Enter passphrase for key '.ssh/id_rsa': ",
            "building\nPassword for 'https://me@example.org': ",
            "Enter PEM pass phrase:",
            "\u{1b}[1mPassword:\u{1b}[0m ",
            "PIN: ",
            "Verification code: ",
            "Enter your API key> ",
            "Password (again)? ",
        ] {
            assert_eq!(kind(secret), Some(PromptKind::Secret), "{secret:?}");
        }
        for confirm in
            ["Continue? [y/N] ", "Remove it (y/n)? ", "Proceed ([y]/n)? (yes/no): ", "ok [Y/n]:"]
        {
            assert_eq!(kind(confirm), Some(PromptKind::Confirm), "{confirm:?}");
        }
        for other in [
            "",
            "$ ",
            "Password: hidden\n",
            "checking password",
            "passwords are hashed",
            "spinning: ",
            "Name: ",
            "tokenizer: ",
            "Scanning for leaked secrets: ",
            "[y/N] was answered with y",
        ] {
            assert_eq!(kind(other), None, "{other:?}");
        }
    }

    #[test]
    fn words_that_may_head_a_result_are_no_plain_question() {
        let plain = |tail| Prompt::of(tail, None).is_some_and(|prompt| prompt.is_plain());
        assert!(plain("Password: ") && plain("[sudo] password for ada: ") && plain("PIN:"));
        assert!(!plain("Reading the token: ") && !plain("Password? ") && !plain("Secret: "));
    }

    #[test]
    fn a_terminal_without_echo_waits_for_a_secret_unless_its_program_reads_keys() {
        let modes = |echo, canonical| Some(TerminalModes { echo, canonical });
        let prompt = Prompt::of("Who goes there? ", modes(false, true)).unwrap();
        assert_eq!((prompt.kind, prompt.text.as_str()), (PromptKind::Secret, "Who goes there?"));
        assert_eq!(Prompt::of("", modes(false, true)).unwrap().text, "");
        assert_eq!(Prompt::of(">>> ", modes(false, false)), None);
        assert_eq!(Prompt::of("Name: ", modes(true, true)), None);
        let long = format!("{}Password: ", "x ".repeat(500));
        assert_eq!(Prompt::of(&long, None).unwrap().text.chars().count(), LONGEST);
    }
}
