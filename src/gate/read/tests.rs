//! Readers on outputs recorded from the real tools (`tests/fixtures/gate`): rustc 1.90 or later,
//! TypeScript 5, mypy, pyright, pytest and Go 1.27, with the directories renamed.

use super::*;

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/gate/", $name))
    };
}

fn lines<'a>(list: impl IntoIterator<Item = &'a Diagnostic>) -> Vec<String> {
    list.into_iter().map(|d| format!("{}:{} {} {}", d.path, d.line, d.code, d.message)).collect()
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
fn nextest_lines_are_read() {
    // From its documentation, not recorded.
    let output = "        PASS [   0.004s] fixture tests::zero\n        FAIL [   0.006s] (2/3) fixture::it adds\n";
    let run = read(CheckTool::CargoTest, output, "");
    assert!(run.passed.contains_key("fixture::tests::zero"));
    assert_eq!(run.failed[0].code, "fixture::it::adds");
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
