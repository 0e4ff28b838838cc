//! Names that some file systems can't tell apart: equal but for case or for the form of their accents.

use unicode_normalization::UnicodeNormalization;

use super::admit::Stop;
use super::refuse::{Detail, refuse};
use super::tree::{Editor, StoreError};

/// The leading parts of a path that are not in the tree yet.
pub(super) fn new_parts(path: &[u8], editor: &mut Editor<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut parts = Vec::new();
    for end in ends.chain([path.len()]) {
        if editor.get(&path[..end])?.is_none() {
            parts.push(path[..end].to_vec());
        }
    }
    Ok(parts)
}

/// Refuses a new part whose name folds to that of another entry of its directory.
pub(super) fn check(part: &[u8], editor: &mut Editor<'_>) -> Result<(), Stop> {
    let name = part.rsplit(|&byte| byte == b'/').next().unwrap_or(part);
    let folded = fold(name);
    let twin = editor.siblings(part)?.into_iter().find(|other| {
        // Folding keeps the length of plain names, so that most are settled without it.
        let plain = name.is_ascii() && other.is_ascii();
        if plain { other.eq_ignore_ascii_case(name) } else { fold(other) == folded }
    });
    match twin {
        None => Ok(()),
        Some(other) => Err(refuse(
            "path-collision",
            "the name differs from another one only in case or in the form of its characters",
        )
        .at(part)
        .found(&other)
        .into()),
    }
}

fn fold(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.nfd().flat_map(char::to_lowercase).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_accents_fold() {
        assert_eq!(fold(b"README"), fold(b"readme"));
        assert_eq!(fold("na\u{ef}ve".as_bytes()), fold("nai\u{308}VE".as_bytes()));
        assert_ne!(fold(b"a"), fold(b"b"));
    }
}
