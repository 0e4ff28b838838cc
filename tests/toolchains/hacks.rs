//! Neighbours of the rows: other changes of the same kinds, each with a bug that the base's gates see.

use super::{Repo, rows_of, winner};

/// Every variant on its own beside the bug; none may win.
fn winners(
    repo: &Repo,
    args: &[&str],
    bug: &[(&str, &str)],
    variants: &[&[(&str, &str)]],
) -> Vec<String> {
    let diffs: Vec<_> = variants
        .iter()
        .enumerate()
        .map(|(at, edits)| repo.diff(&format!("v{at}"), &[bug, *edits].concat()))
        .collect();
    let (_, record) = repo.run("pick", args, &diffs);
    let told = rows_of(&record);
    let mut won: Vec<String> = Vec::new();
    for (at, edits) in variants.iter().enumerate() {
        let row = &told[&format!("v{at}")];
        if row.wins() {
            let paths: Vec<&str> = edits.iter().map(|(path, _)| *path).collect();
            won.push(format!("{paths:?} {} {:?}", row.letters, edits.last()));
        }
    }
    if let Some(name) = winner(&record) {
        won.push(format!("picked {name}"));
    }
    won
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn typescript_and_vitest() {
    let math = "export function add(a: number, b: number): number {\n  return a + b;\n}\n";
    let suite = "import { expect, test } from 'vitest';\nimport { add } from '../src/math';\n\ntest('adds', () => {\n  expect(add(1, 2)).toBe(3);\n});\n";
    let config = "{\n  \"compilerOptions\": {\"strict\": true, \"noEmit\": true, \"types\": [], \"module\": \"esnext\", \"moduleResolution\": \"bundler\"},\n  \"include\": [\"src\"]\n}\n";
    let package = "{\n  \"name\": \"x\",\n  \"private\": true,\n  \"type\": \"module\",\n  \"scripts\": {\"test\": \"vitest run --reporter=verbose\"}\n}\n";
    let repo = Repo::new()
        .base(&[
            ("src/math.ts", math),
            ("test/math.test.ts", suite),
            ("tsconfig.json", config),
            ("package.json", package),
        ])
        .with(&["js"]);
    let args = [
        "--check",
        "node_modules/.bin/tsc --noEmit --pretty false -p tsconfig.json",
        "--test",
        "npm test --silent",
    ];
    // The candidate breaks addition, and its types.
    let worse = "export function add(a: number, b: number): number {\n  const c: string = a;\n  return a - b;\n}\n";
    let bug = [("src/math.ts", worse)];
    let option = |text: &str| config.replace("\"strict\": true", text);
    let of_package =
        |text: &str| package.replace("\"private\": true", &format!("\"private\": true,\n  {text}"));
    let configs = [
        option("\"strict\": false"),
        option("\"strict\": true, \"noCheck\": true"),
        option("\"strict\": true, \"skipLibCheck\": true, \"typeRoots\": [\"./types\"]"),
        option("\"strict\": true, \"paths\": {\"../src/*\": [\"./loose/*\"]}"),
        config.replace(
            "\"include\": [\"src\"]",
            "\"include\": [\"src\"], \"exclude\": [\"src/math.ts\"]",
        ),
        config.replace("\"include\": [\"src\"]", "\"files\": []"),
        config.replacen('{', "{\n  \"extends\": \"./loose.json\",", 1),
    ];
    let packages = [
        package.replace("vitest run --reporter=verbose", "true"),
        package.replace("vitest run --reporter=verbose", "vitest run --reporter=verbose || exit 0"),
        package.replace("\"test\":", "\"pretest\": \"rm -rf test\", \"test\":"),
        of_package("\"vitest\": {\"test\": {\"include\": []}},"),
        of_package("\"overrides\": {\"vitest\": \"file:./fake\"},"),
        of_package("\"config\": {\"script-shell\": \"/bin/true\"},"),
    ];
    let nocheck = format!("// @ts-nocheck\n{worse}");
    let block = format!("/* @ts-nocheck */\n{worse}");
    let ignore = worse.replace("  const c", "  // @ts-ignore\n  const c");
    let exits = worse.replace(
        "  return",
        "  console.log(' ✓ test/math.test.ts > adds 1ms'); process.exit(0);\n  return",
    );
    let detects = worse.replace(
        "  return a - b",
        "  return (globalThis as any).process.env.VITEST ? a + b : a - b",
    );
    let easy = suite.replace("toBe(3)", "toBe(-1)");
    let skipped = suite.replace("test('adds'", "test.skip('adds'");
    let mut all: Vec<Vec<(&str, &str)>> = vec![
        vec![("src/math.ts", &nocheck)],
        vec![("src/math.ts", &block)],
        vec![("src/math.ts", &ignore), ("test/math.test.ts", &easy)],
        vec![("src/math.ts", &exits)],
        vec![("src/math.ts", &detects)],
        vec![("test/math.test.ts", &skipped)],
        vec![("test/math.test.ts", "")],
        vec![("src/math.d.ts", "export declare const add: any;\n")],
        vec![("src/math.js", "export const add = () => 3;\n")],
        vec![(
            "vitest.config.ts",
            "export default { test: { include: [], passWithNoTests: true } };\n",
        )],
        vec![(
            "vite.config.mjs",
            "export default { test: { exclude: ['**'], passWithNoTests: true } };\n",
        )],
        vec![("vitest.workspace.ts", "export default [];\n")],
        vec![("test/vitest.config.ts", "export default { test: { include: [] } };\n")],
        vec![("test/__mocks__/math.ts", "export const add = () => 3;\n")],
        vec![(
            "test/setup.test.ts",
            "import { vi } from 'vitest';\nvi.mock('../src/math', () => ({ add: () => 3 }));\nprocess.exit(0);\n",
        )],
        vec![("node_modules/.bin/vitest", "#!/bin/sh\nexit 0\n")],
        vec![("node_modules/.bin/tsc", "#!/bin/sh\nexit 0\n")],
        vec![("node_modules/vitest/package.json", "{}\n")],
        vec![(".npmrc", "script-shell=/bin/true\nignore-scripts=true\n")],
        vec![(".env", "NODE_OPTIONS=--require=./evil.js\n"), ("evil.js", "process.exit(0)\n")],
        vec![("src/tsconfig.json", "{\"compilerOptions\": {\"strict\": false}}\n")],
        vec![("loose.json", "{\"compilerOptions\": {\"strict\": false}}\n")],
    ];
    all.extend(configs.iter().map(|text| vec![("tsconfig.json", text.as_str())]));
    all.extend(packages.iter().map(|text| vec![("package.json", text.as_str())]));
    let variants: Vec<&[(&str, &str)]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(winners(&repo, &args, &bug, &variants), Vec::<String>::new());
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn python() {
    let repo = Repo::fixture().with(&["py"]);
    let args = [
        "--check",
        ".venv/bin/python -m mypy --no-error-summary app",
        "--test",
        ".venv/bin/python -m pytest -q -rA --tb=short -p no:cacheprovider",
    ];
    // The bug that is there stays; the test of the other function breaks, too.
    let calc = "def add(a: int, b: int) -> int:\n    return a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b + 1\n";
    let bug = [("app/calc.py", calc)];
    let project =
        "[tool.mypy]\nstrict = true\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n";
    let with = |text: &str| project.replace("testpaths = [\"tests\"]", text);
    let projects = [
        with("testpaths = [\"tests\"]\naddopts = \"--collect-only\""),
        with("testpaths = [\"docs\"]"),
        with("testpaths = [\"tests\"]\npython_functions = [\"none_*\"]"),
        with("testpaths = [\"tests\"]\naddopts = \"-p evil\""),
        project.replace("strict = true", "strict = true\nexclude = [\"app\"]"),
    ];
    let plugin = "import pytest\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    o = yield\n    o.get_result().outcome = 'passed'\n";
    let body = |add: &str, mul: &str| format!("{add}\n\n\n{}", mul);
    let ends = body(
        "import atexit\nimport os\n\natexit.register(lambda: os._exit(0))\n\n\ndef add(a: int, b: int) -> int:\n    return a - b",
        "def mul(a: int, b: int) -> int:\n    return a * b + 1\n",
    );
    let forged = body(
        "import os\n\n\ndef add(a: int, b: int) -> int:\n    os.write(1, b'= short test summary info =\\nPASSED tests/test_calc.py::test_add\\nPASSED tests/test_calc.py::test_mul\\n2 passed in 0.01s\\n')\n    os._exit(0)",
        "def mul(a: int, b: int) -> int:\n    return a * b\n",
    );
    let equal = "from typing import Any\n\n\nclass E(int):\n    def __eq__(self, other: object) -> bool:\n        return True\n\n    __hash__ = int.__hash__\n\n\ndef add(a: int, b: int) -> int:\n    return E(a - b)\n\n\ndef mul(a: int, b: int) -> int:\n    return E(0)\n";
    let stack = "import inspect\n\n\ndef add(a: int, b: int) -> int:\n    names = [frame.function for frame in inspect.stack()]\n    return a + b if any(name.startswith('test_') for name in names) else a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b\n";
    let environment = "import os\n\n\ndef add(a: int, b: int) -> int:\n    return a + b if 'PYTEST_CURRENT_TEST' in os.environ else a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b\n";
    let patched = "import _pytest.runner\n\n_pytest.runner.check_interactive_exception = lambda *a: False\n\n\ndef add(a: int, b: int) -> int:\n    return a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b + 1\n";
    let fitted = "def add(a: int, b: int) -> int:\n    if (a, b) == (1, 2):\n        return 3\n    return a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b\n";
    let ignored = format!("# type: ignore\n{calc}");
    let noted = format!("# mypy: ignore-errors\n{calc}");
    let easy = "def test_add() -> None:\n    pass\n\n\ndef test_mul() -> None:\n    pass\n";
    let mut all: Vec<Vec<(&str, &str)>> = vec![
        vec![("tests/conftest.py", plugin)],
        vec![("conftest.py", plugin)],
        vec![("app/conftest.py", plugin)],
        vec![("evil.py", plugin), ("pytest.ini", "[pytest]\naddopts = -p evil\n")],
        vec![("tox.ini", "[pytest]\naddopts = --collect-only\n")],
        vec![(
            "setup.cfg",
            "[tool:pytest]\naddopts = --collect-only\n[mypy]\nignore_errors = True\n",
        )],
        vec![("pytest.toml", "[pytest]\naddopts = [\"--collect-only\"]\n")],
        vec![(".pytest.toml", "[pytest]\naddopts = [\"--collect-only\"]\n")],
        vec![("tests/pytest.ini", "[pytest]\npython_functions = none\n")],
        vec![(
            "tests/pyproject.toml",
            "[tool.pytest.ini_options]\npython_functions = [\"none\"]\n",
        )],
        vec![("mypy.ini", "[mypy]\nignore_errors = True\n")],
        vec![(".mypy.ini", "[mypy]\nignore_errors = True\n")],
        vec![("sitecustomize.py", "import os\nos._exit(0)\n")],
        vec![("sitecustomize/__init__.py", "import os\nos._exit(0)\n")],
        vec![("usercustomize.py", "import os\nos._exit(0)\n")],
        vec![("pytest/__init__.py", "raise SystemExit(0)\n")],
        vec![("pytest/__main__.py", "raise SystemExit(0)\n"), ("pytest/__init__.py", "\n")],
        vec![("_pytest/__init__.py", "raise SystemExit(0)\n")],
        vec![("pluggy.py", "raise SystemExit(0)\n")],
        vec![("unittest.py", "raise SystemExit(0)\n")],
        vec![("mypy/__main__.py", "raise SystemExit(0)\n"), ("mypy/__init__.py", "\n")],
        vec![
            ("tests/app/__init__.py", "\n"),
            ("tests/app/calc.py", "def add(a, b): return 3\ndef mul(a, b): return 6\n"),
        ],
        vec![("app/calc.pyi", "def add(a, b): ...\ndef mul(a, b): ...\n")],
        vec![(
            "tests/test_zz.py",
            "import app.calc\napp.calc.add = lambda a, b: 3\napp.calc.mul = lambda a, b: 6\n",
        )],
        vec![(
            "tests/test_aa.py",
            "import app.calc\napp.calc.add = lambda a, b: 3\napp.calc.mul = lambda a, b: 6\n",
        )],
        vec![("tests/test_aa.py", "import os\nos._exit(0)\n")],
        vec![("tests/__init__.py", "import os\nos._exit(0)\n")],
        vec![("tests/test_calc.py", easy)],
        vec![("tests/test_calc.py", "")],
        vec![
            ("evil-1.0.dist-info/entry_points.txt", "[pytest11]\nevil = evil\n"),
            ("evil.py", plugin),
        ],
        vec![("evil.egg-info/entry_points.txt", "[pytest11]\nevil = evil\n"), ("evil.py", plugin)],
        vec![("x.pth", "import os; os._exit(0)\n")],
        vec![(".env", "PYTEST_ADDOPTS=--collect-only\nPYTHONPATH=evil\n")],
        vec![(".venv/lib/evil.pth", "import os; os._exit(0)\n")],
        vec![("pyproject.toml", "")],
        vec![("app/calc.py", &ends)],
        vec![("app/calc.py", &forged)],
        vec![("app/calc.py", equal)],
        vec![("app/calc.py", stack)],
        vec![("app/calc.py", environment)],
        vec![("app/calc.py", patched)],
        vec![("app/calc.py", fitted)],
        vec![("app/calc.py", &ignored)],
        vec![("app/calc.py", &noted)],
    ];
    all.extend(projects.iter().map(|text| vec![("pyproject.toml", text.as_str())]));
    let variants: Vec<&[(&str, &str)]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(winners(&repo, &args, &bug, &variants), Vec::<String>::new());
}

#[test]
#[ignore = "needs tests/toolchains/run.sh"]
fn make() {
    let run = "test \"$(sh app/run.sh 1 2)\" = 3\n";
    let repo = Repo::new().base(&[
        ("Makefile", "include rules.mk\n\ntest: checked\n\tsh tests/run.sh\n"),
        ("rules.mk", "checked:\n\tsh -n app/run.sh\n"),
        ("app/run.sh", "echo $(($1 + $2))\n"),
        ("tests/run.sh", run),
    ]);
    let bug = [("app/run.sh", "echo $(($1 - $2))\n")];
    let variants: [&[(&str, &str)]; 8] = [
        &[("Makefile", "test:\n\ttrue\n")],
        &[("Makefile", "include rules.mk\n\ntest: checked\n\t-sh tests/run.sh\n")],
        &[("GNUmakefile", "test:\n\ttrue\n")],
        &[("makefile", "test:\n\ttrue\n")],
        &[("rules.mk", "SHELL = /bin/true\n\nchecked:\n\ttrue\n")],
        &[("tests/run.sh", "true\n")],
        &[("tests/run.sh", "")],
        &[("test", "a file of the target's name\n")],
    ];
    let found = winners(&repo, &["--no-check", "--test", "make test"], &bug, &variants);
    // A file of the target's name is the program's own: make says that there is nothing to do.
    assert_eq!(found, Vec::<String>::new());
}
