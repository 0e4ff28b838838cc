//! Whose output a command line writes, guessed from its words.

use crate::model::CheckTool;

/// The tool behind `npm test` and the like, by the scripts of the base's `package.json`. A line that runs
/// no script is taken as it is.
pub fn tool_in(line: &str, package: Option<&str>) -> CheckTool {
    let known = tool_of(line);
    let script = script_of(line).filter(|_| known == CheckTool::Other);
    let (Some(script), Some(package)) = (script, package) else { return known };
    let scripts = serde_json::from_str::<serde_json::Value>(package)
        .map(|json| json["scripts"].clone())
        .unwrap_or_default();
    // What npm runs before and after it speaks, too.
    let around = [format!("pre{script}"), format!("post{script}")];
    match scripts[script].as_str() {
        Some(line) if !around.iter().any(|name| scripts[name].is_string()) => tool_of(line),
        _ => known,
    }
}

/// The script that a package manager is told to run.
fn script_of(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('-')).collect();
    match words.as_slice() {
        ["npm" | "pnpm" | "yarn" | "bun", "run" | "run-script", script] => Some(script),
        ["npm" | "pnpm" | "yarn", "test" | "t"] => Some("test"),
        ["yarn" | "pnpm", script] if *script != "install" => Some(script),
        _ => None,
    }
}

/// The tool that speaks on a command line. A line that runs several tools is `Other` unless one reader
/// understands all of them: a diagnostic that nobody reads must not look like none.
pub fn tool_of(line: &str) -> CheckTool {
    let mut found: Vec<CheckTool> = line
        .split(['&', '|', ';', '\n'])
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.starts_with("cd "))
        .map(tool_of_part)
        .collect();
    found.dedup();
    match found.as_slice() {
        [one] => *one,
        _ => CheckTool::Other,
    }
}

fn tool_of_part(part: &str) -> CheckTool {
    let words: Vec<&str> = part.split_whitespace().skip_while(|word| is_assignment(word)).collect();
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let next = |skip: usize| words.iter().skip(skip).find(|w| !w.starts_with(['-', '+'])).copied();
    match (program, next(1).unwrap_or("")) {
        ("cargo", "check" | "c" | "clippy" | "build" | "b") => CheckTool::CargoCheck,
        ("cargo", "test" | "t" | "nextest") => CheckTool::CargoTest,
        ("go", "build" | "vet") => CheckTool::GoBuild,
        ("go", "test") => CheckTool::GoTest,
        ("tsc" | "vue-tsc", _) => CheckTool::Tsc,
        ("mypy" | "dmypy", _) => CheckTool::Mypy,
        ("pyright" | "basedpyright", _) => CheckTool::Pyright,
        ("pytest" | "py.test", _) => CheckTool::Pytest,
        ("vitest", "bench" | "list") => CheckTool::Other,
        ("vitest", _) => CheckTool::Vitest,
        ("jest", _) => CheckTool::Jest,
        ("mocha", _) => CheckTool::Mocha,
        ("node", _) if words.contains(&"--test") => CheckTool::NodeTest,
        ("npx" | "bunx" | "uvx", tool) => by_name(tool),
        ("python" | "python3", tool) if words.contains(&"-m") => by_name(tool),
        ("uv" | "poetry" | "pdm" | "hatch" | "pipenv" | "pnpm" | "yarn", "run" | "exec") => {
            tool_of_part(&words[2.min(words.len())..].join(" "))
        }
        _ => CheckTool::Other,
    }
}

fn by_name(tool: &str) -> CheckTool {
    match tool {
        "tsc" => CheckTool::Tsc,
        "mypy" => CheckTool::Mypy,
        "pyright" => CheckTool::Pyright,
        "pytest" => CheckTool::Pytest,
        "unittest" => CheckTool::Unittest,
        "vitest" => CheckTool::Vitest,
        "jest" => CheckTool::Jest,
        "mocha" => CheckTool::Mocha,
        _ => CheckTool::Other,
    }
}

fn is_assignment(word: &str) -> bool {
    word == "env"
        || word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_tool_of_a_line() {
        for (line, tool) in [
            ("cargo check --all-targets", CheckTool::CargoCheck),
            ("RUSTFLAGS=-Dwarnings cargo +nightly clippy", CheckTool::CargoCheck),
            ("cargo nextest run", CheckTool::CargoTest),
            ("node_modules/.bin/tsc --noEmit", CheckTool::Tsc),
            ("npx tsc -b", CheckTool::Tsc),
            ("python3 -m pytest -q", CheckTool::Pytest),
            ("uv run mypy .", CheckTool::Mypy),
            ("cd sub && go vet ./...", CheckTool::GoBuild),
            ("cargo check && npm test", CheckTool::Other),
            ("make test", CheckTool::Other),
            ("node_modules/.bin/vitest run", CheckTool::Vitest),
            ("npx jest --ci", CheckTool::Jest),
            ("node --test test/", CheckTool::NodeTest),
            ("python -m unittest discover -v", CheckTool::Unittest),
            ("mocha", CheckTool::Mocha),
            ("", CheckTool::Other),
        ] {
            assert_eq!(tool_of(line), tool, "{line}");
        }
    }

    #[test]
    fn a_script_has_the_tool_that_it_runs() {
        let package = r#"{"scripts": {"test": "vitest run", "unit": "jest", "preunit": "tsc", "x": "a && b"}}"#;
        for (line, tool) in [
            ("npm test --silent", CheckTool::Vitest),
            ("yarn test", CheckTool::Vitest),
            ("npm run unit", CheckTool::Other),
            ("npm run x", CheckTool::Other),
            ("npm run none", CheckTool::Other),
            ("cargo test", CheckTool::CargoTest),
        ] {
            assert_eq!(tool_in(line, Some(package)), tool, "{line}");
        }
        assert_eq!(tool_in("npm test", None), CheckTool::Other);
    }
}
