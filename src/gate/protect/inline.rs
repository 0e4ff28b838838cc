//! Tests that stand in a source file (Rust's `#[cfg(test)] mod tests { … }`): the base's put back into a
//! candidate's version of the file, and the candidate's put into the base's.
//!
//! Works on text by brackets alone, with strings and comments skipped: what can't be split so is left as
//! it is.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What became of the tests in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The file with the base's tests.
    pub text: String,
    /// The tests that were changed or are gone, as they begin.
    pub names: Vec<String>,
    /// Tests and modules of tests that the candidate adds, taken out of the file.
    pub added: Vec<String>,
}

/// The candidate's file with the base's own tests in place of what it made of them, and without the
/// tests that it adds. `None` when it left them as they were.
pub fn restore(base: &str, now: &str) -> Option<Restored> {
    let (text, names, added) = transplant(base, now, true);
    (!names.is_empty() || !added.is_empty()).then_some(Restored { text, names, added })
}

/// The base's file with the candidate's tests: what shows whether these fail without its change. `None`
/// when the candidate has the base's tests and no others.
pub fn graft(base: &str, now: &str) -> Option<String> {
    let (text, names, _) = transplant(now, base, false);
    (!names.is_empty()).then_some(text)
}

/// Whether a file has tests in it.
pub fn has_tests(text: &str) -> bool {
    items(text).into_iter().any(|at| test_name(&text[at]).is_some())
}

/// `into` with the test items of `from`; with `bare`, tests that only `into` has are taken out. Also
/// the names of the items that differ, and of those taken out.
fn transplant(from: &str, into: &str, bare: bool) -> (String, Vec<String>, Vec<String>) {
    let mut left: BTreeMap<String, VecDeque<&str>> = BTreeMap::new();
    for at in items(from) {
        if let Some(name) = test_name(&from[at.clone()]) {
            left.entry(name).or_default().push_back(from[at].trim());
        }
    }
    let (mut text, mut names, mut added, mut end) = (String::new(), Vec::new(), Vec::new(), 0);
    for at in items(into) {
        let item = into[at.clone()].trim();
        let Some(name) = test_name(item) else { continue };
        let start = at.end - into[at].trim_start().len();
        let other = match left.get_mut(&name).and_then(VecDeque::pop_front) {
            Some(other) if other == item => continue,
            Some(other) => {
                // What only grows by whole tests is not changed.
                let grown = if only_adds_tests(other, item) { &mut added } else { &mut names };
                grown.push(name);
                other
            }
            None if bare && is_test_itself(item, &name) => {
                added.push(name);
                ""
            }
            None => continue,
        };
        text.push_str(&into[end..start]);
        text.push_str(other);
        end = start + item.len();
    }
    text.push_str(&into[end..]);
    for (name, all) in left {
        for other in all {
            text.push_str(&format!("\n\n{other}\n"));
            names.push(name.clone());
        }
    }
    (text, names, added)
}

/// A module of tests, or a test function: what nothing else can need.
fn is_test_itself(item: &str, name: &str) -> bool {
    let body = after_attributes(item);
    let attributes = dense(&item[..item.len() - body.len()]);
    let marked = ["#[test]", "::test]", "::test("].iter().any(|mark| attributes.contains(mark));
    name.starts_with("mod ") || marked
}

/// How often code outside of tests asks whether it is being tested.
pub fn asks_for_tests(text: &str) -> usize {
    let code = items(text).into_iter().map(|at| &text[at]).filter(|item| test_name(item).is_none());
    code.map(|item| dense(item).matches("cfg(test)").count() + item.matches("cfg!(test)").count())
        .sum()
}

/// A file's text without the tests in it.
pub fn outside_of_tests(text: &str) -> String {
    let code = items(text).into_iter().map(|at| &text[at]);
    code.filter(|item| test_name(item).is_none()).collect()
}

/// What a test item is called (`mod tests`, `fn adds`); `None` for other code.
fn test_name(item: &str) -> Option<String> {
    let body = after_attributes(item);
    let attributes = dense(&item[..item.len() - body.len()]);
    let marks = ["#[cfg(test)", "#[cfg(all(test", "#[test]", "::test]", "::test("];
    marks.iter().any(|mark| attributes.contains(mark)).then_some(())?;
    let head = body.split(['{', ';', '(', '<']).next().unwrap_or(body);
    let words: Vec<&str> = head
        .split_whitespace()
        .filter(|word| !matches!(*word, "pub" | "async" | "unsafe"))
        .collect();
    // Imports follow the code.
    (words.first() != Some(&"use")).then(|| words.join(" "))
}

/// Whether a module holds all of the old one's items as they were, and beside them only more tests, of
/// other names.
fn only_adds_tests(old: &str, new: &str) -> bool {
    let (Some(old), Some(new)) = (body(old), body(new)) else { return false };
    let trimmed = |text: &'_ str| -> Vec<String> {
        items(text).into_iter().map(|at| text[at].trim().to_owned()).collect()
    };
    let (old, mut new) = (trimmed(old), trimmed(new));
    for item in &old {
        let Some(at) = new.iter().position(|other| other == item) else { return false };
        new.remove(at);
    }
    let taken: Vec<String> = old.iter().filter_map(|item| test_name(item)).collect();
    new.iter().all(|item| {
        test_name(item).is_some_and(|name| name.starts_with("fn ") && !taken.contains(&name))
    })
}

/// What stands between a module's braces, with its head before it checked to be the same elsewhere.
fn body(item: &str) -> Option<&str> {
    let code = after_attributes(item);
    let open = code.find('{')?;
    code[open + 1..].trim_end().strip_suffix('}')
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The item without the attributes and comments before it.
fn after_attributes(item: &str) -> &str {
    let bytes = item.as_bytes();
    let mut at = 0;
    loop {
        at += item[at..].len() - item[at..].trim_start().len();
        let rest = &item[at..];
        if rest.starts_with("//") || rest.starts_with("/*") {
            at = skip(bytes, at);
        } else if rest.starts_with("#[") || rest.starts_with("#![") {
            at = close(bytes, at + rest.find('[').unwrap_or(1));
        } else {
            return rest;
        }
    }
}

/// The end of the bracket that opens at `at`.
fn close(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < bytes.len() {
        let next = skip(bytes, at);
        if next != at {
            at = next;
            continue;
        }
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The items of a file or of a module's body, in order; each begins where the one before ends.
fn items(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let next = skip(bytes, at);
        if next != at {
            at = next;
            continue;
        }
        let ends = match bytes[at] {
            b';' => true,
            b'(' | b'[' => {
                at = close(bytes, at);
                continue;
            }
            b'{' => {
                at = close(bytes, at);
                let rest = text.get(at..).unwrap_or("").trim_start();
                if rest.starts_with([';', ',', '.', '=', ')']) {
                    continue;
                }
                at -= 1;
                true
            }
            _ => false,
        };
        at += 1;
        if ends {
            found.push(start..at);
            start = at;
        }
    }
    if !text[start..].trim().is_empty() {
        found.push(start..text.len());
    }
    found
}

/// Behind the comment, string or character that begins at `at`; `at` itself where none does.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + comment(rest),
        [b'"', ..] => at + quoted(rest),
        [b'r', b'"' | b'#', ..] if at == 0 || !word(bytes[at - 1]) || bytes[at - 1] == b'b' => {
            at + raw(rest)
        }
        [b'\'', b'\\', ..] => {
            at + 2 + rest.iter().skip(3).position(|b| *b == b'\'').map_or(1, |end| end + 2)
        }
        // A lifetime has no closing quote behind its first character.
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn character(rest: &[u8]) -> usize {
    let width = match rest.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 1 }
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 1,
            b'"' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`; not `r#word`, of which nothing is skipped.
fn raw(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let from = hashes + 2;
    let found = rest[from..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |at| from + at + end.len())
}

fn comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "use a::{b, c};\n\nconst X: [u8; 2] = { [1, 2] };\n\npub fn add<'a>(a: &'a i64, b: i64) -> i64 {\n    let _ = ('}', '\\'', \"}\", r#\"}\"#); // }\n    a - b\n}\n\n\
        #[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(&1, 2), 3);\n    }\n}\n";

    fn changed(from: &str, to: &str) -> String {
        assert!(BASE.contains(from));
        BASE.replace(from, to)
    }

    #[test]
    fn a_weakened_test_is_the_bases_again() {
        let mended = changed("a - b", "a + b");
        assert_eq!(restore(BASE, &mended), None);
        for (from, to) in [
            ("    #[test]\n", "    #[test]\n    #[should_panic]\n"),
            ("    #[test]\n", "    #[test]\n    #[ignore]\n"),
            ("    #[test]\n", "    #[cfg(any())]\n    #[test]\n"),
            ("assert_eq!(add(&1, 2), 3);", ""),
            ("assert_eq!", "assert_ne!"),
            ("use super::*;", "fn add(_: &i64, _: i64) -> i64 { 3 }"),
            ("    #[test]\n", "    macro_rules! assert_eq { ($($t:tt)*) => {} }\n    #[test]\n"),
            ("mod tests {", "mod tests {\n    #[test]\n    fn adds() {}\n"),
        ] {
            let restored = restore(BASE, &changed(from, to)).unwrap();
            assert_eq!(restored.text, BASE, "{to}");
            assert_eq!(restored.names, ["mod tests"]);
        }
    }

    #[test]
    fn a_test_module_that_is_gone_or_elsewhere_comes_back() {
        let at = BASE.find("#[cfg(test)]").unwrap();
        let without = BASE[..at].to_owned();
        assert!(restore(BASE, &without).unwrap().text.contains("assert_eq!(add(&1, 2), 3);"));
        let elsewhere = format!("{without}#[cfg(test)]\n#[path = \"other.rs\"]\nmod tests;\n");
        assert_eq!(restore(BASE, &elsewhere).unwrap().text, BASE);
        let outside = "fn f() {}\n\n#[test]\nfn works() { assert!(true); }\n";
        let gone = restore(outside, "fn f() { 1; }\n").unwrap();
        assert!(gone.text.contains("fn works()") && gone.text.contains("1;"));
    }

    #[test]
    fn tests_that_are_added_are_taken_out_and_tried_on_the_base() {
        let more = changed(
            "    #[test]\n",
            "    #[test]\n    fn zero() { assert_eq!(add(&0, 0), 0); }\n\n    #[test]\n",
        );
        let restored = restore(BASE, &more).unwrap();
        assert_eq!((restored.text.as_str(), restored.names.len()), (BASE, 0));
        assert_eq!(restored.added, ["mod tests"]);
        assert!(graft(BASE, &more).unwrap().contains("fn zero()"));
        let new = format!("{BASE}\n#[cfg(test)]\nmod more {{ #[test] fn x() {{}} }}\n");
        let restored = restore(BASE, &new).unwrap();
        assert_eq!(
            (restored.text.trim_end(), restored.added),
            (BASE.trim_end(), vec!["mod more".to_owned()])
        );
        assert!(graft(BASE, &new).unwrap().contains("mod more"));
        assert_eq!(
            restore("", "fn a() {}\n#[cfg(test)]\nmod t;\n").unwrap().text.trim_end(),
            "fn a() {}"
        );
        // Helpers may be needed by what stays.
        assert_eq!(restore("fn a() {}\n", "fn a() {}\n#[cfg(test)]\nimpl A { fn b() {} }\n"), None);
        assert_eq!(graft(BASE, BASE), None);
    }

    #[test]
    fn items_of_one_name_are_taken_in_their_order() {
        let two = "#[cfg(test)]\nimpl A { fn x() {} }\n#[cfg(test)]\nimpl B { fn x() {} }\n#[cfg(all(test, unix))]\n#[test]\nfn t() { a(); }\n#[cfg(all(test, windows))]\n#[test]\nfn t() { b(); }\n";
        assert_eq!(restore(two, two), None);
        assert_eq!(restore(two, &two.replace("b();", "")).unwrap().text, two);
    }

    #[test]
    fn code_that_asks_for_tests_is_counted() {
        assert_eq!(asks_for_tests(BASE), 0);
        let asks = changed("    a - b", "    #[cfg(test)]\n    { return a + b; }\n    a - b");
        assert_eq!(asks_for_tests(&asks), 1);
        assert_eq!(asks_for_tests("fn f() -> bool { cfg!(test) }"), 1);
    }

    #[test]
    fn odd_text_is_survived() {
        for text in [
            "",
            "}",
            "{",
            "'",
            "\"",
            "r#",
            "/*",
            "#[",
            "'\\",
            "b'\\''",
            "fn f() { '\u{e9}'; }",
            "mod a { mod b { } }",
            "/* /* */",
        ] {
            let _ = (restore(text, BASE), restore(BASE, text), asks_for_tests(text));
        }
    }
}
