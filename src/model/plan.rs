//! What a run will do, resolved: every flag, file and default already weighed.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Family, JudgeId, MicroUsd, Task};

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// Built in.
    Default,
    /// Found in the repository's files (a `Cargo.toml`, a `tsconfig.json`).
    Detected {
        /// The file that decided it.
        file: String,
    },
    /// The user's `config.toml`.
    User,
    /// The repository's `bakeoff.toml`, as it stands in the base commit.
    Repository,
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// A command-line flag.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Detected { file } => write!(f, "found by {file}"),
            Self::User => f.write_str("user config"),
            Self::Repository => f.write_str("bakeoff.toml"),
            Self::Environment { name } => write!(f, "${name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// The dialect a model server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI chat completions.
    OpenaiChat,
    /// OpenAI responses.
    OpenaiResponses,
    /// Anthropic messages.
    Anthropic,
    /// A script in a data file: no server at all.
    Scripted,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Scripted => "scripted",
        })
    }
}

/// A model at a provider, as `PROVIDER:MODEL`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ModelRef {
    /// The provider's name in the config (`openai`, `anthropic`, `local`, …).
    pub provider: String,
    /// The model's name on that server.
    pub model: String,
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

/// A lane: one kind of worker and how many attempts it makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    /// The lane's name, unique in the plan.
    pub name: String,
    /// Its model.
    pub model: ModelRef,
    /// How many worker runs, at least 1.
    pub attempts: u32,
    /// Its voice in the consensus.
    pub family: Family,
    /// Sampling temperature, when set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Models that take over, in this order, when the server of the one before can't answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<ModelRef>,
    /// The limits of each of its worker runs, where they are not those of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<WorkerLimits>,
}

/// Whose output format a gate command writes, so that its diagnostics can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckTool {
    /// `cargo check`, `cargo clippy`, `cargo build`.
    CargoCheck,
    /// `cargo test`.
    CargoTest,
    /// `tsc`.
    Tsc,
    /// `mypy`.
    Mypy,
    /// `pyright`.
    Pyright,
    /// `pytest`.
    Pytest,
    /// `go build`, `go vet`.
    GoBuild,
    /// `go test`.
    GoTest,
    /// `vitest`.
    Vitest,
    /// `jest`.
    Jest,
    /// `node --test`.
    NodeTest,
    /// `mocha`.
    Mocha,
    /// `python -m unittest`.
    Unittest,
    /// Anything else: only the exit status speaks.
    Other,
}

/// A gate's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandSpec {
    /// The command line, run by `sh -c` inside the sandbox.
    pub line: String,
    /// Whose output it writes.
    pub tool: CheckTool,
    /// Who set it.
    pub origin: Origin,
}

/// The gates of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatePlan {
    /// Runs once on the base, before its gates.
    pub setup: Option<CommandSpec>,
    /// Whether `setup` may reach the network: the operator's word, never an untrusted repository's.
    pub setup_network: bool,
    /// The typecheck. `None` only after an explicit `--no-check`.
    pub check: Option<CommandSpec>,
    /// The tests, if asked for.
    pub test: Option<CommandSpec>,
    /// The directory in which they run, relative to the repository's top, empty for the top.
    pub dir: String,
    /// Names of the operator's environment variables that the gates may see.
    pub env: Vec<String>,
    /// The longest time of one gate's command, in seconds.
    pub timeout_seconds: u64,
    /// How many gates may run at once.
    pub parallel: u32,
    /// Memory limit of one gate's job, in bytes.
    pub memory_bytes: u64,
    /// What one gate's job may hold on disk, in bytes.
    #[serde(default = "no_limit")]
    pub disk_bytes: u64,
    /// How often failed tests are run again before they count as failed.
    #[serde(default)]
    pub flaky: u32,
    /// Whether an error that is only in test targets fails a typecheck (Cargo).
    #[serde(default)]
    pub strict_tests: bool,
    /// Whether the tests that a candidate adds or changes are run apart.
    #[serde(default = "yes")]
    pub own_tests: bool,
    /// Globs of further paths that come from the base while the gates run (lock files, say).
    #[serde(default)]
    pub protect: Vec<String>,
}

fn yes() -> bool {
    true
}

/// Of the records of builds that did not limit it.
fn no_limit() -> u64 {
    u64::MAX
}

/// What diffs may do beyond changing text in regular files, which is nothing by default, and how large they may
/// be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchPlan {
    /// Symbolic links whose target stays inside the tree.
    pub links: bool,
    /// Commits of submodules, and `.gitmodules`.
    pub submodules: bool,
    /// Binary contents.
    pub binary: bool,
    /// The largest diff, in MiB.
    #[serde(default = "PatchPlan::usual_mb")]
    pub max_mb: u32,
    /// The most lines that a diff may add and remove, together.
    #[serde(default = "PatchPlan::usual_lines")]
    pub max_lines: u32,
}

impl PatchPlan {
    fn usual_mb() -> u32 {
        8
    }

    fn usual_lines() -> u32 {
        50_000
    }
}

impl Default for PatchPlan {
    fn default() -> Self {
        let (max_mb, max_lines) = (Self::usual_mb(), Self::usual_lines());
        Self { links: false, submodules: false, binary: false, max_mb, max_lines }
    }
}

/// Tests that a model writes to tell close finalists apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DuelPlan {
    /// The model that writes them.
    pub model: ModelRef,
    /// The most that one run has.
    pub most: u32,
    /// How often each runs on each tree: ends that differ make it void.
    pub runs: u32,
    /// The operator's command. `{path}` in it stands for the test's files; without it the command runs
    /// all tests, and finds the new one.
    pub command: CommandSpec,
}

/// Who judges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgePlan {
    /// The judges; empty means that no model is asked.
    pub judges: Vec<JudgeId>,
    /// Models that answer for the judges, used in turn.
    pub models: Vec<ModelRef>,
    /// The synthesizer's model; `None` switches it off.
    pub synth: Option<ModelRef>,
    /// How many survivors meet in pairs.
    pub finalists: u32,
    /// Whether a model tries to refute what the finalists' authors claim, before the judges are asked.
    #[serde(default)]
    pub skeptics: bool,
    /// How often the synthesizer may mend a change of its own that fails a gate.
    #[serde(default)]
    pub fix_rounds: u32,
    /// Duels; `None` when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duels: Option<DuelPlan>,
}

/// Limits of one worker run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerLimits {
    /// Tool rounds (90 by default).
    pub max_tool_iterations: u32,
    /// Wall-clock seconds of one worker run.
    pub max_seconds: Option<u64>,
    /// Tokens, in and out, of one worker run.
    pub max_tokens: Option<u64>,
    /// The most money that one worker run may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<MicroUsd>,
    /// The largest single answer, in tokens.
    pub max_output_tokens: u32,
}

/// Limits of the workers that one worker run may hand work to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NestedLimits {
    /// How many in one worker run; 0 means none.
    pub most: u32,
    /// How deep: 1 means that a nested worker can't have one itself.
    pub depth: u32,
    /// Tool rounds of each.
    pub turns: u32,
}

impl Default for NestedLimits {
    fn default() -> Self {
        Self { most: 4, depth: 1, turns: 30 }
    }
}

/// What workers may start, beside asking their model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerPlan {
    /// The longest that a background job may run, in seconds.
    pub job_seconds: u64,
    /// Whether a model may run code in the sandbox; else that is left to the operator.
    pub code: bool,
    /// Nested workers.
    pub nested: NestedLimits,
    /// How often a candidate that failed a gate goes back to its worker. Once, unless the operator says
    /// otherwise: a worker may not run the gates itself, so that a slip would cost the whole candidate.
    pub heal_rounds: u32,
}

impl Default for WorkerPlan {
    fn default() -> Self {
        Self { job_seconds: 1800, code: true, nested: NestedLimits::default(), heal_rounds: 1 }
    }
}

/// Limits of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLimits {
    /// Worker runs at once.
    pub max_parallel: u32,
    /// The most money that the run may spend.
    pub budget: Option<MicroUsd>,
    /// Wall-clock seconds of the whole run.
    pub max_seconds: Option<u64>,
    /// Tokens, in and out, of everything that models are asked in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Turns of all workers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// How many candidates that pass the gates end the fan-out, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<u32>,
}

/// A resolved run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The task; absent for `gate` and for `pick` without one.
    pub task: Option<Task>,
    /// The repository's top directory. In a record it is written lossily.
    #[serde(with = "lossy_path")]
    #[schemars(with = "String")]
    pub repo: PathBuf,
    /// The revision asked for (`HEAD` by default).
    pub base: String,
    /// Whether uncommitted changes of the working tree are part of the base.
    pub dirty: bool,
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// The gates.
    pub gates: GatePlan,
    /// What diffs may do. Records of before it was there have none of it.
    #[serde(default)]
    pub patch: PatchPlan,
    /// The judges.
    pub judging: JudgePlan,
    /// Limits of each worker run of a lane that has none of its own.
    pub worker_limits: WorkerLimits,
    /// What workers may start. Records of before it was there have the built-in values.
    #[serde(default)]
    pub workers: WorkerPlan,
    /// Limits of the whole run.
    pub limits: RunLimits,
    /// Seed of everything that is drawn by chance.
    pub seed: u64,
    /// The operator's explicit permission to run code without a proven sandbox.
    pub waive_sandbox: bool,
    /// Families in the order in which the user trusts them.
    pub trust: Vec<Family>,
    /// The model of the design step, which plans for all workers; `None` makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<ModelRef>,
    /// The model of the side calls (title, capsule); `None` makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<ModelRef>,
    /// How many earlier runs of the same repository workers are told of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior: u32,
    /// Whether nothing of this run is ever told to a model of another run, nor to a side call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_from_context: bool,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Plan {
    /// How many worker runs the plan has.
    pub fn attempts(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.attempts).sum()
    }

    /// The limits of a worker run of `lane`.
    pub fn limits_of(&self, lane: &Lane) -> WorkerLimits {
        lane.limits.unwrap_or(self.worker_limits)
    }
}

mod lossy_path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&path.to_string_lossy())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(PathBuf::from)
    }
}
