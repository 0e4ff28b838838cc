//! The registry, its arguments and its documentation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::fence::Fencer;
use crate::model::{EventSink, LaneId, NestedLimits, WorkerLimits};
use crate::prompt::Templates;
use crate::provider::{Script, Scripted};
use crate::sandbox::toolchain::Python;
use crate::tools::testing::Fixture;
use crate::tools::{CodeExecution, Registry};
use crate::worker::{DelegateDesk, DelegateSubtask, Seat, Turns, Voice};

/// Every tool of this version.
fn whole() -> Registry {
    let python = Python { program: "/usr/bin/python3".into(), mounts: Vec::new(), env: Vec::new() };
    let desk = DelegateDesk {
        lane: LaneId::of("fast", 1),
        provider: Arc::new(Scripted::new(Script::default())),
        model: "m".to_owned(),
        limits: WorkerLimits {
            max_tool_iterations: 90,
            max_seconds: None,
            max_tokens: None,
            budget: None,
            max_output_tokens: 4096,
        },
        turns: Turns::default(),
        nested: NestedLimits::default(),
        system: String::new(),
        task: String::new(),
        voice: Voice::new(Templates::embedded(), Fencer::new([3; 32])),
        seed: None,
        temperature: None,
        events: EventSink::none(),
        seat: Seat::default(),
        past: Arc::new(|_| Vec::new()),
    };
    let standard = Registry::standard().with(Arc::new(CodeExecution::new(python)));
    standard.with(Arc::new(DelegateSubtask::new(desk)))
}

#[test]
fn wrong_calls_are_answers() {
    let fixture = Fixture::new();
    for (name, arguments, says) in [
        ("read_file", "{\"path\": ", "no valid JSON"),
        ("read_file", "", "missing field `path`"),
        ("read_file", "[]", "path"),
        ("read_file", "{\"path\": \"a\", \"limit\": 3}", "unknown field `limit`"),
        ("read_file", "{\"path\": \"a\", \"start_line\": \"x\"}", "start_line"),
        (
            "multi_edit",
            "{\"path\": \"a\", \"edits\": [{\"old_string\": 1}]}",
            "edits[0].old_string",
        ),
        ("frobnicate", "{}", "the tools are read_file"),
    ] {
        let output = fixture.call_text(name, arguments);
        assert!(
            output.is_error && output.text.contains(says),
            "{name} {arguments}: {}",
            output.text
        );
    }
    assert!(fixture.call_text("list_dir", " ").text.contains("empty"));
    let shape = fixture.call_text("write_file", "{}").text;
    assert!(
        shape.contains(r#"{"path": string, "content": string, "executable"?: boolean}"#),
        "{shape}"
    );
}

#[test]
fn submit_hands_in_answer_and_claims() {
    let fixture = Fixture::new();
    let output = fixture.call("submit", json!({"answer": "done", "claims": [{"text": "ok", "path": "a", "line": 3}, {"text": "b"}]}));
    let submission = output.submission.unwrap();
    assert_eq!((submission.answer.as_str(), submission.claims.len()), ("done", 2));
    assert_eq!(submission.claims[0].line, Some(3));
    for arguments in [
        json!({"answer": " "}),
        json!({}),
        json!({"answer": "a", "claims": ["x"]}),
        json!({"answer": "a", "more": 1}),
    ] {
        assert!(fixture.call("submit", arguments).submission.is_none());
    }
}

// contract R33
#[test]
fn an_absent_key_means_enabled_and_a_family_shares_one() {
    let all = whole();
    let names = |registry: &Registry| {
        registry.specs().iter().map(|spec| spec.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&all.toggled(&BTreeMap::new())), names(&all));
    let toggles = BTreeMap::from([
        ("edit_file".to_owned(), false),
        ("grep".to_owned(), true),
        ("submit".to_owned(), false),
    ]);
    let fewer = names(&all.toggled(&toggles));
    assert!(!fewer.contains(&"edit_file".to_owned()) && !fewer.contains(&"multi_edit".to_owned()));
    assert!(fewer.contains(&"grep".to_owned()) && fewer.contains(&"submit".to_owned()));
    assert_eq!(fewer.len(), names(&all).len() - 2);
    let silent = names(&all.toggled(&BTreeMap::from([("run_bash".to_owned(), false)])));
    assert!(silent.iter().all(|name| name != "run_bash" && name != "bash_jobs"));
}

#[test]
fn every_schema_is_a_closed_object_with_described_fields() {
    for spec in whole().specs().iter() {
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        assert_eq!(spec.parameters["additionalProperties"], false, "{}", spec.name);
        for (name, field) in spec.parameters["properties"].as_object().unwrap() {
            assert!(field["description"].is_string(), "{}.{name}", spec.name);
        }
        assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    }
}

#[test]
fn the_specs_are_the_same_value_every_time() {
    let text = |registry: &Registry| serde_json::to_string(&registry.specs()).unwrap();
    assert_eq!(text(&whole()), text(&whole()));
}

const BEGIN: &str = "<!-- tools:begin -->\n";
const END: &str = "<!-- tools:end -->";

// contract R32
#[test]
fn the_docs_list_of_tools_is_the_registry_s() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tools.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{BEGIN}{}{END}{after}", whole().markdown());
    if std::env::var_os("BAKEOFF_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(text == wanted, "docs/tools.md is out of date; run the test with BAKEOFF_BLESS=1");
}
