//! `bakeoff eval`.

use std::path::PathBuf;

use super::output::{tell, write_json, write_text};
use super::{CliError, Exit};
use crate::eval::{Families, PoolError, Question, Selector, as_json, as_text, evaluate, read};
use crate::model::Family;

/// Measure ways of choosing on a pool of diffs whose outcome is known, offline
#[derive(clap::Args, Debug)]
#[command(
    after_help = "TASKS and CANDIDATES hold one JSON object a line. A task has `task_id`, and for its base `github` \
    (OWNER/NAME), `base_commit`, `base_tree`; a candidate has `task_id`, `patch`, `reported` (`resolved` or not), and \
    `agent`, `model`, `system` or `family`. A task whose repository is not found is judged on what its diffs show of \
    the base. Nothing runs, no model is asked, and nothing is written."
)]
pub struct Args {
    /// The tasks: a file, or a directory with *tasks.jsonl or with TASK/task.json
    tasks: PathBuf,
    /// The candidates: a file or a directory (default: where the tasks are)
    candidates: Option<PathBuf>,
    /// Where repositories are: DIR/TASK, or DIR/OWNER+NAME, DIR/OWNER/NAME, DIR/NAME, bare or not; may be given more than once
    #[arg(long, value_name = "DIR")]
    repos: Vec<PathBuf>,
    /// Only this way of choosing, and compare with the first; may be given more than once: consensus, vote, core, smallest, random, trust, fusion
    #[arg(long = "selector", value_name = "NAME")]
    selectors: Vec<Selector>,
    /// Trusted families, the most trusted first
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    trust: Vec<String>,
    /// Whose voice a diff is: its agent, its agent with its model's maker, or every system for itself; a row's own `family` comes first
    #[arg(long, value_name = "KIND", value_enum, default_value = "agent")]
    family: Kind,
    /// Only tasks whose id holds this; may be given more than once
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Keep candidates whose outcome the pool does not say, and count a choice of one as not right
    #[arg(long)]
    keep_unknown: bool,
    /// How often tasks are drawn anew for an interval
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    draws: u32,
    /// What the draws begin with
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Show every task's choice, too
    #[arg(long)]
    each: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Whose voice a diff is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Agent,
    Maker,
    System,
}

impl Args {
    /// Measures.
    pub fn run(self) -> Result<Exit, CliError> {
        let families = match self.family {
            Kind::Maker => Families::Maker,
            Kind::Agent => Families::Agent,
            Kind::System => Families::System,
        };
        let mut pool = read(&self.tasks, self.candidates.as_deref(), families)?;
        for warning in &pool.warnings {
            tell(&format!("bakeoff: warning: {warning}\n"));
        }
        if !self.only.is_empty() {
            pool.tasks.retain(|task| self.only.iter().any(|text| task.id.contains(text)));
        }
        if pool.tasks.is_empty() {
            return Err(CliError::usage("no task's id holds what --only names"));
        }
        if !self.keep_unknown {
            pool.leave_out_unknown();
        }
        self.check_repos()?;
        let known = |name: &String| {
            pool.tasks.iter().flat_map(|task| &task.rows).any(|row| row.family.as_str() == name)
        };
        for name in self.trust.iter().filter(|name| !known(name)) {
            pool.notes.push(format!("no diff is of the trusted family {name:?}"));
        }
        let report = evaluate(&pool, &self.question()?);
        match self.json {
            true => write_json(&as_json(&report))?,
            false => write_text(&as_text(&report, self.each))?,
        }
        Ok(Exit::Done)
    }

    fn check_repos(&self) -> Result<(), CliError> {
        match self.repos.iter().find(|dir| !dir.is_dir()) {
            Some(dir) => Err(CliError::usage(format!(
                "--repos: {} is no directory; leave it out to judge by the diffs alone",
                dir.display()
            ))),
            None => Ok(()),
        }
    }

    fn question(&self) -> Result<Question, CliError> {
        let mut selectors = self.selectors.clone();
        if selectors.is_empty() {
            let asked = |one: &Selector| *one != Selector::Trust || !self.trust.is_empty();
            selectors = Selector::ALL.into_iter().filter(asked).collect();
        } else if selectors.contains(&Selector::Trust) && self.trust.is_empty() {
            return Err(CliError::usage(
                "the selector `trust` needs an order: --trust FAMILY,FAMILY",
            ));
        }
        let mut seen = Vec::new();
        selectors.retain(|one| {
            let fresh = !seen.contains(one);
            seen.push(*one);
            fresh
        });
        Ok(Question {
            repos: self.repos.clone(),
            selectors,
            trust: self.trust.iter().map(Family::new).collect(),
            draws: self.draws as usize,
            seed: self.seed,
        })
    }
}

impl From<PoolError> for CliError {
    fn from(error: PoolError) -> Self {
        CliError::usage(error)
    }
}
