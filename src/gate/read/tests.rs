//! Readers on outputs recorded from the real tools (`tests/fixtures/gate`), with the directories renamed:
//! in folders by tool and version as `tests/toolchains/record.sh` makes them, and beside them earlier
//! ones (TypeScript 5, Go 1.27).

use super::*;

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/gate/", $name))
    };
}

fn lines<'a>(list: impl IntoIterator<Item = &'a Diagnostic>) -> Vec<String> {
    list.into_iter().map(|d| format!("{}:{} {} {}", d.path, d.line, d.code, d.message)).collect()
}

fn codes(list: &[Diagnostic]) -> Vec<&str> {
    list.iter().map(|each| each.code.as_str()).collect()
}

fn names(run: &Reading) -> Vec<&str> {
    run.passed.keys().map(String::as_str).collect()
}

#[test]
fn cargo_errors_only_in_test_targets_are_soft() {
    let soft = read(CheckTool::CargoCheck, recorded!("cargocheck_soft.txt"), "/work/cr");
    assert!(soft.is_clean());
    assert_eq!(
        lines(&soft.soft),
        [
            "src/lib.rs:9 E0308 mismatched types",
            "tests/it.rs:3 E0425 cannot find function `missing` in crate `fixture`",
        ]
    );
    let shown = soft.shown.unwrap_or_default();
    assert!(shown.contains("error[E0308]: mismatched types") && !shown.contains("\"reason\""));
}

#[test]
fn cargo_errors_of_the_library_are_hard_and_told_once() {
    let hard = read(CheckTool::CargoCheck, recorded!("cargocheck_hard.txt"), "/work/cr");
    assert!(lines(&hard.errors).contains(&"src/lib.rs:2 E0308 mismatched types".to_owned()));
    assert_eq!(hard.errors.iter().filter(|each| each.line == 2).count(), 1);
    let text = read(CheckTool::CargoCheck, recorded!("cargocheck_text.txt"), "/work/cr");
    assert!(lines(&text.errors).contains(&"src/lib.rs:2 E0308 mismatched types".to_owned()));
}

#[test]
fn cargo_test_names_tests_by_target() {
    let run = read(CheckTool::CargoTest, recorded!("cargotest.txt"), "/work/cr");
    let failed: Vec<&str> = run.failed.iter().map(|each| each.code.as_str()).collect();
    assert_eq!(failed, ["doc fixture::src/lib.rs - add", "src/lib.rs::tests::adds"]);
    let passed: Vec<&str> = run.passed.keys().map(String::as_str).collect();
    assert_eq!(
        passed,
        ["src/lib.rs::tests::panics", "src/lib.rs::tests::zero", "tests/it.rs::adds"]
    );
    let broken = read(CheckTool::CargoTest, recorded!("cargotest_broken.txt"), "/work/cr");
    assert_eq!(
        lines(&broken.errors),
        ["tests/it.rs:3 E0425 cannot find function `missing` in crate `fixture`"]
    );
}

#[test]
fn nextest_is_read_in_text_and_json() {
    // Older versions put no counter before the name.
    let old = "        PASS [   0.004s] fixture tests::zero\n";
    assert!(read(CheckTool::CargoTest, old, "").passed.contains_key("fixture::tests::zero"));

    let text = read(CheckTool::CargoTest, recorded!("nextest-0.9.143/run.txt"), "/work/rs");
    assert_eq!(codes(&text.failed), ["fixture::it::aborts", "fixture::tests::adds"]);
    assert_eq!(
        names(&text),
        ["fixture::it::adds", "fixture::tests::panics", "fixture::tests::zero"]
    );
    assert_eq!(text.count, Some(5));
    let json = read(CheckTool::CargoTest, recorded!("nextest-0.9.143/json.json"), "/work/rs");
    assert_eq!(codes(&json.failed), ["fixture::fixture::tests::adds", "fixture::it::aborts"]);
    assert_eq!(json.passed.len(), 3);
    assert!(json.shown.is_some_and(|text| !text.contains("\"event\"")));
}

#[test]
fn cargo_1_95_is_read() {
    let run = read(CheckTool::CargoTest, recorded!("cargo-1.95.0/test.txt"), "/work/rs");
    // What a test printed in nextest's form, or a process that was aborted, is no test of that name.
    assert_eq!(codes(&run.failed), ["doc fixture::src/lib.rs - add", "src/lib.rs::tests::adds"]);
    assert!(run.passed.contains_key("src/lib.rs::tests::panics"));
    let json = read(CheckTool::CargoCheck, recorded!("cargo-1.95.0/check_hard.json"), "/work/rs");
    let text = read(CheckTool::CargoCheck, recorded!("cargo-1.95.0/check_hard.txt"), "/work/rs");
    assert_eq!(codes(&json.errors), ["E0308"]);
    assert_eq!(codes(&text.errors), ["E0308"]);
    let soft = read(CheckTool::CargoCheck, recorded!("cargo-1.95.0/check_soft.json"), "/work/rs");
    assert_eq!((codes(&soft.errors), codes(&soft.soft)), (vec![], vec!["E0425"]));
    let broken = read(CheckTool::CargoTest, recorded!("cargo-1.95.0/test_broken.txt"), "/work/rs");
    assert_eq!(
        lines(&broken.errors)[0],
        "tests/soft.rs:2 E0425 cannot find function `missing` in crate `fixture`"
    );
}

#[test]
fn vitest_is_read_in_text_and_json() {
    let failed = ["v/math.test.mjs > math > adds"];
    let passed = [
        "v/math.test.mjs > math > deep > is > nested",
        "v/math.test.mjs > math > multiplies",
        "v/math.test.mjs > stands alone",
        "v/ok.test.mjs > fine",
    ];
    let json = read(CheckTool::Vitest, recorded!("vitest-4.1.12/json.json"), "/work/js");
    let verbose = read(CheckTool::Vitest, recorded!("vitest-4.1.12/verbose.txt"), "/work/js");
    let default = read(CheckTool::Vitest, recorded!("vitest-4.1.12/default.txt"), "/work/js");
    for run in [&json, &verbose, &default] {
        assert_eq!(codes(&run.failed), failed);
        assert_eq!(lines(&run.errors), ["v/broken.test.mjs:0  test file failed to run"]);
    }
    assert_eq!((names(&json), names(&verbose)), (passed.to_vec(), passed.to_vec()));
    assert_eq!((names(&default), default.count), (vec![], Some(5)));
    assert!(json.shown.is_some_and(|text| text.contains("expected -1 to be 3")));
    let ok = read(CheckTool::Vitest, recorded!("vitest-4.1.12/ok.txt"), "/work/js");
    assert_eq!((ok.failed.len(), ok.count), (0, Some(1)));
}

#[test]
fn jest_is_read_in_text_and_json() {
    let passed = [
        "j/math.test.js > math > deep > is › nested",
        "j/math.test.js > math > multiplies",
        "j/math.test.js > stands alone",
        "j/ok.test.js > fine",
    ];
    let json = read(CheckTool::Jest, recorded!("jest-30.5.2/json.json"), "/work/js");
    let verbose = read(CheckTool::Jest, recorded!("jest-30.5.2/verbose.txt"), "/work/js");
    let default = read(CheckTool::Jest, recorded!("jest-30.5.2/default.txt"), "/work/js");
    for run in [&json, &verbose, &default] {
        assert_eq!(codes(&run.failed), ["j/math.test.js > math > adds"]);
        assert_eq!(lines(&run.errors), ["j/broken.test.js:0  test file failed to run"]);
    }
    assert_eq!(names(&json), passed);
    assert_eq!(names(&verbose), passed.map(|name| name.replace(" › ", " > ")));
    assert_eq!((names(&default), default.count), (vec![], Some(5)));
}

#[test]
fn node_is_read_in_tap_and_spec() {
    let tap = read(CheckTool::NodeTest, recorded!("node-20.20.2/tap.txt"), "/work/js");
    let spec = read(CheckTool::NodeTest, recorded!("node-20.20.2/spec.txt"), "/work/js");
    for run in [&tap, &spec] {
        assert_eq!(codes(&run.failed), ["math > adds"]);
        assert_eq!(names(run), ["math > deep > is # nested", "math > multiplies", "stands alone"]);
        assert_eq!(lines(&run.errors), ["n/broken.test.js:0  test file failed to run"]);
        assert_eq!(run.count, Some(5));
    }
}

#[test]
fn mocha_is_read_in_text_and_json() {
    let spec = read(CheckTool::Mocha, recorded!("mocha-12.0.3/spec.txt"), "/work/js");
    assert_eq!(codes(&spec.failed), ["math > adds"]);
    assert_eq!(names(&spec), ["math > deep > is # nested", "math > multiplies"]);
    assert_eq!(spec.count, Some(3));
    let json = read(CheckTool::Mocha, recorded!("mocha-12.0.3/json.json"), "/work/js");
    assert_eq!(codes(&json.failed), ["math adds"]);
    assert_eq!(names(&json), ["math deep is # nested", "math multiplies"]);
    let broken = read(CheckTool::Mocha, recorded!("mocha-12.0.3/broken.txt"), "/work/js");
    assert_eq!(broken.errors.len(), 1);
}

#[test]
fn unittest_is_read_with_and_without_names() {
    let failed =
        ["u.test_calc.Calc.test_add", "u.test_calc.Calc.test_error", "u.test_calc.Calc.test_sub"];
    let verbose = read(CheckTool::Unittest, recorded!("unittest-3.11.7/verbose.txt"), "/work/py");
    let default = read(CheckTool::Unittest, recorded!("unittest-3.11.7/default.txt"), "/work/py");
    for run in [&verbose, &default] {
        assert_eq!(codes(&run.failed), failed);
        assert_eq!(lines(&run.errors), ["u/test_bad.py:0  test module failed to load"]);
        assert_eq!(run.count, Some(6));
    }
    assert_eq!(names(&verbose), ["u.test_calc.Calc.test_known", "u.test_calc.Calc.test_zero"]);
}

#[test]
fn newer_type_checkers_are_read() {
    let plain = read(CheckTool::Tsc, recorded!("tsc-7.0.2/plain.txt"), "/work/ts");
    let pretty = read(CheckTool::Tsc, recorded!("tsc-7.0.2/pretty.txt"), "/work/ts");
    assert_eq!(codes(&plain.errors), ["TS2322", "TS2322", "TS2345"]);
    assert_eq!(pretty.errors, plain.errors);
    let empty = read(CheckTool::Tsc, recorded!("tsc-7.0.2/noinputs.txt"), "/work/ts");
    assert_eq!(codes(&empty.errors), ["TS18003"]);
    let text = read(CheckTool::Mypy, recorded!("mypy-2.4.1/text.txt"), "/work/py");
    let json = read(CheckTool::Mypy, recorded!("mypy-2.4.1/json.json"), "/work/py");
    assert_eq!(codes(&text.errors).len(), 4);
    assert_eq!(json.errors, text.errors);
    let json = read(CheckTool::Pyright, recorded!("pyright-1.1.414/json.json"), "/work/py");
    let text = read(CheckTool::Pyright, recorded!("pyright-1.1.414/text.txt"), "/work/py");
    assert_eq!(json.errors.len(), 3);
    // In its text the rule stands behind the last of a message's lines.
    assert_eq!(text.errors.len(), 3);
}

#[test]
fn pytest_9_is_read() {
    let run = read(CheckTool::Pytest, recorded!("pytest-9.2.0/ours.txt"), "/work/py");
    let failed = [
        "tests/test_calc.py::TestC::test_sub",
        "tests/test_calc.py::test_add",
        "tests/test_calc.py::test_p[a - b]",
    ];
    assert_eq!(codes(&run.failed), failed);
    assert_eq!(
        names(&run),
        [
            "tests/test_calc.py::TestC::test_m",
            "tests/test_calc.py::test_p[ok]",
            "tests/test_calc.py::test_x"
        ]
    );
    assert_eq!(lines(&run.errors), ["tests/test_bad.py:0  ERROR"]);
    let stopped = read(CheckTool::Pytest, recorded!("pytest-9.2.0/default.txt"), "/work/py");
    assert_eq!(stopped.errors.len(), 1);
}

#[test]
fn go_1_19_is_read_and_a_missing_module_is_no_error_in_the_code() {
    let vet = read(CheckTool::GoBuild, recorded!("go-1.19.8/vet.txt"), "/work/go");
    assert_eq!(vet.errors.len(), 1);
    for output in [recorded!("go-1.19.8/test.json"), recorded!("go-1.19.8/verbose.txt")] {
        let run = read(CheckTool::GoTest, output, "/work/go");
        // A line that looks like an outcome is one to Go's own reader, too.
        assert_eq!(codes(&run.failed), ["example/fix.TestAdd", "example/fix.TestForged"]);
        assert!(run.passed.contains_key("example/fix.TestOk/sub_case"));
        assert!(!run.passed.contains_key("example/fix.TestSkip"));
    }
    for output in [recorded!("go-1.19.8/missing.txt"), recorded!("go-1.19.8/missing_required.txt")]
    {
        assert!(read(CheckTool::GoBuild, output, "/work/go").is_clean());
    }
}

#[test]
fn tsc_is_read_plain_and_pretty() {
    let plain = read(CheckTool::Tsc, recorded!("tsc.txt"), "/work/ts");
    assert_eq!(
        lines(&plain.errors),
        [
            "src/index.ts:2 TS2322 Type 'string' is not assignable to type 'number'.",
            "src/math.ts:2 TS2322 Type 'string' is not assignable to type 'number'.",
            "src/index.ts:3 TS2345 Argument of type 'string' is not assignable to parameter of type 'number'.",
        ]
    );
    let pretty = read(CheckTool::Tsc, recorded!("tsc_pretty.txt"), "/work/ts");
    assert_eq!(pretty.errors, plain.errors);
}

#[test]
fn mypy_and_pyright_are_read() {
    let mypy = read(CheckTool::Mypy, recorded!("mypy.txt"), "/work/py");
    assert_eq!(mypy.errors.len(), 3);
    assert!(
        lines(&mypy.errors)
            .contains(&"app/calc.py:6 name-defined Name \"c\" is not defined".to_owned())
    );
    let json = read(CheckTool::Pyright, recorded!("pyright.json"), "/work/py");
    let text = read(CheckTool::Pyright, recorded!("pyright.txt"), "/work/py");
    assert_eq!(json.errors.len(), 4);
    assert!(
        lines(&json.errors)
            .contains(&"app/calc.py:6 reportUndefinedVariable \"c\" is not defined".to_owned())
    );
    assert_eq!(text.errors.len(), 4);
}

#[test]
fn pytest_is_read_from_its_summary_alone() {
    let run = read(CheckTool::Pytest, recorded!("pytest.txt"), "/work/py");
    let failed: Vec<&str> = run.failed.iter().map(|each| each.code.as_str()).collect();
    assert_eq!(failed, ["tests/test_calc.py::test_add", "tests/test_calc.py::test_p[a - b]"]);
    assert_eq!(lines(&run.errors), ["tests/test_bad.py:0  ERROR"]);
    assert_eq!(run.passed.keys().collect::<Vec<_>>(), ["tests/test_calc.py::test_p[ok]"]);
    let forged = "PASSED tests/test_calc.py::test_add\n1 passed\n";
    assert_eq!(read(CheckTool::Pytest, forged, ""), Reading::default());
}

#[test]
fn go_is_read_in_json_and_text() {
    let vet = read(CheckTool::GoBuild, recorded!("govet.txt"), "/work/go");
    let wanted =
        "sub/f.go:4  cannot use \"x\" (untyped string constant) as int value in return statement";
    assert_eq!(lines(&vet.errors), [wanted]);
    for output in [recorded!("gotest.json"), recorded!("gotest.txt")] {
        let run = read(CheckTool::GoTest, output, "/work/go");
        assert_eq!(run.failed.len(), 1);
        assert_eq!(run.failed[0].code, "example/fix.TestAdd");
        assert!(run.passed.contains_key("example/fix.TestOk/sub_case"));
        assert!(lines(&run.errors).contains(&wanted.to_owned()));
    }
}
