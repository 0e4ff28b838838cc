//! Rules of the repository itself: ranks of the modules, sizes of the files, who may do what.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails may panic, and helpers of tests are no test functions"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module and the rank that it stands in; it may use lower ranks and `model` only.
const RANKS: [(&str, u32); 27] = [
    ("model", 0),
    ("fence", 0),
    ("config", 1),
    ("patch", 1),
    ("prompt", 1),
    ("provider", 1),
    ("journal", 1),
    ("sandbox", 2),
    ("jobs", 3),
    ("repo", 3),
    ("tools", 4),
    ("gate", 4),
    ("select", 4),
    ("worker", 5),
    ("judge", 5),
    ("synth", 6),
    ("fanout", 6),
    ("pipeline", 7),
    ("control", 7),
    ("report", 8),
    ("eval", 8),
    ("ui", 8),
    ("selftest", 8),
    ("cli", 9),
    ("main", 10),
    ("lib", 10),
    ("demo", 8),
];

/// What must not stand in a module's code, by rule: (modules, needle, why).
const NEVER: &[(&[&str], &str, &str)] = &[
    (&["model", "fence"], "std::fs", "model and fence do no IO"),
    (&["model", "fence"], "tokio", "model and fence know no runtime"),
    (&["model", "fence", "config"], "clap", "only cli parses command lines"),
    (&["patch", "select", "fence", "model"], "git2", "pure modules know no git"),
    (
        &["patch", "provider", "prompt", "judge", "synth", "worker", "cli"],
        "std::process::Command",
        "only sandbox starts processes",
    ),
    (&["worker", "judge", "synth", "fanout", "select", "cli"], "git2", "git lives in repo"),
    (
        &["gate", "tools", "repo", "sandbox", "select", "cli"],
        "reqwest",
        "the wire lives in provider",
    ),
    (&["gate", "select", "repo", "sandbox", "jobs", "tools"], "crate::provider", "no models there"),
    (&["judge", "select"], "std::fs", "judge and select read no files"),
    (&["tools"], "current_dir", "a tool never uses the process's own directory (contract C4)"),
];

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 50, "the walk found too little");
    found
}

fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
}

fn module_of(path: &Path) -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let first = path.strip_prefix(src).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// The file without its test modules and without comments.
fn code_of(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            // A file's tests stand last; a test-only item before them ends at its closing brace.
            if lines
                .peek()
                .is_some_and(|next| next.trim_start().starts_with("mod ") && !next.ends_with(';'))
            {
                break;
            }
            continue;
        }
        if !line.trim_start().starts_with("//") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    ["tests.rs", "testing.rs"].contains(&name)
        || name.ends_with("_tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn every_module_uses_only_lower_ranks() {
    let ranks: BTreeMap<_, _> = RANKS.into_iter().collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if is_test_file(&path) {
            continue;
        }
        let module = module_of(&path);
        let rank = *ranks.get(module.as_str()).unwrap_or_else(|| panic!("{module} has no rank"));
        for used in used_modules(&code_of(&text)) {
            let Some(other) = ranks.get(used.as_str()) else { continue };
            let prompt_uses_fence = used == "model" || used == module;
            if !prompt_uses_fence && *other >= rank {
                wrong.push(format!("{} (rank {rank}) uses {used} (rank {other})", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn used_modules(code: &str) -> Vec<String> {
    let name = |rest: &str| {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let mut used: Vec<_> = code.split("crate::").skip(1).map(name).collect();
    for group in code.split("crate::{").skip(1) {
        let body = group.split("};").next().unwrap_or_default();
        used.extend(body.split(',').map(|part| name(part.trim())));
    }
    used
}

#[test]
fn what_a_module_may_never_do() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let (module, code) = (module_of(&path), code_of(&text));
        for (modules, needle, why) in NEVER {
            if !is_test_file(&path) && modules.contains(&module.as_str()) && code.contains(needle) {
                wrong.push(format!("{}: {needle}: {why}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_sandbox_starts_processes() {
    for (path, text) in sources() {
        let code = code_of(&text);
        let starts = ["Command::new", "libc::fork", "execve", "posix_spawn"]
            .iter()
            .any(|needle| code.contains(needle) && !code.contains("clap::Command"));
        assert!(!starts || module_of(&path) == "sandbox", "{} starts a process", path.display());
    }
}

#[test]
fn only_the_outer_modules_print() {
    for (path, text) in sources() {
        if is_test_file(&path) {
            continue;
        }
        let code = code_of(&text);
        let prints = ["println!", "eprintln!", "print!(", "std::io::stdout", "io::stderr"]
            .iter()
            .any(|needle| code.contains(needle));
        let may = ["main", "cli", "ui", "report"].contains(&module_of(&path).as_str());
        // The warden's own process has no engine to report to before its first message.
        let warden = path.components().any(|part| part.as_os_str() == "sandbox");
        assert!(!prints || may || warden, "{} prints", path.display());
    }
}

#[test]
fn files_stay_small_and_say_what_they_are() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if is_test_file(&path) {
            continue;
        }
        let lines = code_of(&text).lines().count();
        if lines > 500 {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{}: no header", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let main =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).unwrap();
    assert!(main.lines().count() < 60, "main.rs is too long");
}

#[test]
fn the_lock_file_holds_at_most_300_packages() {
    let lock =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    let count = lock.matches("[[package]]").count();
    assert!(count <= 300, "{count} packages");
}

// contract R4
#[test]
fn nobody_but_its_makers_knows_what_kind_a_live_thing_is() {
    // The model makes cards of workers and jobs; whoever shows or stops one has its label and its handle.
    let all = sources().into_iter().filter(|(path, _)| !is_test_file(path));
    let knows = all.filter(|(_, text)| code_of(text).contains("CardKind::"));
    let modules: BTreeSet<String> = knows.map(|(path, _)| module_of(&path)).collect();
    let outer = ["control", "ui", "report", "cli", "pipeline", "worker"];
    assert!(outer.iter().all(|module| !modules.contains(*module)), "{modules:?}");
}

// contract C26 together: who can make a word of the operator's
#[test]
fn only_the_socket_makes_a_sender() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test_file(path)) {
        let makes = code_of(&text).contains("of_peer(");
        let may = path.ends_with("control/peer.rs") || path.ends_with("model/steer.rs");
        assert_eq!(makes, may, "{}", path.display());
    }
}

/// Words by which a job is started, outside of the sandbox itself.
const STARTS: [&str; 6] = [
    "launch.run(",
    "launcher.run(",
    ".start_live(",
    ".start_open(",
    "table.start(",
    "Engine::start(program",
];

/// Who starts jobs, with which of those words, and what runs there. Nobody else does.
const STARTERS: [(&str, &str, &str); 13] = [
    (
        "gate/keeper/launch.rs",
        "launch.run(",
        "gates, setup and duels' tests: the operator's commands on a model's code",
    ),
    ("tools/code_execution/mod.rs", ".start_live(", "a model's snippet"),
    (
        "tools/run_bash.rs",
        "launch.run(",
        "a program of the allow-list, none of which interprets anything",
    ),
    ("tools/run_bash.rs", "table.start(", "the same in the background"),
    ("tools/staged.rs", "launch.run(", "what run_bash gives it, and takes over what git staged"),
    ("tools/staged.rs", ".start_live(", "the same in the background"),
    ("jobs/table.rs", ".start_open(", "what the two below and the one above start"),
    ("jobs/table.rs", ".start_live(", "the same"),
    (
        "jobs/host.rs",
        ".start_open(",
        "the operator's own command, in the place that is the operator's",
    ),
    ("pipeline/git.rs", "launch.run(", "`git --version`, of the git that is tried"),
    ("pipeline/python.rs", "launch.run(", "a line of the engine's, in the Python that is tried"),
    ("pipeline/checkup.rs", ".start_live(", "the doctor's own line, in the terminal that is tried"),
    ("selftest/crash.rs", "Engine::start(program", "this program itself, to be killed"),
];

// contract C14 together: nobody else starts a job, so that a model's code runs nowhere else
#[test]
fn what_runs_is_started_in_these_places_and_nowhere_else() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test_file(path)) {
        // The sandbox's own probes attack with a program of the engine's.
        if module_of(&path) == "sandbox" {
            continue;
        }
        let (code, place) = (joined(&code_of(&text)), path.strip_prefix(&src).unwrap().to_owned());
        let starts = STARTS.iter().filter(|word| code.contains(**word));
        found.extend(starts.map(|word| (place.to_str().unwrap().to_owned(), (*word).to_owned())));
    }
    let known: BTreeSet<(String, String)> =
        STARTERS.iter().map(|(place, word, _)| ((*place).to_owned(), (*word).to_owned())).collect();
    assert_eq!(found, known);
}

/// Code in which a call stands in one piece, wherever its lines were broken.
fn joined(code: &str) -> String {
    code.lines().map(str::trim_start).fold(String::new(), |text, line| {
        match line.starts_with('.') {
            true => text + line,
            false => text + "\n" + line,
        }
    })
}

/// Who may hold what starts jobs: whoever passes it on to the places above. A further one has to be looked at.
const HOLDERS: [&str; 16] = [
    "cli/selftest.rs",
    "cli/tool.rs",
    "gate/keeper.rs",
    "jobs/host.rs",
    "jobs/scope.rs",
    "jobs/table.rs",
    "pipeline/assemble.rs",
    "pipeline/checkup.rs",
    "pipeline/git.rs",
    "pipeline/python.rs",
    "pipeline/work.rs",
    "selftest/canaries.rs",
    "tools/code_execution/mod.rs",
    "tools/mod.rs",
    "tools/run_bash.rs",
    "tools/staged.rs",
];

// contract C14 together: under no other name is a job started either
#[test]
fn what_starts_jobs_is_held_in_few_hands() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test_file(path)) {
        let code = code_of(&text);
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let holds = words.any(|word| ["Launch", "Launcher"].contains(&word));
        if holds && module_of(&path) != "sandbox" && !path.ends_with("tools/testing.rs") {
            found.insert(path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned());
        }
    }
    let strangers: Vec<&String> =
        found.iter().filter(|path| !HOLDERS.contains(&path.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

// contract C26 together: who can make a task
#[test]
fn only_the_command_line_makes_a_task() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test_file(path)) {
        let code = code_of(&text);
        // A task says where it is from, and only with that can it be made.
        let makes = code.contains("TaskSource::");
        let may = ["cli/task.rs", "cli/scenario.rs", "model/task.rs"].iter();
        assert!(!makes || may.into_iter().any(|file| path.ends_with(file)), "{}", path.display());
    }
}
