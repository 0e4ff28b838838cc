//! Flags that several subcommands share, as they are typed: nothing is resolved here.

use std::path::PathBuf;

use clap::Args;

/// Which repository and which base.
#[derive(Args, Clone, Debug, Default)]
pub struct RepoFlags {
    /// Work on the repository that holds this directory
    #[arg(short = 'C', long = "repo", value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,
    /// The revision that diffs are made against and gated on
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    pub base: String,
    /// Take uncommitted changes of the working tree (ignored files never) as part of the base
    #[arg(long)]
    pub dirty: bool,
}

/// The task's text.
#[derive(Args, Clone, Debug, Default)]
pub struct TaskFlags {
    /// The task in your own words; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Read the task from a file (for example a saved issue)
    #[arg(short = 'f', long = "task-file", value_name = "FILE", conflicts_with = "task")]
    pub task_file: Option<PathBuf>,
}

/// Who works.
#[derive(Args, Clone, Debug, Default)]
pub struct LaneFlags {
    /// A lane: NAME=PROVIDER:MODEL[:COUNT]; may be given more than once
    #[arg(long = "lane", value_name = "NAME=PROVIDER:MODEL[:COUNT]")]
    pub lanes: Vec<String>,
    /// Attempts in all, shared out over the lanes in turn
    #[arg(short = 'n', long = "attempts", value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub attempts: Option<u32>,
    /// Worker runs at once
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub max_parallel: Option<u32>,
    /// End the workers as soon as K candidates pass the gates: lanes not begun are left out, others cut
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub enough: Option<u32>,
    /// The most that the whole run may spend, in US dollars
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub budget: Option<f64>,
    /// The most tokens, in and out, that the whole run may use; keeps a run whose prices are unknown
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_tokens: Option<u64>,
    /// The most turns of all workers together
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_turns: Option<u64>,
    /// The longest that the whole run may take, in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_seconds: Option<u64>,
    /// Send a candidate that fails a gate back to its worker, up to N times (0: never; without this and without
    /// `heal_rounds` in `[workers]`: 1)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub heal: Option<u32>,
    /// The most that each worker may spend, in US dollars
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub lane_budget: Option<f64>,
    /// The most tokens, in and out, of each worker
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub lane_tokens: Option<u64>,
    /// The most rounds of tool calls of each worker
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub lane_turns: Option<u32>,
    /// The longest that each worker may take, in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub lane_seconds: Option<u64>,
    /// Have a model plan the task once, before the workers begin; its plan is told to all of them
    #[arg(long)]
    pub design: bool,
    /// Seed of everything that is drawn by chance
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
}

/// What of other runs a run is told, and what others are told of it.
#[derive(Args, Clone, Debug, Default)]
pub struct ContextFlags {
    /// Tell workers what the last N runs on this repository left: as fenced memory, never as instruction
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub prior: Option<u32>,
    /// Tell nothing of this run to other runs, and make no side call (title, capsule) about it
    #[arg(long)]
    pub exclude_from_context: bool,
}

/// What proves a candidate.
#[derive(Args, Clone, Debug, Default)]
pub struct GateFlags {
    /// The typecheck command, instead of the one found in the repository
    #[arg(long, value_name = "CMD", conflicts_with = "no_check")]
    pub check: Option<String>,
    /// Do without a typecheck: candidates are only applied (and tested, with --test)
    #[arg(long)]
    pub no_check: bool,
    /// The test command; `auto` takes the one found in the repository
    #[arg(long, value_name = "CMD")]
    pub test: Option<String>,
    /// A command that prepares the base once, before its gates
    #[arg(long, value_name = "CMD")]
    pub setup: Option<String>,
    /// The directory in the repository where the gates run (a package of a monorepo)
    #[arg(long, value_name = "SUB")]
    pub dir: Option<String>,
    /// Pass this environment variable to the gates; may be given more than once
    #[arg(long = "env", value_name = "NAME")]
    pub env: Vec<String>,
    /// The longest that one gate may take, in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub gate_timeout: Option<u64>,
    /// Run failed tests again, up to N times: what passes then is told as flaky
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub flaky: Option<u32>,
    /// Run code even where no sandbox can be proved. It is recorded and shown
    #[arg(long)]
    pub waive_sandbox: bool,
}

/// Who judges.
#[derive(Args, Clone, Debug, Default)]
pub struct JudgeFlags {
    /// A judge by id; may be given more than once
    #[arg(long = "judge", value_name = "ID", conflicts_with = "no_judge")]
    pub judges: Vec<String>,
    /// The model that judges, as PROVIDER:MODEL; may be given more than once
    #[arg(long = "judge-model", value_name = "PROVIDER:MODEL", conflicts_with = "no_judge")]
    pub judge_models: Vec<String>,
    /// Ask no judge: choose from evidence alone
    #[arg(long)]
    pub no_judge: bool,
    /// Ask no synthesizer
    #[arg(long)]
    pub no_synth: bool,
    /// Let a model write up to N tests that tell close finalists apart; 0 for none. By default 1 where judges and a test command are there
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub duels: Option<u32>,
    /// Families that you trust, best first
    #[arg(long, value_name = "FAMILY,…", value_delimiter = ',')]
    pub trust: Vec<String>,
}

/// Where results go.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputFlags {
    /// Write the winning diff to this file; `-` is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON object (the run's record) to standard output
    #[arg(long, conflicts_with = "events")]
    pub json: bool,
    /// Print events as JSON lines to standard output while the run goes on
    #[arg(long)]
    pub events: bool,
    /// Write the winner to the working tree when the run ends with one
    #[arg(long)]
    pub apply: bool,
    /// Show lanes, commands and the largest number of calls and cost, and do nothing
    #[arg(long, conflicts_with_all = ["apply", "events"])]
    pub dry_run: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}
