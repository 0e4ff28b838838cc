//! The allow-list of `run_bash`: which command lines are inspection, and nothing else.
//!
//! A line is cut into words by our own tokenizer (there is no shell), its command is looked up by its
//! exact name, and every option and operand must be in that command's grammar. What passes is run as it
//! was read here, word by word. Pure: never here: the file system, processes.

mod commands;
mod git;
mod git_options;
mod git_tables;
mod grammar;
mod instead;
mod operands;
mod tokens;
mod value;

pub(super) use commands::LEFT_OUT;
pub(super) use git::{GitUse, SUBCOMMANDS, Subcommand};
pub(super) use operands::{PathUse, Place};

use tokens::Token;

/// The commands that run, exactly these (contract C12).
///
/// The list is never widened to an interpreter, a build tool or anything else that runs code which it
/// reads (contract C13): no `sh`, `python`, `node`, `awk`, `sed`, `find`, `xargs`, `make`, `cargo`, and
/// no `rg`, whose `--pre` runs a program. A model's code runs where a gate or `code_execution` holds
/// it, and one interpreter here would make every other rule of this list void. Each of these can be
/// told, by options alone, from a form that writes or runs something.
pub(super) const COMMANDS: [&str; 12] =
    ["ls", "cat", "head", "tail", "wc", "echo", "pwd", "true", "sort", "uniq", "grep", "git"];

/// A command that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Paths of the workspace that it names, still to be looked at on disk.
    pub paths: Vec<PathUse>,
    /// For `git`: what it needs of the git directory.
    pub git: Option<GitUse>,
    /// For `git`: whether it names no path, and so means the whole working tree.
    pub whole: bool,
}

/// Checks a command line.
///
/// # Errors
/// Why it does not run, for the model.
pub(super) fn check_line(line: &str, place: &Place<'_>) -> Result<Allowed, String> {
    check(&tokens::split(line)?, place)
}

/// Checks a command that came as separate words.
///
/// # Errors
/// Why it does not run, for the model.
pub(super) fn check_words(words: &[String], place: &Place<'_>) -> Result<Allowed, String> {
    check(&tokens::given(words)?, place)
}

fn check(tokens: &[Token], place: &Place<'_>) -> Result<Allowed, String> {
    let Some((command, rest)) = tokens.split_first() else {
        return Err("the command is empty".to_owned());
    };
    if !COMMANDS.contains(&command.text.as_str()) {
        return Err(instead::unlisted(&command.text));
    }
    // A quoted name is refused: nobody needs one, and it hides what runs from a reader.
    if !command.bare {
        return Err(format!("the name of the command is quoted; write {} as it is", command.text));
    }
    if command.text == "git" {
        return git::check(rest, place);
    }
    let words: Vec<String> = rest.iter().map(|token| token.text.clone()).collect();
    commands::check(&command.text, &words, place)
}

#[cfg(test)]
mod tests;
