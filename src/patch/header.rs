//! The header of a `diff --git` section: its extended lines, each at most once and none unknown.
//!
//! Never here: what the lines mean together (see `section`).

use super::cursor::Cursor;
use super::file::Index;
use super::mode;
use super::names::{self, Name};
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// What the header lines said.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    pub new_file: Option<u32>,
    pub deleted_file: Option<u32>,
    pub rename_from: Option<Vec<u8>>,
    pub rename_to: Option<Vec<u8>>,
    pub copy_from: Option<Vec<u8>>,
    pub copy_to: Option<Vec<u8>>,
    pub index: Option<Index>,
    pub index_mode: Option<u32>,
    /// Per cent of lines kept by a rename, copy or rewrite.
    pub similarity: Option<u8>,
    pub minus: Option<Name>,
    pub plus: Option<Name>,
}

impl Header {
    /// Reads the header that starts at the cursor's `diff --git` line and leaves the cursor after it.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Refusal> {
        let first = cursor.text();
        check_return(cursor, first)?;
        let names = first.strip_prefix(b"diff --git ").unwrap_or_default();
        let mut header = Self { pairs: names::pairs(names), ..Self::default() };
        if header.pairs.is_empty() {
            return Err(bad(cursor, "is no `diff --git` header with two names"));
        }
        cursor.advance();
        while !cursor.done() && header.line(cursor)? {
            cursor.advance();
        }
        Ok(header)
    }

    /// Takes one line; false when the header ends before it.
    fn line(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Refusal> {
        let text = cursor.text();
        if text.starts_with(b"--- ") {
            check_return(cursor, text)?;
            (self.minus, self.plus) = read_sides(cursor)?;
            return Ok(false);
        }
        // Git takes it for the new name, wherever it stands in a header.
        if text.starts_with(b"+++ ") {
            return Err(bad(cursor, "has no `---` line before it"));
        }
        let Some((key, value)) =
            KEYS.iter().find_map(|key| Some((*key, text.strip_prefix(key.as_bytes())?)))
        else {
            return Ok(false);
        };
        check_return(cursor, text)?;
        let taken = match key {
            "old mode " => set(&mut self.old_mode, mode::read(value)),
            "new mode " => set(&mut self.new_mode, mode::read(value)),
            "new file mode " => set(&mut self.new_file, mode::read(value)),
            "deleted file mode " => set(&mut self.deleted_file, mode::read(value)),
            "rename from " | "rename old " => set(&mut self.rename_from, names::whole(value)),
            "rename to " | "rename new " => set(&mut self.rename_to, names::whole(value)),
            "copy from " => set(&mut self.copy_from, names::whole(value)),
            "copy to " => set(&mut self.copy_to, names::whole(value)),
            "index " => self.index_line(value),
            _ => set(&mut self.similarity, percent(value)),
        };
        taken.map_err(|why| bad(cursor, why))?;
        Ok(true)
    }

    /// `OLD..NEW` and perhaps a mode.
    fn index_line(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(value).map_err(|_| "is not ASCII")?;
        let (ids, mode_text) = match text.split_once(' ') {
            Some((ids, mode_text)) => (ids, Some(mode_text)),
            None => (text, None),
        };
        if let Some(mode_text) = mode_text {
            set(&mut self.index_mode, mode::read(mode_text.as_bytes()))?;
        }
        let (old, new) = ids.split_once("..").ok_or("has no `OLD..NEW`")?;
        set(&mut self.index, Some(Index { old: old.to_owned(), new: new.to_owned() }))
    }
}

/// All that git reads; a key that is missing here would pass for prose.
const KEYS: [&str; 13] = [
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "rename from ",
    "rename to ",
    "rename old ",
    "rename new ",
    "copy from ",
    "copy to ",
    "index ",
    "similarity index ",
    "dissimilarity index ",
];

/// Reads a `---` line and the `+++` line after it; the cursor stands after both.
pub(super) fn read_sides(cursor: &mut Cursor<'_>) -> Result<(Option<Name>, Option<Name>), Refusal> {
    let minus = names::side(cursor.text().strip_prefix(b"--- ").unwrap_or_default());
    let minus = minus.ok_or_else(|| bad(cursor, "has no readable name"))?;
    cursor.advance();
    let text = cursor.text();
    check_return(cursor, text)?;
    let plus = text.strip_prefix(b"+++ ").ok_or_else(|| bad(cursor, "should be a `+++` line"))?;
    let plus = names::side(plus).ok_or_else(|| bad(cursor, "has no readable name"))?;
    cursor.advance();
    Ok((Some(minus), Some(plus)))
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) -> Result<(), &'static str> {
    if slot.is_some() {
        return Err("is there twice");
    }
    *slot = Some(value.ok_or("has no readable value")?);
    Ok(())
}

fn percent(value: &[u8]) -> Option<u8> {
    let digits = value.strip_suffix(b"%").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|percent| *percent <= 100)
}

fn check_return(cursor: &Cursor<'_>, text: &[u8]) -> Result<(), Refusal> {
    match text.ends_with(b"\r") {
        true => Err(bad(cursor, "ends in a carriage return: send the diff with plain line feeds")),
        false => Ok(()),
    }
}

fn bad(cursor: &Cursor<'_>, why: &str) -> Refusal {
    refuse("bad-header", format!("line {} of the diff {why}", cursor.number())).found(cursor.text())
}

#[cfg(test)]
mod tests {
    use super::super::bytes;
    use super::super::rules::Rules;
    use super::*;

    fn read(text: &str) -> Result<Header, String> {
        let source = bytes::read(text.as_bytes(), &Rules::default()).unwrap();
        Header::read(&mut Cursor::new(&source.lines, 0)).map_err(|refusal| refusal.code)
    }

    #[test]
    fn all_lines_are_read() {
        let header = read(
            "diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 90%\n\
             rename from x\nrename to y\nindex 1234567..89abcde\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n",
        )
        .unwrap();
        assert_eq!((header.old_mode, header.new_mode), (Some(0o100_644), Some(0o100_755)));
        assert_eq!(header.rename_from.as_deref(), Some(&b"x"[..]));
        assert_eq!(header.similarity, Some(90));
        assert_eq!(header.index.unwrap().new, "89abcde");
        assert!(header.minus.is_some() && header.plus.is_some());
    }

    #[test]
    fn twice_or_unreadable_is_refused() {
        for lines in [
            "old mode 100644\nold mode 100644",
            "new file mode 1006448",
            "index 12",
            "similarity index 101%",
            "rename from ",
            "--- a/x\n@@ -1 +1 @@",
            "new file mode 100644\n+++ b/x",
            "new file mode 100644\r",
        ] {
            let text = format!("diff --git a/x b/x\n{lines}\n");
            assert_eq!(read(&text).err().as_deref(), Some("bad-header"), "{lines:?}");
        }
        // Git's first words for a rename.
        let old = read("diff --git a/x b/y\nrename old x\nrename new y\n").unwrap();
        assert_eq!(
            (old.rename_from.as_deref(), old.rename_to.as_deref()),
            (Some(&b"x"[..]), Some(&b"y"[..]))
        );
        assert_eq!(read("diff --git nothing\n").err().as_deref(), Some("bad-header"));
    }
}
