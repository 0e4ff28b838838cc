//! A diff that is packed into something else: a string of a JSON answer, or lines that are all indented
//! or quoted.
//!
//! JSON says exactly where a string ends and what it holds, so that one is unpacked. White space belongs
//! to a diff's contents, so that an indented one is only told. Never here: reading a diff.

use bstr::ByteSlice;
use serde_json::Value;

use super::bytes::RawLine;
use super::cursor::fence;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// The only diff in a document that is, as a whole or in one Markdown fence, JSON.
pub(super) fn unpack(document: &[u8]) -> Option<String> {
    let text = unfenced(document.to_str().ok()?.trim())?;
    if !text.starts_with(['{', '[', '"']) {
        return None;
    }
    let mut found = Vec::new();
    collect(serde_json::from_str(text).ok()?, &mut found);
    match found.len() {
        1 => found.pop(),
        _ => None,
    }
}

/// The inside of the fence that is all of a text, or the text itself.
fn unfenced(text: &str) -> Option<&str> {
    if fence(text.lines().next()?.as_bytes()).is_none() {
        return Some(text);
    }
    let (_, inside) = text.split_once('\n')?;
    let (inside, last) = inside.rsplit_once('\n')?;
    fence(last.as_bytes())?;
    Some(inside.trim())
}

fn collect(value: Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if holds_diff(&text) => found.push(text),
        Value::Array(list) => list.into_iter().for_each(|each| collect(each, found)),
        Value::Object(map) => map.into_iter().for_each(|(_, each)| collect(each, found)),
        _ => {}
    }
}

fn holds_diff(text: &str) -> bool {
    let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
    (0..lines.len()).any(|at| starts_diff(lines[at], lines.get(at + 1).copied()))
}

fn starts_diff(line: &[u8], next: Option<&[u8]>) -> bool {
    line.starts_with(b"diff --git ")
        || line == b"*** Begin Patch"
        || (line.starts_with(b"--- ") && next.is_some_and(|next| next.starts_with(b"+++ ")))
}

/// Why there seems to be no diff in a document.
pub(super) fn missing(lines: &[RawLine<'_>]) -> Refusal {
    let indented = (0..lines.len()).find(|at| {
        let bare = |at: usize| lines.get(at).map(|line| unquoted(line.text));
        let (line, next) = (bare(*at), bare(at + 1));
        line.is_some_and(|line| starts_diff(line, next))
    });
    match indented {
        Some(at) => refuse(
            "not-a-diff",
            format!(
                "the diff at line {} of the answer is indented or quoted, and what stands before its lines may \
                 belong to the files: start each line of the diff at the first column",
                at + 1
            ),
        )
        .found(lines[at].text),
        None => refuse(
            "not-a-diff",
            "there is no diff in the answer: send git's unified format or a `*** Begin Patch` envelope",
        ),
    }
}

fn unquoted(line: &[u8]) -> &[u8] {
    let quote = |byte: u8| byte == b'>' || byte.is_ascii_whitespace();
    let start = line.iter().position(|byte| !quote(*byte)).unwrap_or(line.len());
    &line[start..]
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, parse};

    const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n";

    fn read(document: &str) -> Result<Vec<String>, String> {
        let patch =
            parse(document.as_bytes(), &Rules::default()).map_err(|refusal| refusal.message)?;
        Ok(patch.repairs().iter().map(|repair| repair.code.clone()).collect())
    }

    #[test]
    fn the_one_diff_of_a_json_answer_is_unpacked() {
        let json = serde_json::json!({ "why": "a - b\n+ c", "files": [{ "patch": DIFF }] });
        assert_eq!(read(&json.to_string()), Ok(vec!["json".to_owned()]));
        let fenced = format!("```json\n{json:#}\n```\n");
        assert_eq!(read(&fenced), Ok(vec!["json".to_owned()]));
        assert_eq!(read(&serde_json::json!(DIFF).to_string()), Ok(vec!["json".to_owned()]));
        let two = serde_json::json!([DIFF, DIFF]).to_string();
        assert!(read(&two).unwrap_err().contains("no diff in the answer"));
        assert!(read(r#"{"patch": "none"}"#).is_err());
        let inside =
            serde_json::json!({ "patch": serde_json::json!({ "patch": DIFF }).to_string() });
        assert!(read(&inside.to_string()).is_err(), "one wrapping is taken off");
    }

    #[test]
    fn an_indented_or_quoted_diff_is_told() {
        for before in ["  ", "\t", "> "] {
            let diff: String = DIFF.lines().map(|line| format!("{before}{line}\n")).collect();
            let told = read(&format!("Fix:\n\n{diff}")).unwrap_err();
            assert!(told.contains("line 3") && told.contains("first column"), "{told}");
        }
    }
}
