//! The parse gate: whether a change breaks the grammar of a file that it touches.
//!
//! Grammars are tree-sitter's, for the common languages; TOML and JSON are read by their own parsers. A
//! file that a cap cuts off, or whose language is not known, is never held against anybody. The text is
//! hostile: files over a size are not parsed, and each parse has a cap on its work, as has a candidate as a
//! whole. Work is counted, never timed, so that every machine decides the same: the parser's steps, and the
//! pieces of text that it asks for, since a scanner may read far ahead in one step and do so again and again.
//! Never here: what a parse error means for the choice.

use std::cell::Cell;
use std::ops::ControlFlow;

use tree_sitter::{Language, Node, ParseOptions, ParseState, Parser};

use super::ChangedFile;
use super::core::{extension, is_test};

/// Larger files are not parsed, in bytes.
const LARGEST: usize = 512 << 10;
/// The most that is parsed of one candidate, both sides counted, in bytes.
const MOST_BYTES: usize = 8 << 20;
/// The most steps of one parse, in hundreds; an honest file needs about two for every byte, so that the largest
/// one stays below half of this.
const MOST_STEPS: usize = 30_000;
/// The bytes that the parser is given at once.
const PIECE: usize = 256;
/// The most pieces of one parse: 50 MB, where an honest one asks for a file a few times over.
const MOST_PIECES: usize = 200_000;
/// What all parses of one candidate may cost, in parses that use all they may.
const PARSES: usize = 4;
/// More errors of one file are not told apart.
const MOST_ERRORS: usize = 1000;
/// More nodes of one file are not looked at when its errors are counted.
const MOST_NODES: usize = 200_000;

/// What one candidate may still cost.
struct Budget {
    bytes: usize,
    steps: usize,
    pieces: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MOST_BYTES, steps: PARSES * MOST_STEPS, pieces: PARSES * MOST_PIECES }
    }
}

/// The first of the changed files, by their order, that parses worse than in the base; test files are
/// left out. `None` when there is none.
pub fn broken(files: &[ChangedFile]) -> Option<&str> {
    let mut budget = Budget::default();
    let worse = |file: &&ChangedFile| !is_test(&file.path) && is_worse(file, &mut budget);
    files.iter().find(worse).map(|file| file.path.as_str())
}

/// Whether a file does not parse, as far as its language is known and a cap does not cut it off.
pub fn is_unreadable(path: &str, text: &[u8]) -> bool {
    let errors = Grammar::of(path).and_then(|of| errors(&of, text, &mut Budget::default()));
    errors.is_some_and(|errors| errors > 0)
}

fn is_worse(file: &ChangedFile, budget: &mut Budget) -> bool {
    let (Some(new), Some(grammar)) = (&file.new, Grammar::of(&file.path)) else { return false };
    let Some(now @ 1..) = errors(&grammar, new, budget) else { return false };
    match &file.base {
        Some(base) => errors(&grammar, base, budget).is_some_and(|before| now > before),
        None => true,
    }
}

/// How a file is read.
enum Grammar {
    TreeSitter(Language),
    Toml,
    Json,
}

impl Grammar {
    fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let language = match extension(name)?.to_ascii_lowercase().as_str() {
            "rs" => tree_sitter_rust::LANGUAGE,
            "py" | "pyi" => tree_sitter_python::LANGUAGE,
            // The grammar of JavaScript knows JSX.
            "js" | "mjs" | "cjs" | "jsx" => tree_sitter_javascript::LANGUAGE,
            "ts" | "mts" | "cts" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            "tsx" => tree_sitter_typescript::LANGUAGE_TSX,
            "go" => tree_sitter_go::LANGUAGE,
            "java" => tree_sitter_java::LANGUAGE,
            // Headers may be C++, whose words this grammar does not know.
            "c" => tree_sitter_c::LANGUAGE,
            "toml" => return Some(Self::Toml),
            "json" => return Some(Self::Json),
            _ => return None,
        };
        Some(Self::TreeSitter(language.into()))
    }
}

/// How many places of a text don't parse; `None` when that can't be said.
fn errors(grammar: &Grammar, text: &[u8], budget: &mut Budget) -> Option<usize> {
    if text.len() > LARGEST || text.contains(&0) {
        return None;
    }
    budget.bytes = budget.bytes.checked_sub(text.len())?;
    match grammar {
        Grammar::TreeSitter(language) => parsed(language, text, budget),
        Grammar::Toml => Some(usize::from(
            toml::from_str::<toml::Table>(std::str::from_utf8(text).ok()?).is_err(),
        )),
        Grammar::Json => {
            Some(usize::from(serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err()))
        }
    }
}

fn parsed(language: &Language, text: &[u8], budget: &mut Budget) -> Option<usize> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let (steps, pieces) = (Cell::new(0usize), Cell::new(0usize));
    let (most_steps, most_pieces) = (budget.steps.min(MOST_STEPS), budget.pieces.min(MOST_PIECES));
    let is_over = || steps.get() > most_steps || pieces.get() > most_pieces;
    let mut watch = |_: &ParseState| {
        steps.set(steps.get() + 1);
        match is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let options = ParseOptions::new().progress_callback(&mut watch);
    // Whoever used up the pieces sees the end of the text, and so comes to the next step.
    let mut read = |at: usize, _| {
        pieces.set(pieces.get() + 1);
        let rest = if is_over() { None } else { text.get(at..) };
        rest.map_or(&[][..], |rest| &rest[..rest.len().min(PIECE)])
    };
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    budget.steps = budget.steps.saturating_sub(steps.get());
    budget.pieces = budget.pieces.saturating_sub(pieces.get());
    // A text that ended early for the parser says nothing.
    (!is_over()).then_some(())?;
    Some(count(tree?.root_node()))
}

/// The errors below a node, without recursion: the depth is the text's to choose.
fn count(root: Node<'_>) -> usize {
    let (mut cursor, mut errors, mut nodes) = (root.walk(), 0, 0);
    loop {
        let node = cursor.node();
        nodes += 1;
        errors += usize::from(node.is_error() || node.is_missing());
        if errors >= MOST_ERRORS || nodes >= MOST_NODES {
            return errors.max(1);
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return errors;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn file(path: &str, base: Option<&str>, new: &str) -> ChangedFile {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let (base, new) = (base.map(bytes), Some(bytes(new)));
        ChangedFile { path: path.to_owned(), base, new, beside_source: true }
    }

    /// For each language, a file that parses and one that does not.
    const TEXTS: [(&str, &str, &str); 12] = [
        ("a.rs", "fn f<'a>(x: &'a str) -> u8 { 1 }\n", "fn f( { 1 }\n"),
        ("a.py", "def f(x):\n    return x\n", "def f(x:\n    return x\n"),
        ("a.pyi", "def f(x: int) -> int: ...\n", "def f(x: int -> int: ...\n"),
        ("a.js", "const f = (x) => x + 1;\n", "const f = (x => x + ;\n"),
        ("a.jsx", "const f = () => <a b={1}>x</a>;\n", "const f = () => <a b={1}>x</b;\n"),
        ("a.ts", "function f(x: number): string { return `${x}`; }\n", "function f(x: ) {\n"),
        ("a.tsx", "const f = (x: A) => <A b={x as B} />;\n", "const f = (x: A) => <A b={ />;\n"),
        (
            "a.go",
            "package a\nfunc F(x int) (int, error) { return x, nil }\n",
            "package a\nfunc F(x {\n",
        ),
        (
            "A.java",
            "class A { int f(int x) { return x; } }\n",
            "class A { int f(int x { return x; }\n",
        ),
        ("a.c", "int f(int x) { return x; }\n", "int f(int x) { return x;\n"),
        ("a.toml", "[a]\nb = 1\n", "[a\nb = 1\n"),
        ("a.json", "{\"a\": [1]}\n", "{\"a\": [1}\n"),
    ];

    #[test]
    fn a_new_parse_error_is_seen_in_each_language() {
        for (path, good, bad) in TEXTS {
            assert_eq!(broken(&[file(path, Some(good), bad)]), Some(path), "{path}");
            assert_eq!(broken(&[file(path, None, bad)]), Some(path), "{path} is new");
            assert_eq!(broken(&[file(path, Some(bad), good)]), None, "{path}");
            assert_eq!(broken(&[file(path, None, good)]), None, "{path}");
        }
    }

    #[test]
    fn an_old_error_a_test_file_and_an_unknown_language_count_against_nobody() {
        for (path, good, bad) in TEXTS {
            assert_eq!(broken(&[file(path, Some(bad), bad)]), None, "{path}: it was there before");
            let test = format!("tests/{path}");
            assert_eq!(broken(&[file(&test, Some(good), bad)]), None, "{test}");
        }
        assert_eq!(broken(&[file("a.zig", None, "fn f( {")]), None);
        let gone = ChangedFile { new: None, ..file("a.rs", Some("fn a() {}"), "") };
        assert_eq!(broken(&[gone]), None, "a deletion breaks nothing");
        let twice = "fn f( { 1 }\n\nfn g() {}\n\nfn h( { 2 }\n";
        assert_eq!(
            broken(&[file("a.rs", Some("fn f( { 1 }\n\nfn g() {}\n"), twice)]),
            Some("a.rs")
        );
    }

    #[test]
    fn work_is_counted_and_not_timed() {
        let rust = Grammar::of("a.rs").unwrap();
        let honest = "fn f(x: &str) -> u8 { g(x, r#\"a\"#) + 1 }\n".repeat(2000);
        let spent = |text: &str, mut budget: Budget| {
            let all = (budget.steps, budget.pieces);
            let said = errors(&rust, text.as_bytes(), &mut budget);
            (said, all.0 - budget.steps, all.1 - budget.pieces)
        };
        let (said, steps, pieces) = spent(&honest, Budget::default());
        assert_eq!(said, Some(0));
        let least = honest.len() / PIECE;
        assert!((least..20 * least).contains(&pieces), "{pieces} pieces for {least}");
        assert!(steps > 0 && steps < honest.len() / 10, "{steps}");
        assert_eq!(spent(&honest, Budget::default()), (said, steps, pieces), "always the same");
        // What is cut off by either count says nothing, however fast the machine is.
        let few = |steps, pieces| spent(&honest, Budget { bytes: MOST_BYTES, steps, pieces }).0;
        assert_eq!((few(steps - 1, pieces), few(steps, pieces - 1)), (None, None));
        assert_eq!(few(steps, pieces), Some(0));
        // A scanner that looks for an end that never comes, from every place.
        let ahead = "r#\"".repeat(150_000);
        let (_, _, pieces) = spent(&ahead, Budget::default());
        assert!(pieces <= MOST_PIECES + 2 * MOST_BYTES / PIECE, "{pieces}");
    }

    #[test]
    fn hostile_text_is_given_up_soon_and_held_against_nobody() {
        let began = Instant::now();
        let large = "fn f( {".repeat(LARGEST / 7 + 1);
        assert_eq!(broken(&[file("a.rs", None, &large)]), None, "over the size");
        let deep = [
            ("a.rs", "(".repeat(400_000)),
            ("b.rs", "r#\"".repeat(150_000)),
            ("c.rs", "/*".repeat(200_000)),
            ("d.py", "(\n".repeat(200_000)),
            ("e.py", (0..700).map(|n| format!("{}if x:\n", " ".repeat(n))).collect()),
            ("f.js", "`${".repeat(150_000)),
            ("g.tsx", "<a>".repeat(150_000)),
            ("h.ts", "a<".repeat(200_000)),
            ("i.c", "a*(".repeat(150_000)),
            ("j.go", "[]".repeat(200_000)),
            ("k.java", "{".repeat(400_000)),
            ("l.json", "[".repeat(400_000)),
            ("m.toml", format!("a = {}", "[".repeat(200_000))),
        ];
        for (path, text) in &deep {
            let _ = broken(&[file(path, Some(""), text)]);
        }
        let all: Vec<ChangedFile> =
            deep.iter().map(|(path, text)| file(path, Some(""), text)).collect();
        let _ = broken(&all);
        // Seconds, in all; hours if a cap did not hold.
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    }
}
