//! A test that a model wrote to tell two finalists apart, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactId, CandidateId, Clipped, TestEnd, Usage};

/// Stands for the files of a duel's test in an operator's command.
pub const TEST_PATH: &str = "{path}";

/// A duel's test on one tree, run as often as the plan says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DuelRun {
    /// The candidate; absent for the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateId>,
    /// How each run ended, in order.
    pub ends: Vec<TestEnd>,
    /// Why the test could not run there, in the engine's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the last run printed, head and tail: foreign text.
    pub output: Clipped,
    /// How long these runs took, in milliseconds.
    pub millis: u64,
}

impl DuelRun {
    /// How it ended, when it ran and ended each time the same.
    pub fn end(&self) -> Option<TestEnd> {
        let first = self.ends.first().copied()?;
        let same = self.ends.iter().all(|end| *end == first);
        (same && self.why.is_none() && first != TestEnd::NotRun).then_some(first)
    }
}

/// What a duel came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DuelResult {
    /// It passes on one of the pair and fails on the other. A fact for judges, never an elimination.
    Told {
        /// On which it passes.
        passes: CandidateId,
        /// On which it fails.
        fails: CandidateId,
    },
    /// It is a valid test, and both of the pair end alike.
    Alike {
        /// Whether both pass.
        pass: bool,
    },
    /// It does not count.
    Void {
        /// Why, in the engine's words.
        reason: String,
    },
    /// Its model wrote none.
    NotWritten {
        /// Why: a model's words, or an error's.
        reason: String,
    },
}

/// One duel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Duel {
    /// Its number in the run, from 1.
    pub number: u32,
    /// The two that it was to tell apart, the lower id first.
    pub pair: [CandidateId; 2],
    /// The model that wrote the test.
    pub model: String,
    /// The test as a diff against the base, in the engine's own printing: foreign text. Absent when none
    /// was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ArtifactId>,
    /// The files of the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The operator's command that ran it; empty when none ran.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// How it ended on the base and on each finalist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<DuelRun>,
    /// What it came to.
    pub result: DuelResult,
    /// What writing it cost.
    pub usage: Usage,
}

impl Duel {
    /// Whether judges may be told of it.
    pub fn counts(&self) -> bool {
        matches!(self.result, DuelResult::Told { .. } | DuelResult::Alike { .. })
    }

    /// How it ended on a candidate, or on the base.
    pub fn end_on(&self, candidate: Option<&CandidateId>) -> Option<TestEnd> {
        self.runs.iter().find(|run| run.candidate.as_ref() == candidate).and_then(DuelRun::end)
    }
}

/// A judge that was shown one change twice, once with inert lines added by the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Who.
    pub judge: super::JudgeId,
    /// Which model answered.
    pub model: String,
    /// Whose change it was.
    pub on: CandidateId,
    /// What came of it.
    pub result: ControlResult,
    /// What asking cost.
    pub usage: Usage,
}

/// What a judge made of a change and its padded copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ControlResult {
    /// It did not prefer the padded one: its voice counts.
    Cleared,
    /// It preferred the padded one: length sways it, and its voice counts for nothing.
    Padded,
    /// It gave no valid answer, so that its voice counts for nothing.
    Silent {
        /// Why.
        reason: String,
    },
}

/// The plan that all workers of a run were given by the design step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// The model that wrote it.
    pub model: String,
    /// Its words, as workers read them: a model's. Absent when none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_none: Option<String>,
    /// What it cost.
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_an_end_only_when_each_run_ended_alike() {
        let run = |ends: &[TestEnd], why: Option<&str>| DuelRun {
            candidate: None,
            ends: ends.to_vec(),
            why: why.map(str::to_owned),
            output: Clipped::default(),
            millis: 0,
        };
        use TestEnd::{Failed, NotRun, Passed};
        assert_eq!(run(&[Passed, Passed], None).end(), Some(Passed));
        assert_eq!(run(&[Failed], None).end(), Some(Failed));
        for (ends, why) in [
            (&[Passed, Failed][..], None),
            (&[], None),
            (&[NotRun, NotRun], None),
            (&[Passed], Some("no tool")),
        ] {
            assert_eq!(run(ends, why).end(), None);
        }
    }
}
