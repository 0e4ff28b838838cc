//! `jest`: `--json`, or its text with and without `--verbose`. Vitest writes the same JSON.
//!
//! A test's name is its file and its titles, joined by ` > `.

use serde_json::Value;

use super::{Reading, diagnostic, relative};

/// Reads either form.
pub fn read(output: &str, root: &str) -> Reading {
    from_json(output, root).unwrap_or_else(|| from_text(output))
}

/// The report that begins with `{"num…`: one line, the last that is one.
pub fn from_json(output: &str, root: &str) -> Option<Reading> {
    let is_report = |line: &&str| line.starts_with("{\"num") && line.contains("\"testResults\"");
    let report: Value =
        output.lines().rev().find(is_report).and_then(|line| serde_json::from_str(line).ok())?;
    let mut reading = Reading::default();
    let mut shown: String =
        output.lines().filter(|line| !is_report(line)).map(|line| format!("{line}\n")).collect();
    for file in report["testResults"].as_array()? {
        file_of_report(&mut reading, &mut shown, file, root);
    }
    reading.shown = Some(shown);
    Some(reading)
}

fn file_of_report(reading: &mut Reading, shown: &mut String, file: &Value, root: &str) {
    let path = relative(file["name"].as_str().unwrap_or(""), root);
    let tests = file["assertionResults"].as_array().map_or(&[][..], Vec::as_slice);
    if tests.is_empty() && file["status"] == "failed" {
        let message = file["message"].as_str().unwrap_or("");
        shown.push_str(&format!("{path}: {message}\n"));
        reading.errors.push(diagnostic("", &path, 0, "test file failed to run"));
    }
    for test in tests {
        let titles = test["ancestorTitles"].as_array().map_or(&[][..], Vec::as_slice);
        let titles = titles.iter().chain([&test["title"]]).filter_map(Value::as_str);
        let name = [path.as_str()].into_iter().chain(titles).collect::<Vec<_>>().join(" > ");
        match test["status"].as_str() {
            Some("passed") => reading.pass(name),
            Some("failed") => {
                let message = test["failureMessages"][0].as_str().unwrap_or("test failed");
                shown.push_str(&format!("FAIL {name}\n{message}\n"));
                reading.fail(&name, &path, message);
            }
            _ => {}
        }
    }
}

/// `FAIL path`, then `  ● math › adds` for each failure and, with `--verbose`, a tree of titles.
fn from_text(output: &str) -> Reading {
    let mut reading = Reading::default();
    let (mut path, mut tree) = ("", Vec::new());
    for line in output.lines() {
        if let Some(file) = file_of(line) {
            (path, tree) = (file, Vec::new());
        } else if let Some(title) = line.strip_prefix("  ● ") {
            tree.clear();
            bullet(&mut reading, path, title);
        } else if !path.is_empty() {
            in_tree(&mut reading, path, &mut tree, line);
        }
    }
    reading
}

fn file_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("FAIL ").or_else(|| line.strip_prefix("PASS "))?;
    // Projects have a name in front, and slow files a time behind: `FAIL unit j/a.test.js (5.1 s)`.
    rest.split(" (").next()?.split_whitespace().last()
}

fn bullet(reading: &mut Reading, path: &str, title: &str) {
    match title.trim_end() {
        "Console" => {}
        "Test suite failed to run" => {
            reading.errors.push(diagnostic("", path, 0, "test file failed to run"));
        }
        title => {
            let name = format!("{path} > {}", title.replace(" › ", " > "));
            reading.fail(&name, path, "test failed");
        }
    }
}

/// A line of the verbose tree: two columns for each level, then a mark or a title of a group.
fn in_tree<'a>(reading: &mut Reading, path: &str, tree: &mut Vec<&'a str>, line: &'a str) {
    let text = line.trim_start();
    let level = (line.len() - text.len()) / 2;
    if level == 0 || level > tree.len() + 1 {
        return;
    }
    tree.truncate(level - 1);
    let name = |title: &str| {
        let title = title.rsplit_once(" (").map_or(title, |(title, _)| title).replace(" › ", " > ");
        let groups = tree.iter().map(|group| group.replace(" › ", " > "));
        [path.to_owned()].into_iter().chain(groups).chain([title]).collect::<Vec<_>>().join(" > ")
    };
    if let Some(title) = text.strip_prefix("✓ ") {
        reading.pass(name(title));
    } else if let Some(title) = text.strip_prefix("✕ ") {
        reading.fail(&name(title), path, "test failed");
    } else if !text.is_empty() && !text.starts_with(['○', '✎']) {
        tree.push(text);
    }
}
