//! Visible escapes: one character written as `<U+XXXX>`, and read back.
//!
//! Lives here: the one form of every neutralised character. It is injective, as text that already
//! looks like an escape is escaped itself, so that what was there can always be read back.
//! Never here: the decision what to neutralise.

/// Writes `c` as an escape: `<U+`, its code point in at least four upper-case hexadecimal digits, `>`.
pub(super) fn push(text: &mut String, c: char) {
    let code = u32::from(c);
    text.push_str("<U+");
    for place in (0..length(c) - 4).rev() {
        let digit = (code >> (4 * place)) & 0xf;
        text.push(char::from_digit(digit, 16).unwrap_or('0').to_ascii_uppercase());
    }
    text.push('>');
}

/// The length in bytes of `c` as an escape.
pub(super) fn length(c: char) -> usize {
    let digits = match u32::from(c) {
        0..=0xffff => 4,
        0x1_0000..=0xf_ffff => 5,
        _ => 6,
    };
    digits + 4
}

/// The character that an escape at the very start of `text` stands for, and the escape's length.
pub(super) fn parse(text: &[u8]) -> Option<(char, usize)> {
    let digits = text.strip_prefix(b"<U+")?;
    let count = digits.iter().take(7).position(|byte| *byte == b'>')?;
    let digits = std::str::from_utf8(digits.get(..count)?).ok()?;
    let is_upper = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_upper)?;
    let c = char::from_u32(code)?;
    // Only the form that `push` writes counts, so that each character has exactly one escape.
    (length(c) == count + 4).then_some((c, count + 4))
}

/// Reads every escape back: the exact inverse of neutralising.
pub fn restore(text: &str) -> String {
    let mut restored = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<U+") {
        restored.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = parse(rest.as_bytes()).unwrap_or(('<', 1));
        restored.push(c);
        rest = &rest[length..];
    }
    restored.push_str(rest);
    restored
}
