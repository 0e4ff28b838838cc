//! One scenario: a small repository, a task, settings, a script, and what must come of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use super::expect::Expect;
use super::operator::Step;
use crate::repo::{self, RepoError};

static DEMO: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/demo");
static SELFTESTS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/selftests");

/// The ending of files that would mean something to the tools that build this program.
const SHIELD: &str = ".in";

/// Why a scenario can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Its data files are not as they should be.
    #[error("scenario {name} is malformed: {reason}")]
    Malformed {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Its repository can't be made.
    #[error(transparent)]
    Repository(#[from] RepoError),
    /// The disk refused.
    #[error("failed to write {path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The settings of a scenario that are flags of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    about: String,
    #[serde(default)]
    no_check: bool,
    #[serde(default)]
    no_judge: bool,
    #[serde(default)]
    no_synth: bool,
    #[serde(default)]
    crash: bool,
    #[serde(default)]
    python: bool,
    #[serde(default)]
    canaries: bool,
    #[serde(default)]
    reaped: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    operator: Vec<Step>,
    #[serde(default)]
    expect: Expect,
}

/// A scenario as its data files say it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name: the folder's.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Run without a typecheck.
    pub no_check: bool,
    /// Run without judges.
    pub no_judge: bool,
    /// Run without a synthesizer.
    pub no_synth: bool,
    /// The engine is killed in the middle, instead of a run to the end.
    pub crash: bool,
    /// Its worker runs snippets: without a Python that works it can't be run.
    pub python: bool,
    /// The attacks of the sandbox's probes belong to it.
    pub canaries: bool,
    /// By lane: command lines that run while it works, and that no process has when it has ended.
    pub reaped: BTreeMap<String, Vec<String>>,
    /// What the operator does while it runs.
    pub operator: Vec<Step>,
    /// The task.
    pub task: String,
    /// What must come of it.
    pub expect: Expect,
    config: String,
    script: Vec<u8>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// A scenario on disk.
#[derive(Clone, Debug)]
pub struct LaidOut {
    /// The repository.
    pub repository: PathBuf,
    /// Where the settings are, and their text.
    pub config: (PathBuf, String),
}

/// The demo.
///
/// # Errors
/// When its data files are malformed: a fault of the build.
pub fn demo() -> Result<Scenario, ScenarioError> {
    Scenario::read("demo", &DEMO)
}

/// All selftests, by name.
///
/// # Errors
/// When one's data files are malformed: a fault of the build.
pub fn selftests() -> Result<Vec<Scenario>, ScenarioError> {
    let mut all: Vec<_> = SELFTESTS
        .dirs()
        .map(|dir| {
            let name = dir.path().file_name().unwrap_or_default().to_string_lossy();
            Scenario::read(&name, dir)
        })
        .collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

impl Scenario {
    fn read(name: &str, dir: &Dir<'_>) -> Result<Self, ScenarioError> {
        let malformed = |reason: String| ScenarioError::Malformed { name: name.to_owned(), reason };
        let bytes = |file: &str| {
            let found = dir.get_file(dir.path().join(file)).map(|file| file.contents().to_vec());
            found.ok_or_else(|| malformed(format!("{file} is missing")))
        };
        let text = |file: &str| {
            String::from_utf8(bytes(file)?).map_err(|error| malformed(format!("{file}: {error}")))
        };
        let settings: Settings = toml::from_str(&text("scenario.toml")?)
            .map_err(|error| malformed(format!("scenario.toml: {error}")))?;
        let base = dir.path().join("repository");
        let folder =
            dir.get_dir(&base).ok_or_else(|| malformed("repository/ is missing".into()))?;
        Ok(Self {
            name: name.to_owned(),
            about: settings.about,
            no_check: settings.no_check,
            no_judge: settings.no_judge,
            no_synth: settings.no_synth,
            crash: settings.crash,
            python: settings.python,
            canaries: settings.canaries,
            reaped: settings.reaped,
            operator: settings.operator,
            expect: settings.expect,
            task: text("task.md")?,
            config: text("config.toml")?,
            script: bytes("script.toml")?,
            files: files_of(folder, &base),
        })
    }

    /// Writes the repository, the settings and the script below `dir`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn lay_out(&self, dir: &Path) -> Result<LaidOut, ScenarioError> {
        let repository = dir.join(&self.name);
        repo::seed(&repository, &self.files)?;
        let script = dir.join("script.toml");
        write(&script, &self.script)?;
        let place =
            format!("script = {}", toml::Value::from(script.to_string_lossy().into_owned()));
        let config = self.config.replace("script = \"script.toml\"", &place);
        Ok(LaidOut { repository, config: (dir.join("config.toml"), config) })
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ScenarioError> {
    std::fs::write(path, bytes)
        .map_err(|source| ScenarioError::Io { path: path.to_owned(), source })
}

/// Every file below a folder, its path from the folder, without the shield.
fn files_of(folder: &Dir<'_>, base: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let own = folder.files().map(|file| {
        let path = file.path().strip_prefix(base).unwrap_or(file.path());
        let text = path.to_string_lossy();
        let path = PathBuf::from(text.strip_suffix(SHIELD).unwrap_or(&text));
        (path, file.contents().to_vec())
    });
    let below = folder.dirs().flat_map(|dir| files_of(dir, base));
    own.chain(below).collect()
}
