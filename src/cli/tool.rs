//! `bakeoff tool`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::launch::{config, user_config};
use super::output::write_json;
use super::{CliError, Exit};
use crate::config::{Config, Sources};
use crate::jobs::{JobBook, JobLimits, RunScope, mint_token};
use crate::model::LaneId;
use crate::pipeline::{PipelineError, Survey, git, python};
use crate::sandbox::{Launch, Launcher, Permit, Warden, WardenOptions};
use crate::tools::{CodeExecution, Jobs, Registry, ToolContext, ToolOutput, open_workspace};
use crate::worker::DelegateSubtask;

/// Make one tool call as a worker would, without a model, and print its result as JSON
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The directory itself is the workspace: what a tool writes or stages is written there. Commands run in the \
sandbox, as in a run; background jobs end with the call. delegate_subtask needs a model and can't be called. Exit code 0 when the call was done (a command's own exit status is in the text), 1 when it was \
refused or failed, 2 for a tool or a directory that is not there."
)]
pub struct Args {
    /// The tool; `--list` shows them
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// The directory that the call works on
    #[arg(short = 'C', long = "workspace", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The call's arguments, as the model would write them; `-` reads them from standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Run commands even where no sandbox can be proved
    #[arg(long)]
    waive_sandbox: bool,
    /// Print the tools with their arguments as JSON and call none
    #[arg(long, conflicts_with = "name")]
    list: bool,
}

impl Args {
    /// Makes the call.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let toggles = toggles(&self.dir, context)?;
        let registry = Registry::standard().toggled(&toggles);
        let Some(name) = self.name.as_deref().filter(|_| !self.list) else {
            write_json(&registry.specs())?;
            return Ok(Exit::Done);
        };
        let is_code = name == CodeExecution::NAME && toggles.get(name).copied().unwrap_or(true);
        if !is_code {
            offered(&registry, name)?;
        }
        let workspace = open_workspace(&self.dir).map_err(|error| {
            CliError::usage(format!("failed to open {}: {error}", self.dir.display()))
        })?;
        let arguments = self.arguments()?;
        let warden = Warden::start(&WardenOptions { program: context.program.clone() })
            .map_err(PipelineError::from)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))?;
        let output = runtime.block_on(async {
            let launcher = launcher(warden, self.waive_sandbox).await;
            let token = mint_token();
            let registry = match is_code {
                true => registry.with(Arc::new(code(launcher.as_ref(), context).await?)),
                false => registry,
            };
            let registry = match launcher.as_ref().filter(|_| name == "run_bash" || is_code) {
                Some(launcher) => {
                    let path = context.path();
                    let git = git::find(launcher, &path, &context.home).await;
                    registry.with_git(git.map(|(git, _)| git))
                }
                None => registry,
            };
            let book = JobBook::new(JobLimits::default());
            let table = book.open(&LaneId::of("tool", 1));
            let scope = launcher
                .clone()
                .map(|launcher| RunScope::new(token.clone(), launcher).with_table(table.clone()));
            let launch = launcher.map(|launcher| Arc::new(launcher) as Arc<dyn Launch>);
            let jobs = launch.is_some().then_some(Jobs { table, book });
            let call = ToolContext {
                jobs,
                ..ToolContext::new(Arc::new(workspace), token, launch, CancellationToken::new())
            };
            let output = registry.call(&call, name, &arguments).await;
            if let Some(scope) = scope {
                scope.finish().await;
            }
            Ok::<_, CliError>(output)
        })?;
        write_json(&as_json(name, &output))?;
        Ok(if output.is_error { Exit::NoWinner } else { Exit::Done })
    }

    fn arguments(&self) -> Result<String, CliError> {
        if self.args != "-" {
            return Ok(self.args.clone());
        }
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(|error| {
            CliError::usage(format!("failed to read the arguments from standard input: {error}"))
        })?;
        Ok(text)
    }
}

/// Whether the tool can be called.
fn offered(registry: &Registry, name: &str) -> Result<(), CliError> {
    if name == DelegateSubtask::NAME {
        let why =
            "delegate_subtask hands work to a model, and no model is asked here: use bakeoff run";
        return Err(CliError::usage(why.to_owned()));
    }
    let specs = registry.specs();
    if specs.iter().any(|spec| spec.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    Err(CliError::usage(format!(
        "there is no tool {name:?}, or it is switched off; there are {}, and {}",
        names.join(", "),
        CodeExecution::NAME
    )))
}

/// The operator may run code where `[workers] sandbox = "strict"` keeps it from models, too.
async fn code(launcher: Option<&Launcher>, context: &Context) -> Result<CodeExecution, CliError> {
    let path = context.path();
    let python = match launcher {
        Some(launcher) => python::find(launcher, &path, &context.home).await,
        None => Err("no sandbox can be proved here".to_owned()),
    };
    let python = python.map_err(|why| {
        CliError::usage(format!(
            "{} can't be called: {why}; see bakeoff doctor",
            CodeExecution::NAME
        ))
    })?;
    Ok(CodeExecution::new(python))
}

/// Which tools a worker on this directory would have. Where it is in no repository, or in one without
/// a commit, the user's own settings count.
fn toggles(dir: &Path, context: &Context) -> Result<BTreeMap<String, bool>, CliError> {
    let settings = match Survey::take(dir, "HEAD") {
        Ok(survey) => config(&survey, None, context)?.0,
        Err(_) => Config::load(&Sources {
            user: user_config(context)?,
            repository: None,
            trusted: false,
            env: &|name: &str| context.var(name),
        })?,
    };
    Ok(settings.tools.iter().map(|(name, on)| (name.clone(), on.value)).collect())
}

/// Runs commands, when the sandbox is proved or waived; without it a tool that needs it refuses.
async fn launcher(warden: Warden, waive: bool) -> Option<Launcher> {
    let report = warden.prove().await;
    Permit::grant(&report, waive).ok().map(|permit| Launcher::new(warden, permit))
}

fn as_json(name: &str, output: &ToolOutput) -> serde_json::Value {
    let submission = output.submission.as_ref().map(|submission| {
        serde_json::json!({ "answer": submission.answer, "claims": submission.claims })
    });
    serde_json::json!({
        "version": 1,
        "tool": name,
        "status": if output.is_error { "refused" } else { "done" },
        "text": output.text,
        "submission": submission,
    })
}
