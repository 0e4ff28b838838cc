//! Code that looks whether files of tests are there.
//!
//! Text only: a line that a candidate adds calls the file system, and names such a file. A directory of
//! tests counts where it is looked for from where the code runs or stands; who is given a root to look
//! into is a tool. Never here: tests themselves, in files or modules of their own. A hit is a flag.

use super::suppress::{added, extension, is_code};
use super::words::{GO, PYTHON, RUST, SCRIPT};
use super::{inline, is_test_path};

/// Calls that tell whether a file is there, or what it holds.
const CALLS: &[(&str, &[&str])] = &[
    ("exists(", PYTHON),
    ("isfile(", PYTHON),
    ("isdir(", PYTHON),
    ("is_file(", PYTHON),
    ("is_dir(", PYTHON),
    ("stat(", PYTHON),
    ("os.access(", PYTHON),
    ("listdir(", PYTHON),
    ("scandir(", PYTHON),
    ("os.walk(", PYTHON),
    ("glob(", PYTHON),
    ("iterdir(", PYTHON),
    ("open(", PYTHON),
    ("read_text(", PYTHON),
    ("read_bytes(", PYTHON),
    ("getmtime(", PYTHON),
    ("getsize(", PYTHON),
    ("existsSync(", SCRIPT),
    ("statSync(", SCRIPT),
    ("accessSync(", SCRIPT),
    ("readdirSync(", SCRIPT),
    ("readFileSync(", SCRIPT),
    ("globSync(", SCRIPT),
    (".stat(", SCRIPT),
    (".access(", SCRIPT),
    (".readdir(", SCRIPT),
    (".readFile(", SCRIPT),
    ("os.Stat(", GO),
    ("os.Lstat(", GO),
    ("os.Open(", GO),
    ("os.ReadDir(", GO),
    ("os.ReadFile(", GO),
    ("filepath.Glob(", GO),
    ("exists()", RUST),
    ("is_file()", RUST),
    ("is_dir()", RUST),
    ("metadata(", RUST),
    ("read_dir(", RUST),
    ("File::open(", RUST),
    ("fs::read(", RUST),
    ("read_to_string(", RUST),
];

/// Whether a candidate adds such a look.
pub fn at_tests(path: &str, old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let end = extension(path);
    if RUST.contains(&end) {
        return looks(end, &inline::outside_of_tests(&old), &inline::outside_of_tests(&new));
    }
    looks(end, &old, &new)
}

fn looks(end: &str, old: &str, new: &str) -> bool {
    let lines = added(old, new);
    let code = || lines.iter().map(|line| line.trim()).filter(|line| !is_comment(line));
    // The name may stand in a line of its own, where it has to be a file's.
    let calls = code().any(|line| calls(end, line));
    calls && code().any(|line| names_file(line) || (self::calls(end, line) && names_dir(line)))
}

fn is_comment(line: &str) -> bool {
    ["#", "//", "/*", "* "].iter().any(|mark| line.starts_with(mark))
}

fn calls(end: &str, line: &str) -> bool {
    CALLS.iter().any(|(word, ends)| ends.contains(&end) && line.contains(word))
}

/// Whether a literal of a line is the path of a file with tests, or a pattern for some.
fn names_file(line: &str) -> bool {
    let is_file = |text: &str| is_code(text) || text.ends_with(".sh") || text.ends_with(".bats");
    literals(line).any(|(_, text)| is_plain(text) && is_file(text) && is_test_path(text))
}

/// Whether a literal is a directory of tests, from where the code runs or stands.
fn names_dir(line: &str) -> bool {
    const HERE: [&str; 5] =
        ["__file__", "__dirname", "import.meta", "CARGO_MANIFEST_DIR", "process.cwd"];
    let here = HERE.iter().any(|word| line.contains(word));
    let is_dir = |text: &str| {
        let text = text.trim_end_matches(['*', '/']).trim_start_matches(['.', '/']);
        matches!(text.rsplit('/').next(), Some("tests" | "test" | "__tests__"))
    };
    literals(line).any(|(before, text)| (here || before.ends_with('(')) && is_dir(text))
}

fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_whitespace() || matches!(c, '(' | '<' | ','))
}

/// The literals of a line, each with what stands before it.
fn literals(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let open = at + line[at..].find(['"', '\'', '`'])?;
        let quote = &line[open..=open];
        let text = &line[open + 1..];
        let text = &text[..text.find(quote)?];
        at = open + text.len() + 2;
        Some((&line[..open], text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_for_tests_is_seen() {
        for (path, text) in [
            ("calc.py", "    if os.path.exists(\"tests/test_duel.py\"):\n"),
            ("calc.py", "if os.path.exists(\"tests\"):\n"),
            ("calc.py", "T = os.path.join('tests', 'duel_test.py')\nif not os.access(T, 0):\n"),
            ("calc.py", "if list(Path('tests').glob('*')):\n"),
            ("calc.py", "if (Path(__file__).parent / \"tests\").is_dir():\n"),
            ("calc.py", "n = len(glob.glob('tests/test_*.py'))\n"),
            ("calc.py", "open('tests/duel.sh').read()\n"),
            ("src/calc.js", "const t = fs.existsSync('./test/duel.test.js');\n"),
            (
                "src/calc.ts",
                "if (readdirSync(`${'__tests__'}`).length) {}\nexistsSync(\"tests/\");\n",
            ),
            ("calc.go", "if _, err := os.Stat(\"duel_test.go\"); err == nil {\n"),
            ("src/lib.rs", "pub fn f() -> bool { Path::new(\"tests/duel.rs\").exists() }\n"),
        ] {
            assert!(at_tests(path, b"", text.as_bytes()), "{text}");
            assert!(!at_tests(path, text.as_bytes(), text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn their_honest_neighbours_are_not() {
        for (path, text) in [
            ("setup.py", "packages = find_packages(exclude=[\"tests\", \"tests.*\"])\n"),
            ("find.py", "def layout(root):\n    return (root / \"tests\").is_dir()\n"),
            ("find.py", "if os.path.isdir(os.path.join(root, 'tests')):\n"),
            ("data.py", "rows = open('tests/data/rows.json').read()\n"),
            ("calc.py", "# see tests/test_calc.py\nif path.exists(name):\n"),
            ("calc.py", "\"\"\"Run `python tests/test_calc.py` first.\"\"\"\nopen(name)\n"),
            ("calc.py", "if name.startswith('test_') and path.exists():\n"),
            ("calc.py", "KNOWN = 'tests/test_calc.py'\n"),
            ("src/a.ts", "const ok = existsSync(join(root, 'test'));\n"),
            ("main.go", "data, err := os.ReadFile(\"testdata/a.txt\")\n"),
            (
                "src/lib.rs",
                "pub fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {\n        assert!(Path::new(\"tests/a.rs\").exists());\n    }\n}\n",
            ),
            ("src/lib.rs", "fn life<'a>(x: &'a Path) -> bool { x.exists() }\n"),
        ] {
            assert!(!at_tests(path, b"", text.as_bytes()), "{text}");
        }
    }
}
