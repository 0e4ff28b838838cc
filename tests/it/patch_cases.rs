//! Every row of `tests/cases/diffs/index.jsonl` against its expected outcome.

use std::fmt::Write;
use std::path::Path;

use bakeoff::model::{Admission, TreeId};
use bakeoff::patch::Rules;
use serde_json::Value;

use crate::patch_store::{FIXTURE_TREE, GitStore, fixture};

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/diffs"))
}

fn rows() -> Vec<Value> {
    let index = std::fs::read_to_string(directory().join("index.jsonl")).unwrap();
    index.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'a>(row: &'a Value, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

struct Bench {
    store: GitStore,
    base: TreeId,
}

impl Bench {
    fn new() -> Self {
        let store = GitStore::new();
        let base = fixture(&store);
        assert_eq!(base.as_str(), FIXTURE_TREE);
        Self { store, base }
    }

    fn run(&self, file: &str, rules: &Rules) -> Admission {
        let diff = std::fs::read(directory().join(file)).unwrap();
        self.store.admit(&diff, &self.base, rules)
    }
}

/// What is wrong with the outcome of a row, if anything.
fn judge(bench: &Bench, row: &Value) -> Result<(), String> {
    let file = field(row, "file").unwrap();
    let wanted = field(row, "expected_tree").or(field(row, "tree_if_applied"));
    let fix = "d4f5530f806b9c934a0f5eaf6cb5764c7397e00e";
    let outcome = bench.run(file, &Rules::default());
    let tree_is = |outcome: &Admission, wanted: Option<&str>| match outcome {
        Admission::Admitted { tree, .. } if Some(tree.as_str()) == wanted => Ok(()),
        other => Err(format!("{file}: wanted {wanted:?}, got {other:?}")),
    };
    let flagged = |outcome: &Admission| match outcome {
        Admission::Admitted { flags, .. } if flags.is_empty() => Err(format!("{file}: no flag")),
        _ => Ok(()),
    };
    let refused = |outcome: &Admission| match outcome {
        Admission::Refused(_) => Ok(()),
        other => Err(format!("{file}: should be refused, got {other:?}")),
    };
    match field(row, "expect").unwrap() {
        "accept" | "apply_but_not_pass_as_win" => tree_is(&outcome, wanted),
        "accept_with_flag" | "contain_and_flag" => tree_is(&outcome, wanted).and(flagged(&outcome)),
        "gate_from_base" => tree_is(&outcome, wanted),
        "accept_if_position_exact" | "refuse_unless_supported" => tree_is(&outcome, Some(fix)),
        "accept_if_binary_allowed" => {
            let allowed = bench.run(file, &Rules { binary: true, ..Rules::default() });
            refused(&outcome).and(tree_is(&allowed, wanted)).and(flagged(&allowed))
        }
        "accept_if_links_allowed" => {
            let allowed = bench.run(file, &Rules { links: true, ..Rules::default() });
            refused(&outcome).and(tree_is(&allowed, wanted)).and(flagged(&allowed))
        }
        "refuse_or_flag" | "repair_or_refuse" if outcome.tree().is_none() => Ok(()),
        "refuse_or_flag" => tree_is(&outcome, wanted).and(flagged(&outcome)),
        "repair_or_refuse" => tree_is(&outcome, wanted),
        "refuse" | "refuse_over_limit" => refused(&outcome),
        other => Err(format!("{file}: unknown expectation {other}")),
    }
}

#[test]
fn every_row_has_its_expected_outcome() {
    let bench = Bench::new();
    let rows = rows();
    assert!(rows.len() >= 140);
    let wrong: Vec<String> = rows.iter().filter_map(|row| judge(&bench, row).err()).collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// The open rules must not let through what has to be refused for another reason.
#[test]
fn what_must_be_refused_is_refused_with_every_rule_open() {
    let bench = Bench::new();
    let open = Rules { links: true, submodules: true, binary: true, ..Rules::default() };
    let mut passed = Vec::new();
    for row in rows() {
        let (file, expect) = (field(&row, "file").unwrap(), field(&row, "expect").unwrap());
        if expect.starts_with("refuse")
            && !matches!(expect, "refuse_unless_supported" | "refuse_or_flag")
            && bench.run(file, &open).tree().is_some()
        {
            passed.push(file.to_owned());
        }
    }
    // `.gitmodules` is what the rule for submodules opens.
    assert_eq!(passed, ["77_path_gitmodules.diff"]);
}

#[test]
fn codes_repairs_and_flags_of_all_rows() {
    let bench = Bench::new();
    let mut table = String::new();
    for row in rows() {
        let file = field(&row, "file").unwrap();
        let _ = write!(table, "{file}: ");
        let _ = match bench.run(file, &Rules::default()) {
            Admission::Refused(refusal) => writeln!(table, "refused {}", refusal.code),
            Admission::Admitted { repairs, flags, .. } => {
                let repairs: Vec<_> = repairs.iter().map(|repair| repair.code.as_str()).collect();
                let flags: Vec<_> = flags.iter().map(|flag| flag.code.as_str()).collect();
                writeln!(table, "admitted {repairs:?} {flags:?}")
            }
        };
    }
    insta::assert_snapshot!(table);
}
