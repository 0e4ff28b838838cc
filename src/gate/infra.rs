//! Signs that a gate could not run, which is nobody's failure.
//!
//! A candidate could write these words itself, and gains nothing: `Infra` is never a pass.

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
    const SIGNS: [(&str, &Fetch); 18] = [
        ("error: no matching package named", &CARGO),
        ("error: failed to download", &CARGO),
        ("error: failed to get `", &CARGO),
        ("error: failed to select a version for", &CARGO),
        ("attempting to make an HTTP request, but --offline was specified", &CARGO),
        ("you're using offline mode (--offline)", &CARGO),
        ("npm error code ENOTCACHED", &NPM),
        ("npm ERR! code ENOTCACHED", &NPM),
        ("npm error code ENOTFOUND", &NPM),
        ("ERR_PNPM_NO_OFFLINE_", &NPM),
        ("node_modules/.bin/tsc: not found", &NPM),
        ("node_modules/.bin/tsc: No such file", &NPM),
        ("This is not the tsc command you are looking for", &NPM),
        ("No module named pytest", &PIP),
        ("No module named mypy", &PIP),
        ("ERROR: No matching distribution found for", &PIP),
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
}
