//! What `run`, `pick`, `gate`, `demo` and the selftests share: from flags to a finished run.

use std::ffi::OsString;
use std::path::PathBuf;

use super::CliError;
use super::context::Context;
use super::engine::{Engine, gate_env};
use super::flags::{ContextFlags, GateFlags, JudgeFlags, LaneFlags, RepoFlags};
use super::given;
use super::plan::{Ingredients, resolve};
use crate::config::{Config, Sources, TrustStore, content_hash};
use crate::journal::{RunDir, Runs};
use crate::model::{ModelRef, Plan, RunKind, RunRecord, Task};
use crate::pipeline::{Commission, Given, Survey, check_judges, conduct, unkept};
use crate::ui::Audience;

/// What a command asks for.
pub struct Request<'a> {
    /// Which command.
    pub kind: RunKind,
    /// The repository.
    pub repo: &'a RepoFlags,
    /// The task.
    pub task: Option<Task>,
    /// Lanes, for `run`.
    pub lanes: Option<&'a LaneFlags>,
    /// What it is told of other runs.
    pub context: ContextFlags,
    /// Gates.
    pub gates: &'a GateFlags,
    /// Judges, for `run` and `pick`.
    pub judges: Option<&'a JudgeFlags>,
    /// Sources of diffs, for `pick` and `gate`.
    pub sources: &'a [OsString],
    /// The instance of a prediction file.
    pub instance: Option<&'a str>,
    /// Stands in for the user's `config.toml` (the demo's and the selftests' own).
    pub config: Option<(PathBuf, String)>,
}

/// A request that was understood: everything but the run itself.
pub struct Prepared {
    /// The repository.
    pub survey: Survey,
    /// What to do.
    pub plan: Plan,
    /// Settings, flags put in.
    pub config: Config,
    /// Diffs made elsewhere.
    pub given: Vec<Given>,
    kind: RunKind,
    trusted: bool,
}

impl Prepared {
    /// Diffs to be gated by a plan that was resolved before.
    pub fn gate(
        survey: Survey,
        plan: Plan,
        config: Config,
        trusted: bool,
        given: Vec<Given>,
    ) -> Self {
        Self { survey, plan, config, given, kind: RunKind::Gate, trusted }
    }
}

/// Understands a request. Nothing runs and nothing is written.
pub fn prepare(request: Request<'_>, context: &Context) -> Result<Prepared, CliError> {
    let survey = Survey::take(&request.repo.repo, &request.repo.base)?;
    let (config, trusted) = config(&survey, request.config, context)?;
    let given = given::read(request.sources, request.instance, &survey)?;
    let ingredients = Ingredients {
        survey: &survey,
        config,
        task: request.task,
        lanes: request.lanes,
        context: request.context,
        gates: request.gates,
        judges: request.judges,
        base: &request.repo.base,
        dirty: request.repo.dirty,
    };
    let (plan, config) = resolve(ingredients)?;
    check(&survey, &plan, &config, trusted, context)?;
    Ok(Prepared { survey, plan, config, given, kind: request.kind, trusted })
}

/// What would end the run only once it is under way is told here.
fn check(
    survey: &Survey,
    plan: &Plan,
    config: &Config,
    trusted: bool,
    context: &Context,
) -> Result<(), CliError> {
    gate_env(plan, context)?;
    if !plan.judging.judges.is_empty() {
        check_judges(survey, &context.config, trusted, &plan.judging.judges)?;
    }
    check_budget(plan, config)
}

/// A budget needs the price of every model, or a ceiling of tokens in its place.
fn check_budget(plan: &Plan, config: &Config) -> Result<(), CliError> {
    match unkept(plan, config) {
        None => Ok(()),
        Some((model, budget, tokens)) => {
            let advice = format!("set a ceiling of tokens with {tokens}, or leave {budget} out");
            Err(unpriced(&model, &advice))
        }
    }
}

/// The same for a run that goes on, whose workers keep the limits that they began with.
pub fn check_budget_of_begun(plan: &Plan, config: &Config) -> Result<(), CliError> {
    match unkept(plan, config) {
        None => Ok(()),
        Some((model, ..)) => Err(unpriced(&model, "or set a ceiling of tokens with --max-tokens")),
    }
}

fn unpriced(model: &ModelRef, advice: &str) -> CliError {
    CliError::usage(format!(
        "a budget can't be kept with {model}: its price is unknown; state it in config.toml under \
         [providers.{}.prices] as \"{}\" = {{ input = USD, output = USD }} per million tokens, {advice}",
        model.provider, model.model
    ))
}

/// The config of all layers below the flags, and whether the repository is trusted.
pub fn config(
    survey: &Survey,
    own: Option<(PathBuf, String)>,
    context: &Context,
) -> Result<(Config, bool), CliError> {
    let files = survey.trust_files()?;
    let hash = content_hash(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
    let trusted = !files.is_empty() && trust_store(context).is_trusted(survey.top(), &hash)?;
    let user = match own {
        Some(own) => Some(own),
        None => user_config(context)?,
    };
    let sources = Sources {
        user,
        repository: survey.config_text()?,
        trusted,
        env: &|name: &str| context.var(name),
    };
    Ok((Config::load(&sources)?, trusted))
}

/// The operator's trust, in the state directory.
pub fn trust_store(context: &Context) -> TrustStore {
    TrustStore::at(context.state.join("trust.json"))
}

/// The user's `config.toml`, if there is one.
pub fn user_config(context: &Context) -> Result<Option<(PathBuf, String)>, CliError> {
    let path = context.config.join("config.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::usage(format!("failed to read {}: {error}", path.display()))),
    }
}

/// Runs what was prepared to its end.
pub fn perform(
    prepared: Prepared,
    audience: Audience,
    context: &Context,
) -> Result<(RunRecord, RunDir), CliError> {
    let engine = Engine::start(&prepared.plan, prepared.config, prepared.trusted, context)?;
    let dir = Runs::new(&context.state).create(engine.masker())?;
    let (survey, kind, plan, given) =
        (prepared.survey, prepared.kind, prepared.plan, prepared.given);
    engine.drive(dir, audience, async move |drive| {
        let commission =
            Commission { kind, plan, given, cancel: drive.cancel, stopped: drive.stopped };
        conduct(survey, commission, drive.equipment, &drive.dir, drive.listener).await
    })
}
