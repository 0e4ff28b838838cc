//! `pytest`: the short summary (`-rA`, or at least `-rfE`).

use super::{Reading, diagnostic};

/// `FAILED tests/test_calc.py::test_add - assert -1 == 3`, `ERROR tests/test_x.py`, `PASSED …`.
pub fn read(output: &str) -> Reading {
    let mut reading = Reading::default();
    for line in summary(output).lines() {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let (id, message) = split_id(rest);
        let is_id = id.contains(".py") || id.contains("::");
        match word {
            "PASSED" | "XFAIL" if is_id => reading.pass(id.to_owned()),
            // A subtest that fails is its test's failure, which the summary calls passed.
            _ if word.starts_with("SUBFAILED") && is_id => {
                reading.passed.remove(id);
                reading.fail(id, id.split("::").next().unwrap_or(id), message);
            }
            "FAILED" | "ERROR" if is_id => {
                let path = id.split("::").next().unwrap_or(id);
                let message = if message.is_empty() { word } else { message };
                match id == path {
                    true => reading.errors.push(diagnostic("", path, 0, message)),
                    false => reading.fail(id, path, message),
                }
            }
            _ => {}
        }
    }
    reading
}

/// Only the summary counts: what stands above it holds what the tests themselves printed.
fn summary(output: &str) -> &str {
    output.rfind(" short test summary info ").map_or("", |at| &output[at..])
}

/// The node id ends at the first ` - ` outside of the parameters' brackets.
fn split_id(rest: &str) -> (&str, &str) {
    let from = rest.find('[').filter(|open| rest.find(" - ").is_none_or(|dash| *open < dash));
    let after = from.and_then(|open| rest[open..].find(']').map(|close| open + close)).unwrap_or(0);
    match rest[after..].find(" - ") {
        Some(at) => (rest[..after + at].trim(), rest[after + at + 3..].trim()),
        None => (rest.trim(), ""),
    }
}
