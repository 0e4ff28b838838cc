//! Finding files and lines.

use serde_json::json;

use crate::tools::testing::Fixture;

fn tree() -> Fixture {
    let fixture = Fixture::new();
    fixture.put(".gitignore", "target/\n*.log\n!keep.log\n");
    fixture.put("src/main.rs", "fn main() {\n    needle();\n}\n");
    fixture.put("src/deep/lib.rs", "fn needle() {}\n// Needle\n");
    fixture.put("src/deep/.gitignore", "gen.rs\n");
    fixture.put("src/deep/gen.rs", "needle\n");
    fixture.put("gen.rs", "x\n");
    fixture.put("target/out.rs", "needle\n");
    fixture.put("a.log", "needle\n");
    fixture.put("keep.log", "needle\n");
    fixture.put(".github/ci.yml", "needle: 1\n");
    fixture.put(".env", "NEEDLE=needle\n");
    fixture.put(".git/needle.rs", "needle\n");
    fixture.put("bin.dat", b"needle\x00needle\n");
    fixture
}

#[test]
fn glob_keeps_the_ignore_rules() {
    let fixture = tree();
    assert_eq!(
        fixture.done("glob", json!({"pattern": "*.rs"})),
        "gen.rs\nsrc/deep/lib.rs\nsrc/main.rs"
    );
    assert_eq!(fixture.done("glob", json!({"pattern": "src/*.rs"})), "src/main.rs");
    assert_eq!(
        fixture.done("glob", json!({"pattern": "**/*.{yml,log}"})),
        ".github/ci.yml\nkeep.log"
    );
    assert_eq!(
        fixture.done("glob", json!({"pattern": "*.rs", "path": "src/deep"})),
        "src/deep/lib.rs"
    );
    assert!(fixture.done("glob", json!({"pattern": "*.zig"})).contains("no file"));
    fixture.refused("glob", json!({"pattern": "[a"}));
}

#[test]
fn grep_finds_lines_and_passes_over_git_secrets_binaries_and_ignored_files() {
    let fixture = tree();
    let text = fixture.done("grep", json!({"pattern": "needle"}));
    assert_eq!(
        text,
        ".github/ci.yml:1:needle: 1\nkeep.log:1:needle\nsrc/deep/lib.rs:1:fn needle() {}\nsrc/main.rs:2:    needle();\n[1 file of secrets was not searched]\n"
    );
    let text = fixture.done(
        "grep",
        json!({"pattern": "NEEDLE", "ignore_case": true, "glob": "*.rs", "files_only": true}),
    );
    assert!(text.starts_with("src/deep/lib.rs\nsrc/main.rs\n"), "{text}");
    let text = fixture.done(
        "grep",
        json!({"pattern": "needle()", "literal": true, "path": "src/main.rs", "context": 99}),
    );
    assert_eq!(text, "src/main.rs-1-fn main() {\nsrc/main.rs:2:    needle();\nsrc/main.rs-3-}\n");
    assert!(
        fixture
            .done("grep", json!({"pattern": "nowhere-at-all", "path": "src"}))
            .contains("no match")
    );
    assert!(fixture.refused("grep", json!({"pattern": "("})).contains("literal"));
    fixture.refused("grep", json!({"pattern": "x", "path": ".env"}));
    fixture.refused("grep", json!({"pattern": "x", "path": "none"}));
    fixture.refused("grep", json!({"pattern": "(a{1000}){1000}"}));
}

#[test]
fn answers_have_a_hard_cap() {
    let fixture = Fixture::new();
    fixture.put("long", format!("needle {}\n", "x".repeat(100_000)));
    fixture.put("many", "needle\n".repeat(5000));
    for index in 0..900 {
        fixture.put(&format!("d/{index}.txt"), "x");
    }
    let text = fixture.done("grep", json!({"pattern": "needle"}));
    assert!(text.len() < 50 * 1024 && text.contains("more matches"), "{}", text.len());
    assert!(text.lines().count() <= 203);
    let text = fixture.done("glob", json!({"pattern": "*.txt"}));
    assert!(text.ends_with("[500 of 900 paths; narrow the pattern to see the rest]"));
}

#[test]
fn a_cancelled_call_ends() {
    let fixture = tree();
    fixture.context.cancel.cancel();
    assert!(fixture.refused("grep", json!({"pattern": "needle"})).contains("stopped"));
}

/// A name with a line break, an escape or a character that does not show makes no line that another file could
/// have made.
#[test]
fn names_forge_no_lines() {
    let fixture = Fixture::new();
    fixture.put("zz\nsrc/lib.rs", "needle\n");
    fixture.put("\u{1b}[2Jx", "needle\n");
    fixture.put("ab\u{202e}c", "needle\n");
    let found = fixture.done("grep", json!({"pattern": "needle"}));
    let listed = fixture.done("glob", json!({"pattern": "**"}));
    for text in [&found, &listed] {
        assert_eq!(text.trim_end().lines().count(), 3, "{text}");
        assert!(!text.lines().any(|line| line.starts_with("src/lib.rs")), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        assert!(text.contains("\"zz\\nsrc/lib.rs\" (not usable as an argument)"), "{text}");
    }
}
