//! Cutting a command line into words without a shell. What a shell would treat as more than text, and
//! what readers and tokenizers could see differently, refuses the whole line.

/// The longest line, in bytes.
const MAX_LINE: usize = 8192;
/// The most words.
const MAX_WORDS: usize = 256;
/// Options whose value is a name pattern: a shell leaves `--include=*.rs` as it is.
const PATTERN_OPTIONS: [&str; 3] = ["--include=", "--exclude=", "--exclude-dir="];

/// What a backslash outside quotes may stand before.
const ESCAPED: &str = " *?[](){}|$!\"'`\\;&<>#.";

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
    // A tab within a word is text there, as it is between quotes.
    if let Some(c) =
        words.iter().flat_map(|word| word.chars()).find(|c| *c != '\t' && is_hidden(*c))
    {
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
    // A line's end is no part of it; anywhere else a line break would begin another command.
    let line = line.trim_end_matches([' ', '\t', '\n', '\r']);
    if let Some(c) = line.chars().find(|c| *c != '\t' && is_hidden(*c)) {
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
            '\\' => self.escaped()?,
            '!' if self.ends_revision() => {
                self.push(c);
                self.rest = &self.rest[1..];
            }
            '\t' => return Err(hidden(c)),
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

    /// `"…"`: text, as long as a shell would not change any of it, and with its backslashes undone as a shell
    /// does.
    fn double(&mut self) -> Result<(), String> {
        let (text, length) = undo_double(&self.rest[1..])?;
        self.quoted(&text);
        self.rest = &self.rest[1 + length..];
        Ok(())
    }

    /// A backslash outside quotes makes the sign behind it text. One before a letter hides what is meant from a
    /// reader, and is refused.
    fn escaped(&mut self) -> Result<(), String> {
        match self.rest[1..].chars().next() {
            Some(c) if ESCAPED.contains(c) => {
                let mut text = [0; 4];
                self.quoted(c.encode_utf8(&mut text));
                self.rest = &self.rest[1 + c.len_utf8()..];
                Ok(())
            }
            _ => Err(meta('\\')),
        }
    }

    /// Whether a `!` here is the end of `HEAD^!`, which a shell leaves alone.
    fn ends_revision(&self) -> bool {
        let ends = matches!(self.rest.as_bytes().get(1), None | Some(b' '));
        ends && self.word.as_ref().is_some_and(|word| word.bare && word.text.ends_with('^'))
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

/// Reads what stands between double quotes, up to the closing one: its text, and its length with that quote.
///
/// A backslash before `"`, `$`, `` ` `` and itself is taken off, as every shell does; before anything else it is
/// text. A dollar sign is text before the end alone, an exclamation mark where no shell takes it for history.
fn undo_double(rest: &str) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let fine = match c {
            '"' => return Ok((text, at + 1)),
            '`' => false,
            '$' => next == Some('"'),
            '\\' => {
                if let Some((_, taken)) = chars.next_if(|(_, next)| "\"$`\\".contains(*next)) {
                    text.push(taken);
                    continue;
                }
                // `\!` keeps its backslash in every shell that reads a command from a string.
                if chars.next_if(|(_, next)| *next == '!').is_some() {
                    text.push_str("\\!");
                    continue;
                }
                true
            }
            '!' => is_plain_bang(&text, next),
            _ => true,
        };
        if !fine {
            return Err(format!(
                "{c:?} between double quotes is not text for a shell; use single quotes"
            ));
        }
        text.push(c);
    }
    Err("a double quote is not closed".to_owned())
}

/// `println!(`, `vec![`, `Hello!`, `a != b`: an exclamation mark that no shell takes for history.
fn is_plain_bang(before: &str, next: Option<char>) -> bool {
    let behind_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    match next {
        None | Some('"' | ' ' | '=' | '(') => true,
        Some('\\' | '[' | '{' | '.' | ',' | '\'') => behind_name,
        _ => false,
    }
}

fn meta(c: char) -> String {
    let way = match c {
        '|' => {
            "a command's own options limit what comes (`git log -n 20`, `grep -m 20`), and long output is cut"
        }
        '&' | ';' => "make a call for each command",
        '<' | '>' => "name the file as an operand; what goes to standard error comes along",
        '*' | '?' | '[' | '{' | '}' => {
            "the tool glob finds files by such a pattern, read_file reads each, `grep -r` and the tool grep search them; git and `grep --include` \
             take a pattern in single quotes"
        }
        _ => "nothing is expanded",
    };
    format!(
        "{c:?} is a shell's character and there is no shell: one command, no pipes, lists, redirections, variables or patterns; {way}; plain text goes in single quotes"
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
