//! A tool call in a few words, for the live view. The words are foreign text.

use serde_json::Value;

const LONGEST: usize = 80;

/// Arguments that say best what a call is about, in this order.
const TELLING: [&str; 6] = ["path", "file", "pattern", "command", "query", "name"];

/// For example `edit_file src/lib.rs`.
pub fn describe(name: &str, arguments: &str) -> String {
    let telling = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => TELLING.iter().find_map(|key| Some(value.get(key)?.as_str()?.to_owned())),
        // Still being written, or broken.
        Err(_) => TELLING.iter().find_map(|key| begun(arguments, key)),
    };
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

/// The text of a field in JSON that has no end yet, once the text has one.
fn begun(arguments: &str, key: &str) -> Option<String> {
    let (_, behind) = arguments.split_once(&format!("\"{key}\""))?;
    let text = behind.trim_start().strip_prefix(':')?.trim_start();
    let mut read = serde_json::Deserializer::from_str(text).into_iter::<String>();
    read.next()?.ok()
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
        assert_eq!(describe("edit_file", r#"{"path": "a\"b.rs", "old": "#), "edit_file a\"b.rs");
        assert_eq!(describe("edit_file", r#"{"path": "a"#), "edit_file");
        assert_eq!(describe("grep", "{\"pattern\":\"a\\nb\\u001b[2J\"}"), "grep a b [2J");
        assert!(
            describe("grep", &format!("{{\"pattern\":\"{}\"}}", "é".repeat(500))).ends_with('…')
        );
    }
}
