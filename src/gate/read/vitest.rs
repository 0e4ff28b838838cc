//! `vitest run`: the JSON report, or the text of its default and verbose reporters.
//!
//! A test's name is its file and its titles (`src/a.test.ts > math > adds`). The default reporter names
//! only what failed, so that its count stands for the rest.

use super::{Reading, diagnostic, jest};

/// Reads either form.
pub fn read(output: &str, root: &str) -> Reading {
    jest::from_json(output, root).unwrap_or_else(|| from_text(output))
}

fn from_text(output: &str) -> Reading {
    let mut reading = Reading::default();
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix(" FAIL  ") {
            failed(&mut reading, rest);
        } else if let Some(name) = line.strip_prefix(" ✓ ").and_then(without_time)
            && name.contains(" > ")
        {
            reading.pass(name.to_owned());
        }
    }
    reading
}

/// `v/math.test.mjs > math > adds`, or a file that could not be run: `v/bad.test.mjs [ v/bad.test.mjs ]`.
fn failed(reading: &mut Reading, rest: &str) {
    match rest.split_once(" > ") {
        Some((path, _)) => reading.fail(rest.trim_end(), path, "test failed"),
        None => {
            let path = rest.split(" [ ").next().unwrap_or(rest).trim();
            reading.errors.push(diagnostic("", path, 0, "test file failed to run"));
        }
    }
}

/// `a > b 2ms`; the default reporter's `a.test.ts (3 tests) 5ms` is no test.
fn without_time(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let (name, time) = text.rsplit_once(' ').unwrap_or((text, ""));
    let is_time =
        time.strip_suffix("ms").is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()));
    let name = if is_time { name } else { text };
    (!name.ends_with(')') || name.contains(" > ")).then_some(name)
}
