//! Raw flags, config and what the repository holds become a `Plan`.

use super::CliError;
use super::flags::{ContextFlags, GateFlags, JudgeFlags, LaneFlags};
use crate::config::{Config, LaneSpec, parse_lane, parse_model};
use crate::gate::{Detected, tool_in, tool_of};
use crate::judge::DEFAULT_PANEL;
use crate::model::{
    CommandSpec, DuelPlan, Family, GatePlan, JudgeId, JudgePlan, Lane, MicroUsd, ModelRef, Origin,
    Plan, Task,
};
use crate::pipeline::Survey;

/// What the plan is made from.
pub struct Ingredients<'a> {
    /// The repository.
    pub survey: &'a Survey,
    /// The loaded config.
    pub config: Config,
    /// The task, when there is one.
    pub task: Option<Task>,
    /// Lane flags; `None` for commands without workers.
    pub lanes: Option<&'a LaneFlags>,
    /// What the run is told of others.
    pub context: ContextFlags,
    /// Gate flags.
    pub gates: &'a GateFlags,
    /// Judge flags; `None` for commands without judges.
    pub judges: Option<&'a JudgeFlags>,
    /// The revision asked for.
    pub base: &'a str,
    /// Whether uncommitted changes are part of the base.
    pub dirty: bool,
}

/// Resolves everything; the config comes back with the flags put in.
pub fn resolve(mut from: Ingredients<'_>) -> Result<(Plan, Config), CliError> {
    put_flags(&mut from)?;
    let config = &from.config;
    let lanes = lanes(config, from.lanes)?;
    let attempts = lanes.iter().map(|lane| lane.attempts).sum();
    if let Some(enough) =
        config.limits.enough.value.filter(|k| from.lanes.is_some() && *k > attempts)
    {
        return Err(CliError::usage(format!(
            "--enough {enough}: the plan has {attempts} attempts, so that so many can't pass; ask for fewer, or for \
             more attempts with -n"
        )));
    }
    let gates = gates(config, from.gates, from.survey)?;
    let judged = Judged { gates: &gates, waived: from.gates.waive_sandbox, lanes: &lanes };
    let plan = Plan {
        patch: config.patch.plan(),
        judging: judging(config, from.judges, &judged, from.task.is_some())?,
        gates,
        design: design(config, from.lanes, &lanes)?,
        side: from.judges.and_then(|_| side(config, &lanes)),
        prior: match from.lanes {
            Some(_) => from.context.prior.or(config.side.prior.value).unwrap_or(0),
            None => 0,
        },
        exclude_from_context: from.context.exclude_from_context,
        lanes,
        task: from.task,
        repo: from.survey.top().to_owned(),
        base: from.base.to_owned(),
        dirty: from.dirty,
        worker_limits: config.limits.worker(),
        workers: config.workers.plan(),
        limits: config.limits.run(),
        seed: from.lanes.and_then(|flags| flags.seed).unwrap_or(0),
        waive_sandbox: from.gates.waive_sandbox,
        trust: trust(from.judges),
    };
    Ok((plan, from.config))
}

fn put_flags(from: &mut Ingredients<'_>) -> Result<(), CliError> {
    let gates = &mut from.config.gates;
    gates.check.flag(from.gates.check.clone().map(Some));
    gates.setup.flag(from.gates.setup.clone().map(Some));
    gates.dir.flag(from.gates.dir.clone());
    gates.timeout_seconds.flag(from.gates.gate_timeout);
    gates.flaky.flag(from.gates.flaky);
    if !from.gates.env.is_empty() {
        gates.env.flag(Some(from.gates.env.clone()));
    }
    if let Some(flags) = from.lanes {
        from.config.workers.heal_rounds.flag(flags.heal);
        let limits = &mut from.config.limits;
        limits.max_parallel.flag(flags.max_parallel);
        limits.max_seconds.flag(flags.max_seconds.map(Some));
        limits.budget.flag(budget("--budget", flags.budget)?.map(Some));
        limits.max_tokens.flag(flags.max_tokens.map(Some));
        limits.max_turns.flag(flags.max_turns.map(Some));
        limits.enough.flag(flags.enough.map(Some));
        limits.lane_budget.flag(budget("--lane-budget", flags.lane_budget)?.map(Some));
        limits.lane_tokens.flag(flags.lane_tokens.map(Some));
        limits.max_tool_iterations.flag(flags.lane_turns);
        limits.max_turn_seconds.flag(flags.lane_seconds.map(Some));
    }
    Ok(())
}

/// A budget as it is typed.
pub fn budget(flag: &str, usd: Option<f64>) -> Result<Option<MicroUsd>, CliError> {
    let wrong = |usd: f64| {
        let wanted = match usd > 0.0 {
            true => "that is too large; give a smaller amount in US dollars, or none for no limit",
            false => "give an amount in US dollars above 0",
        };
        CliError::usage(format!("{flag} {usd}: {wanted}"))
    };
    match usd {
        None => Ok(None),
        Some(usd) if usd > 0.0 => MicroUsd::from_usd(usd).map(Some).ok_or_else(|| wrong(usd)),
        Some(usd) => Err(wrong(usd)),
    }
}

fn lanes(config: &Config, flags: Option<&LaneFlags>) -> Result<Vec<Lane>, CliError> {
    let Some(flags) = flags else { return Ok(Vec::new()) };
    let asked: Vec<LaneSpec> =
        flags.lanes.iter().map(|text| parse_lane(text)).collect::<Result<_, _>>()?;
    Ok(config.lanes(&asked, flags.attempts)?)
}

fn gates(config: &Config, flags: &GateFlags, survey: &Survey) -> Result<GatePlan, CliError> {
    let settings = &config.gates;
    let dir = clean_dir(&settings.dir.value)?;
    if !survey.has_dir(&dir) {
        return Err(CliError::usage(format!(
            "the base has no directory {dir:?}; --dir is relative to the repository's top"
        )));
    }
    let found = survey.detect(&dir);
    let check = match (flags.no_check, &settings.check.value) {
        (true, _) => None,
        (false, Some(line)) => {
            Some(known("check", line, settings.check.origin.clone(), survey, &dir)?)
        }
        (false, None) => Some(found.check.clone().ok_or_else(|| no_check(survey, &dir))?),
    };
    Ok(GatePlan {
        setup: match &settings.setup.value {
            Some(line) => Some(command("setup", line, settings.setup.origin.clone())?),
            None => None,
        },
        setup_network: settings.setup_network.value,
        check,
        test: test(config, flags, &found, survey, &dir)?,
        dir,
        env: settings.env.value.clone(),
        timeout_seconds: settings.timeout_seconds.value,
        parallel: settings.parallel.value,
        memory_bytes: settings.memory_mb.value << 20,
        flaky: settings.flaky.value,
        strict_tests: settings.strict_tests.value,
        own_tests: settings.own_tests.value,
        protect: settings.protect.value.clone(),
        disk_bytes: settings.disk_mb.value.saturating_mul(1 << 20),
    })
}

/// A command that does nothing would prove every candidate: an unset variable in a script, say.
fn command(gate: &str, line: &str, origin: Origin) -> Result<CommandSpec, CliError> {
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    if line.lines().all(says_nothing) {
        return Err(CliError::usage(format!(
            "the {gate} command is empty ({origin}): an empty command proves nothing; name one, or leave it out"
        )));
    }
    Ok(CommandSpec { line: line.to_owned(), tool: tool_of(line), origin })
}

/// A command of which the base's scripts may say what it runs.
fn known(
    gate: &str,
    line: &str,
    origin: Origin,
    survey: &Survey,
    dir: &str,
) -> Result<CommandSpec, CliError> {
    let plain = command(gate, line, origin)?;
    let at = if dir.is_empty() { "package.json".to_owned() } else { format!("{dir}/package.json") };
    let package = survey.file(&at).and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(CommandSpec { tool: tool_in(line, package.as_deref()), ..plain })
}

fn no_check(survey: &Survey, dir: &str) -> CliError {
    let place = survey.top().join(dir);
    CliError::usage(format!(
        "no typecheck was found in {} (looked for Cargo, TypeScript, mypy, pyright and Go projects); give one with \
         --check CMD, or go without by --no-check",
        place.display()
    ))
}

fn test(
    config: &Config,
    flags: &GateFlags,
    found: &Detected,
    survey: &Survey,
    dir: &str,
) -> Result<Option<CommandSpec>, CliError> {
    match flags.test.as_deref() {
        Some("auto") => found.test.clone().map(Some).ok_or_else(|| {
            CliError::usage(
                "--test auto: no test command was found in the repository; give it with --test CMD",
            )
        }),
        Some(line) => known("test", line, Origin::Flag, survey, dir).map(Some),
        None => {
            let set = &config.gates.test;
            let known = |line: &String| known("test", line, set.origin.clone(), survey, dir);
            set.value.as_ref().map(known).transpose()
        }
    }
}

/// A directory below the top: relative, without `..`; empty for the top itself.
fn clean_dir(dir: &str) -> Result<String, CliError> {
    let parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if dir.starts_with('/') || parts.contains(&"..") {
        return Err(CliError::usage(format!(
            "--dir {dir}: give a directory inside the repository, relative to its top"
        )));
    }
    Ok(parts.join("/"))
}

/// What judges and duels stand on.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    /// The gates.
    pub gates: &'a GatePlan,
    /// Whether code may run without a proven sandbox.
    pub waived: bool,
    /// The lanes, whose models judge when no others are named.
    pub lanes: &'a [Lane],
}

/// Who judges.
pub fn judging(
    config: &Config,
    flags: Option<&JudgeFlags>,
    of: &Judged<'_>,
    has_task: bool,
) -> Result<JudgePlan, CliError> {
    let settings = &config.judges;
    let off = JudgePlan {
        judges: Vec::new(),
        models: Vec::new(),
        synth: None,
        finalists: settings.finalists.value,
        skeptics: settings.skeptics.value,
        fix_rounds: settings.fix_rounds.value,
        duels: None,
    };
    let Some(flags) = flags else { return Ok(off) };
    let asked = !flags.judges.is_empty() || !flags.judge_models.is_empty();
    if asked && !has_task {
        return Err(CliError::usage(
            "judges compare candidates by the task: give it with --task or --task-file",
        ));
    }
    let no_duels = |off: JudgePlan| match flags.duels {
        Some(1..) => Err(no_judges_for_duels()),
        _ => Ok(off),
    };
    if flags.no_judge || !has_task || !(settings.enabled.value || asked) {
        return no_duels(off);
    }
    let models = judge_models(config, flags, of.lanes)?;
    if models.is_empty() {
        return if asked { Err(no_judge_model()) } else { no_duels(off) };
    }
    let synth = settings.synth.value.clone().or_else(|| models.first().cloned());
    Ok(JudgePlan {
        judges: judges(config, flags),
        synth: synth.filter(|_| !flags.no_synth),
        duels: duels(config, flags.duels, of, models.first())?,
        models,
        ..off
    })
}

/// Duels: asked for, or by default one where a test command is there and the sandbox has to be proven.
fn duels(
    config: &Config,
    asked: Option<u32>,
    of: &Judged<'_>,
    judge: Option<&ModelRef>,
) -> Result<Option<DuelPlan>, CliError> {
    let settings = &config.duels;
    let asked = asked.or(settings.most.value);
    let command = match &settings.command.value {
        Some(line) => Some(command("duels", line, settings.command.origin.clone())?),
        None => of.gates.test.clone(),
    };
    let Some(command) = command else {
        return match asked {
            Some(1..) => Err(CliError::usage(
                "duels: no command runs a test; name the tests with --test, or [duels] command in the config",
            )),
            _ => Ok(None),
        };
    };
    let most = asked.unwrap_or(if of.waived { 0 } else { 1 });
    let model = settings.model.value.as_ref().or(judge).filter(|_| most > 0);
    let Some(model) = model else { return Ok(None) };
    reachable(config, model)?;
    Ok(Some(DuelPlan { model: model.clone(), most, runs: settings.runs.value, command }))
}

fn no_judges_for_duels() -> CliError {
    CliError::usage(
        "--duels: what a duel's test says is a fact for judges and decides nothing by itself; duels need judges and a task",
    )
}

/// Who plans for all workers, if anybody does.
fn design(
    config: &Config,
    flags: Option<&LaneFlags>,
    lanes: &[Lane],
) -> Result<Option<ModelRef>, CliError> {
    let settings = &config.design;
    let wanted = flags.is_some_and(|flags| flags.design || settings.enabled.value);
    let own = settings.model.value.clone();
    let model = own.or_else(|| lanes.first().map(|lane| lane.model.clone())).filter(|_| wanted);
    model.iter().try_for_each(|model| reachable(config, model))?;
    Ok(model)
}

/// A model whose key is missing is told before anything runs.
fn reachable(config: &Config, model: &ModelRef) -> Result<(), CliError> {
    match config.provider(&model.provider)?.missing_key() {
        Some(missing) => Err(CliError::usage(missing)),
        None => Ok(()),
    }
}

fn no_judge_model() -> CliError {
    CliError::usage(
        "--judge: no model can be asked; name one with --judge-model PROVIDER:MODEL, or set a provider's key",
    )
}

fn judges(config: &Config, flags: &JudgeFlags) -> Vec<JudgeId> {
    let set = &config.judges.use_.value;
    match (flags.judges.is_empty(), set.is_empty()) {
        (false, _) => flags.judges.iter().map(JudgeId::new).collect(),
        (true, false) => set.clone(),
        (true, true) => DEFAULT_PANEL.iter().map(|id| JudgeId::new(*id)).collect(),
    }
}

/// Flags, else the config, else the lanes' own models, else the models that can be asked.
fn judge_models(
    config: &Config,
    flags: &JudgeFlags,
    lanes: &[Lane],
) -> Result<Vec<ModelRef>, CliError> {
    let wrong =
        |text: &String| CliError::usage(format!("--judge-model {text}: write PROVIDER:MODEL"));
    let mut models: Vec<ModelRef> = flags
        .judge_models
        .iter()
        .map(|text| parse_model(text).ok_or_else(|| wrong(text)))
        .collect::<Result<_, _>>()?;
    if models.is_empty() {
        models.clone_from(&config.judges.models.value);
    }
    if models.is_empty() {
        models = lanes.iter().map(|lane| lane.model.clone()).collect();
    }
    if models.is_empty() {
        models = config.default_models();
    }
    let mut seen = std::collections::BTreeSet::new();
    models.retain(|model| seen.insert(model.clone()));
    models.iter().try_for_each(|model| reachable(config, model))?;
    Ok(models)
}

/// The model of the side calls. None are made at a lane's endpoint unless the config says so
/// (contract R29).
fn side(config: &Config, lanes: &[Lane]) -> Option<ModelRef> {
    let model = config.side.model.value.clone()?;
    (config.side.shared_endpoint.value || shared_with(&model, config, lanes).is_none())
        .then_some(model)
}

/// The lane at whose endpoint a model is.
fn shared_with<'l>(model: &ModelRef, config: &Config, lanes: &'l [Lane]) -> Option<&'l Lane> {
    let address = |name: &str| {
        let url = config.provider(name).ok().map(|provider| &provider.base_url.value);
        url.filter(|url| !url.is_empty())
    };
    let own = address(&model.provider);
    lanes.iter().find(|lane| {
        let name = &lane.model.provider;
        *name == model.provider || (own.is_some() && own == address(name))
    })
}

/// Why no side calls are made although a model for them is named.
pub fn side_note(config: &Config, plan: &Plan) -> Option<String> {
    let model = config.side.model.value.as_ref().filter(|_| plan.side.is_none())?;
    let lane = shared_with(model, config, &plan.lanes)?;
    Some(format!(
        "no side calls: {model} is at the endpoint of lane {}; [side] shared_endpoint = true allows it",
        lane.name
    ))
}

fn trust(flags: Option<&JudgeFlags>) -> Vec<Family> {
    flags.map(|flags| flags.trust.iter().map(Family::new).collect()).unwrap_or_default()
}
