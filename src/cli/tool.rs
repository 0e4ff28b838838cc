//! `bakeoff tool`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::launch::{config, user_config};
use super::output::write_json;
use super::{CliError, Exit};
use crate::config::{Config, Sources};
use crate::jobs::{RunScope, mint_token};
use crate::pipeline::{PipelineError, Survey};
use crate::sandbox::{Launch, Launcher, Permit, Warden, WardenOptions};
use crate::tools::{Registry, ToolContext, ToolOutput, open_workspace};

/// Make one tool call as a worker would, without a model, and print its result as JSON
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The directory itself is the workspace: what a tool writes or stages is written there. Commands run in the \
sandbox, as in a run. Exit code 0 when the call was done (a command's own exit status is in the text), 1 when it was \
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
        let registry = registry(&self.dir, context)?;
        let Some(name) = self.name.as_deref().filter(|_| !self.list) else {
            write_json(&registry.specs())?;
            return Ok(Exit::Done);
        };
        let specs = registry.specs();
        if !specs.iter().any(|spec| spec.name == name) {
            let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(CliError::usage(format!(
                "there is no tool {name:?}, or it is switched off; there are {}",
                names.join(", ")
            )));
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
            let scope = launcher.clone().map(|launcher| RunScope::new(token.clone(), launcher));
            let launch = launcher.map(|launcher| Arc::new(launcher) as Arc<dyn Launch>);
            let call =
                ToolContext::new(Arc::new(workspace), token, launch, CancellationToken::new());
            let output = registry.call(&call, name, &arguments).await;
            if let Some(scope) = scope {
                scope.finish().await;
            }
            output
        });
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

/// The tools that a worker on this directory would have. Where it is in no repository, or in one without
/// a commit, the user's own settings count.
fn registry(dir: &Path, context: &Context) -> Result<Registry, CliError> {
    let settings = match Survey::take(dir, "HEAD") {
        Ok(survey) => config(&survey, None, context)?.0,
        Err(_) => Config::load(&Sources {
            user: user_config(context)?,
            repository: None,
            trusted: false,
            env: &|name: &str| context.var(name),
        })?,
    };
    let toggles = settings.tools.iter().map(|(name, on)| (name.clone(), on.value)).collect();
    Ok(Registry::standard().toggled(&toggles))
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
