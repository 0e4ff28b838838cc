//! Editing.

use proptest::prelude::*;
use serde_json::json;

use crate::tools::edit::replace;
use crate::tools::testing::Fixture;

#[test]
fn a_unique_text_is_replaced() {
    let fixture = Fixture::new();
    fixture.put("f", "one\ntwo\nthree\n");
    let told =
        fixture.done("edit_file", json!({"path": "f", "old_string": "two\n", "new_string": "2\n"}));
    assert_eq!(told, "edited f: 1 place (line 2)");
    assert_eq!(fixture.get("f"), "one\n2\nthree\n");
    let told = fixture.done(
        "edit_file",
        json!({"path": "f", "old_string": "e", "new_string": "E", "replace_all": true}),
    );
    assert_eq!(told, "edited f: 3 places (lines 1, 3, 3)");
    assert_eq!(fixture.get("f"), "onE\n2\nthrEE\n");
}

#[test]
fn what_was_found_instead_is_told_and_nothing_is_changed() {
    let fixture = Fixture::new();
    let body = "fn main() {\n\tlet value = compute(1);\n\tprintln!(\"{value}\");\n}\nfn other() {}\nfn other() {}\n";
    fixture.put("f.rs", body);
    let edit = |old: &str| {
        fixture.refused("edit_file", json!({"path": "f.rs", "old_string": old, "new_string": "x"}))
    };
    let told = edit("fn other() {}");
    assert!(told.contains("2 places (lines 5, 6)") && told.contains("replace_all"), "{told}");
    let told = edit("    let value = compute(1);\n    println!");
    assert!(
        told.contains("other blanks") && told.contains("     2\t\tlet value = compute(1);"),
        "{told}"
    );
    let told = edit("let value = compute(2);\n");
    assert!(told.contains("nearest") && told.contains("     2\t"), "{told}");
    let told = edit("nothing like it at all, whatever it may be");
    assert!(told.contains("no line is like"), "{told}");
    assert!(edit("").contains("empty"));
    assert!(edit("   \n  ").contains("blanks"));
    assert!(edit("x").contains("the same"));
    assert_eq!(fixture.get("f.rs"), body);
    fixture.put("crlf", "a\r\nb\r\n");
    let told = fixture
        .refused("edit_file", json!({"path": "crlf", "old_string": "a\nb", "new_string": "x"}));
    assert!(told.contains("CRLF"), "{told}");
    fixture.refused("edit_file", json!({"path": "none", "old_string": "a", "new_string": "b"}));
}

#[test]
fn several_edits_are_done_whole_or_not_at_all() {
    let fixture = Fixture::new();
    fixture.put("f", "a b c\n");
    let edits =
        json!([{"old_string": "a", "new_string": "b"}, {"old_string": "b b", "new_string": "z"}]);
    fixture.done("multi_edit", json!({"path": "f", "edits": edits}));
    assert_eq!(fixture.get("f"), "z c\n");
    let edits =
        json!([{"old_string": "z", "new_string": "y"}, {"old_string": "q", "new_string": "r"}]);
    let told = fixture.refused("multi_edit", json!({"path": "f", "edits": edits}));
    assert!(told.contains("edit 2") && told.contains("no edit was done"), "{told}");
    assert_eq!(fixture.get("f"), "z c\n");
    fixture.refused("multi_edit", json!({"path": "f", "edits": []}));
}

#[test]
fn places_that_overlap_are_ambiguous() {
    assert!(replace("aaa", "aa", "b", false).is_err());
    assert_eq!(replace("aaa", "aa", "b", true).unwrap().text, "ba");
}

#[test]
fn looking_for_a_near_place_in_a_large_file_is_quick() {
    let text: String =
        (0..49_000).map(|n| format!("let variable_{n} = some_call({n});\n")).collect();
    let begun = std::time::Instant::now();
    assert!(replace(&text, "let variable_x = some_call(y) + 1;", "z", false).is_err());
    // Guards against hanging only.
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn a_unique_needle_is_replaced_as_the_standard_library_does(
        before in "[a-c\n é]{0,40}", needle in "[x-z\né]{1,8}", after in "[a-c\n é]{0,40}", new in "\\PC{0,12}",
    ) {
        let text = format!("{before}{needle}{after}");
        let count = (0..text.len()).filter(|at| text.is_char_boundary(*at) && text[*at..].starts_with(&needle)).count();
        let done = replace(&text, &needle, &new, false);
        if count == 1 && needle != new {
            prop_assert_eq!(done.unwrap().text, text.replacen(&needle, &new, 1));
        } else {
            prop_assert!(done.is_err());
        }
    }

    #[test]
    fn no_text_makes_the_search_for_a_near_place_fail(text in "\\PC{0,200}", old in "\\PC{1,40}") {
        let _ = replace(&text, &old, "", false);
    }
}

#[test]
fn what_may_not_be_read_is_not_replaced() {
    let fixture = Fixture::new();
    fixture.put(".env", "KEY=1\n");
    for path in [".env", "./.env"] {
        let told = fixture.refused("write_file", json!({"path": path, "content": "x"}));
        assert!(told.contains("is not replaced"), "{told}");
    }
    assert_eq!(fixture.get(".env"), "KEY=1\n");
    // What is not there is nobody's secret.
    fixture.done("write_file", json!({"path": "sub/.env", "content": "KEY=\n"}));
}
