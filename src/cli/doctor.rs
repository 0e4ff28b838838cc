//! `bakeoff doctor`.

use std::fmt::Write as _;
use std::path::Path;

use super::context::Context;
use super::output::{write_json, write_text};
use super::{CliError, Exit};
use crate::config::{Config, Sources};
use crate::pipeline::{Checkup, checkup};
use crate::sandbox::{Warden, WardenOptions};

/// Show what works here: sandbox tier and probes, workspaces, toolchains, terminals, model servers, directories
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 0 when code can run in a proven sandbox and the directories can be written, else 4 or 6."
)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Looks and prints.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let warden = Warden::start(&WardenOptions { program: context.program.clone() })
            .map_err(crate::pipeline::PipelineError::from)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::internal(format!("failed to start the runtime: {error}")))?;
        let path = context.path();
        let found = runtime.block_on(checkup(&warden, &context.state, &path, &context.home));
        let config = user_settings(context)?;
        let directories = [("state", &context.state), ("cache", &context.cache)];
        let writable: Vec<(&str, String, Option<String>)> = directories
            .into_iter()
            .map(|(name, dir)| (name, dir.display().to_string(), trouble(dir)))
            .collect();
        if self.json {
            write_json(&as_json(&found, &config, &writable))?;
        } else {
            write_text(&text(&found, &config, &writable))?;
        }
        Ok(match (writable.iter().all(|row| row.2.is_none()), found.proven) {
            (false, _) => Exit::Internal,
            (true, false) => Exit::Infra,
            (true, true) => Exit::Done,
        })
    }
}

fn user_settings(context: &Context) -> Result<Config, CliError> {
    let user = super::launch::user_config(context)?;
    let sources =
        Sources { user, repository: None, trusted: false, env: &|name: &str| context.var(name) };
    Ok(Config::load(&sources)?)
}

/// Why a directory can't be written to, tried by doing it: in it, and in what it holds already, where
/// runs and cached things lie.
fn trouble(dir: &Path) -> Option<String> {
    let told = |error| format!("{error}; set BAKEOFF_HOME to a directory that you can write to");
    if let Err(error) = std::fs::create_dir_all(dir).and_then(|()| write_in(dir)) {
        return Some(told(error));
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut inner = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    inner.find_map(|path| {
        let error = write_in(&path).err()?;
        Some(told(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))))
    })
}

fn write_in(dir: &Path) -> std::io::Result<()> {
    tempfile::tempfile_in(dir).map(drop)
}

type Directory = (&'static str, String, Option<String>);

fn text(found: &Checkup, config: &Config, directories: &[Directory]) -> String {
    let mut out = String::new();
    let mark = |good: bool| if good { "ok " } else { "NO " };
    let proven = if found.proven { "proven" } else { "not proven" };
    let _ = writeln!(out, "sandbox      {} tier, {proven}", found.tier);
    for (name, stopped, detail) in &found.probes {
        let _ = writeln!(out, "  {} {name:<22} {detail}", mark(*stopped));
    }
    if !found.advice.is_empty() {
        let _ = writeln!(out, "  -> {}", found.advice);
    }
    workspaces(found, &mut out);
    out.push_str("toolchains\n");
    for (name, program) in &found.toolchains {
        let _ = writeln!(out, "  ok  {name:<22} {}", program.display());
    }
    if found.toolchains.is_empty() {
        out.push_str("  none on PATH: gates can only use what the system has\n");
    }
    let (works, said) = match &found.git {
        Ok((program, version)) => (true, format!("{} {version}", program.display())),
        Err(why) => (false, format!("{why}; no command of git's runs for models")),
    };
    let _ = writeln!(out, "  {} {:<22} {said}", mark(works), "git");
    out.push_str("terminals\n");
    let (works, said) = match &found.terminals {
        Ok(()) => (true, "commands of `bakeoff shell --pty` get their own".to_owned()),
        Err(why) => (false, format!("{why}; `bakeoff shell` works without --pty")),
    };
    let _ = writeln!(out, "  {} {:<22} {said}", mark(works), "pty");
    out.push_str("code execution\n");
    let (works, said) = match &found.python {
        Ok(program) => (true, program.display().to_string()),
        Err(why) => (false, format!("{why}; models are not offered the tool code_execution")),
    };
    let _ = writeln!(out, "  {} {:<22} {said}", mark(works), "python");
    out.push_str("models\n");
    for provider in config.providers.values() {
        let state = match provider.missing_key() {
            None => format!("{} (not asked here)", provider.shown_address()),
            Some(missing) => missing,
        };
        let _ = writeln!(out, "  {} {:<22} {state}", mark(provider.is_ready()), provider.name);
        for said in provider.request.described() {
            let _ = writeln!(out, "      {:<22} {said}", "");
        }
    }
    out.push_str("directories\n");
    for (name, dir, trouble) in directories {
        let said = trouble.as_ref().map(|trouble| format!(" {trouble}")).unwrap_or_default();
        let _ = writeln!(out, "  {} {name:<22} {dir}{said}", mark(trouble.is_none()));
    }
    out
}

fn workspaces(found: &Checkup, out: &mut String) {
    let _ = writeln!(out, "workspaces   {}", found.workspace);
    for tried in &found.workspaces {
        let (mark, said) = match (&tried.trouble, tried.renames) {
            (Some(trouble), _) => ("-- ", trouble.as_str()),
            (None, true) => ("ok ", "works"),
            (None, false) => {
                ("ok ", "works, but no directory of the base can be renamed in one step")
            }
        };
        let _ = writeln!(out, "  {mark} {:<22} {said}", tried.backend.name());
    }
}

fn as_json(found: &Checkup, config: &Config, directories: &[Directory]) -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "sandbox": {
            "tier": found.tier,
            "proven": found.proven,
            "advice": found.advice,
            "probes": found.probes.iter().map(|(name, stopped, detail)| {
                serde_json::json!({ "name": name, "stopped": stopped, "detail": detail })
            }).collect::<Vec<_>>(),
        },
        "workspaces": {
            "backend": found.workspace,
            "tried": found.workspaces.iter().map(|tried| {
                serde_json::json!({
                    "backend": tried.backend.name(),
                    "works": tried.trouble.is_none(),
                    "trouble": tried.trouble,
                    "renames": tried.renames,
                })
            }).collect::<Vec<_>>(),
        },
        "toolchains": found.toolchains.iter().map(|(name, program)| {
            serde_json::json!({ "name": name, "program": program.to_string_lossy() })
        }).collect::<Vec<_>>(),
        "git": {
            "program": found.git.as_ref().ok().map(|(program, _)| program.to_string_lossy()),
            "version": found.git.as_ref().ok().map(|(_, version)| version),
            "trouble": found.git.as_ref().err(),
        },
        "terminals": { "works": found.terminals.is_ok(), "trouble": found.terminals.as_ref().err() },
        "code_execution": {
            "python": found.python.as_ref().ok().map(|program| program.to_string_lossy()),
            "trouble": found.python.as_ref().err(),
        },
        "providers": config.providers.values().map(|provider| {
            serde_json::json!({
                "name": provider.name,
                "base_url": provider.shown_address(),
                "ready": provider.is_ready(),
                "requests": provider.request.described(),
            })
        }).collect::<Vec<_>>(),
        "directories": directories.iter().map(|(name, dir, trouble)| {
            serde_json::json!({ "name": name, "path": dir, "trouble": trouble })
        }).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_writable_only_with_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        std::fs::create_dir(&runs).unwrap();
        assert_eq!(trouble(dir.path()), None);
        assert!(trouble(Path::new("/proc/self/state")).is_some());
        std::fs::set_permissions(&runs, std::fs::Permissions::from_mode(0o555)).unwrap();
        // Root may write all the same, and is told so.
        let told = trouble(dir.path());
        assert_eq!(told.is_some(), write_in(&runs).is_err(), "{told:?}");
        assert!(told.is_none_or(|told| told.contains("runs") && told.contains("BAKEOFF_HOME")));
        std::fs::set_permissions(&runs, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
