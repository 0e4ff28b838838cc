//! `cargo test` (libtest's text) and `cargo nextest run`.
//!
//! A test's name here is its target and its path (`src/lib.rs::tests::adds`), because two targets may
//! hold tests of one name. Lines of documentation tests lose their line numbers: every edit above
//! them would move those.

use super::Reading;
use super::cargo::text_errors;

/// Reads either.
pub fn read(output: &str) -> Reading {
    if output.lines().any(|line| event(line).is_some()) {
        return from_events(output);
    }
    let mut reading = Reading { errors: text_errors(output), ..Reading::default() };
    let mut target = String::new();
    // A test that prints while nothing is captured: its name, and the last line since.
    let mut running: Option<(String, &str)> = None;
    for line in output.lines() {
        let begun = libtest_line(line);
        let goes_on = begun.is_some() || line == "failures:" || line.starts_with("test result: ");
        if let Some((name, last)) = running.take_if(|_| goes_on)
            && let Some(outcome) = OUTCOMES.into_iter().find(|known| last.ends_with(known))
        {
            note(&mut reading, &target, &name, outcome);
        }
        if let Some(next) = target_of(line) {
            target = next;
        } else if let Some((name, outcome)) = begun {
            match known(outcome) {
                Some(outcome) => note(&mut reading, &target, &name, outcome),
                None => running = Some((name, outcome)),
            }
        } else if let Some((_, last)) = running.as_mut().filter(|_| !line.trim().is_empty()) {
            *last = line.trim_end();
        } else if let Some((name, passed)) = nextest_line(line) {
            note(&mut reading, "", &name, if passed { "ok" } else { "FAILED" });
        }
    }
    reading
}

/// `cargo nextest run --message-format libtest-json`.
fn from_events(output: &str) -> Reading {
    let mut reading = Reading { errors: text_errors(output), ..Reading::default() };
    for event in output.lines().filter_map(event) {
        let name = event["name"].as_str().unwrap_or("").replace('$', "::");
        match event["event"].as_str() {
            Some("ok") => reading.pass(name),
            Some("failed" | "timeout") => reading.fail(&name, "", "test failed"),
            _ => {}
        }
    }
    let text = output.lines().filter(|line| !line.starts_with("{\"type\":"));
    reading.shown = Some(text.map(|line| format!("{line}\n")).collect());
    reading
}

fn event(line: &str) -> Option<serde_json::Value> {
    let line = line.strip_prefix("{\"type\":\"test\",")?;
    serde_json::from_str(&format!("{{{line}")).ok()
}

fn note(reading: &mut Reading, target: &str, name: &str, outcome: &str) {
    let whole = if target.is_empty() { name.to_owned() } else { format!("{target}::{name}") };
    if outcome == "ok" {
        reading.pass(whole);
    } else if outcome.starts_with("FAILED") {
        reading.fail(&whole, target, "test failed");
    }
}

/// `     Running unittests src/lib.rs (target/debug/deps/x-0123456789abcdef)` or `   Doc-tests x`.
fn target_of(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    if let Some(rest) = trimmed.strip_prefix("Doc-tests ") {
        return Some(format!("doc {}", rest.trim()));
    }
    let rest = trimmed.strip_prefix("Running ").filter(|_| line.starts_with("  "))?;
    let rest = rest.strip_prefix("unittests ").unwrap_or(rest);
    let (path, _) = rest.split_once(" (")?;
    Some(path.to_owned())
}

const OUTCOMES: [&str; 3] = ["ok", "FAILED", "ignored"];

/// `test tests::adds ... ok`: the name, and what stands behind it on the line.
fn libtest_line(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_prefix("test ")?;
    let (name, outcome) = rest.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((without_line(name), outcome.trim()))
}

/// The outcome on a test's own line: `ok`, `ok <0.001s>`, `ignored, why`, or what the test printed and then
/// that.
fn known(text: &str) -> Option<&'static str> {
    let is = |known: &&str| {
        let behind = text.strip_prefix(*known);
        let begins = behind.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']));
        begins || text.ends_with(*known)
    };
    OUTCOMES.into_iter().find(is)
}

/// `src/lib.rs - add (line 3)` without its line.
fn without_line(name: &str) -> String {
    match name.split_once(" (line ") {
        Some((before, rest)) => match rest.split_once(')') {
            Some((_, after)) => format!("{before}{after}"),
            None => before.to_owned(),
        },
        None => name.trim().to_owned(),
    }
}

/// `        PASS [   0.004s] crate::target module::test`.
fn nextest_line(line: &str) -> Option<(String, bool)> {
    let trimmed = line.trim_start();
    let (passed, rest) = match trimmed.split_once(" [")? {
        ("PASS", rest) => (true, rest),
        ("FAIL" | "SIGABRT" | "SIGSEGV" | "TIMEOUT", rest) => (false, rest),
        _ => return None,
    };
    let (_, name) = rest.split_once(']')?;
    let name = match name.trim_start().strip_prefix('(') {
        // Newer versions put a counter in front of the name: `(1/9) crate test`.
        Some(counted) => counted.split_once(')').map_or(name, |(_, name)| name),
        None => name,
    };
    Some((name.split_whitespace().collect::<Vec<_>>().join("::"), passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As with `--nocapture --test-threads=1`.
    #[test]
    fn what_tests_print_stands_between_their_names_and_outcomes() {
        let output = "     Running unittests src/lib.rs (target/debug/deps/x-01)\n\nrunning 4 tests\n\
                      test a ... dbg\nmore\nok\ntest b ... no feedok\ntest c ... okay\nFAILED\ntest d ... dbg\n\
                      ok\n\nfailures:\n";
        let reading = read(output);
        let passed: Vec<&str> = reading.passed.keys().map(String::as_str).collect();
        assert_eq!(passed, ["src/lib.rs::a", "src/lib.rs::b", "src/lib.rs::d"]);
        assert_eq!(reading.failed[0].code, "src/lib.rs::c");
        let ended = "test a ... dbg\nok\n";
        assert!(read(ended).passed.is_empty(), "the program ended in it");
    }
}
