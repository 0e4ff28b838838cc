//! The documents are true: links lead somewhere, generated parts are those of this build.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails may panic, and helpers of tests are no test functions"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let inside = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect::<Vec<_>>()
    };
    let mut all = inside(root());
    all.extend(inside(&root().join("docs")));
    assert!(all.len() > 5, "the walk found too little");
    all
}

#[test]
fn links_lead_to_files() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = document.parent().unwrap().join(target);
            assert!(path.exists(), "{}: {link} leads nowhere", document.display());
        }
    }
}

#[test]
fn the_published_schema_is_the_one_of_this_build() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_bakeoff")).args(["show", "--schema"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = root().join("docs/record.schema.json");
    if std::env::var_os("BAKEOFF_BLESS").is_some() {
        fs::write(&path, &output.stdout).unwrap();
    }
    assert!(
        fs::read(&path).is_ok_and(|published| published == output.stdout),
        "docs/record.schema.json is stale: run BAKEOFF_BLESS=1 cargo test --test docs"
    );
}

#[test]
fn every_subcommand_of_the_readme_is_there() {
    let help = Command::new(env!("CARGO_BIN_EXE_bakeoff")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().filter_map(|line| line.split("$ bakeoff ").nth(1));
    let mut count = 0;
    for name in lines.filter_map(|rest| rest.split([' ', ';']).next()) {
        assert!(help.contains(&format!("\n  {name} ")), "README names `bakeoff {name}`");
        count += 1;
    }
    assert!(count > 5, "the README shows few commands");
}

// contract S12
#[test]
fn the_architecture_says_whose_tables_there_are() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, paragraph) =
        text.split_once("**One table per owner.**").expect("the paragraph is there");
    let paragraph = paragraph.split("\n\n").next().unwrap();
    for word in ["operator", "worker run", "never changes", "reaches a model"] {
        assert!(paragraph.contains(word), "{word}: {paragraph}");
    }
}
