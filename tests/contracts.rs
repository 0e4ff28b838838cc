//! `docs/contracts.md` is true: every row names the tests that say they prove it, or is open.
//!
//! A test says so by a comment `// contract C6` (or `// contract C6, C7`) above its function, or
//! `// contract C10 in part` when a part of the row is still open, or `// contract R22 together` when other
//! tests prove the rest of it.
//! `BAKEOFF_BLESS=1 cargo test --test contracts` writes the table anew.
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Contract id to the tests that claim it, as `path::function`.
fn claims() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    rust_files(&root().join("tests"), &mut files);
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.ends_with("tests/contracts.rs")) {
        let text = fs::read_to_string(file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(ids) = claimed(line) else { continue };
            // The comment stands above its test, or in the test's body; a proptest has no attribute.
            let above = |line: usize| lines[..line].iter().rev().take(4).any(|line| is_test(line));
            let below = (at..lines.len()).take(8).find(|line| function(lines[*line]).is_some());
            let inside = (0..at).rev().find(|line| function(lines[*line]).is_some());
            let found = [below, inside].into_iter().flatten().find(|line| {
                above(*line) || lines[..*line].iter().rev().any(|line| line.contains("proptest! {"))
            });
            let found = found
                .unwrap_or_else(|| panic!("{}:{}: claimed by no test", file.display(), at + 1));
            let name = function(lines[found]).unwrap();
            let place = file.strip_prefix(root()).unwrap().display();
            let part = match line {
                line if line.contains(" in part") => "in part ",
                line if line.contains(" together") => "together ",
                _ => "",
            };
            for id in ids {
                claims.entry(id).or_default().insert(format!("{part}`{place}::{name}`"));
            }
        }
    }
    claims
}

/// The ids that a comment claims.
fn claimed(line: &str) -> Option<Vec<String>> {
    let rest = line.trim_start().strip_prefix("// contract ")?;
    let ids: Vec<_> = rest
        .split([',', ' ', ';', ':', '.'])
        .take_while(|word| word.is_empty() || is_id(word))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    (!ids.is_empty()).then_some(ids)
}

fn is_id(word: &str) -> bool {
    is_own_row(word)
        || (word.starts_with(['C', 'S', 'R'])
            && word.len() > 1
            && word[1..].chars().all(|c| c.is_ascii_digit()))
}

/// The rows of a part of a run (contract C33): its name and a number.
fn is_own_row(word: &str) -> bool {
    let number = word.strip_prefix("C33-").and_then(|rest| rest.rsplit_once('-'));
    number.is_some_and(|(part, number)| !part.is_empty() && number.parse::<u32>().is_ok())
}

/// The parts that contract C33 names, as their rows call them.
const PARTS: [&str; 15] = [
    "loop", "fan-out", "delegate", "trust", "mcp", "bus", "board", "memory", "prior", "capsule",
    "heal", "fix", "skeptic", "synth", "design",
];

/// What the row of C33 says: each part has rows, and which of them are open.
fn of_parts(ids: &[String], claims: &BTreeMap<String, BTreeSet<String>>) -> String {
    let rows = |part: &str| -> Vec<&String> {
        let own = format!("C33-{part}-");
        ids.iter().filter(|id| id.starts_with(&own)).collect()
    };
    for part in PARTS {
        assert!(!rows(part).is_empty(), "contract C33: {part} has no row of its own");
    }
    let is_open = |part: &&str| rows(part).iter().any(|id| !claims.contains_key(*id));
    let open: Vec<&str> = PARTS.into_iter().filter(is_open).collect();
    format!("the rows of [its parts](#the-parts-of-a-run); open: {}", open.join(", "))
}

fn is_test(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

fn function(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "))?;
    Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

#[test]
fn the_table_of_contracts_is_true() {
    let path = root().join("docs/contracts.md");
    let text = fs::read_to_string(&path).unwrap();
    let mut claims = claims();
    let ids = text.lines().filter_map(|line| line.split('|').nth(1));
    let ids: Vec<String> = ids.map(|id| id.trim().to_owned()).filter(|id| is_id(id)).collect();
    let parts = of_parts(&ids, &claims);
    let mut rows = 0;
    let rendered: Vec<String> = text
        .lines()
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, id, what, _, _] = cells.as_slice() else { return line.to_owned() };
            if !is_id(id) {
                return line.to_owned();
            }
            rows += usize::from(!is_own_row(id));
            if *id == "C33" {
                return format!("| {id} | {what} | {parts} |");
            }
            let partly = |tests: &&BTreeSet<String>| {
                tests.iter().filter(|test| test.starts_with("together ")).count() == 1
            };
            assert!(claims.get(*id).filter(partly).is_none(), "{id}: together with what?");
            let tests =
                claims.remove(*id).map(|tests| tests.into_iter().collect::<Vec<_>>().join(", "));
            format!("| {id} | {what} | {} |", tests.as_deref().unwrap_or("open"))
        })
        .collect();
    assert_eq!(rows, 33 + 13 + 37, "every contract has a row");
    assert!(claims.is_empty(), "claims of unknown contracts: {claims:?}");
    let rendered = rendered.join("\n") + "\n";
    if std::env::var_os("BAKEOFF_BLESS").is_some() {
        fs::write(&path, &rendered).unwrap();
    }
    assert!(
        text == rendered || std::env::var_os("BAKEOFF_BLESS").is_some(),
        "docs/contracts.md is not true any more: run BAKEOFF_BLESS=1 cargo test --test contracts"
    );
}
