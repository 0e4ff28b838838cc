//! `cargo check`, `clippy` and `build`: `--message-format=json`, or the text for people.
//!
//! Cargo's JSON messages don't say whether a library was compiled for itself or for its own tests. The
//! closing lines on standard error do (`could not compile \`x\` (lib test)`): an error of a package
//! counts as one of its tests only when nothing but test targets of that package failed.

use serde_json::Value;

use super::{Reading, diagnostic};
use crate::model::Diagnostic;

/// Reads either form.
pub fn read(output: &str) -> Reading {
    let messages: Vec<Value> =
        output.lines().filter(|line| line.starts_with('{')).filter_map(parse).collect();
    let failed = failed_units(output);
    if messages.is_empty() {
        return from_text(output, &failed);
    }
    let mut reading = Reading { shown: Some(shown(output)), ..Reading::default() };
    for message in messages.iter().filter(|message| is_error(message)) {
        let package = package_of(message);
        let found = from_message(&message["message"]);
        match is_soft(&package, kind_of(message), &failed) {
            true => reading.soft.push(found),
            false => reading.errors.push(found),
        }
    }
    reading
}

fn parse(line: &str) -> Option<Value> {
    serde_json::from_str::<Value>(line).ok().filter(|value| value["reason"].is_string())
}

/// A crate's closing word (`aborting due to 2 previous errors`) is no error of its own.
fn is_error(value: &Value) -> bool {
    let message = &value["message"];
    value["reason"] == "compiler-message"
        && message["level"].as_str().is_some_and(|level| level.starts_with("error"))
        && !message["message"].as_str().unwrap_or("").starts_with("aborting due to")
}

fn kind_of(value: &Value) -> &str {
    value["target"]["kind"][0].as_str().unwrap_or("")
}

/// The package's name, from the manifest-independent package id (`…#name@1.0.0` or `…/name#1.0.0`).
fn package_of(value: &Value) -> String {
    let id = value["package_id"].as_str().unwrap_or("");
    let (place, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => place.rsplit('/').next().unwrap_or(place).to_owned(),
    }
}

fn from_message(message: &Value) -> Diagnostic {
    let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let span = spans.iter().find(|span| span["is_primary"] == true).or(spans.first());
    let path = span.and_then(|span| span["file_name"].as_str()).unwrap_or("");
    let line = span.and_then(|span| span["line_start"].as_u64()).unwrap_or(0);
    diagnostic(
        message["code"]["code"].as_str().unwrap_or(""),
        path,
        u32::try_from(line).unwrap_or(u32::MAX),
        message["message"].as_str().unwrap_or(""),
    )
}

/// A unit that did not compile: its package and whether it is a test or a benchmark.
struct Unit {
    package: String,
    is_test: bool,
}

/// Reads the closing lines: "could not compile `name` (lib test) due to 2 previous errors".
fn failed_units(output: &str) -> Vec<Unit> {
    let after =
        |line: &str| line.split_once("could not compile `").map(|(_, rest)| rest.to_owned());
    output
        .lines()
        .filter(|line| line.starts_with("error: could not compile `"))
        .filter_map(after)
        .filter_map(|rest| {
            let (package, rest) = rest.split_once('`')?;
            let unit = rest.trim_start().strip_prefix('(').and_then(|r| r.split_once(')'));
            let unit = unit.map_or("", |(unit, _)| unit);
            let is_test =
                unit.ends_with(" test") || unit.starts_with("test ") || unit.starts_with("bench ");
            Some(Unit { package: package.to_owned(), is_test })
        })
        .collect()
}

fn is_soft(package: &str, kind: &str, failed: &[Unit]) -> bool {
    if matches!(kind, "test" | "bench") {
        return true;
    }
    let mut own = failed.iter().filter(|unit| unit.package == package).peekable();
    own.peek().is_some() && own.all(|unit| unit.is_test)
}

/// What a person would have seen: the rendered messages and the lines that are not JSON.
fn shown(output: &str) -> String {
    let mut text = String::new();
    for line in output.lines() {
        match line.starts_with('{').then(|| parse(line)).flatten() {
            Some(value) => text.push_str(value["message"]["rendered"].as_str().unwrap_or("")),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The text for people: `error[E0308]: mismatched types` and, below, ` --> src/lib.rs:2:5`.
fn from_text(output: &str, failed: &[Unit]) -> Reading {
    let mut found = text_errors(output);
    found.sort();
    found.dedup();
    // Without packages on the errors, all are soft only when every failed unit is a test.
    match !failed.is_empty() && failed.iter().all(|unit| unit.is_test) {
        true => Reading { soft: found, ..Reading::default() },
        false => Reading { errors: found, ..Reading::default() },
    }
}

/// The compiler's errors in the text for people; also used for `cargo test`.
pub fn text_errors(output: &str) -> Vec<Diagnostic> {
    let lines: Vec<&str> = output.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("error") else { continue };
        let (code, message) = match rest.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            Some(parts) => parts,
            None => ("", rest.strip_prefix(": ").unwrap_or("")),
        };
        let place = lines[index + 1..]
            .iter()
            .take(4)
            .find_map(|next| next.trim_start().strip_prefix("--> "))
            .and_then(place);
        // Cargo's own closing lines have no place.
        if let (Some((path, line)), false) = (place, message.is_empty()) {
            found.push(diagnostic(code, &path, line, message));
        }
    }
    found
}

/// `src/lib.rs:2:5` in parts.
fn place(text: &str) -> Option<(String, u32)> {
    let mut parts = text.trim().rsplitn(3, ':');
    let (_column, line, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some((path.to_owned(), line.parse().ok()?))
}
