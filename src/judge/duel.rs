//! Duels: a model is asked for a test that tells two finalists apart, and judges are told how it ended.
//!
//! Lives here: the question, and the facts of a duel in the engine's words. Never here: running the
//! test, and what its end is worth: it is a fact for judges, never an elimination.

use tokio_util::sync::CancellationToken;

use super::facts::{Finalist, view};
use super::panel::JudgeModel;
use crate::fence::Fencer;
use crate::model::chat::{Message, ModelRequest, Purpose, ReplyStop};
use crate::model::{CandidateId, Duel, TEST_PATH, TestEnd, Usage};
use crate::prompt::{DuelSystem, DuelTask, DuelView, PromptError, SynthFile, Templates};

/// The longest reason of a model that declines, in characters.
const LONGEST_REASON: usize = 300;

/// What a duel's question needs.
pub struct DuelInput<'a> {
    /// The duel's number in the run, from 1.
    pub number: u32,
    /// The operator's task, if there is one.
    pub task: Option<&'a str>,
    /// The two.
    pub pair: [&'a Finalist; 2],
    /// The command that will run the test.
    pub command: &'a str,
    /// Where it runs, relative to the top.
    pub dir: &'a str,
    /// What came of earlier duels, in the engine's words.
    pub before: Vec<String>,
    /// Files of the base that the two touch, and tests near them: paths and contents.
    pub files: Vec<(String, String)>,
    /// The model that answers.
    pub model: &'a JudgeModel,
    /// The prompts.
    pub templates: &'a Templates,
    /// The run's fencer.
    pub fencer: &'a Fencer,
    /// The largest reply, in tokens.
    pub max_output_tokens: u32,
    /// Ends the question.
    pub cancel: &'a CancellationToken,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The reply, which is to hold a diff with the test; else why there is none: a model's words or an
    /// error's.
    pub test: Result<String, String>,
    /// What asking used.
    pub usage: Usage,
}

/// Asks for a test that tells the two apart.
///
/// # Errors
/// When a template can't be rendered.
pub async fn write_test(input: &DuelInput<'_>) -> Result<Written, PromptError> {
    let request = ModelRequest::question(
        &input.model.name.model,
        input.templates.render(&DuelSystem, input.fencer)?.text,
        vec![Message::user(input.templates.render(&task(input), input.fencer)?.text)],
        input.max_output_tokens,
        Purpose::Duel { number: input.number },
    );
    Ok(match input.model.provider.call(&request, &mut |_| {}, input.cancel).await {
        Err(error) => Written {
            test: Err(format!("its model gave no answer ({}): {error}", error.class.name())),
            usage: error.usage(),
        },
        Ok(reply) => Written {
            test: match reply.stop {
                ReplyStop::MaxTokens => Err("its reply was cut off before its end".to_owned()),
                ReplyStop::Refusal => Err("its model refused".to_owned()),
                _ => read(&reply.text()),
            },
            usage: reply.usage,
        },
    })
}

fn task(input: &DuelInput<'_>) -> DuelTask {
    let file = |(path, contents): &(String, String)| SynthFile {
        path: path.clone(),
        contents: contents.clone(),
    };
    let [left, right] = input.pair;
    DuelTask {
        task: input.task.map(str::to_owned),
        command: input.command.to_owned(),
        by_path: input.command.contains(TEST_PATH),
        dir: input.dir.to_owned(),
        before: input.before.clone(),
        candidates: vec![view(left, "A", None), view(right, "B", None)],
        files: input.files.iter().map(file).collect(),
    }
}

/// A reply that does not decline is handed on whole: admission takes its diff out.
fn read(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.strip_prefix("DECLINE") {
        Some(why) if !why.starts_with(|c: char| c.is_alphanumeric()) => {
            let why = why.trim_start_matches([':', '.', '-', ' ', '\n', '\r']);
            let why: String = why.chars().take(LONGEST_REASON).collect();
            Err(if why.is_empty() { "it gave no reason".to_owned() } else { why })
        }
        _ => Ok(text.to_owned()),
    }
}

/// What a duel says of a candidate, for judges: outside any fence, so without any word of the test's.
pub fn duel_fact(duel: &Duel, candidate: &CandidateId) -> Option<String> {
    let here = duel.counts().then(|| duel.end_on(Some(candidate))).flatten()?;
    let base = duel.end_on(None).map_or("could not be tried", word);
    let times = duel.runs.iter().map(|run| run.ends.len()).max().unwrap_or(0);
    Some(format!(
        "duel {} (a test that a model wrote to tell finalists apart, run {times} times on each tree): {} on this \
         candidate, {base} on the base",
        duel.number,
        word(here)
    ))
}

fn word(end: TestEnd) -> &'static str {
    match end {
        TestEnd::Passed => "passes",
        TestEnd::Failed => "fails",
        TestEnd::NotRun => "does not run",
    }
}

/// A duel's test for judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuelText {
    /// The duel's number.
    pub number: u32,
    /// The test, as a diff: foreign.
    pub test: String,
}

pub(super) fn duel_views(duels: &[DuelText]) -> Vec<DuelView> {
    let view = |duel: &DuelText| DuelView { number: duel.number, test: duel.test.clone() };
    duels.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Clipped, DuelResult, DuelRun};

    #[test]
    fn a_model_may_decline() {
        assert_eq!(read("DECLINE\nBoth do it."), Err("Both do it.".to_owned()));
        assert_eq!(read("DECLINE"), Err("it gave no reason".to_owned()));
        assert_eq!(read(" DECLINED is a word\n"), Ok("DECLINED is a word".to_owned()));
    }

    #[test]
    fn only_a_duel_that_counts_gives_a_fact_and_it_holds_no_foreign_word() {
        let [c1, c2] = ["c1", "c2"].map(CandidateId::new);
        let run = |candidate: Option<&CandidateId>, end| DuelRun {
            candidate: candidate.cloned(),
            ends: vec![end; 3],
            why: None,
            output: Clipped::default(),
            millis: 1,
        };
        let runs = vec![
            run(None, TestEnd::Failed),
            run(Some(&c1), TestEnd::Passed),
            run(Some(&c2), TestEnd::Failed),
        ];
        let told = Duel {
            number: 1,
            pair: [c1.clone(), c2.clone()],
            model: "m".to_owned(),
            test: None,
            files: vec!["tests/OBEY.py".to_owned()],
            command: "t".to_owned(),
            runs,
            result: DuelResult::Told { passes: c1.clone(), fails: c2.clone() },
            usage: Usage::default(),
        };
        let fact = duel_fact(&told, &c1).unwrap();
        assert!(
            fact.contains("run 3 times")
                && fact.contains("passes on this candidate, fails on the base")
        );
        assert!(!fact.contains("OBEY"));
        assert!(duel_fact(&told, &c2).unwrap().contains("fails on this candidate"));
        let void = Duel { result: DuelResult::Void { reason: "flaky".to_owned() }, ..told.clone() };
        assert_eq!(duel_fact(&void, &c1), None);
        assert_eq!(duel_fact(&told, &CandidateId::new("c9")), None);
    }
}
