//! What the process was given: environment, directories, terminal. Read once, here only.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, choose_base_strategy};

use super::CliError;
use crate::report::Style;

/// The process's surroundings.
#[derive(Debug)]
pub struct Context {
    /// Runs, trust and leases.
    pub state: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// Where `config.toml` is.
    pub config: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// The environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Width of the terminal, or 100.
    pub columns: usize,
    /// Whether standard output shows colours.
    pub colour: bool,
    /// Whether standard error is a terminal.
    pub terminal: bool,
    /// This program.
    pub program: PathBuf,
}

impl Context {
    /// Reads the environment. `BAKEOFF_HOME` holds state and cache when it is set.
    pub fn from_process() -> Result<Self, CliError> {
        let env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let base = choose_base_strategy().map_err(|error| {
            CliError::usage(format!("failed to find the home directory: {error}; set HOME"))
        })?;
        let own = env.get(&OsString::from("BAKEOFF_HOME")).filter(|dir| !dir.is_empty());
        let (state, cache) = match own {
            Some(dir) => {
                let dir = absolute(Path::new(dir))?;
                (dir.join("state"), dir.join("cache"))
            }
            None => {
                let state = base.state_dir().unwrap_or_else(|| base.data_dir());
                (state.join("bakeoff"), base.cache_dir().join("bakeoff"))
            }
        };
        let program = std::env::current_exe()
            .map_err(|error| CliError::internal(format!("failed to find this program: {error}")))?;
        Ok(Self {
            state,
            cache,
            config: base.config_dir().join("bakeoff"),
            home: base.home_dir().to_owned(),
            columns: columns(&env),
            colour: std::io::stdout().is_terminal() && colours(&env),
            terminal: std::io::stderr().is_terminal() && !is_dumb(&env),
            env,
            program,
        })
    }

    /// A variable's value, when it is set, not empty and valid Unicode.
    pub fn var(&self, name: &str) -> Option<String> {
        let value = self.env.get(&OsString::from(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Whether this is a CI job, in which nobody answers anything.
    pub fn is_ci(&self) -> bool {
        self.var("CI").is_some_and(|value| !["0", "false"].contains(&value.as_str()))
    }

    /// Whether somebody can answer what is asked on this terminal.
    pub fn is_answered(&self) -> bool {
        !self.is_ci() && std::io::stdin().is_terminal()
    }

    /// Where programs are looked for.
    pub fn path(&self) -> OsString {
        self.env.get(&OsString::from("PATH")).cloned().unwrap_or_default()
    }

    /// How reports look on standard output.
    pub fn style(&self) -> Style {
        Style { columns: self.columns, colour: self.colour }
    }
}

/// Whether the terminal moves no cursor and shows no colours: terminfo's `dumb`.
fn is_dumb(env: &BTreeMap<OsString, OsString>) -> bool {
    env.get(OsStr::new("TERM")).is_some_and(|term| term == "dumb")
}

/// Whether a terminal is to be written to in colours: see <https://no-color.org>.
fn colours(env: &BTreeMap<OsString, OsString>) -> bool {
    !is_dumb(env) && !is_set(env, "NO_COLOR")
}

fn is_set(env: &BTreeMap<OsString, OsString>, name: &str) -> bool {
    env.get(&OsString::from(name)).is_some_and(|value| !value.is_empty())
}

fn absolute(dir: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(dir)
        .map_err(|error| CliError::usage(format!("BAKEOFF_HOME {}: {error}", dir.display())))
}

fn columns(env: &BTreeMap<OsString, OsString>) -> usize {
    let told = env.get(&OsString::from("COLUMNS")).and_then(|value| value.to_str()?.parse().ok());
    let asked =
        rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    told.or(asked).filter(|columns| *columns > 0).unwrap_or(100).clamp(40, 240)
}
