//! A candidate of a pool: its voice, its diff and what is known of its outcome.
//!
//! A field may have any of the names that harnesses give it; a value that means nothing is refused, so
//! that no table counts it. Never here: files.

use serde_json::{Map, Value};

use crate::config::maker;
use crate::model::Family;

/// Whose voice a diff is. A row that names its `family` keeps it in all but `System`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// The agent.
    #[default]
    Agent,
    /// The agent with its model's maker.
    Maker,
    /// Every system for itself.
    System,
}

/// A diff with what is known of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The agent with its model, as the pool names it.
    pub system: String,
    /// Its voice.
    pub family: Family,
    /// The diff; empty when the row has none.
    pub patch: Vec<u8>,
    /// Whether it resolves the task; `None` when the pool does not say.
    pub right: Option<bool>,
}

/// The first of the fields that holds a text or a number.
pub(super) fn word(map: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match map.get(*name)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// A candidate as its fields tell; `at` is its number among its task's. What they can't mean is an error.
pub(super) fn row(map: &Map<String, Value>, families: Families, at: usize) -> Result<Row, String> {
    let agent = word(map, &["agent"]);
    let model = word(map, &["model"]);
    let joined = agent.as_ref().map(|agent| match &model {
        Some(model) => format!("{agent}-{model}"),
        None => agent.clone(),
    });
    let system = word(map, &["system", "model_name_or_path"]).or(joined);
    let system = system.unwrap_or_else(|| "unknown".to_owned());
    let agent = agent.unwrap_or_else(|| system.clone());
    let family = match (families, word(map, &["family"]), model) {
        (Families::System, ..) => system.clone(),
        (_, Some(named), _) => named,
        (Families::Maker, None, Some(model)) => format!("{agent}+{}", maker(&model, &model)),
        _ => agent,
    };
    Ok(Row {
        id: word(map, &["cand_id", "candidate_id", "id"]).unwrap_or_else(|| format!("#{at}")),
        system,
        family: Family::new(family),
        patch: patch(map)?.as_bytes().to_vec(),
        right: right(map)?,
    })
}

/// The diff, empty when the row has none.
fn patch(map: &Map<String, Value>) -> Result<&str, String> {
    match given(map, &["patch", "model_patch", "diff"]).next() {
        None => Ok(""),
        Some((_, Value::String(text))) => Ok(text),
        Some((name, _)) => Err(format!("`{name}` has to be a diff as a string, or null")),
    }
}

/// The fields of these names that are there and not null.
fn given<'a>(
    map: &'a Map<String, Value>,
    names: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let there = |name: &&'a str| map.get(*name).map(|value| (*name, value));
    names.iter().filter_map(there).filter(|(_, value)| !value.is_null())
}

/// Words for a candidate that resolves its task.
const RIGHT: [&str; 6] = ["resolved", "pass", "passed", "true", "success", "correct"];

/// Words for one that does not.
const WRONG: [&str; 12] = [
    "unresolved",
    "not_resolved",
    "fail",
    "failed",
    "failure",
    "false",
    "incorrect",
    "error",
    "timeout",
    "incomplete",
    "empty_patch",
    "no_generation",
];

/// Words for an outcome that nobody knows.
const OPEN: [&str; 2] = ["", "unknown"];

fn right(map: &Map<String, Value>) -> Result<Option<bool>, String> {
    for (name, value) in given(map, &["reported", "resolved", "outcome"]) {
        let known = match value {
            Value::Bool(right) => Some(*right),
            Value::Number(number) => {
                number.as_f64().filter(|score| (0.0..=1.0).contains(score)).map(|score| score > 0.5)
            }
            Value::String(word) => {
                let word = word.trim().to_lowercase();
                if OPEN.contains(&word.as_str()) {
                    continue;
                }
                let wrong = WRONG.contains(&word.as_str()).then_some(false);
                RIGHT.contains(&word.as_str()).then_some(true).or(wrong)
            }
            _ => None,
        };
        return match known {
            Some(right) => Ok(Some(right)),
            None => Err(format!(
                "`{name}` has to be true or false, 0 to 1, null, or one of {}, {}, unknown",
                RIGHT.join(", "),
                WRONG.join(", ")
            )),
        };
    }
    Ok(None)
}
