//! The commented `bakeoff.toml` that `init` writes.

/// A starter file for a repository in which these commands were found. It sets only what was found;
/// everything else stands there as a comment with its default.
pub fn starter(check: Option<&str>, test: Option<&str>) -> String {
    let line = |key: &str, found: Option<&str>, example: &str| match found {
        Some(command) => format!("{key} = {}", toml::Value::String(command.to_owned())),
        None => format!("# {key} = {example:?}"),
    };
    format!(
        "{HEAD}\n{}\n\n{TEST_NOTE}\n{}\n{REST}",
        line("check", check, "make typecheck"),
        line("test", test, "make test"),
    )
}

const HEAD: &str = r#"# How bakeoff proves and picks changes to this repository. Every key is optional.
# A run reads this file from its base commit, never from the working tree or a candidate.

[gates]
# The typecheck: every candidate has to pass it, in a sandbox without a network."#;

const TEST_NOTE: &str =
    "# The tests: run after the typecheck. What failed before is told from what a candidate broke.";

const REST: &str = r#"
# Runs once on the base, before its gates (for example to build what the gates need).
# setup = "npm ci --offline"

# The package of a monorepo in which the gates run.
# dir = "packages/core"

# Seconds that one command may take.
# timeout_seconds = 600

# Ignored directories of your checkout that the gates need, carried along as snapshots.
# carry = ["node_modules"]

# Failed tests are run again up to this many times; what passes then is told as flaky.
# flaky = 2

# Errors that are only in test targets fail the typecheck, too (Cargo).
# strict_tests = true

# The tests that a candidate adds or changes are not run apart.
# own_tests = false

# Further paths that come from the base while the gates run.
# protect = ["**/Cargo.lock"]

# The keys below need `bakeoff trust` (or belong in your own config.toml): they use your machine,
# your money, your network or your environment.
# setup_network = true
# env = ["DATABASE_URL"]
# parallel = 2
# memory_mb = 8192
# disk_mb = 32768

# Symbolic links, submodules and binary contents in diffs are refused unless allowed here.
# [patch]
# links = false
# submodules = false
# binary = false
# max_mb = 8
# max_lines = 50000

# [lanes.fast]
# model = "openai:MODEL"
# attempts = 3
# fallback = ["ollama:MODEL"]
# turns = 40            # of each of its workers, in place of [limits]
# tokens = 200000
# seconds = 600
# budget_usd = 0.5

# [judges]
# enabled = true
# finalists = 4
# skeptics = true
# fix_rounds = 1

# Tests that a model writes to tell close finalists apart; {path} stands for the test's files.
# [duels]
# most = 1
# model = "openai:MODEL"
# runs = 3
# command = "python3 -m pytest {path}"

# A plan for all workers, made by one call before they begin.
# [design]
# enabled = true
# model = "openai:MODEL"

# [limits]
# max_parallel = 4
# enough = 2            # end the workers as soon as so many candidates pass
# budget_usd = 5.0
# max_tokens = 2000000  # of the whole run; stands in for a price that is not known
# max_turns = 300       # of all workers together
# max_seconds = 3600
# max_tool_iterations = 90
# max_turn_seconds = 900
# lane_budget_usd = 1.0
# lane_tokens = 500000

# A model that names runs and sums them up, and how many earlier runs workers are told of.
# [side]
# model = "small:MODEL"
# shared_endpoint = false
# prior = 3

# What workers may start: with sandbox = "strict" no model runs code (gates do). A candidate that fails a
# gate goes back to its worker heal_rounds times (0: never), within the worker's limits.
# [workers]
# sandbox = "standard"
# job_seconds = 1800
# subtasks = 4
# subtask_depth = 1
# subtask_turns = 30
# heal_rounds = 1

# How many ancestors of the base `git log` shows in a workspace.
# [workspace]
# history = 50

# [providers.local]
# wire = "openai-chat"
# base_url = "http://127.0.0.1:8000/v1"
# key_env = ""
# headers = { x-team = "$TEAM_TOKEN" }
# deadlines = { first_byte = 900 }

# [tools]
# grep = false
"#;
