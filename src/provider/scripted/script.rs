//! The format of scripts: TOML, or JSON of the same shape.
//!
//! `docs/scripted-models.md` has a whole example, which a test runs. In short: `version = 1`;
//! `[[worker]]` with `lane` and `[[worker.turns]]`; `[[judge]]` with `id`, `ballot`, `prefer` or `always`,
//! `second`, `broken` and `[judge.reply]`; `[[design]]` and `[[duel]]` with a `reply` each; `[[synthesizer]]` with `[[synthesizer.turns]]`; `[[side]]` with `call` and `[side.reply]`. Turns and replies are
//! [`Answer`]s. The first entry that fits answers. Never here: which one that is.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::provider::ErrorClass;

/// The only version of the format so far.
const VERSION: u32 = 1;

/// Why a script can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file could not be read.
    #[error("the script {path} could not be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It does not have the form that is documented in `docs/scripted-models.md`.
    #[error("the script is malformed: {0}")]
    Malformed(String),
}

/// A whole script.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The format's version: 1.
    pub version: u32,
    /// Workers' conversations; the first that fits answers.
    #[serde(default)]
    pub worker: Vec<WorkerScript>,
    /// Judges' ballots; the first that fits answers.
    #[serde(default)]
    pub judge: Vec<JudgeScript>,
    /// Skeptics' answers; the first that fits answers. Without one nothing is refuted.
    #[serde(default)]
    pub skeptic: Vec<SkepticScript>,
    /// The design step's answer; the first entry answers.
    #[serde(default)]
    pub design: Vec<ReplyScript>,
    /// Duels' tests, the first for the first duel. A duel without one gets no test.
    #[serde(default)]
    pub duel: Vec<ReplyScript>,
    /// The synthesizer's attempts; the first entry answers.
    #[serde(default)]
    pub synthesizer: Vec<SynthesizerScript>,
    /// Side calls; the first entry that fits answers.
    #[serde(default)]
    pub side: Vec<SideScript>,
}

/// An answer that needs nothing else.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReplyScript {
    /// The reply.
    pub reply: Answer,
}

/// What a side call is answered.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SideScript {
    /// Which one (`title`, `capsule`); `None` fits both.
    #[serde(default)]
    pub call: Option<String>,
    /// The reply.
    pub reply: Answer,
}

/// One worker's conversation.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct WorkerScript {
    /// The lane's name or one attempt's id; `None` fits every lane.
    #[serde(default)]
    pub lane: Option<String>,
    /// The answers by turn.
    pub turns: Vec<Answer>,
}

/// How a judge votes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct JudgeScript {
    /// The judge's id; `None` fits every judge.
    #[serde(default)]
    pub id: Option<String>,
    /// A pattern of the ballot (`*` stands for anything); `None` fits every ballot.
    #[serde(default)]
    pub ballot: Option<String>,
    /// Texts in the order of preference.
    #[serde(default)]
    pub prefer: Vec<String>,
    /// A fixed choice: `first`, `second` or `tie`.
    #[serde(default)]
    pub always: Option<String>,
    /// A regular expression that matches where the second side begins.
    #[serde(default)]
    pub second: Option<String>,
    /// What is answered on the first attempts of a ballot, before the reply.
    #[serde(default)]
    pub broken: Vec<String>,
    /// The reply.
    pub reply: Answer,
}

/// What a skeptic answers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SkepticScript {
    /// The candidate's id; `None` fits every candidate.
    #[serde(default)]
    pub candidate: Option<String>,
    /// The reply.
    pub reply: Answer,
}

/// The synthesizer's attempts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SynthesizerScript {
    /// The answers by attempt.
    pub turns: Vec<Answer>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What the model says.
    #[serde(default)]
    pub text: Option<String>,
    /// What it thinks.
    #[serde(default)]
    pub reasoning: Option<String>,
    /// The tools that it calls.
    #[serde(default)]
    pub calls: Vec<ToolCall>,
    /// Why it stops; by default `tool_use` with calls and `end_turn` without.
    #[serde(default)]
    pub stop: Option<String>,
    /// What is counted; nothing by default.
    #[serde(default)]
    pub usage: Option<Counted>,
    /// How long the answer takes, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Errors that are given once each before the answer.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// An error that is given always.
    #[serde(default)]
    pub error: Option<Fault>,
    /// Names and the regular expressions whose first group gives their values.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
}

/// A tool call of an answer.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// A table that becomes JSON, or the text itself, which may be invalid JSON.
    pub arguments: Value,
    /// The call's id; made from turn and place by default.
    #[serde(default)]
    pub id: Option<String>,
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Input that was in no cache.
    #[serde(default)]
    pub input: u64,
    /// Output.
    #[serde(default)]
    pub output: u64,
    /// Input read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input written to a cache.
    #[serde(default)]
    pub cache_write: u64,
}

/// An error of a script.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its class, by the name that records use.
    pub class: String,
    /// What the server says.
    #[serde(default)]
    pub message: Option<String>,
    /// How long it asks to wait, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

impl ToolCall {
    /// The arguments' text.
    pub(super) fn arguments(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }
}

impl Script {
    /// Reads a script file.
    ///
    /// # Errors
    /// When it can't be read or is malformed; the message says where.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: shown.clone(), source })?;
        Self::parse(&text).map_err(|error| match error {
            ScriptError::Malformed(why) => ScriptError::Malformed(format!("{shown}: {why}")),
            other => other,
        })
    }

    /// Reads a script: JSON when it begins with a brace, TOML otherwise.
    ///
    /// # Errors
    /// When it is malformed; the message says where.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let script: Self = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| error.to_string()),
            false => toml::from_str(text).map_err(|error| error.to_string()),
        }
        .map_err(ScriptError::Malformed)?;
        script.check().map_err(ScriptError::Malformed)?;
        Ok(script)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} is not known; write `version = 1`", self.version));
        }
        for answer in self.answers() {
            let faults = answer.faults.iter().chain(&answer.error);
            for fault in faults {
                if ErrorClass::from_name(&fault.class).is_none() {
                    return Err(format!("no error class is called {:?}", fault.class));
                }
            }
            answer.capture.values().try_for_each(|pattern| pattern_is_good(pattern))?;
        }
        for judge in &self.judge {
            if let Some(always) = &judge.always
                && !["first", "second", "tie"].contains(&always.as_str())
            {
                return Err(format!("`always = {always:?}` is not first, second or tie"));
            }
            judge.second.iter().try_for_each(|pattern| pattern_is_good(pattern))?;
        }
        Ok(())
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        let workers = self.worker.iter().flat_map(|worker| &worker.turns);
        let judges = self.judge.iter().map(|judge| &judge.reply);
        let skeptics = self.skeptic.iter().map(|skeptic| &skeptic.reply);
        let plain = self.design.iter().chain(&self.duel).map(|one| &one.reply);
        let judges = judges.chain(skeptics).chain(plain);
        let synths = self.synthesizer.iter().flat_map(|synth| &synth.turns);
        workers.chain(judges).chain(synths).chain(self.side.iter().map(|side| &side.reply))
    }
}

fn pattern_is_good(pattern: &str) -> Result<(), String> {
    let bad = |error| format!("{pattern:?} is no regular expression: {error}");
    grep_regex::RegexMatcher::new(pattern).map(drop).map_err(bad)
}
