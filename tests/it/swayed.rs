//! Whole runs whose judges length sways, and a pick by trust that stands alone.

use std::fs;

use serde_json::{Value, json};

use super::support::place::{Place, writes};

const REST: &str = "[judges]\nuse = [\"correctness\", \"scope\"]\nmodels = [\"scripted:judge\"]\n[duels]\nmost = 0\n\
    [lanes.one]\nmodel = \"scripted:one\"\nfamily = \"one\"\n[lanes.two]\nmodel = \"scripted:two\"\nfamily = \"two\"\n";

/// Two values of which the second is the longer, and judges that look for these texts.
fn place(prefer: &str) -> Place {
    let place = Place::new();
    place.configure("[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n", REST);
    let judge = format!(
        "[[judge]]\nprefer = [{prefer}]\n[judge.reply]\ncapture = {{ nonce = '\"nonce\": \"([^\"]+)\"' }}\n\
         text = '{{\"nonce\": \"{{nonce}}\", \"choice\": \"{{choice}}\", \"reason\": \"so it is\", \"evidence\": [\"value.txt\"], \"vetoes\": []}}'\n"
    );
    place.script(&(writes(&[("one", "22"), ("two", "3333333333")]) + &judge));
    place
}

fn run(place: &Place) -> super::support::place::Done {
    place.run(["run", "Raise the value.", "--no-synth", "-q"])
}

fn results(record: &Value) -> Vec<&Value> {
    record["controls"].as_array().unwrap().iter().map(|one| &one["result"]["kind"]).collect()
}

#[test]
fn judges_that_prefer_padding_make_no_winner() {
    let place = place("\"changes nothing.\", \"+3333333333\"");
    run(&place).exits(1);
    let record = place.record();
    assert_eq!(results(&record), ["padded", "padded"]);
    assert_eq!(record["decision"]["outcome"]["reason"], "no_confident_choice");
    let warnings = record["warnings"].to_string();
    assert!(warnings.contains("judges-swayed-by-length"), "{warnings}");
    // Their ballots are kept as they were given; each was asked twice more.
    assert_eq!(record["ballots"].as_array().unwrap().len(), 4);
    assert_eq!(record["roles"]["judges"]["calls"], 8);
    place.run(["show"]).exits(0).prints(&["took the longer change", "inert lines more: void"]);
    fs::remove_file(place.dir.join("script.toml")).unwrap();
    place.run(["replay"]).exits(0);
}

#[test]
fn judges_with_another_reason_for_the_longer_change_keep_their_word() {
    let place = place("\"+3333333333\"");
    run(&place).exits(0);
    let record = place.record();
    assert_eq!(results(&record), ["cleared", "cleared"]);
    assert_eq!(record["decision"]["outcome"]["candidate"], "c2");
    assert_eq!(record["roles"]["judges"]["calls"], 6, "one short question each");
    place.run(["replay"]).exits(0);
}

#[test]
fn nobody_is_tried_where_the_shorter_change_wins() {
    let place = place("\"+22\"");
    run(&place).exits(0);
    let record = place.record();
    assert_eq!(record["decision"]["outcome"]["candidate"], "c1");
    assert_eq!((record.get("controls"), &record["roles"]["judges"]["calls"]), (None, &json!(4)));
}

#[test]
fn a_change_that_judges_saw_in_part_is_told() {
    let place = place("\"+22\"");
    let script = fs::read_to_string(place.dir.join("script.toml")).unwrap();
    let long = "3 ".repeat(40_000);
    place.script(&script.replace("3333333333", &long));
    place.configure("[gates]\ncheck = \"true\"\n", REST);
    run(&place).exits(0);
    let warnings = place.record()["warnings"].to_string();
    assert!(warnings.contains("judged-in-part") && warnings.contains("c2 (8"), "{warnings}");
    assert!(!warnings.contains("one-voice"), "{warnings}");
    place.run(["run", "x", "--judge", "scope", "--no-synth", "-q"]).exits(0);
    assert!(place.record()["warnings"].to_string().contains("one-voice"));
}

/// Diffs of three families to one function: two agree in everything but a comment.
fn picked(trust: &str) -> Value {
    let place = Place::new();
    place.write("calc.py", "def add(a, b):\n    return a\n");
    place.write("other.py", "def sub(a, b):\n    return a\n");
    place.commit("calc");
    let bodies = [
        ("lone", "    total = [a, b]\n+    return sum(total)"),
        ("first", "    return a + b"),
        ("second", "    # Both of them.\n+    return a + b"),
    ];
    let mut args: Vec<String> =
        ["pick", "--no-judge", "--no-check", "-q", "--trust", trust].map(str::to_owned).into();
    for (family, body) in bodies {
        let path = place.dir.join(format!("{family}.diff"));
        let lines = body.matches('\n').count() + 2;
        let text = format!(
            "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,{lines} @@\n def add(a, b):\n-    return a\n+{body}\n"
        );
        fs::write(&path, text).unwrap();
        args.push(format!("{family}:{}", path.display()));
    }
    place.configure("[gates]\ntest = \"grep -q return calc.py\"\n", "");
    place.run(args).exits(0);
    place.record()
}

#[test]
fn a_trusted_pick_that_stands_alone_is_a_warning_of_the_record() {
    let code = |record: &Value| record["warnings"].to_string().contains("trusted-alone");
    let alone = picked("lone");
    assert_eq!(alone["decision"]["outcome"]["candidate"], "c1", "{:#}", alone["decision"]);
    assert!(code(&alone), "{:#}", alone["warnings"]);
    let agreed = picked("first");
    assert_eq!(agreed["decision"]["outcome"]["candidate"], "c2");
    assert!(!code(&agreed), "{:#}", agreed["warnings"]);
}
