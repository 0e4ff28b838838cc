//! A diff that is packed into something else: a string of a JSON answer, or lines that are all indented
//! or quoted.
//!
//! JSON says exactly where a string ends and what it holds, so that one is unpacked. White space belongs
//! to a diff's contents, so that an indented one is only told. Never here: reading a diff.

use std::fmt;

use bstr::ByteSlice;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::bytes::RawLine;
use super::cursor::fence;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// The only diff in a document that is, as a whole or in one Markdown fence, JSON: a value, or several
/// one after another.
pub(super) fn unpack(document: &[u8]) -> Result<Option<String>, Refusal> {
    let mut found = json(document).unwrap_or_default();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        several => Err(refuse(
            "several-diffs",
            format!(
                "the answer's JSON holds {several} diffs, and only one can be taken: send one string with the \
                 whole diff, its files one after another"
            ),
        )),
    }
}

/// The diffs in a document of JSON.
fn json(document: &[u8]) -> Option<Vec<String>> {
    let text = unfenced(document.to_str().ok()?.trim())?;
    if !text.starts_with(['{', '[', '"']) {
        return None;
    }
    let values: Result<Vec<Diffs>, _> =
        serde_json::Deserializer::from_str(text).into_iter().collect();
    Some(values.ok()?.into_iter().flat_map(|Diffs(found)| found).collect())
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

/// The diffs in a JSON value. A map of it would keep only the last of two fields with the same name.
struct Diffs(Vec<String>);

impl<'de> Deserialize<'de> for Diffs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Self(Vec::new());
        from.deserialize_any(Collector(&mut all.0))?;
        Ok(all)
    }
}

struct Collector<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Collector<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collector<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if holds_diff(text) {
            self.0.push(text.to_owned());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Collector(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Collector(self.0))?.is_some() {
            map.next_value_seed(Collector(self.0))?;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a line of other text has a diff as a JSON string.
pub(super) fn is_in(line: &[u8]) -> bool {
    let mut rest = line;
    while let Some(start) = rest.find_byte(b'"') {
        rest = &rest[start..];
        let mut strings = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
        let end = match strings.next() {
            Some(Ok(text)) if holds_diff(&text) => return true,
            Some(Ok(_)) => strings.byte_offset(),
            // No string ends behind this one either.
            Some(Err(error)) if error.is_eof() => return false,
            Some(Err(error)) => error.column(),
            None => return false,
        };
        rest = rest.get(end.max(1)..).unwrap_or_default();
    }
    false
}

/// A diff and beside it another, as a string of JSON.
pub(super) fn beside(line: usize) -> Refusal {
    refuse(
        "several-diffs",
        format!(
            "line {line} holds another diff as a JSON string: send one diff, its files one after another"
        ),
    )
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
    let inside = lines.iter().position(|line| is_in(line.text));
    match indented.or(inside) {
        Some(at) if inside == Some(at) => refuse(
            "not-a-diff",
            format!(
                "the diff at line {} of the answer is a JSON string among other text: send the diff as it is, or \
                 the JSON alone",
                at + 1
            ),
        ),
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
        assert!(read(&two).unwrap_err().contains("JSON holds 2 diffs"));
        assert!(read(r#"{"patch": "none"}"#).is_err());
        let inside =
            serde_json::json!({ "patch": serde_json::json!({ "patch": DIFF }).to_string() });
        assert!(read(&inside.to_string()).is_err(), "one wrapping is taken off");
    }

    #[test]
    fn a_second_diff_of_a_json_answer_is_not_overlooked() {
        let string = serde_json::json!(DIFF).to_string();
        let one = format!("{{\"patch\": {string}}}");
        let numbers = format!("[1, -1, 0.5, true, null, {{}}, {string}]");
        for alone in [&one, &numbers, &format!("{{\"why\": \"x\"}}\n{one}")] {
            assert_eq!(read(alone), Ok(vec!["json".to_owned()]), "{alone}");
        }
        for two in [
            format!("{{\"patch\": {string}, \"patch\": {string}}}"),
            format!("{{\"patch\": {string}, \"other\": [{{\"diff\": {string}}}]}}"),
            format!("{{{string}: {string}}}"),
            format!("{one}\n{one}\n"),
            format!("```json\n{one}\n{one}\n```"),
        ] {
            let told = read(&two).unwrap_err();
            assert!(told.contains("JSON holds 2 diffs") && told.contains("send one"), "{told}");
        }
    }

    #[test]
    fn a_diff_in_json_beside_a_bare_one_is_not_overlooked() {
        let json = serde_json::json!({ "why": "a \"b\" c", "patch": DIFF });
        let envelope = "*** Begin Patch\n*** Delete File: y\n*** End Patch\n";
        for both in [
            format!("{json}\n{DIFF}"),
            format!("{DIFF}\n{json}\n"),
            format!("{json:#}\n\n```diff\n{DIFF}```\n"),
        ] {
            let told = read(&both).unwrap_err();
            assert!(told.contains("another diff as a JSON string"), "{told}");
        }
        let told = read(&format!("{json}\n{envelope}")).unwrap_err();
        assert!(told.contains("beside the envelope there is another diff"), "{told}");
        let among = read(&format!("Here it is:\n{json}\n")).unwrap_err();
        assert!(among.contains("line 2") && among.contains("the JSON alone"), "{among}");
        let said = format!("It says \"a\\q\" and \"b\\n--- c\".\n\n{DIFF}");
        assert_eq!(read(&said), Ok(vec!["prose-around".to_owned()]));
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
