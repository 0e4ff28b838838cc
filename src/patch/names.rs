//! File names as diffs write them: plain, or in double quotes with C escapes and octal bytes.
//!
//! Never here: whether a name is allowed (see `path`).

/// A name on a `---` or `+++` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// `/dev/null`: the file is not there on this side.
    Nothing,
    /// A path with whatever stands before it; `epoch` is true when a time stamp of 1970 follows, which
    /// is how plain `diff -N` says that the file is not there.
    Path {
        /// The name as written, unquoted.
        raw: Vec<u8>,
        /// See above.
        epoch: bool,
    },
}

/// Reads the name of a `---` or `+++` line (the marker is cut off already).
pub(super) fn side(text: &[u8]) -> Option<Name> {
    let (raw, rest) = one(text)?;
    if raw.is_empty() || !(rest.is_empty() || rest.starts_with(b"\t")) {
        return None;
    }
    if raw == b"/dev/null" {
        return Some(Name::Nothing);
    }
    let stamp = rest.strip_prefix(b"\t").unwrap_or_default();
    Some(Name::Path { raw, epoch: is_epoch(stamp) })
}

/// Reads a name that must fill the line (`rename from`, `copy to`).
pub(super) fn whole(text: &[u8]) -> Option<Vec<u8>> {
    if text.starts_with(b"\"") {
        let (name, rest) = unquote(text)?;
        return (rest.is_empty() && !name.is_empty()).then_some(name);
    }
    (!text.is_empty()).then(|| text.to_vec())
}

/// One name and what follows it: a quoted one ends at its quote, a plain one at a tab.
fn one(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if text.starts_with(b"\"") {
        return unquote(text);
    }
    let end = text.iter().position(|&byte| byte == b'\t').unwrap_or(text.len());
    Some((text[..end].to_vec(), &text[end..]))
}

/// The ways to read the two names of a `diff --git` line. Names with spaces are not quoted there, so
/// that there can be several.
pub(super) fn pairs(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    if text.starts_with(b"\"") {
        let second = unquote(text).and_then(|(left, rest)| {
            let right = whole(rest.strip_prefix(b" ")?)?;
            Some((left, right))
        });
        return second.into_iter().collect();
    }
    let spaces = text.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    spaces.filter_map(|at| Some((whole(&text[..at])?, whole(&text[at + 1..])?))).collect()
}

/// Reads a quoted name and gives what follows the closing quote.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((name, after)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                name.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            [b'\\', code, after @ ..] => {
                name.push(escape(*code)?);
                rest = after;
            }
            [b'\\'] | [] => return None,
            [byte, after @ ..] => {
                name.push(*byte);
                rest = after;
            }
        }
    }
}

fn escape(code: u8) -> Option<u8> {
    Some(match code {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => code,
        _ => return None,
    })
}

/// Writes a name as git does: in quotes only when it holds control characters, quotes, backslashes or
/// bytes outside ASCII.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    if name.iter().all(plain) {
        return name.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in name {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            _ if plain(&byte) => out.push(byte),
            _ => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// Whether a time stamp (`1970-01-01 01:00:00.000 +0100`) is the epoch in its own time zone.
fn is_epoch(stamp: &[u8]) -> bool {
    let Ok(stamp) = std::str::from_utf8(stamp) else { return false };
    let mut parts = stamp.trim_end().split(' ');
    let (Some(date), Some(time), Some(zone), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let day = match date {
        "1970-01-01" => 0,
        "1969-12-31" => -24 * 60,
        _ => return false,
    };
    match (minutes(time), offset(zone)) {
        (Some(minutes), Some(offset)) => day + minutes == offset,
        _ => false,
    }
}

/// `HH:MM:00` or `HH:MM:00.000`, in minutes.
fn minutes(time: &str) -> Option<i32> {
    let (hour, rest) = time.split_once(':')?;
    let (minute, second) = rest.split_once(':')?;
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let zero = second == "00" && fraction.bytes().all(|byte| byte == b'0');
    (zero && hour.len() == 2 && minute.len() == 2)
        .then(|| Some(hour.parse::<i32>().ok()? * 60 + minute.parse::<i32>().ok()?))
        .flatten()
}

/// `+HHMM`, in minutes.
fn offset(zone: &str) -> Option<i32> {
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = zone.get(1..)?.replace(':', "");
    let (hours, minutes) = (digits.get(..2)?, digits.get(2..4)?);
    Some(sign * (hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &[u8], epoch: bool) -> Option<Name> {
        Some(Name::Path { raw: raw.to_vec(), epoch })
    }

    #[test]
    fn sides_end_at_a_tab_or_a_quote() {
        assert_eq!(side(b"/dev/null"), Some(Name::Nothing));
        assert_eq!(side(b"/dev/null\t1970"), Some(Name::Nothing));
        assert_eq!(side(b"a/x y\t"), path(b"a/x y", false));
        assert_eq!(side(b"\"a/\\303\\257\\t\\\"\""), path(b"a/\xc3\xaf\t\"", false));
        assert_eq!(side(b"\"a/x\" junk"), None);
        assert_eq!(side(b"\"a/x"), None);
        assert_eq!(side(b"\"a/\\q\""), None);
    }

    #[test]
    fn epoch_stamps_respect_their_zone() {
        assert_eq!(side(b"a/x\t1970-01-01 00:00:00.000000000 +0000"), path(b"a/x", true));
        assert_eq!(side(b"a/x\t1970-01-01 01:00:00 +0100"), path(b"a/x", true));
        assert_eq!(side(b"a/x\t1969-12-31 19:00:00 -0500"), path(b"a/x", true));
        assert_eq!(side(b"a/x\t1970-01-01 01:00:00 +0000"), path(b"a/x", false));
        assert_eq!(side(b"a/x\t2024-01-01 00:00:00 +0000"), path(b"a/x", false));
    }

    #[test]
    fn a_pair_with_spaces_has_several_readings() {
        let text = b"a/x y b/x y";
        assert_eq!(pairs(text).len(), 3);
        assert!(pairs(text).contains(&(b"a/x y".to_vec(), b"b/x y".to_vec())));
        assert_eq!(pairs(b"\"a/\\056\" b/z"), [(b"a/.".to_vec(), b"b/z".to_vec())]);
        assert_eq!(pairs(b"a/x \"b/\\n\""), [(b"a/x".to_vec(), b"b/\n".to_vec())]);
        assert!(pairs(b"nothing").is_empty());
    }

    #[test]
    fn quoting_is_undone_by_reading() {
        for name in [&b"plain name"[..], b"t\tab", b"q\"\\", "naïve".as_bytes(), b"\xff\x01"] {
            assert_eq!(whole(&quoted(name)).as_deref(), Some(name));
        }
    }
}
