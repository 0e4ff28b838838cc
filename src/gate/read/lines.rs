//! Tools that write one error a line: `tsc` and `mypy`.

use super::{Reading, diagnostic};
use crate::model::Diagnostic;

/// `src/a.ts(3,5): error TS2322: …`, with `--pretty` `src/a.ts:3:5 - error TS2322: …`, and errors
/// without a file: `error TS18003: …`.
pub fn tsc(output: &str) -> Reading {
    Reading { errors: output.lines().filter_map(tsc_line).collect(), ..Reading::default() }
}

fn tsc_line(line: &str) -> Option<Diagnostic> {
    let (place, rest) = match line.strip_prefix("error TS") {
        Some(rest) => ("", rest),
        None => line.split_once(": error TS").or_else(|| line.split_once(" - error TS"))?,
    };
    // Lines that go on about an error are indented.
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let (number, message) = rest.split_once(": ")?;
    let (path, at) = tsc_place(place);
    number
        .chars()
        .all(|c| c.is_ascii_digit())
        .then(|| diagnostic(&format!("TS{number}"), path, at, message))
}

fn tsc_place(place: &str) -> (&str, u32) {
    if let Some((path, at)) = place.strip_suffix(')').and_then(|place| place.rsplit_once('(')) {
        return (path, at.split(',').next().and_then(|n| n.parse().ok()).unwrap_or(0));
    }
    let mut parts = place.rsplitn(3, ':');
    match (parts.next(), parts.next().and_then(|n| n.parse().ok()), parts.next()) {
        (Some(_), Some(line), Some(path)) => (path, line),
        _ => (place, 0),
    }
}

/// `app/calc.py:3: error: …  [return-value]`, with or without a column, or `--output json`.
pub fn mypy(output: &str) -> Reading {
    let read = |line: &str| if line.starts_with('{') { mypy_json(line) } else { mypy_line(line) };
    Reading { errors: output.lines().filter_map(read).collect(), ..Reading::default() }
}

fn mypy_json(line: &str) -> Option<Diagnostic> {
    let each: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| each[key].as_str().unwrap_or("");
    let at = each["line"].as_u64().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    (text("severity") == "error")
        .then(|| diagnostic(text("code"), text("file"), at, text("message")))
}

fn mypy_line(line: &str) -> Option<Diagnostic> {
    let (place, rest) = line.split_once(": error: ")?;
    let mut parts = place.split(':');
    let path = parts.next()?;
    let at = parts.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (message, code) = match rest.trim_end().strip_suffix(']').and_then(|r| r.rsplit_once("  ["))
    {
        Some((message, code)) => (message, code),
        None => (rest, ""),
    };
    (!path.contains(char::is_whitespace)).then(|| diagnostic(code, path, at, message))
}
