//! What does the work of a command that is not on the list.

use super::COMMANDS;

/// Why a command is refused, and the way to what it is usually wanted for.
pub(super) fn unlisted(name: &str) -> String {
    // A path of a program is meant as that program.
    let way = match name.rsplit('/').next().unwrap_or(name) {
        "find" | "fd" | "fdfind" | "tree" | "locate" => {
            "the tool glob finds files by pattern, `ls -R` lists them"
        }
        "rg" | "ag" | "ack" | "egrep" | "fgrep" | "zgrep" => {
            "`grep -rn` and `grep -E` search, and so does the tool grep"
        }
        "sed" | "awk" | "cut" | "less" | "more" | "bat" | "batcat" | "nl" | "tac" | "view"
        | "vim" => {
            "the tool read_file reads lines from one on, with their numbers; `cat -n`, head and tail do, too"
        }
        "diff" | "cmp" | "comm" => "`git diff` shows what changed; to compare two files read both",
        "stat" | "file" | "du" | "test" | "[" => {
            "`ls -l` shows sizes, times and kinds, `wc` counts"
        }
        "cd" | "pushd" => {
            "every command starts at the top of the workspace, or in the tool's `dir`: give that, or paths"
        }
        "touch" | "mkdir" | "rm" | "rmdir" | "mv" | "cp" | "ln" | "tee" | "chmod" | "patch" => {
            "files are changed with the tools write_file, edit_file and apply_patch"
        }
        "python" | "python3" | "node" | "ruby" | "perl" | "sh" | "bash" | "zsh" | "make"
        | "cargo" | "rustc" | "go" | "npm" | "npx" | "yarn" | "pnpm" | "pytest" | "tsc" | "mvn"
        | "gradle" | "cmake" | "ninja" | "pip" | "uv" => {
            "nothing is built or run here: the checks and tests run when you submit"
        }
        _ => {
            return format!(
                "{name:?} is not one of the commands, which are {}",
                COMMANDS.join(", ")
            );
        }
    };
    format!("{name:?} is not one of the commands; {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_names_what_there_is_instead() {
        for (name, way) in [
            ("find", "the tool glob"),
            ("/usr/bin/rg", "`grep -rn`"),
            ("sed", "read_file"),
            ("cargo", "when you submit"),
            ("rm", "edit_file"),
            ("cd", "`dir`"),
            ("whoami", "which are ls, cat, "),
        ] {
            assert!(unlisted(name).contains(way), "{}", unlisted(name));
        }
    }
}
