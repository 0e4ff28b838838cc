//! Which answer of a script a request gets, and how a scripted judge votes. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;

use super::script::{Answer, JudgeScript, Script, SideScript};
use crate::model::chat::{Block, Message, ModelRequest, Purpose, Role};
use crate::model::{CandidateId, LaneId};

/// Where the second side begins unless a script says otherwise: the heading of the built-in judges'
/// prompt, or a fence whose label says so.
const SECOND: &str = r"(?m)^(#+ SECOND\b|.*UNTRUSTED.*\b(SECOND|second)\b)";

/// The answer with what its placeholders stand for beside captures.
pub(super) struct Chosen<'a> {
    pub answer: Cow<'a, Answer>,
    pub values: BTreeMap<String, String>,
    /// Whether values in the text are escaped for a JSON string.
    pub escape: bool,
}

/// The answer of `script` to this request.
pub(super) fn answer<'a>(script: &'a Script, request: &ModelRequest) -> Result<Chosen<'a>, String> {
    match &request.purpose {
        Purpose::Worker { lane, turn } => worker(script, lane, *turn).map(plain),
        Purpose::Judge { judge, ballot } => {
            let fits = |entry: &&JudgeScript| {
                entry.id.as_ref().is_none_or(|id| id == judge)
                    && entry.ballot.as_ref().is_none_or(|pattern| glob(pattern, ballot))
            };
            let entry = script.judge.iter().find(fits);
            let entry =
                entry.ok_or_else(|| format!("no entry fits judge {judge}, ballot {ballot}"))?;
            vote(entry, ballot, &questions(request))
        }
        Purpose::Skeptic { candidate } => Ok(skeptic(script, candidate)),
        Purpose::Design => {
            let answer = script.design.first().map(|one| plain(&one.reply));
            answer.ok_or_else(|| "no design".to_owned())
        }
        Purpose::Duel { number } => Ok(duel(script, *number)),
        Purpose::Synthesizer { attempt } => {
            let turns = script.synthesizer.first().map(|entry| &entry.turns);
            let answer = turns.and_then(|turns| turns.get(*attempt as usize));
            answer.map(plain).ok_or_else(|| format!("no synthesizer's attempt {attempt}"))
        }
        Purpose::Side { call } => {
            let name = call.name();
            let fits = |side: &&SideScript| side.call.as_ref().is_none_or(|wanted| wanted == name);
            let side = script.side.iter().find(fits);
            side.map(|side| plain(&side.reply)).ok_or_else(|| format!("no side call {name}"))
        }
    }
}

/// The texts of the engine's messages, the newest first: what captures and judges look at.
pub(super) fn questions(request: &ModelRequest) -> Vec<String> {
    let asked = request.messages.iter().rev().filter(|message| message.role != Role::Assistant);
    let text = |message: &Message| {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text } | Block::ToolResult { content: text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    asked.map(text).collect()
}

/// A script that says nothing of skeptics has ones that refute nothing.
fn skeptic<'a>(script: &'a Script, candidate: &CandidateId) -> Chosen<'a> {
    let fits = |wanted: &Option<String>| wanted.as_ref().is_none_or(|id| id == candidate.as_str());
    let entry = script.skeptic.iter().find(|entry| fits(&entry.candidate));
    let answer =
        entry.map_or_else(|| Cow::Owned(nothing_refuted()), |one| Cow::Borrowed(&one.reply));
    Chosen { answer, values: BTreeMap::new(), escape: true }
}

/// A script that says nothing of a duel has nobody who writes its test.
fn duel(script: &Script, number: u32) -> Chosen<'_> {
    let at = (number as usize).saturating_sub(1);
    let declines = || Answer { text: Some("DECLINE".to_owned()), ..Answer::default() };
    let entry = script.duel.get(at);
    let answer = entry.map_or_else(|| Cow::Owned(declines()), |one| Cow::Borrowed(&one.reply));
    Chosen { answer, values: BTreeMap::new(), escape: false }
}

fn nothing_refuted() -> Answer {
    let nonce = ("nonce".to_owned(), r#""nonce": "([^"]+)""#.to_owned());
    Answer {
        text: Some(r#"{"nonce": "{nonce}", "refuted": []}"#.to_owned()),
        capture: [nonce].into(),
        ..Answer::default()
    }
}

fn plain(answer: &Answer) -> Chosen<'_> {
    Chosen { answer: Cow::Borrowed(answer), values: BTreeMap::new(), escape: false }
}

fn worker<'a>(script: &'a Script, lane: &LaneId, turn: u32) -> Result<&'a Answer, String> {
    let id = lane.as_str();
    let name = id.rsplit_once('/').map_or(id, |(name, _)| name);
    let fits = |wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| wanted == id || wanted == name)
    };
    let entry = script.worker.iter().find(|entry| fits(&entry.lane));
    let entry = entry.ok_or_else(|| format!("no worker fits lane {id}"))?;
    entry.turns.get(turn as usize).ok_or_else(|| format!("lane {id} has no turn {turn}"))
}

fn vote<'a>(
    entry: &'a JudgeScript,
    ballot: &str,
    questions: &[String],
) -> Result<Chosen<'a>, String> {
    let attempt = ballot.rsplit(':').next().and_then(|last| last.parse::<usize>().ok());
    if let Some(broken) = entry.broken.get(attempt.unwrap_or(0)) {
        let answer = Answer { text: Some(broken.clone()), ..entry.reply.clone() };
        return Ok(Chosen { answer: Cow::Owned(answer), values: BTreeMap::new(), escape: true });
    }
    let (choice, quote) = match &entry.always {
        Some(always) => (always.as_str(), ""),
        None => preferred(entry, questions)?,
    };
    let values = [("choice".to_owned(), choice.to_owned()), ("quote".to_owned(), quote.to_owned())];
    Ok(Chosen { answer: Cow::Borrowed(&entry.reply), values: values.into(), escape: true })
}

/// The side that alone holds the most preferred text, and that text.
fn preferred<'a>(
    entry: &'a JudgeScript,
    questions: &[String],
) -> Result<(&'static str, &'a str), String> {
    let pattern = entry.second.as_deref().unwrap_or(SECOND);
    let matcher = RegexMatcher::new(pattern).map_err(|error| error.to_string())?;
    let sides = questions.iter().find_map(|question| {
        let found = matcher.find(question.as_bytes()).ok()??;
        question.split_at_checked(found.start())
    });
    let (first, second) =
        sides.ok_or_else(|| format!("nothing in the request matches `second = {pattern:?}`"))?;
    let verdict = entry.prefer.iter().find_map(|text| {
        match (first.contains(text.as_str()), second.contains(text.as_str())) {
            (true, false) => Some(("first", text.as_str())),
            (false, true) => Some(("second", text.as_str())),
            _ => None,
        }
    });
    Ok(verdict.unwrap_or(("tie", "")))
}

/// Whether `text` fits `pattern`, in which `*` stands for any number of characters.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|tail| {
            let ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            ends.into_iter().any(|at| glob(rest, &tail[at..]))
        }),
    }
}
