//! JSON with comments and commas too many, as `tsconfig.json` is written.

use serde_json::Value;

/// Reads it; `None` when it is not even that.
pub fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(&plain(text.trim_start_matches('\u{feff}'))).ok()
}

/// The text without comments, and without commas before a closing bracket.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => string(&mut out, &mut rest),
            ('/', Some('/')) => while rest.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                let mut last = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
            }
            ('}' | ']', _) => {
                let kept = out.trim_end().trim_end_matches(',').len();
                out.truncate(kept);
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

fn string(out: &mut String, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    out.push('"');
    while let Some(c) = rest.next() {
        out.push(c);
        match c {
            '\\' => out.extend(rest.next()),
            '"' => break,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_commas_are_passed_over() {
        let text = "{ // one\n \"a\": \"/* no */ \\\" // no\", /* two */ \"b\": [1, 2,], }";
        assert_eq!(parse(text), Some(serde_json::json!({"a": "/* no */ \" // no", "b": [1, 2]})));
        assert_eq!(parse("{"), None);
        assert_eq!(parse("\"\\"), None);
    }
}
