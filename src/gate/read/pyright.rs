//! `pyright --outputjson`, and its text for people.

use serde_json::Value;

use super::{Reading, diagnostic};
use crate::model::Diagnostic;

/// Reads either form.
pub fn read(output: &str) -> Reading {
    match output.find('{').and_then(|at| first_object(&output[at..])) {
        Some(report) if report["generalDiagnostics"].is_array() => from_json(&report),
        _ => {
            Reading { errors: output.lines().filter_map(text_line).collect(), ..Reading::default() }
        }
    }
}

fn first_object(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok()
}

fn from_json(report: &Value) -> Reading {
    let all = report["generalDiagnostics"].as_array().map_or(&[][..], Vec::as_slice);
    let mut reading = Reading::default();
    let mut shown = String::new();
    for each in all {
        let severity = each["severity"].as_str().unwrap_or("");
        let found = from_object(each);
        let line = format!("{}:{}: {severity}: {}\n", found.path, found.line, found.message);
        shown.push_str(&line);
        if severity == "error" {
            reading.errors.push(found);
        }
    }
    shown.push_str(&format!("{} errors\n", report["summary"]["errorCount"]));
    reading.shown = Some(shown);
    reading
}

/// Pyright counts lines from 0.
fn from_object(each: &Value) -> Diagnostic {
    let line = each["range"]["start"]["line"].as_u64().map_or(0, |line| line + 1);
    diagnostic(
        each["rule"].as_str().unwrap_or(""),
        each["file"].as_str().unwrap_or(""),
        u32::try_from(line).unwrap_or(u32::MAX),
        each["message"].as_str().unwrap_or(""),
    )
}

/// `  /work/app/calc.py:2:12 - error: Type "str" is not … (reportReturnType)`.
fn text_line(line: &str) -> Option<Diagnostic> {
    let (place, rest) = line.trim_start().split_once(" - error: ")?;
    let mut parts = place.rsplitn(3, ':');
    let (_column, at, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (message, rule) = match rest.trim_end().strip_suffix(')').and_then(|r| r.rsplit_once(" ("))
    {
        Some((message, rule)) if rule.starts_with("report") => (message, rule),
        _ => (rest, ""),
    };
    Some(diagnostic(rule, path, at.parse().ok()?, message))
}
