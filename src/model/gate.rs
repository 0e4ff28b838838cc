//! What a gate said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactId, Clipped};

/// Which gate.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// The operator's setup command, on the base only.
    Setup,
    /// Applying the diff on disk and checking that the tree is the admitted one.
    Apply,
    /// The typecheck command.
    Typecheck,
    /// The test command.
    Test,
}

/// A gate's verdict. Only `Pass` is a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// Proved.
    Pass,
    /// Disproved: the candidate is at fault.
    Fail {
        /// In a few words.
        reason: String,
    },
    /// The gate could not run. Never counts as a pass, and never as the candidate's fault.
    Infra {
        /// What was missing and how to get it.
        reason: String,
    },
    /// Not asked for, or an earlier gate already failed.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// Whether it is a pass.
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass)
    }

    /// Whether the candidate failed it.
    pub fn is_fail(&self) -> bool {
        matches!(self, Self::Fail { .. })
    }

    /// Whether it could not run.
    pub fn is_infra(&self) -> bool {
        matches!(self, Self::Infra { .. })
    }
}

/// One message of a compiler, type checker or test runner.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Diagnostic {
    /// The tool's own code (`E0308`, `TS2322`), a test's name for a failed test, or empty.
    pub code: String,
    /// The path as the tool wrote it, relative to the workspace where it can be made so.
    pub path: String,
    /// The line, from 1; 0 when the tool gave none.
    pub line: u32,
    /// The message's first line.
    pub message: String,
}

/// How a gate's result stands against the same gate on the base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaseComparison {
    /// Whether the base passed this gate.
    pub base_passed: bool,
    /// Failures that the base does not have.
    pub new_failures: Vec<Diagnostic>,
    /// Failures of the base that are gone.
    pub fixed: Vec<Diagnostic>,
    /// How many failures were there before and still are.
    pub unchanged: u64,
    /// False when the tool gave no diagnostics, so that only exit statuses could be compared.
    pub by_diagnostic: bool,
}

/// One gate's report on one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// Which gate.
    pub gate: GateKind,
    /// The command line that ran, empty for gates that run none.
    pub command: String,
    /// What it said.
    pub verdict: Verdict,
    /// The command's exit status, when it exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// Its output, head and tail: foreign text.
    pub output: Clipped,
    /// The whole kept output as an artifact, when there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    /// What the tool reported, read from its output; at most 200.
    pub diagnostics: Vec<Diagnostic>,
    /// Against the base; absent on the base itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseComparison>,
    /// On the base: which output of earlier runs lay under this run, when there was any (`the same base,
    /// 90 s old`). A setup that was left out for that says so here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<String>,
}

impl GateReport {
    /// A report without a command: what `apply` and skipped gates give.
    pub fn bare(gate: GateKind, verdict: Verdict) -> Self {
        Self {
            gate,
            command: String::new(),
            verdict,
            exit_status: None,
            millis: 0,
            output: Clipped::default(),
            artifact: None,
            diagnostics: Vec::new(),
            base: None,
            reused: None,
        }
    }
}
