//! A duel's test: what it may consist of, the trees that it runs on, and how a run of it ended.
//!
//! Its author is a model, so that it is held like a candidate: new files where the repository keeps its
//! tests, nothing else, and the command is the operator's. Pure but for the objects that it writes.
//! Never here: running anything, and what an end is worth.

use std::collections::{BTreeMap, BTreeSet};

use super::infra::{self, Asker};
use super::outcome::Outcome;
use super::protect::{self, Gated, tree};
use super::tool::tool_of;
use crate::model::{
    CandidateId, ChangeKind, CommandSpec, DuelResult, DuelRun, FileChange, Flag, GatePlan,
    TEST_PATH, TestEnd, TreeId,
};
use crate::patch::{StoreError, TreeStore};
use crate::sandbox::JobStatus;

/// The most files of a test.
const MOST_FILES: usize = 4;
/// The most bytes of all of them.
const MOST_BYTES: usize = 64 << 10;

/// A model's test may end its own runner, so that nothing is said of the machine.
const KILLED: &str = "the test's process was killed: by the test or the code that it tries, or by the system for want \
                      of memory (memory_mb)";

/// A test that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuelTest {
    /// The base with the test's files.
    pub tree: TreeId,
    /// Its files.
    pub files: Vec<String>,
    /// What runs it.
    pub command: CommandSpec,
    /// Whether the command runs this test alone.
    pub alone: bool,
}

/// Whether what was admitted against the base as `tree` may be a duel's test; else why not, in the
/// engine's words. `candidates` are the admitted trees of all finalists.
///
/// # Errors
/// When the store fails.
pub fn duel_test(
    store: &dyn TreeStore,
    (base, tree): (&TreeId, &TreeId),
    files: &[FileChange],
    candidates: &[TreeId],
    (plan, command): (&GatePlan, &CommandSpec),
) -> Result<Result<DuelTest, String>, StoreError> {
    let refused = |reason: &str| Ok(Err(reason.to_owned()));
    if files.is_empty() || files.iter().any(|file| file.change != ChangeKind::Added) {
        return refused("it does something else than adding files");
    }
    if files.len() > MOST_FILES {
        return refused("it adds more than 4 files");
    }
    if !files.iter().all(|file| is_plain(&file.path)) {
        return refused(
            "a path of it holds something else than letters, digits, `_`, `-`, `.` and `/`",
        );
    }
    let changes = tree::changes(store, base, tree)?;
    let mut bytes = 0;
    for leaf in changes.iter().filter_map(|change| change.now.as_ref()) {
        if !leaf.is_file() {
            return refused("it adds something that is no regular file");
        }
        bytes += store.blob(&leaf.id)?.len();
    }
    if bytes > MOST_BYTES {
        return refused("it is larger than 64 KiB");
    }
    // The same rules that say what of a candidate comes from the base while its gates run.
    let gated = protect::gated(store, base, tree, plan)?;
    let is_test = |file: &FileChange| is_kept_for_tests(&gated, &file.path);
    if !gated.restored.is_empty() || !files.iter().all(is_test) {
        return refused("a file of it defines a gate, or stands where no tests are kept");
    }
    for candidate in candidates {
        for change in &changes {
            if is_in_the_way(store, candidate, &change.path)? {
                return refused("a candidate has a file of that name");
            }
        }
    }
    Ok(command_of(command, files, &plan.dir).map(|(command, alone)| DuelTest {
        tree: tree.clone(),
        files: files.iter().map(|file| file.path.clone()).collect(),
        command,
        alone,
    }))
}

/// A word that a shell takes as it stands, and that no tool takes for an option.
fn is_plain(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    path.chars().all(plain) && path.split('/').all(|part| !part.starts_with(['-', '.']))
}

/// A test file by the gates' own rules, in whatever language it is written.
fn is_kept_for_tests(gated: &Gated, path: &str) -> bool {
    gated.tests.added.iter().any(|added| added == path) || protect::is_test_path(path)
}

/// Whether a tree has something at a path, or a file where the path has a directory.
fn is_in_the_way(store: &dyn TreeStore, of: &TreeId, path: &[u8]) -> Result<bool, StoreError> {
    let text = tree::lossy(path);
    let ends = text.match_indices('/').map(|(at, _)| at);
    for end in ends {
        if tree::text(store, of, &text[..end])?.is_some() {
            return Ok(true);
        }
    }
    tree::has(store, of, path)
}

/// The operator's command for these files, and whether it runs them alone.
fn command_of(
    command: &CommandSpec,
    files: &[FileChange],
    dir: &str,
) -> Result<(CommandSpec, bool), String> {
    if !command.line.contains(TEST_PATH) {
        return Ok((command.clone(), false));
    }
    let inner = |file: &FileChange| match dir {
        "" => Some(file.path.clone()),
        dir => file.path.strip_prefix(dir)?.strip_prefix('/').map(str::to_owned),
    };
    let inner: Option<Vec<String>> = files.iter().map(inner).collect();
    let inner =
        inner.ok_or_else(|| "a file of it stands outside of the gates' directory".to_owned())?;
    let line = command.line.replace(TEST_PATH, &inner.join(" "));
    let tool = tool_of(&line);
    Ok((CommandSpec { line, tool, origin: command.origin.clone() }, true))
}

/// A tree with the test's files put in. What `base` has at these paths does not matter: it has nothing.
///
/// # Errors
/// When the store fails.
pub fn with_test(
    store: &dyn TreeStore,
    base: &TreeId,
    test: &TreeId,
    into: &TreeId,
) -> Result<TreeId, StoreError> {
    let changes = tree::changes(store, base, test)?;
    let edits: BTreeMap<_, _> =
        changes.into_iter().map(|change| (change.path, change.now)).collect();
    tree::edit(store, into, &edits)
}

/// How one run of a test ended, against the tests that ran without it; the error says why it could not
/// run. `before` is the same tree's own run of the test command, if there is one.
pub fn end(
    run: &Outcome,
    before: Option<&Outcome>,
    alone: bool,
    lenient: bool,
) -> Result<TestEnd, String> {
    if let Some(reason) = could_not_run(run) {
        return Err(reason);
    }
    let known: BTreeSet<&str> =
        before.filter(|_| !alone).map(|before| before.ran().collect()).unwrap_or_default();
    let new: Vec<&str> =
        run.ran().filter(|name| !known.contains(name) && !name.starts_with("doc ")).collect();
    let old_error = |each: &crate::model::Diagnostic| {
        before.is_some_and(|before| !alone && before.reading.errors.contains(each))
    };
    let broken = run.reading.errors.iter().any(|each| !old_error(each)) || cannot_load(run);
    if broken {
        // The base may lack what both candidates add: that it can't be loaded there shows just that.
        return if lenient {
            Ok(TestEnd::Failed)
        } else {
            Err("it can't be loaded, or does not compile".to_owned())
        };
    }
    if new.iter().any(|name| run.fails(name)) {
        return Ok(TestEnd::Failed);
    }
    match (new.is_empty(), run.is_success()) {
        (false, true) => Ok(TestEnd::Passed),
        // What fails beside it, failed without it.
        (false, false)
            if run.reading.failed.iter().all(|each| known.contains(each.code.as_str()))
                && !run.reading.is_clean() =>
        {
            Ok(TestEnd::Passed)
        }
        (false, false) => Err("it ended badly although no test of it failed".to_owned()),
        (true, _) if names_tests(run, before.filter(|_| !alone)) || ran_none(run) => {
            Err("the command did not run it".to_owned())
        }
        // A runner that names nothing is known by its exit status alone.
        (true, success) if alone || before.is_some_and(Outcome::is_success) => {
            Ok(if success { TestEnd::Passed } else { TestEnd::Failed })
        }
        (true, _) => Err("the command names no tests, and fails without it, too".to_owned()),
    }
}

/// Whether the runner names its tests, so that one which ran would be seen. `before` is a run of the same
/// command: what another one names says nothing of this one.
fn names_tests(run: &Outcome, before: Option<&Outcome>) -> bool {
    !run.reading.passed.is_empty() || before.is_some_and(|before| !before.reading.passed.is_empty())
}

/// Whether the runner says itself that it ran no test.
fn ran_none(run: &Outcome) -> bool {
    run.is_success() && run.reading.count == Some(0)
}

fn could_not_run(run: &Outcome) -> Option<String> {
    match run.status {
        JobStatus::Exited(_) | JobStatus::Signalled(_) => {}
        _ => return Some(run.ending()),
    }
    if run.is_success() {
        return None;
    }
    infra::missing_tool(run.exit(), &run.output)
        .or_else(|| {
            infra::missing_dependency(&run.output, Asker::Candidate)
                .filter(|_| run.reading.is_clean())
        })
        .or_else(|| infra::exhausted(&run.output).filter(|_| run.reading.is_clean()))
        .or_else(|| infra::killed(run.exit(), run.signal()).map(|_| KILLED.to_owned()))
}

/// Words of runtimes and shells for a file that they can't read. A candidate that prints them gains
/// nothing: a void test changes nothing.
fn cannot_load(run: &Outcome) -> bool {
    const SIGNS: [&str; 16] = [
        "SyntaxError:",
        "IndentationError:",
        "TabError:",
        "ModuleNotFoundError:",
        "ImportError:",
        "Cannot find module '",
        "ERR_MODULE_NOT_FOUND",
        ": Syntax error:",
        ": syntax error ",
        "unexpected end of file",
        "[build failed]",
        "[setup failed]",
        "error: could not compile",
        "collected 0 items",
        "no tests ran",
        "NO TESTS RAN",
    ];
    !run.is_success() && SIGNS.iter().any(|sign| run.output.contains(sign))
}

/// What a duel's runs come to: the base's first, then those of each finalist. `flags` are those of a
/// candidate.
pub fn result<'f>(
    pair: &[CandidateId; 2],
    runs: &[DuelRun],
    flags: impl Fn(&CandidateId) -> &'f [Flag],
) -> DuelResult {
    match of_runs(pair, runs) {
        DuelResult::Told { passes, fails } => match tricky(flags(&passes)) {
            None => DuelResult::Told { passes, fails },
            Some(code) => DuelResult::Void {
                reason: format!(
                    "it passes on {passes} alone, which is flagged `{code}` and might have passed by that"
                ),
            },
        },
        other => other,
    }
}

/// A flag of code that can make a test pass because it is a test.
fn tricky(flags: &[Flag]) -> Option<&str> {
    const CODES: [&str; 4] =
        ["detects-tests", "ends-the-process", "fits-tests", "imitates-a-runner"];
    flags.iter().map(|flag| flag.code.as_str()).find(|code| CODES.contains(code))
}

fn of_runs(pair: &[CandidateId; 2], runs: &[DuelRun]) -> DuelResult {
    let void = |reason: String| DuelResult::Void { reason };
    let whose =
        |run: &DuelRun| run.candidate.as_ref().map_or("the base".to_owned(), ToString::to_string);
    for run in runs {
        if let Some(why) = &run.why {
            return void(format!("on {}: {why}", whose(run)));
        }
        if run.end().is_none() {
            return void(format!("its end differs from run to run on {}", whose(run)));
        }
    }
    let ends = || runs.iter().filter_map(DuelRun::end);
    if ends().all(|end| end == TestEnd::Passed) {
        return void(
            "it passes everywhere, the base included, so that it shows nothing".to_owned(),
        );
    }
    if ends().all(|end| end == TestEnd::Failed) {
        return void("it fails everywhere, so that it may be the test that is wrong".to_owned());
    }
    let on = |id: &CandidateId| {
        runs.iter().find(|run| run.candidate.as_ref() == Some(id)).and_then(DuelRun::end)
    };
    let [left, right] = pair;
    match (on(left), on(right)) {
        (Some(TestEnd::Passed), Some(TestEnd::Failed)) => {
            DuelResult::Told { passes: left.clone(), fails: right.clone() }
        }
        (Some(TestEnd::Failed), Some(TestEnd::Passed)) => {
            DuelResult::Told { passes: right.clone(), fails: left.clone() }
        }
        (Some(one), Some(other)) if one == other => {
            DuelResult::Alike { pass: one == TestEnd::Passed }
        }
        _ => void("it did not run on both of the pair".to_owned()),
    }
}

#[cfg(test)]
mod tests;
