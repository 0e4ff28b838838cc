//! What the side calls are told: a run's title, and the capsule that hands it over.

use super::{ANSWER_BYTES, DIFF_BYTES, Fields, TASK_BYTES};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// The system prompt of who names runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct TitleSystem;

impl PromptContext for TitleSystem {
    fn template(&self) -> &str {
        "title_system"
    }
}

/// The question for a title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TitleTask {
    /// The run's task: material here, not an instruction.
    pub task: String,
}

impl PromptContext for TitleTask {
    fn template(&self) -> &str {
        "title"
    }

    fn fields(&self) -> Fields {
        vec![("task", fenced(Boundary::SideTask, &self.task, TASK_BYTES, Keep::Head))]
    }
}

/// The system prompt of who writes capsules.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapsuleSystem;

impl PromptContext for CapsuleSystem {
    fn template(&self) -> &str {
        "capsule_system"
    }
}

/// The question for a capsule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapsuleTask {
    /// The run's task.
    pub task: String,
    /// What came of the run: the engine's words, with foreign ones among them.
    pub digest: String,
    /// The diff that won, if one did.
    pub diff: Option<String>,
    /// Its author's closing words.
    pub answer: Option<String>,
}

impl PromptContext for CapsuleTask {
    fn template(&self) -> &str {
        "capsule"
    }

    fn fields(&self) -> Fields {
        let optional = |boundary, text: &Option<String>, bytes| match text {
            Some(text) => fenced(boundary, text, bytes, Keep::Ends),
            None => Field::Absent,
        };
        vec![
            ("task", fenced(Boundary::SideTask, &self.task, TASK_BYTES, Keep::Head)),
            ("digest", fenced(Boundary::RunDigest, &self.digest, ANSWER_BYTES, Keep::Head)),
            ("diff", optional(Boundary::Diff, &self.diff, DIFF_BYTES)),
            ("answer", optional(Boundary::Answer, &self.answer, ANSWER_BYTES)),
        ]
    }
}

fn fenced(boundary: Boundary, text: &str, bytes: usize, keep: Keep) -> Field {
    Field::Cut(Untrusted::at(boundary, "", text), FenceOptions::cut(bytes, keep))
}
