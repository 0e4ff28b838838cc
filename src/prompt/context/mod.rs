//! One typed context for each template.
//!
//! Lives here: what a prompt may hold, and how long each foreign part of it may be.
//! Never here: wording, which is in `prompts/`.

mod judge;
mod synth;
mod worker;

pub use judge::{CandidateView, GateView, JudgeRetry, JudgeSystem, JudgeTask};
pub use synth::{SynthBallot, SynthFile, SynthRetry, SynthSystem, SynthTask};
pub use worker::{GateCommand, GateFailure, Instructions, WorkerSystem, WorkerTask};

use super::Field;

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
/// The most bytes of a quoted reply or reason in one prompt.
pub(crate) const QUOTE_BYTES: usize = 1 << 10;

type Fields = Vec<(&'static str, Field)>;

fn trusted(text: impl Into<String>) -> Field {
    Field::Trusted(text.into())
}

fn optional(text: Option<&str>) -> Field {
    text.map_or(Field::Absent, trusted)
}

/// A list of texts of the engine, each as `text`.
fn lines(texts: &[String]) -> Field {
    Field::List(texts.iter().map(|text| vec![("text", trusted(text))]).collect())
}
