//! Walks a parsed TOML table into settings, collecting every problem with its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::setting::Setting;
use super::suggest;
use crate::model::Origin;

/// A table entry's value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// Turns a value into what a setting holds, or says what it should have been.
pub type Convert<T> = fn(&DeValue<'_>) -> Result<T, String>;

/// One layer being read: a file's text, or the environment.
pub struct Layer<'a> {
    /// The file as the operator knows it.
    pub place: &'a str,
    /// Its whole text.
    pub text: &'a str,
    /// Whose layer it is.
    pub origin: Origin,
    /// True for the file of a repository that is not trusted.
    pub restricted: bool,
    /// What was wrong.
    pub problems: Vec<Problem>,
    /// What an untrusted repository may not set.
    pub refused: Vec<Problem>,
}

impl<'a> Layer<'a> {
    /// A layer with nothing read yet.
    pub fn new(place: &'a str, text: &'a str, origin: Origin, restricted: bool) -> Self {
        Self { place, text, origin, restricted, problems: Vec::new(), refused: Vec::new() }
    }

    /// Notes a problem at `span`.
    pub fn problem(&mut self, span: Range<usize>, key: &str, message: String, help: String) {
        self.problems.push(Problem::in_file(self.place, self.text, span, key, message, help));
    }

    /// Notes that the key at `span` needs trust, and why.
    pub fn refuse(&mut self, span: Range<usize>, key: &str, reason: &str) {
        let message = format!("`{key}` needs trust: {reason}");
        self.refused.push(Problem::in_file(self.place, self.text, span, key, message, ""));
    }

    /// The section `value` as a table, or a problem.
    pub fn table<'t>(&mut self, key: &str, value: &'t Value<'t>) -> Option<&'t DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let message = format!("`{key}` is {}, not a table", kind_of(value.get_ref()));
            self.problem(value.span(), key, message, format!("write it as `[{key}]`"));
        }
        table
    }

    /// Tells of every key of `table` that is not among `known`.
    pub fn unknown(&mut self, section: &str, table: &DeTable<'_>, known: &[&str]) {
        for key in table.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                let name = key.get_ref().to_string();
                let place =
                    if section.is_empty() { String::new() } else { format!(" in [{section}]") };
                let message = format!("unknown key `{name}`{place}");
                let path = dotted(section, &name);
                self.problem(key.span(), &path, message, suggest::advice(&name, known));
            }
        }
    }

    /// Sets `setting` from `table[key]` when it is there and right.
    pub fn set<T>(
        &mut self,
        section: &str,
        table: &DeTable<'_>,
        key: &str,
        setting: &mut Setting<T>,
        convert: Convert<T>,
    ) {
        let Some((name, value)) = table.get_key_value(key) else { return };
        let path = dotted(section, key);
        match convert(value.get_ref()) {
            Err(wanted) => self.wrong(value, &path, &wanted),
            Ok(read) => match self.reason(&path, value.get_ref()) {
                Some(reason) => self.refuse(name.span(), &path, &reason),
                None => *setting = Setting { value: read, origin: self.origin.clone() },
            },
        }
    }

    /// Notes that `value` is not what `path` wants. A text that stands where the name of a key's
    /// variable belongs may be the key itself, and is not shown.
    pub fn wrong(&mut self, value: &Value<'_>, path: &str, wanted: &str) {
        if path.ends_with(".key_env") {
            return self.secret_wrong(value, path, "a name", wanted);
        }
        let kind = kind_of(value.get_ref());
        self.problem(
            value.span(),
            path,
            format!("`{path}` is {kind}"),
            format!("it takes {wanted}"),
        );
    }

    /// The same for a value that may be a secret, and is not shown.
    pub fn secret_wrong(&mut self, value: &Value<'_>, path: &str, what: &str, wanted: &str) {
        let message = format!("`{path}` is not {what}");
        self.problem(value.span(), path, message, format!("it takes {wanted}"));
        if let Some(problem) = self.problems.last_mut() {
            problem.hide_excerpt();
        }
    }

    /// What was found, in the order of the file.
    pub fn finish(mut self) -> (Vec<Problem>, Vec<Problem>) {
        self.problems.sort_by_key(|problem| problem.at);
        self.refused.sort_by_key(|problem| problem.at);
        (self.problems, self.refused)
    }

    fn reason(&self, path: &str, value: &DeValue<'_>) -> Option<String> {
        self.restricted.then(|| super::permit::refusal(path, value)).flatten()
    }
}

/// `section.key`, or the key alone.
pub fn dotted(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn kind_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.is_empty() => "an empty text".to_owned(),
        DeValue::String(text) => format!("the text {:?}", super::cut(text, 40)),
        DeValue::Integer(number) => format!("the whole number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(truth) => format!("{truth}"),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
