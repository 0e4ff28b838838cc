//! Settings: defaults < user < repository < environment < flag, each value with its origin.
//!
//! Lives here: the schema of `config.toml` and `bakeoff.toml`, what an untrusted repository may set,
//! the trust store, model servers and their keys, lanes. Never here: processes, the process's own
//! environment or home directory (the caller passes them in).

mod convert;
mod endpoint;
mod error;
mod keep;
mod lane;
mod lane_limits;
mod load;
mod permit;
mod providers;
mod reader;
mod roles;
mod setting;
mod side;
mod starter;
mod suggest;
mod trust;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use endpoint::{DeadlineSettings, Header, OutputLimit, RequestSettings};
pub use error::{ConfigError, Excerpt, Problem};
pub use keep::{CacheSettings, WorkspaceSettings};
pub use lane::{DEFAULT_ATTEMPTS, LaneConfig, LaneSpec, MAX_ATTEMPTS, parse_lane, parse_model};
pub use lane_limits::LaneLimits;
pub use permit::MAX_UNTRUSTED_TIMEOUT;
pub use providers::{DEFAULT_MODELS_AS_OF, Price, ProviderConfig, maker};
pub use roles::{DUEL_RUNS, DesignSettings, DuelSettings};
pub use setting::Setting;
pub use side::SideSettings;
pub use starter::starter;
pub use trust::{TrustError, TrustStore, content_hash};
pub use workers::{SandboxUse, WorkerSettings};

use crate::model::{JudgeId, MicroUsd, ModelRef, PatchPlan, RunLimits, WorkerLimits};

/// Where settings come from. The caller reads them: this module touches neither disk nor environment.
pub struct Sources<'a> {
    /// The user's `config.toml`: its path, for messages, and its text.
    pub user: Option<(PathBuf, String)>,
    /// The text of the repository's `bakeoff.toml` **in the base commit**.
    pub repository: Option<String>,
    /// Whether the operator trusts the repository (see [`TrustStore`]).
    pub trusted: bool,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Every setting.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[gates]`.
    pub gates: GateSettings,
    /// `[lanes.NAME]` of all files, merged by name.
    pub lanes: BTreeMap<String, LaneConfig>,
    /// The lanes that a run uses when none is asked for: the repository's choice if it names any, else
    /// the user's, in the order of the file.
    pub lane_names: Vec<String>,
    /// `[patch]`.
    pub patch: PatchSettings,
    /// `[judges]`.
    pub judges: JudgeSettings,
    /// `[duels]`.
    pub duels: DuelSettings,
    /// `[design]`.
    pub design: DesignSettings,
    /// `[limits]`.
    pub limits: LimitSettings,
    /// `[providers.NAME]` and the built-in ones.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// `[workers]`.
    pub workers: WorkerSettings,
    /// `[workspace]`.
    pub workspace: WorkspaceSettings,
    /// `[cache]`.
    pub cache: CacheSettings,
    /// `[side]`.
    pub side: SideSettings,
    /// `[tools]`: an absent name means enabled (contract R33).
    pub tools: BTreeMap<String, Setting<bool>>,
}

/// `[gates]`: how a change is proved.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// The typecheck's command line; found from the repository's files when absent.
    pub check: Setting<Option<String>>,
    /// The tests' command line.
    pub test: Setting<Option<String>>,
    /// A command line that runs once on the base, before its gates.
    pub setup: Setting<Option<String>>,
    /// Whether `setup` may reach the network. Only an operator or a trusted repository can say so.
    pub setup_network: Setting<bool>,
    /// Where the gates run, relative to the repository's top.
    pub dir: Setting<String>,
    /// Names of the operator's environment variables that gates may see.
    pub env: Setting<Vec<String>>,
    /// The longest time of one command, in seconds.
    pub timeout_seconds: Setting<u64>,
    /// How many gates run side by side.
    pub parallel: Setting<u32>,
    /// Memory of one gate's job, in MiB.
    pub memory_mb: Setting<u64>,
    /// What one gate's job may hold on disk, in MiB.
    pub disk_mb: Setting<u64>,
    /// Ignored directories of the checkout that are carried along as snapshots (`node_modules`).
    pub carry: Setting<Vec<String>>,
    /// How often failed tests are run again before they count as failed.
    pub flaky: Setting<u32>,
    /// Whether errors that are only in test targets fail a typecheck (Cargo).
    pub strict_tests: Setting<bool>,
    /// Whether the tests that a candidate adds or changes are run apart.
    pub own_tests: Setting<bool>,
    /// Globs of further paths that come from the base while the gates run (lock files, say).
    pub protect: Setting<Vec<String>>,
}

/// `[patch]`: what diffs may do beyond changing text in regular files, and how large they may be.
#[derive(Clone, Debug)]
pub struct PatchSettings {
    /// Symbolic links whose target stays inside the tree.
    pub links: Setting<bool>,
    /// Commits of submodules, and `.gitmodules`.
    pub submodules: Setting<bool>,
    /// Binary contents.
    pub binary: Setting<bool>,
    /// The largest diff, in MiB.
    pub max_mb: Setting<u32>,
    /// The most lines that a diff may add and remove, together.
    pub max_lines: Setting<u32>,
}

impl Default for PatchSettings {
    fn default() -> Self {
        let usual = PatchPlan::default();
        Self {
            links: Setting::default_of(usual.links),
            submodules: Setting::default_of(usual.submodules),
            binary: Setting::default_of(usual.binary),
            max_mb: Setting::default_of(usual.max_mb),
            max_lines: Setting::default_of(usual.max_lines),
        }
    }
}

impl PatchSettings {
    /// The same for the plan.
    pub fn plan(&self) -> PatchPlan {
        PatchPlan {
            links: self.links.value,
            submodules: self.submodules.value,
            binary: self.binary.value,
            max_mb: self.max_mb.value,
            max_lines: self.max_lines.value,
        }
    }
}

/// `[judges]`: who judges.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// False: no model is asked to judge.
    pub enabled: Setting<bool>,
    /// The judges by id; empty means the built-in panel.
    pub use_: Setting<Vec<JudgeId>>,
    /// Models that answer for them, in turn; empty means the lanes' models.
    pub models: Setting<Vec<ModelRef>>,
    /// The synthesizer's model.
    pub synth: Setting<Option<ModelRef>>,
    /// How many survivors meet in pairs.
    pub finalists: Setting<u32>,
    /// Whether a model tries to refute what authors claim.
    pub skeptics: Setting<bool>,
    /// How often the synthesizer may mend a change of its own that fails a gate.
    pub fix_rounds: Setting<u32>,
}

/// `[limits]`: what a run may use.
#[derive(Clone, Debug)]
pub struct LimitSettings {
    /// Worker runs at once.
    pub max_parallel: Setting<u32>,
    /// How many candidates that pass end the fan-out.
    pub enough: Setting<Option<u32>>,
    /// Money of the whole run.
    pub budget: Setting<Option<MicroUsd>>,
    /// Tokens, in and out, of the whole run.
    pub max_tokens: Setting<Option<u64>>,
    /// Turns of all workers together.
    pub max_turns: Setting<Option<u64>>,
    /// Wall-clock seconds of the whole run.
    pub max_seconds: Setting<Option<u64>>,
    /// Tool rounds of one worker run.
    pub max_tool_iterations: Setting<u32>,
    /// Wall-clock seconds of one worker run.
    pub max_turn_seconds: Setting<Option<u64>>,
    /// Money of one worker run.
    pub lane_budget: Setting<Option<MicroUsd>>,
    /// Tokens, in and out, of one worker run.
    pub lane_tokens: Setting<Option<u64>>,
    /// The largest single answer, in tokens.
    pub max_output_tokens: Setting<u32>,
}

impl LimitSettings {
    /// The limits of the whole run.
    pub fn run(&self) -> RunLimits {
        RunLimits {
            max_parallel: self.max_parallel.value,
            budget: self.budget.value,
            max_seconds: self.max_seconds.value,
            max_tokens: self.max_tokens.value,
            max_turns: self.max_turns.value,
            enough: self.enough.value,
        }
    }

    /// The limits of one worker run.
    pub fn worker(&self) -> WorkerLimits {
        WorkerLimits {
            max_tool_iterations: self.max_tool_iterations.value,
            max_seconds: self.max_turn_seconds.value,
            max_tokens: self.lane_tokens.value,
            budget: self.lane_budget.value,
            max_output_tokens: self.max_output_tokens.value,
        }
    }
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            check: Setting::default(),
            test: Setting::default(),
            setup: Setting::default(),
            setup_network: Setting::default(),
            dir: Setting::default(),
            env: Setting::default(),
            timeout_seconds: Setting::default_of(600),
            parallel: Setting::default_of(2),
            memory_mb: Setting::default_of(8192),
            disk_mb: Setting::default_of(32768),
            carry: Setting::default(),
            flaky: Setting::default_of(0),
            strict_tests: Setting::default_of(false),
            own_tests: Setting::default_of(true),
            protect: Setting::default(),
        }
    }
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            enabled: Setting::default_of(true),
            use_: Setting::default(),
            models: Setting::default(),
            synth: Setting::default(),
            finalists: Setting::default_of(4),
            skeptics: Setting::default_of(true),
            fix_rounds: Setting::default_of(1),
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            max_parallel: Setting::default_of(4),
            enough: Setting::default(),
            budget: Setting::default(),
            max_tokens: Setting::default(),
            max_turns: Setting::default(),
            max_seconds: Setting::default(),
            max_tool_iterations: Setting::default_of(90),
            max_turn_seconds: Setting::default(),
            lane_budget: Setting::default(),
            lane_tokens: Setting::default(),
            max_output_tokens: Setting::default_of(16_384),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gates: GateSettings::default(),
            lanes: BTreeMap::new(),
            lane_names: Vec::new(),
            patch: PatchSettings::default(),
            judges: JudgeSettings::default(),
            duels: DuelSettings::default(),
            design: DesignSettings::default(),
            limits: LimitSettings::default(),
            workers: WorkerSettings::default(),
            workspace: WorkspaceSettings::default(),
            cache: CacheSettings::default(),
            side: SideSettings::default(),
            providers: providers::built_in(),
            tools: BTreeMap::new(),
        }
    }
}

/// The first `max` characters of a text, for a message.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
