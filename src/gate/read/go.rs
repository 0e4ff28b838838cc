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
                // A package's end comes after those of its tests.
                let named = reading.failed.iter().any(|test| test.path == package);
                package_failed(&mut reading, package, named);
            }
            _ => {
                let line = event["Output"].as_str().unwrap_or("").trim();
                let name = |word| Some(format!("{package}.{}", hidden_outcome(line, word)?));
                if let Some(name) = name("--- FAIL: ") {
                    reading.fail(&name, package, "test failed");
                } else if let Some(name) = name("--- PASS: ") {
                    reading.pass(name);
                }
            }
        }
    }
    reading.shown = Some(shown);
    reading
}

/// The test whose outcome stands behind what it printed without a line feed: `go test -json` gives no event of
/// its own to that.
fn hidden_outcome<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    outcome(line, word).filter(|_| !line.starts_with("--- "))
}

/// `--- FAIL: TestAdd (0.00s)`, then `FAIL\texample/pkg\t0.002s`, which names the package.
fn from_text(output: &str) -> Reading {
    let mut reading = Reading { errors: build_errors(not_of_tests(output)), ..Reading::default() };
    let (mut failed, mut passed) = (Vec::new(), Vec::new());
    for line in output.lines() {
        if let Some(name) = outcome(line, "--- FAIL: ") {
            failed.push(name);
        } else if let Some(name) = outcome(line, "--- PASS: ") {
            passed.push(name);
        } else if let Some((word, rest)) = line.split_once('\t').filter(|(word, _)| ends(word)) {
            let package = rest.split('\t').next().unwrap_or("").split(' ').next().unwrap_or("");
            for name in passed.drain(..) {
                reading.pass(format!("{package}.{name}"));
            }
            let named = !failed.is_empty() && !rest.ends_with(" failed]");
            for name in failed.drain(..) {
                reading.fail(&format!("{package}.{name}"), package, "test failed");
            }
            if word.trim() == "FAIL" {
                package_failed(&mut reading, package, named);
            }
        }
    }
    reading
}

/// Notes that a package failed, unless tests of it that are named say why: that is no error of the
/// package itself, as one that was not built or that ended before its tests did.
fn package_failed(reading: &mut Reading, package: &str, named: bool) {
    if !named {
        reading.errors.push(diagnostic("", package, 0, "package failed"));
    }
}

/// The lines that no running test printed: what a test prints is no error of the build, whatever it
/// looks like.
fn not_of_tests(output: &str) -> impl Iterator<Item = &str> {
    let mut running = false;
    output.lines().filter(move |line| {
        let end = line.split_once('\t').is_some_and(|(word, _)| ends(word));
        running = (running || line.starts_with("=== RUN")) && !end;
        !running
    })
}

/// The test that a line tells of. What a test printed without a line feed may stand before it.
fn outcome<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (name, time) = line[line.rfind(word)? + word.len()..].split_once(" (")?;
    let seconds = time.strip_suffix("s)")?;
    seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(name)
}

/// Whether the first word of a line is that of a package's end; logs hold tabs, too.
fn ends(word: &str) -> bool {
    matches!(word.trim_end(), "ok" | "FAIL" | "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `go test -json` gives no event of its own to an outcome that stands behind output without a line feed.
    #[test]
    fn an_outcome_behind_output_is_read() {
        let event = |action: &str, test: &str, output: &str| {
            let event = serde_json::json!({
                "Action": action, "Package": "p", "Test": test, "Output": output,
            });
            format!("{event}\n")
        };
        let output = event("run", "TestLow", "")
            + &event("output", "TestLow", "=== RUN   TestLow\n")
            + &event("output", "TestLow", "dbg--- PASS: TestLow (0.00s)\n")
            + &event("output", "TestLow", "dbg--- FAIL: TestMid (0.00s)\n")
            + &event("output", "TestTop", "--- PASS: TestTop (0.00s)\n")
            + &event("pass", "TestTop", "")
            + "{\"Action\":\"fail\",\"Package\":\"p\"}\n";
        let reading = read_test(&output);
        let passed: Vec<(&str, u32)> =
            reading.passed.iter().map(|(name, times)| (name.as_str(), *times)).collect();
        assert_eq!(passed, [("p.TestLow", 1), ("p.TestTop", 1)]);
        assert_eq!(reading.failed[0].code, "p.TestMid");
        assert!(reading.errors.is_empty(), "a test that is named says why the package failed");
    }

    #[test]
    fn a_package_fails_by_itself_only_where_no_test_of_it_says_why() {
        let errors = |output: &str| -> Vec<String> {
            read_test(output).errors.iter().map(Diagnostic::text).collect()
        };
        let named = "--- FAIL: TestLow (0.00s)\n    d_test.go:7: got -5\nFAIL\nFAIL\texample.com/c\t0.002s\nFAIL\n";
        assert_eq!(errors(named), [""; 0]);
        let own = ["example.com/c: package failed"];
        // `TestMain` or an `init` ended it.
        assert_eq!(errors("FAIL\texample.com/c\t0.002s\nFAIL\n"), own);
        assert_eq!(errors("FAIL\texample.com/c [build failed]\nFAIL\n"), own);
        let event =
            |test: &str| format!("{{\"Action\":\"fail\",\"Package\":\"example.com/c\"{test}}}\n");
        let of_test = event(",\"Test\":\"TestLow\"");
        assert_eq!(errors(&(of_test + &event(""))), [""; 0]);
        assert_eq!(errors(&event("")), own);
    }

    #[test]
    fn what_tests_print_is_neither_a_package_nor_an_error() {
        let output = "=== RUN   TestAdd\na\tb\nx.go:4:9: printed\nno newline--- PASS: TestAdd (0.00s)\n\
                      === RUN   TestMul\n    --- PASS: TestMul/one (0.01s)\n--- FAIL: TestMul (0.00s)\n\
                      FAIL\nFAIL\texample.com/calc\t0.002s\n# example.com/calc/other\nother/a.go:3:1: undefined: X\n\
                      FAIL\texample.com/calc/other [build failed]\nFAIL\n";
        let reading = read_test(output);
        let passed: Vec<&str> = reading.passed.keys().map(String::as_str).collect();
        assert_eq!(passed, ["example.com/calc.TestAdd", "example.com/calc.TestMul/one"]);
        let told: Vec<String> = reading.errors.iter().map(Diagnostic::text).collect();
        assert_eq!(told, ["other/a.go:3: undefined: X", "example.com/calc/other: package failed"]);
        assert!(reading.failed.iter().any(|test| test.code.ends_with("TestMul")));
        // A line that only looks like a result.
        assert!(read_test("--- PASS: TestX (soon)\nok  \tp\t0.1s\n").passed.is_empty());
    }
}
