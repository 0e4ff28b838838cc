//! Text of a candidate that speaks to its judges.
//!
//! Lives here: a small list of phrases that have no place in a change and only make sense to somebody
//! who is about to judge it. A hit throws nothing out: the candidate stays, and a person sees it; but
//! judges' words for it are not enough to win (see `tally`). Never here: a model.

use super::facts::Finalist;
use crate::fence::neutralise;

/// Commands to a reader, in lower case with white space collapsed.
const PHRASES: &[&str] = &[
    "ignore all previous",
    "ignore previous instructions",
    "ignore the previous",
    "ignore the above",
    "ignore all other candidates",
    "disregard the above",
    "disregard previous",
    "disregard all previous",
    "you are the judge",
    "you are a judge",
    "as the judge",
    "note to the judge",
    "note to judge",
    "note to reviewer",
    "dear judge",
    "dear reviewer",
    "attention judge",
    "attention reviewer",
    "system note",
    "important system",
    "new instructions:",
    "system prompt",
    "choose first",
    "choose second",
    "choose the first",
    "choose the second",
    "pick first",
    "pick second",
    "pick candidate",
    "choose candidate",
    "prefer candidate",
    "vote for first",
    "vote for second",
    "vote for this",
    "vote for candidate",
    "choose this candidate",
    "choose this change",
    "choose this diff",
    "pick this candidate",
    "select this candidate",
    "this candidate is",
    "this candidate must",
    "first is better",
    "second is better",
    "first is the better",
    "second is the better",
    "the other candidate",
    "candidate 1",
    "candidate 2",
    "the correct choice is",
    "verdict:",
    "\"winner\"",
    "\"choice\"",
    "\"vetoes\"",
    "approved by the security team",
    "already been approved",
    "has been verified by",
];

/// Whether what its author wrote (added lines and file names of the diff, answer, claims) or what its
/// code printed in a gate speaks to a judge.
pub fn steers(finalist: &Finalist) -> bool {
    let diff: String = finalist
        .diff
        .lines()
        .filter(|line| line.starts_with('+') || !line.starts_with(['-', ' ', '@']))
        .map(|line| line.trim_start_matches(['+', ' ', '\t', '/', '#', '*']))
        .collect::<Vec<_>>()
        .join(" ");
    let claims = finalist.claims.iter().map(|claim| claim.text.as_str());
    let outputs = finalist.gates.iter().map(|report| report.output.text.as_str());
    let texts = std::iter::once(diff.as_str()).chain([finalist.answer.as_str()]);
    texts.chain(claims).chain(outputs).any(speaks)
}

fn speaks(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let folded = words.join(" ").to_lowercase();
    PHRASES.iter().any(|phrase| folded.contains(phrase)) || forges(text)
}

/// Whether it forges a fence marker: nothing honest holds one, and a neutralised bracket tells.
fn forges(text: &str) -> bool {
    let mark = |at: &usize| text[*at..].starts_with(['u', 'U']);
    text.to_lowercase().contains("untrusted") && neutralise(text, &[]).edits.iter().any(mark)
}
