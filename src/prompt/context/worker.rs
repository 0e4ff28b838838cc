//! What a worker is told.

use super::{Fields, INSTRUCTIONS_BYTES, PRIOR_BYTES, failed_gate, inline, optional, trusted};
use crate::fence::{BLOCKS, Boundary, FenceOptions, Keep, STEERING, Untrusted, neutralise};
use crate::prompt::{Field, PromptContext};

/// The system prompt of every worker. It has no field, so that it is the same bytes for every lane
/// and model servers can share its prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerSystem;

impl PromptContext for WorkerSystem {
    fn template(&self) -> &str {
        "worker_system"
    }
}

/// The instructions that a repository holds for its contributors (`AGENTS.md`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Instructions {
    /// There are none.
    #[default]
    None,
    /// The user trusts the repository: they are instructions.
    Trusted(String),
    /// The user has not said so: they are information.
    Untrusted(String),
}

impl Instructions {
    /// The text, in a fence unless it is trusted, and whether it is.
    pub(super) fn fields(&self) -> (Field, Field) {
        match self {
            Self::None => (Field::Absent, Field::Flag(false)),
            Self::Trusted(text) => (trusted(text.trim_end()), Field::Flag(true)),
            Self::Untrusted(text) => {
                let text = Untrusted::at(Boundary::RepositoryInstructions, "AGENTS.md", text);
                let options = FenceOptions::cut(INSTRUCTIONS_BYTES, Keep::Head);
                (Field::Cut(text, options), Field::Flag(false))
            }
        }
    }
}

/// A gate that a candidate will have to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateCommand {
    /// `typecheck` or `tests`.
    pub name: String,
    /// The command line: the operator's, or found from the base commit, so perhaps the repository's.
    pub command: String,
}

impl GateCommand {
    pub(super) fn fields(&self) -> Fields {
        vec![("name", trusted(&self.name)), ("command", trusted(inline(&self.command)))]
    }
}

/// A worker's first message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTask {
    /// The operator's task.
    pub task: String,
    /// The repository's instructions.
    pub instructions: Instructions,
    /// The gates, in their order.
    pub gates: Vec<GateCommand>,
    /// The directory in which the gates run, relative to the top; empty for the top.
    pub dir: String,
    /// What earlier runs of the same repository left, the newest first: foreign.
    pub prior: Vec<String>,
    /// The plan of the design step: an instruction by design (contract C26), a model's words.
    pub design: Option<String>,
    /// The attempt's nudge, see [`variation`](crate::prompt::variation).
    pub hint: Option<String>,
}

impl PromptContext for WorkerTask {
    fn template(&self) -> &str {
        "worker_task"
    }

    fn fields(&self) -> Fields {
        let (instructions, are_trusted) = self.instructions.fields();
        let dir = Some(inline(&self.dir)).filter(|dir| !dir.is_empty());
        vec![
            ("task", trusted(self.task.trim())),
            ("instructions", instructions),
            ("instructions_are_trusted", are_trusted),
            ("gates", Field::List(self.gates.iter().map(GateCommand::fields).collect())),
            ("dir", optional(dir.as_deref())),
            (
                "prior",
                Field::List(self.prior.iter().map(|run| vec![("text", prior(run))]).collect()),
            ),
            ("design", optional(self.design.as_deref().map(plan).as_deref())),
            ("hint", optional(self.hint.as_deref())),
        ]
    }
}

/// A plan is no fence's inside, so nothing in it may look like one, nor end a block of the prompt.
fn plan(text: &str) -> String {
    neutralise(text.trim(), &BLOCKS.map(String::from)).text
}

/// An earlier run's words: they can end no block of the prompt (contract C27).
fn prior(run: &str) -> Field {
    let text = Untrusted::at(Boundary::RunDigest, "", run);
    Field::Cut(text, FenceOptions::cut(PRIOR_BYTES, Keep::Head))
}

/// What a worker is told when its candidate failed a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFailure {
    /// The gate's name.
    pub gate: String,
    /// Its command line, empty for `apply`.
    pub command: String,
    /// What the engine knows of the failure.
    pub facts: Vec<String>,
    /// What the gate printed: foreign.
    pub output: String,
    /// How many more such rounds there can be.
    pub rounds_left: u32,
}

impl PromptContext for GateFailure {
    fn template(&self) -> &str {
        "gate_failure"
    }

    fn fields(&self) -> Fields {
        let mut fields = failed_gate(&self.gate, "", &self.command, &self.facts, &self.output);
        fields.push(("rounds_left", Field::Number(self.rounds_left.into())));
        fields
    }
}

/// What the operator says to a worker under way: an instruction by design (contract C26). Who may write it is
/// the control socket's affair; that nothing else reads like it is the fences'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorSteering {
    /// The line that it opens with: which text it is and who sent it.
    pub label: String,
    /// The text.
    pub text: String,
}

impl PromptContext for OperatorSteering {
    fn template(&self) -> &str {
        "steering"
    }

    fn fields(&self) -> Fields {
        vec![
            ("label", trusted(&self.label)),
            ("text", trusted(self.text.trim())),
            ("end", trusted(format!("END {STEERING}"))),
        ]
    }
}
