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
    /// A file with tests that the base does not have.
    NewTest,
    /// A file of a dependency that is kept in the repository.
    Vendored,
    /// A file of both kinds.
    Mixed(Kind),
}

/// What the plan's command lines run.
pub struct Commands {
    dir: String,
    named: Vec<String>,
    /// What `make` is told to make: a file of that name would be taken for made.
    targets: Vec<String>,
    protect: globset::GlobSet,
}

impl Commands {
    /// The scripts and configuration files that a plan's command lines name, and where they run. `read`
    /// gives a file of the base: the scripts of a `package.json` and the recipes of a `Makefile` are lines
    /// of the gate's command, too.
    pub fn of(plan: &GatePlan, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let dir = plan.dir.trim_matches('/').to_owned();
        let lines: Vec<&str> = [&plan.setup, &plan.check, &plan.test]
            .into_iter()
            .flatten()
            .map(|command| command.line.as_str())
            .collect();
        let mut texts: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let at =
            |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        if lines
            .iter()
            .any(|line| ["npm", "pnpm", "yarn", "bun"].iter().any(|word| line.contains(word)))
        {
            texts.extend(read(&at("package.json")).and_then(|text| scripts(&text)));
        }
        for file in ["Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"] {
            if lines.iter().any(|line| line.contains("make") || line.contains("just")) {
                texts.extend(read(&at(file)));
            }
        }
        let targets = lines
            .iter()
            .flat_map(|line| line.split(['&', '|', ';']))
            .filter_map(|part| part.trim().strip_prefix("make "))
            .flat_map(str::split_whitespace)
            .filter(|word| !word.starts_with('-') && !word.contains('='))
            .map(str::to_owned)
            .collect();
        let named = texts
            .iter()
            .flat_map(|text| text.split(['&', '|', ';', '(', ')', '\n']))
            .flat_map(named)
            .map(|word| word.trim_start_matches("./").to_owned())
            .collect();
        Self { dir, named, targets, protect: globs(&plan.protect) }
    }

    /// Whether a command line names this path as something that it runs or is configured by, or the
    /// operator does.
    fn name(&self, path: &str) -> bool {
        let inner = self.inner(path);
        self.protect.is_match(path)
            || self.named.iter().any(|word| {
                // A directory of the repository's own build program: `cargo xtask`.
                let inside = word == "xtask" && path.starts_with("xtask/");
                inside || word == path || inner.is_some_and(|inner| word == inner)
            })
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
    let command = command.trim_start_matches(['\t', ' ', '@', '-', '+']);
    let words: Vec<&str> = command
        .split([' ', '\t', '=', '"', '\'', ','])
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
        .collect();
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let in_scripts = |word: &str| word.split('/').rev().skip(1).any(|dir| SCRIPTS.contains(&dir));
    let says_so = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or(word);
        ["test", "check", "lint"].iter().any(|part| name.contains(part)) && name.contains('.')
    };
    let defines = |(index, word): &(usize, &&str)| match (index, program) {
        (0, _) => true,
        (1, "cargo") => **word == "xtask",
        (1, "sh" | "bash" | "dash" | "zsh" | "." | "source" | "make" | "just") => true,
        (1, "python" | "python3" | "node" | "ruby" | "perl" | "deno" | "bun") => {
            in_scripts(word) || says_so(word)
        }
        _ => CONFIG.iter().any(|end| word.ends_with(end)),
    };
    words.iter().enumerate().filter(defines).map(|(_, word)| *word).collect()
}

/// The commands of a `package.json`, one a line.
fn scripts(text: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let lines = json.get("scripts")?.as_object()?.values().filter_map(serde_json::Value::as_str);
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// The operator's globs; one that can't be read protects nothing.
fn globs(patterns: &[String]) -> globset::GlobSet {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        if let Ok(glob) = globset::Glob::new(pattern) {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
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
        // What a new package in a directory of its own says is its own.
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let counts = change.base.is_some() || commands.is_top(path) || beside(dir)?;
        if counts && kind == Kind::Tsconfig && change.base.is_none() {
            return Ok(Some(Class::Outranks));
        }
        return Ok(counts.then_some(Class::Mixed(kind)));
    }
    if change.base.is_none() {
        let first = commands.inner(path).unwrap_or(path).split('/').next().unwrap_or("");
        if commands.targets.iter().any(|target| target == first) && !beside(first)? {
            return Ok(Some(Class::Outranks));
        }
        if outranks(path, &parts, name, commands, beside)? {
            return Ok(Some(Class::Outranks));
        }
        let is_new = is_test(&parts, name) && super::suppress::is_code(name);
        return Ok(is_new.then_some(Class::NewTest));
    }
    if matches!(parts.first(), Some(&"vendor" | &"third_party")) && super::suppress::is_code(name) {
        return Ok(Some(Class::Vendored));
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
    const NAMES: [&str; 61] = [
        // Cargo and rustc.
        "build.rs",
        "clippy.toml",
        "deny.toml",
        "Cross.toml",
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
        "tox.toml",
        "unittest.cfg",
        "nose2.cfg",
        "ty.toml",
        "pyrefly.toml",
        "ruff.toml",
        "pylintrc",
        "hatch.toml",
        "uv.toml",
        // JavaScript.
        "jsconfig.json",
        "eslint.config.js",
        "eslint.config.mjs",
        "eslint.config.cjs",
        "eslint.config.ts",
        "biome.json",
        "biome.jsonc",
        "karma.conf.js",
        "mocha.opts",
        "jasmine.json",
        "setupTests.js",
        "setupTests.ts",
        "jest-setup.js",
        "jest-setup.ts",
        "web-test-runner.config.js",
        "web-test-runner.config.mjs",
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
        || is_runner_config(name)
        || parts.iter().any(|part| {
            matches!(part.strip_suffix(".py").unwrap_or(part), "sitecustomize" | "usercustomize")
        })
        || name.ends_with(".pth")
        || name.ends_with(".mk")
}

/// `jest.config.ts`, `vitest.workspace.mts`, `vite.config.js`, …
fn is_runner_config(name: &str) -> bool {
    const RUNNERS: [&str; 14] = [
        "jest",
        "vitest",
        "vite",
        "babel",
        "playwright",
        "cypress",
        "ava",
        "wallaby",
        "webpack",
        "nyc",
        "c8",
        "swc",
        "mocha",
        "test",
    ];
    let mut parts = name.split('.');
    let (runner, word) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    RUNNERS.contains(&runner)
        && matches!(word, "config" | "setup" | "workspace" | "conf" | "polyfills" | "projects")
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
        "go.mod" => Some(Kind::GoMod),
        name if name.starts_with("tsconfig") && name.ends_with(".json") => Some(Kind::Tsconfig),
        _ => None,
    }
}

/// Modules that test runners and checkers import, and that a file of that name where the gates run would
/// be taken for: the tools themselves, and all that `python -m pytest` and `python -m unittest` load of
/// Python's own library (as seen with Python 3.11 and pytest 9).
#[rustfmt::skip]
const IMPORTED_FIRST: &[&str] = &[
    // The tools.
    "pytest", "_pytest", "pluggy", "mypy", "mypyc", "pyright", "coverage", "tox", "nox",
    "iniconfig", "packaging", "typing_extensions", "exceptiongroup", "py", "hypothesis", "mock",
    "xdist", "pytest_asyncio", "numpy", "pandas", "pygments", "colorama", "attr", "tomli",
    // Python's own.
    "abc", "argparse", "array", "ast", "asyncio", "atexit", "base64", "bdb", "binascii", "bisect",
    "builtins", "bz2", "calendar", "cmd", "code", "codecs", "codeop", "collections", "contextlib",
    "copy", "copyreg", "csv", "dataclasses", "datetime", "decimal", "difflib", "dis", "doctest",
    "email", "encodings", "enum", "errno", "faulthandler", "fcntl", "fnmatch", "functools", "gc",
    "genericpath", "gettext", "glob", "hashlib", "heapq", "html", "importlib", "inspect", "io",
    "ipaddress", "itertools", "json", "keyword", "linecache", "locale", "logging", "lzma",
    "marshal", "math", "ntpath", "numbers", "opcode", "operator", "os", "pathlib", "pdb",
    "platform", "posix", "posixpath", "pprint", "pyexpat", "quopri", "random", "re", "readline",
    "reprlib", "runpy", "select", "selectors", "shlex", "shutil", "signal", "site", "socket",
    "stat", "string", "struct", "subprocess", "sys", "tempfile", "textwrap", "threading", "time",
    "token", "tokenize", "tomllib", "traceback", "types", "typing", "unicodedata", "unittest",
    "urllib", "uuid", "warnings", "weakref", "xml", "zipfile", "zipimport", "zlib",
];

/// New files that a tool would take before the base's own.
fn outranks(
    path: &str,
    parts: &[&str],
    name: &str,
    commands: &Commands,
    beside: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let inner = commands.inner(path).unwrap_or(path);
    let first = inner.split('/').next().unwrap_or("");
    let module = first.strip_suffix(".py").unwrap_or(first);
    if IMPORTED_FIRST.contains(&module) && (path.ends_with(".py") || path.ends_with(".pyi")) {
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

/// Whether a path is one that tests, or what belongs to them, are kept at.
pub fn is_test_path(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    is_test(&parts, parts.last().copied().unwrap_or(""))
}

/// Whether a file of the base is a test or belongs to tests.
fn is_test(parts: &[&str], name: &str) -> bool {
    const DIRS: [&str; 6] = ["tests", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e"];
    let dirs = &parts[..parts.len().saturating_sub(1)];
    dirs.iter().any(|part| DIRS.contains(part))
        // `test` is a package name too (a test client, say): only at the top or below `src`.
        // The same holds for `spec`, which many a program has a part of.
        || matches!(dirs.first(), Some(&"test" | &"spec"))
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
        assert_eq!(named("\t@-sh ci/run.sh"), ["sh", "ci/run.sh"]);
        assert_eq!(named("cargo xtask ci"), ["cargo", "xtask"]);
        assert_eq!(named("cargo test"), ["cargo"]);
        assert_eq!(named("mypy --config-file=conf/my.ini app/calc.py"), ["mypy", "conf/my.ini"]);
        assert_eq!(named("python3 tools/check.py app/calc.py"), ["python3", "tools/check.py"]);
        assert_eq!(named("python3 app/main.py"), ["python3"]);
        assert_eq!(named("tsc -p conf/strict.json"), ["tsc", "conf/strict.json"]);
    }
}
