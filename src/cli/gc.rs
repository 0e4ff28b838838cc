//! `bakeoff gc`.

use std::time::Duration;

use super::amount;
use super::context::Context;
use super::output::{write_json, write_text};
use super::{CliError, Exit};
use crate::config::{Config, Sources};
use crate::journal::{OnDisk, Runs};
use crate::pipeline::cache_limits;
use crate::repo::{self, Limits};
use crate::report::{self, Gone, GoneRun};

/// Clean what runs left: the cache to its limits, leftovers of killed engines, and old runs if asked
///
/// Nothing that a live run uses is removed. What is in the cache can be made again; a run that is
/// removed can't be shown, applied or resumed any more, so runs go only when they are asked for.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only tell what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Remove runs that began longer ago than this, such as 30d
    #[arg(long, value_name = "AGE", allow_negative_numbers = true, value_parser = amount::age)]
    runs_older_than: Option<Duration>,
    /// Remove all runs but the newest N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    keep_runs: Option<usize>,
    /// Remove what the cache has not used for this long; default: cache.max_days of the config
    #[arg(long, value_name = "AGE", allow_negative_numbers = true, value_parser = amount::age)]
    cache_older_than: Option<Duration>,
    /// Remove what was not used for the longest time until the cache is no larger; default:
    /// cache.max_gb of the config
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = amount::size)]
    cache_max: Option<u64>,
    /// Remove all of the cache that is not in use
    #[arg(long, conflicts_with_all = ["cache_older_than", "cache_max"])]
    all_cache: bool,
}

impl Args {
    /// Cleans, and says what went.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let limits = self.limits(context)?;
        let failed = |error: repo::RepoError| CliError::internal(error);
        let mut gone = Gone { dry: self.dry_run, ..Gone::default() };
        if !self.dry_run {
            gone.swept = repo::sweep(&context.state).map_err(failed)?;
        }
        gone.runs = self.runs(context)?;
        gone.cache = repo::clean(&context.cache, &limits, self.dry_run).map_err(failed)?;
        match self.json {
            true => write_json(&gone.as_json())?,
            false => write_text(&report::gone(&gone, &context.style()))?,
        }
        Ok(Exit::Done)
    }

    fn limits(&self, context: &Context) -> Result<Limits, CliError> {
        if self.all_cache {
            return Ok(Limits::NOTHING);
        }
        let user = super::launch::user_config(context)?;
        let env = |name: &str| context.var(name);
        let config = Config::load(&Sources { user, repository: None, trusted: false, env: &env })?;
        let set = cache_limits(&config);
        Ok(Limits {
            max_bytes: self.cache_max.unwrap_or(set.max_bytes),
            max_age: self.cache_older_than.unwrap_or(set.max_age),
        })
    }

    fn runs(&self, context: &Context) -> Result<Vec<GoneRun>, CliError> {
        let runs = Runs::new(&context.state);
        if self.runs_older_than.is_none() && self.keep_runs.is_none() {
            return Ok(Vec::new());
        }
        if !self.dry_run {
            runs.remove_rest();
        }
        let since = std::time::SystemTime::now();
        let all = runs.on_disk()?;
        let kept_from = all.len().saturating_sub(self.keep_runs.unwrap_or(usize::MAX));
        let is_old = |run: &OnDisk| self.runs_older_than.is_some_and(|limit| run.age >= limit);
        let going = all.into_iter().enumerate().filter(|(at, run)| *at < kept_from || is_old(run));
        going
            .map(|(_, run)| {
                let live = !runs.remove(&run.run, since, self.dry_run)?;
                Ok(GoneRun { run, live })
            })
            .collect()
    }
}
