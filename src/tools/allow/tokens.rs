//! Cutting a command line into words without a shell. What a shell would treat as more than text, and
//! what readers and tokenizers could see differently, refuses the whole line.

/// The longest line, in bytes.
const MAX_LINE: usize = 8192;
/// The most words.
const MAX_WORDS: usize = 256;
/// Options whose value is a name pattern: a shell leaves `--include=*.rs` as it is.
const PATTERN_OPTIONS: [&str; 3] = ["--include=", "--exclude=", "--exclude-dir="];

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its text, quotes taken off.
    pub text: String,
    /// Whether no part of it was quoted.
    pub bare: bool,
}

/// Takes words that were given apart: no quoting to undo, but no hidden characters either.
pub(super) fn given(words: &[String]) -> Result<Vec<Token>, String> {
    if words.len() > MAX_WORDS || words.iter().map(String::len).sum::<usize>() > MAX_LINE {
        return Err(format!("the command is longer than {MAX_WORDS} words or {MAX_LINE} bytes"));
    }
    if let Some(c) = words.iter().flat_map(|word| word.chars()).find(|c| is_hidden(*c)) {
        return Err(hidden(c));
    }
    Ok(words.iter().map(|word| Token { text: word.clone(), bare: true }).collect())
}

/// Cuts a line into words.
///
/// # Errors
/// What in the line is refused.
pub(super) fn split(line: &str) -> Result<Vec<Token>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("the command is longer than {MAX_LINE} bytes"));
    }
    if let Some(c) = line.chars().find(|c| is_hidden(*c)) {
        return Err(hidden(c));
    }
    let mut splitter = Splitter { rest: line, words: Vec::new(), word: None };
    while splitter.step()? {}
    splitter.end_word();
    if splitter.words.len() > MAX_WORDS {
        return Err(format!("the command is longer than {MAX_WORDS} words"));
    }
    Ok(splitter.words)
}

struct Splitter<'l> {
    rest: &'l str,
    words: Vec<Token>,
    word: Option<Token>,
}

impl Splitter<'_> {
    /// Takes the next character or quoted part; `false` at the end.
    fn step(&mut self) -> Result<bool, String> {
        let Some(c) = self.rest.chars().next() else { return Ok(false) };
        match c {
            ' ' => {
                self.end_word();
                self.rest = &self.rest[1..];
            }
            '\'' => self.single()?,
            '"' => self.double()?,
            '{' => self.braces()?,
            _ => {
                self.check_plain(c)?;
                self.push(c);
                self.rest = &self.rest[c.len_utf8()..];
            }
        }
        Ok(true)
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn open(&mut self) -> &mut Token {
        self.word.get_or_insert_with(|| Token { text: String::new(), bare: true })
    }

    fn push(&mut self, c: char) {
        self.open().text.push(c);
    }

    fn quoted(&mut self, text: &str) {
        let word = self.open();
        word.bare = false;
        word.text.push_str(text);
    }

    /// `'…'`: everything in it is text.
    fn single(&mut self) -> Result<(), String> {
        let Some((body, rest)) = self.rest[1..].split_once('\'') else {
            return Err("a single quote is not closed".to_owned());
        };
        self.quoted(body);
        self.rest = rest;
        Ok(())
    }

    /// `"…"`: text, as long as a shell would not change any of it.
    fn double(&mut self) -> Result<(), String> {
        let Some((body, rest)) = self.rest[1..].split_once('"') else {
            return Err("a double quote is not closed".to_owned());
        };
        check_double(body)?;
        self.quoted(body);
        self.rest = rest;
        Ok(())
    }

    /// `@{…}` and `^{…}` of a git revision; a shell leaves those alone. Any other brace is refused.
    fn braces(&mut self) -> Result<(), String> {
        let before = self.word.as_ref().and_then(|word| word.text.chars().next_back());
        let body = self.rest[1..].split_once('}').map(|(body, _)| body);
        let plain =
            |body: &str| body.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c));
        match (before, body) {
            (Some('@' | '^'), Some(body)) if plain(body) => {
                let whole = &self.rest[..body.len() + 2];
                self.open().text.push_str(whole);
                self.rest = &self.rest[whole.len()..];
                Ok(())
            }
            _ => Err(meta('{')),
        }
    }

    /// Refuses a character that is more than text when it is not quoted.
    fn check_plain(&self, c: char) -> Result<(), String> {
        let word = self.word.as_ref().map_or("", |word| word.text.as_str());
        let first = self.word.is_none();
        let fine = match c {
            '~' | '=' | '#' => !first,
            '*' | '?' => PATTERN_OPTIONS.iter().any(|option| word.starts_with(option)),
            '_' | '-' | '.' | '/' | ',' | ':' | '@' | '%' | '+' | '^' => true,
            _ => c.is_alphanumeric(),
        };
        if fine { Ok(()) } else { Err(meta(c)) }
    }
}

/// Refuses what a shell would expand between double quotes. A backslash is text before most
/// characters, a dollar sign at the very end, an exclamation mark before a blank or the end.
fn check_double(body: &str) -> Result<(), String> {
    let mut chars = body.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let fine = match c {
            '`' => false,
            '$' => next.is_none(),
            '\\' => !matches!(next, None | Some('$' | '`' | '"' | '\\' | '!')),
            '!' => matches!(next, None | Some(' ' | '=' | '(')),
            _ => true,
        };
        if !fine {
            return Err(format!(
                "{c:?} between double quotes is not text for a shell; use single quotes"
            ));
        }
    }
    Ok(())
}

fn meta(c: char) -> String {
    format!(
        "{c:?} is a shell's character and there is no shell: one command, no pipes, lists, redirections, variables or patterns; put plain text in single quotes"
    )
}

fn hidden(c: char) -> String {
    format!("the character U+{:04X} can't be in a command", u32::from(c))
}

/// Control characters, blanks other than the space, and characters that don't show.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
