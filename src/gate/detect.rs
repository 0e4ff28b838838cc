//! Finds a repository's typecheck and tests in the files of its base.
//!
//! The first kind that has what it needs decides: Cargo, TypeScript, Python (mypy or pyright
//! configured), Go. A repository of several languages names its own with `--check` or `bakeoff.toml`.

use super::tool::tool_in;
use crate::model::{CheckTool, CommandSpec, Origin};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// The typecheck.
    pub check: Option<CommandSpec>,
    /// The tests. They run only when they are asked for.
    pub test: Option<CommandSpec>,
    /// Directories that the commands need and that such a repository usually ignores: carried along
    /// from the checkout when nothing else is said. They need not exist.
    pub carry: Vec<String>,
}

/// The base's files below the directory of the gates.
struct Files<'a> {
    read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    dir: &'a str,
}

impl Files<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let dir = self.dir.trim_matches('/');
        let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        (self.read)(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }
}

/// Finds the commands. `read` gives a file of the base commit by its path from the repository's top;
/// `dir` is where the gates run, empty for the top.
pub fn detect(read: &dyn Fn(&str) -> Option<Vec<u8>>, dir: &str) -> Detected {
    let files = Files { read, dir };
    let checks: [fn(&Files<'_>) -> Option<CommandSpec>; 4] =
        [cargo_check, tsc_check, python_check, go_check];
    let tests: [fn(&Files<'_>) -> Option<CommandSpec>; 4] =
        [cargo_test, npm_test, python_test, go_test];
    Detected {
        check: checks.iter().find_map(|find| find(&files)),
        test: tests.iter().find_map(|find| find(&files)),
        carry: installed(&files),
    }
}

/// Where package managers install what a repository depends on: beside its files, and in a monorepo
/// at the top too.
fn installed(files: &Files<'_>) -> Vec<String> {
    let mut names = Vec::new();
    if files.has("package.json") || files.has("tsconfig.json") {
        names.push("node_modules");
    }
    if ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "mypy.ini", "pytest.ini"]
        .iter()
        .any(|file| files.has(file))
    {
        names.extend([".venv", "venv"]);
    }
    let dir = files.dir.trim_matches('/');
    let below = names.iter().filter(|_| !dir.is_empty()).map(|name| format!("{dir}/{name}"));
    names.iter().map(|name| (*name).to_owned()).chain(below).collect()
}

fn found(line: impl Into<String>, tool: CheckTool, file: &str) -> Option<CommandSpec> {
    let origin = Origin::Detected { file: file.to_owned() };
    Some(CommandSpec { line: line.into(), tool, origin })
}

/// JSON, so that diagnostics can be read; all targets, so that errors in tests are told, softly; going
/// on after the first broken crate, so that the base's broken crate does not hide a candidate's.
fn cargo_check(files: &Files<'_>) -> Option<CommandSpec> {
    let manifest = files.text("Cargo.toml")?;
    let all = workspace_flag(&manifest);
    let line = format!("cargo check{all} --all-targets --keep-going --message-format=json");
    found(line, CheckTool::CargoCheck, "Cargo.toml")
}

fn cargo_test(files: &Files<'_>) -> Option<CommandSpec> {
    let all = workspace_flag(&files.text("Cargo.toml")?);
    found(format!("cargo test{all} --no-fail-fast"), CheckTool::CargoTest, "Cargo.toml")
}

fn workspace_flag(manifest: &str) -> &'static str {
    let table: Option<toml::Table> = manifest.parse().ok();
    if table.is_some_and(|table| table.contains_key("workspace")) { " --workspace" } else { "" }
}

/// The project's own compiler, never a global one. A `tsconfig.json` that only refers to others has to
/// be built, or nothing at all is checked.
fn tsc_check(files: &Files<'_>) -> Option<CommandSpec> {
    let config = files.text("tsconfig.json")?;
    let tsc = "node_modules/.bin/tsc";
    let line = match is_solution(&config) {
        true => format!("{tsc} --build --pretty false"),
        false => format!("{tsc} --noEmit --pretty false --project tsconfig.json"),
    };
    found(line, CheckTool::Tsc, "tsconfig.json")
}

/// Whether a `tsconfig.json` has references and no files of its own. It is JSON with comments, so
/// only what is unmistakable is looked at.
fn is_solution(config: &str) -> bool {
    let dense: String = config.chars().filter(|c| !c.is_whitespace()).collect();
    dense.contains("\"references\":[{") && dense.contains("\"files\":[]")
}

/// The script that `npm init` writes when there are no tests.
const NO_TESTS: &str = "no test specified";

fn npm_test(files: &Files<'_>) -> Option<CommandSpec> {
    let package: serde_json::Value = serde_json::from_str(&files.text("package.json")?).ok()?;
    let script = package["scripts"]["test"].as_str().filter(|s| !s.contains(NO_TESTS))?;
    (!script.trim().is_empty()).then_some(())?;
    if let Some((line, tool)) = named_runner(script, &package) {
        return found(line, tool, "package.json");
    }
    let line = "npm test --silent";
    found(line, tool_in(line, Some(&package.to_string())), "package.json")
}

/// A script that runs one well-known runner and nothing else is run so that it names each test.
fn named_runner(script: &str, package: &serde_json::Value) -> Option<(String, CheckTool)> {
    let around = ["pretest", "posttest"].iter().any(|name| package["scripts"][*name].is_string());
    let plain = script.chars().all(|c| c.is_ascii_alphanumeric() || " -_./=@:".contains(c));
    let words: Vec<&str> = script.split_whitespace().collect();
    if around || !plain || script.contains("reporter") {
        return None;
    }
    let rest =
        |from: usize| words[from..].iter().map(|word| format!(" {word}")).collect::<String>();
    match words.as_slice() {
        ["vitest", "run", ..] => {
            let line = format!("node_modules/.bin/vitest run --reporter=json{}", rest(2));
            Some((line, CheckTool::Vitest))
        }
        ["jest", ..] if !script.contains("--watch") => {
            let ci = if words.contains(&"--ci") { "" } else { " --ci" };
            Some((format!("node_modules/.bin/jest{ci} --json{}", rest(1)), CheckTool::Jest))
        }
        ["node", "--test", ..] => {
            Some((format!("node --test --test-reporter=tap{}", rest(2)), CheckTool::NodeTest))
        }
        _ => None,
    }
}

fn python_check(files: &Files<'_>) -> Option<CommandSpec> {
    mypy_check(files).or_else(|| pyright_check(files))
}

/// `mypy` by its own name: `python -m mypy` would take a `mypy.py` of the repository before it.
fn mypy_check(files: &Files<'_>) -> Option<CommandSpec> {
    let (file, config) = mypy_config(files)?;
    let names_files = ["files", "packages", "modules"].iter().any(|key| {
        config.lines().any(|line| {
            line.trim_start().strip_prefix(key).is_some_and(|r| r.trim_start().starts_with('='))
        })
    });
    let target = if names_files { "" } else { " ." };
    let flags = "--show-error-codes --no-color-output --no-pretty --no-error-summary";
    found(format!("mypy {flags}{target}"), CheckTool::Mypy, file)
}

fn mypy_config(files: &Files<'_>) -> Option<(&'static str, String)> {
    for file in ["mypy.ini", ".mypy.ini"] {
        if let Some(text) = files.text(file) {
            return Some((file, text));
        }
    }
    let sections = [("pyproject.toml", "[tool.mypy]"), ("setup.cfg", "[mypy]")];
    sections.into_iter().find_map(|(file, head)| Some((file, section(&files.text(file)?, head)?)))
}

/// The lines of an INI or TOML section, when the file has it.
fn section(text: &str, head: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim() != head);
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with('[')).collect::<Vec<_>>().join("\n"))
}

fn pyright_check(files: &Files<'_>) -> Option<CommandSpec> {
    let own = files.has("pyrightconfig.json").then_some("pyrightconfig.json");
    let shared = || {
        let text = files.text("pyproject.toml")?;
        section(&text, "[tool.pyright]").map(|_| "pyproject.toml")
    };
    found("pyright --outputjson", CheckTool::Pyright, own.or_else(shared)?)
}

/// `python3 -m pytest` puts the repository's top on the import path, which many a repository needs; a
/// `pytest.py` that would shadow the tool is taken away for the run.
fn python_test(files: &Files<'_>) -> Option<CommandSpec> {
    let sections = [
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("pyproject.toml", "[tool.pytest]"),
        ("setup.cfg", "[tool:pytest]"),
        ("tox.ini", "[pytest]"),
    ];
    let by_file =
        ["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "tests/__init__.py"];
    let file = by_file.into_iter().find(|file| files.has(file)).or_else(|| {
        sections
            .into_iter()
            .find(|(file, head)| {
                files.text(file).is_some_and(|text| section(&text, head).is_some())
            })
            .map(|(file, _)| file)
    })?;
    found(
        "python3 -m pytest -q -rA --tb=short -p no:cacheprovider --continue-on-collection-errors",
        CheckTool::Pytest,
        file,
    )
}

/// `vet` type-checks the packages and their tests.
fn go_check(files: &Files<'_>) -> Option<CommandSpec> {
    files.has("go.mod").then(|| found("go vet ./...", CheckTool::GoBuild, "go.mod")).flatten()
}

fn go_test(files: &Files<'_>) -> Option<CommandSpec> {
    files.has("go.mod").then(|| found("go test -json ./...", CheckTool::GoTest, "go.mod")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)], dir: &str) -> (Option<String>, Option<String>) {
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_bytes().to_vec())
        };
        let found = detect(&read, dir);
        (found.check.map(|c| c.line), found.test.map(|c| c.line))
    }

    fn check(files: &[(&str, &str)]) -> String {
        lines(files, "").0.unwrap_or_default()
    }

    #[test]
    fn finds_each_kind_of_repository() {
        assert_eq!(
            check(&[("Cargo.toml", "[package]\nname='x'")]),
            "cargo check --all-targets --keep-going --message-format=json"
        );
        assert!(check(&[("Cargo.toml", "[workspace]\nmembers=[]")]).contains("--workspace"));
        assert!(check(&[("tsconfig.json", "{}")]).contains("tsc --noEmit"));
        let solution = r#"{"files": [], "references": [{"path": "a"}]}"#;
        assert!(check(&[("tsconfig.json", solution)]).contains("tsc --build"));
        assert!(check(&[("pyproject.toml", "[tool.mypy]\nstrict = true\n")]).ends_with(" ."));
        assert!(!check(&[("mypy.ini", "[mypy]\nfiles = src\n")]).ends_with(" ."));
        assert_eq!(check(&[("pyrightconfig.json", "{}")]), "pyright --outputjson");
        assert_eq!(check(&[("go.mod", "module x")]), "go vet ./...");
        assert_eq!(check(&[("README.md", "")]), "");
        assert_eq!(check(&[("pyproject.toml", "[project]\nname='x'")]), "");
    }

    #[test]
    fn looks_in_the_package_of_a_monorepo() {
        let files = [("Cargo.toml", ""), ("web/tsconfig.json", "{}"), ("web/package.json", "{}")];
        assert!(lines(&files, "web").0.is_some_and(|line| line.contains("tsc")));
        assert_eq!(lines(&files, "web").1, None);
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_bytes().to_vec())
        };
        assert_eq!(detect(&read, "web").carry, ["node_modules", "web/node_modules"]);
        assert!(detect(&read, "").carry.is_empty());
    }

    #[test]
    fn finds_tests_but_not_the_placeholder_of_npm() {
        let npm = |script: &str| format!(r#"{{"scripts": {{"test": "{script}"}}}}"#);
        assert_eq!(
            lines(&[("package.json", &npm("node --test"))], "").1.as_deref(),
            Some("node --test --test-reporter=tap")
        );
        for (script, line) in [
            ("vitest run src", "node_modules/.bin/vitest run --reporter=json src"),
            ("jest --coverage", "node_modules/.bin/jest --ci --json --coverage"),
            ("vitest run && tsc", "npm test --silent"),
            ("mocha", "npm test --silent"),
        ] {
            assert_eq!(lines(&[("package.json", &npm(script))], "").1.as_deref(), Some(line));
        }
        assert_eq!(
            lines(&[("package.json", &npm("echo no test specified && exit 1"))], "").1,
            None
        );
        assert!(lines(&[("tests/conftest.py", "")], "").1.is_some_and(|l| l.contains("pytest")));
        assert!(lines(&[("go.mod", "")], "").1.is_some_and(|l| l.contains("go test")));
    }
}
