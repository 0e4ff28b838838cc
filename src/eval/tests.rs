//! Pools as they come, odd ones among them, and what is counted.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// `-two` and `+LINE` in the third line of a file of the base.
fn diff(line: &str) -> String {
    format!(
        "diff --git a/src/lib.rs b/src/lib.rs\n--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,5 +1,5 @@\n fn a() {{\n     one();\n-    two();\n+    {line}\n     three();\n }}\n"
    )
}

fn row(task: &str, agent: &str, model: &str, line: &str, reported: &str) -> String {
    let patch = serde_json::to_string(&diff(line)).unwrap();
    format!(
        "{{\"task_id\":\"{task}\",\"cand_id\":\"{task}#{agent}-{model}\",\"agent\":\"{agent}\",\"model\":\"{model}\",\"patch\":{patch},\"reported\":{reported}}}\n"
    )
}

struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new(tasks: &str, candidates: &str) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap() };
        files.write("a_tasks.jsonl", tasks);
        files.write("a_candidates.jsonl", candidates);
        files
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Three families agree on what is right in the first task; in the second the wrong one is agreed on.
fn two_tasks() -> Files {
    let tasks = "{\"task_id\":\"t1\",\"github\":\"github:o/n\"}\n\n{\"task_id\":\"t2\"}\n";
    let rows = [
        row("t1", "x", "gpt", "fixed(1);", "\"resolved\""),
        row("t1", "y", "gpt", "fixed( 1 );", "\"resolved\""),
        row("t1", "z", "gpt", "wild(2, 3);", "\"unresolved\""),
        row("t1", "z", "claude", "wild(2, 3);", "\"unresolved\""),
        row("t2", "x", "gpt", "same();", "\"unresolved\""),
        row("t2", "y", "gpt", "same();", "\"unresolved\""),
        row("t2", "z", "gpt", "odd(7);", "\"resolved\""),
    ];
    Files::new(tasks, &rows.concat())
}

fn question(selectors: &[Selector]) -> Question {
    let (repos, trust) = (Vec::new(), vec![Family::new("z")]);
    Question { repos, selectors: selectors.to_vec(), trust, draws: 500, seed: 1 }
}

fn measured(report: &Report, selector: Selector) -> &Measured {
    report.measured.iter().find(|one| one.selector == selector).unwrap()
}

#[test]
fn each_way_of_choosing_is_counted() {
    let files = two_tasks();
    let pool = read(files.path(), None, Families::Agent).unwrap();
    let report = evaluate(&pool, &question(&Selector::ALL));
    let resolved = |selector| measured(&report, selector).resolved;
    assert_eq!(report.counts, [7, 7, 7]);
    assert_eq!(resolved(Selector::Consensus), 1.0, "two families against one in each");
    // In t1 the tree of two diffs is the wrong one: votes of one family count twice there.
    assert_eq!(resolved(Selector::Vote), 0.0);
    assert_eq!(resolved(Selector::Core), 0.5, "two of the core against two in t1");
    assert!((resolved(Selector::Random) - (0.5 + 1.0 / 3.0)).abs() < 1e-9);
    assert!((resolved(Selector::Smallest) - resolved(Selector::Random)).abs() < 1e-9, "all equal");
    assert_eq!(resolved(Selector::Trust), 1.0, "t2 is z's");
    assert_eq!(report.oracle, [2, 2]);
    let (system, right, _) = report.best_system.as_ref().unwrap();
    assert_eq!((system.as_str(), *right), ("x-gpt", 1), "of equal ones the first by name");
    let behind = measured(&report, Selector::Vote).behind.unwrap();
    assert_eq!((behind.by, behind.low, behind.high), (0.5, 0.0, 1.0));
    assert!(measured(&report, Selector::Consensus).behind.is_none());
}

#[test]
fn precision_is_of_the_surest_and_ties_are_taken_in_part() {
    let files = two_tasks();
    let pool = read(files.path(), None, Families::Agent).unwrap();
    let report = evaluate(&pool, &question(&[Selector::Random]));
    let coverage = &measured(&report, Selector::Random).coverage;
    assert_eq!(coverage.iter().map(|at| at.percent).collect::<Vec<_>>(), [25, 50, 75, 100]);
    let mean = (0.5 + 1.0 / 3.0) / 2.0;
    for at in coverage {
        assert!((at.precision.unwrap() - mean).abs() < 1e-9, "nothing tells them apart: {at:?}");
    }
    assert_eq!(coverage[0].choices, 0.5);
}

#[test]
fn families_are_agents_makers_systems_or_named() {
    let named = "{\"task_id\":\"t\",\"family\":\"mine\",\"system\":\"s\",\"patch\":null}\n";
    let files = Files::new(
        "{\"task_id\":\"t\"}\n",
        &format!("{}{named}", row("t", "x", "o4mini", "a();", "true")),
    );
    let of = |families| {
        let pool = read(files.path(), None, families).unwrap();
        pool.tasks[0].rows.iter().map(|row| row.family.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of(Families::Agent), ["x", "mine"]);
    assert_eq!(of(Families::Maker), ["x+openai", "mine"]);
    assert_eq!(of(Families::System), ["x-o4mini", "s"]);
}

#[test]
fn odd_pools_are_told_and_counted() {
    let rows = [
        row("t1", "x", "m", "a();", "null"),
        "{\"instance_id\":\"t1\",\"model_name_or_path\":\"y\",\"model_patch\":\"no diff\",\"resolved\":true}\n".to_owned(),
        row("elsewhere", "x", "m", "a();", "true"),
    ];
    let tasks = "\u{feff}{\"task_id\":\"t1\"}\n{\"task_id\":\"t1\"}\n{\"task_id\":\"empty\"}\n";
    let files = Files::new(tasks, &rows.concat());
    let mut pool = read(files.path(), None, Families::Agent).unwrap();
    let notes = pool.notes.join("\n");
    for word in ["named twice", "without a candidate", "unknown outcome"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    assert_eq!(
        pool.warnings,
        ["1 of 3 candidates were left out, since no task is called what they name: elsewhere"]
    );
    let report = evaluate(&pool, &question(&[Selector::Consensus]));
    assert_eq!(report.counts, [2, 1, 1]);
    assert_eq!((report.oracle, report.measured[0].resolved), ([1, 0], 0.0));
    assert_eq!(report.tasks.len(), 2, "a task without candidates counts");
    pool.leave_out_unknown();
    assert!(
        pool.notes.iter().any(|note| note == "1 candidate(s) of unknown outcome were left out")
    );
    let report = evaluate(&pool, &question(&[Selector::Consensus]));
    assert_eq!((report.counts, report.measured[0].coverage[3].precision), ([1, 0, 0], Some(0.0)));
    let text = as_text(&report, true);
    assert!(text.contains("note: ") && text.contains("| t1 | 1 | 0 | 0 |"), "{text}");
    assert_eq!(
        as_json(&report)["each"][0]["picks"]["consensus"]["candidate"],
        serde_json::Value::Null
    );
}

#[test]
fn what_can_not_be_read_is_named_with_its_line() {
    let files = Files::new("{\"task_id\":\"t\"}\n\n{\"task\":1}\n", "[]\n");
    let told = |tasks: &Path, candidates: Option<&Path>| {
        read(tasks, candidates, Families::Agent).unwrap_err().to_string()
    };
    assert!(told(files.path(), None).contains("a_tasks.jsonl, line 3: a task needs `task_id`"));
    let good = files.write("good.jsonl", "{\"task_id\":\"t\"}\n");
    let bad = files.path().join("a_candidates.jsonl");
    assert!(told(&good, Some(&bad)).contains("line 1: not a JSON object"));
    let torn = told(&good, Some(&files.write("torn.jsonl", "{}x\n")));
    assert!(torn.contains("torn.jsonl, line 1: not a JSON object, which each line"), "{torn}");
    assert!(torn.ends_with("at column 3"), "{torn}");
    assert!(told(&good, Some(&files.path().join("gone"))).contains("failed to read"));
    let empty = files.write("empty.jsonl", "\n");
    assert!(told(&empty, None).contains("holds no task"));
}

#[test]
fn rows_that_mean_nothing_are_named_with_their_line() {
    let told = |row: &str| {
        let good = row_of("\"patch\":\"x\",\"reported\":\"unresolved\"");
        let files = Files::new("{\"task_id\":\"t\"}\n", &format!("{good}{}", row_of(row)));
        read(files.path(), None, Families::Agent).map(|pool| pool.tasks[0].rows[1].right)
    };
    for (row, word) in [
        ("\"patch\":5", "`patch` has to be a diff as a string"),
        ("\"patch\":null,\"model_patch\":[]", "`model_patch` has to be a diff as a string"),
        ("\"reported\":\"banana\"", "`reported` has to be true or false"),
        ("\"reported\":7", "`reported` has to be true or false"),
        ("\"reported\":null,\"resolved\":{}", "`resolved` has to be true or false"),
    ] {
        let error = told(row).unwrap_err().to_string();
        assert!(error.contains("a_candidates.jsonl, line 2: ") && error.contains(word), "{error}");
    }
    for (row, right) in [
        ("\"patch\":null", None),
        ("\"reported\":null", None),
        ("\"reported\":\"\",\"outcome\":\"unknown\"", None),
        ("\"reported\":null,\"resolved\":true", Some(true)),
        ("\"reported\":\"Resolved\"", Some(true)),
        ("\"reported\":1", Some(true)),
        ("\"reported\":0.0", Some(false)),
        ("\"reported\":\"error\"", Some(false)),
        ("\"outcome\":false", Some(false)),
    ] {
        assert_eq!(told(row).unwrap(), right, "{row}");
    }
}

fn row_of(fields: &str) -> String {
    format!("{{\"task_id\":\"t\",{fields}}}\n")
}

#[test]
fn candidates_and_tasks_that_contradict_each_other_are_refused() {
    let told = |tasks: &str, candidates: &str| {
        let files = Files::new(tasks, candidates);
        read(files.path(), None, Families::Agent).unwrap_err().to_string()
    };
    let row = row_of("\"patch\":\"x\"");
    let twice =
        "{\"task_id\":\"t\",\"base_commit\":\"1\"}\n{\"task_id\":\"t\",\"base_commit\":\"2\"}\n";
    let error = told(twice, &row);
    assert!(error.contains("a_tasks.jsonl, line 2: the task \"t\" was given before"), "{error}");
    let error = told("{\"task_id\":\"other\"}\n", &format!("{row}{row}"));
    assert!(
        error.contains("none of the 2 candidates") && error.contains("they name t;"),
        "{error}"
    );
}

#[test]
fn a_task_in_a_folder_of_its_own_and_a_repository_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("t1");
    fs::create_dir_all(folder.join("repo/src")).unwrap();
    fs::write(folder.join("task.json"), "{\"github\":\"o/n\"}").unwrap();
    let rows = [row("t1", "x", "m", "fixed(", "true"), row("t1", "y", "m", "fixed();", "false")];
    fs::write(folder.join("candidates.jsonl"), rows.concat()).unwrap();
    let base = "fn a() {\n    one();\n    two();\n    three();\n}\n";
    crate::repo::seed(&folder.join("repo"), &[("src/lib.rs".into(), base.into())]).unwrap();
    let pool = read(dir.path(), None, Families::Agent).unwrap();
    let report = evaluate(&pool, &question(&[Selector::Consensus]));
    // With the whole base at hand the first is seen to parse no more.
    assert_eq!((report.counts, report.tasks[0].whole), ([2, 2, 1], true));
    assert_eq!(report.tasks[0].picks[&Selector::Consensus].row.as_deref(), Some("t1#y-m"));
    fs::remove_dir_all(folder.join("repo")).unwrap();
    let report = evaluate(&pool, &question(&[Selector::Consensus]));
    assert_eq!((report.counts, report.tasks[0].whole), ([2, 2, 2], false));
}
