//! Folding: what a reader takes a character for, whatever its code point.
//!
//! Lives here: the look-alike table (Unicode's confusables and compatibility forms, in
//! `confusables.txt`, plus what that list lacks) and the classes of invisible characters.
//! Never here: anything that changes text.

use std::sync::OnceLock;

use unicode_normalization::char::is_combining_mark;

/// Code point and ASCII text (none for what is blank), one pair a line, generated from Unicode's data (see the test below).
const TABLE: &str = include_str!("confusables.txt");

/// Look-alikes that Unicode's confusables list lacks: brackets, small capitals, overlines of words.
const EXTRA: &[(&str, &str)] = &[
    ("‹«〈⟨〈＜﹤˂ᐸ❮❬❰ㄑくㄍ﹝⧼⦑⦓⟪《︿︽⪡≺⊰⋖≼", "<"),
    ("≪⋜⨞", "<<"),
    ("⋘⫷", "<<<"),
    ("›»〉⟩〉＞﹥˃ᐳ❯❭❱⧽⟫》≻⊱⋗", ">"),
    ("≫", ">>"),
    ("⋙⫸", ">>>"),
    ("ᴀ", "a"),
    ("ʙ", "b"),
    ("ᴄ", "c"),
    ("ᴅ", "d"),
    ("ᴇɛƐ∃€", "e"),
    ("ꜰ", "f"),
    ("ɢ", "g"),
    ("ʜ", "h"),
    ("ɪ", "i"),
    ("ᴊ", "j"),
    ("ᴋ", "k"),
    ("ʟ", "l"),
    ("ᴍ", "m"),
    ("ɴИиη∩ᴎͷп", "n"),
    ("ᴏ", "o"),
    ("ᴘ", "p"),
    ("ʀЯяᴚ", "r"),
    ("ꜱ§", "s"),
    ("ᴛτт┬⊤†", "t"),
    ("ᴜ∪⋃υ⊔⨃⨆", "u"),
    ("ᴠ", "v"),
    ("ᴡ", "w"),
    ("ʏ", "y"),
    ("ᴢ", "z"),
    ("▁＿‗", "_"),
    ("｜│┃∣❘", "|"),
    ("․｡。", "."),
    ("⁄∕╱／", "/"),
];

/// What a character counts as when markers are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glyph {
    /// Nothing: invisible, a combining mark, a control character, or a decoding error's stand-in.
    Nothing,
    /// White space of any kind, line boundaries left out.
    Space,
    /// A line boundary of any kind.
    Line,
    /// These ASCII characters.
    Text(&'static str),
    /// A character that looks like no ASCII text.
    Foreign,
}

/// What `c` counts as.
pub(super) fn glyph(c: char) -> Glyph {
    match c {
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Glyph::Line,
        '\t' | ' ' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{115f}' | '\u{1160}' => Glyph::Space,
        '!'..='~' => Glyph::Text(ascii(c)),
        _ if c.is_ascii() => Glyph::Nothing,
        '\u{fffd}' => Glyph::Nothing,
        _ if is_invisible(c) || is_combining_mark(c) => Glyph::Nothing,
        _ if c.is_whitespace() => Glyph::Space,
        _ => tables().of(c).map_or(Glyph::Foreign, Glyph::Text),
    }
}

/// The same for an ASCII byte, from a table.
pub(super) fn ascii_glyph(byte: u8) -> Glyph {
    static TABLE: OnceLock<[Glyph; 128]> = OnceLock::new();
    let table = TABLE.get_or_init(|| std::array::from_fn(|code| glyph(char::from(code as u8))));
    table.get(usize::from(byte)).copied().unwrap_or(Glyph::Foreign)
}

/// Whether `c` is shown as an escape: C0 but for newline and tab, DEL, C1, format characters,
/// variation selectors, tags, fillers and separators that a reader can't see. The ranges are general
/// category Cf and the property Default_Ignorable_Code_Point of Unicode 16, with both line separators.
pub(super) fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && c != '\n' && c != '\t';
    }
    matches!(u32::from(c),
        0x80..=0x9f | 0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
        | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
        | 0xe0000..=0xe0fff)
}

/// The class of a visible ASCII character. Characters that are easily taken for each other share
/// one, and `m` counts as `rn`.
fn ascii(c: char) -> &'static str {
    const CLASSES: [&str; 94] = [
        "l", "\"", "#", "s", "%", "&", "'", "(", ")", "*", "+", ",", "-", ".", "/", "o", "l", "2",
        "e", "a", "s", "6", "t", "8", "9", ":", ";", "<", "=", ">", "?", "a", "a", "b", "c", "d",
        "e", "f", "g", "h", "l", "j", "k", "l", "rn", "n", "o", "p", "q", "r", "s", "t", "u", "v",
        "w", "x", "y", "z", "[", "\\", "]", "^", "_", "'", "a", "b", "c", "d", "e", "f", "g", "h",
        "l", "j", "k", "l", "rn", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z",
        "{", "l", "}", "-",
    ];
    let index = (c as usize).wrapping_sub(0x21);
    CLASSES.get(index).copied().unwrap_or("")
}

/// The plain ASCII reading of `c` in lower case, digits and bars kept apart: what control tokens are
/// compared with. `None` for what reads as no ASCII text.
pub(super) fn plain(c: char) -> Option<char> {
    match c {
        _ if c.is_ascii() => Some(c.to_ascii_lowercase()),
        _ => tables().plain(c),
    }
}

struct Tables {
    /// By code point below [`LIMIT`]: 0, or 1 + an index into both lists.
    index: Vec<u16>,
    class: Vec<&'static str>,
    plain: Vec<char>,
}

/// No character above reads as ASCII (ideographs, private use).
const LIMIT: usize = 0x2_0000;

impl Tables {
    fn slot(&self, c: char) -> Option<usize> {
        let slot = self.index.get(c as usize).copied().unwrap_or(0);
        usize::from(slot).checked_sub(1)
    }

    fn of(&self, c: char) -> Option<&'static str> {
        self.slot(c).and_then(|slot| self.class.get(slot).copied())
    }

    fn plain(&self, c: char) -> Option<char> {
        self.slot(c).and_then(|slot| self.plain.get(slot).copied())
    }
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = Tables { index: vec![0; LIMIT], class: Vec::new(), plain: Vec::new() };
        let mut by_text = std::collections::BTreeMap::new();
        let lines = TABLE.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
        let listed =
            lines.filter_map(|(code, text)| Some((usize::from_str_radix(code, 16).ok()?, text)));
        let extra = EXTRA.iter().flat_map(|(all, text)| all.chars().map(|c| (c as usize, *text)));
        for (code, text) in listed.chain(extra) {
            let slot = *by_text.entry(text).or_insert_with(|| tables.add(text));
            if let Some(place) = tables.index.get_mut(code) {
                *place = slot;
            }
        }
        tables
    })
}

impl Tables {
    fn add(&mut self, text: &'static str) -> u16 {
        let class: String = text.chars().map(ascii).collect();
        self.class.push(Box::leak(class.into_boxed_str()));
        self.plain.push(text.chars().next().unwrap_or(' ').to_ascii_lowercase());
        self.class.len() as u16
    }
}

#[cfg(test)]
mod tests {
    use unicode_normalization::UnicodeNormalization;
    use unicode_security::skeleton;

    use super::*;

    /// What Unicode says that `c` looks like, when there is ASCII text or only white space in it.
    /// Parts that are neither count as `?`.
    fn by_unicode(c: char) -> Option<String> {
        let read = |text: String| {
            let seen: String = text.nfkd().collect();
            let seen: String = skeleton(&seen).collect();
            let seen: String = seen.nfkd().filter(|c| !is_combining_mark(*c)).collect();
            let blank = seen.trim().is_empty();
            let ascii = |c: char| if c.is_ascii_graphic() { c } else { '?' };
            let text: String = seen.split_whitespace().flat_map(str::chars).map(ascii).collect();
            match text.chars().all(|c| c == '?') {
                true => blank.then(String::new),
                false => Some(text),
            }
        };
        read(c.to_string())
            .or_else(|| read(c.to_uppercase().collect()))
            .or_else(|| read(c.to_lowercase().collect()))
            .or_else(|| enclosed(c))
    }

    /// Letters in squares, negative circles and flags, which have no compatibility form.
    fn enclosed(c: char) -> Option<String> {
        let starts = [0x1f130, 0x1f150, 0x1f170, 0x1f1e6];
        let offset = starts
            .iter()
            .find_map(|start| u32::from(c).checked_sub(*start).filter(|offset| *offset < 26))?;
        char::from_u32(u32::from('A') + offset).map(String::from)
    }

    #[test]
    fn the_table_is_what_unicode_says() {
        let mut table = String::new();
        for c in ('\u{a0}'..'\u{20000}').filter(|c| !is_invisible(*c) && !is_combining_mark(*c)) {
            if let Some(text) = by_unicode(c) {
                table.push_str(format!("{:04X} {text}", c as u32).trim_end());
                table.push('\n');
            }
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write("src/fence/confusables.txt", &table).unwrap();
        } else {
            assert_eq!(table, TABLE, "run this test with BLESS=1 to write the table again");
        }
    }

    #[test]
    fn folds_what_looks_alike() {
        let read = |text: &str| -> String {
            text.chars()
                .map(|c| match glyph(c) {
                    Glyph::Text(text) => text,
                    Glyph::Foreign => "?",
                    Glyph::Space | Glyph::Line => " ",
                    Glyph::Nothing => "",
                })
                .collect()
        };
        for same in [
            "UNTRUSTED",
            "untrusted",
            "ＵＮＴＲＵＳＴＥＤ",
            "𝐔𝐍𝐓𝐑𝐔𝐒𝐓𝐄𝐃",
            "ᴜɴᴛʀᴜꜱᴛᴇᴅ",
            "UΝΤRUЅΤЕD",
            "Ⓤⓝⓣⓡⓤⓢⓣⓔⓓ",
            "🅄🄽🅃🅁🅄🅂🅃🄴🄳",
            "🇺🇳🇹🇷🇺🇸🇹🇪🇩",
            "UN\u{200b}TRUST\u{301}ED",
            "ÜŇŤŘÛŜŢËÐ",
            "UNTRU\u{fb06}ED",
        ] {
            assert_eq!(read(same), "untrusted", "{same}");
        }
        assert_eq!(read("rnernory"), read("MEMORY"));
        assert_eq!(read("≪<⋘‹＜"), "<<<<<<<<");
        assert_eq!(read("漢字"), "??");
        assert_eq!(plain('Ｓ'), Some('s'));
    }
}
