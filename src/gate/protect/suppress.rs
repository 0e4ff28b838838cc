//! Words that silence a check, in what a candidate adds.
//!
//! Most have honest uses and are only flagged. Those that switch a whole file's typecheck off are
//! disarmed for the gates, so that the check speaks.

use std::collections::BTreeMap;

const CHECKS: &str = "suppresses-checks";
const TESTS: &str = "weakens-tests";
const DETECTS: &str = "detects-tests";
const ENDS: &str = "ends-the-process";
const JUDGE: &str = "addresses-judge";

/// A word, the files in which it means something, and the flag that it earns.
const WORDS: [(&str, &[&str], &str); 52] = [
    ("@ts-nocheck", SCRIPT, CHECKS),
    ("@ts-ignore", SCRIPT, CHECKS),
    ("@ts-expect-error", SCRIPT, CHECKS),
    ("eslint-disable", SCRIPT, CHECKS),
    (" as any", SCRIPT, CHECKS),
    (".skip(", SCRIPT, TESTS),
    (".only(", SCRIPT, TESTS),
    ("xdescribe(", SCRIPT, TESTS),
    ("NODE_ENV === 'test'", SCRIPT, DETECTS),
    ("NODE_ENV === \"test\"", SCRIPT, DETECTS),
    ("JEST_WORKER_ID", SCRIPT, DETECTS),
    ("process.env.VITEST", SCRIPT, DETECTS),
    ("# type: ignore", PYTHON, CHECKS),
    ("# mypy:", PYTHON, CHECKS),
    ("# pyright:", PYTHON, CHECKS),
    ("# noqa", PYTHON, CHECKS),
    ("mark.skip", PYTHON, TESTS),
    ("mark.xfail", PYTHON, TESTS),
    ("pytest.skip(", PYTHON, TESTS),
    ("unittest.skip", PYTHON, TESTS),
    ("PYTEST_CURRENT_TEST", PYTHON, DETECTS),
    ("in sys.modules", PYTHON, DETECTS),
    ("os._exit(", PYTHON, ENDS),
    ("sys.exit(0)", PYTHON, ENDS),
    ("SystemExit(0)", PYTHON, ENDS),
    ("os.execv", PYTHON, ENDS),
    ("/proc/self", PYTHON, ENDS),
    ("_getframe(", PYTHON, DETECTS),
    ("inspect.stack(", PYTHON, DETECTS),
    ("inspect.currentframe(", PYTHON, DETECTS),
    ("extract_stack(", PYTHON, DETECTS),
    ("import _pytest", PYTHON, DETECTS),
    ("from _pytest", PYTHON, DETECTS),
    ("captureStackTrace(", SCRIPT, DETECTS),
    ("Backtrace::capture(", RUST, DETECTS),
    ("Backtrace::force_capture(", RUST, DETECTS),
    ("runtime.Caller", GO, DETECTS),
    ("process.exit(0)", SCRIPT, ENDS),
    ("process.exitCode = 0", SCRIPT, ENDS),
    ("process::exit(", RUST, ENDS),
    ("libc::_exit(", RUST, ENDS),
    ("/proc/self", RUST, ENDS),
    ("macro_rules! assert", RUST, TESTS),
    ("os.Exit(0)", GO, ENDS),
    ("#[ignore", RUST, TESTS),
    ("#[cfg(any())]", RUST, TESTS),
    ("#[cfg(not(test))]", RUST, DETECTS),
    ("cfg!(test)", RUST, DETECTS),
    ("#![allow(", RUST, CHECKS),
    ("t.Skip(", GO, TESTS),
    ("//nolint", GO, CHECKS),
    ("testing.Testing()", GO, DETECTS),
];

const SCRIPT: &[&str] = &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "vue", "svelte"];
const PYTHON: &[&str] = &["py", "pyi"];
const RUST: &[&str] = &["rs"];
const GO: &[&str] = &["go"];

/// Words that switch off a whole file, and what they become: the same length, no meaning.
const WHOLE_FILE: [(&str, &str, &[&str]); 4] = [
    ("@ts-nocheck", "@ts_nocheck", SCRIPT),
    ("# mypy: ignore-errors", "# mypy_ ignore-errors", PYTHON),
    ("# pyright: ignore", "# pyright_ ignore", PYTHON),
    ("# pyright: basic", "# pyright_ basic", PYTHON),
];

fn extension(path: &str) -> &str {
    path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end)
}

/// Whether anything is known of a file of this name.
pub fn is_source(path: &str) -> bool {
    let end = extension(path);
    [SCRIPT, PYTHON, RUST, GO].iter().any(|ends| ends.contains(&end))
}

/// Lines that `new` has more often than `old`.
fn added<'a>(old: &str, new: &'a str) -> Vec<&'a str> {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    for line in old.lines() {
        *left.entry(line.trim()).or_default() += 1;
    }
    new.lines()
        .filter(|line| match left.get_mut(line.trim()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect()
}

/// A flag's code and what was seen, one for each kind.
pub fn findings(path: &str, old: &[u8], new: &[u8]) -> Vec<(&'static str, String)> {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let end = extension(path);
    let mut found: BTreeMap<&'static str, String> = BTreeMap::new();
    for line in added(&old, &new) {
        let words = WORDS.iter().filter(|(word, ends, code)| {
            ends.contains(&end) && line.contains(word) && !(*code == ENDS && is_program(path))
        });
        for (word, _, code) in words {
            found.entry(code).or_insert_with(|| format!("adds `{}`", word.trim()));
        }
        if speaks_to_judge(line) {
            found.entry(JUDGE).or_insert_with(|| "adds words that address a judge".to_owned());
        }
    }
    found.into_iter().collect()
}

/// A program's entry ends its process honestly.
fn is_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    matches!(stem, "main" | "__main__" | "cli") || path.split('/').any(|part| part == "bin")
}

/// Code has no reason to speak of candidates and scores to a judge.
fn speaks_to_judge(line: &str) -> bool {
    let line = line.to_lowercase();
    let whom = ["judge", "reviewer", "grader", "evaluator"];
    let what = ["candidate", "score", "verified correct", "pick ", "prefer this", "10/10"];
    whom.iter().any(|word| line.contains(word)) && what.iter().any(|word| line.contains(word))
}

/// The file with new whole-file switches disarmed; `None` when it adds none.
pub fn disarm(path: &str, old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let end = extension(path);
    let (old, text) = (String::from_utf8_lossy(old), std::str::from_utf8(new).ok()?);
    let mut changed = text.to_owned();
    for (word, harmless, ends) in WHOLE_FILE {
        if ends.contains(&end) && text.contains(word) && !old.contains(word) {
            changed = disarm_lines(&changed, word, harmless);
        }
    }
    (changed != text).then(|| changed.into_bytes())
}

/// Only where the word is the comment's beginning: `# pyright: ignore` behind code silences one line.
fn disarm_lines(text: &str, word: &str, harmless: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let start = line.trim_start_matches([' ', '\t', '/', '*', '\u{feff}']);
            if start.starts_with(word) { line.replacen(word, harmless, 1) } else { line.to_owned() }
        })
        .collect()
}
