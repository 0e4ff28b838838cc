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
    /// Tests of the base fail, all of them tests that the candidate changed: which of the two is right is
    /// for judges and people to say. Neither a pass nor a failure, and never enough for a pick by evidence.
    Contested {
        /// Which tests.
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

    /// Whether tests that the candidate changed speak against it, and nothing else does.
    pub fn is_contested(&self) -> bool {
        matches!(self, Self::Contested { .. })
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

impl Diagnostic {
    /// In one line: where it is as far as that is known, its code or test, and what it says.
    pub fn text(&self) -> String {
        let place = match (self.path.as_str(), self.line) {
            // A test's name says where it is.
            ("", _) => String::new(),
            (path, _) if self.code.contains(path) => String::new(),
            (path, 0) => format!("{path}: "),
            (path, line) => format!("{path}:{line}: "),
        };
        match self.code.as_str() {
            "" => format!("{place}{}", self.message),
            code => format!("{place}{code}: {}", self.message),
        }
    }
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
    /// Failures of tests that the candidate changed, against the base's version of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<Diagnostic>,
    /// How many failures were there before and still are.
    pub unchanged: u64,
    /// False when the tool gave no diagnostics, so that only exit statuses could be compared.
    pub by_diagnostic: bool,
}

/// A test that failed and, without any change, passed in another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlakyTest {
    /// Its name; empty where only the command as a whole is known.
    pub name: String,
    /// Runs in which it failed.
    pub failed: u32,
    /// Runs in which it passed.
    pub passed: u32,
    /// Whether the base's own runs know it as flaky too.
    pub on_base: bool,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestEnd {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It was not seen: it did not compile, say.
    NotRun,
}

/// A test that a candidate adds or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnTest {
    /// Its name.
    pub name: String,
    /// On the candidate.
    pub here: TestEnd,
    /// On the base's sources; absent when it was not tried there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_base: Option<TestEnd>,
}

impl OwnTest {
    /// Whether it is evidence: it passes with the change, and does not without it.
    pub fn is_evidence(&self) -> bool {
        self.here == TestEnd::Passed
            && matches!(self.on_base, Some(TestEnd::Failed | TestEnd::NotRun))
    }
}

/// What a candidate's own tests say: those that it adds or changes, run apart from the base's. They
/// decide nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnTests {
    /// The tests by name, at most 200.
    pub tests: Vec<OwnTest>,
    /// How many pass on the candidate and not on the base.
    pub evidence: u64,
    /// How many fail on the candidate itself.
    pub failing: u64,
    /// What could not be found out, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How long these runs took, in milliseconds.
    pub millis: u64,
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
    /// Tests that failed and passed in runs of the same tree; only with reruns asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky: Vec<FlakyTest>,
    /// The candidate's own tests, when it adds or changes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnTests>,
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
            flaky: Vec::new(),
            own: None,
        }
    }
}
