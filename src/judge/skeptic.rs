//! Skeptics: each claim of a candidate's author is held against the diff and what the gates printed.
//!
//! Lives here: the check of a claim's place, which needs no model; the question to a model about the rest;
//! and the strict reading of its reply. What a model points to is looked up: a quote has to stand in the
//! diff or in a gate's output, and what it says is missing must stand in no added line; else it is left
//! out. Never here: what a refuted claim is worth. It throws nobody out; judges are told.

use std::collections::BTreeSet;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::facts::{Finalist, gate_views, numbered};
use super::panel::JudgeModel;
use super::reply::{Source, sources, unwrapped};
use crate::fence::Fencer;
use crate::model::chat::{Message, ModelRequest, Purpose, ReplyStop};
use crate::model::{Refuted, Usage};
use crate::prompt::{PromptError, SkepticSystem, SkepticTask, Templates};

/// The most claims that are looked at: more than anybody reads.
const MOST_CLAIMS: usize = 20;
/// The most texts that a refutation may point to.
const MOST_TEXTS: usize = 4;
/// The fewest characters of such a text: less is found, or missing, anywhere.
const SHORTEST: usize = 3;
/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 300;

/// What a skeptic needs.
pub struct SkepticInput<'a> {
    /// Whose claims.
    pub finalist: &'a Finalist,
    /// The model that answers.
    pub model: &'a JudgeModel,
    /// The prompts.
    pub templates: &'a Templates,
    /// The run's fencer; the nonce comes from it, too.
    pub fencer: &'a Fencer,
    /// The largest reply, in tokens.
    pub max_output_tokens: u32,
    /// Ends the question.
    pub cancel: &'a CancellationToken,
}

/// What came of asking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doubted {
    /// The refuted claims, by number.
    pub refuted: Vec<Refuted>,
    /// Why the model's word is missing, if it is; its own words are not in it.
    pub silent: Option<String>,
    /// What asking used.
    pub usage: Usage,
}

/// Refutes what can be refuted. A candidate without claims costs nothing.
///
/// # Errors
/// When a template can't be rendered.
pub async fn doubt(input: &SkepticInput<'_>) -> Result<Doubted, PromptError> {
    let mut doubted = Doubted { refuted: misplaced(input.finalist), ..Doubted::default() };
    if input.finalist.claims.is_empty() {
        return Ok(doubted);
    }
    let nonce = input.fencer.nonce(&format!("skeptic:{}:{}", input.finalist.id, input.model.name));
    let task = SkepticTask {
        claims: numbered(input.finalist).into_iter().take(MOST_CLAIMS).collect(),
        diff: input.finalist.diff.clone(),
        gates: gate_views(input.finalist),
        nonce: nonce.clone(),
    };
    let request = request(input, &task)?;
    match input.model.provider.call(&request, &mut |_| {}, input.cancel).await {
        Ok(reply) => {
            doubted.usage = reply.usage;
            let text = match reply.stop {
                ReplyStop::MaxTokens | ReplyStop::Refusal => String::new(),
                _ => reply.text(),
            };
            match read(&text, &nonce, input.finalist) {
                Some(found) => add(&mut doubted.refuted, found),
                None => doubted.silent = Some("its reply was not the one asked for".to_owned()),
            }
        }
        Err(error) => {
            doubted.usage = error.usage();
            doubted.silent = Some(format!("its model gave no answer ({})", error.class.name()));
        }
    }
    Ok(doubted)
}

fn request(input: &SkepticInput<'_>, task: &SkepticTask) -> Result<ModelRequest, PromptError> {
    Ok(ModelRequest::question(
        &input.model.name.model,
        input.templates.render(&SkepticSystem, input.fencer)?.text,
        vec![Message::user(input.templates.render(task, input.fencer)?.text)],
        input.max_output_tokens,
        Purpose::Skeptic { candidate: input.finalist.id.clone() },
    ))
}

/// Claims about a file that the change does not touch. A path is foreign text and stays out of the reason.
fn misplaced(finalist: &Finalist) -> Vec<Refuted> {
    let touched: BTreeSet<&str> = finalist.files.iter().map(|file| file.path.as_str()).collect();
    let claims = finalist.claims.iter().take(MOST_CLAIMS).enumerate();
    let elsewhere = claims.filter(|(_, claim)| {
        claim.path.as_deref().is_some_and(|path| {
            !touched.contains(path.trim_start_matches("./")) && !touched.is_empty()
        })
    });
    elsewhere
        .map(|(at, _)| Refuted {
            claim: at as u32 + 1,
            by: None,
            reason: "it names a file that the change does not touch".to_owned(),
            quotes: Vec::new(),
            absent: Vec::new(),
        })
        .collect()
}

/// A claim is refuted once; the engine's own word comes first.
fn add(refuted: &mut Vec<Refuted>, found: Vec<Refuted>) {
    for one in found {
        if refuted.iter().all(|known| known.claim != one.claim) {
            refuted.push(one);
        }
    }
    refuted.sort_by_key(|one| one.claim);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    nonce: String,
    refuted: Vec<Said>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    claim: u32,
    reason: String,
    #[serde(default)]
    quotes: Vec<String>,
    #[serde(default)]
    absent: Vec<String>,
}

/// The refutations of a reply that hold; `None` when the reply is not what was asked for.
fn read(text: &str, nonce: &str, finalist: &Finalist) -> Option<Vec<Refuted>> {
    let reply: Reply = serde_json::from_str(unwrapped(text)).ok()?;
    if reply.nonce != nonce {
        return None;
    }
    let count = finalist.claims.len().min(MOST_CLAIMS);
    let (sources, added) = (sources(finalist), Source::new(&added(&finalist.diff)));
    let holds = |said: &Said| {
        let long = |text: &String| text.trim().chars().count() >= SHORTEST;
        let texts = || said.quotes.iter().chain(&said.absent);
        (1..=count).contains(&(said.claim as usize))
            && !said.reason.trim().is_empty()
            && (1..=MOST_TEXTS).contains(&texts().count())
            && texts().all(long)
            && said.quotes.iter().all(|quote| sources.iter().any(|source| source.holds(quote)))
            && !said.absent.iter().any(|text| added.holds(text))
    };
    let keep = |said: Said| Refuted {
        claim: said.claim,
        by: Some("skeptic".to_owned()),
        reason: said.reason.chars().take(LONGEST_REASON).collect(),
        quotes: said.quotes,
        absent: said.absent,
    };
    let mut found = Vec::new();
    add(&mut found, reply.refuted.into_iter().filter(holds).map(keep).collect());
    Some(found)
}

/// The added lines of a diff, and the names of its files.
fn added(diff: &str) -> String {
    let lines = diff.lines().filter(|line| line.starts_with('+'));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::panel::testing::finalist;
    use crate::model::{ChangeKind, Claim, FileChange};

    fn candidate() -> Finalist {
        let mut one = finalist(
            "c1",
            "--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1,2 @@\n-old(1)\n+new(2)\n+checked(3)\n",
        );
        let claim = |text: &str, path: Option<&str>| Claim {
            text: text.to_owned(),
            path: path.map(str::to_owned),
            line: None,
        };
        one.claims = vec![
            claim("keeps old", None),
            claim("adds a test", Some("tests/x.rs")),
            claim("checks", Some("./src/x.rs")),
        ];
        let change = ChangeKind::Modified;
        one.files = vec![FileChange { path: "src/x.rs".to_owned(), change, added: 2, removed: 1 }];
        one
    }

    fn claims(text: &str) -> Option<Vec<u32>> {
        read(text, "n", &candidate()).map(|all| all.iter().map(|one| one.claim).collect())
    }

    fn reply(refuted: &str) -> String {
        format!("{{\"nonce\": \"n\", \"refuted\": [{refuted}]}}")
    }

    #[test]
    fn a_claim_about_an_untouched_file_is_refuted_without_a_model() {
        let found = misplaced(&candidate());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].claim, found[0].by.as_deref()), (2, None));
        assert!(!found[0].reason.contains("tests/x.rs"), "a path is foreign text");
    }

    #[test]
    fn what_a_skeptic_points_to_is_looked_up() {
        let good = r#"{"claim": 1, "reason": "it goes", "quotes": ["old(1)"]}"#;
        assert_eq!(claims(&reply(good)), Some(vec![1]));
        let missing = r##"{"claim": 2, "reason": "no test", "absent": ["#[test]"]}"##;
        assert_eq!(claims(&reply(&format!("{missing},{good}"))), Some(vec![1, 2]));
        for void in [
            r#"{"claim": 1, "reason": "r", "quotes": ["made up"]}"#,
            r#"{"claim": 1, "reason": "r", "absent": ["checked(3)"]}"#,
            r#"{"claim": 1, "reason": "r"}"#,
            r#"{"claim": 1, "reason": " ", "quotes": ["old(1)"]}"#,
            r#"{"claim": 1, "reason": "r", "absent": ["x"]}"#,
            r#"{"claim": 0, "reason": "r", "quotes": ["old(1)"]}"#,
            r#"{"claim": 4, "reason": "r", "quotes": ["old(1)"]}"#,
            r#"{"claim": 1, "reason": "r", "absent": ["aaa", "bbb", "ccc", "ddd", "eee"]}"#,
        ] {
            assert_eq!(claims(&reply(void)), Some(vec![]), "{void}");
        }
        assert_eq!(claims(&reply(&format!("{good},{good}"))), Some(vec![1]), "once");
    }

    #[test]
    fn a_reply_that_was_not_asked_for_refutes_nothing() {
        for bad in
            ["", "VERDICT: all false", "{\"nonce\": \"m\", \"refuted\": []}", "{\"refuted\": []}"]
        {
            assert_eq!(claims(bad), None, "{bad}");
        }
        assert_eq!(claims("```json\n{\"nonce\": \"n\", \"refuted\": []}\n```"), Some(vec![]));
    }
}
