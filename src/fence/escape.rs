//! Visible escapes: one character written as `<U+XXXX>`, and read back.
//!
//! Lives here: the one form of every neutralised character, and of every byte that is no UTF-8
//! (`<U+DC80>` to `<U+DCFF>`: code points that no text holds, as in Python's `surrogateescape`). It is
//! injective, as text that already looks like an escape is escaped itself, so that what was there can
//! always be read back. Never here: the decision what to neutralise.

/// What stands in a text for one byte that is no UTF-8.
pub(super) const STAND_IN: char = '\u{fffd}';

/// Whether `text` begins with that stand-in.
pub(super) fn is_stand_in(text: &[u8]) -> bool {
    text.starts_with(b"\xef\xbf\xbd")
}

/// What an escape stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// A character.
    Char(char),
    /// A byte that is no UTF-8.
    Byte(u8),
}

/// Writes `c` as an escape: `<U+`, its code point in at least four upper-case hexadecimal digits, `>`.
pub(super) fn push(text: &mut String, c: char) {
    push_code(text, u32::from(c), length(c) - 4);
}

/// Writes a byte from 0x80 that is no UTF-8 as an escape, as long as that of its stand-in.
pub(super) fn push_byte(text: &mut String, byte: u8) {
    push_code(text, BYTES + u32::from(byte), 4);
}

/// The code point of byte 0.
const BYTES: u32 = 0xdc00;

fn push_code(text: &mut String, code: u32, digits: usize) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    text.push_str("<U+");
    text.extend((0..digits).rev().map(|place| DIGITS[(code >> (4 * place)) as usize & 0xf]));
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

/// Whether `text` begins like an escape, in the form that is written here or in one that another reader
/// might take for it (`<U+41>`, `<U+000041>`).
pub(super) fn is_like(text: &[u8]) -> bool {
    text.strip_prefix(b"<U+").and_then(<[u8]>::first).is_some_and(u8::is_ascii_hexdigit)
}

/// What an escape at the very start of `text` stands for, and the escape's length.
pub(super) fn parse(text: &[u8]) -> Option<(Meant, usize)> {
    let digits = text.strip_prefix(b"<U+")?;
    let count = digits.iter().take(7).position(|byte| *byte == b'>')?;
    let digits = std::str::from_utf8(digits.get(..count)?).ok()?;
    let is_upper = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_upper)?;
    if let Some(byte) = code.checked_sub(BYTES).filter(|byte| (0x80..=0xff).contains(byte)) {
        return (count == 4).then_some((Meant::Byte(byte as u8), count + 4));
    }
    let c = char::from_u32(code)?;
    // Only the form that `push` writes counts, so that each character has exactly one escape.
    (length(c) == count + 4).then_some((Meant::Char(c), count + 4))
}

/// Reads every escape back: the exact inverse of neutralising. Bytes that were no UTF-8 come back as
/// U+FFFD; [`restore_bytes`] gives them as they were.
pub fn restore(text: &str) -> String {
    let mut restored = String::with_capacity(text.len());
    read_back(text, |part| match part {
        Ok(text) => restored.push_str(text),
        Err(Meant::Char(c)) => restored.push(c),
        Err(Meant::Byte(_)) => restored.push(STAND_IN),
    });
    restored
}

/// Reads every escape back, bytes that were no UTF-8 included: the exact inverse of neutralising bytes.
pub fn restore_bytes(text: &str) -> Vec<u8> {
    let mut restored = Vec::with_capacity(text.len());
    read_back(text, |part| match part {
        Ok(text) => restored.extend_from_slice(text.as_bytes()),
        Err(Meant::Char(c)) => restored.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        Err(Meant::Byte(byte)) => restored.push(byte),
    });
    restored
}

/// Gives the parts of a text in order: plain text, and what its escapes stand for.
fn read_back(text: &str, mut give: impl FnMut(Result<&str, Meant>)) {
    let mut rest = text;
    while let Some(at) = rest.find("<U+") {
        give(Ok(&rest[..at]));
        rest = &rest[at..];
        match parse(rest.as_bytes()) {
            Some((meant, length)) => {
                give(Err(meant));
                rest = &rest[length..];
            }
            None => {
                give(Ok("<"));
                rest = &rest[1..];
            }
        }
    }
    give(Ok(rest));
}
