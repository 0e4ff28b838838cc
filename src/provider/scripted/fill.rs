//! Placeholders of scripted answers. Pure.

use std::collections::BTreeMap;

use grep_matcher::{Captures, Matcher};
use grep_regex::RegexMatcher;

/// The first group of each pattern's first match in the newest text that has one.
pub(super) fn captures(
    patterns: &BTreeMap<String, String>,
    questions: &[String],
) -> Result<BTreeMap<String, String>, String> {
    let each = patterns.iter().map(|(name, pattern)| {
        let matcher = RegexMatcher::new(pattern).map_err(|error| error.to_string())?;
        let value = questions.iter().find_map(|question| capture(&matcher, question));
        let missing = || format!("nothing in the request matches {pattern:?}");
        Ok((name.clone(), value.ok_or_else(missing)?))
    });
    each.collect()
}

fn capture(matcher: &RegexMatcher, question: &str) -> Option<String> {
    let mut found = matcher.new_captures().ok()?;
    let matched = matcher.captures(question.as_bytes(), &mut found).ok()?;
    let group = found.get(1).filter(|_| matched)?;
    question.get(group.start()..group.end()).map(str::to_owned)
}

/// Replaces `{name}` by its value; other braces stay as they are.
pub(super) struct Filler(Vec<(String, String)>);

impl Filler {
    /// Values of both maps, escaped for a JSON string on demand.
    pub(super) fn new(
        captured: &BTreeMap<String, String>,
        more: &BTreeMap<String, String>,
        escape: bool,
    ) -> Self {
        let all = captured.iter().chain(more).map(|(name, value)| {
            let json = serde_json::Value::from(value.as_str()).to_string();
            let value = if escape { json[1..json.len() - 1].to_owned() } else { value.clone() };
            (format!("{{{name}}}"), value)
        });
        Self(all.collect())
    }

    /// Fills a text in one pass, so that a value is never filled itself.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let known = self.0.iter().find(|(mark, _)| rest.starts_with(mark.as_str()));
            let (text, taken) = match known {
                Some((mark, value)) => (value.as_str(), mark.len()),
                None => ("{", 1),
            };
            filled.push_str(text);
            rest = &rest[taken..];
        }
        filled + rest
    }
}
