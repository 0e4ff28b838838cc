//! What a model is writing at this moment, in a few words, for the live view (contract R31).
//!
//! Pieces come by the hundred a second; the words are told a few times a second, and once a second while no
//! piece comes, so that the meter beside them is never older. Nothing of this is kept: the reply itself is
//! what counts. The words are foreign text.

use std::time::Duration;

use tokio::time::Instant;

use super::activity;
use crate::model::chat::Delta;

/// How often the words change, at most.
const PACE: Duration = Duration::from_millis(250);

/// How often something is told while a model is silent.
pub const BEAT: Duration = Duration::from_secs(1);

/// How much of a call's arguments is looked at for what the call is about, in bytes.
const HEAD: usize = 2048;

/// How much of the newest text is shown, in characters.
const TAIL: usize = 60;

/// A reply as it comes in.
#[derive(Debug)]
pub struct Live {
    text: Text,
    /// When the last piece came, or the request was made.
    heard: Instant,
    told: Option<Instant>,
    words: String,
}

/// What of the reply is shown.
#[derive(Debug, Default)]
struct Text {
    tool: Option<String>,
    head: String,
    bytes: usize,
    tail: String,
}

impl Live {
    /// For a request that is made at `now`, of which `words` were told.
    pub fn new(words: String, now: Instant) -> Self {
        Self { text: Text::default(), heard: now, told: None, words }
    }

    /// Takes a piece; gives new words when it is time for some.
    pub fn take(&mut self, delta: Delta, now: Instant) -> Option<String> {
        self.heard = now;
        let early = self.told.is_some_and(|told| now < told + PACE);
        let words = self.text.take(delta, early)?;
        self.told = Some(now);
        self.words.clone_from(&words);
        Some(words)
    }

    /// What is told when a second has passed: that the model is silent, unless it is not.
    pub fn silent(&self, now: Instant) -> Option<String> {
        let silence = now.saturating_duration_since(self.heard);
        (silence >= BEAT).then(|| format!("{} (silent for {} s)", self.words, silence.as_secs()))
    }
}

impl Text {
    fn take(&mut self, delta: Delta, early: bool) -> Option<String> {
        match delta {
            Delta::Restarted => {
                *self = Self::default();
                Some("asking again".to_owned())
            }
            Delta::ToolStart { name } => {
                *self = Self { tool: Some(name), ..Self::default() };
                Some(self.call())
            }
            Delta::ToolArguments(text) => {
                self.bytes += text.len();
                let room = HEAD.saturating_sub(self.head.len()).min(text.len());
                let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                self.head.push_str(&text[..end]);
                (!early).then(|| self.call())
            }
            Delta::Text(text) => {
                self.say(&text);
                (!early).then(|| format!("says {}", self.tail))
            }
            Delta::Reasoning(text) => {
                self.say(&text);
                (!early).then(|| format!("thinks {}", self.tail))
            }
        }
    }

    /// For example `writing edit_file src/lib.rs (1234 bytes)`.
    fn call(&self) -> String {
        let name = self.tool.as_deref().unwrap_or("a call");
        let what = activity::describe(name, &self.head);
        match self.bytes {
            0 => format!("writing {what}"),
            bytes => format!("writing {what} ({bytes} bytes)"),
        }
    }

    fn say(&mut self, text: &str) {
        if self.tool.take().is_some() {
            self.tail.clear();
        }
        // A line break in the tail would hide what came before it.
        self.tail.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        if let Some((at, _)) = self.tail.char_indices().rev().nth(TAIL - 1) {
            self.tail.drain(..at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Delta {
        Delta::ToolArguments(text.to_owned())
    }

    // contract R31
    #[test]
    fn arguments_show_as_they_arrive_a_few_times_a_second() {
        let begun = Instant::now();
        let mut live = Live::new("thinking".to_owned(), begun);
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let start = Delta::ToolStart { name: "edit_file".to_owned() };
        assert_eq!(live.take(start, at(0)).as_deref(), Some("writing edit_file"));
        assert_eq!(live.take(arguments("{\"pa"), at(10)), None);
        assert_eq!(live.take(arguments("th\": \"src/l"), at(20)), None);
        let told = live.take(arguments("ib.rs\", \"old\": \""), at(300));
        assert_eq!(told.as_deref(), Some("writing edit_file src/lib.rs (31 bytes)"));
        let mut told = 0;
        for millis in 300..2300 {
            told += u32::from(live.take(arguments("é"), at(millis)).is_some());
        }
        assert_eq!(told, 7);
        assert!(live.text.head.len() <= HEAD);
        let last = live.take(arguments("x"), at(9000));
        assert_eq!(last.as_deref(), Some("writing edit_file src/lib.rs (4032 bytes)"));
    }

    #[test]
    fn text_is_shown_once_also_after_a_try_that_broke_off() {
        let begun = Instant::now();
        let mut live = Live::new("thinking".to_owned(), begun);
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let say = |text: &str| Delta::Text(text.to_owned());
        assert_eq!(live.take(say("I look\n"), at(0)).as_deref(), Some("says I look "));
        assert_eq!(live.take(Delta::Restarted, at(0)).as_deref(), Some("asking again"));
        assert_eq!(live.take(say("I look"), at(1)).as_deref(), Some("says I look"));
        assert_eq!(live.take(say(" at it"), at(2)).as_deref(), Some("says I look at it"));
        let long = live.take(say(&"é".repeat(500)), at(3)).unwrap();
        assert_eq!(long, format!("says {}", "é".repeat(TAIL)));
        let thought = live.take(Delta::Reasoning("hm".to_owned()), at(4)).unwrap();
        assert!(thought.starts_with("thinks ") && thought.ends_with("hm"), "{thought}");
    }

    #[test]
    fn silence_is_told_with_the_last_words() {
        let begun = Instant::now();
        let mut live = Live::new("thinking".to_owned(), begun);
        let at = |millis: u64| begun + Duration::from_millis(millis);
        assert_eq!(live.silent(at(900)), None);
        assert_eq!(live.silent(at(2000)).as_deref(), Some("thinking (silent for 2 s)"));
        live.take(Delta::Text("I look".to_owned()), at(2500)).unwrap();
        assert_eq!(live.silent(at(3000)), None, "it has just spoken");
        assert_eq!(live.silent(at(5600)).as_deref(), Some("says I look (silent for 3 s)"));
    }
}
