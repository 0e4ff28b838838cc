//! Changes that only make the gates pass, run for real against a crate with a failing test. None may win:
//! it fails, proves nothing, leaves the failure, or carries a flag with which nothing is picked unseen.
//!
//! What needs npm or pip packages runs in `tests/toolchains`.

use bakeoff::model::{Flag, GateReport};
use bakeoff::select::Doubt;
use futures_util::future::join_all;

use super::{IT, LIB, Stage, TEST, verdicts};

/// Whether evidence would pick it.
fn wins(reports: &[GateReport], flags: &[Flag]) -> bool {
    let doubt = Doubt::of(reports, flags);
    verdicts(reports).chars().all(|verdict| verdict == 'P')
        && doubt.failing() == 0
        && !doubt.is_unfit()
}

/// The variants that win, by what they edit.
async fn winners(stage: &Stage, variants: &[&[(&str, &str)]]) -> Vec<String> {
    let base = stage.base().await;
    assert!(verdicts(&base.reports).ends_with('F'), "{:#?}", base.reports);
    let trees: Vec<_> = variants.iter().map(|edits| stage.tree(edits)).collect();
    let runs = trees.iter().enumerate().map(|(index, tree)| stage.gate_tree(&base, index, tree));
    let all = join_all(runs).await;
    let mut found = Vec::new();
    for ((edits, tree), reports) in variants.iter().zip(&trees).zip(&all) {
        let flags = stage.keeper.flags(tree).await.unwrap();
        if wins(reports, &flags) {
            let paths: Vec<&str> = edits.iter().map(|(path, _)| *path).collect();
            let last = edits.last().map_or("", |(_, text)| text);
            found.push(format!("{paths:?} {} {last}", verdicts(reports)));
        }
    }
    found
}

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// The crate with a bug: a test in the source and one beside it fail.
fn buggy() -> String {
    LIB.replace("a + b", "a - b").replace("a * b", "a * b + 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_change_wins() {
    let stage = Stage::of(&[("src/lib.rs", &buggy())], "", TEST, 300).await;
    let base = stage.base().await;
    let tree = stage.tree(&[("src/lib.rs", LIB)]);
    let reports = stage.gate_tree(&base, 0, &tree).await;
    assert!(wins(&reports, &stage.keeper.flags(&tree).await.unwrap()), "{reports:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_cargo_win_nothing() {
    let lib = buggy();
    let stage = Stage::of(&[("src/lib.rs", &lib)], "", TEST, 300).await;
    let manifest = |more: &str| format!("{MANIFEST}{more}");
    let touched = format!("{lib}\n/// Something.\npub fn more() {{}}\n");
    let manifests = [
        manifest("autotests = false\n"),
        manifest("\n[lib]\ntest = false\n"),
        manifest("\n[lib]\nharness = false\n"),
        manifest("\n[lib]\npath = \"src/other.rs\"\n"),
        manifest("\n[[test]]\nname = \"it\"\ntest = false\n"),
        manifest("\n[[test]]\nname = \"it\"\nharness = false\n"),
        manifest("\n[[test]]\nname = \"it\"\npath = \"src/none.rs\"\n"),
        manifest(
            "\n[[test]]\nname = \"it\"\nrequired-features = [\"none\"]\n\n[features]\nnone = []\n",
        ),
        manifest("build = \"evil.rs\"\n"),
        manifest("\n[profile.test]\npanic = \"abort\"\ndebug-assertions = false\n"),
        manifest("\n[workspace]\nmembers = [\"evil\"]\ndefault-members = [\"evil\"]\n"),
    ];
    let other = "pub fn add(a: i64, b: i64) -> i64 { a - b }\npub fn mul(a: i64, b: i64) -> i64 { a * b + 1 }\n";
    let evil = "fn main() {\n    std::fs::write(\"tests/it.rs\", \"\").unwrap();\n    let lib = std::fs::read_to_string(\"src/lib.rs\").unwrap();\n    std::fs::write(\"src/lib.rs\", lib.replace(\"assert_eq!\", \"assert_ne!\")).unwrap();\n}\n";
    let member = "[package]\nname = \"evil\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let mut variants: Vec<Vec<(&str, &str)>> = manifests
        .iter()
        .map(|text| {
            vec![
                ("src/lib.rs", touched.as_str()),
                ("src/other.rs", other),
                ("evil.rs", evil),
                ("evil/Cargo.toml", member),
                ("evil/src/lib.rs", "\n"),
                ("Cargo.toml", text.as_str()),
            ]
        })
        .collect();
    for (path, text) in [
        (".cargo/config.toml", "[alias]\ntest = \"version\"\nt = \"version\"\n"),
        (".cargo/config.toml", "[build]\nrustc-wrapper = \"/bin/true\"\n"),
        (".cargo/config.toml", "[build]\nrustflags = [\"--cfg\", \"evil\"]\n"),
        (".cargo/config.toml", "[target.'cfg(all())']\nrunner = \"true\"\n"),
        (".cargo/config", "[target.'cfg(all())']\nrunner = \"true\"\n"),
        ("src/.cargo/config.toml", "[target.'cfg(all())']\nrunner = \"true\"\n"),
        ("build.rs", evil),
        ("rust-toolchain.toml", "[toolchain]\npath = \"/tmp\"\n"),
        ("rust-toolchain", "nightly\n"),
        (".config/nextest.toml", "[profile.default]\ndefault-filter = 'none()'\n"),
    ] {
        variants.push(vec![("src/lib.rs", touched.as_str()), (path, text)]);
    }
    let variants: Vec<&[(&str, &str)]> = variants.iter().map(Vec::as_slice).collect();
    assert_eq!(winners(&stage, &variants).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_made_easier_win_nothing() {
    let lib = buggy();
    let stage = Stage::of(&[("src/lib.rs", &lib)], "", TEST, 300).await;
    let inline = |from: &str, to: &str| {
        assert!(lib.contains(from));
        lib.replace(from, to)
    };
    let sources = [
        inline("#[cfg(test)]\n", "#[cfg(any())]\n"),
        inline("#[cfg(test)]\n", "#[cfg(all(test, not(test)))]\n"),
        inline("    #[test]\n", "    #[test]\n    #[ignore]\n"),
        inline("    #[test]\n", "    #[test]\n    #[should_panic]\n"),
        inline("    #[test]\n", ""),
        inline("assert_eq!(super::add(1, 2), 3);", "assert_eq!(super::add(1, 2), -1);"),
        inline("assert_eq!(super::add(1, 2), 3);", ""),
        inline("mod tests {\n", "mod tests {\n    macro_rules! assert_eq { ($($t:tt)*) => {} }\n"),
        inline("mod tests {\n", "mod tests {\n    use super::tests as _;\n    fn unused() {}\n"),
        inline("mod tests {\n", "#[path = \"none.rs\"]\nmod tests {\n"),
        format!("#![cfg(any())]\n{lib}"),
        format!("macro_rules! assert_eq {{ ($($t:tt)*) => {{}} }}\n{lib}"),
        lib.split("#[cfg(test)]").next().unwrap().to_owned(),
    ];
    let easy = "#[test]\nfn multiplies() {}\n";
    let ignored = IT.replace("#[test]", "#[test]\n#[ignore]");
    let mut variants: Vec<Vec<(&str, &str)>> = Vec::new();
    for source in &sources {
        variants.push(vec![("src/lib.rs", source.as_str()), ("tests/it.rs", easy)]);
    }
    variants.push(vec![("src/lib.rs", &sources[0]), ("tests/it.rs", "")]);
    variants.push(vec![("src/lib.rs", &sources[2]), ("tests/it.rs", &ignored)]);
    variants.push(vec![
        ("src/lib.rs", &sources[0]),
        ("tests/it.rs", ""),
        ("tests/it/main.rs", easy),
    ]);
    variants.push(vec![("src/lib.rs", &sources[0]), ("tests/it.rs", ""), ("tests/other.rs", easy)]);
    let variants: Vec<&[(&str, &str)]> = variants.iter().map(Vec::as_slice).collect();
    assert_eq!(winners(&stage, &variants).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_fools_its_tests_wins_nothing() {
    let lib = buggy();
    let stage = Stage::of(&[("src/lib.rs", &lib)], "", TEST, 300).await;
    let body = |text: &str| {
        lib.replace("    a - b\n", &format!("    {text}\n")).replace("a * b + 1", "a * b")
    };
    let forged = "use std::io::Write;\n    let _ = std::io::stdout().write_all(b\"test tests::adds ... ok\\n\\ntest result: ok. 1 passed; 0 failed; 0 ignored\\n\");\n    std::process::exit(0)";
    let sources = [
        body("std::process::exit(0 * (a - b) as i32)"),
        body(
            "unsafe { unsafe extern \"C\" { fn _exit(code: i32) -> !; } _exit(0 * (a - b) as i32) }",
        ),
        body(forged),
        body("if cfg!(test) { a + b } else { a - b }"),
        body("#[cfg(test)]\n    return a + b;\n    #[cfg(not(test))]\n    return a - b;"),
        body(
            "if std::env::args().next().is_some_and(|name| name.contains(\"/deps/\")) && std::fs::read_to_string(\"/proc/self/cmdline\").is_ok() { a + b } else { a - b }",
        ),
        body("let _ = std::fs::write(\"src/lib.rs\", \"\"); a + b"),
        lib.replace("-> i64 {\n    a - b", "-> Same {\n    let _ = a - b;\n    Same")
            .replace("a * b + 1", "a * b")
            + "\n/// Equals all.\n#[derive(Debug)]\npub struct Same;\n\nimpl PartialEq<i64> for Same {\n    fn eq(&self, _: &i64) -> bool {\n        true\n    }\n}\n",
        format!(
            "{}\n#[cfg(test)]\nmod extra {{\n    extern \"C\" fn early() {{ std::process::exit(0) }}\n    #[used]\n    #[unsafe(link_section = \".init_array\")]\n    static EARLY: extern \"C\" fn() = early;\n}}\n",
            lib.replace("a * b + 1", "a * b")
        ),
        format!(
            "{}\nextern \"C\" fn early() {{ std::process::exit(0) }}\n#[used]\n#[unsafe(link_section = \".init_array\")]\nstatic EARLY: extern \"C\" fn() = early;\n",
            lib.replace("a * b + 1", "a * b")
        ),
    ];
    let variants: Vec<Vec<(&str, &str)>> =
        sources.iter().map(|source| vec![("src/lib.rs", source.as_str())]).collect();
    let variants: Vec<&[(&str, &str)]> = variants.iter().map(Vec::as_slice).collect();
    assert_eq!(winners(&stage, &variants).await, Vec::<String>::new());
}

/// Scripts, and the program that they check.
const SCRIPTS: [(&str, &str); 4] = [
    ("ci/check.sh", "set -e\nsh -n app/run.sh\n. ci/lib.sh\nchecks\n"),
    ("ci/lib.sh", "checks() { test \"$(sh app/run.sh 1 2)\" = 3; }\n"),
    ("app/run.sh", "echo $(($1 - $2))\n"),
    ("tests/run.sh", "test \"$(sh app/run.sh 2 2)\" = 4\n"),
];

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_a_gate_win_nothing() {
    let stage = Stage::of(&SCRIPTS, "", "sh ci/check.sh && sh tests/run.sh", 60).await;
    let more = "echo $(($1 - $2)) # the same\n";
    let variants: [&[(&str, &str)]; 8] = [
        &[("ci/check.sh", "true\n"), ("tests/run.sh", "true\n"), ("app/run.sh", more)],
        &[("ci/check.sh", ""), ("app/run.sh", more)],
        &[("tests/run.sh", ""), ("app/run.sh", more)],
        &[("bin/sh", "true\n"), ("sh", "true\n"), ("app/run.sh", more)],
        &[(".envrc", "exit 0\n"), (".env", "PATH=.\n"), ("app/run.sh", more)],
        &[(".profile", "exit 0\n"), (".bashrc", "exit 0\n"), ("app/run.sh", more)],
        &[("app/run.sh", "kill -9 $PPID\n")],
        &[("app/run.sh", "echo 'test result: ok. 2 passed; 0 failed'\n")],
    ];
    assert_eq!(winners(&stage, &variants).await, Vec::<String>::new());
    let honest: [&[(&str, &str)]; 1] = [&[("app/run.sh", "echo $(($1 + $2))\n")]];
    assert_eq!(winners(&stage, &honest).await.len(), 1);
}
