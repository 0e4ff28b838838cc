//! A hunk's lines as a stream of tokens: identifiers, numbers and string literals whole, every other
//! character by itself. White space is none.

/// The tokens of a line. In Rust a single quote is a token of its own (it opens lifetimes, too).
pub fn tokens<'l>(line: &'l str, single_quotes: bool, into: &mut Vec<&'l str>) {
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            c if c.is_alphanumeric() || c == '_' => word(rest),
            '"' | '`' => literal(rest, first),
            '\'' if single_quotes => literal(rest, first),
            c => c.len_utf8(),
        };
        into.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
}

fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of a literal that closes on its line; otherwise its quote alone.
fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    quote.len_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, single_quotes: bool) -> Vec<&str> {
        let mut found = Vec::new();
        tokens(line, single_quotes, &mut found);
        found
    }

    #[test]
    fn words_literals_and_characters() {
        assert_eq!(
            of("  let x_1 = f(\"a \\\" b\", 'c');", true),
            ["let", "x_1", "=", "f", "(", "\"a \\\" b\"", ",", "'c'", ")", ";"]
        );
        assert_eq!(of("fn f<'a, 'b>()", false)[..6], ["fn", "f", "<", "'", "a", ","]);
        assert_eq!(of("it's \"open é", true), ["it", "'", "s", "\"", "open", "é"]);
    }
}
