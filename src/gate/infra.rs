//! Signs that a gate could not run, which is nobody's failure.
//!
//! A candidate could write these words itself, and gains nothing: `Infra` is never a pass.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::protect::root;
use crate::model::BaseComparison;

/// Who asked for what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The base, or base and candidate alike.
    Base,
    /// The candidate: the base has all that it needs.
    Candidate,
}

/// How a package manager gets what is missing: by hand, and in a setup command.
struct Fetch {
    by_hand: &'static str,
    setup: &'static str,
}

/// A dependency that is not there, with the command that fetches it; `None` when the output shows
/// none. Looked at only when the command failed.
pub fn missing_dependency(output: &str, asker: Asker) -> Option<String> {
    // What names the dependency comes before what only says that there is no network.
    const SIGNS: [(&str, &Fetch); 23] = [
        ("error: no matching package named", &CARGO),
        ("error: failed to download", &CARGO),
        ("error: failed to get `", &CARGO),
        ("error: failed to select a version for", &CARGO),
        ("attempting to make an HTTP request, but --offline was specified", &CARGO),
        ("you're using offline mode (--offline)", &CARGO),
        ("you are in the offline mode (--offline)", &CARGO),
        ("npm error code ENOTCACHED", &NPM),
        ("npm ERR! code ENOTCACHED", &NPM),
        ("npm error code ENOTFOUND", &NPM),
        ("ERR_PNPM_NO_OFFLINE_", &NPM),
        ("node_modules/.bin/tsc: not found", &NPM),
        ("node_modules/.bin/tsc: No such file", &NPM),
        ("npm error request to ", &NPM),
        ("This is not the tsc command you are looking for", &NPM),
        ("No module named pytest", &PIP),
        ("No module named mypy", &PIP),
        ("ERROR: No matching distribution found for", &PIP),
        ("No module named pyright", &PIP),
        ("cannot find module providing package", &GO),
        ("missing go.sum entry for module", &GO),
        ("module lookup disabled by GOPROXY=off", &GO),
        ("no required module provides package", &GO),
    ];
    let (sign, fetch) = SIGNS.iter().find(|(sign, _)| output.contains(sign))?;
    let line = output.lines().find(|line| line.contains(sign)).unwrap_or(sign).trim();
    let line: String = line.chars().take(160).collect();
    Some(match asker {
        Asker::Base => format!(
            "a dependency is missing and the sandbox has no network ({line}); {}, or give --setup {} with \
             setup_network = true",
            fetch.by_hand, fetch.setup
        ),
        // Setup runs on the base, so it can't fetch what only the candidate asks for.
        Asker::Candidate => format!(
            "it asks for a dependency that the base does not need and that is not on this machine ({line}); \
             with its diff applied, {}",
            fetch.by_hand
        ),
    })
}

const CARGO: Fetch =
    Fetch { by_hand: "fetch it with `cargo fetch` in your checkout", setup: "\"cargo fetch\"" };
const NPM: Fetch = Fetch {
    by_hand: "install it with `npm ci` in your checkout and carry = [\"node_modules\"]",
    setup: "\"npm ci\"",
};
const PIP: Fetch = Fetch {
    by_hand: "install it in your checkout's .venv and carry = [\".venv\"]",
    setup: "that installs it",
};
const GO: Fetch = Fetch {
    by_hand: "fetch it with `go mod download` in your checkout",
    setup: "\"go mod download\"",
};

/// A program that is not there: the shell's exit status 127 (not found) or 126 (can't be executed).
pub fn missing_tool(exit: Option<i32>, output: &str) -> Option<String> {
    let status = exit.filter(|status| matches!(status, 126 | 127))?;
    let line = output
        .lines()
        .rev()
        .find(|line| line.contains("not found") || line.contains("ermission denied"))
        .map(|line| line.trim().chars().take(160).collect::<String>())
        .unwrap_or_else(|| format!("exit status {status}"));
    Some(format!(
        "the command could not be started ({line}); install the tool, or name another command with --check or --test"
    ))
}

/// The system ended the command: SIGKILL without our asking is nearly always missing memory.
pub fn killed(exit: Option<i32>, signal: Option<i32>) -> Option<String> {
    (signal == Some(9) || exit == Some(137)).then(|| {
        "the system killed the command, most likely for want of memory; raise memory_mb or run fewer \
         gates at once (parallel = 1)"
            .to_owned()
    })
}

/// The machine ran out of disk or memory. The words are those of the system and of the runtimes, so that
/// a failing assertion seldom says them; who does gains nothing.
pub fn exhausted(output: &str) -> Option<String> {
    const DISK: [&str; 3] = ["No space left on device", "ENOSPC", "Disk quota exceeded"];
    const MEMORY: [&str; 6] = [
        "JavaScript heap out of memory",
        "fatal error: runtime: out of memory",
        "Cannot allocate memory",
        "LLVM ERROR: out of memory",
        "memory allocation of ",
        "std::bad_alloc",
    ];
    let says = |words: &[&str]| words.iter().any(|word| output.contains(word));
    if says(&DISK) {
        return Some("the disk is full; free some space (`bakeoff gc`)".to_owned());
    }
    says(&MEMORY).then(|| {
        "it ran out of memory; raise memory_mb or run fewer gates at once (parallel = 1)".to_owned()
    })
}

/// A package that the candidate's own manifest newly asks for, and that is not on this machine: by the
/// diagnostics of the type checkers and by what the runtimes say of a module.
pub fn new_dependency(
    run: &Outcome,
    comparison: &BaseComparison,
    dependencies: &BTreeSet<String>,
) -> Option<String> {
    const WORDS: [&str; 7] = [
        "Cannot find module '",
        "Cannot find package '",
        "Could not find a declaration file for module '",
        "No module named '",
        "module named \"",
        "Import \"",
        "Failed to resolve import \"",
    ];
    if dependencies.is_empty() {
        return None;
    }
    let named = |text: &str| {
        WORDS.iter().find_map(|word| {
            let (_, rest) = text.split_once(word)?;
            let module = rest.split(['\'', '"']).next()?;
            dependencies.contains(&root(module)).then(|| module.to_owned())
        })
    };
    let messages = comparison.new_failures.iter().map(|each| each.message.as_str());
    let module = messages.chain(run.output.lines()).find_map(named)?;
    let fetch = match run.output.contains("node_modules") || module.starts_with('@') {
        true => NPM.by_hand,
        false => "install it in your checkout (`npm install`, or pip in its .venv), and carry that",
    };
    Some(format!(
        "it asks for a dependency that the base does not need and that is not on this machine ({module}); \
         with its diff applied, {fetch}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from `cargo check` with `CARGO_NET_OFFLINE=true`.
    const CARGO_OFFLINE: &str = "error: failed to download `serde v1.0.5`\n\nCaused by:\n  attempting to make an HTTP request, but --offline was specified\n";

    #[test]
    fn a_missing_dependency_names_the_command_that_fetches_it() {
        let base = |output| missing_dependency(output, Asker::Base);
        assert!(base(CARGO_OFFLINE).is_some_and(|text| text.contains("cargo fetch")));
        let pytest = "/usr/bin/python3: No module named pytest";
        assert!(base(pytest).is_some_and(|text| text.contains(".venv")));
        assert_eq!(base("error[E0308]: mismatched types"), None);
    }

    /// Recorded from `cargo check` on a diff that adds a package.
    const NEW_PACKAGE: &str = "error: no matching package named `syntect` found\nlocation searched: \
        crates.io index\nAs a reminder, you're using offline mode (--offline) which can sometimes cause \
        surprising resolution failures.\n";

    #[test]
    fn a_candidates_own_dependency_is_named_and_setup_is_not_advised() {
        let text = missing_dependency(NEW_PACKAGE, Asker::Candidate).unwrap();
        assert!(text.contains("`syntect`") && text.contains("with its diff applied"), "{text}");
        assert!(!text.contains("--setup") && !text.contains("reminder"), "{text}");
    }

    #[test]
    fn tells_a_missing_tool_from_a_failure() {
        let output = "sh: 1: mypy: not found";
        assert!(
            missing_tool(Some(127), output).is_some_and(|text| text.contains("mypy: not found"))
        );
        assert_eq!(missing_tool(Some(1), output), None);
        assert!(killed(Some(137), None).is_some() && killed(None, Some(9)).is_some());
        assert_eq!(killed(Some(1), None), None);
    }

    /// Recorded from each package manager without a network.
    #[test]
    fn what_each_package_manager_says_is_understood() {
        macro_rules! recorded {
            ($name:literal) => {
                include_str!(concat!("../../tests/fixtures/gate/", $name))
            };
        }
        for (output, fetch) in [
            (recorded!("cargo-1.95.0/offline.txt"), "cargo fetch"),
            (recorded!("cargo-1.95.0/offline_git.txt"), "cargo fetch"),
            (recorded!("npm-11.19.1/offline.txt"), "npm ci"),
            (recorded!("npm-11.19.1/npx.txt"), "npm ci"),
            (recorded!("tsc-7.0.2/missing.txt"), "npm ci"),
            (recorded!("pip-23.2.1/nopytest.txt"), ".venv"),
            (recorded!("pip-23.2.1/noindex.txt"), ".venv"),
            (recorded!("go-1.19.8/missing.txt"), "go mod download"),
            (recorded!("go-1.19.8/missing_required.txt"), "go mod download"),
        ] {
            let told = missing_dependency(output, Asker::Base).unwrap_or_default();
            assert!(told.contains(fetch), "{output}: {told}");
        }
        let tool = missing_tool(Some(127), recorded!("npm-11.19.1/notool.txt"));
        assert!(tool.is_some_and(|text| text.contains("vitest: not found")));
    }

    #[test]
    fn a_machine_that_is_full_is_told() {
        assert!(exhausted("error: No space left on device (os error 28)").is_some());
        assert!(
            exhausted("FATAL ERROR: Reached heap limit - JavaScript heap out of memory").is_some()
        );
        assert_eq!(exhausted("assertion failed"), None);
    }
}
