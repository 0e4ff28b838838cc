//! What is wrong with a configuration: where it stands, what stands there and what to do.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong with one place of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as the operator knows it, or `$NAME` for an environment variable.
    pub place: String,
    /// Line from 1 and column from 1 (in characters); absent for environment variables.
    pub at: Option<(usize, usize)>,
    /// The key that it speaks of (`gates.check`), empty when there is none.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// The offending line, with the marked columns; absent for environment variables.
    pub excerpt: Option<Excerpt>,
    /// What to do.
    pub help: String,
}

/// A line of a file and the part of it that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, without its end.
    pub line: String,
    /// How many characters from the problem's column on are meant, at least 1.
    pub marked: usize,
}

impl Problem {
    /// A problem with bytes `span` of `text`, the contents of the file `place`.
    pub fn in_file(
        place: &str,
        text: &str,
        span: Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (line, column, excerpt) = locate(text, span);
        Self {
            place: place.to_owned(),
            at: Some((line, column)),
            key: key.into(),
            message: message.into(),
            excerpt: Some(excerpt),
            help: help.into(),
        }
    }

    /// Cuts the excerpt's line off where the marked part begins.
    pub fn hide_excerpt(&mut self) {
        if let (Some((_, column)), Some(excerpt)) = (self.at, &mut self.excerpt) {
            excerpt.line = excerpt.line.chars().take(column - 1).chain("…".chars()).collect();
            excerpt.marked = 1;
        }
    }

    /// A problem with the environment variable `name`.
    pub fn in_env(
        name: &str,
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            place: format!("${name}"),
            at: None,
            key: key.into(),
            message: message.into(),
            excerpt: None,
            help: help.into(),
        }
    }
}

/// Line, column and excerpt of a byte range. Offsets inside a character count as its start.
fn locate(text: &str, span: Range<usize>) -> (usize, usize, Excerpt) {
    let start = floor(text, span.start.min(text.len()));
    let end = floor(text, span.end.min(text.len())).max(start);
    let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let stop = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let line = text[..start].matches('\n').count() + 1;
    let column = text[begin..start].chars().count() + 1;
    let marked = text[start..end.min(stop)].chars().count().max(1);
    let excerpt = Excerpt { line: text[begin..stop].trim_end_matches('\r').to_owned(), marked };
    (line, column, excerpt)
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: ", self.place)?,
            None => write!(f, "{}: ", self.place)?,
        }
        f.write_str(&self.message)?;
        if let (Some((line, column)), Some(excerpt)) = (self.at, &self.excerpt) {
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            // A tab keeps its width under the line, so that the marks stand where they belong.
            let indent: String = excerpt
                .line
                .chars()
                .take(column - 1)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n{gutter} |\n{number} | {}", excerpt.line)?;
            write!(f, "\n{gutter} | {indent}{}", "^".repeat(excerpt.marked))?;
        }
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Why a configuration can't be used. Every variant is a mistake of usage (exit status 2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Text that is not TOML, unknown keys, wrong types, values out of range.
    #[error("{}", listed(.0))]
    Invalid(Vec<Problem>),
    /// Keys that a repository may only set once the operator trusts it.
    #[error(
        "{}\nthis repository is not trusted to set what is named above: read its bakeoff.toml, then run \
         `bakeoff trust`, or take those keys out",
        listed(.0)
    )]
    NotTrusted(Vec<Problem>),
    /// Lanes that can't be made, in words that say what would be right.
    #[error("{0}")]
    Lane(String),
    /// No model can be asked: no key is set and no lane names a server that needs none.
    #[error("{0}")]
    NoModel(String),
}

impl ConfigError {
    /// The single problems, where there are any.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) | Self::NotTrusted(problems) => problems,
            Self::Lane(_) | Self::NoModel(_) => &[],
        }
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
