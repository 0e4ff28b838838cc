//! What the synthesizer is told.

use super::judge::{CandidateView, quoted};
use super::{Fields, QUOTE_BYTES, base_file, failed_gate, lines, optional, trusted};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// The system prompt of the synthesizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SynthSystem;

impl PromptContext for SynthSystem {
    fn template(&self) -> &str {
        "synth_system"
    }
}

/// What a judge said, for the synthesizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthBallot {
    /// Who chose what, in the engine's words.
    pub fact: String,
    /// The judge's reason: foreign, as the judge read foreign text.
    pub reason: String,
}

/// A file of the base commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthFile {
    /// Its path, lossily decoded: foreign.
    pub path: String,
    /// Its contents, lossily decoded: foreign.
    pub contents: String,
}

/// The synthesizer's question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthTask {
    /// The operator's task, if there is one.
    pub task: Option<String>,
    /// The finalists.
    pub candidates: Vec<CandidateView>,
    /// The judges' ballots.
    pub ballots: Vec<SynthBallot>,
    /// How the judges' ballots add up, in the engine's words.
    pub standing: Vec<String>,
    /// The base's files that the finalists touch.
    pub files: Vec<SynthFile>,
}

impl PromptContext for SynthTask {
    fn template(&self) -> &str {
        "synth"
    }

    fn fields(&self) -> Fields {
        let ballot = |ballot: &SynthBallot| {
            let reason = Untrusted::at(Boundary::BallotReason, "", &ballot.reason);
            let reason = Field::Cut(reason, FenceOptions::cut(QUOTE_BYTES, Keep::Head));
            vec![("fact", trusted(&ballot.fact)), ("reason", reason)]
        };
        vec![
            ("task", optional(self.task.as_deref().map(str::trim))),
            (
                "candidates",
                Field::List(self.candidates.iter().map(CandidateView::fields).collect()),
            ),
            ("ballots", Field::List(self.ballots.iter().map(ballot).collect())),
            ("standing", lines(&self.standing)),
            ("files", Field::List(self.files.iter().map(base_file).collect())),
        ]
    }
}

/// What the synthesizer is told when its change failed a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthFix {
    /// The gate's name.
    pub gate: String,
    /// Its command; empty for none.
    pub command: String,
    /// What the engine's record says of it.
    pub facts: Vec<String>,
    /// What it printed: foreign.
    pub output: String,
}

impl PromptContext for SynthFix {
    fn template(&self) -> &str {
        "synth_fix"
    }

    fn fields(&self) -> Fields {
        failed_gate(&self.gate, &self.gate, &self.command, &self.facts, &self.output)
    }
}

/// What the synthesizer is told when its reply was not valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthRetry {
    /// What was wrong, in the engine's words.
    pub fault: String,
    /// The part of the reply that was wrong, if it can be quoted: foreign.
    pub quoted: Option<String>,
}

impl PromptContext for SynthRetry {
    fn template(&self) -> &str {
        "synth_retry"
    }

    fn fields(&self) -> Fields {
        vec![("fault", trusted(&self.fault)), ("quoted", quoted(self.quoted.as_deref()))]
    }
}
