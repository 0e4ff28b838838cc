//! Building refusals: one short constructor, so that each check reads as its sentence.
//!
//! Never here: deciding anything.

use bstr::ByteSlice;

use crate::model::Refusal;

/// The most characters of foreign text that a refusal quotes.
const QUOTE_CHARS: usize = 200;

/// A refusal with a code and a sentence.
pub(super) fn refuse(code: &str, message: impl Into<String>) -> Refusal {
    Refusal {
        code: code.to_owned(),
        message: message.into(),
        path: None,
        hunk: None,
        expected: None,
        found: None,
    }
}

/// Adds where and what to a refusal.
pub(super) trait Detail: Sized {
    /// Names the file, unless one is named already.
    fn at(self, path: &[u8]) -> Self;
    /// Names the hunk, from 1.
    fn hunk(self, number: usize) -> Self;
    /// Says what the diff expected.
    fn expected(self, text: &[u8]) -> Self;
    /// Says what is there.
    fn found(self, text: &[u8]) -> Self;
}

impl Detail for Refusal {
    fn at(mut self, path: &[u8]) -> Self {
        self.path.get_or_insert_with(|| quote(path));
        self
    }

    fn hunk(mut self, number: usize) -> Self {
        self.hunk = u32::try_from(number).ok();
        self
    }

    fn expected(mut self, text: &[u8]) -> Self {
        self.expected = Some(quote(text));
        self
    }

    fn found(mut self, text: &[u8]) -> Self {
        self.found = Some(quote(text));
        self
    }
}

/// Foreign bytes for a reader: lossily decoded, cut, control and invisible characters escaped.
pub(super) fn quote(bytes: &[u8]) -> String {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes).to_str_lossy();
    let mut out = String::new();
    for character in text.chars().take(QUOTE_CHARS) {
        if (character.is_control() && character != '\t') || super::disguise::is_invisible(character)
        {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    if text.chars().nth(QUOTE_CHARS).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_escape_what_a_terminal_or_reader_would_not_show() {
        assert_eq!(quote(b"a\tb\n"), "a\tb");
        assert_eq!(quote("a\u{202e}b\u{1b}[m".as_bytes()), "a\\u{202e}b\\u{1b}[m");
        assert_eq!(quote(&[b'x'; 300]).chars().count(), 201);
    }

    #[test]
    fn the_first_path_stays() {
        let refusal = refuse("x", "y").at(b"first").at(b"second").hunk(2);
        assert_eq!((refusal.path.as_deref(), refusal.hunk), (Some("first"), Some(2)));
    }
}
