//! The grammars of the plain commands (GNU coreutils and grep), and what each is given on top.

use super::grammar::{BARE, Grammar, Parsed};
use super::value::Kind;
use super::{Allowed, Place, instead};
use crate::tools::secrets;

const LS: Grammar = Grammar {
    instead: &[("-L -H --dereference", "ls -l shows where a link leads; name the target itself")],
    flags: &[
        "-a -A -l -1 -h -t -r -R -S -d -F -p -i -s -n -o -g -G -m -x -C -U -u -c -X -v -b -q -Q -N -k -Z",
        "--all --almost-all --human-readable --reverse --recursive --directory --inode --size --no-group",
        "--group-directories-first --full-time --numeric-uid-gid --file-type --escape --literal --quote-name",
    ],
    valued: &[&[
        ("-I --ignore --hide", Kind::Text),
        ("--sort", Kind::OneOf(&["none", "size", "time", "version", "extension", "name"])),
        (
            "--time",
            Kind::OneOf(&["atime", "access", "use", "ctime", "status", "mtime", "modification"]),
        ),
        ("--time-style", Kind::OneOf(&["full-iso", "long-iso", "iso", "locale"])),
        (
            "--format",
            Kind::OneOf(&["long", "single-column", "commas", "across", "vertical", "verbose"]),
        ),
        ("--indicator-style", Kind::OneOf(&["none", "slash", "file-type", "classify"])),
        ("-w --width -T --tabsize", Kind::Number),
    ]],
    optional: &[&[
        ("--color", Kind::OneOf(&["never", "auto"])),
        ("--classify", Kind::OneOf(&["never", "auto", "always"])),
    ]],
    ..BARE
};

const CAT: Grammar = Grammar {
    flags: &[
        "-n -b -s -E -T -A -v -e -t",
        "--number --number-nonblank --squeeze-blank --show-ends --show-tabs --show-all --show-nonprinting",
    ],
    ..BARE
};

const HEAD: Grammar = Grammar {
    flags: &["-q -v -z --quiet --silent --verbose --zero-terminated"],
    valued: &[&[("-n --lines -c --bytes", Kind::Amount)]],
    dash_number: true,
    ..BARE
};

/// `-F`, `--retry` and `--pid` are out: they open by name again and again, or watch other processes.
const TAIL: Grammar =
    Grammar { flags: &["-q -v -z -f --quiet --silent --verbose --zero-terminated"], ..HEAD };

const WC: Grammar = Grammar {
    flags: &["-l -w -c -m -L --lines --words --bytes --chars --max-line-length"],
    ..BARE
};

/// `-o`, `-T`, `-S`, `--compress-program`, `--files0-from` and `--random-source` write, run or read.
const SORT: Grammar = Grammar {
    flags: &[
        "-u -r -n -f -b -d -i -g -h -M -V -s -c -C -z -m -R",
        "--unique --reverse --numeric-sort --ignore-case --ignore-leading-blanks --dictionary-order",
        "--ignore-nonprinting --general-numeric-sort --human-numeric-sort --month-sort --version-sort",
        "--stable --zero-terminated --merge --random-sort",
    ],
    valued: &[&[("-k --key", Kind::Key), ("-t --field-separator", Kind::Character)]],
    optional: &[&[("--check", Kind::OneOf(&["quiet", "silent", "diagnose-first"]))]],
    ..BARE
};

const UNIQ: Grammar = Grammar {
    flags: &["-c -d -D -u -i -z --count --repeated --unique --ignore-case --zero-terminated"],
    valued: &[&[("-f --skip-fields -s --skip-chars -w --check-chars", Kind::Number)]],
    optional: &[&[("--all-repeated", Kind::OneOf(&["none", "prepend", "separate"]))]],
    ..BARE
};

/// `-f` and `--exclude-from` read other files, `-R` follows links, `-D` and `-d` open devices, `-P` has
/// expressions that never end.
const GREP: Grammar = Grammar {
    instead: &[
        ("-R --dereference-recursive", "it follows links out of the tree: use -r"),
        ("-P --perl-regexp", "its expressions may never end: use -E"),
        ("-f --file", "give patterns with -e"),
    ],
    flags: &[
        "-n -i -v -c -l -L -o -w -x -r -H -h -s -q -E -F -G -I -a -b -T -z -Z -y",
        "--line-number --ignore-case --no-ignore-case --invert-match --count --files-with-matches",
        "--files-without-match --only-matching --word-regexp --line-regexp --recursive --with-filename",
        "--no-filename --no-messages --quiet --silent --extended-regexp --fixed-strings --basic-regexp",
        "--text --byte-offset --initial-tab --null-data --null --line-buffered --no-group-separator",
    ],
    valued: &[&[
        ("-e --regexp", Kind::Text),
        ("-m --max-count -A --after-context -B --before-context -C --context", Kind::Number),
        ("--include --exclude --exclude-dir --group-separator", Kind::Text),
        ("--binary-files", Kind::OneOf(&["binary", "text", "without-match"])),
    ]],
    optional: &[&[("--color --colour", Kind::OneOf(&["never", "auto"]))]],
    dash_number: true,
    ..BARE
};

const PWD: Grammar = Grammar { flags: &["-L -P --logical --physical"], ..BARE };

/// The plain commands that have options.
pub(super) const GRAMMARS: &[(&str, Grammar)] = &[
    ("ls", LS),
    ("cat", CAT),
    ("head", HEAD),
    ("tail", TAIL),
    ("wc", WC),
    ("sort", SORT),
    ("uniq", UNIQ),
    ("grep", GREP),
    ("pwd", PWD),
    ("true", BARE),
];

/// Checks a plain command.
pub(super) fn check(name: &str, words: &[String], place: &Place<'_>) -> Result<Allowed, String> {
    match name {
        "grep" => return grep(words, place),
        "echo" => return echo(words),
        _ => {}
    }
    let Some((_, grammar)) = GRAMMARS.iter().find(|(known, _)| *known == name) else {
        return Err(instead::unlisted(name));
    };
    let (least, most) = match name {
        "pwd" | "true" => (0, 0),
        "ls" => (0, 64),
        // A second operand is a file that uniq writes.
        "uniq" => (1, 1),
        _ => (1, 64),
    };
    let parsed = grammar.parse(words, place).map_err(|why| format!("{name}: {why}"))?;
    count(name, parsed.operands.len(), least, most)?;
    let mut allowed = allow(name, &parsed);
    for operand in &parsed.operands {
        allowed.paths.push(place.path(operand, name != "ls")?);
    }
    if name == "ls" && parsed.has(&["-R", "--recursive"]) {
        insert_options(&mut allowed, &parsed, ["--ignore=.git".to_owned()]);
    }
    Ok(allowed)
}

/// Refuses a wrong number of operands.
pub(super) fn count(name: &str, given: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Err(format!("{name} takes {wanted} operands here, not {given} (there is no standard input)"))
}

fn allow(name: &str, parsed: &Parsed) -> Allowed {
    let argv = std::iter::once(name.to_owned()).chain(parsed.words.iter().cloned());
    Allowed { argv: argv.collect(), paths: parsed.paths.clone(), git: None, whole: false }
}

/// Puts options behind all that were given, but before `--`.
fn insert_options(
    allowed: &mut Allowed,
    parsed: &Parsed,
    options: impl IntoIterator<Item = String>,
) {
    let at = match parsed.before_dashes {
        Some(before) => allowed.argv.len() - (parsed.operands.len() - before) - 1,
        None => allowed.argv.len(),
    };
    allowed.argv.splice(at..at, options);
}

/// Words and `-n`: `-e` writes control characters. Any other word is text, whatever it begins with.
fn echo(words: &[String]) -> Result<Allowed, String> {
    let texts = words.strip_prefix(&["-n".to_owned()]).unwrap_or(words);
    let acts = |word: &&String| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        let option = !letters.is_empty() && letters.chars().all(|c| "neE".contains(c));
        option || ["--help", "--version"].contains(&word.as_str())
    };
    if let Some(option) = texts.iter().find(acts) {
        return Err(format!("echo: the option {option} is not on the list"));
    }
    let argv = std::iter::once("echo".to_owned()).chain(words.iter().cloned());
    Ok(Allowed { argv: argv.collect(), paths: Vec::new(), git: None, whole: false })
}

/// What stands in for a directory and a file in it, which grep can't leave out together: the rarer one.
const PAIRED_DIRECTORIES: [&str; 2] = [".docker", ".kube"];
const PAIRED_FILE: &str = "hosts.yml";
/// What the answer to a recursive search says, because more is left out than secrets.
pub(in crate::tools) const LEFT_OUT: &str =
    "[files of secrets, .docker, .kube and hosts.yml were not searched]";

/// A pattern, then files; a recursive search passes over `.git` and secrets.
fn grep(words: &[String], place: &Place<'_>) -> Result<Allowed, String> {
    let parsed = GREP.parse(words, place).map_err(|why| format!("grep: {why}"))?;
    let patterns = usize::from(!parsed.has(&["-e", "--regexp"]));
    let recursive = parsed.has(&["-r", "--recursive"]);
    let least = patterns + usize::from(!recursive);
    count("grep", parsed.operands.len(), least, 64)?;
    let mut allowed = allow("grep", &parsed);
    for operand in &parsed.operands[patterns..] {
        allowed.paths.push(place.path(operand, true)?);
    }
    if recursive {
        let any = |name: &str| secrets::in_any_case(name);
        let files = secrets::exclude_patterns().chain([PAIRED_FILE.to_owned()]);
        let files = files.map(|pattern| format!("--exclude={}", any(&pattern)));
        let directories = secrets::exclude_directories().chain(PAIRED_DIRECTORIES);
        let directories = directories.map(|name| format!("--exclude-dir={}", any(name)));
        let options: Vec<String> =
            files.chain(directories).chain(["--exclude-dir=.git".to_owned()]).collect();
        insert_options(&mut allowed, &parsed, options);
    }
    Ok(allowed)
}
