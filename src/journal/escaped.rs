//! Finding a secret in text, also where that text is written inside others: JSON in JSON, and what programs print of it.
//!
//! What escapes a text puts backslashes before quotes and backslashes, letters in place of line ends and tabs, and
//! `\uXXXX` in place of what is not ASCII, or of what HTML would read; done twice, the backslashes double. All of that is
//! followed here to any depth. Never here: which secrets there are.

use bstr::ByteSlice;

/// Where `secret` stands in `text`: ranges that don't overlap, in order. A backslash is part of one whose first
/// letter it escapes, so that what is left can be read without it.
pub(super) fn find(text: &[u8], secret: &str) -> Vec<(usize, usize)> {
    match secret.chars().any(is_escaped) {
        false => plain(text, secret),
        true => escaped(text, secret),
    }
}

/// `text` with something else in the secret's place; nothing where it does not hold it.
pub(super) fn replaced(text: &[u8], secret: &str, with: &str) -> Option<Vec<u8>> {
    let found = find(text, secret);
    let mut out = Vec::with_capacity(text.len());
    let mut kept = 0;
    for &(start, end) in &found {
        out.extend_from_slice(&text[kept..start]);
        out.extend_from_slice(with.as_bytes());
        kept = end;
    }
    out.extend_from_slice(&text[kept..]);
    (!found.is_empty()).then_some(out)
}

/// Whether `text` holds `secret` in any form.
pub(super) fn holds(text: &[u8], secret: &str) -> bool {
    match secret.chars().any(is_escaped) {
        false => text.contains_str(secret),
        true => !escaped(text, secret).is_empty(),
    }
}

/// What a writer of JSON may write otherwise than it is: what it must, and what some do for ASCII or for HTML.
fn is_escaped(c: char) -> bool {
    c.is_control() || !c.is_ascii() || "\"\\/<>&'".contains(c)
}

fn plain(text: &[u8], secret: &str) -> Vec<(usize, usize)> {
    let whole = |at: usize| (at - escape_before(&text[..at], secret), at + secret.len());
    text.find_iter(secret).map(whole).collect()
}

/// The backslash that makes an escape of the letter that a secret begins with (as in `\nabc`).
fn escape_before(text: &[u8], secret: &str) -> usize {
    let is_letter = secret.starts_with(['b', 'f', 'n', 'r', 't', 'u']);
    usize::from(is_letter && slashes(text.iter().rev()) % 2 == 1)
}

/// How many backslashes come first.
fn slashes<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take_while(|byte| **byte == b'\\').count()
}

fn escaped(text: &[u8], secret: &str) -> Vec<(usize, usize)> {
    let Some(first) = secret.chars().next() else { return Vec::new() };
    let mut raw = [0; 4];
    let raw = first.encode_utf8(&mut raw).as_bytes()[0];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find_byteset([raw, b'\\']) {
        let start = at + next;
        let Some(length) = length(&text[start..], secret) else {
            // Where one of a run of backslashes begins no secret, none of it does.
            at = start + slashes(text[start..].iter()).max(1);
            continue;
        };
        let whole = start - escape_before(&text[at..start], secret);
        found.push((whole, start + length));
        at = start + length;
    }
    found
}

/// The bytes that `secret` takes at the beginning of `text`, if that is what stands there.
fn length(text: &[u8], secret: &str) -> Option<usize> {
    let (mut at, mut behind_slash) = (0, false);
    for c in secret.chars() {
        let slashes = slashes(text[at..].iter());
        if c == '\\' {
            // How many stand for one depends on the depth, so that a run of any length does for a run.
            behind_slash |= slashes > 0;
            at += slashes;
            if !behind_slash {
                return None;
            }
            continue;
        }
        let escapes = slashes > 0 || behind_slash;
        let rest = &text[at + slashes..];
        at += match is_escaped(c) {
            true => slashes + one(rest, c, escapes)?,
            false => literal(&text[at..], c)?,
        };
        behind_slash = false;
    }
    Some(at - not_own(text, at, secret))
}

/// Of the backslashes at the end of a secret that ends in some: those that escape the quote behind it.
fn not_own(text: &[u8], end: usize, secret: &str) -> usize {
    let own = secret.len() - secret.trim_end_matches('\\').len();
    if own == 0 || text.get(end) != Some(&b'"') {
        return 0;
    }
    let run = slashes(text[..end].iter().rev());
    // A quote that is escaped as often as the secret, or one that ends the text that the secret is in. Where neither
    // fits, it keeps one: what the quote stands in must not end there.
    let quote = |depth: u32| [(1 << depth) - 1, (1_usize << depth >> 1).saturating_sub(1)];
    (1..8)
        .flat_map(|depth| quote(depth).map(|quote| (depth, quote)))
        .find_map(|(depth, quote)| ((own << depth) + quote == run).then_some(quote))
        .unwrap_or(run % 2)
}

/// The bytes of a character that may be escaped, behind its backslashes.
fn one(text: &[u8], c: char, escapes: bool) -> Option<usize> {
    literal(text, c).or_else(|| escapes.then(|| letter(text, c).or_else(|| units(text, c)))?)
}

fn literal(text: &[u8], c: char) -> Option<usize> {
    let mut raw = [0; 4];
    let raw = c.encode_utf8(&mut raw).as_bytes();
    text.starts_with(raw).then_some(raw.len())
}

fn letter(text: &[u8], c: char) -> Option<usize> {
    let letter = match c {
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        _ => return None,
    };
    literal(text, letter)
}

/// `uXXXX`, and for what lies above U+FFFF a second one behind backslashes of its own.
fn units(text: &[u8], c: char) -> Option<usize> {
    let mut units = [0; 2];
    let mut at = 0;
    for (nth, unit) in c.encode_utf16(&mut units).iter().enumerate() {
        if nth > 0 {
            at += slashes(text[at..].iter());
        }
        let digits = text.get(at..at + 5)?.strip_prefix(b"u")?;
        let said = std::str::from_utf8(digits).ok()?;
        if u16::from_str_radix(said, 16).ok()? != *unit {
            return None;
        }
        at += 5;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, secret: &str) -> String {
        let text = text.as_bytes();
        String::from_utf8(replaced(text, secret, "#").unwrap_or_else(|| text.to_vec())).unwrap()
    }

    const SECRETS: [&str; 10] = [
        "abcq\"quotedpw12",
        "back\\slash\\\\twice",
        "line\nand\r\ntab\tpw",
        "ümlaut-and-ß",
        "emoji😀in it",
        "a/slash/pw",
        "<html>&'pw'",
        "\"at both ends\\",
        "\\\"\\\n",
        "nothing-special-1",
    ];

    fn json(text: &str) -> String {
        serde_json::Value::from(text).to_string()
    }

    /// As writers do that keep to ASCII.
    fn ascii(text: &str) -> String {
        let mut out = String::new();
        for c in json(text).chars() {
            let mut units = [0; 2];
            match c.is_ascii() && !"<>&'/".contains(c) {
                true => out.push(c),
                false => c
                    .encode_utf16(&mut units)
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04X}"))),
            }
        }
        out
    }

    #[test]
    fn a_secret_is_found_at_every_depth_of_escapes() {
        for secret in SECRETS {
            let mut text = format!("say {secret} end, {secret}");
            for depth in 0..4 {
                let masked = masked(&text, secret);
                assert_eq!(masked.matches('#').count(), 2, "{secret:?} at {depth}: {text}");
                // What is left has its form: it can be read back to the depth that it had.
                let mut read = masked;
                for _ in 0..depth {
                    read = serde_json::from_str(&read).unwrap();
                }
                assert_eq!(read, "say # end, #", "{secret:?} at {depth}");
                assert!(holds(text.as_bytes(), secret));
                text = if depth % 2 == 0 { json(&text) } else { ascii(&text) };
            }
            let ascii = ascii(&json(&format!("say {secret} end")));
            assert_eq!(masked(&ascii, secret).matches('#').count(), 1, "{ascii}");
        }
    }

    #[test]
    fn a_long_run_of_backslashes_is_gone_through_once() {
        let run = "\\".repeat(4 << 20);
        for secret in SECRETS {
            assert_eq!(masked(&run, secret), run, "{secret:?}");
        }
    }

    #[test]
    fn an_escape_does_not_lose_its_letter() {
        let text = json("a\nnew-secret");
        assert_eq!(masked(&text, "new-secret"), "\"a\\n#\"");
        let text = json("a\nnew-secret").replace("\\nn", "\\n");
        assert_eq!(masked(&text, "new-secret"), "\"a#\"", "{text}");
        assert_eq!(masked("C:\\\\new-secret", "new-secret"), "C:\\\\#");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for secret in SECRETS {
            for text in
                ["", "\\", "\\\\\\", "\\u", "\\u00", "\\n\\t\\\"", "ab\\", "\"\"\"", "/////"]
            {
                assert_eq!(masked(text, secret), text, "{secret:?}");
            }
            let part = &secret[..secret.char_indices().last().unwrap().0];
            // The last backslash of a run says nothing of its length.
            if !secret.ends_with('\\') {
                assert_eq!(masked(&json(part), secret), json(part));
            }
        }
    }
}
