//! `bakeoff gate --no-check --json`: what is said of each diff, and what the operator's settings let in.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::place::Place;

/// Writes a diff beside the repository.
fn diff(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The admission of each diff, in order.
fn admissions(place: &Place, diffs: &[PathBuf], code: i32) -> Vec<Value> {
    let mut args = vec!["gate", "--no-check", "--json"];
    args.extend(diffs.iter().map(|path| path.to_str().unwrap()));
    let record = place.run(args).exits(code).json();
    let rows = record["candidates"].as_array().unwrap();
    rows.iter().map(|row| row["admission"].clone()).collect()
}

#[test]
fn each_diff_gets_its_verdict_its_reason_its_repairs_and_its_tree() {
    let place = Place::new();
    let whole = place.diff("whole.diff", "5");
    let fenced = std::fs::read_to_string(&whole).unwrap();
    let fenced = diff(&place, "fenced.diff", &format!("So:\n```diff\n{fenced}```\n"));
    let stale = "--- a/value.txt\n+++ b/value.txt\n@@ -1 +1 @@\n-8\n+9\n";
    let stale = diff(&place, "stale.diff", stale);
    let rows = admissions(&place, &[whole, fenced, stale], 1);
    place.write("value.txt", "5\n");
    place.git(&["add", "-A"]);
    let tree = place.git(&["write-tree"]);
    assert_eq!(rows[0]["kind"], "admitted");
    assert_eq!(rows[0]["tree"], tree.trim());
    assert_eq!(rows[0]["repairs"], serde_json::json!([]));
    assert_eq!(rows[1]["tree"], tree.trim());
    let repairs: Vec<_> = rows[1]["repairs"].as_array().unwrap().iter().collect();
    assert_eq!(
        repairs.iter().map(|repair| &repair["code"]).collect::<Vec<_>>(),
        ["markdown-fence", "prose-around"]
    );
    assert!(repairs.iter().all(|repair| repair["detail"].as_str().is_some_and(|d| !d.is_empty())));
    assert_eq!(rows[2]["kind"], "refused");
    assert_eq!(rows[2]["code"], "hunk-not-found");
    assert_eq!((&rows[2]["path"], &rows[2]["hunk"]), (&"value.txt".into(), &1.into()));
    assert_eq!((&rows[2]["expected"], &rows[2]["found"]), (&"8".into(), &"1".into()));
}

#[test]
fn links_submodules_and_binary_contents_need_the_operator_s_settings() {
    let place = Place::new();
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+value.txt\n\\ No newline at end of file\n";
    let module = format!(
        "diff --git a/m b/m\nnew file mode 160000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit {}\n",
        "1".repeat(40)
    );
    std::fs::write(place.repo.join("data.bin"), b"\0\x01\x02").unwrap();
    place.git(&["add", "data.bin"]);
    let binary = place.git(&["diff", "--cached", "--binary", "--full-index"]);
    place.git(&["reset", "-q", "--hard"]);
    let diffs = [
        diff(&place, "link.diff", link),
        diff(&place, "module.diff", &module),
        diff(&place, "binary.diff", &(binary.trim_end_matches('\n').to_owned() + "\n\n")),
    ];
    let codes = |code| {
        let rows = admissions(&place, &diffs, code);
        rows.into_iter()
            .map(|row| row.get("code").unwrap_or(&row["kind"]).as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(codes(1), ["link", "gitlink", "binary"]);
    place.config("[patch]\nlinks = true\n");
    assert_eq!(codes(1), ["admitted", "gitlink", "binary"]);
    place.config("[patch]\nlinks = true\nsubmodules = true\nbinary = true\n");
    assert_eq!(codes(0), ["admitted", "admitted", "admitted"]);
    assert_eq!(place.record()["plan"]["patch"]["submodules"], true);
}

#[test]
fn how_large_a_diff_may_be_is_the_operator_s_to_say() {
    let place = Place::new();
    let long = |lines: usize, width: usize| {
        let line = format!("+{}\n", "x".repeat(width));
        let head = "diff --git a/l b/l\nnew file mode 100644\n--- /dev/null\n+++ b/l\n@@ -0,0 +1,";
        format!("{head}{lines} @@\n{}", line.repeat(lines))
    };
    let all = [("lines.diff", long(50_001, 1)), ("bytes.diff", long(40_000, 240))];
    let all = all.map(|(name, text)| diff(&place, name, &text));
    let codes = |rows: Vec<Value>| -> Vec<String> {
        rows.iter().map(|row| row["code"].as_str().unwrap_or("admitted").to_owned()).collect()
    };
    let rows = admissions(&place, &all, 1);
    assert!(rows[0]["message"].as_str().unwrap().contains("raise `max_lines` in `[patch]`"));
    assert_eq!(codes(rows), ["too-many-lines", "too-large"]);
    place.config("[patch]\nmax_mb = 10\nmax_lines = 50001\n");
    assert_eq!(codes(admissions(&place, &all, 0)), ["admitted", "admitted"]);
}
