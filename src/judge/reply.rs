//! Reading a judge's reply: strictly, and only from the model's own answer.
//!
//! Lives here: the reply's schema, the check of its nonce, and the check that every quote is really in
//! a diff or in what a gate printed. Never here: what a valid ballot is worth.

use serde::Deserialize;

use super::facts::Finalist;
use crate::fence::restore;

/// The most quotes of a reply.
const MOST_QUOTES: usize = 6;
/// The fewest characters of a quote: less is found anywhere.
const SHORTEST_QUOTE: usize = 3;
/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 2000;

/// One of the two shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shown {
    First,
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShownChoice {
    First,
    Second,
    Tie,
}

/// A valid reply, in terms of the order shown.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    nonce: String,
    pub(super) choice: ShownChoice,
    pub(super) reason: String,
    pub(super) evidence: Vec<String>,
    pub(super) vetoes: Vec<Shown>,
}

/// Why a reply can't be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// In the engine's words, for the judge and the record.
    pub(super) message: String,
    /// The part in question: foreign.
    pub(super) quoted: Option<String>,
}

impl Fault {
    pub(super) fn new(message: &str) -> Self {
        Self { message: message.to_owned(), quoted: None }
    }

    fn quoting(message: &str, quoted: &str) -> Self {
        Self { message: message.to_owned(), quoted: Some(quoted.to_owned()) }
    }
}

/// Reads a reply to a question with `nonce` about the two `shown`.
pub(super) fn read(text: &str, nonce: &str, shown: [&Finalist; 2]) -> Result<Reply, Fault> {
    let mut reply: Reply = serde_json::from_str(unwrapped(text)).map_err(|error| {
        // The parser's message may repeat the reply's words.
        let at = format!("in line {}, column {}", error.line(), error.column());
        let message = format!("it is not the one JSON object that was asked for ({at}).");
        Fault::quoting(&message, &error.to_string())
    })?;
    if reply.nonce != nonce {
        return Err(Fault::new("its `nonce` is not the one of the question."));
    }
    if reply.reason.trim().is_empty() {
        return Err(Fault::new("its `reason` is empty."));
    }
    // An empty text is no quote; some models write one where they have none.
    reply.evidence.retain(|quote| !quote.trim().is_empty());
    contradiction(&reply)?;
    evidence(&reply, shown)?;
    reply.reason = reply.reason.chars().take(LONGEST_REASON).collect();
    reply.vetoes.dedup();
    Ok(reply)
}

/// The inside of a Markdown fence, when the whole reply is one.
pub(super) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some((info, body)) = inside.and_then(|inside| inside.split_once('\n')) else { return text };
    match info.trim() {
        "" | "json" | "JSON" => body.trim(),
        _ => text,
    }
}

fn contradiction(reply: &Reply) -> Result<(), Fault> {
    let vetoes = |shown| reply.vetoes.contains(&shown);
    let contradicts = match reply.choice {
        ShownChoice::First => vetoes(Shown::First) && !vetoes(Shown::Second),
        ShownChoice::Second => vetoes(Shown::Second) && !vetoes(Shown::First),
        ShownChoice::Tie => false,
    };
    match contradicts {
        true => Err(Fault::new("it chooses a candidate that it vetoes over one that it does not.")),
        false => Ok(()),
    }
}

fn evidence(reply: &Reply, shown: [&Finalist; 2]) -> Result<(), Fault> {
    let decides = reply.choice != ShownChoice::Tie || !reply.vetoes.is_empty();
    if decides && reply.evidence.is_empty() {
        return Err(Fault::new("it decides without a quote in `evidence`."));
    }
    if reply.evidence.len() > MOST_QUOTES {
        return Err(Fault::new("it has more than 6 quotes in `evidence`."));
    }
    let sources: Vec<Source> = shown.iter().flat_map(|finalist| sources(finalist)).collect();
    for quote in &reply.evidence {
        if quote.trim().chars().count() < SHORTEST_QUOTE {
            return Err(Fault::quoting("a quote is too short to show anything:", quote));
        }
        if !sources.iter().any(|source| source.holds(quote)) {
            let message = "a quote is found in neither diff and in no gate's output:";
            return Err(Fault::quoting(message, quote));
        }
    }
    Ok(())
}

/// A text that may be quoted, white space left out: as it is, and without the signs of a diff.
pub(super) struct Source {
    whole: String,
    unsigned: String,
}

pub(super) fn sources(finalist: &Finalist) -> Vec<Source> {
    let outputs = finalist.gates.iter().map(|report| report.output.text.as_str());
    std::iter::once(finalist.diff.as_str()).chain(outputs).map(Source::new).collect()
}

impl Source {
    pub(super) fn new(text: &str) -> Self {
        Self { whole: squeezed(text), unsigned: squeezed(&unsigned(text)) }
    }

    pub(super) fn holds(&self, quote: &str) -> bool {
        let is_in = |quote: &str| {
            let (plain, bare) = (squeezed(quote), squeezed(&unsigned(quote)));
            self.whole.contains(&plain)
                || self.unsigned.contains(&plain)
                || (!bare.is_empty() && self.unsigned.contains(&bare))
        };
        // A judge sees, and so may quote, the escapes of neutralised characters.
        is_in(quote) || is_in(&restore(quote))
    }
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Each line without the sign that a diff puts before it.
fn unsigned(text: &str) -> String {
    let bare = |line: &str| line.strip_prefix(['+', '-', ' ']).unwrap_or(line).to_owned();
    text.lines().map(bare).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::panel::testing::finalist;

    fn check(text: &str) -> Result<Reply, Fault> {
        let first = finalist("c1", "@@ -1,2 +1,2 @@\n fn a() {\n-    old(1)\n+    new(2)\n }\n");
        let second = finalist("c2", "@@ -1 +1 @@\n-x\u{200b}y\n+    z <<untrusted\n");
        read(text, "n1", [&first, &second])
    }

    fn reply(choice: &str, evidence: &str, vetoes: &str) -> String {
        format!(
            r#"{{"nonce":"n1","choice":"{choice}","reason":"r","evidence":{evidence},"vetoes":{vetoes}}}"#
        )
    }

    #[test]
    fn takes_one_object_in_a_fence_or_not() {
        let good = reply("first", r#"["new(2)"]"#, "[]");
        assert_eq!(check(&good).unwrap().choice, ShownChoice::First);
        assert!(check(&format!("\n```json\n{good}\n```\n")).is_ok());
        assert!(check(&format!("```\n{good}\n```")).is_ok());
        for bad in [
            format!("{good}{good}"),
            format!("Sure! {good}"),
            format!("```json\n{good}\n```\n```json\n{good}\n```"),
            format!("```diff\n{good}\n```"),
            format!("[{good}]"),
            good.replace("n1", "n2"),
            good.replace("first", "FIRST"),
            good.replace("first", "c1"),
            good.replace("\"r\"", "\" \""),
            good.replace("\"reason\"", "\"nonce\":\"n1\",\"reason\""),
            good.replace("}", ",\"winner\":1}"),
            good[..good.len() - 4].to_owned(),
            String::new(),
            r#"{"winner":1}"#.to_owned(),
            "VERDICT: PASS".to_owned(),
            ":".to_owned(),
        ] {
            assert!(check(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotes_have_to_be_there() {
        for there in [
            r#"["+    new(2)"]"#,
            r#"["new(2)", "old(1)"]"#,
            r#"["-    old(1)\n+    new(2)"]"#,
            r#"["fn a() {\nnew(2)"]"#,
            r#"["x<U+200B>y"]"#,
            r#"["z <<<U+0075>ntrusted"]"#,
        ] {
            let there = there.replace(r#""fn a() {\nnew(2)""#, r#""fn a() {\n    old(1)""#);
            assert!(check(&reply("second", &there, "[]")).is_ok(), "{there}");
        }
        for not_there in
            [r#"["new(3)"]"#, "[]", r#"["}"]"#, r#"["new(2)", "made up"]"#, r#"["  "]"#]
        {
            assert!(check(&reply("first", not_there, "[]")).is_err(), "{not_there}");
        }
        assert!(check(&reply("tie", "[]", "[]")).is_ok());
        assert!(check(&reply("tie", r#"[""]"#, "[]")).is_ok(), "an empty text is no quote");
        assert!(check(&reply("tie", "[]", r#"["first"]"#)).is_err(), "a veto needs a quote");
    }

    #[test]
    fn a_reply_that_contradicts_itself_is_no_ballot() {
        let quote = r#"["new(2)"]"#;
        assert!(check(&reply("first", quote, r#"["first"]"#)).is_err());
        assert!(check(&reply("first", quote, r#"["second"]"#)).is_ok());
        assert!(check(&reply("first", quote, r#"["first","second"]"#)).is_ok());
    }

    #[test]
    fn a_fault_keeps_foreign_words_out_of_the_engines() {
        let fault = check(&reply("obey me", "[]", "[]")).unwrap_err();
        assert!(!fault.message.contains("obey") && fault.quoted.unwrap().contains("obey me"));
    }
}
