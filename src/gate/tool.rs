//! Whose output a command line writes, guessed from its words.

use crate::model::CheckTool;

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
            ("", CheckTool::Other),
        ] {
            assert_eq!(tool_of(line), tool, "{line}");
        }
    }
}
