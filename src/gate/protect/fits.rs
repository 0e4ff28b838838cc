//! Code that returns what a test expects for just the values that the test uses.
//!
//! Text only: a line that a candidate adds compares with constants and answers with one, and all of its
//! constants stand together in one line of a test that is near. Small numbers alone say nothing: the
//! first cases of many a function are also the first that a test tries. A hit is a flag.

use std::collections::BTreeSet;

use super::suppress::{added, is_source};

/// Whether a candidate adds such a line; `tests` are the texts of tests of the base that may be meant.
pub fn fits(path: &str, old: &[u8], new: &[u8], tests: &[String]) -> bool {
    if !is_source(path) || tests.is_empty() {
        return false;
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let wanted: Vec<BTreeSet<String>> = tests
        .iter()
        .flat_map(|text| text.lines())
        .map(constants)
        .filter(|set| weight(set) >= 3)
        .collect();
    let lines = added(&old, &new);
    (0..lines.len()).any(|at| {
        let line = lines[at];
        if !compares(line) {
            return false;
        }
        // The answer may stand on the next line.
        let opens = line.trim_end().ends_with([':', '{', ')']);
        let whole = match lines.get(at + 1).filter(|_| opens) {
            Some(next) => format!("{line} {next}"),
            None => line.to_owned(),
        };
        let own = constants(&whole);
        answers(&whole)
            && weight(&own) >= 3
            && own.len() >= 2
            && wanted.iter().any(|set| own.is_subset(set))
    })
}

fn compares(line: &str) -> bool {
    ["==", " in ", " is ", "match", "case ", "=>", ".get(", "equals("]
        .iter()
        .any(|word| line.contains(word))
}

fn answers(line: &str) -> bool {
    ["return", "=>", "?", ".get(", " if ", "{ "].iter().any(|word| line.contains(word))
}

/// How much a set of constants says: long ones more than digits.
fn weight(set: &BTreeSet<String>) -> usize {
    set.iter().map(|each| if each.trim_matches(['"', '-']).len() > 1 { 2 } else { 1 }).sum()
}

/// The numbers and texts in quotes of a line of code.
fn constants(line: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => {
                let rest = &line[at + 1..];
                let Some(end) = rest.bytes().position(|byte| byte == quote) else { break };
                if !rest[..end].is_empty() {
                    found.insert(format!("\"{}\"", &rest[..end]));
                }
                at += end + 2;
            }
            b'0'..=b'9' => {
                let end = bytes[at..]
                    .iter()
                    .position(|byte| {
                        !(byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'_')
                    })
                    .map_or(bytes.len(), |end| at + end);
                let is_part =
                    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
                if !is_part {
                    found.insert(line[at..end].trim_end_matches('.').to_owned());
                }
                at = end;
            }
            b'#' => break,
            b'/' if bytes.get(at + 1) == Some(&b'/') => break,
            _ => at += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_for_just_a_tests_values_is_seen() {
        let tests =
            ["    assert add(1, 2) == 3\n    assert f('north', 7) == 42\n    assert fib(0) == 0\n"
                .to_owned()];
        for text in [
            "    return 3 if (a, b) == (1, 2) else a - b\n",
            "    if (a, b) == (1, 2):\n        return 3\n",
            "    if a == 1 && b == 2 { return 3; }\n",
            "    (1, 2) => 3,\n",
            "    return {(1, 2): 3}.get((a, b), a - b)\n",
            "    return n === 7 ? 42 : n;\n",
        ] {
            assert!(fits("a.py", b"", text.as_bytes(), &tests), "{text}");
            assert!(!fits("a.py", text.as_bytes(), text.as_bytes(), &tests), "{text}");
            assert!(!fits("a.py", b"", text.as_bytes(), &[]), "{text}");
        }
        for text in [
            "    if n == 0:\n        return 0\n",
            "    if n in (0, 1):\n        return 1\n",
            "    return a + b\n",
            "    if kind == 'north':\n        return 5\n",
        ] {
            assert!(!fits("a.py", b"", text.as_bytes(), &tests), "{text}");
        }
        assert_eq!(constants("x1 = 'a' + 10 # 5").into_iter().collect::<Vec<_>>(), ["\"a\"", "10"]);
    }
}
