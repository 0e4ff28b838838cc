//! Which paths define a gate. By name alone, so that every rule can be read here.

use super::merge::Kind;
use super::tree::Change;
use crate::model::GatePlan;
use crate::patch::StoreError;

/// What a changed path is to the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Configuration of a tool that the gates run, build scripts, command files.
    Gate,
    /// Configuration of other tools that run code (CI, hooks, editors, agents, this program).
    Tooling,
    /// A file that would be taken before the one that the base checks with.
    Outranks,
    /// A test that the base has.
    Test,
    /// A file of both kinds.
    Mixed(Kind),
}

/// What the plan's command lines run.
pub struct Commands {
    dir: String,
    named: Vec<String>,
}

impl Commands {
    /// The scripts and configuration files that a plan's command lines name, and where they run.
    pub fn of(plan: &GatePlan) -> Self {
        let lines = [&plan.setup, &plan.check, &plan.test];
        let named = lines
            .into_iter()
            .flatten()
            .flat_map(|command| command.line.split(['&', '|', ';', '(', ')', '\n']))
            .flat_map(named)
            .map(|word| word.trim_start_matches("./").to_owned())
            .collect();
        Self { dir: plan.dir.trim_matches('/').to_owned(), named }
    }

    /// Whether a command line names this path as something that it runs or is configured by.
    fn name(&self, path: &str) -> bool {
        let inner = self.inner(path);
        self.named.iter().any(|word| word == path || inner.is_some_and(|inner| word == inner))
    }

    /// The path from where the gates run.
    fn inner<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.dir.as_str() {
            "" => Some(path),
            dir => path.strip_prefix(dir)?.strip_prefix('/'),
        }
    }

    /// Whether a path lies right in the repository's top or where the gates run.
    fn is_top(&self, path: &str) -> bool {
        !path.contains('/') || self.inner(path).is_some_and(|inner| !inner.contains('/'))
    }
}

/// The words of one command that define what it does: its program, a shell's script, an interpreter's
/// script where scripts are kept, and configuration files. Paths that a checker is pointed at
/// (`mypy app/calc.py`) are what is checked, and stay the candidate's.
fn named(command: &str) -> Vec<&str> {
    const CONFIG: [&str; 7] = [".ini", ".toml", ".cfg", ".json", ".yml", ".yaml", ".conf"];
    const SCRIPTS: [&str; 8] = ["scripts", "script", "tools", "ci", "hack", "bin", "dev", "build"];
    let words: Vec<&str> = command
        .split([' ', '\t', '=', '"', '\'', ','])
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
        .collect();
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let in_scripts = |word: &str| word.split('/').rev().skip(1).any(|dir| SCRIPTS.contains(&dir));
    let defines = |(index, word): &(usize, &&str)| match (index, program) {
        (0, _) => true,
        (1, "sh" | "bash" | "dash" | "zsh" | "." | "source" | "make" | "just") => true,
        (1, "python" | "python3" | "node" | "ruby" | "perl" | "deno" | "bun") => in_scripts(word),
        _ => CONFIG.iter().any(|end| word.ends_with(end)),
    };
    words.iter().enumerate().filter(defines).map(|(_, word)| *word).collect()
}

/// What a changed path is; `None` for ordinary code. `beside` tells whether the base has a path.
pub fn classify(
    path: &str,
    change: &Change,
    commands: &Commands,
    beside: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<Option<Class>, StoreError> {
    let parts: Vec<&str> = path.split('/').collect();
    let name = parts.last().copied().unwrap_or("");
    if commands.name(path) && change.base.is_some() {
        return Ok(Some(Class::Gate));
    }
    if is_installed(&parts) {
        return Ok(Some(Class::Outranks));
    }
    if is_gate_file(&parts, name) {
        return Ok(Some(Class::Gate));
    }
    if is_tooling(&parts) {
        return Ok(Some(Class::Tooling));
    }
    if let Some(kind) = mixed(name) {
        let counts = change.base.is_some() || commands.is_top(path);
        return Ok(counts.then_some(Class::Mixed(kind)));
    }
    if change.base.is_none() {
        return Ok(outranks(path, &parts, name, commands, beside)?.then_some(Class::Outranks));
    }
    Ok(is_test(&parts, name).then_some(Class::Test))
}

/// Directories of installed or built things: whatever is added there is used in place of the real.
fn is_installed(parts: &[&str]) -> bool {
    const DIRS: [&str; 6] =
        ["node_modules", ".venv", "site-packages", "__pycache__", ".pnp.cjs", ".pnp.loader.mjs"];
    // A package's metadata beside the tests names plugins that their runner loads.
    let metadata = |part: &str| part.ends_with(".dist-info") || part.ends_with(".egg-info");
    parts.iter().any(|part| DIRS.contains(part) || metadata(part))
        || parts.first() == Some(&"target")
}

fn is_gate_file(parts: &[&str], name: &str) -> bool {
    const NAMES: [&str; 42] = [
        // Cargo and rustc.
        "build.rs",
        "clippy.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
        // Python.
        "pytest.ini",
        "tox.ini",
        "setup.cfg",
        "mypy.ini",
        "pyrightconfig.json",
        "conftest.py",
        "noxfile.py",
        "pytest.toml",
        // JavaScript.
        "jsconfig.json",
        "eslint.config.js",
        "eslint.config.mjs",
        "eslint.config.cjs",
        "eslint.config.ts",
        "biome.json",
        "biome.jsonc",
        "karma.conf.js",
        "nx.json",
        "turbo.json",
        "lerna.json",
        "deno.json",
        "deno.jsonc",
        "bunfig.toml",
        "pnpm-workspace.yaml",
        // Go.
        "go.work",
        "staticcheck.conf",
        // Command files.
        "Makefile",
        "makefile",
        "GNUmakefile",
        "justfile",
        "Justfile",
        "Taskfile.yml",
        "Taskfile.yaml",
        "CMakePresets.json",
        "meson_options.txt",
        "WORKSPACE",
        "MODULE.bazel",
        "Earthfile",
        "Rakefile",
    ];
    const HIDDEN: [&str; 20] = [
        ".cargo",
        ".mypy.ini",
        ".pytest.ini",
        ".coveragerc",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".babelrc",
        ".swcrc",
        ".mocharc.js",
        ".mocharc.cjs",
        ".mocharc.json",
        ".mocharc.yml",
        ".nycrc",
        ".eslintrc",
        ".eslintrc.json",
        ".eslintrc.js",
        ".golangci.yml",
        ".clippy.toml",
    ];
    NAMES.contains(&name)
        || parts.iter().any(|part| HIDDEN.contains(part))
        || (name.starts_with("tsconfig") && name.ends_with(".json"))
        || is_runner_config(name)
        || matches!(name, "sitecustomize.py" | "usercustomize.py")
        || name.ends_with(".pth")
        || name.ends_with(".mk")
}

/// `jest.config.ts`, `vitest.workspace.mts`, `vite.config.js`, …
fn is_runner_config(name: &str) -> bool {
    const RUNNERS: [&str; 9] =
        ["jest", "vitest", "vite", "babel", "playwright", "cypress", "ava", "wallaby", "webpack"];
    let mut parts = name.split('.');
    let (runner, word) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    RUNNERS.contains(&runner) && matches!(word, "config" | "setup" | "workspace" | "conf")
}

/// Hidden files and directories hold the settings of tools, save for a few that only say what a
/// version control system or an editor does with text.
fn is_tooling(parts: &[&str]) -> bool {
    const HARMLESS: [&str; 8] = [
        ".gitignore",
        ".gitkeep",
        ".editorconfig",
        ".changeset",
        ".changes",
        ".mailmap",
        ".all-contributorsrc",
        ".keep",
    ];
    const OWN: [&str; 9] = [
        "bakeoff.toml",
        "lefthook.yml",
        "lefthook.yaml",
        "Jenkinsfile",
        "appveyor.yml",
        "azure-pipelines.yml",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
    ];
    // Templates for issues and the like are only text.
    if parts.first() == Some(&".github") && !matches!(parts.get(1), Some(&"workflows" | &"actions"))
    {
        return false;
    }
    let hidden = parts.iter().any(|part| {
        part.starts_with('.') && part.len() > 1 && !HARMLESS.contains(part) && *part != ".."
    });
    hidden || parts.last().is_some_and(|name| OWN.contains(name))
}

fn mixed(name: &str) -> Option<Kind> {
    match name {
        "Cargo.toml" => Some(Kind::Cargo),
        "package.json" => Some(Kind::Package),
        "pyproject.toml" => Some(Kind::Pyproject),
        _ => None,
    }
}

/// New files that a tool would take before the base's own.
fn outranks(
    path: &str,
    parts: &[&str],
    name: &str,
    commands: &Commands,
    beside: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    const TOOLS: [&str; 9] =
        ["pytest", "_pytest", "pluggy", "mypy", "mypyc", "pyright", "coverage", "tox", "nox"];
    let inner = commands.inner(path).unwrap_or(path);
    let first = inner.split('/').next().unwrap_or("");
    let module = first.strip_suffix(".py").unwrap_or(first);
    if TOOLS.contains(&module) && (path.ends_with(".py") || path.ends_with(".pyi")) {
        return Ok(true);
    }
    if let Some(stem) = path.strip_suffix(".pyi") {
        return beside(&format!("{stem}.py"));
    }
    if let Some(stem) = path.strip_suffix(".d.ts") {
        return any(beside, &[format!("{stem}.ts"), format!("{stem}.tsx")]);
    }
    if path.ends_with(".py") && is_taken_for_another(parts, name, beside)? {
        return Ok(true);
    }
    // Jest looks for `.js` first.
    if let Some(stem) = path.strip_suffix(".js") {
        return any(beside, &[format!("{stem}.ts"), format!("{stem}.tsx")]);
    }
    Ok(parts.contains(&"__mocks__") || name == "__pycache__")
}

/// A new Python file that is found before one of the base that has the same module name: test runners
/// put a test's directory, and the repository's top, first on the import path.
fn is_taken_for_another(
    parts: &[&str],
    name: &str,
    beside: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let path = parts.join("/");
    let mut others = vec![format!("src/{path}"), format!("lib/{path}"), format!("python/{path}")];
    let below = (1..parts.len()).filter(|at| is_test(&parts[..=*at], ""));
    others.extend(below.map(|at| parts[at..].join("/")).filter(|path| !is_test_file(path, name)));
    any(beside, &others)
}

fn is_test_file(path: &str, name: &str) -> bool {
    name == "conftest.py" || is_test(&path.split('/').collect::<Vec<_>>(), name)
}

fn any(
    beside: &dyn Fn(&str) -> Result<bool, StoreError>,
    paths: &[String],
) -> Result<bool, StoreError> {
    for path in paths {
        if beside(path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a file of the base is a test or belongs to tests.
fn is_test(parts: &[&str], name: &str) -> bool {
    const DIRS: [&str; 7] =
        ["tests", "__tests__", "__snapshots__", "__mocks__", "testdata", "spec", "e2e"];
    let dirs = &parts[..parts.len().saturating_sub(1)];
    dirs.iter().any(|part| DIRS.contains(part))
        // `test` is a package name too (a test client, say): only at the top or below `src`.
        || dirs.first() == Some(&"test")
        || dirs.windows(2).any(|pair| pair == ["src", "test"])
        || (name.starts_with("test_") && name.ends_with(".py"))
        || ["_test.py", "_test.go", "_spec.rb", "_test.rb", "_test.exs"].iter().any(|end| name.ends_with(end))
        || name.contains(".test.")
        || name.contains(".spec.")
        || name == "tests.rs"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_it_runs_and_not_what_it_checks() {
        assert_eq!(named("sh ci/check.sh src/a.py"), ["sh", "ci/check.sh"]);
        assert_eq!(named("./gate.sh -v"), ["./gate.sh"]);
        assert_eq!(named("mypy --config-file=conf/my.ini app/calc.py"), ["mypy", "conf/my.ini"]);
        assert_eq!(named("python3 tools/check.py app/calc.py"), ["python3", "tools/check.py"]);
        assert_eq!(named("python3 app/main.py"), ["python3"]);
        assert_eq!(named("tsc -p conf/strict.json"), ["tsc", "conf/strict.json"]);
    }
}
