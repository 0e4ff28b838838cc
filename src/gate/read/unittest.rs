//! `python -m unittest`, best with `-v`.
//!
//! A test's name is its dotted path (`tests.test_calc.Calc.test_add`). Without `-v` only what failed is
//! named. Subtests count as their test.

use super::{Reading, diagnostic};

/// Reads the lines of `-v` and the sections of the failures.
pub fn read(output: &str) -> Reading {
    let mut reading = Reading::default();
    // A test with a description has it, and its outcome, on the line behind its name.
    let mut waiting: Option<String> = None;
    for line in output.lines() {
        let heading = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        if let Some(name) = heading.and_then(name_of) {
            fail(&mut reading, &name);
        } else if let Some((left, outcome)) = line.rsplit_once(" ... ") {
            let name = name_of(left).or(waiting.take());
            if let Some(name) = name
                && matches!(outcome.trim(), "ok" | "expected failure")
            {
                reading.pass(name);
            }
            waiting = None;
        } else {
            waiting = name_of(line);
        }
    }
    let failed: Vec<String> = reading.failed.iter().map(|each| each.code.clone()).collect();
    reading.passed.retain(|name, _| !failed.contains(name));
    reading
}

/// A module that could not be loaded is no test.
fn fail(reading: &mut Reading, name: &str) {
    match name.split_once("_FailedTest.") {
        Some((_, module)) => {
            let path = format!("{}.py", module.replace('.', "/"));
            reading.errors.push(diagnostic("", &path, 0, "test module failed to load"));
        }
        None => reading.fail(name, "", "test failed"),
    }
}

/// `test_add (u.test_calc.Calc.test_add)`, before Python 3.11 without the test behind the class; a
/// subtest has ` (i=2)` behind.
fn name_of(text: &str) -> Option<String> {
    let (test, rest) = text.trim().split_once(" (")?;
    let (class, _) = rest.split_once(')')?;
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
    };
    if !is_name(test) || !is_name(class) {
        return None;
    }
    let ends_with_test = class.rsplit('.').next() == Some(test) || class.ends_with(test);
    Some(if ends_with_test { class.to_owned() } else { format!("{class}.{test}") })
}
