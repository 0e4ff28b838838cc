//! Reading a command's options by its grammar: exact names only.

use super::operands::{PathUse, Place};
use super::value::Kind;

/// Options that need a value: names apart by blanks, and the value's kind.
pub(super) type Valued = &'static [(&'static str, Kind)];

/// What a command takes. Names that are not here are refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    /// Options without a value, names apart by blanks.
    pub flags: &'static [&'static str],
    /// Options with a value, joined (`-n3`, `--lines=3`) or as the next word.
    pub valued: &'static [Valued],
    /// Options that need a value, joined only: git takes the next word for something else.
    pub joined: &'static [Valued],
    /// Options that may have a value, joined only (`-U3`, `--stat=80`).
    pub optional: &'static [Valued],
    /// Options that need a value unless they are the line's last word (`git branch --merged`).
    pub last: &'static [Valued],
    /// Options that are refused with a way out: names apart by blanks, and what to use instead.
    pub instead: &'static [(&'static str, &'static str)],
    /// Whether short options may stand together (`-la`).
    pub clusters: bool,
    /// Whether `-5` is taken.
    pub dash_number: bool,
    /// Whether the next word is an option's value even when it begins with `-`.
    pub dash_values: bool,
}

/// A grammar without options.
pub(super) const BARE: Grammar = Grammar {
    flags: &[],
    valued: &[],
    joined: &[],
    optional: &[],
    last: &[],
    instead: &[],
    clusters: true,
    dash_number: false,
    dash_values: true,
};

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Parsed {
    /// All words as they run.
    pub words: Vec<String>,
    /// The options' names.
    pub options: Vec<String>,
    /// The operands, in order.
    pub operands: Vec<String>,
    /// How many operands stand before `--`, if there is one.
    pub before_dashes: Option<usize>,
    /// Files that options named.
    pub paths: Vec<PathUse>,
}

impl Parsed {
    /// Whether one of the names was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|option| names.contains(&option.as_str()))
    }
}

#[derive(Clone, Copy)]
enum Take {
    Nothing,
    Needs(Kind),
    NeedsJoined(Kind),
    May(Kind),
    NeedsUnlessLast(Kind),
}

impl Grammar {
    /// Reads all words.
    ///
    /// # Errors
    /// The first option or value that is not in the grammar.
    pub(super) fn parse(&self, words: &[String], place: &Place<'_>) -> Result<Parsed, String> {
        let mut parsed = Parsed { words: words.to_vec(), ..Parsed::default() };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                parsed.before_dashes = Some(parsed.operands.len());
                parsed.operands.extend(rest.by_ref().cloned());
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(word, long, &mut rest, &mut parsed, place)?;
            } else if word.len() > 1 && word.starts_with('-') {
                self.short(word, &mut rest, &mut parsed, place)?;
            } else {
                parsed.operands.push(word.clone());
            }
        }
        Ok(parsed)
    }

    fn long<'w>(
        &self,
        word: &str,
        long: &str,
        rest: &mut impl ExactSizeIterator<Item = &'w String>,
        parsed: &mut Parsed,
        place: &Place<'_>,
    ) -> Result<(), String> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (format!("--{name}"), Some(value)),
            None => (word.to_owned(), None),
        };
        let value = match (self.find(&name)?, value) {
            (Take::Nothing, None) | (Take::May(_), None) => None,
            (Take::Nothing, Some(_)) => return Err(format!("the option {name} takes no value")),
            (
                Take::Needs(kind)
                | Take::NeedsJoined(kind)
                | Take::May(kind)
                | Take::NeedsUnlessLast(kind),
                Some(value),
            ) => Some((kind, value)),
            (Take::NeedsUnlessLast(_), None) if rest.len() == 0 => None,
            (Take::Needs(kind) | Take::NeedsUnlessLast(kind), None) => {
                Some((kind, self.next(&name, rest)?))
            }
            (Take::NeedsJoined(_), None) => return Err(join(&name)),
        };
        parsed.take(name, value, place)
    }

    fn short<'w>(
        &self,
        word: &'w str,
        rest: &mut impl ExactSizeIterator<Item = &'w String>,
        parsed: &mut Parsed,
        place: &Place<'_>,
    ) -> Result<(), String> {
        let body = &word[1..];
        if self.dash_number && body.len() <= 9 && body.bytes().all(|b| b.is_ascii_digit()) {
            return parsed.take("-NUMBER".to_owned(), None, place);
        }
        for (at, letter) in body.char_indices() {
            let name = format!("-{letter}");
            let after = &body[at + letter.len_utf8()..];
            match self.find(&name)? {
                Take::Nothing if after.is_empty() || self.clusters => {
                    parsed.take(name, None, place)?
                }
                Take::Nothing => {
                    return Err(format!("{word} has short options together; give them apart"));
                }
                Take::NeedsUnlessLast(_) if after.is_empty() && rest.len() == 0 => {
                    return parsed.take(name, None, place);
                }
                Take::Needs(kind) | Take::NeedsUnlessLast(kind) => {
                    let value = if after.is_empty() { self.next(&name, rest)? } else { after };
                    return parsed.take(name, Some((kind, value)), place);
                }
                Take::NeedsJoined(_) if after.is_empty() => return Err(join(&name)),
                Take::NeedsJoined(kind) | Take::May(kind) => {
                    let value = Some((kind, after)).filter(|_| !after.is_empty());
                    return parsed.take(name, value, place);
                }
            }
        }
        Ok(())
    }

    /// The next word as an option's value.
    fn next<'w>(
        &self,
        name: &str,
        rest: &mut impl ExactSizeIterator<Item = &'w String>,
    ) -> Result<&'w str, String> {
        let value = rest.next().ok_or_else(|| format!("the option {name} needs a value"))?;
        // Whether git takes such a word as the value differs from option to option.
        if value.starts_with('-') && !self.dash_values { Err(join(name)) } else { Ok(value) }
    }

    /// What an option takes, by its exact name.
    fn find(&self, name: &str) -> Result<Take, String> {
        let named = |names: &str| names.split_whitespace().any(|known| known == name);
        let kind = |lists: &[Valued]| {
            lists.iter().copied().flatten().find(|(names, _)| named(names)).map(|(_, kind)| *kind)
        };
        if self.flags.iter().any(|names| named(names)) {
            Ok(Take::Nothing)
        } else if let Some(kind) = kind(self.valued) {
            Ok(Take::Needs(kind))
        } else if let Some(kind) = kind(self.joined) {
            Ok(Take::NeedsJoined(kind))
        } else if let Some(kind) = kind(self.optional) {
            Ok(Take::May(kind))
        } else if let Some(kind) = kind(self.last) {
            Ok(Take::NeedsUnlessLast(kind))
        } else {
            let way = self.instead.iter().find(|(names, _)| named(names));
            let way = way.map_or(String::new(), |(_, way)| format!("; {way}"));
            Err(format!("the option {name} is not on the list{way}"))
        }
    }
}

impl Parsed {
    fn take(
        &mut self,
        name: String,
        value: Option<(Kind, &str)>,
        place: &Place<'_>,
    ) -> Result<(), String> {
        if let Some((kind, value)) = value {
            let path = kind.check(value, place).map_err(|why| format!("{name}: {why}"))?;
            self.paths.extend(path);
        }
        self.options.push(name);
        Ok(())
    }
}

fn join(name: &str) -> String {
    let sign = if name.starts_with("--") { "=" } else { "" };
    format!("the option {name} needs its value joined to it: {name}{sign}VALUE")
}
