//! Each tool for real: an old failure is told from a new one, tests by name, and what is missing is
//! nobody's failure.

use super::{Repo, Row};

/// The same four changes for each runner: one that mends, one that breaks, one that changes the meaning
/// with its test, and one that asks for a package that is not there.
fn four(repo: &Repo, test: &str, paths: [&str; 2], texts: [&str; 2], missing: &[(&str, &str)]) {
    let ([code, tests], [source, suite]) = (paths, texts);
    let mended = repo.diff("mended", &[(code, &source.replace("a - b", "a + b"))]);
    let broken = repo.diff("broken", &[(code, &source.replace("a * b", "a * b + 1"))]);
    let other = suite.replace("6", "7");
    let contested =
        repo.diff("contested", &[(code, &source.replace("a * b", "a * b + 1")), (tests, &other)]);
    let gone = repo.diff(
        "gone",
        &[(code, &format!("{}{}", EXIT[usize::from(code.ends_with(".py"))], source))],
    );
    let dependency = repo.diff("dependency", missing);
    let diffs = [mended, broken, contested, gone, dependency];
    let told = repo.gate(&["--no-check", "--test", test], &diffs);
    let row = |name: &str| -> &Row { &told[name] };
    let pairs: Vec<(&str, &str)> =
        told.iter().map(|(name, row)| (name.as_str(), row.letters.as_str())).collect();
    let wanted = [
        ("broken", "PF"),
        ("contested", "PC"),
        ("dependency", "PI"),
        ("gone", "PF"),
        ("mended", "PP"),
    ];
    assert_eq!(pairs, wanted, "{test}: {told:#?}");
    assert_eq!((row("mended").fixed > 0, row("mended").left), (true, 0), "{test}");
    assert!(row("broken").reasons.contains("multiplies"), "{test}: {}", row("broken").reasons);
    assert_eq!(row("contested").contested, 1, "{test}");
    assert!(
        row("contested").raw["gates"][1]["own"]["evidence"].as_u64() >= Some(1),
        "{test}: {:#?}",
        row("contested")
    );
}

/// Ends the process with a good status as soon as it is loaded.
const EXIT: [&str; 2] = ["process.exit(0);\n", "import os\nos._exit(0)\n"];

const CODE: &str = "exports.add = (a, b) => a - b;\nexports.multiply = (a, b) => a * b;\n";

fn script(repo: &Repo, test: &str, path: &str, head: &str, equal: [&str; 2]) {
    let [add, mul] = equal;
    let suite = format!(
        "{head}describe('math', () => {{\n  it('adds', () => {{\n    {add}\n  }});\n\n  it('multiplies', () => {{\n    {mul}\n  }});\n}});\n"
    );
    let text = std::fs::read_to_string(repo.top().join("package.json")).unwrap();
    let package = text.replace(
        "\"private\": true",
        "\"private\": true, \"dependencies\": {\"no-such-package-of-ours\": \"1\"}",
    );
    let needs = format!("require('no-such-package-of-ours');\n{CODE}");
    let missing = [("package.json", package.as_str()), ("math.js", needs.as_str())];
    four(repo, test, ["math.js", path], [CODE, &suite], &missing);
}

fn scripts(path: &str, head: &str, equal: [&str; 2]) -> Repo {
    let [add, mul] = equal;
    let suite = format!(
        "{head}describe('math', () => {{\n  it('adds', () => {{\n    {add}\n  }});\n\n  it('multiplies', () => {{\n    {mul}\n  }});\n}});\n"
    );
    let package = "{\"name\": \"x\", \"private\": true, \"type\": \"commonjs\"}\n";
    Repo::new().base(&[("math.js", CODE), (path, &suite), ("package.json", package)]).with(&["js"])
}

const EXPECT: [&str; 2] = ["expect(m.add(1, 2)).toBe(3);", "expect(m.multiply(2, 3)).toBe(6);"];
const ASSERT: [&str; 2] = ["assert.equal(m.add(1, 2), 3);", "assert.equal(m.multiply(2, 3), 6);"];

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn vitest() {
    let head = "import { describe, expect, it } from 'vitest';\nimport m from '../math.js';\n\n";
    let repo = scripts("test/math.test.mjs", head, EXPECT);
    for reporter in ["json", "verbose"] {
        let test = format!("node_modules/.bin/vitest run --reporter={reporter}");
        script(&repo, &test, "test/math.test.mjs", head, EXPECT);
    }
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn jest() {
    let head = "const m = require('../math.js');\n\n";
    let repo = scripts("test/math.test.js", head, EXPECT);
    script(&repo, "node_modules/.bin/jest --ci --json", "test/math.test.js", head, EXPECT);
    script(&repo, "node_modules/.bin/jest --ci --verbose", "test/math.test.js", head, EXPECT);
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn node_and_mocha() {
    let assert = "const assert = require('node:assert');\nconst m = require('../math.js');\n\n";
    let head = format!("const {{ describe, it }} = require('node:test');\n{assert}");
    let repo = scripts("test/math.test.js", &head, ASSERT);
    script(&repo, "node --test --test-reporter=tap test/", "test/math.test.js", &head, ASSERT);
    let repo = scripts("test/math.test.js", assert, ASSERT);
    script(&repo, "node_modules/.bin/mocha", "test/math.test.js", assert, ASSERT);
}

const PY: &str = "def add(a: int, b: int) -> int:\n    return a - b\n\n\ndef multiply(a: int, b: int) -> int:\n    return a * b\n";

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn pytest_and_unittest() {
    let suite = "import unittest\n\nfrom app.calc import add, multiply\n\n\nclass Calc(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_multiplies(self):\n        self.assertEqual(multiply(2, 3), 6)\n";
    let project = "[project]\nname = \"x\"\nversion = \"1\"\n";
    let repo = Repo::new()
        .base(&[
            ("app/__init__.py", ""),
            ("app/calc.py", PY),
            ("tests/__init__.py", ""),
            ("tests/test_calc.py", suite),
            ("pyproject.toml", project),
        ])
        .with(&["py"]);
    let wants = format!("{project}dependencies = [\"no-such-package-of-ours\"]\n");
    let needs = format!("import no_such_package_of_ours\n\n{PY}");
    let missing = [("pyproject.toml", wants.as_str()), ("app/calc.py", needs.as_str())];
    for test in [
        ".venv/bin/python -m pytest -q -rA --tb=short -p no:cacheprovider",
        ".venv/bin/python -m unittest discover -v",
    ] {
        four(&repo, test, ["app/calc.py", "tests/test_calc.py"], [PY, suite], &missing);
    }
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn tsc_and_mypy() {
    let old = "export const old: number = \"x\";\n";
    let config = "{\n  // Strict.\n  \"compilerOptions\": {\"strict\": true, \"noEmit\": true, \"types\": []},\n  \"include\": [\"src\"],\n}\n";
    let package = "{\"name\": \"x\", \"private\": true}\n";
    let repo = Repo::new()
        .base(&[("src/old.ts", old), ("tsconfig.json", config), ("package.json", package)])
        .with(&["js"]);
    let loose = config.replace("\"strict\": true", "\"strict\": false");
    let diffs = [
        repo.diff("mended", &[("src/old.ts", "export const old: number = 1;\n")]),
        repo.diff("moved", &[("src/old.ts", &format!("// Moved.\n\n{old}"))]),
        repo.diff("worse", &[("src/new.ts", "export const f = (x: number): string => x;\n")]),
        repo.diff("loose", &[("src/new.ts", "export const f = (x) => x;\n"), ("tsconfig.json", &loose)]),
        repo.diff("alias", &[("src/new.ts", "export const f = 1;\n"), ("tsconfig.json", &config.replace("\"noEmit\"", "\"jsx\": \"react-jsx\", \"noEmit\""))]),
        repo.diff("needs", &[
            ("src/new.ts", "import x from \"no-such-package-of-ours\";\nexport default x;\n"),
            ("package.json", "{\"name\": \"x\", \"private\": true, \"dependencies\": {\"no-such-package-of-ours\": \"1\"}}\n"),
        ]),
    ];
    let told = repo.gate(
        &["--check", "node_modules/.bin/tsc --noEmit --pretty false -p tsconfig.json"],
        &diffs,
    );
    let letters: Vec<&str> = told.values().map(|row| row.letters.as_str()).collect();
    assert_eq!(letters, ["PP", "PF", "PP", "PP", "PI", "PF"], "{told:#?}");
    assert!(told["needs"].reasons.contains("no-such-package-of-ours"));

    let repo = Repo::new()
        .base(&[
            ("app/calc.py", "def old() -> int:\n    return \"x\"\n"),
            ("pyproject.toml", "[tool.mypy]\nstrict = true\n"),
        ])
        .with(&["py"]);
    let diffs = [
        repo.diff("mended", &[("app/calc.py", "def old() -> int:\n    return 1\n")]),
        repo.diff("worse", &[("app/new.py", "def new() -> int:\n    return \"y\"\n")]),
        repo.diff(
            "loose",
            &[
                ("app/new.py", "def new(a):\n    return a\n"),
                ("pyproject.toml", "[tool.mypy]\nignore_errors = true\n"),
            ],
        ),
        repo.diff("gone", &[("app/new.py", "def new(a):\n    return a\n"), ("pyproject.toml", "")]),
    ];
    for output in ["", "--output json"] {
        let check = format!(".venv/bin/python -m mypy {output} app");
        let told = repo.gate(&["--check", &check], &diffs);
        let letters: Vec<&str> = told.values().map(|row| row.letters.as_str()).collect();
        assert_eq!(letters, ["PF", "PF", "PP", "PF"], "{told:#?}");
    }
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn go() {
    if std::process::Command::new("go").arg("version").output().is_err() {
        println!("go is not here: this test says nothing");
        return;
    }
    let code = "package calc\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Multiply(a, b int) int { return a * b }\n";
    let suite = "package calc\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fail()\n\t}\n}\n\nfunc Test_multiplies(t *testing.T) {\n\tif Multiply(2, 3) != 6 {\n\t\tt.Fail()\n\t}\n}\n";
    let module = "module example/calc\n\ngo 1.18\n";
    let repo = Repo::new().base(&[("go.mod", module), ("calc.go", code), ("calc_test.go", suite)]);
    let wants = format!("{module}\nrequire example.com/none/such v1.0.0\n");
    let needs =
        code.replace("package calc\n", "package calc\n\nimport _ \"example.com/none/such\"\n");
    let missing = [("go.mod", wants.as_str()), ("calc.go", needs.as_str())];
    let mended = repo.diff("mended", &[("calc.go", &code.replace("a - b", "a + b"))]);
    let broken = repo.diff("broken", &[("calc.go", &code.replace("a * b", "a * b + 1"))]);
    let ends = code
        .replace("package calc\n", "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n");
    let gone = repo.diff("gone", &[("calc.go", &ends)]);
    let dependency = repo.diff("dependency", &missing);
    let told = repo.gate(
        &["--check", "go vet ./...", "--test", "go test -json ./..."],
        &[mended, broken, gone, dependency],
    );
    let letters: Vec<(&str, &str)> =
        told.iter().map(|(name, row)| (name.as_str(), row.letters.as_str())).collect();
    assert_eq!(
        letters,
        [("broken", "PPF"), ("dependency", "PIS"), ("gone", "PPF"), ("mended", "PPP")],
        "{told:#?}"
    );
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn nextest() {
    if std::process::Command::new("cargo-nextest").arg("--version").output().is_err() {
        println!("cargo-nextest is not here: this test says nothing");
        return;
    }
    let code = "pub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\npub fn multiply(a: i64, b: i64) -> i64 {\n    a * b\n}\n";
    let suite = "#[test]\nfn adds() {\n    assert_eq!(fixture::add(1, 2), 3);\n}\n\n#[test]\nfn multiplies() {\n    assert_eq!(fixture::multiply(2, 3), 6);\n}\n";
    let manifest = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let repo = Repo::new().base(&[
        ("Cargo.toml", manifest),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"fixture\"\nversion = \"0.1.0\"\n"),
        ("src/lib.rs", code),
        ("tests/it.rs", suite),
    ]);
    let mended = repo.diff("mended", &[("src/lib.rs", &code.replace("a - b", "a + b"))]);
    let broken = repo.diff("broken", &[("src/lib.rs", &code.replace("a * b", "a * b + 1"))]);
    let told =
        repo.gate(&["--no-check", "--test", "cargo nextest run --no-fail-fast"], &[mended, broken]);
    assert_eq!(
        (told["broken"].letters.as_str(), told["mended"].letters.as_str()),
        ("PF", "PP"),
        "{told:#?}"
    );
    assert!(told["broken"].reasons.contains("multiplies"));
}
