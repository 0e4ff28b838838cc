//! The kinds of values that options take, each with its own check.

use super::operands::{PathUse, Place};

/// What an option's value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Digits.
    Number,
    /// Digits with a sign and a unit, as `head -n` and `tail -c` take them.
    Amount,
    /// Any text that is only compared with something.
    Text,
    /// One character.
    Character,
    /// A key of `sort`.
    Key,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Digits, commas and per cent signs.
    Measure,
    /// A format of git's, or a key to sort by; one that would start a program is refused.
    Format,
    /// A built-in format's name or a format.
    Pretty,
    /// A revision.
    Revision,
    /// A range of lines of one file.
    Lines,
    /// A range of lines with the file after the last colon.
    LinesOfFile,
}

/// Formats that git knows by name. Any other name would be looked up in the repository's own config.
const PRETTY: [&str; 9] =
    ["oneline", "short", "medium", "full", "fuller", "reference", "email", "mboxrd", "raw"];

impl Kind {
    /// Checks a value; the file that it names, if it does.
    pub(super) fn check(self, value: &str, place: &Place<'_>) -> Result<Option<PathUse>, String> {
        let fine = match self {
            Self::Number => is_number(value),
            Self::Amount => is_amount(value),
            Self::Text => true,
            Self::Character => value.chars().count() == 1,
            Self::Key => value.split(',').count() <= 2 && value.split(',').all(is_key),
            Self::OneOf(words) => words.contains(&value),
            Self::Measure => {
                !value.is_empty()
                    && value.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '%')
            }
            Self::Format => return format(value).map(|()| None),
            Self::Pretty => return pretty(value).map(|()| None),
            Self::Revision => return place.revision(value),
            Self::Lines => !value.is_empty(),
            Self::LinesOfFile => {
                let (_, file) = value.rsplit_once(':').ok_or("-L needs RANGE:FILE")?;
                return place.pathspec(file, true);
            }
        };
        if fine {
            Ok(None)
        } else {
            Err(format!("the value {value:?} is not of the kind that is taken here"))
        }
    }
}

fn is_number(value: &str) -> bool {
    (1..=10).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit())
}

fn is_amount(value: &str) -> bool {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    is_number(&digits[..digits.len() - unit.len()])
        && ["", "b", "k", "K", "kB", "KB", "KiB", "M", "MB", "MiB", "G", "GB", "GiB"]
            .contains(&unit)
}

fn is_key(part: &str) -> bool {
    let place = part.trim_end_matches(|c: char| "bdfgiMhnRrV".contains(c));
    place.split('.').count() <= 2 && place.split('.').all(is_number)
}

/// Refuses the parts of a format for which git starts a program (signatures, `describe`) or writes
/// control characters.
fn format(value: &str) -> Result<(), String> {
    let lower = value.to_lowercase();
    for part in ["%g", "signature", "describe"] {
        // `%gd` and its like name reflog entries; `%G…` asks for a signature's check.
        if part == "%g" && !value.contains("%G") {
            continue;
        }
        if lower.contains(part) {
            return Err(format!("{part:?} in a format starts another program"));
        }
    }
    for (at, _) in lower.match_indices("%x") {
        let byte = lower.get(at + 2..at + 4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if !matches!(byte, Some(0 | 9 | 10 | 0x20..=0x7e)) {
            return Err("%x in a format may name printable characters, tab, newline and NUL only"
                .to_owned());
        }
    }
    Ok(())
}

fn pretty(value: &str) -> Result<(), String> {
    let written = value.is_empty()
        || value.contains('%')
        || value.starts_with("format:")
        || value.starts_with("tformat:");
    if !written && !PRETTY.contains(&value) {
        return Err(format!("{value:?} is not one of git's own formats"));
    }
    format(value)
}
