//! One typed context for each template.
//!
//! Lives here: what a prompt may hold, and how long each foreign part of it may be.
//! Never here: wording, which is in `prompts/`.

mod design;
mod duel;
mod judge;
mod nested;
mod side;
mod synth;
mod worker;

pub use design::{DesignSystem, DesignTask};
pub use duel::{DuelSystem, DuelTask, DuelView};
pub use judge::{
    CandidateView, GateView, JudgeRetry, JudgeSystem, JudgeTask, SkepticSystem, SkepticTask,
};
pub use nested::{JobNotices, Subtask, SubtaskResult};
pub use side::{CapsuleSystem, CapsuleTask, TitleSystem, TitleTask};
pub use synth::{SynthBallot, SynthFile, SynthFix, SynthRetry, SynthSystem, SynthTask};
pub use worker::{
    GateCommand, GateFailure, Instructions, OperatorSteering, WorkerSystem, WorkerTask,
};

use super::Field;
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted, neutralise};

/// The most bytes of a diff in one prompt.
pub(crate) const DIFF_BYTES: usize = 64 << 10;
/// The most bytes of a gate's output in one prompt.
pub(crate) const GATE_BYTES: usize = 8 << 10;
/// The most bytes of an author's answer, and of his claims, in one prompt.
pub(crate) const ANSWER_BYTES: usize = 4 << 10;
/// The most bytes of a repository's instructions in one prompt.
pub(crate) const INSTRUCTIONS_BYTES: usize = 32 << 10;
/// The most bytes of one file of the base in one prompt.
pub(crate) const FILE_BYTES: usize = 96 << 10;
/// The most bytes of the paths of a repository in one prompt.
pub(crate) const LAYOUT_BYTES: usize = 16 << 10;
/// The most bytes of what one earlier run left in one prompt.
pub(crate) const PRIOR_BYTES: usize = 4 << 10;
/// The most bytes of a task that is named or summed up.
pub(crate) const TASK_BYTES: usize = 16 << 10;
/// The most bytes of a quoted reply or reason in one prompt.
pub(crate) const QUOTE_BYTES: usize = 1 << 10;

/// The most bytes of a job's line in one notice.
pub(crate) const LINE_BYTES: usize = 1 << 10;
/// The most bytes of what a worker says to one that it hands work to.
pub(crate) const SUBTASK_BYTES: usize = 16 << 10;

/// The most characters of a command or directory that stands in a sentence.
const INLINE_CHARS: usize = 200;

/// A command or a directory for a line of its own or a sentence: an untrusted repository's config may
/// have set it, so it is brought to one short line without anything that could pass for structure.
pub(crate) fn inline(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    let kept: String = line.chars().take(INLINE_CHARS).collect();
    let mark = if kept.len() < line.len() { "…" } else { "" };
    format!("{}{mark}", neutralise(&kept, &[]).text)
}

type Fields = Vec<(&'static str, Field)>;

fn trusted(text: impl Into<String>) -> Field {
    Field::Trusted(text.into())
}

fn optional(text: Option<&str>) -> Field {
    text.map_or(Field::Absent, trusted)
}

/// A file of the base: its path stands in the fence, too.
fn base_file(file: &SynthFile) -> Fields {
    let body = format!("path: {}\n\n{}", file.path, file.contents);
    let text = Untrusted::at(Boundary::BaseFile, &file.path, body);
    vec![("contents", Field::Cut(text, FenceOptions::cut(FILE_BYTES, Keep::Ends)))]
}

/// A gate that failed; `label` tells its output from others in the same prompt.
fn failed_gate(gate: &str, label: &str, command: &str, facts: &[String], output: &str) -> Fields {
    let output = Untrusted::at(Boundary::SteeringOutput, label, output);
    let command = Some(inline(command)).filter(|command| !command.is_empty());
    vec![
        ("gate", trusted(gate)),
        ("command", optional(command.as_deref())),
        ("facts", lines(facts)),
        ("output", Field::Cut(output, FenceOptions::cut(GATE_BYTES, Keep::Ends))),
    ]
}

/// A list of texts of the engine, each as `text`.
fn lines(texts: &[String]) -> Field {
    Field::List(texts.iter().map(|text| vec![("text", trusted(text))]).collect())
}
