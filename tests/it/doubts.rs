//! Skeptics and the mending of a synthesized change, in whole runs: what the record says, what judges are told,
//! and that a replay comes to the same.

use serde_json::{Value, json};

use super::support::place::Place;

const WORKERS: &str = r#"version = 1
[[worker]]
lane = "one"
[[worker.turns]]
calls = [{ name = "write_file", arguments = { path = "value.txt", content = "222\n" } }]
[[worker.turns]]
calls = [{ name = "submit", arguments = { answer = "done", claims = [{ text = "sets the value" }, { text = "adds a test", path = "tests/value.sh" }] } }]
[[worker]]
lane = "two"
[[worker.turns]]
calls = [{ name = "write_file", arguments = { path = "value.txt", content = "333\n" } }]
[[worker.turns]]
calls = [{ name = "submit", arguments = { answer = "done", claims = [{ text = "keeps the old value" }] } }]
"#;

/// Prefers whoever nothing was refuted of, by what the engine says outside any fence.
const JUDGES: &str = r#"
[[judge]]
prefer = ["+444", "+333", "+222"]
[judge.reply]
capture = { nonce = '"nonce": "([^"]+)"' }
text = '{"nonce": "{nonce}", "choice": "{choice}", "reason": "it is larger", "evidence": ["{quote}"], "vetoes": []}'
"#;

const SKEPTIC: &str = r#"
[[skeptic]]
candidate = "c2"
[skeptic.reply]
capture = { nonce = '"nonce": "([^"]+)"' }
text = '{"nonce": "{nonce}", "refuted": [{"claim": 1, "reason": "It goes.", "quotes": ["+333"], "absent": ["keep"]}, {"claim": 1, "reason": "x", "quotes": ["made up"]}]}'
"#;

const JUDGED: &str =
    "[judges]\nuse = [\"correctness\", \"scope\"]\nmodels = [\"scripted:judge\"]\n";
const LANES: &str = "[lanes.one]\nmodel = \"scripted:one\"\nfamily = \"one\"\n[lanes.two]\nmodel = \"scripted:two\"\nfamily = \"two\"\n";

fn place(judged: &str, script: &[&str]) -> Place {
    let place = Place::new();
    let gates = "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n";
    place.configure(gates, &format!("{judged}{LANES}"));
    place.script(&script.concat());
    place
}

fn refuted(record: &Value, at: usize) -> Value {
    record["candidates"][at].get("refuted").cloned().unwrap_or_else(|| json!([]))
}

// contract C24, C33-skeptic-1
#[test]
fn refuted_claims_are_in_the_record_and_a_replay_says_the_same() {
    let place = place(JUDGED, &[WORKERS, JUDGES, SKEPTIC]);
    place.run(["run", "raise the value", "--no-synth"]).exits(0);
    let record = place.record();
    let one = refuted(&record, 0);
    assert_eq!(
        (one[0]["claim"].as_u64(), one[0].get("by")),
        (Some(2), None),
        "the engine's own word"
    );
    let two = refuted(&record, 1);
    assert_eq!(two.as_array().unwrap().len(), 1, "what is made up is left out: {two}");
    assert_eq!((&two[0]["by"], &two[0]["quotes"][0]), (&json!("skeptic"), &json!("+333")));
    assert_eq!(record["decision"]["outcome"]["candidate"], "c2", "it throws nobody out");
    assert_eq!(record["roles"]["skeptics"]["calls"], 2);
    place
        .run(["show", "latest"])
        .exits(0)
        .prints(&["claim 1 refuted by skeptic", "claim 2 refuted by the engine"]);
    place.run(["replay", "latest"]).exits(0);
}

#[test]
fn skeptics_can_be_switched_off_and_their_silence_is_a_warning() {
    let off = place(&format!("{JUDGED}skeptics = false\n"), &[WORKERS, JUDGES, SKEPTIC]);
    off.run(["run", "raise the value", "--no-synth"]).exits(0);
    assert_eq!((refuted(&off.record(), 0), refuted(&off.record(), 1)), (json!([]), json!([])));
    let silent = SKEPTIC.replace("{\"nonce\": \"{nonce}\"", "{\"nonce\": \"old\"");
    let silent = place(JUDGED, &[WORKERS, JUDGES, &silent]);
    silent.run(["run", "raise the value", "--no-synth"]).exits(0);
    let record = silent.record();
    let warnings = record["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "skeptic-silent"), "{warnings:?}");
    assert_eq!(refuted(&record, 1), json!([]));
}

/// Turns of a synthesizer: attempts 0 and 1 are the first proposal's, 2 and 3 the mending's.
fn synthesizer(first: &str, mended: &str) -> String {
    let turn = |value: &str| {
        format!(
            "[[synthesizer.turns]]\ntext = \"\"\"\nMine.\n\n```diff\n--- a/value.txt\n+++ b/value.txt\n@@ -1 +1 @@\n-1\n+{value}\n```\n\"\"\"\n"
        )
    };
    format!("[[synthesizer]]\n{}{}{}", turn(first), turn(first), turn(mended))
}

// contract C33-fix-1
#[test]
fn a_synthesized_change_that_fails_a_gate_is_mended_and_then_has_to_win() {
    let place = place(JUDGED, &[WORKERS, JUDGES, &synthesizer("none", "444")]);
    place.run(["run", "raise the value"]).exits(0);
    let record = place.record();
    let gates = record["candidates"][2]["gates"].as_array().unwrap();
    assert!(gates.iter().any(|gate| gate["verdict"]["kind"] == "fail"), "{gates:?}");
    assert_eq!(record["decision"]["outcome"]["candidate"], "c4");
    assert_eq!(record["roles"]["synthesizer"]["calls"], 2);
    place.run(["replay", "latest"]).exits(0);
    let once = place_without_mending();
    once.run(["run", "raise the value"]).exits(0);
    assert_eq!(once.record()["candidates"].as_array().unwrap().len(), 3);
    assert_eq!(once.record()["decision"]["outcome"]["candidate"], "c2");
}

fn place_without_mending() -> Place {
    place(&format!("{JUDGED}fix_rounds = 0\n"), &[WORKERS, JUDGES, &synthesizer("none", "444")])
}

// contract C33-synth-1
#[test]
fn a_judge_with_a_veto_that_is_not_convinced_keeps_the_best() {
    // `correctness` may veto and finds the two equal; `scope` prefers the new one.
    let tie = r#"
[[judge]]
id = "correctness"
ballot = "*c3*"
always = "tie"
[judge.reply]
capture = { nonce = '"nonce": "([^"]+)"' }
text = '{"nonce": "{nonce}", "choice": "tie", "reason": "both do it", "evidence": [], "vetoes": []}'
"#;
    let place = place(JUDGED, &[WORKERS, tie, JUDGES, &synthesizer("444", "444")]);
    place.run(["run", "raise the value"]).exits(0);
    let record = place.record();
    assert_eq!(record["candidates"].as_array().unwrap().len(), 3);
    assert_eq!(record["decision"]["outcome"]["candidate"], "c2");
}
