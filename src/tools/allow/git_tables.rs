//! The grammars of the git subcommands: data alone.

use super::git::{Operands, Subcommand};
use super::git_options::{
    BARE, DIFF, DIFF_FLAGS, DIFF_VALUED, LOG, LOG_FLAGS, LOG_OPTIONAL, LOG_VALUED, REF_LAST,
    REF_VALUED,
};
use super::grammar::Grammar;
use super::value::Kind;

const NO_PROGRAMS: &[&str] = &["--no-ext-diff", "--no-textconv"];
const NO_PROGRAMS_IN_TREE: &[&str] =
    &["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];
const NO_SIGNATURES: &[&str] = &["--no-ext-diff", "--no-textconv", "--no-show-signature"];

const PLAIN: Subcommand = Subcommand {
    name: &[],
    grammar: BARE,
    operands: Operands::None,
    least: 0,
    most: 64,
    hardened: &[],
    needs_one_of: &[],
    stages: false,
};

/// All subcommands that run.
pub(in crate::tools) const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: &["status"],
        grammar: Grammar {
            flags: &[
                "-s -b -z --short --branch --long --renames --no-renames --show-stash --ahead-behind --no-ahead-behind --null",
            ],
            valued: &[],
            optional: &[&[
                ("--porcelain", Kind::OneOf(&["v1", "v2", "1", "2"])),
                ("-u --untracked-files", Kind::OneOf(&["no", "normal", "all"])),
                ("--ignored", Kind::OneOf(&["traditional", "no", "matching"])),
                ("--find-renames", Kind::Measure),
                ("--column --no-column", Kind::OneOf(&["never", "auto"])),
            ]],
            // It shows what is staged, through programs that attributes name.
            instead: &[("-v --verbose", "use git diff --cached")],
            ..BARE
        },
        operands: Operands::Pathspecs { shows: false },
        hardened: &["--ignore-submodules=dirty"],
        ..PLAIN
    },
    Subcommand {
        name: &["diff"],
        grammar: Grammar {
            flags: &[DIFF_FLAGS, "--cached --staged --merge-base --no-color-words"],
            ..DIFF
        },
        operands: Operands::RevisionsOrPaths,
        hardened: NO_PROGRAMS_IN_TREE,
        ..PLAIN
    },
    Subcommand {
        name: &["diff-index"],
        grammar: Grammar { flags: &[DIFF_FLAGS, "--cached --merge-base -m"], ..DIFF },
        operands: Operands::RevisionsOrPaths,
        least: 1,
        hardened: NO_PROGRAMS_IN_TREE,
        ..PLAIN
    },
    Subcommand {
        name: &["diff-files"],
        grammar: DIFF,
        operands: Operands::Pathspecs { shows: true },
        hardened: NO_PROGRAMS_IN_TREE,
        ..PLAIN
    },
    Subcommand {
        name: &["diff-tree"],
        grammar: Grammar {
            flags: &[DIFF_FLAGS, "--root -m -c --cc --no-commit-id -v --merge-base"],
            ..DIFF
        },
        operands: Operands::RevisionsOrPaths,
        least: 1,
        hardened: NO_PROGRAMS,
        ..PLAIN
    },
    Subcommand {
        name: &["log"],
        grammar: LOG,
        operands: Operands::RevisionsOrPaths,
        hardened: NO_SIGNATURES,
        ..PLAIN
    },
    Subcommand {
        name: &["show"],
        grammar: LOG,
        operands: Operands::RevisionsOrPaths,
        hardened: NO_SIGNATURES,
        ..PLAIN
    },
    Subcommand {
        name: &["rev-list"],
        grammar: Grammar {
            flags: &[LOG_FLAGS, "--count --objects --header --timestamp -z"],
            optional: &[LOG_OPTIONAL, &[("--abbrev", Kind::Number)]],
            valued: &[LOG_VALUED],
            ..LOG
        },
        operands: Operands::RevisionsOrPaths,
        ..PLAIN
    },
    Subcommand {
        name: &["shortlog"],
        grammar: Grammar {
            flags: &[
                "-s -n -e -c --summary --numbered --email --committer --merges --no-merges --first-parent --all --no-mailmap",
            ],
            valued: &[&[
                ("--since --after --until --before --author --grep", Kind::Text),
                ("--max-count", Kind::Number),
                ("--group", Kind::Format),
            ]],
            optional: &[&[("-w", Kind::Measure), ("--branches --tags --remotes", Kind::Text)]],
            joined: &[&[("--format", Kind::Pretty)]],
            ..BARE
        },
        operands: Operands::RevisionsOrPaths,
        ..PLAIN
    },
    Subcommand {
        name: &["blame"],
        grammar: Grammar {
            flags: &[
                "-l -t -f -n -s -e -w -c -b -p --show-name --show-number --show-email --show-stats --root --porcelain --line-porcelain --first-parent --minimal --score-debug --reverse --no-progress",
            ],
            valued: &[&[
                ("-L", Kind::Lines),
                ("--since --after --until --before", Kind::Text),
                ("--date", Kind::Text),
                ("--ignore-rev", Kind::Revision),
            ]],
            optional: &[&[("-M -C", Kind::Number), ("--abbrev", Kind::Number)]],
            clusters: false,
            ..BARE
        },
        operands: Operands::RevisionsOrPaths,
        least: 1,
        most: 3,
        hardened: &["--no-textconv"],
        ..PLAIN
    },
    Subcommand {
        name: &["grep"],
        grammar: Grammar {
            flags: &[
                "-n -i -w -v -h -H -l -L -c -o -q -E -F -G -I -z -p -W -a -r",
                "--line-number --ignore-case --word-regexp --invert-match --files-with-matches --name-only",
                "--files-without-match --count --only-matching --quiet --extended-regexp --fixed-strings",
                "--basic-regexp --null --show-function --function-context --text --full-name --cached",
                "--untracked --exclude-standard --heading --break --column --and --or --not --all-match --recursive --no-color",
                "--no-textconv",
            ],
            valued: &[&[
                ("-e", Kind::Text),
                (
                    "-A --after-context -B --before-context -C --context -m --max-count --max-depth",
                    Kind::Number,
                ),
            ]],
            optional: &[&[("--color", Kind::OneOf(&["never", "auto"]))]],
            instead: &[
                ("-P --perl-regexp", "its expressions may never end: use -E"),
                ("--no-index", "use grep -r"),
            ],
            clusters: true,
            dash_number: true,
            // `-e`, the only one whose value may begin so, takes whatever comes next.
            dash_values: true,
            ..BARE
        },
        operands: Operands::PatternThenRevisionsOrPaths,
        hardened: &["--no-textconv"],
        ..PLAIN
    },
    Subcommand {
        name: &["ls-files"],
        grammar: Grammar {
            flags: &[
                "-c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage",
                "--unmerged --killed --exclude-standard --directory --no-empty-directory --full-name",
                "--error-unmatch --eol --deduplicate --debug --resolve-undo",
            ],
            valued: &[&[("-x --exclude", Kind::Text), ("--format", Kind::Format)]],
            optional: &[&[("--abbrev", Kind::Number)]],
            ..BARE
        },
        operands: Operands::Pathspecs { shows: false },
        ..PLAIN
    },
    Subcommand {
        name: &["ls-tree"],
        grammar: Grammar {
            flags: &[
                "-r -d -t -l -z --long --name-only --name-status --object-only --full-name --full-tree",
            ],
            valued: &[&[("--format", Kind::Format)]],
            optional: &[&[("--abbrev", Kind::Number)]],
            ..BARE
        },
        operands: Operands::RevisionsOrPaths,
        least: 1,
        ..PLAIN
    },
    Subcommand {
        name: &["cat-file"],
        grammar: Grammar { flags: &["-p -t -s -e"], clusters: false, ..BARE },
        operands: Operands::Revisions,
        least: 1,
        most: 2,
        ..PLAIN
    },
    Subcommand {
        name: &["rev-parse"],
        grammar: Grammar {
            flags: &[
                "-q --quiet --verify --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir",
                "--git-common-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository",
                "--is-shallow-repository --symbolic --symbolic-full-name --all --branches --tags --remotes",
                "--revs-only --no-revs --flags --no-flags --not",
            ],
            valued: &[],
            optional: &[&[
                ("--short", Kind::Number),
                ("--abbrev-ref", Kind::OneOf(&["strict", "loose"])),
                ("--show-object-format", Kind::OneOf(&["storage", "input", "output"])),
            ]],
            ..BARE
        },
        operands: Operands::Revisions,
        ..PLAIN
    },
    Subcommand {
        name: &["describe"],
        grammar: Grammar {
            flags: &["--always --tags --all --long --exact-match --first-parent --contains"],
            valued: &[&[("--match --exclude", Kind::Text), ("--candidates", Kind::Number)]],
            optional: &[&[("--abbrev", Kind::Number)]],
            // It would start git in every submodule.
            instead: &[("--dirty --broken", "git status -s says whether anything is changed")],
            ..BARE
        },
        operands: Operands::Revisions,
        ..PLAIN
    },
    Subcommand {
        name: &["merge-base"],
        grammar: Grammar {
            flags: &["-a --all --octopus --independent --is-ancestor --fork-point"],
            ..BARE
        },
        operands: Operands::Revisions,
        least: 1,
        ..PLAIN
    },
    Subcommand {
        name: &["name-rev"],
        grammar: Grammar {
            flags: &["--tags --all --name-only --always --no-undefined"],
            valued: &[&[("--refs --exclude", Kind::Text)]],
            ..BARE
        },
        operands: Operands::Revisions,
        ..PLAIN
    },
    Subcommand {
        name: &["for-each-ref"],
        grammar: Grammar {
            flags: &["--ignore-case --omit-empty"],
            valued: &[REF_VALUED],
            last: &[REF_LAST],
            ..BARE
        },
        operands: Operands::Patterns,
        ..PLAIN
    },
    Subcommand {
        name: &["show-ref"],
        grammar: Grammar {
            flags: &["-q --quiet --verify --head --heads --branches --tags -d --dereference -s"],
            valued: &[],
            optional: &[&[("--hash --abbrev", Kind::Number)]],
            ..BARE
        },
        operands: Operands::Patterns,
        ..PLAIN
    },
    Subcommand {
        name: &["symbolic-ref"],
        grammar: Grammar { flags: &["-q --quiet --short"], ..BARE },
        operands: Operands::Revisions,
        least: 1,
        // A second operand is what the reference is set to.
        most: 1,
        ..PLAIN
    },
    Subcommand {
        name: &["branch"],
        grammar: Grammar {
            flags: &[
                "-a -r -v -l -i --all --remotes --verbose --list --show-current --ignore-case --no-color --no-column --omit-empty --no-abbrev",
            ],
            valued: &[REF_VALUED],
            last: &[REF_LAST],
            optional: &[&[
                ("--abbrev", Kind::Number),
                ("--color", Kind::OneOf(&["never", "auto"])),
            ]],
            ..BARE
        },
        operands: Operands::Patterns,
        // A name alone makes a branch.
        needs_one_of: &["-l", "--list"],
        ..PLAIN
    },
    Subcommand {
        name: &["tag"],
        grammar: Grammar {
            flags: &["-l -i --list --ignore-case --no-color --no-column --omit-empty"],
            valued: &[REF_VALUED],
            last: &[REF_LAST],
            optional: &[&[("-n", Kind::Number), ("--color", Kind::OneOf(&["never", "auto"]))]],
            ..BARE
        },
        operands: Operands::Patterns,
        // A name alone makes a tag.
        needs_one_of: &["-l", "--list"],
        ..PLAIN
    },
    Subcommand { name: &["stash", "list"], grammar: LOG, hardened: NO_SIGNATURES, ..PLAIN },
    Subcommand {
        name: &["stash", "show"],
        grammar: Grammar {
            flags: &[DIFF_FLAGS, "--include-untracked --only-untracked --no-include-untracked"],
            valued: &[],
            // The next word would be a stash.
            joined: &[DIFF_VALUED],
            ..DIFF
        },
        operands: Operands::Revisions,
        most: 1,
        hardened: NO_PROGRAMS,
        ..PLAIN
    },
    Subcommand {
        name: &["reflog", "show"],
        grammar: LOG,
        operands: Operands::RevisionsOrPaths,
        hardened: NO_SIGNATURES,
        ..PLAIN
    },
    Subcommand {
        name: &["reflog"],
        grammar: LOG,
        operands: Operands::NoVerbThenRevisions,
        hardened: &["show", "--no-ext-diff", "--no-textconv", "--no-show-signature"],
        ..PLAIN
    },
    Subcommand {
        name: &["worktree", "list"],
        grammar: Grammar { flags: &["--porcelain -v --verbose -z"], ..BARE },
        ..PLAIN
    },
    // No form that asks a server: `show NAME`, `update`, `prune`. Passwords in addresses are masked in the answer.
    Subcommand {
        name: &["remote"],
        grammar: Grammar { flags: &["-v --verbose"], ..BARE },
        ..PLAIN
    },
    Subcommand { name: &["remote", "show"], ..PLAIN },
    Subcommand {
        name: &["remote", "get-url"],
        grammar: Grammar { flags: &["--push --all"], ..BARE },
        operands: Operands::Patterns,
        least: 1,
        most: 1,
        ..PLAIN
    },
    Subcommand { name: &["version"], ..PLAIN },
    Subcommand {
        name: &["count-objects"],
        grammar: Grammar { flags: &["-v -H --verbose --human-readable"], ..BARE },
        ..PLAIN
    },
    Subcommand {
        name: &["check-ignore"],
        grammar: Grammar { flags: &["-v -q -n -z --verbose --quiet --non-matching"], ..BARE },
        operands: Operands::Pathspecs { shows: false },
        least: 1,
        ..PLAIN
    },
    Subcommand {
        name: &["check-attr"],
        grammar: Grammar { flags: &["-a -z --all --cached"], ..BARE },
        operands: Operands::Pathspecs { shows: false },
        least: 1,
        ..PLAIN
    },
    Subcommand {
        name: &["add"],
        // `-p`, `-i` and `-e` start programs, `-f` stages what is ignored, `--chmod` changes modes.
        grammar: Grammar {
            flags: &[
                "-A -u -n -v -N --all --no-all --update --dry-run --verbose --intent-to-add --ignore-errors --ignore-removal --no-ignore-removal",
            ],
            ..BARE
        },
        operands: Operands::Pathspecs { shows: true },
        stages: true,
        ..PLAIN
    },
    Subcommand {
        name: &["reset"],
        // Only the index: no `--hard`, `--soft`, `--merge`, `--keep`, and no other commit than HEAD.
        grammar: Grammar {
            flags: &["-q -N --quiet --no-quiet --mixed --intent-to-add --no-refresh --refresh"],
            ..BARE
        },
        operands: Operands::HeadThenPathspecs,
        stages: true,
        ..PLAIN
    },
    Subcommand {
        name: &["restore"],
        grammar: Grammar {
            flags: &["-S -q --staged --quiet --no-progress --ignore-unmerged"],
            valued: &[&[("-s --source", Kind::Revision)]],
            ..BARE
        },
        operands: Operands::StagedPathspecs(&["-S", "--staged"]),
        least: 1,
        stages: true,
        ..PLAIN
    },
    Subcommand {
        name: &["rm"],
        grammar: Grammar {
            flags: &["-r -n -q --cached --dry-run --quiet --ignore-unmatch"],
            ..BARE
        },
        operands: Operands::StagedPathspecs(&["--cached"]),
        least: 1,
        stages: true,
        ..PLAIN
    },
];
