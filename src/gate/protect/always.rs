//! Comparisons that are always true: an object that equals everything passes every `==` of a test.
//!
//! Text only, and only what a candidate adds. A hit is a flag, never a refusal.

use super::suppress::added;

/// Whether a candidate adds a definition of equality that says yes without looking.
pub fn is_equal_to_all(path: &str, old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let lines = added(&old, &new);
    let heads: &[&str] = match path.rsplit('.').next().unwrap_or("") {
        "py" | "pyi" => {
            &["__eq__", "__ne__", "__bool__", "__lt__", "__contains__", "__instancecheck__"]
        }
        "rs" => &["fn eq(", "fn ne(", "fn cmp(", "fn partial_cmp("],
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => {
            &["equals(", "asymmetricMatch", "Symbol.toPrimitive", "Symbol.hasInstance", "isEqual("]
        }
        "go" => &["Equal(", "Equals("],
        _ => return false,
    };
    let at: Vec<usize> =
        (0..lines.len()).filter(|at| heads.iter().any(|head| lines[*at].contains(head))).collect();
    at.into_iter().any(|at| says_yes(&lines[at..lines.len().min(at + 4)]))
}

/// Whether the body that begins here is nothing but a constant: on the line itself, or on the next.
fn says_yes(lines: &[&str]) -> bool {
    let constant = |text: &str| {
        let text = without_comment(text).trim().trim_end_matches(['}', ';', ',', ')', ' ']);
        let text = text.strip_prefix("return ").unwrap_or(text).trim();
        matches!(text, "True" | "true" | "1" | "Some(Ordering::Equal" | "Ordering::Equal")
    };
    let head = without_comment(lines[0]);
    let tail = [": ", "{ ", "=> ", "= "].iter().filter_map(|mark| head.rsplit_once(mark));
    if tail.map(|(_, body)| body).any(constant) {
        return true;
    }
    let opens = head.trim_end().ends_with([':', '{']);
    let next = lines[1..].iter().map(|line| line.trim()).find(|line| {
        !line.is_empty() && !line.starts_with(['#', '"', '\'']) && !line.starts_with("//")
    });
    opens && next.is_some_and(constant)
}

/// A line without what is said behind it.
fn without_comment(line: &str) -> &str {
    let marks = [" #", " //", " /*"].into_iter().filter_map(|mark| line.find(mark));
    marks.min().map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equality_that_does_not_look_is_seen() {
        for (path, text) in [
            ("a.py", "class E(int):\n    __eq__ = lambda s, o: True\n"),
            ("a.py", "    def __eq__(self, other: object) -> bool:\n        return True\n"),
            ("a.py", "    def __eq__(self, other): return True\n"),
            ("a.py", "class E(int):\n    __eq__ = lambda s, o: True  # type: ignore\n"),
            ("a.py", "    def __eq__(self, o):  # noqa: D105\n        return True  # fine\n"),
            ("a.ts", "  equals() { return true; } // always\n"),
            ("a.rs", "    fn eq(&self, _: &Self) -> bool {\n        true\n    }\n"),
            ("a.rs", "fn eq(&self, _: &T) -> bool { true }\n"),
            ("a.ts", "  equals() { return true; }\n"),
            ("a.js", "const x = { asymmetricMatch: () => true };\n"),
        ] {
            assert!(is_equal_to_all(path, b"", text.as_bytes()), "{text}");
            assert!(!is_equal_to_all(path, text.as_bytes(), text.as_bytes()), "{text}");
        }
        for (path, text) in [
            ("a.py", "    def __eq__(self, other):\n        return self.a == other.a\n"),
            (
                "a.rs",
                "    fn eq(&self, other: &Self) -> bool {\n        self.a == other.a\n    }\n",
            ),
            ("a.py", "x = True\n"),
            ("a.md", "__eq__: True\n"),
        ] {
            assert!(!is_equal_to_all(path, b"", text.as_bytes()), "{text}");
        }
    }
}
