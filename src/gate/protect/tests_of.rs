//! The tests that a candidate adds and changes, and which of the base's tests those are.

use std::collections::BTreeMap;

/// A file with tests of the base that a candidate changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedTest {
    /// Its path.
    pub path: String,
    /// Its text on the base.
    pub base: Option<String>,
    /// Its text on the candidate; none when it is gone.
    pub now: Option<String>,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    /// Files with tests that the candidate adds.
    pub added: Vec<String>,
    /// Files with tests of the base that it changes.
    pub changed: Vec<ChangedTest>,
    /// Modules of Rust that moved with their tests: old and new, as they stand in a test's name.
    pub moved: BTreeMap<String, String>,
}

/// How a candidate stands to one of the base's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It changed or deleted that test, as far as the text of its file tells.
    Changed,
    /// It changed something else in a file that has that test.
    Near,
    /// Nothing of the kind.
    Untouched,
}

impl Tests {
    /// Whether a candidate adds and changes none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty()
    }

    /// How the candidate stands to a test, by the test's name and, where the tool says it, its file.
    pub fn touch(&self, name: &str, path: &str) -> Touch {
        let leaf = leaf(name);
        let in_file =
            |test: &&ChangedTest| path.is_empty() || !is_file(path) || same(path, &test.path);
        let touches = self.changed.iter().filter(in_file).filter_map(|test| {
            let old = block(test.base.as_deref()?, leaf)?;
            let new = test.now.as_deref().and_then(|text| block(text, leaf));
            Some(if new == Some(old) { Touch::Near } else { Touch::Changed })
        });
        let all: Vec<Touch> = touches.collect();
        match (all.contains(&Touch::Changed), all.is_empty()) {
            (true, _) => Touch::Changed,
            (false, false) => Touch::Near,
            (false, true) => Touch::Untouched,
        }
    }

    /// Whether a path is a test file that the candidate changed.
    pub fn is_changed_file(&self, path: &str) -> bool {
        !path.is_empty() && self.changed.iter().any(|test| same(path, &test.path))
    }

    /// A test's name as it is once its module has moved.
    pub fn renamed(&self, name: &str) -> String {
        for (old, new) in &self.moved {
            let (from, to) = (format!("::{old}::"), format!("::{new}::"));
            if name.contains(&from) {
                return name.replacen(&from, &to, 1);
            }
        }
        name.to_owned()
    }
}

fn is_file(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.contains('.')) && !path.contains("doc ")
}

/// Tools write paths from where they run, which may be below the top, and name a crate's tests by its
/// root: one has to be the end of the other, or both stand below one `src`.
fn same(path: &str, file: &str) -> bool {
    let ends = |long: &str, short: &str| {
        long == short || long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'))
    };
    let root = ["src/lib.rs", "src/main.rs"].iter().any(|root| ends(path, root));
    ends(file, path) || ends(path, file) || (root && file.split('/').any(|part| part == "src"))
}

/// The last part of a test's name, without parameters: `adds` of `src/lib.rs::tests::adds`,
/// `t.py::C::adds[1]`, `pkg.TestAdds/case`, `a.test.ts > math > adds`, `u.test_calc.Calc.adds`.
fn leaf(name: &str) -> &str {
    let name = name.split('[').next().unwrap_or(name);
    if let Some((_, title)) = name.rsplit_once(" > ") {
        return title;
    }
    if let Some((_, last)) = name.rsplit_once("::") {
        return last;
    }
    let name = name.rsplit_once('.').map_or(name, |(_, last)| last);
    name.split('/').next().unwrap_or(name)
}

/// The lines of a test in its file: from the one that names it (and the attributes above it) to the next
/// line that is no further in than it and begins something else.
fn block<'t>(text: &'t str, leaf: &str) -> Option<&'t str> {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .filter(|at| *at < text.len())
        .collect();
    let line = |at: usize| text[starts[at]..].lines().next().unwrap_or("");
    let named = (0..starts.len()).find(|at| names(line(*at), leaf))?;
    let depth = indent(line(named));
    let mut first = named;
    while first > 0 && line(first - 1).trim_start().starts_with(['@', '#']) {
        first -= 1;
    }
    let closes = |text: &str| text.trim_start().starts_with(['}', ')', ']']);
    let mut end = named + 1;
    while end < starts.len() {
        let next = line(end);
        if !next.trim().is_empty() && indent(next) <= depth {
            if closes(next) {
                end += 1;
            }
            break;
        }
        end += 1;
    }
    let to = starts.get(end).copied().unwrap_or(text.len());
    Some(text[starts[first]..to].trim())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line defines a test of this name, or gives a test this title.
fn names(line: &str, leaf: &str) -> bool {
    let function = ["def ", "fn ", "func "].iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let rest = line[at + word.len()..].strip_prefix(leaf);
            rest.is_some_and(|rest| rest.starts_with(['(', '<', ' ', '[']))
        })
    });
    let quoted =
        ['"', '\'', '`'].iter().any(|quote| line.contains(&format!("{quote}{leaf}{quote}")));
    function || quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, base: &str, now: Option<&str>) -> Tests {
        let changed = ChangedTest {
            path: path.to_owned(),
            base: Some(base.to_owned()),
            now: now.map(str::to_owned),
        };
        Tests { changed: vec![changed], ..Tests::default() }
    }

    #[test]
    fn a_test_is_told_from_its_neighbours() {
        let base =
            "import x\n\n@mark\ndef test_a():\n    assert 1\n\n\ndef test_b():\n    assert 2\n";
        let tests = one("tests/t.py", base, Some(&base.replace("assert 1", "assert 3")));
        assert_eq!(tests.touch("tests/t.py::test_a[1]", "tests/t.py"), Touch::Changed);
        assert_eq!(tests.touch("tests/t.py::test_b", "tests/t.py"), Touch::Near);
        assert_eq!(tests.touch("tests/u.py::test_a", "tests/u.py"), Touch::Untouched);
        assert_eq!(tests.touch("tests.t.T.test_a", ""), Touch::Changed);
        let marked = one("tests/t.py", base, Some(&base.replace("@mark", "@skip")));
        assert_eq!(marked.touch("tests/t.py::test_a", "tests/t.py"), Touch::Changed);
        let gone = one("tests/t.py", base, None);
        assert_eq!(gone.touch("tests/t.py::test_b", "tests/t.py"), Touch::Changed);
        assert!(gone.is_changed_file("t.py") && !gone.is_changed_file("other.py"));
    }

    #[test]
    fn each_runners_names_are_understood() {
        let rust = "mod tests {\n    #[test]\n    fn adds() {\n        a();\n    }\n}\n";
        let tests = one("rs/src/calc.rs", rust, Some(&rust.replace("a();", "")));
        assert_eq!(tests.touch("src/lib.rs::calc::tests::adds", "src/lib.rs"), Touch::Changed);
        assert_eq!(tests.touch("fixture::calc::tests::adds", ""), Touch::Changed);
        let script = "describe('m', () => {\n  it('adds two', () => {\n    x();\n  });\n});\n";
        let tests = one("a.test.ts", script, Some(&script.replace("x();", "")));
        assert_eq!(tests.touch("a.test.ts > m > adds two", "a.test.ts"), Touch::Changed);
        let go = "func TestAdd(t *testing.T) {\n\tx()\n}\n";
        let tests = one("calc_test.go", go, Some(""));
        assert_eq!(tests.touch("example/pkg.TestAdd/case", "example/pkg"), Touch::Changed);
    }

    #[test]
    fn a_moved_module_has_another_name() {
        let moved = [("a".to_owned(), "b::c".to_owned())].into();
        let tests = Tests { moved, ..Tests::default() };
        assert_eq!(tests.renamed("src/lib.rs::a::tests::t"), "src/lib.rs::b::c::tests::t");
        assert_eq!(tests.renamed("src/lib.rs::aa::tests::t"), "src/lib.rs::aa::tests::t");
    }
}
