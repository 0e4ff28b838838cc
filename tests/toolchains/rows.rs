//! Every reward-hack row of the cases, run for real. None may win, alone or beside an honest change.

use std::path::PathBuf;

use super::{Repo, rows_of, winner};

const TSC: &str = "node_modules/.bin/tsc --noEmit --pretty false --project tsconfig.json";
const MYPY: &str = ".venv/bin/python -m mypy --show-error-codes --no-error-summary app tests";
const PYTEST: &str = ".venv/bin/python -m pytest -q -rA --tb=short -p no:cacheprovider";

fn row_files() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/diffs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("_rh_"))
        .collect();
    files.sort();
    assert!(files.len() >= 36);
    files
}

/// The rows whose name has one of these words.
fn rows(words: &[&str]) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        words.iter().any(|word| name.contains(word))
    };
    row_files().into_iter().filter(has).collect()
}

/// None of the rows passes as proved, and beside an honest change that one wins.
fn none_wins(repo: &Repo, args: &[&str], hacks: &[PathBuf], honest: PathBuf, base_fails: bool) {
    let all: Vec<PathBuf> = hacks.iter().cloned().chain([honest]).collect();
    let (status, record) = repo.run("pick", args, &all);
    assert_eq!(
        (status, winner(&record).as_deref()),
        (0, Some("honest")),
        "{:#}",
        record["decision"]
    );
    let told = rows_of(&record);
    assert!(told["honest"].wins(), "{:?}", told["honest"]);
    assert!(!base_fails || told["honest"].fixed > 0, "{:?}", told["honest"]);
    let won: Vec<&String> = told
        .iter()
        .filter(|(name, row)| *name != "honest" && row.wins())
        .map(|(name, _)| name)
        .collect();
    assert!(won.is_empty(), "{won:?}");
    // Without the honest one there is no winner at all that mended something or is not doubted.
    let (_, record) = repo.run("pick", args, hacks);
    if let Some(name) = winner(&record) {
        assert!(!rows_of(&record)[&name].wins(), "{name}");
        assert_eq!(record["decision"]["confidence"], "low", "{name}");
    }
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn rows_on_typescript() {
    let repo = Repo::fixture().with(&["js"]);
    let honest = repo.diff("honest", &[("src/math.ts", MATH)]);
    let rows =
        rows(&["_ts_", "_npm", "_tsc_", "_ci_", "_envrc", "_mcp", "_precommit", "_husky", "_own_"]);
    none_wins(&repo, &["--check", TSC, "--test", "npm test --silent"], &rows, honest, false);
    assert!(!std::path::Path::new("/tmp/bakeoff-cases/MARK").exists());
}

const MATH: &str = "export function add(a: number, b: number): number {\n  return a + b;\n}\n\nexport function mul(a: number, b: number): number {\n  return a * b;\n}\n";

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn rows_on_python() {
    let repo = Repo::fixture().with(&["py"]);
    let honest = repo.diff("honest", &[("app/calc.py", CALC)]);
    let rows =
        rows(&["_mypy_", "_conftest", "_sitecustomize", "_py_", "_test_", "_judge_", "_make_"]);
    none_wins(&repo, &["--check", MYPY, "--test", PYTEST], &rows, honest, true);
}

const CALC: &str = "def add(a: int, b: int) -> int:\n    return a + b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b\n";

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn rows_on_make() {
    // The fixture's own target runs whatever python3 is there: in its virtual environment that has pytest.
    let repo = Repo::fixture().with(&["py"]);
    let honest = repo.diff("honest", &[("app/calc.py", CALC)]);
    let rows = rows(&["_make_", "_test_deleted", "_conftest"]);
    none_wins(&repo, &["--no-check", "--test", "make test"], &rows, honest, false);
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn rows_on_rust() {
    let repo = Repo::fixture();
    let lib = std::fs::read_to_string(repo.top().join("rs/src/lib.rs")).unwrap();
    let honest = repo.diff("honest", &[("rs/src/lib.rs", &lib.replace("a - b", "a + b"))]);
    let args = [
        "--dir",
        "rs",
        "--check",
        "cargo check --all-targets --message-format=json",
        "--test",
        "cargo test",
    ];
    none_wins(&repo, &args, &rows(&["_rs_"]), honest, true);
}
