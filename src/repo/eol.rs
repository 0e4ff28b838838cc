//! Line ends, converted as git stores them. Pure.

/// How a path's line ends are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// As they are.
    Binary,
    /// As LF.
    Always,
    /// As LF where the file looks like text and its stored form has no CR.
    Auto,
}

/// Every CRLF becomes LF.
pub(crate) fn to_lf(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.windows(2).any(|pair| pair == b"\r\n") {
        return bytes;
    }
    let next = bytes.iter().skip(1).copied().map(Some).chain([None]);
    let kept = bytes.iter().zip(next).filter(|(b, next)| !(**b == b'\r' && *next == Some(b'\n')));
    kept.map(|(b, _)| *b).collect()
}

/// Every lone LF becomes CRLF.
pub(crate) fn to_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    let mut last = 0;
    for byte in bytes {
        if *byte == b'\n' && last != b'\r' {
            out.push(b'\r');
        }
        out.push(*byte);
        last = *byte;
    }
    out
}

/// Whether git would call a file binary when it decides on line ends: a NUL, or a CR that ends no
/// line.
pub(crate) fn looks_binary(bytes: &[u8]) -> bool {
    let lone = |at: usize| bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    bytes.contains(&0) || (0..bytes.len()).any(lone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_go_there_and_back() {
        assert_eq!(to_lf(b"a\r\nb\rc\n".to_vec()), b"a\nb\rc\n");
        assert_eq!(to_crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
        assert!(looks_binary(b"a\rb") && looks_binary(b"\0") && !looks_binary(b"a\r\nb\n"));
    }
}
