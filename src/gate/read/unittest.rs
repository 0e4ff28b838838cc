//! `python -m unittest`, best with `-v`.
//!
//! A test's name is its dotted path (`tests.test_calc.Calc.test_add`). Without `-v` only what failed is
//! named. Subtests count as their test.

use super::{Reading, diagnostic};

/// A test under way: its name, and the last line that was printed since.
struct Running {
    name: String,
    last: String,
}

/// Reads the lines of `-v` and the sections of the failures. What a test prints stands between its name and
/// its outcome.
pub fn read(output: &str) -> Reading {
    let mut reading = Reading::default();
    // A test with a description has it, and its outcome, on the line behind its name.
    let mut waiting: Option<String> = None;
    let mut running: Option<Running> = None;
    for line in output.lines() {
        let heading = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        let begun = line
            .split_once(" ... ")
            .and_then(|(left, outcome)| Some((name_of(left).or(waiting.take())?, outcome.trim())));
        if let Some(name) = heading.and_then(name_of) {
            fail(&mut reading, &name);
        } else if line.starts_with(SEPARATOR) || line.starts_with(HEADLINE) {
            settle(&mut reading, running.take());
        } else if let Some((name, outcome)) = begun {
            settle(&mut reading, running.take());
            match is_pass(outcome) {
                true => reading.pass(name),
                false => running = Some(Running { name, last: outcome.to_owned() }),
            }
        } else {
            waiting = name_of(line);
            if let Some(running) = running.as_mut().filter(|_| waiting.is_none()) {
                running.last = line.trim().to_owned();
            }
        }
    }
    let failed: Vec<String> = reading.failed.iter().map(|each| each.code.clone()).collect();
    reading.passed.retain(|name, _| !failed.contains(name));
    reading
}

/// What stands before the count of all tests, and before each failure.
const SEPARATOR: &str = "--------------------";
const HEADLINE: &str = "====================";

fn is_pass(outcome: &str) -> bool {
    matches!(outcome, "ok" | "expected failure")
}

/// A test behind which the runner has gone on. A last line without a line feed has the outcome at its end.
fn settle(reading: &mut Reading, running: Option<Running>) {
    if let Some(Running { name, last }) = running
        && (last.ends_with("ok") || last.ends_with("expected failure"))
    {
        reading.pass(name);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(output: &str) -> Vec<String> {
        read(output).passed.into_keys().collect()
    }

    #[test]
    fn what_tests_print_stands_between_their_names_and_outcomes() {
        let end = "----------------------------------------------------------------------\nRan 4 tests in 0.001s\n\nOK\n";
        let output = "test_a (t.T.test_a) ... dbg\nmore ... of it (x)\nok\ntest_b (t.T.test_b) ... no feedok\n\
                      test_c (t.T.test_c)\nWhat it does ... x.py:3: UserWarning: y\n  warn()\nok\n\
                      test_d (t.T.test_d) ... skipped 'ok'\n";
        assert_eq!(passed(&format!("{output}{end}")), ["t.T.test_a", "t.T.test_b", "t.T.test_c"]);
    }

    #[test]
    fn a_test_behind_which_nothing_came_or_that_failed_did_not_pass() {
        assert!(passed("test_a (t.T.test_a) ... dbg\nok\n").is_empty(), "the runner ended in it");
        let failed = "test_a (t.T.test_a) ... dbg\nok\nFAIL\ntest_b (t.T.test_b) ... dbg\nok\n\n\
                      ======================================================================\n\
                      FAIL: test_b (t.T.test_b)\n";
        assert!(passed(failed).is_empty());
    }
}
