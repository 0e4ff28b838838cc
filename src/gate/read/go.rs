//! `go build`, `go vet` and `go test` (text or `-json`).

use serde_json::Value;

use super::{Reading, diagnostic};
use crate::model::Diagnostic;

/// `./calc.go:4:9: cannot use …`; vet puts `vet: ` before some.
pub fn read_build(output: &str) -> Reading {
    Reading { errors: build_errors(output.lines()), ..Reading::default() }
}

/// What `go` says of an import whose module is not there.
const MISSING: [&str; 5] = [
    "cannot find module providing package",
    "no required module provides package",
    "missing go.sum entry",
    "module lookup disabled by GOPROXY=off",
    "cannot find package",
];

fn build_errors<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Diagnostic> {
    lines.filter_map(place).map(|(path, at, message)| diagnostic("", path, at, message)).collect()
}

/// `path.go:4:9: message`, the column being optional.
fn place(line: &str) -> Option<(&str, u32, &str)> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let line = line.strip_prefix("vet: ").unwrap_or(line);
    let (path, rest) = line.split_once(".go:")?;
    let (at, rest) = rest.split_once(':')?;
    let message = match rest.split_once(": ") {
        Some((column, message)) if column.chars().all(|c| c.is_ascii_digit()) => message,
        _ => rest.trim_start(),
    };
    let path = &line[..path.len() + 3];
    // A module that is not on this machine is no error in the code.
    let is_missing = MISSING.iter().any(|words| message.starts_with(words));
    (!path.contains(char::is_whitespace) && !is_missing).then_some(())?;
    Some((path, at.parse().ok()?, message))
}

/// Reads `go test`, in JSON or in text.
pub fn read_test(output: &str) -> Reading {
    let is_event = |line: &&str| line.starts_with('{') && line.contains("\"Action\"");
    let events: Vec<Value> = output
        .lines()
        .filter(is_event)
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if events.is_empty() { from_text(output) } else { from_events(output, &events) }
}

fn from_events(output: &str, events: &[Value]) -> Reading {
    let shown: String = output
        .lines()
        .filter(|line| !line.starts_with('{'))
        .map(|line| format!("{line}\n"))
        .chain(events.iter().filter_map(|event| event["Output"].as_str().map(str::to_owned)))
        .collect();
    let mut reading = Reading { errors: build_errors(shown.lines()), ..Reading::default() };
    for event in events {
        let package = event["Package"].as_str().unwrap_or("");
        match (event["Action"].as_str(), event["Test"].as_str()) {
            (Some("pass"), Some(test)) => reading.pass(format!("{package}.{test}")),
            (Some("fail"), Some(test)) => {
                reading.fail(&format!("{package}.{test}"), package, "test failed");
            }
            (Some("fail"), None) => {
                reading.errors.push(diagnostic("", package, 0, "package failed"));
            }
            _ => {}
        }
    }
    reading.shown = Some(shown);
    reading
}

/// `--- FAIL: TestAdd (0.00s)`, then `FAIL\texample/pkg\t0.002s`, which names the package.
fn from_text(output: &str) -> Reading {
    let mut reading = Reading { errors: build_errors(output.lines()), ..Reading::default() };
    let (mut failed, mut passed) = (Vec::new(), Vec::new());
    for line in output.lines() {
        let trimmed = line.trim_start();
        if let Some(name) = outcome(trimmed, "--- FAIL: ") {
            failed.push(name);
        } else if let Some(name) = outcome(trimmed, "--- PASS: ") {
            passed.push(name);
        } else if let Some((word, rest)) = line.split_once('\t') {
            let package = rest.split('\t').next().unwrap_or("").split(' ').next().unwrap_or("");
            for name in passed.drain(..) {
                reading.pass(format!("{package}.{name}"));
            }
            for name in failed.drain(..) {
                reading.fail(&format!("{package}.{name}"), package, "test failed");
            }
            if word.trim() == "FAIL" {
                reading.errors.push(diagnostic("", package, 0, "package failed"));
            }
        }
    }
    reading
}

fn outcome<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.strip_prefix(word)?.split(" (").next()
}
