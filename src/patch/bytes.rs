//! The first look at a diff: encodings, NUL bytes and limits, before anything is parsed.

use super::refuse::{Detail, refuse};
use super::rules::Rules;
use crate::model::Refusal;

/// A line of a diff: its bytes without the line feed, and whether it had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawLine<'a> {
    /// The bytes before the line feed.
    pub text: &'a [u8],
    /// Whether a line feed ended it.
    pub ended: bool,
}

/// The lines of a diff after the byte checks.
pub(super) struct Source<'a> {
    /// Its lines.
    pub lines: Vec<RawLine<'a>>,
    /// A UTF-8 byte order mark stood before the first one.
    pub mark: bool,
    /// Every line ended in CR LF; the CR is cut off.
    pub crlf: bool,
}

/// Checks the bytes and splits them into lines.
pub(super) fn read<'a>(diff: &'a [u8], rules: &Rules) -> Result<Source<'a>, Refusal> {
    if diff.len() > rules.max_bytes {
        return Err(refuse(
            "too-large",
            format!(
                "the diff has {} bytes; at most {} are taken: send a smaller change, or raise `max_mb` in \
                 `[patch]`",
                diff.len(),
                rules.max_bytes
            ),
        ));
    }
    check_encoding(diff)?;
    let (diff, mark) = match diff.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => (rest, true),
        None => (diff, false),
    };
    if diff.iter().all(u8::is_ascii_whitespace) {
        return Err(refuse("empty", "there is no diff in the answer: send the change as a diff"));
    }
    let mut lines = split(diff);
    check_lengths(&lines, rules)?;
    let crlf = lines.iter().all(|line| line.text.ends_with(b"\r") || !line.ended);
    if crlf {
        for line in &mut lines {
            line.text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
        }
    }
    Ok(Source { lines, mark, crlf: crlf && diff.contains(&b'\n') })
}

fn check_encoding(diff: &[u8]) -> Result<(), Refusal> {
    let wide = diff.starts_with(b"\xff\xfe") || diff.starts_with(b"\xfe\xff");
    if wide {
        return Err(refuse("utf-16", "the diff is in UTF-16; send it in UTF-8"));
    }
    match diff.iter().position(|&byte| byte == 0) {
        Some(at) => Err(refuse(
            "nul-byte",
            "the diff holds a NUL byte; text diffs can't, and a file with one needs a binary patch",
        )
        .found(format!("a NUL byte at offset {at}").as_bytes())),
        None => Ok(()),
    }
}

fn check_lengths(lines: &[RawLine<'_>], rules: &Rules) -> Result<(), Refusal> {
    match lines.iter().position(|line| line.text.len() > rules.max_line_bytes) {
        Some(at) => Err(refuse(
            "long-line",
            format!(
                "line {} of the diff has {} bytes; at most {} are taken",
                at + 1,
                lines[at].text.len(),
                rules.max_line_bytes
            ),
        )),
        None => Ok(()),
    }
}

fn split(diff: &[u8]) -> Vec<RawLine<'_>> {
    diff.split_inclusive(|&byte| byte == b'\n')
        .map(|line| match line.strip_suffix(b"\n") {
            Some(text) => RawLine { text, ended: true },
            None => RawLine { text: line, ended: false },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(diff: &[u8]) -> String {
        read(diff, &Rules { max_line_bytes: 10, max_bytes: 40, ..Rules::default() })
            .err()
            .map_or_else(|| "ok".to_owned(), |refusal| refusal.code)
    }

    #[test]
    fn bytes_are_checked_before_anything_else() {
        assert_eq!(code(b""), "empty");
        assert_eq!(code(b" \n\n"), "empty");
        assert_eq!(code(b"\xff\xfed\0i\0"), "utf-16");
        assert_eq!(code(b"+a\0b\n"), "nul-byte");
        assert_eq!(code(b"12345678901\n"), "long-line");
        assert_eq!(code(&[b'\n'; 41]), "too-large");
        assert_eq!(code(b"+ok\n"), "ok");
    }

    #[test]
    fn carriage_returns_are_cut_only_when_every_line_has_one() {
        let rules = Rules::default();
        let all = read(b"a\r\nb\r\n", &rules).unwrap();
        assert!(all.crlf && all.lines[0].text == b"a");
        let some = read(b"a\r\nb\n", &rules).unwrap();
        assert!(!some.crlf && some.lines[0].text == b"a\r");
        assert!(!read(b"a", &rules).unwrap().crlf);
    }
}
