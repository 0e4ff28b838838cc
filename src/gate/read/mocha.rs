//! `mocha`: its `spec` reporter, or `--reporter json`.
//!
//! A test's name is its titles, joined by ` > `; in JSON Mocha joins them by blanks.

use serde_json::Value;

use super::{Reading, diagnostic, relative};

/// Reads either form.
pub fn read(output: &str, root: &str) -> Reading {
    from_json(output, root).unwrap_or_else(|| from_spec(output))
}

fn from_json(output: &str, root: &str) -> Option<Reading> {
    let start = output.find("{\n  \"stats\"")?;
    let report: Value =
        serde_json::Deserializer::from_str(&output[start..]).into_iter().next()?.ok()?;
    let mut reading = Reading::default();
    let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    for test in list("passes") {
        reading.pass(test["fullTitle"].as_str().unwrap_or("").to_owned());
    }
    let mut shown = output[..start].to_owned();
    for test in list("failures") {
        let name = test["fullTitle"].as_str().unwrap_or("");
        let path = relative(test["file"].as_str().unwrap_or(""), root);
        let message = test["err"]["message"].as_str().unwrap_or("test failed");
        shown.push_str(&format!("{path}: {name}: {message}\n"));
        reading.fail(name, &path, message);
    }
    reading.shown = Some(shown);
    Some(reading)
}

/// A tree of titles, two columns a level: `✔ adds`, `1) fails`, `- pending`; it ends at `2 passing`.
fn from_spec(output: &str) -> Reading {
    let mut reading = Reading::default();
    let mut open: Vec<&str> = Vec::new();
    for line in output.lines().map(behind_output) {
        let text = line.trim_start();
        let level = (line.len() - text.len()) / 2;
        if text.starts_with("Exception during run:") {
            reading.errors.push(diagnostic("", "", 0, text));
            break;
        }
        if is_total(text) {
            break;
        }
        if level == 0 || text.is_empty() || level > open.len() + 1 {
            continue;
        }
        open.truncate(level - 1);
        let name = |title: &str| {
            open.iter().copied().chain([title.trim_end()]).collect::<Vec<_>>().join(" > ")
        };
        if let Some(title) = text.strip_prefix("✔ ").or_else(|| text.strip_prefix("✓ ")) {
            reading.pass(name(without_time(title)));
        } else if let Some(title) = numbered(text) {
            reading.fail(&name(title), "", "test failed");
        } else if !text.starts_with("- ") {
            open.push(text.trim_end());
        }
    }
    reading
}

/// A test's line without what the test printed before it, where that ended without a line feed.
fn behind_output(line: &str) -> &str {
    let Some(mark) = line.find("✔ ").or_else(|| line.find("✓ ")) else { return line };
    let before = line[..mark].trim_end_matches(' ');
    if line[..mark].len() - before.len() < 2 { line } else { &line[before.len()..] }
}

fn is_total(text: &str) -> bool {
    let number = text.split(' ').next().unwrap_or("");
    !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
        && text[number.len()..].starts_with(" passing")
}

/// `1) adds`.
fn numbered(text: &str) -> Option<&str> {
    let (number, title) = text.split_once(") ")?;
    (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())).then_some(title)
}

/// Slow tests have their time behind: `adds (120ms)`.
fn without_time(title: &str) -> &str {
    match title.trim_end().rsplit_once(" (") {
        Some((before, time)) if time.ends_with("ms)") => before,
        _ => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_a_line_feed_stands_before_the_test() {
        let output = "  calc\ndbg    ✔ adds\n  ✔ odd ✔ name\n\n  2 passing (3ms)\n";
        let passed: Vec<String> = read(output, "/").passed.into_keys().collect();
        assert_eq!(passed, ["calc > adds", "odd ✔ name"]);
    }
}
