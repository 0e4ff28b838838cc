//! What a worker is told of its jobs and of workers that it hands work to.

use super::{ANSWER_BYTES, Fields, LINE_BYTES, SUBTASK_BYTES, optional, trusted};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// News of background jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobNotices {
    /// Each in the engine's words, with the line of output that it is about: foreign.
    pub notices: Vec<(String, Option<String>)>,
    /// Whether the worker waited for them.
    pub waited: bool,
}

impl PromptContext for JobNotices {
    fn template(&self) -> &str {
        "job_notices"
    }

    fn fields(&self) -> Fields {
        let notice = |(text, line): &(String, Option<String>)| {
            let line = line.as_ref().map(|line| {
                let line = Untrusted::at(Boundary::JobLine, "", line);
                Field::Cut(line, FenceOptions::cut(LINE_BYTES, Keep::Head))
            });
            vec![("text", trusted(text)), ("line", line.unwrap_or(Field::Absent))]
        };
        vec![
            ("notices", Field::List(self.notices.iter().map(notice).collect())),
            ("waited", Field::Flag(self.waited)),
        ]
    }
}

/// A nested worker's first message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtask {
    /// The operator's task.
    pub task: String,
    /// What the parent wants: a model's words.
    pub description: String,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Tool rounds that it has.
    pub turns: u32,
}

impl PromptContext for Subtask {
    fn template(&self) -> &str {
        "subtask"
    }

    fn fields(&self) -> Fields {
        let description = Untrusted::at(Boundary::Subtask, "", &self.description);
        let options = FenceOptions::cut(SUBTASK_BYTES, Keep::Head);
        vec![
            ("task", trusted(self.task.trim())),
            ("description", Field::Cut(description, options)),
            ("read_only", Field::Flag(self.read_only)),
            ("turns", Field::Number(self.turns.into())),
        ]
    }
}

/// What a nested worker left, as its parent is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubtaskResult {
    /// Its number in the worker run.
    pub number: u32,
    /// How it ended, in the engine's words.
    pub how: String,
    /// Jobs that it handed over, by id.
    pub jobs: Vec<String>,
    /// Its jobs that were ended, by id.
    pub killed: Vec<String>,
    /// Its closing words: foreign.
    pub answer: String,
}

impl PromptContext for SubtaskResult {
    fn template(&self) -> &str {
        "subtask_result"
    }

    fn fields(&self) -> Fields {
        let list = |ids: &[String]| optional((!ids.is_empty()).then(|| ids.join(", ")).as_deref());
        let answer = Untrusted::at(Boundary::SubtaskAnswer, "", &self.answer);
        let answer = Field::Cut(answer, FenceOptions::cut(4 * ANSWER_BYTES, Keep::Ends));
        vec![
            ("number", Field::Number(self.number.into())),
            ("how", trusted(&self.how)),
            ("jobs", list(&self.jobs)),
            ("killed", list(&self.killed)),
            ("answer", if self.answer.trim().is_empty() { Field::Absent } else { answer }),
        ]
    }
}
