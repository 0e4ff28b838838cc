//! Which scripts are one program with its words, so that the shell can become it.
//!
//! Some shells stay beside a program that is all of their script. In a terminal such a shell gets the program's ctrl-C,
//! too, and dies of it when the program ends, whatever that has made of it: the exit status is no longer the program's
//! (contract R18). Pure, and careful: what is not surely one program is left to the shell as it is.

/// Names that are the shell's own, of any shell: words of its grammar, and what it does itself.
const OWN: &str = " . : alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc \
    declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts \
    hash help hist history if in jobs kill let local logout mapfile popd print printf pushd pwd read readarray \
    readonly return select set shift shopt source suspend test then time times trap true type typeset ulimit umask \
    unalias unset until wait whence while ";

/// A script in whose place a shell becomes the program that it names; nothing where it is none, or more than one.
pub(super) fn as_program(script: &str) -> Option<String> {
    let at = program_at(script)?;
    is_one_command(&script[at..])
        .then(|| format!("{}exec {}", &script[..at], script[at..].trim_start()))
}

/// Where the name of the program begins, behind values for its environment.
fn program_at(script: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += script[at..].len() - script[at..].trim_start_matches([' ', '\t']).len();
        let rest = &script[at..];
        let word = &rest[..rest.find([' ', '\t']).unwrap_or(rest.len())];
        if !word.chars().all(is_plain) || word.is_empty() {
            return None;
        }
        if !is_assignment(word) {
            return (!OWN.contains(&format!(" {word} "))).then_some(at);
        }
        at += word.len();
    }
}

/// Whether a word gives a variable a value: a name (POSIX: letters, digits and `_`, no digit first), then `=`.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Characters that mean themselves in every shell, wherever they stand in a word.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-+=,:@%".contains(c)
}

/// Whether nothing in it ends a command: no line, no list, no pipe, nothing in the background, no here-document. What
/// is between quotes is a part of a word.
fn is_one_command(script: &str) -> bool {
    let mut chars = script.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                if !chars.any(|c| c == '\'') {
                    return false;
                }
            }
            '"' => {
                if !closes(&mut chars) {
                    return false;
                }
            }
            '\\' => drop(chars.next()),
            '#' if before == ' ' || before == '\t' => return !chars.any(|c| c == '\n'),
            // `2>&1` is a place to write to.
            '&' if before == '>' && chars.peek().is_some_and(char::is_ascii_digit) => {}
            '<' if before == '<' => return false,
            c if is_plain(c) || " \t~*?[]{}^!#<>".contains(c) || !c.is_ascii() => {}
            '$' if chars.peek().is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_') => {}
            _ => return false,
        }
        before = c;
    }
    true
}

/// Whether a text between double quotes comes to its end, and holds no command of its own.
fn closes(chars: &mut impl Iterator<Item = char>) -> bool {
    while let Some(c) = chars.next() {
        match c {
            '"' => return true,
            '\\' => drop(chars.next()),
            '`' | '(' => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_is_told_from_everything_else() {
        for (script, becomes) in [
            ("python3", "exec python3"),
            ("./x=1 arg one", "exec ./x=1 arg one"),
            ("a-b=c 1", "exec a-b=c 1"),
            ("  vim -u NONE 'a b' \"c $d\"", "  exec vim -u NONE 'a b' \"c $d\""),
            (
                "A=1 B=x/y ./go --it > out 2>&1 # and so",
                "A=1 B=x/y exec ./go --it > out 2>&1 # and so",
            ),
            (
                "cat *.txt it\\'s é $HOME 'x; y' \"x; y & z\"",
                "exec cat *.txt it\\'s é $HOME 'x; y' \"x; y & z\"",
            ),
        ] {
            assert_eq!(as_program(script).as_deref(), Some(becomes), "{script}");
        }
        for script in [
            "",
            "A=1",
            "# nothing",
            "cd sub",
            "exec cat",
            "read x",
            "if",
            "time cat",
            "! cat",
            "{ cat; }",
            "(cat)",
            "a; b",
            "a && b",
            "a | b",
            "a &",
            "a &> b",
            "a >& b",
            "a\nb",
            "cat <<x",
            "cat # a\nb",
            "cat `b`",
            "cat $(b)",
            "cat ${x}",
            "cat $",
            "cat \"$(b)\"",
            "cat 'open",
            "cat \"open",
            "$EDITOR x",
            "\"cat\" x",
            "~/go",
            "A=$x cat",
            "f() { cat; }",
        ] {
            assert_eq!(as_program(script), None, "{script}");
        }
    }
}
