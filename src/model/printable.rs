//! Foreign text made safe to print: no control character of it ever reaches a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Many lines: line breaks and tabs stay, escape sequences go as a whole, every other control or
/// direction-changing character becomes visible.
pub fn block(text: &str) -> String {
    clean(text, true)
}

/// One line: line breaks and tabs become spaces, too.
pub fn line(text: &str) -> String {
    clean(text, false)
}

fn clean(text: &str, many: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' | '\u{9b}' | '\u{9d}' | '\u{90}' => skip_sequence(c, &mut rest),
            '\n' | '\t' if many => out.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' | '\r' if !many => out.push(' '),
            c if is_hidden(c) => {
                out.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Leaves out an escape sequence: CSI up to its final byte, a string sequence (OSC, DCS, APC, PM,
/// SOS) up to its terminator or the line's end, any other with the one or two bytes behind it.
fn skip_sequence(first: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let kind = match first {
        '\u{9b}' => '[',
        '\u{9d}' | '\u{90}' => ']',
        _ => match rest.next_if(|c| !c.is_control()) {
            Some(kind) => kind,
            None => return,
        },
    };
    match kind {
        '[' => while rest.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {},
        ']' | 'P' | '_' | '^' | 'X' => return skip_string(rest),
        '\u{20}'..='\u{2f}' => {}
        _ => return,
    }
    let _ = rest.next_if(|c| matches!(c, '\u{30}'..='\u{7e}'));
}

fn skip_string(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                let _ = rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// Characters that a reader can't see or that reorder what the reader sees.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A line for a terminal of so many columns: what does not fit stands below, set in.
pub fn hanging(text: &str, columns: usize) -> String {
    const INDENT: &str = "  ";
    if width(text) <= columns {
        return text.to_owned();
    }
    wrap(text, columns.saturating_sub(INDENT.len()).max(20)).join(&format!("\n{INDENT}"))
}

/// Lines of at most `most` columns, broken at blanks where there are any. At least one line.
pub fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut rest = word;
        loop {
            let current = lines.len() - 1;
            let gap = usize::from(!lines[current].is_empty());
            if width(&lines[current]) + gap + width(rest) <= most {
                lines[current].push_str(&" "[..gap]);
                lines[current].push_str(rest);
                break;
            }
            if gap == 1 {
                lines.push(String::new());
                continue;
            }
            let kept = head(rest, most);
            lines[current].push_str(&rest[..kept]);
            lines.push(String::new());
            rest = &rest[kept..];
        }
    }
    lines
}

/// How many bytes of a text fit into `most` columns, at least one character.
fn head(text: &str, most: usize) -> usize {
    let mut columns = 0;
    for (at, c) in text.char_indices() {
        columns += c.width().unwrap_or(0);
        if columns > most && at > 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_by_columns() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(hanging("one two three", 13), "one two three");
        let text = "a path/that/is/long and more";
        assert_eq!(hanging(text, 24), "a path/that/is/long\n  and more");
    }

    #[test]
    fn escape_sequences_go_and_control_characters_show() {
        let hostile = "a\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}b\u{1b}Pq#0\u{1b}\\c\u{1b}(Bd\u{1b}c\r\ne\u{8}f\u{7}\u{9b}2Jg";
        assert_eq!(block(hostile), "aredbcd\ne<U+0008>f<U+0007>g");
        assert_eq!(line("a\nb\tc\rd\u{202e}e"), "a b c d<U+202E>e");
        assert_eq!(block("a\tb\rc\n"), "a\tb<U+000D>c\n");
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_moves_a_cursor_is_left(text: String) {
            let kept = block(&text);
            proptest::prop_assert!(kept.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            proptest::prop_assert!(line(&text).chars().all(|c| !c.is_control()));
        }
    }
}
