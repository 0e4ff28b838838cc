//! `bakeoff selftest`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::context::Context;
use super::launch::{Prepared, perform};
use super::output::{write_json, write_stdout};
use super::scenario::{judge_flags, prepare_scenario};
use super::{CliError, Exit};
use crate::journal::{RunDir, Runs};
use crate::model::{EventSink, RunEvent, RunId, RunRecord};
use crate::pipeline::{PipelineError, fingerprint, python};
use crate::sandbox::{Launcher, Permit, Warden, WardenOptions};
use crate::selftest::red_team::red_team;
use crate::selftest::{
    LaidOut, Reaped, Scenario, canaries, compare, compare_requests, crash, demo, operate, selftests,
};
use crate::ui::Audience;

/// Run selftests: whole runs on scripted models, attacks on the sandbox, an engine that is killed
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Most selftests are real runs on a small repository. One that can't run here (no sandbox can be proved, \
or there is no Python for it) fails, unless it is named with --allow-skip. Exit code 0 when none failed, else 1."
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

/// A selftest.
enum Selftest {
    /// A run from data files.
    Scenario(Box<Scenario>),
    /// Bad judges and planted candidates before real panels.
    RedTeam,
}

impl Selftest {
    fn name(&self) -> &str {
        match self {
            Self::Scenario(scenario) => &scenario.name,
            Self::RedTeam => "judge-red-team",
        }
    }

    /// What it proves, in a sentence.
    fn about(&self) -> &str {
        match self {
            Self::Scenario(scenario) => &scenario.about,
            Self::RedTeam => {
                "Bad judges in every seat before planted candidates: the right one wins or nobody does"
            }
        }
    }

    fn run(&self, context: &Context) -> Result<Vec<String>, CliError> {
        match self {
            Self::Scenario(scenario) => play(scenario, context),
            Self::RedTeam => {
                let team = red_team().map_err(CliError::internal)?;
                tracing::info!("{}", team.summary());
                Ok(team.faults)
            }
        }
    }
}

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
        let mut scenarios = selftests()?;
        scenarios.push(demo()?);
        let all = scenarios.into_iter().map(|one| Selftest::Scenario(Box::new(one)));
        let all = self.choose(all.chain([Selftest::RedTeam]).collect())?;
        if self.list {
            let lines = all.iter().map(|one| format!("{:<24} {}\n", one.name(), one.about()));
            write_stdout(lines.collect::<String>().as_bytes())?;
            return Ok(Exit::Done);
        }
        let results = in_parallel(&all, |one| self.run_one(one, context));
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

    fn choose(&self, mut all: Vec<Selftest>) -> Result<Vec<Selftest>, CliError> {
        let known: BTreeSet<String> = all.iter().map(|one| one.name().to_owned()).collect();
        let asked = self.names.iter().chain(&self.allow_skip);
        if let Some(name) = asked.into_iter().find(|name| !known.contains(*name)) {
            let list = known.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(CliError::usage(format!(
                "there is no selftest {name:?}; there are {list}"
            )));
        }
        all.retain(|one| self.names.is_empty() || self.names.iter().any(|name| name == one.name()));
        Ok(all)
    }

    fn run_one(&self, one: &Selftest, context: &Context) -> Finding {
        let (faults, can_run) = match one.run(context) {
            Ok(faults) => (faults, true),
            // No sandbox or no tool here: that it fails says nothing of what it is there for.
            Err(error) => (vec![error.message], error.exit != Exit::Infra),
        };
        let skipped = !can_run && self.allow_skip.iter().any(|name| name == one.name());
        Finding { name: one.name().to_owned(), about: one.about().to_owned(), faults, skipped }
    }
}

/// Two at once: each run has lanes and gates of its own that run side by side.
fn in_parallel(all: &[Selftest], run: impl Fn(&Selftest) -> Finding + Sync) -> Vec<Finding> {
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

fn play(scenario: &Scenario, context: &Context) -> Result<Vec<String>, CliError> {
    let dir = tempfile::Builder::new().prefix("bakeoff-selftest-").tempdir().map_err(|error| {
        CliError::internal(format!("failed to make a temporary directory: {error}"))
    })?;
    let place = scenario.lay_out(dir.path())?;
    if scenario.python {
        has_python(context)?;
    }
    let before = fingerprint(&place.repository)?;
    let mut faults = if scenario.crash {
        crash(&context.program, scenario, &place, dir.path())?
    } else {
        whole_run(scenario, &place, context)?
    };
    if scenario.canaries {
        faults.extend(outside(dir.path(), &place.repository)?);
        faults.extend(attack(context)?);
    }
    if fingerprint(&place.repository)? != before {
        faults.push("the user's repository was changed".to_owned());
    }
    Ok(faults)
}

/// Runs a scenario to its end; gives what differs from what it must come to.
fn whole_run(
    scenario: &Scenario,
    place: &LaidOut,
    context: &Context,
) -> Result<Vec<String>, CliError> {
    let prepared = prepare_scenario(scenario, place, judge_flags(scenario), context)?;
    let reaped = Arc::new(Reaped::new(&scenario.reaped));
    let (done, mut faults) = attended(scenario, prepared, &reaped, context);
    let (record, run) = done?;
    faults.extend(reaped.faults());
    faults.extend(compare(&scenario.expect, &record));
    faults.extend(compare_requests(&scenario.expect, &run)?);
    if !run.masker().learnt().is_empty() {
        faults.push("what the operator typed unseen is still known behind the end".to_owned());
    }
    Ok(faults)
}

/// What stands beside the repository and was not put there: written from within a job.
fn outside(dir: &Path, repository: &Path) -> Result<Vec<String>, CliError> {
    let told = |error| CliError::internal(format!("failed to read {}: {error}", dir.display()));
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path != repository && !path.ends_with("script.toml") {
            faults.push(format!("{} was written outside of the workspace", path.display()));
        }
    }
    Ok(faults)
}

/// Runs a scenario to its end with its operator beside it.
fn attended(
    scenario: &Scenario,
    prepared: Prepared,
    reaped: &Arc<Reaped>,
    context: &Context,
) -> (Result<(RunRecord, RunDir), CliError>, Vec<String>) {
    let (sender, began) = channel::<RunId>();
    let reaped = reaped.clone();
    let listener = EventSink::new(move |event| {
        reaped.look(&event);
        if let RunEvent::Started { run, .. } = event {
            // Where there is no operator nobody waits for it.
            let _ = sender.send(run);
        }
    });
    let runs = Runs::new(&context.state);
    let steps = &scenario.operator;
    std::thread::scope(|scope| {
        let operator = scope.spawn(move || match began.recv() {
            Ok(run) => match runs.find(run.as_str()) {
                Ok(dir) => operate(steps, dir.path()),
                Err(error) => vec![error.to_string()],
            },
            Err(_) => vec!["the run never began".to_owned()],
        });
        let done = perform(prepared, Audience::of(listener), context);
        (done, operator.join().unwrap_or_else(|_| vec!["the operator broke off".to_owned()]))
    })
}

fn attack(context: &Context) -> Result<Vec<String>, CliError> {
    let (warden, runtime) = (warden(context)?, runtime()?);
    Ok(runtime.block_on(canaries(&warden)).map_err(PipelineError::from)?)
}

/// A run goes on without a Python, and would then fail for a reason that is none of what it is there for.
fn has_python(context: &Context) -> Result<(), CliError> {
    let (warden, runtime) = (warden(context)?, runtime()?);
    let path = context.path();
    runtime.block_on(async {
        let permit = Permit::grant(&warden.prove().await, false).map_err(PipelineError::from)?;
        let launcher = Launcher::new(warden, permit);
        let found = python::find(&launcher, &path, &context.home).await;
        found.map(drop).map_err(|message| CliError { exit: Exit::Infra, message })
    })
}

fn warden(context: &Context) -> Result<Warden, CliError> {
    let options = WardenOptions { program: context.program.clone() };
    Ok(Warden::start(&options).map_err(PipelineError::from)?)
}

fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))
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
