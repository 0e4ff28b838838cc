//! `bakeoff selftest`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::context::Context;
use super::launch::perform;
use super::output::{write_json, write_stdout};
use super::scenario::{judge_flags, prepare_scenario};
use super::{CliError, Exit};
use crate::model::EventSink;
use crate::selftest::red_team::red_team;
use crate::selftest::{Scenario, compare, demo, selftests};

/// Run whole runs on scripted models and compare what comes of them with what must
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Each selftest is a real run on a small repository, but for judge-red-team, which sets real panels of scripted judges before planted candidates. Only a selftest that is named with --allow-skip may be left out."
)]
pub struct Args {
    /// Only these selftests
    names: Vec<String>,
    /// List them and run nothing
    #[arg(long)]
    list: bool,
    /// Leave this one out where it can't run; may be given more than once
    #[arg(long = "allow-skip", value_name = "NAME")]
    allow_skip: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The selftest that is no run.
const RED_TEAM: &str = "judge-red-team";
const RED_TEAM_ABOUT: &str =
    "bad judges and planted candidates: the right change wins or nobody does";

/// How one selftest went.
struct Finding {
    name: String,
    about: String,
    faults: Vec<String>,
    skipped: bool,
}

impl Args {
    /// Runs them.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let mut all = selftests()?;
        all.push(demo()?);
        let all = self.choose(all)?;
        let red_team = self.names.is_empty() || self.names.iter().any(|name| name == RED_TEAM);
        if self.list {
            let named = all.iter().map(|one| (one.name.as_str(), one.about.as_str()));
            let named = named.chain(red_team.then_some((RED_TEAM, RED_TEAM_ABOUT)));
            let lines = named.map(|(name, about)| format!("{name:<24} {about}\n"));
            write_stdout(lines.collect::<String>().as_bytes())?;
            return Ok(Exit::Done);
        }
        let mut results = in_parallel(&all, |scenario| self.run_one(scenario, context));
        if red_team {
            results.push(self.run_red_team());
        }
        let failed = results.iter().filter(|one| !one.skipped && !one.faults.is_empty()).count();
        let passed = results.iter().filter(|one| one.faults.is_empty()).count();
        if self.json {
            write_json(&as_json(&results))?;
        } else {
            let mut text: String = results.iter().map(line).collect();
            text += &format!("selftests: {passed} passed, {failed} failed\n");
            write_stdout(text.as_bytes())?;
        }
        Ok(if failed > 0 { Exit::NoWinner } else { Exit::Done })
    }

    fn choose(&self, all: Vec<Scenario>) -> Result<Vec<Scenario>, CliError> {
        let mut known: BTreeSet<String> = all.iter().map(|one| one.name.clone()).collect();
        known.insert(RED_TEAM.to_owned());
        let asked = self.names.iter().chain(&self.allow_skip);
        if let Some(name) = asked.into_iter().find(|name| !known.contains(*name)) {
            let list = known.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(CliError::usage(format!(
                "there is no selftest {name:?}; there are {list}"
            )));
        }
        Ok(all
            .into_iter()
            .filter(|one| self.names.is_empty() || self.names.contains(&one.name))
            .collect())
    }

    fn run_red_team(&self) -> Finding {
        let (about, faults) = match red_team() {
            Ok(team) => (team.summary(), team.faults),
            Err(error) => (RED_TEAM_ABOUT.to_owned(), vec![error]),
        };
        let skipped = !faults.is_empty() && self.allow_skip.iter().any(|name| name == RED_TEAM);
        Finding { name: RED_TEAM.to_owned(), about, faults, skipped }
    }

    fn run_one(&self, scenario: &Scenario, context: &Context) -> Finding {
        let faults = match try_one(scenario, context) {
            Ok(faults) => faults,
            Err(error) => vec![error.message],
        };
        let skipped = !faults.is_empty() && self.allow_skip.contains(&scenario.name);
        Finding { name: scenario.name.clone(), about: scenario.about.clone(), faults, skipped }
    }
}

/// Two at once: each run has lanes and gates of its own that run side by side.
fn in_parallel(all: &[Scenario], run: impl Fn(&Scenario) -> Finding + Sync) -> Vec<Finding> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let result = run(one);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by(|a, b| a.name.cmp(&b.name));
    results
}

fn try_one(scenario: &Scenario, context: &Context) -> Result<Vec<String>, CliError> {
    let dir = tempfile::Builder::new().prefix("bakeoff-selftest-").tempdir().map_err(|error| {
        CliError::internal(format!("failed to make a temporary directory: {error}"))
    })?;
    let place = scenario.lay_out(dir.path())?;
    let before = crate::pipeline::fingerprint(&place.repository)?;
    let prepared = prepare_scenario(scenario, &place, judge_flags(scenario), context)?;
    let (record, _) = perform(prepared, EventSink::none(), context)?;
    let mut faults = compare(&scenario.expect, &record);
    if crate::pipeline::fingerprint(&place.repository)? != before {
        faults.push("the user's repository was changed".to_owned());
    }
    Ok(faults)
}

fn line(one: &Finding) -> String {
    let state = match (one.faults.is_empty(), one.skipped) {
        (true, _) => "ok  ",
        (false, true) => "skip",
        (false, false) => "FAIL",
    };
    let mut text = format!("{state} {:<24} {}\n", one.name, one.about);
    for fault in &one.faults {
        text += &format!("     {fault}\n");
    }
    text
}

fn as_json(results: &[Finding]) -> serde_json::Value {
    let each = results.iter().map(|one| {
        serde_json::json!({
            "name": one.name, "about": one.about, "faults": one.faults, "skipped": one.skipped,
        })
    });
    serde_json::json!({ "version": 1, "selftests": each.collect::<Vec<_>>() })
}
