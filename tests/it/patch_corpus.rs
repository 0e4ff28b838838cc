//! The kept corpus of the fuzz targets, replayed: what was once interesting stays right.

use std::path::Path;

use crate::patch_oracle::{Oracle, Verdict};

/// Every file of `tests/cases/fuzz`, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/fuzz"));
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn no_kept_diff_is_admitted_with_another_tree_than_gits() {
    let mut oracle = Oracle::new(&std::env::temp_dir());
    let mut counts = [0; 3];
    let mut wrong = Vec::new();
    for (name, diff) in corpus() {
        match oracle.judge(&diff) {
            Verdict::Refused(_) => counts[0] += 1,
            Verdict::Same => counts[1] += 1,
            Verdict::BeyondGit => counts[2] += 1,
            Verdict::Different(how) => wrong.push(format!("{name}: {how}")),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    let [refused, same, beyond] = counts;
    assert!(same > 50 && refused > 50, "the corpus says too little: {refused}, {same}, {beyond}");
}
