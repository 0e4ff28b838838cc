//! The rows of the corpora, as far as text alone decides, and the rules one by one.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::tools::files::RelPath;

fn check_row(row: &Value) -> Result<Allowed, String> {
    let top = RelPath::top();
    let place = Place { base: Path::new("/work/space"), cwd: &top };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match &row["argv_or_line"] {
        Value::String(line) => check_line(line, &place),
        Value::Array(words) => check_words(&words.iter().map(text).collect::<Vec<_>>(), &place),
        _ => check_line(row["line"].as_str().unwrap(), &place),
    }
}

fn rows(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/allowlist").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn line(line: &str) -> Result<Allowed, String> {
    check_row(&serde_json::json!({ "argv_or_line": line }))
}

// contract C12
#[test]
fn every_hostile_row_is_rejected() {
    let accepted: Vec<_> = rows("hostile.jsonl")
        .iter()
        .filter(|row| check_row(row).is_ok())
        .map(ToString::to_string)
        .collect();
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

// contract C12
#[test]
fn every_legitimate_row_is_accepted() {
    for name in ["legit.jsonl", "hostile_repository.jsonl"] {
        let rejected: Vec<_> = rows(name)
            .iter()
            .filter_map(|row| check_row(row).err().map(|why| format!("{row}: {why}")))
            .collect();
        assert!(rejected.is_empty(), "{}", rejected.join("\n"));
    }
}

fn lines_of(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/allowlist").join(name);
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Lines as agents type them: of a hundred at most one is refused.
// contract C12
#[test]
fn honest_lines_are_accepted() {
    let all = lines_of("honest.txt");
    let why = |text: &String| line(text).err().map(|why| format!("{text}: {why}"));
    let refused: Vec<_> = all.iter().filter_map(why).collect();
    assert!(all.len() > 800, "{}", all.len());
    assert!(refused.len() * 100 <= all.len(), "{} of {}: {refused:#?}", refused.len(), all.len());
}

/// Lines that agents type as well and that stay out: they write, need a shell, run programs that attributes or
/// submodules name, follow links, or may never end.
#[test]
fn what_is_refused_on_purpose_stays_refused() {
    let accepted: Vec<_> =
        lines_of("refused_on_purpose.txt").into_iter().filter(|text| line(text).is_ok()).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
}

/// What is refused on purpose though agents type it, with the words that name the way out.
const INSTEAD: &[(&str, &str)] = &[
    ("\"git\" status", "write git as it is"),
    ("'cat' README.md", "write cat as it is"),
    ("git \"status\"", "write git status as it is"),
    ("git -C src log", "the tool's `dir`"),
    ("git -c a.b=c log", "none can be given"),
    ("cat src/*.rs", "read_file reads each"),
    ("grep -rnP '\\bfn\\b' src", "use -E"),
    ("git grep -nP 'fn\\s+main'", "use -E"),
    ("git log --perl-regexp --grep=x", "use -E"),
    ("grep -Rn TODO src", "use -r"),
    ("git status -vv", "git diff --cached"),
    ("git diff --color-words", "--word-diff"),
    ("git diff --no-index a b", "read both files"),
    ("git grep --no-index x", "grep -r"),
    ("git describe --dirty", "git status -s"),
    ("ls -L", "ls -l"),
    ("git blame -ws f.txt", "give them apart"),
    ("git branch --contains -a", "joined"),
    ("echo \"$HOME\"", "single quotes"),
];

#[test]
fn refusals_name_the_way_out() {
    for (text, way) in INSTEAD {
        let why = line(text).unwrap_err();
        assert!(why.contains(way), "{text}: {why}");
    }
}

/// An option that stood in two lists would be taken as the first has it, and the other entry were dead.
#[test]
fn no_option_stands_in_two_lists() {
    let git = SUBCOMMANDS.iter().map(|command| (command.title(), command.grammar));
    let plain = commands::GRAMMARS.iter().map(|(name, grammar)| ((*name).to_owned(), *grammar));
    for (title, grammar) in git.chain(plain) {
        let valued = |lists: &[grammar::Valued]| {
            lists.iter().copied().flatten().map(|(names, _)| *names).collect::<Vec<_>>()
        };
        let lists = [
            grammar.flags.to_vec(),
            valued(grammar.valued),
            valued(grammar.joined),
            valued(grammar.optional),
            valued(grammar.last),
            grammar.instead.iter().map(|(names, _)| *names).collect(),
        ];
        let mut seen = std::collections::HashMap::new();
        for (at, names) in lists.iter().enumerate() {
            for name in names.iter().flat_map(|names| names.split_whitespace()) {
                assert!(name.starts_with('-'), "{title}: {name}");
                assert_eq!(*seen.entry(name).or_insert(at), at, "{title}: {name} is in two lists");
            }
        }
    }
}

/// A pattern of paths, which could match a file of secrets, gets the same exclusions as a search.
#[test]
fn secrets_are_left_out_of_patterns_and_line_ranges() {
    for text in
        ["git log -L 1,1:sub/.env", "git log -L:f:.ENV", "git show HEAD -- .docker/config.json"]
    {
        assert!(line(text).is_err(), "{text}");
    }
    let excludes = |text: &str| {
        let argv = line(text).unwrap().argv;
        let has = |spec: &str| argv.iter().any(|word| word == spec);
        has(":(exclude,top,icase,glob)**/.env")
            && has(":(exclude,top,icase,glob)**/.docker/config.json")
            && has(":(exclude,top,icase,glob)**/.ssh/**")
    };
    for text in [
        "git show HEAD -- 'sub/.en?'",
        "git log -p -- '*.pe?'",
        "git diff 'sub/.e[n]v'",
        "git diff -- 'sub/.e\\nv'",
        "git diff-files -p -- '*'",
        "git reflog show -p HEAD -- '.e*'",
        "git grep needle",
    ] {
        assert!(excludes(text), "{text}");
    }
    for text in ["git show HEAD -- src/main.rs", "git log 'HEAD^{/a*}'", "git log ':/a*'"] {
        assert!(!excludes(text), "{text}");
    }
    let argv = line("grep -r x .").unwrap().argv;
    for word in ["--exclude=[.][eE]", "--exclude=[hH][oO]"] {
        let word = word.replace("[.]", ".");
        assert!(argv.iter().any(|given| given.starts_with(&word)), "{word}: {argv:?}");
    }
    let any = |name: &str| crate::tools::secrets::in_any_case(name);
    for (directory, file) in crate::tools::secrets::exclude_pairs() {
        let covers =
            [format!("--exclude-dir={}", any(directory)), format!("--exclude={}", any(file))];
        assert!(argv.iter().any(|word| covers.contains(word)), "{directory}/{file}");
    }
}

#[test]
fn backslashes_are_undone_as_a_shell_does() {
    for (text, word) in [
        ("echo \"a\\\"b\"", "a\"b"),
        ("echo \"foo\\$\"", "foo$"),
        ("echo \"\\\\bmain\\\\b\"", "\\bmain\\b"),
        ("echo \"\\`x\\`\"", "`x`"),
        ("echo \"a\\.b\\n\"", "a\\.b\\n"),
        ("echo \"println\\!\"", "println\\!"),
        ("echo \"vec!\\[\"", "vec!\\["),
        ("echo \"\\\\\"x", "\\x"),
        ("echo a\\ b", "a b"),
        ("echo \\*.rs", "*.rs"),
        ("echo 'a\\b'", "a\\b"),
        ("echo \"---\"", "---"),
        ("echo HEAD^!", "HEAD^!"),
    ] {
        assert_eq!(line(text).unwrap().argv, ["echo", word], "{text}");
    }
}

/// More lines of the corpora's kinds, one by one.
const REJECTED: &[&str] = &[
    "",
    "ls | sh",
    "ls & touch x",
    "ls\ntouch x",
    "ls > out",
    "cat < f.txt",
    "cat <(ls)",
    "echo $(id)",
    "echo \"$(id)\"",
    "echo \"`id`\"",
    "echo \"$HOME\"",
    "echo $HOME",
    "echo $'x'",
    "echo !!",
    "echo \"!ls\"",
    "ls *",
    "ls src/*.rs",
    "ls ?",
    "ls [a-z]",
    "ls 'a",
    "ls #x",
    "l''s",
    "'ls'",
    "\"ls\"",
    "l\"s\"",
    "if true",
    "time ls",
    "command ls",
    ". ./x",
    "eval ls",
    "sh -c ls",
    "(ls)",
    "ls；touch x",
    "ls\u{200b} -la",
    "A=1 ls",
    "=ls",
    "sort -ox f.txt",
    "sort -ro out f.txt",
    "sort --output=x f.txt",
    "sort --outp=x f.txt",
    "sort -T/root f.txt",
    "sort -S 1M f.txt",
    "sort",
    "sort -",
    "uniq f.txt out.txt",
    "uniq",
    "head -n x f.txt",
    "tail -F app.log",
    "tail --pid=1 -f app.log",
    "tail --follow=name app.log",
    "cat",
    "cat -",
    "cat src/../.git/config",
    "cat .GIT/config",
    "cat sub/.git./config",
    "cat /work/space/.git/config",
    "cat /work/space-evil/x",
    "ls .git/hooks",
    "ls ..",
    "ls --hyperlink=always",
    "ls --col=never",
    "wc -l --files0-from=-",
    "grep -r x .git",
    "grep x",
    "grep -d recurse x .",
    "grep --directories=recurse x .",
    "grep -rf pats .",
    "grep -nP x f.txt",
    "grep x -",
    "echo -e x",
    "echo -ne x",
    "echo -n -e x",
    "pwd -x",
    "git -h",
    "git --exec-path=. status",
    "git --git-dir=vendor/bare status",
    "git --work-tree=/ status",
    "git --config-env=core.pager=X log",
    "git --bare log",
    "git 'status'",
    "git log --output=x",
    "git log --outp=x",
    "git log --format --output=x%h",
    "git log --author --output=x",
    "git log --format '%h'",
    "git stash show -l 5",
    "git blame -L --textconv f.txt",
    "git log --show-signature",
    "git log --format=%G?",
    "git log --pretty=format:%GK",
    "git log --format='%(describe)'",
    "git log --format=%x1b]0",
    "git log --pretty=custom",
    "git log --stdin",
    "git log --diff-merges=remerge",
    "git log --remerge-diff",
    "git log -L 1,2:../x",
    "git log -L 1,2:/etc/passwd",
    "git log -- ../x",
    "git log -P --grep=x",
    "git shortlog --group=format:%GS HEAD",
    "git tag -v x",
    "git tag --sort=signature:grade -l",
    "git help log",
    "git status --help",
    "git status -v",
    "git status ../",
    "git diff --submodule=diff",
    "git diff --no-inde a b",
    "git diff ../a ../b",
    "git diff -O src/order",
    "git show HEAD:.env",
    "git show HEAD:a/.ssh/id_rsa",
    "git show HEAD:../x",
    "git cat-file --filters HEAD:f.txt",
    "git cat-file --batch",
    "git cat-file -p HEAD:.npmrc",
    "git ls-files -X/etc/shadow",
    "git ls-files --exclude-from=/etc/shadow",
    "git ls-files --exclude-per-directory=x",
    "git check-ignore --stdin",
    "git rev-parse --sq-quote x",
    "git rev-parse --resolve-git-dir /",
    "git describe --dirty",
    "git grep -f pats",
    "git grep -P x",
    "git grep --ext-grep x",
    "git grep --recurse-submodules x",
    "git for-each-ref --shell",
    "git symbolic-ref -d X",
    "git branch -m x",
    "git branch -vu origin/x",
    "git branch --contains HEAD newb",
    "git branch -a newb",
    "git tag -d x",
    "git tag -a x",
    "git stash push",
    "git stash apply",
    "git stash list --ext-diff",
    "git reflog expire --all",
    "git reflog delete HEAD@{1}",
    "git worktree add x",
    "git worktree prune",
    "git remote -v show origin",
    "git remote show origin",
    "git remote get-url",
    "git remote get-url -x",
    "git remote get-url a b",
    "git reflog drop --all",
    "git reflog write x y z",
    "git branch --contains x newb",
    "git branch newb --merged",
    "git tag --merged HEAD newt",
    "git -p log",
    "git describe --broken",
    "ls\\ -la",
    "ca\\t README.md",
    "l\\s",
    "ls\tsrc",
    "ls\ntouch x\n",
    "\nls\ntouch x",
    "echo \"a\\\"; touch x",
    "echo \"\\\\\"`id`",
    "echo \"\\\\$(id)\"",
    "echo \"\\\\$HOME\"",
    "echo \\\\$(id)",
    "echo a\\",
    "echo --help",
    "echo --version",
    "echo a -e b",
    "git diff HEAD^!!",
    "echo !x",
    "echo x!",
    "grep \"a!!\" f.txt",
    "git grep -O x",
    "git grep -e x -O",
    "git remote add x y",
    "git remote set-url x y",
    "git config --get user.name",
    "git add .git/config",
    "git add -Ap",
    "git add --patch",
    "git add --force x",
    "git add ':(attr:x)f'",
    "git add ':(top)../x'",
    "git add :/../x",
    "git rm f.txt",
    "git rm -rf --cached .",
    "git restore --staged --worktree f.txt",
    "git restore -W f.txt",
    "git reset HEAD~1",
    "git reset HEAD~1 -- f.txt",
    "git reset HEAD^ f.txt",
    "git reset ORIG_HEAD",
    "git reset --soft HEAD",
    "git reset --keep",
    "git reset -p",
    "git checkout .",
    "git switch -",
    "git commit -m x",
    "git merge x",
    "git fetch",
    "git push",
    "git mv a b",
    "git hash-object -w f.txt",
    "git update-ref HEAD x",
    "git range-diff a b c",
    "git submodule status",
    "git version --build-options",
];

const ACCEPTED: &[&str] = &[
    "ls --color=never",
    "ls -lah src/",
    "ls -R",
    "ls -l --time-style=long-iso ./src",
    "ls .env",
    "cat -n src/main.rs",
    "cat /work/space/src/main.rs",
    "head -5 README.md",
    "head -n5 README.md",
    "head -n -5 README.md",
    "tail -n +2 f.txt",
    "tail -5 f.txt",
    "tail -f app.log",
    "ls\n",
    "git log -3 \r\n",
    "grep -n \"a\tb\" f.txt",
    "grep 'a\tb' f.txt",
    "sort -t: -k2 f.txt",
    "sort -t ',' -k1,1n f.txt",
    "sort --key=2 --reverse f.txt",
    "uniq -c nums.txt",
    "wc -lw f.txt",
    "echo",
    "echo \"a b\" c",
    "echo 'a;b|c $d `e`'",
    "true",
    "pwd -P",
    "grep -rn \"fn \" src",
    "grep -rn --include=*.rs TODO .",
    "grep -rn --include='*.rs' --exclude-dir=target TODO",
    "grep -E 'fn|struct' src/lib.rs",
    "grep -n \"foo\\|bar\" src/lib.rs",
    "grep -n \"println!\" src/main.rs",
    "grep -n \"x$\" f.txt",
    "grep -- -x README.md",
    "grep -e -x README.md",
    "git grep -e-x",
    "grep -e a -e b f.txt",
    "grep -5 needle f.txt",
    "git --no-pager diff",
    "git status --porcelain=v2 --branch",
    "git status -uno",
    "git status src",
    "git diff --name-status",
    "git diff -U0",
    "git diff --word-diff",
    "git diff HEAD -- src/lib.rs",
    "git diff --cached --stat",
    "git diff main...HEAD",
    "git diff main..HEAD -- src ':!*.lock'",
    "git log -1 --format=%H",
    "git log --format='%h %an %s%x09%d'",
    "git log --pretty=format:%h",
    "git log --pretty=fuller --date=short",
    "git log --since='2 weeks ago' -p",
    "git log --follow -- src/main.rs",
    "git log -S needle --oneline",
    "git log -Sneedle",
    "git log -L 1,3:src/main.rs",
    "git log HEAD@{1}",
    "git log v1.0^{commit}",
    "git log --diff-merges=first-parent",
    "git show HEAD~1:README.md",
    "git show :README.md",
    "git show -s --format=%B HEAD",
    "git show HEAD:./README.md",
    "git branch -vv",
    "git branch -a",
    "git branch --show-current",
    "git branch --list 'feat*'",
    "git branch --contains HEAD",
    "git tag",
    "git tag -l 'v*'",
    "git tag -n3",
    "git stash list",
    "git stash show -p",
    "git stash show stash@{0}",
    "git reflog",
    "git reflog -n 5",
    "git reflog show HEAD",
    "git rev-parse HEAD",
    "git rev-parse --short HEAD",
    "git rev-parse --short=8 HEAD~2",
    "git ls-files '*.rs'",
    "git ls-files -- src",
    "git ls-tree HEAD src/",
    "git cat-file blob HEAD:README.md",
    "git cat-file -t HEAD",
    "git blame src/main.rs",
    "git blame HEAD -- src/main.rs",
    "git grep needle",
    "git grep -n needle -- src",
    "git grep -e a --and -e b",
    "git shortlog -sn",
    "git describe --tags --always",
    "git rev-list --all --count",
    "git diff-tree --no-commit-id --name-only -r HEAD",
    "git show-ref --heads",
    "git symbolic-ref --short HEAD",
    "git merge-base HEAD main",
    "git for-each-ref --sort=-committerdate --count=3 --format='%(refname:short)' refs/heads",
    "git count-objects -v",
    "git remote",
    "git check-ignore -v .env",
    "git add -u",
    "git add -n .",
    "git add -- src/main.rs",
    "git reset",
    "git reset -- src",
    "git reset HEAD -- src/main.rs",
    "git reset src/main.rs",
    "git restore --staged src/lib.rs",
    "git restore -S --source=HEAD~1 src/lib.rs",
    "git rm -r --cached src",
];

#[test]
fn lines_of_the_hostile_kinds_are_rejected() {
    let accepted: Vec<_> = REJECTED.iter().filter(|text| line(text).is_ok()).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
}

#[test]
fn lines_of_the_legitimate_kinds_are_accepted() {
    let rejected: Vec<_> = ACCEPTED
        .iter()
        .filter_map(|text| line(text).err().map(|why| format!("{text}: {why}")))
        .collect();
    assert!(rejected.is_empty(), "{rejected:#?}");
}

#[test]
fn what_runs_is_what_was_read() {
    let argv = |text: &str| line(text).unwrap().argv.join(" ");
    assert_eq!(argv("git reset src/main.rs"), "git --no-pager reset -- src/main.rs");
    assert_eq!(
        argv("git reset -q HEAD src/main.rs"),
        "git --no-pager reset -q HEAD -- src/main.rs"
    );
    assert!(argv("git diff HEAD").starts_with("git --no-pager diff --no-ext-diff --no-textconv"));
    assert!(argv("grep -r x . ").contains("--exclude-dir=.git"));
    assert!(argv("grep -r -- x .").ends_with("--exclude-dir=.git -- x ."));
    assert!(argv("ls -R src").ends_with("--ignore=.git"));
    assert!(argv("git shortlog -sn").ends_with("HEAD"));
    assert!(argv("git grep needle").contains(":(exclude,top,icase,glob)**/.env"));
    assert_eq!(line("echo 'a  b' \"c\"d").unwrap().argv, ["echo", "a  b", "cd"]);
}

// contract C13
#[test]
fn no_interpreter_or_build_tool_is_on_the_list() {
    let out = [
        "sh", "bash", "python3", "perl", "node", "awk", "sed", "find", "xargs", "env", "make",
        "cargo", "rg", "less", "vi", "tee", "dd", "cp",
    ];
    assert!(out.iter().all(|name| !COMMANDS.contains(name) && line(&format!("{name} x")).is_err()));
    let mut sorted = COMMANDS;
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        ["cat", "echo", "git", "grep", "head", "ls", "pwd", "sort", "tail", "true", "uniq", "wc"]
    );
}

#[test]
fn a_directory_counts_for_relative_paths() {
    let src = RelPath::parse("src", Path::new("/")).unwrap();
    let place = Place { base: Path::new("/work/space"), cwd: &src };
    assert_eq!(check_line("cat main.rs", &place).unwrap().paths[0].path.display(), "src/main.rs");
    assert!(check_line("cat ../README.md", &place).is_err());
    assert_eq!(check_line("cat /work/space/a", &place).unwrap().paths[0].path.display(), "a");
}

proptest::proptest! {
    /// Whatever is written, nothing that stands outside quotes reaches a word as a shell's character.
    #[test]
    fn unquoted_shell_characters_never_pass(text in "(ls|cat|grep|git log|echo) [ -~]{0,30}") {
        if let Ok(allowed) = line(&text)
            && !text.contains(['\'', '"', '\\'])
        {
            let own = allowed.argv.iter().filter(|word| !word.starts_with("--exclude") && !word.starts_with(":("));
            for word in own {
                proptest::prop_assert!(!word.contains([';', '|', '&', '<', '>', '$', '`', '\\', '(', ')', '!', '\n']), "{word}");
            }
        }
    }

    #[test]
    fn no_text_makes_the_tokenizer_fail(text in "\\PC{0,60}") {
        let _ = line(&text);
        let _ = line(&format!("ls {text}"));
        let _ = line(&format!("git {text}"));
    }
}

/// An oracle that shares nothing with the grammars: words that write, run or read elsewhere.
fn is_harmful(argv: &[String]) -> Option<String> {
    let own: Vec<&str> =
        argv.iter().map(String::as_str).filter(|word| !word.starts_with(":(exclude,top")).collect();
    let git = own[0] == "git";
    let sub = if git { own.get(2).copied().unwrap_or("") } else { "" };
    // What follows `-e` of a search is its pattern, whatever it looks like.
    let is_pattern =
        |at: usize| sub == "grep" && own[at - 1].starts_with('-') && own[at - 1].ends_with('e');
    let options: Vec<&str> = (1..own.len())
        .filter(|at| !is_pattern(*at))
        .map(|at| own[at])
        .take_while(|word| *word != "--")
        .filter(|word| word.starts_with('-'))
        .collect();
    let begins = |names: &[&str]| {
        options.iter().find(|option| names.iter().any(|name| option.starts_with(name))).copied()
    };
    let bad = match own[0] {
        "sort" => begins(&[
            "-o",
            "--o",
            "-T",
            "--t",
            "-S",
            "--co",
            "--files",
            "--random-so",
            "--p",
            "--b",
            "--d",
        ])
        .filter(|o| *o != "--dictionary-order"),
        "uniq"
            if own
                .iter()
                .filter(|word| !word.starts_with('-') && !word.chars().all(|c| c.is_ascii_digit()))
                .count()
                > 2 =>
        {
            Some("two operands")
        }
        "wc" => begins(&["--files", "--f"]),
        "tail" => begins(&["-F", "--follow", "--pid", "--retry", "-s"]),
        "grep" => begins(&[
            "-f",
            "--file=",
            "--fil",
            "-R",
            "--deref",
            "-P",
            "--perl",
            "-D",
            "-d",
            "--dev",
            "--dir",
            "--exclude-from",
        ]),
        "ls" => begins(&["-L", "-H", "--deref", "--dired"]),
        "echo" => options.iter().copied().find(|option| {
            let letters = &option[1..];
            *option != "-n" && !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
        }),
        "git" => begins(&[
            "-c=",
            "--out",
            "--no-index",
            "--no-ind",
            "--ext",
            "--textconv",
            "--textc",
            "--open",
            "--filters",
            "--filt",
            "--show-sig",
            "--contents",
            "--cont=",
            "--ignore-revs",
            "--pathspec-from",
            "--path",
            "--upload",
            "--exec",
            "--git-dir=",
            "--work",
            "--hard",
            "--soft",
            "--merge=",
            "--keep",
            "--force",
            "--chmod",
            "--edit",
            "--batch",
            "--stdin",
            "--parseopt",
            "--sq",
            "--submodule",
            "--recurse-sub",
            "--remerge",
            "--help",
            "--global",
            "--lost",
            "--in-place",
            "--attr",
            "--super",
            "--config",
        ])
        .filter(|_| sub != "for-each-ref"),
        _ => None,
    };
    let pattern = own[0] == "grep" || sub == "grep" || own[0] == "echo";
    let climbs = own[1..].iter().find(|word| {
        let word = word.trim_start_matches('-');
        word.split(['/', ':', '=']).any(|part| part == "..") && !pattern && !word.contains(' ')
    });
    let outside = own[1..]
        .iter()
        .find(|word| word.starts_with('/') && !word.starts_with("/work/space") && !pattern);
    let dot_git = own[1..]
        .iter()
        .find(|word| !pattern && word.to_lowercase().split('/').any(|part| part == ".git"));
    bad.or(climbs.copied()).or(outside.copied()).or(dot_git.copied()).map(str::to_owned)
}

/// Mutations of the hostile rows, mixed with the legitimate ones: what is accepted passes the oracle.
#[test]
fn mutations_of_hostile_lines_that_are_accepted_do_no_harm() {
    let as_words = |row: &Value| match &row["argv_or_line"] {
        Value::Array(words) => {
            words.iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
        line => line.as_str().unwrap().split(' ').map(str::to_owned).collect(),
    };
    let lines: Vec<Vec<String>> =
        rows("hostile.jsonl").iter().chain(&rows("legit.jsonl")).map(as_words).collect();
    let pool: Vec<&String> = lines.iter().flatten().collect();
    let mut random = fastrand::Rng::with_seed(20_261_130);
    let (mut accepted, mut harmful, top) = (0, std::collections::BTreeSet::new(), RelPath::top());
    let place = Place { base: Path::new("/work/space"), cwd: &top };
    for _ in 0..60_000 {
        let mut words = random.choice(&lines).unwrap().clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..=words.len().saturating_sub(1));
            let other = (*random.choice(&pool).unwrap()).clone();
            match random.u8(0..6) {
                0 => words.insert(at, other),
                1 if words.len() > 1 => drop(words.remove(at)),
                2 if !words.is_empty() => words[at] = other,
                3 if !words.is_empty() => words[at].push_str(&other),
                4 if !words.is_empty() => drop(words[at].pop()),
                _ => words.push(other),
            }
        }
        let results = [check_words(&words, &place), check_line(&words.join(" "), &place)];
        for allowed in results.into_iter().flatten() {
            accepted += 1;
            if let Some(why) = is_harmful(&allowed.argv) {
                harmful
                    .insert(format!("{why}: {:.12?}", &allowed.argv[..allowed.argv.len().min(10)]));
            }
        }
    }
    assert!(harmful.is_empty(), "{harmful:#?}");
    assert!(accepted > 1000, "the mutations reach the grammars: {accepted}");
}
