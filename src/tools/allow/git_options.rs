//! Options that several git subcommands share.
//!
//! Left out here and in the tables, because they write, run or read something else: `--output`, `-O`,
//! `--no-index`, `--ext-diff`, `--textconv`, `--filters`, `--show-signature`, `--submodule`,
//! `--contents`, `-S FILE` of blame, every `…-file` and `…-from-file`, `--stdin`, `--batch…`.

use super::grammar::{self, Grammar, Valued};
use super::value::Kind;

/// A grammar without options, for a parser whose handling of values that begin with `-` is not uniform.
pub(super) const BARE: Grammar = Grammar { dash_values: false, ..grammar::BARE };

/// What a diff looks like, without values.
pub(super) const DIFF_FLAGS: &str = "-p -u --patch -s --no-patch --raw --numstat --shortstat --summary --compact-summary \
    --name-only --name-status --no-color --no-renames --find-copies-harder --pickaxe-all --pickaxe-regex \
    -R -a --text -b -w --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines \
    --ignore-cr-at-eol -W --function-context --exit-code -q --quiet --no-prefix --default-prefix --minimal \
    --patience --histogram --check --full-index --binary -z --no-ext-diff --no-textconv --patch-with-stat \
    --patch-with-raw --no-relative --indent-heuristic --no-indent-heuristic --irreversible-delete -D \
    -t -r --ours --theirs --base --no-color-moved --no-rename-empty --cumulative";
/// The same with values.
pub(super) const DIFF_VALUED: Valued = &[
    ("-S", Kind::Text),
    ("-G", Kind::Text),
    ("-I --ignore-matching-lines", Kind::Text),
    ("--diff-filter", Kind::Text),
    ("--inter-hunk-context", Kind::Number),
    ("--diff-algorithm", Kind::OneOf(&["default", "myers", "minimal", "patience", "histogram"])),
    ("--anchored", Kind::Text),
    ("--word-diff-regex", Kind::Text),
    ("-l", Kind::Number),
    ("--stat-width --stat-name-width --stat-graph-width --stat-count", Kind::Number),
    ("--src-prefix --dst-prefix --line-prefix --skip-to --rotate-to", Kind::Text),
];
/// The same with values that may be left out.
pub(super) const DIFF_OPTIONAL: Valued = &[
    ("-U --unified", Kind::Number),
    ("-M --find-renames -C --find-copies -B --break-rewrites", Kind::Measure),
    ("--stat", Kind::Measure),
    ("--abbrev", Kind::Number),
    ("--color", Kind::OneOf(&["never", "auto"])),
    ("--word-diff", Kind::OneOf(&["plain", "porcelain", "none"])),
    ("-X --dirstat", Kind::Text),
    ("--ws-error-highlight", Kind::Text),
    ("--ignore-submodules", Kind::OneOf(&["all", "dirty"])),
];
/// Which commits are listed and how, without values.
pub(super) const LOG_FLAGS: &str = "--oneline --graph --no-graph --all --merges --no-merges --first-parent --reverse --topo-order \
    --date-order --author-date-order --follow --left-right --left-only --right-only --cherry-pick --cherry-mark \
    --cherry --boundary --parents --children --abbrev-commit --no-abbrev-commit --no-abbrev --reflog --no-decorate --relative-date \
    --no-notes --full-history --dense --sparse --simplify-merges --simplify-by-decoration --ancestry-path \
    --all-match --invert-grep -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings --basic-regexp \
    -g --walk-reflogs --source --full-diff --log-size -m -c --cc --show-pulls --no-mailmap --not --objects \
    --no-expand-tabs --remove-empty --combined-all-paths --no-diff-merges --no-show-signature \
    --clear-decorations --no-follow --ignore-missing --show-notes";
/// The same with values.
pub(super) const LOG_VALUED: Valued = &[
    ("-n --max-count --skip", Kind::Number),
    ("--since --after --until --before --since-as-filter", Kind::Text),
    ("--author --committer --grep --grep-reflog", Kind::Text),
    ("--date", Kind::Text),
    ("--decorate-refs --decorate-refs-exclude", Kind::Text),
    ("--encoding", Kind::Text),
    (
        "--diff-merges",
        // `remerge` would run the merge drivers that attributes name.
        Kind::OneOf(&[
            "off",
            "none",
            "on",
            "m",
            "first-parent",
            "1",
            "separate",
            "combined",
            "c",
            "dense-combined",
            "cc",
        ]),
    ),
    ("-L", Kind::LinesOfFile),
    ("--exclude --glob", Kind::Text),
];
/// The same with values that have to be joined.
pub(super) const LOG_JOINED: Valued =
    &[("--format", Kind::Pretty), ("--min-parents --max-parents", Kind::Number)];
/// The same with values that may be left out.
pub(super) const LOG_OPTIONAL: Valued = &[
    ("--pretty", Kind::Pretty),
    ("--decorate", Kind::OneOf(&["short", "full", "auto", "no"])),
    ("--branches --tags --remotes", Kind::Text),
    ("--no-walk", Kind::OneOf(&["sorted", "unsorted"])),
    ("--notes", Kind::Text),
];
/// Options of the lists of references.
pub(super) const REF_VALUED: Valued =
    &[("--sort --format", Kind::Format), ("--count", Kind::Number)];

/// The same that stand for HEAD when they end the line.
pub(super) const REF_LAST: Valued =
    &[("--contains --no-contains --merged --no-merged --points-at", Kind::Revision)];
/// What to use in place of options of diffs and logs that are out.
pub(super) const INSTEAD: &[(&str, &str)] = &[
    ("--color-words", "use --word-diff"),
    ("-P --perl-regexp", "its expressions may never end: use -E (--extended-regexp)"),
    ("--no-index", "it reads outside of the repository: read both files"),
    ("--show-signature", "signatures are not checked here"),
];

/// Commands that show differences.
pub(super) const DIFF: Grammar = Grammar {
    flags: &[DIFF_FLAGS],
    valued: &[DIFF_VALUED],
    optional: &[DIFF_OPTIONAL, &[("--relative", Kind::Text)]],
    instead: INSTEAD,
    clusters: false,
    ..BARE
};
/// Commands that list commits.
pub(super) const LOG: Grammar = Grammar {
    flags: &[LOG_FLAGS, DIFF_FLAGS],
    valued: &[LOG_VALUED, DIFF_VALUED],
    optional: &[LOG_OPTIONAL, DIFF_OPTIONAL],
    clusters: false,
    joined: &[LOG_JOINED],
    instead: INSTEAD,
    dash_number: true,
    ..BARE
};
