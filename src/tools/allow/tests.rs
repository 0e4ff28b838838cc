//! The rows of the corpora, as far as text alone decides, and the rules one by one.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::tools::files::RelPath;

fn check_row(row: &Value) -> Result<Allowed, String> {
    let top = RelPath::top();
    let place = Place { base: Path::new("/work/space"), cwd: &top };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match &row["argv_or_line"] {
        Value::String(line) => check_line(line, &place),
        Value::Array(words) => check_words(&words.iter().map(text).collect::<Vec<_>>(), &place),
        _ => check_line(row["line"].as_str().unwrap(), &place),
    }
}

fn rows(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/allowlist").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn line(line: &str) -> Result<Allowed, String> {
    check_row(&serde_json::json!({ "argv_or_line": line }))
}

// contract C12
#[test]
fn every_hostile_row_is_rejected() {
    let accepted: Vec<_> = rows("hostile.jsonl")
        .iter()
        .filter(|row| check_row(row).is_ok())
        .map(ToString::to_string)
        .collect();
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

// contract C12
#[test]
fn every_legitimate_row_is_accepted() {
    for name in ["legit.jsonl", "hostile_repository.jsonl"] {
        let rejected: Vec<_> = rows(name)
            .iter()
            .filter_map(|row| check_row(row).err().map(|why| format!("{row}: {why}")))
            .collect();
        assert!(rejected.is_empty(), "{}", rejected.join("\n"));
    }
}
