//! A tool call in a few words, for the live view. The words are foreign text.

use serde_json::Value;

const LONGEST: usize = 80;

/// Arguments that say best what a call is about, in this order.
const TELLING: [&str; 6] = ["path", "file", "pattern", "command", "query", "name"];

/// For example `edit_file src/lib.rs`.
pub fn describe(name: &str, arguments: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
    let telling = TELLING.iter().find_map(|key| value.get(key).and_then(Value::as_str));
    let text = match telling {
        Some(telling) => format!("{name} {telling}"),
        None => name.to_owned(),
    };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_tool_and_its_object_on_one_line() {
        assert_eq!(
            describe("edit_file", r#"{"old":"x","path":"src/lib.rs"}"#),
            "edit_file src/lib.rs"
        );
        assert_eq!(describe("submit", "{ not json"), "submit");
        assert_eq!(describe("grep", "{\"pattern\":\"a\\nb\\u001b[2J\"}"), "grep a b [2J");
        assert!(
            describe("grep", &format!("{{\"pattern\":\"{}\"}}", "é".repeat(500))).ends_with('…')
        );
    }
}
