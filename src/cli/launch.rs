//! What `run`, `pick`, `gate`, `demo` and the selftests share: from flags to a finished run.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::CliError;
use super::context::Context;
use super::flags::{GateFlags, JudgeFlags, LaneFlags, RepoFlags};
use super::plan::{Ingredients, resolve};
use super::{given, record, signals};
use crate::config::{Config, Sources, TrustStore, content_hash};
use crate::control::{Control, Watch};
use crate::journal::{JournalError, Masker, RunDir, Runs};
use crate::model::{EventSink, Plan, RunKind, RunRecord, Task};
use crate::pipeline::{
    Commission, Equipment, Given, Stopped, Survey, check_judges, conduct, unpriced,
};
use crate::sandbox::{Warden, WardenOptions};

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
    match unpriced(plan, config).first().filter(|_| plan.limits.budget.is_some()) {
        None => Ok(()),
        Some(model) => Err(CliError::usage(format!(
            "a budget can't be kept with {model}: its price is unknown; state it in config.toml under \
             [providers.{}.prices] as \"{}\" = {{ input = USD, output = USD }} per million tokens, or leave \
             --budget out",
            model.provider, model.model
        ))),
    }
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

/// Runs what was prepared to its end. The runtime and the warden live as long as the run.
pub fn perform(
    prepared: Prepared,
    listener: EventSink,
    context: &Context,
) -> Result<(RunRecord, RunDir), CliError> {
    // The warden starts before the runtime has threads: it is forked from a small process.
    let warden = Warden::start(&WardenOptions { program: context.program.clone() })
        .map_err(crate::pipeline::PipelineError::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))?;
    let equipment = equipment(&prepared, warden, context)?;
    let dir = Runs::new(&context.state).create(equipment.masker.clone())?;
    let commission = Commission {
        kind: prepared.kind,
        plan: prepared.plan,
        given: prepared.given,
        cancel: CancellationToken::new(),
        stopped: Stopped::default(),
    };
    let stopped = commission.stopped.clone();
    let result = runtime.block_on(async {
        signals::watch(&commission.cancel, &commission.stopped)?;
        let watch = Watch::default();
        let listener = watch.over(listener);
        let control = Control::serve(dir.path(), watch, commission.cancel.clone())
            .map_err(|error| JournalError::io("create", dir.path(), error))?;
        let record = conduct(prepared.survey, commission, equipment, &dir, listener).await;
        drop(control);
        Ok(record?)
    });
    // Threads that still read a dead connection must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match result {
        Ok(record) => Ok((record, dir)),
        Err(error) => Err(record::broken_off(error, stopped.get().copied(), &dir)),
    }
}

fn equipment(
    prepared: &Prepared,
    warden: Warden,
    context: &Context,
) -> Result<Equipment, CliError> {
    let config = prepared.config.clone();
    Ok(Equipment {
        state: context.state.clone(),
        cache: context.cache.clone(),
        user: context.config.clone(),
        path: context.env.get(&OsString::from("PATH")).cloned().unwrap_or_default(),
        home: context.home.clone(),
        gate_env: gate_env(&prepared.plan, context)?,
        masker: masker(&config, context),
        trusted: prepared.trusted,
        warden,
        config,
    })
}

/// The variables that were named for the gates. A name that is not set is told: a gate that misses
/// it would fail for a reason that nobody sees.
fn gate_env(plan: &Plan, context: &Context) -> Result<Vec<(OsString, OsString)>, CliError> {
    let value = |name: &String| {
        let name = OsString::from(name);
        let value = context.env.get(&name).cloned();
        value.map(|value| (name.clone(), value)).ok_or_else(|| {
            CliError::usage(format!("--env {}: the variable is not set", name.to_string_lossy()))
        })
    };
    plan.gates.env.iter().map(value).collect()
}

/// Keys, and values of variables whose names say that they are secret.
fn masker(config: &Config, context: &Context) -> Masker {
    use secrecy::ExposeSecret;
    let keys = config.providers.values().filter_map(|provider| provider.key.as_ref());
    let keys = keys.map(|key| key.expose_secret().to_owned());
    let secret = context.env.iter().filter_map(|(name, value)| {
        Masker::names_secret(name.to_str()?).then(|| value.to_str().map(str::to_owned))?
    });
    Masker::new(keys.chain(secret))
}
