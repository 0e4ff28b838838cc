//! Characters that are spelt out: HTML's character references, backslash escapes, percent encoding.
//!
//! A reader decodes them in passing, so that what they spell counts as if it stood there. Sources: the HTML standard
//! (13.2.5.72 and following, named references with and without semicolon), and the escapes of JSON, JavaScript, Python, C,
//! Perl, Markdown and URLs. Never here: what the characters look like.

use std::collections::HashMap;
use std::sync::OnceLock;

use entities::ENTITIES;

/// What is spelt out: one character, or two, as some named references are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelt(char, Option<char>);

impl Spelt {
    const fn one(c: char) -> Self {
        Self(c, None)
    }

    /// Its characters.
    pub(super) fn chars(self) -> impl Iterator<Item = char> {
        [Some(self.0), self.1].into_iter().flatten()
    }
}

/// The longest name of a reference, in bytes (`CounterClockwiseContourIntegral`).
const LONGEST_NAME: usize = 32;
/// The shortest (`gt`).
const SHORTEST_NAME: usize = 2;
/// The longest that needs no semicolon (`frac12`).
const LONGEST_BARE: usize = 6;
/// So often an ampersand is itself a reference (`&amp;amp;lt;`).
const MOST_NESTED: u32 = 4;
/// The most digits of a number, without leading zeros.
const MOST_DIGITS: usize = 8;

/// What the ways of spelling out begin with: HTML, escapes, URLs.
pub(super) const WAYS: [&[u8]; 3] = [b"&", b"\\", b"%"];
/// The same together.
pub(super) const ALL: &[u8] = b"&\\%";

/// Whether something spelt out can begin with this byte.
pub(super) fn begins(byte: u8) -> bool {
    ALL.contains(&byte)
}

/// The same of a bracket alone, which is taken for one however the text goes on: `&#x3cEND`.
pub(super) fn bracket(bytes: &[u8]) -> Option<(Spelt, usize)> {
    const FORMS: [&str; 6] = ["&lt;", "&lt", "\\x3c", "\\u003c", "\\u{3c}", "%3c"];
    let head = bytes.get(..bytes.len().min(12)).unwrap_or_default();
    let form = FORMS.iter().find(|form| {
        head.get(..form.len()).is_some_and(|head| head.eq_ignore_ascii_case(form.as_bytes()))
    });
    let length = form.map(|form| form.len()).or_else(|| numbered_bracket(head))?;
    Some((Spelt::one('<'), length))
}

/// `&#60;`, `&#x3c;` and their forms with leading zeros.
fn numbered_bracket(head: &[u8]) -> Option<usize> {
    let text = head.strip_prefix(b"&#")?;
    let hexadecimal = matches!(text.first(), Some(b'x' | b'X'));
    let digits = if hexadecimal { text.get(1..)? } else { text };
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let number = digits.get(zeros..zeros + 2)?;
    let wanted: &[u8] = if hexadecimal { b"3c" } else { b"60" };
    let length = 2 + usize::from(hexadecimal) + zeros + 2;
    let length = length + usize::from(head.get(length) == Some(&b';'));
    number.eq_ignore_ascii_case(wanted).then_some(length)
}

/// What the beginning of `bytes` spells, and how long that is.
pub(super) fn spelt_out(bytes: &[u8]) -> Option<(Spelt, usize)> {
    let (first, rest) = bytes.split_first()?;
    let (spelt, length) = match first {
        b'&' => reference(rest, MOST_NESTED)?,
        b'\\' => escape(rest)?,
        b'%' => percent(rest)?,
        _ => return None,
    };
    Some((spelt, length + 1))
}

/// A character reference behind its ampersand.
fn reference(rest: &[u8], nested: u32) -> Option<(Spelt, usize)> {
    let (spelt, length) = match rest.strip_prefix(b"#") {
        Some(number) => {
            let (spelt, length) = numbered(number)?;
            (spelt, length + 1)
        }
        None => named(rest)?,
    };
    let is_ampersand = spelt == Spelt::one('&');
    let behind = rest.get(length..).filter(|_| is_ampersand && nested > 0);
    match behind.and_then(|behind| reference(behind, nested - 1)) {
        Some((spelt, more)) => Some((spelt, length + more)),
        None => Some((spelt, length)),
    }
}

fn named(rest: &[u8]) -> Option<(Spelt, usize)> {
    let run = rest.iter().take(LONGEST_NAME).take_while(|byte| byte.is_ascii_alphanumeric());
    let run = std::str::from_utf8(rest.get(..run.count())?).ok()?;
    if run.len() < SHORTEST_NAME {
        return None;
    }
    let ends = rest.get(run.len()) == Some(&b';');
    if ends && let Some(spelt) = names().whole.get(run) {
        return Some((*spelt, run.len() + 1));
    }
    names().bare(run).or_else(|| {
        // No reader of HTML takes this one, but others do.
        let is_bracket = run.get(..2)?.eq_ignore_ascii_case("lt");
        is_bracket.then(|| (Spelt::one('<'), 2 + usize::from(ends && run.len() == 2)))
    })
}

/// What names stand for, without ampersand and semicolon.
struct Names {
    whole: HashMap<&'static str, Spelt>,
    /// Those that need no semicolon, in order.
    bare: Vec<(&'static str, Spelt)>,
}

impl Names {
    /// The longest name that needs no semicolon and that a run of letters begins with.
    fn bare(&self, run: &str) -> Option<(Spelt, usize)> {
        let run = run.get(..run.len().min(LONGEST_BARE))?;
        let before = self.bare.partition_point(|(name, _)| *name <= run);
        // What begins a run stands before it in order, the longest last, and shares its first letters.
        let near = self.bare.get(..before)?.iter().rev();
        let mut near = near.take_while(|(name, _)| name.get(..2) == run.get(..2));
        let (name, spelt) = near.find(|(name, _)| run.starts_with(name))?;
        Some((*spelt, name.len()))
    }
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names { whole: HashMap::new(), bare: Vec::new() };
        for entity in &ENTITIES {
            let mut chars = entity.characters.chars();
            let Some(first) = chars.next() else { continue };
            let (name, spelt) = (&entity.entity[1..], Spelt(first, chars.next()));
            match name.strip_suffix(';') {
                Some(name) => drop(names.whole.insert(name, spelt)),
                None => names.bare.push((name, spelt)),
            }
        }
        names.bare.sort_unstable_by_key(|(name, _)| *name);
        names
    })
}

/// A number behind `&#`.
fn numbered(text: &[u8]) -> Option<(Spelt, usize)> {
    let hexadecimal = matches!(text.first(), Some(b'x' | b'X'));
    let start = usize::from(hexadecimal);
    let digits = text.get(start..)?;
    let (code, length) = number(digits, if hexadecimal { 16 } else { 10 })?;
    let end = start + length;
    let length = end + usize::from(text.get(end) == Some(&b';'));
    let c = match code {
        0x80..=0x9f => WINDOWS.get(code as usize - 0x80).copied().unwrap_or('\u{fffd}'),
        _ => char::from_u32(code).unwrap_or('\u{fffd}'),
    };
    Some((Spelt::one(c), length))
}

/// What HTML takes the numbers 0x80 to 0x9F for: windows-1252.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// A number at the start of `digits`, and its length with leading zeros. None with too many digits.
fn number(digits: &[u8], radix: u32) -> Option<(u32, usize)> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let rest = digits.get(zeros..)?;
    let count = rest.iter().take(MOST_DIGITS + 1).take_while(is_digit).count();
    if count > MOST_DIGITS || zeros + count == 0 {
        return None;
    }
    Some((value(rest.get(..count)?, radix)?, zeros + count))
}

fn value(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, byte| {
        sum.checked_mul(radix)?.checked_add(char::from(*byte).to_digit(radix)?)
    })
}

/// Exactly so many hexadecimal digits.
fn hex(text: &[u8], count: usize) -> Option<u32> {
    value(text.get(..count)?, 16)
}

/// An escape behind its backslash.
fn escape(rest: &[u8]) -> Option<(Spelt, usize)> {
    let char_of = |code: u32, length| Some((Spelt::one(char::from_u32(code)?), length));
    match *rest.first()? {
        b'x' | b'u' if rest.get(1) == Some(&b'{') => {
            let (code, length) = number(rest.get(2..)?, 16)?;
            (rest.get(2 + length) == Some(&b'}')).then(|| char_of(code, length + 3))?
        }
        // Beyond ASCII it may be a byte as well as a character.
        b'x' => match hex(rest.get(1..)?, 2) {
            Some(code) => (code < 0x80).then(|| char_of(code, 3))?,
            None => char_of(hex(rest.get(1..)?, 1)?, 2),
        },
        b'u' => match hex(rest.get(1..)?, 4)? {
            high @ 0xd800..=0xdbff => {
                let low = hex(rest.get(5..)?.strip_prefix(b"\\u")?, 4)?;
                let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                char_of(0x1_0000 + ((high - 0xd800) << 10) + low, 11)
            }
            code => char_of(code, 5),
        },
        b'U' => char_of(hex(rest.get(1..)?, 8)?, 9),
        b'0'..=b'7' => {
            let digits = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            let code = value(rest.get(..digits)?, 8).filter(|code| *code < 0x80)?;
            char_of(code, digits)
        }
        b'n' | b'r' | b'v' | b'f' => Some((Spelt::one('\n'), 1)),
        b't' => Some((Spelt::one('\t'), 1)),
        // Control characters, which are not seen.
        b'a' | b'b' | b'e' => Some((Spelt::one('\u{7}'), 1)),
        // A continued line, or a sign that is to stand for itself: the backslash is not read.
        b'\n' | b'\r' => Some((Spelt::one(' '), 0)),
        byte if byte.is_ascii_punctuation() => Some((Spelt::one(' '), 0)),
        _ => None,
    }
}

/// Digits behind a percent sign, which may be spelt out itself.
fn percent(rest: &[u8]) -> Option<(Spelt, usize)> {
    // `25` stands for the sign that was there; what is behind it is read as if it stood here.
    let nested = rest.chunks(2).take(MOST_NESTED as usize).take_while(|two| *two == b"25").count();
    let deepest = (1..=nested).rev().map(|nested| 2 * nested);
    let mut deepest = deepest.filter_map(|skip| {
        let (spelt, length) = one_percent(rest.get(skip..)?)?;
        Some((spelt, skip + length))
    });
    deepest.next().or_else(|| one_percent(rest))
}

fn one_percent(rest: &[u8]) -> Option<(Spelt, usize)> {
    if let Some(wide) = rest.strip_prefix(b"u").or_else(|| rest.strip_prefix(b"U")) {
        return Some((Spelt::one(char::from_u32(hex(wide, 4)?)?), 5));
    }
    let code = hex(rest, 2).filter(|code| *code < 0x80)?;
    Some((Spelt::one(char::from_u32(code)?), 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, usize)> {
        let (spelt, length) = spelt_out(text.as_bytes())?;
        Some((spelt.chars().collect(), length))
    }

    #[test]
    fn what_is_spelt_out_is_read_with_its_length() {
        for (text, meant) in [
            ("&lt;", "<"),
            ("&LT;", "<"),
            ("&lT;", "<"),
            ("&Lt;", "≪"),
            ("&Ll;", "⋘"),
            ("&#60;", "<"),
            ("&#x3C;", "<"),
            ("&#X0000000000000000000045;", "E"),
            ("&#69;", "E"),
            ("&#138;", "Š"),
            ("&#xD800;", "\u{fffd}"),
            ("&nbsp;", "\u{a0}"),
            ("&NewLine;", "\n"),
            ("&Escr;", "ℰ"),
            ("&nvlt;", "<\u{20d2}"),
            ("&amp;lt;", "<"),
            ("&amp;amp;#x45;", "E"),
            ("&#38;lt;", "<"),
            ("&amp;", "&"),
            ("\\x45", "E"),
            ("\\x{45}", "E"),
            ("\\u0045", "E"),
            ("\\u{045}", "E"),
            ("\\ud835\\udc14", "𝐔"),
            ("\\U00000045", "E"),
            ("\\105", "E"),
            ("\\074", "<"),
            ("\\n", "\n"),
            ("%45", "E"),
            ("%u003c", "<"),
            ("%253C", "<"),
            ("%25253C", "<"),
            ("%25", "%"),
            ("\\74", "<"),
            ("\\40", " "),
            ("\\x9", "\t"),
            ("\\v", "\n"),
            ("\\b", "\u{7}"),
        ] {
            assert_eq!(read(text), Some((meant.to_owned(), text.len())), "{text}");
            assert_eq!(read(&format!("{text} x")), Some((meant.to_owned(), text.len())), "{text}");
        }
        // Without a semicolon what follows goes on.
        for (text, meant, length) in
            [("&ltEND", "<", 3), ("&#60END", "<", 4), ("&nbspE", "\u{a0}", 5), ("&ampx", "&", 4)]
        {
            assert_eq!(read(text), Some((meant.to_owned(), length)), "{text}");
        }
        for text in [
            "&",
            "&;",
            "&x;",
            "&nosuchname;",
            "&lang",
            "&#;",
            "&#x;",
            "&#1234567890;",
            "\\",
            "\\d",
            "\\xe9",
            "%",
            "%zz",
            "\\303",
            "\\8",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!((names().whole.len(), names().bare.len()), (2125, 106));
        assert!(names().bare.iter().all(|(name, _)| names().bare(name).unwrap().1 == name.len()));
        assert!(names().bare.iter().all(|(name, _)| name.len() <= LONGEST_BARE));
        assert!(
            names().whole.keys().all(|name| (SHORTEST_NAME..=LONGEST_NAME).contains(&name.len()))
        );
        assert_eq!(read("&CounterClockwiseContourIntegral;").unwrap().0, "∳");
        // The backslash alone goes.
        assert_eq!(read("\\<"), Some((" ".to_owned(), 1)));
        assert_eq!(read("\\\nx"), Some((" ".to_owned(), 1)));
    }
}
