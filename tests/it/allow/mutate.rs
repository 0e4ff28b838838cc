//! Mutations of command lines that know what such lines are made of.

use serde_json::{Value, json};

/// Words that ask for something that the list must not give, whole and as beginnings of words.
const HOSTILE: &[&str] = &[
    "--output=@OUT",
    "--output",
    "-o",
    "@OUT",
    "-o@OUT",
    "--ext-diff",
    "--textconv",
    "--no-index",
    "--contents=/etc/hostname",
    "--open-files-in-pager=@EXE",
    "-O@EXE",
    "-O",
    "--paginate",
    "-p",
    "--exec-path=.",
    "--upload-pack=@EXE",
    "--exec=@EXE",
    "-f",
    "--file=/etc/hostname",
    "--files0-from=/etc/hostname",
    "--compress-program=@EXE",
    "-T/root",
    "-S1",
    "--exclude-from=/etc/hostname",
    "-X/etc/hostname",
    "--pathspec-from-file=/etc/hostname",
    "--pathspec-from-file=-",
    "--stdin",
    "--filters",
    "--show-signature",
    "--recurse-submodules",
    "--submodule=diff",
    "--help",
    "-h",
    "--interactive",
    "-i",
    "-P",
    "--config-env=core.pager=X",
    "--namespace=x",
    "--bare",
    "-c",
    "core.fsmonitor=@EXE",
    "-ccore.pager=@EXE",
    "-C",
    "/",
    "--git-dir=vendor/bare",
    "--git-dir",
    ".",
    "--work-tree=/",
    "--attr-source=HEAD",
    "--format=%G?",
    "--pretty=format:%GK",
    "--format=%(trailers)",
    "--ignore-submodules=none",
    "--edit",
    "-e",
    "--verify",
    "--no-textconv",
    "--no-ext-diff",
    "--ext-grep",
    "--and",
    "-L",
    "--follow=name",
    "--retry",
    "--pid=1",
    "-F",
    "--directories=recurse",
    "-D",
    "-d",
    "recurse",
    "--devices=read",
    "-R",
    "--dereference-recursive",
    "--dereference",
    "-H",
    "-Z",
    "--hyperlink",
    "--context",
    "--time-style=+%s",
    "--block-size=1",
    "--exclude-standard",
    "--exclude-per-directory=x",
    "--local-env-vars",
    "--resolve-git-dir",
    "--parseopt",
    "--sq-quote",
    "--batch",
    "--batch-check",
    "--batch-all-objects",
    "--buffer",
    "--dirty",
    "--broken",
    "--remerge-diff",
    "--diff-merges=remerge",
    "--full-diff",
    "--no-walk",
    "--reflog",
    "--alternate-refs",
    "--bisect",
    "--source",
    "--force",
    "-A",
    "-u",
    "--update",
    "--refresh",
    "--chmod=+x",
    "--renormalize",
    "--intent-to-add",
    "--sparse",
    "--worktree",
    "-W",
    "--hard",
    "--soft",
    "--merge",
    "--keep",
    "--staged",
    "--cached",
    "-r",
    "-q",
    "HEAD",
    "HEAD~1",
    "--",
    "-",
    "",
];

/// Paths that lead somewhere else, or look as if they did.
const PATHS: &[&str] = &[
    "/etc/hostname",
    "../space-evil/x",
    "..",
    "../",
    "./../x",
    "src/../../x",
    "link-to-etc/hostname",
    "link-to-etc",
    ".git",
    ".git/config",
    ".GIT/config",
    "./.git/config",
    "src/../.git/config",
    ".git/",
    ".git/hooks",
    ".env",
    "./.env",
    "src/../.env",
    "~",
    "~/x",
    "//etc/hostname",
    "vendor/bare/config",
    "sub/.git/config",
    "exe.sh",
    "big.txt",
    "f.txt",
    "src",
    "src/",
    ".",
    "HEAD:f.txt",
    "HEAD:.env",
    "HEAD:../x",
    ":f.txt",
    ":/x",
    ":(top)x",
    ":(attr:x)f",
    ":!f.txt",
    ":^f.txt",
    ":(exclude)f.txt",
    ":(glob)**",
    "HEAD@{1}",
    "@{-1}",
    "HEAD^{tree}",
    "main..HEAD",
    "main...",
    "*.rs",
    "'*.rs'",
    "/dev/stdin",
    "/dev/fd/0",
    "/proc/self/environ",
    "/dev/tcp/127.0.0.1/80",
    "file with space.txt",
];

/// What separates, redirects or expands in a shell.
const SHELL: &[&str] = &[
    ";", "&", "&&", "|", "||", "\n", "\r", ">", ">>", "<", "<(", "$(", "`", ")", "$HOME", "${IFS}",
    "$'", "!!", "*", "?", "[a-z]", "{a,b}", "#", "\\", "\"", "'", "~", "\0", "\u{7}", "2>&1", "=",
    "(", "%s",
];

/// Characters that look like others, or like nothing.
const UNICODE: &[(&str, &str)] = &[
    (" ", "\u{a0}"),
    (" ", "\u{3000}"),
    (" ", "\u{200b}"),
    (" ", "\t"),
    ("-", "\u{2013}"),
    ("-", "\u{2212}"),
    ("-", "－"),
    ("--", "—"),
    (".", "．"),
    ("/", "／"),
    ("/", "\u{2215}"),
    ("l", "ｌ"),
    ("s", "ѕ"),
    ("a", "а"),
    ("e", "e\u{301}"),
    ("g", "\u{200d}g"),
    (";", "；"),
    ("=", "＝"),
];

/// Commands that a name may be swapped for.
const PROGRAMS: &[&str] = &[
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "echo",
    "pwd",
    "true",
    "sort",
    "uniq",
    "grep",
    "git",
    "sh",
    "env",
    "python3",
    "/bin/ls",
    "./ls",
    "busybox",
    "find",
    "sed",
    "awk",
    "xargs",
    "rg",
    "less",
    "tee",
    "git-status",
    "GIT",
    "Ls",
];

const ENV: &[&str] = &[
    "A=1",
    "GIT_EXTERNAL_DIFF=@EXE",
    "GIT_PAGER=@EXE",
    "PAGER=@EXE",
    "LD_PRELOAD=./x.so",
    "GIT_CONFIG_COUNT=1",
    "PATH=.",
    "env",
    "command",
    "exec",
    "time",
];

/// Makes mutants of rows.
pub struct Mutator<F> {
    hostile: Vec<Vec<String>>,
    legit: Vec<Vec<String>>,
    fill: F,
}

impl<F: Fn(&str) -> String> Mutator<F> {
    /// Of these commands; `fill` puts places into their words.
    pub fn new(hostile: &[Value], legit: &[Value], fill: F) -> Self {
        let words = |rows: &[Value]| rows.iter().map(words_of).collect();
        Self { hostile: words(hostile), legit: words(legit), fill }
    }

    /// One mutant: a line, or words.
    pub fn mutant(&self, rng: &mut fastrand::Rng) -> Value {
        let from = if rng.u8(..3) == 0 { &self.legit } else { &self.hostile };
        let mut words = pick(rng, from).clone();
        for _ in 0..rng.u8(1..=3) {
            self.change(&mut words, rng);
        }
        let words: Vec<String> = words.iter().map(|word| (self.fill)(word)).collect();
        if rng.u8(..3) == 0 {
            return json!(words);
        }
        let mut line = words.iter().map(|word| quoted(word, rng)).collect::<Vec<_>>().join(" ");
        if rng.u8(..4) == 0 {
            damage(&mut line, rng);
        }
        json!(line)
    }

    /// One change of the words.
    fn change(&self, words: &mut Vec<String>, rng: &mut fastrand::Rng) {
        let at = rng.usize(..=words.len());
        let length = words.len();
        let one = rng.usize(..length.max(1));
        match rng.u8(..14) {
            0 if length > 1 => words.swap(one, at % length),
            1 if words.len() > 1 => drop(words.remove(one)),
            2 if !words.is_empty() => words.insert(at, words[one].clone()),
            3 => words.insert(at, (*pick(rng, HOSTILE)).to_owned()),
            4 => words.insert(at, (*pick(rng, PATHS)).to_owned()),
            5 => words.insert(at, (*pick(rng, SHELL)).to_owned()),
            6 => words.insert(0, (*pick(rng, ENV)).to_owned()),
            7 => {
                // A word or the end of another row: hostile in what is legitimate, and the other way round.
                let other = if rng.bool() { &self.hostile } else { &self.legit };
                let other = pick(rng, other);
                let from = rng.usize(..other.len().max(1)).min(other.len());
                words.splice(at..at, other[from..].iter().cloned());
            }
            8 if !words.is_empty() => words[0] = (*pick(rng, PROGRAMS)).to_owned(),
            9 if !words.is_empty() => words[one] = option_form(&words[one], rng),
            10 if !words.is_empty() => words[one] = path_form(&words[one], rng),
            11 if !words.is_empty() => {
                let (plain, like) = pick(rng, UNICODE);
                words[one] = words[one].replacen(plain, like, 1);
            }
            12 if !words.is_empty() => words[one].push_str(pick::<&str>(rng, SHELL)),
            13 if words.first().is_some_and(|word| word == "git") => {
                let option = pick(
                    rng,
                    &[
                        "-c",
                        "-C",
                        "--git-dir=.",
                        "--no-pager",
                        "-p",
                        "--exec-path=.",
                        "--literal-pathspecs",
                        "-ccore.pager=@EXE",
                    ],
                );
                words.insert(1, (*option).to_owned());
            }
            _ => words.push((*pick(rng, HOSTILE)).to_owned()),
        }
    }
}

fn pick<'a, T>(rng: &mut fastrand::Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

/// A line's words, as far as blanks tell; what is quoted stays together.
fn words_of(command: &Value) -> Vec<String> {
    match command {
        Value::String(line) => line.split(' ').map(str::to_owned).collect(),
        words => {
            words.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
        }
    }
}

/// A word as it may stand in a line.
fn quoted(word: &str, rng: &mut fastrand::Rng) -> String {
    match rng.u8(..8) {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 if word.len() > 1 && word.is_char_boundary(1) => {
            format!("{}'{}'", &word[..1], &word[1..])
        }
        3 if word.len() > 1 && word.is_char_boundary(1) => {
            format!("\"{}\"{}", &word[..1], &word[1..])
        }
        _ => word.to_owned(),
    }
}

/// An option in another of the forms that programs take: cut short, with its value, bundled, negated.
fn option_form(word: &str, rng: &mut fastrand::Rng) -> String {
    let cut = word
        .char_indices()
        .map(|(at, _)| at)
        .nth(rng.usize(..word.chars().count().max(1)))
        .unwrap_or(0);
    match rng.u8(..7) {
        0 => word[..cut].to_owned(),
        1 => format!("{word}={}", pick(rng, PATHS)),
        2 => format!("{word}{}", pick(rng, PATHS)),
        3 => word.replacen("--", "--no-", 1),
        4 => word.replacen('-', "--", 1),
        5 if word.starts_with('-') && !word.starts_with("--") => {
            format!("{word}{}", pick(rng, &["o", "f", "r", "P", "R", "z", "O", "e", "n"]))
        }
        _ => word.split('=').next().unwrap_or_default().to_owned(),
    }
}

/// A path in another form.
fn path_form(word: &str, rng: &mut fastrand::Rng) -> String {
    match rng.u8(..10) {
        0 => format!("./{word}"),
        1 => format!("../{word}"),
        2 => format!("/{word}"),
        3 => format!("src/../{word}"),
        4 => format!("{word}/"),
        5 => format!("{word}/.."),
        6 => format!("link-to-etc/{word}"),
        7 => word.to_uppercase(),
        8 => format!(":(top){word}"),
        _ => format!("HEAD:{word}"),
    }
}

/// A character put in, taken out, or put in another's place.
fn damage(line: &mut String, rng: &mut fastrand::Rng) {
    let mut chars: Vec<char> = line.chars().collect();
    let at = rng.usize(..chars.len().max(1)).min(chars.len());
    let new = pick(rng, SHELL).chars().next().unwrap_or(' ');
    match rng.u8(..3) {
        0 => chars.insert(at, new),
        1 if at < chars.len() => drop(chars.remove(at)),
        _ if at < chars.len() => chars[at] = new,
        _ => {}
    }
    *line = chars.into_iter().collect();
}
