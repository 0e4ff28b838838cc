//! What a judge is told.

use super::duel::DuelView;
use super::{ANSWER_BYTES, DIFF_BYTES, Fields, GATE_BYTES, QUOTE_BYTES, lines, optional, trusted};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// The system prompt of every judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgeSystem;

impl PromptContext for JudgeSystem {
    fn template(&self) -> &str {
        "judge_system"
    }
}

/// One gate as a judge sees it: the fact from the engine's record, and what was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateView {
    /// The gate's name.
    pub name: String,
    /// What it printed: foreign; empty for nothing.
    pub output: String,
}

impl GateView {
    fn fields(&self, whose: &str) -> Fields {
        let which = format!("{whose} {}", self.name);
        let output = Untrusted::at(Boundary::GateOutput, which.trim(), &self.output);
        let output = Field::Cut(output, FenceOptions::cut(GATE_BYTES, Keep::Ends));
        vec![("name", trusted(&self.name)), ("output", output)]
    }
}

/// The system prompt of every skeptic.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkepticSystem;

impl PromptContext for SkepticSystem {
    fn template(&self) -> &str {
        "skeptic_system"
    }
}

/// What a skeptic is asked about one candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkepticTask {
    /// The author's claims with their numbers: foreign.
    pub claims: Vec<String>,
    /// The diff: foreign.
    pub diff: String,
    /// What the gates printed.
    pub gates: Vec<GateView>,
    /// What the reply has to repeat.
    pub nonce: String,
}

impl PromptContext for SkepticTask {
    fn template(&self) -> &str {
        "skeptic"
    }

    fn fields(&self) -> Fields {
        let cut = |boundary, text: String, max, keep| {
            Field::Cut(Untrusted::at(boundary, "", text), FenceOptions::cut(max, keep))
        };
        let claims = self.claims.join("\n");
        vec![
            ("claims", cut(Boundary::Claims, claims, ANSWER_BYTES, Keep::Head)),
            ("diff", cut(Boundary::Diff, self.diff.clone(), DIFF_BYTES, Keep::Ends)),
            ("gates", Field::List(self.gates.iter().map(|gate| gate.fields("")).collect())),
            ("nonce", trusted(&self.nonce)),
        ]
    }
}

/// A candidate as judges and the synthesizer see it: nothing says whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateView {
    /// `FIRST`, `SECOND`; for the synthesizer `A`, `B`, ….
    pub name: String,
    /// What the engine's records say of it. Never a word of the candidate's.
    pub facts: Vec<String>,
    /// The diff: foreign.
    pub diff: String,
    /// Its author's closing words: foreign. `None` when this reader is not to see them.
    pub answer: Option<String>,
    /// What its author claims: foreign.
    pub claims: Vec<String>,
    /// What skeptics have against the claims: foreign.
    pub refuted: Vec<String>,
    /// What the gates printed.
    pub gates: Vec<GateView>,
}

impl CandidateView {
    /// Its name, its facts and its change: for a reader that is to see none of its author's words.
    pub(super) fn change_fields(&self) -> Fields {
        let diff = Untrusted::at(Boundary::Diff, &self.name, &self.diff);
        vec![
            ("name", trusted(&self.name)),
            ("facts", lines(&self.facts)),
            ("diff", Field::Cut(diff, FenceOptions::cut(DIFF_BYTES, Keep::Ends))),
        ]
    }

    /// The fields of a candidate, in the order in which templates show them.
    pub(super) fn fields(&self) -> Fields {
        let foreign = |boundary, which: &str, text: &str, max, keep| {
            let which = format!("{} {which}", self.name);
            Field::Cut(Untrusted::at(boundary, &which, text), FenceOptions::cut(max, keep))
        };
        let answer = self.answer.as_deref().filter(|answer| !answer.trim().is_empty());
        let answer = answer.map_or(Field::Absent, |answer| {
            foreign(Boundary::Answer, "", answer, ANSWER_BYTES, Keep::Head)
        });
        let claims = match self.claims.is_empty() {
            true => Field::Absent,
            false => {
                let claims = self.claims.join("\n");
                foreign(Boundary::Claims, "", &claims, ANSWER_BYTES, Keep::Head)
            }
        };
        let refuted = match self.refuted.is_empty() {
            true => Field::Absent,
            false => {
                let refuted = self.refuted.join("\n");
                foreign(Boundary::Refutation, "", &refuted, ANSWER_BYTES, Keep::Head)
            }
        };
        let gate = |gate: &GateView| gate.fields(&self.name);
        vec![
            ("name", trusted(&self.name)),
            ("facts", lines(&self.facts)),
            ("diff", foreign(Boundary::Diff, "", &self.diff, DIFF_BYTES, Keep::Ends)),
            ("answer", answer),
            ("claims", claims),
            ("refuted", refuted),
            ("gates", Field::List(self.gates.iter().map(gate).collect())),
        ]
    }
}

/// A judge's question on one pair in one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeTask {
    /// The judge's template.
    pub template: String,
    /// What this judge looks at, in a few words.
    pub title: String,
    /// Its criteria.
    pub criteria: Vec<String>,
    /// When a difference is large enough to choose.
    pub scale: String,
    /// When it may veto; `None` when it may not.
    pub veto: Option<String>,
    /// The operator's task, if there is one.
    pub task: Option<String>,
    /// The two candidates, in the order shown.
    pub candidates: [CandidateView; 2],
    /// Tests that told these two apart, or did not.
    pub duels: Vec<DuelView>,
    /// What the reply has to repeat.
    pub nonce: String,
}

impl PromptContext for JudgeTask {
    fn template(&self) -> &str {
        &self.template
    }

    fn fields(&self) -> Fields {
        let candidates = self.candidates.iter().map(CandidateView::fields).collect();
        vec![
            ("title", trusted(&self.title)),
            ("criteria", lines(&self.criteria)),
            ("scale", trusted(&self.scale)),
            ("veto", optional(self.veto.as_deref())),
            ("task", optional(self.task.as_deref().map(str::trim))),
            ("candidates", Field::List(candidates)),
            ("duels", Field::List(self.duels.iter().map(DuelView::fields).collect())),
            ("nonce", trusted(&self.nonce)),
        ]
    }
}

/// What a judge is told when its reply was not valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeRetry {
    /// What was wrong, in the engine's words.
    pub fault: String,
    /// The part of the reply that was wrong: foreign.
    pub quoted: Option<String>,
    /// What the reply has to repeat.
    pub nonce: String,
}

impl PromptContext for JudgeRetry {
    fn template(&self) -> &str {
        "judge_retry"
    }

    fn fields(&self) -> Fields {
        vec![
            ("fault", trusted(&self.fault)),
            ("quoted", quoted(self.quoted.as_deref())),
            ("nonce", trusted(&self.nonce)),
        ]
    }
}

pub(super) fn quoted(text: Option<&str>) -> Field {
    text.map_or(Field::Absent, |text| {
        let text = Untrusted::at(Boundary::ReplyFault, "", text);
        Field::Cut(text, FenceOptions::cut(QUOTE_BYTES, Keep::Head))
    })
}
