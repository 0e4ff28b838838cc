//! What the writer of a duel's test is told, and what judges are shown of the test.

use super::judge::CandidateView;
use super::{DIFF_BYTES, Fields, SynthFile, base_file, inline, lines, optional, trusted};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// The system prompt of who writes tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct DuelSystem;

impl PromptContext for DuelSystem {
    fn template(&self) -> &str {
        "duel_system"
    }
}

/// The question for a test that tells two changes apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuelTask {
    /// The operator's task, if there is one.
    pub task: Option<String>,
    /// The command that runs the test: the operator's, or the repository's own config's.
    pub command: String,
    /// Whether `{path}` in it stands for the test's files.
    pub by_path: bool,
    /// Where it runs, relative to the top; empty for the top.
    pub dir: String,
    /// What came of earlier duels of the run, in the engine's words.
    pub before: Vec<String>,
    /// The two, `A` and `B`; nothing is shown of their authors' words.
    pub candidates: Vec<CandidateView>,
    /// Files of the base.
    pub files: Vec<SynthFile>,
}

impl PromptContext for DuelTask {
    fn template(&self) -> &str {
        "duel"
    }

    fn fields(&self) -> Fields {
        let dir = Some(inline(&self.dir)).filter(|dir| !dir.is_empty());
        let candidates = self.candidates.iter().map(CandidateView::change_fields).collect();
        vec![
            ("task", optional(self.task.as_deref().map(str::trim))),
            ("command", trusted(inline(&self.command))),
            ("by_path", Field::Flag(self.by_path)),
            ("dir", optional(dir.as_deref())),
            ("before", lines(&self.before)),
            ("candidates", Field::List(candidates)),
            ("files", Field::List(self.files.iter().map(base_file).collect())),
        ]
    }
}

/// A duel's test as judges see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuelView {
    /// The duel's number.
    pub number: u32,
    /// The test, as a diff: foreign.
    pub test: String,
}

impl DuelView {
    pub(super) fn fields(&self) -> Fields {
        let which = self.number.to_string();
        let test = Untrusted::at(Boundary::DuelTest, &which, &self.test);
        let test = Field::Cut(test, FenceOptions::cut(DIFF_BYTES / 4, Keep::Ends));
        vec![("number", Field::Number(self.number.into())), ("test", test)]
    }
}
