//! Checking a git command: a subcommand of the table, its grammar, its operands.

use super::commands::count;
use super::git_tables;
use super::grammar::{Grammar, Parsed};
use super::{Allowed, Place};
use crate::tools::allow::tokens::Token;
use crate::tools::secrets;

pub(in crate::tools) use git_tables::SUBCOMMANDS;

/// What a git command needs of the git directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) enum GitUse {
    /// Reading.
    Reads,
    /// Writing the index.
    Stages,
    /// Nothing: `git --version`.
    Nothing,
}

/// What a subcommand's operands are.
#[derive(Clone, Copy, Debug)]
pub(in crate::tools) enum Operands {
    /// There are none.
    None,
    /// Paths and their patterns.
    Pathspecs {
        /// Whether contents are shown.
        shows: bool,
    },
    /// Objects.
    Revisions,
    /// Objects, then paths; after `--` paths alone.
    RevisionsOrPaths,
    /// A pattern, then the same.
    PatternThenRevisionsOrPaths,
    /// Patterns of names of references.
    Patterns,
    /// The same objects, but first no word that is another verb of the subcommand.
    NoVerbThenRevisions,
    /// `HEAD`, then paths.
    HeadThenPathspecs,
    /// Paths; one of these options has to be there, because without it files are written.
    StagedPathspecs(&'static [&'static str]),
}

/// Verbs of `git reflog` that it does not run. What runs is `reflog show` anyway: these say so at once.
const REFLOG_VERBS: [&str; 6] = ["expire", "delete", "drop", "exists", "list", "write"];

/// A subcommand that runs.
#[derive(Clone, Copy, Debug)]
pub(in crate::tools) struct Subcommand {
    /// Its words.
    pub(super) name: &'static [&'static str],
    /// Its options.
    pub(super) grammar: Grammar,
    /// Its operands.
    pub(super) operands: Operands,
    /// The fewest operands.
    pub(super) least: usize,
    /// The most operands.
    pub(super) most: usize,
    /// Options that it is always given.
    pub(super) hardened: &'static [&'static str],
    /// With operands, one of these options has to be there.
    pub(super) needs_one_of: &'static [&'static str],
    /// Whether it writes the index.
    pub(super) stages: bool,
}

impl Subcommand {
    /// Its words, for a reader.
    pub(in crate::tools) fn title(&self) -> String {
        self.name.join(" ")
    }

    /// Whether it prints what files hold, of paths that are patterns.
    fn shows_contents(&self) -> bool {
        ["diff", "diff-index", "diff-files", "diff-tree", "log", "show", "reflog"]
            .contains(&self.name[0])
    }
}

/// Checks the words after `git`.
pub(super) fn check(tokens: &[Token], place: &Place<'_>) -> Result<Allowed, String> {
    // The one option before a subcommand that changes nothing: no pager ever runs.
    let tokens = match tokens.split_first() {
        Some((first, rest)) if first.text == "--no-pager" || first.text == "-P" => rest,
        _ => tokens,
    };
    if let [only] = tokens
        && only.text == "--version"
    {
        let argv = vec!["git".to_owned(), "--version".to_owned()];
        return Ok(Allowed { argv, paths: Vec::new(), git: Some(GitUse::Nothing), whole: false });
    }
    let command = find(tokens)?;
    let title = command.title();
    let words: Vec<String> =
        tokens[command.name.len()..].iter().map(|token| token.text.clone()).collect();
    let told = |why| format!("git {title}: {why}");
    let mut parsed = command.grammar.parse(&words, place).map_err(told)?;
    let mut operands = check_operands(command, &mut parsed, place).map_err(told)?;
    count(&format!("git {title}"), parsed.operands.len(), command.least, command.most)?;
    if !parsed.operands.is_empty()
        && !command.needs_one_of.is_empty()
        && !parsed.has(command.needs_one_of)
    {
        return Err(told(format!("a name needs {} here", command.needs_one_of.join(" or "))));
    }
    operands.append(&mut parsed.paths);
    let git = if command.stages { GitUse::Stages } else { GitUse::Reads };
    let whole = names_no_path(command, &parsed);
    if whole && command.name == ["add"] && !parsed.has(&["-A", "-u", "--all", "--update"]) {
        // Git would stage nothing, and with the pathspecs that are added here all.
        return Err(told("it names nothing; name paths, or give -A".to_owned()));
    }
    Ok(Allowed { argv: argv(command, &parsed), paths: operands, git: Some(git), whole })
}

/// Whether a command that stages says nothing of where.
fn names_no_path(command: &Subcommand, parsed: &Parsed) -> bool {
    let heads = match command.operands {
        Operands::HeadThenPathspecs if parsed.before_dashes != Some(0) => {
            parsed.operands.first().is_some_and(is_head).into()
        }
        _ => 0,
    };
    command.stages && parsed.operands.len() == heads
}

fn is_head(text: &String) -> bool {
    text == "HEAD" || text == "@"
}

/// The subcommand that the words begin with; the longest name wins.
fn find(tokens: &[Token]) -> Result<&'static Subcommand, String> {
    let Some(first) = tokens.first() else {
        return Err("git needs a subcommand".to_owned());
    };
    if first.text.starts_with('-') {
        let way = match first.text.as_str() {
            "-C" => "; the tool's `dir` says where to run",
            "-c" => "; git runs with settings of its own here, and none can be given",
            _ => "",
        };
        let option = &first.text;
        return Err(format!(
            "git: the option {option} before a subcommand is not on the list{way}"
        ));
    }
    let begins = |name: &[&str]| {
        name.len() <= tokens.len()
            && name.iter().zip(tokens).all(|(word, token)| token.text == *word)
    };
    let found = SUBCOMMANDS.iter().filter(|command| begins(command.name));
    let found = found.max_by_key(|command| command.name.len()).ok_or_else(|| {
        format!("git {} is neither read-only nor staging, or needs another form", first.text)
    })?;
    if !tokens[..found.name.len()].iter().all(|token| token.bare) {
        return Err(format!("the subcommand is quoted; write git {} as it is", found.title()));
    }
    Ok(found)
}

/// The whole command as it runs.
fn argv(command: &Subcommand, parsed: &Parsed) -> Vec<String> {
    let mut argv: Vec<String> = vec!["git".to_owned(), "--no-pager".to_owned()];
    argv.extend(command.name.iter().map(|word| (*word).to_owned()));
    argv.extend(command.hardened.iter().map(|option| (*option).to_owned()));
    argv.extend(parsed.words.iter().cloned());
    match command.operands {
        Operands::PatternThenRevisionsOrPaths => argv.extend(without_secrets()),
        // As if each were named, which is refused: what is staged can be shown.
        _ if command.name == ["add"] => argv.extend(without_secrets()),
        _ if command.shows_contents()
            && parsed.operands.iter().any(|operand| is_pattern(operand)) =>
        {
            argv.extend(without_secrets());
        }
        // Standard input is no list of commits.
        Operands::RevisionsOrPaths if command.name == ["shortlog"] && !names_commits(parsed) => {
            argv.push("HEAD".to_owned());
        }
        _ => {}
    }
    argv
}

/// Whether an operand is a pattern of paths, which could match a file of secrets that nobody named.
fn is_pattern(operand: &str) -> bool {
    let commit = operand.starts_with(":/") || operand.contains("^{");
    operand.contains(['*', '?', '[', '\\']) && !commit || operand.starts_with(":(")
}

fn names_commits(parsed: &Parsed) -> bool {
    !parsed.operands.is_empty() || parsed.has(&["--all", "--branches", "--tags", "--remotes"])
}

/// Pathspecs that leave out files of secrets.
fn without_secrets() -> impl Iterator<Item = String> {
    let files =
        secrets::exclude_patterns().map(|pattern| format!(":(exclude,top,icase,glob)**/{pattern}"));
    let files = files.chain(
        secrets::exclude_directories().map(|name| format!(":(exclude,top,icase,glob)**/{name}/**")),
    );
    let pairs = secrets::exclude_pairs();
    files.chain(
        pairs.map(|(directory, file)| format!(":(exclude,top,icase,glob)**/{directory}/{file}")),
    )
}

type Paths = Vec<super::PathUse>;

fn check_operands(
    command: &Subcommand,
    parsed: &mut Parsed,
    place: &Place<'_>,
) -> Result<Paths, String> {
    let pathspecs = |shows: bool| all(&parsed.operands, |text| place.pathspec(text, shows));
    match command.operands {
        Operands::None if parsed.operands.is_empty() => Ok(Vec::new()),
        Operands::None => Err(format!("{:?} is not taken here", parsed.operands[0])),
        Operands::Pathspecs { shows } => pathspecs(shows),
        Operands::StagedPathspecs(needed) if parsed.has(needed) => pathspecs(true),
        Operands::StagedPathspecs(needed) => {
            Err(format!("it changes files unless it has {}", needed[0]))
        }
        Operands::Revisions => all(&parsed.operands, |text| place.revision(text)),
        Operands::NoVerbThenRevisions => {
            let verb = parsed.operands.iter().find(|text| REFLOG_VERBS.contains(&text.as_str()));
            match verb {
                Some(verb) => Err(format!("{verb} is not taken here; only show is")),
                None => mixed(&parsed.operands, parsed.before_dashes, place),
            }
        }
        Operands::RevisionsOrPaths => mixed(&parsed.operands, parsed.before_dashes, place),
        Operands::PatternThenRevisionsOrPaths => {
            let patterns = usize::from(!parsed.has(&["-e"]));
            if parsed.operands.len() < patterns {
                return Err("it needs a pattern".to_owned());
            }
            let before = parsed.before_dashes.map(|before| before.saturating_sub(patterns));
            mixed(&parsed.operands[patterns..], before, place)
        }
        Operands::Patterns => {
            let bad = parsed
                .operands
                .iter()
                .find(|text| text.starts_with(['/', '-']) || text.contains(".."));
            bad.map_or(Ok(Vec::new()), |text| {
                Err(format!("{text:?} is no pattern of reference names"))
            })
        }
        Operands::HeadThenPathspecs => head_then_pathspecs(parsed, place),
    }
}

fn all(
    operands: &[String],
    check: impl Fn(&str) -> Result<Option<super::PathUse>, String>,
) -> Result<Paths, String> {
    operands.iter().filter_map(|operand| check(operand).transpose()).collect()
}

/// Revisions or paths; behind `--` paths alone.
fn mixed(operands: &[String], before: Option<usize>, place: &Place<'_>) -> Result<Paths, String> {
    let (first, rest) = operands.split_at(before.unwrap_or(operands.len()));
    let mut paths = match before {
        Some(_) => all(first, |text| place.revision(text))?,
        None => all(first, |text| place.revision_or_path(text))?,
    };
    paths.extend(all(rest, |text| place.pathspec(text, true))?);
    Ok(paths)
}

/// `reset`: any commit but HEAD would move the branch, so that all else must be paths, and runs as such.
fn head_then_pathspecs(parsed: &mut Parsed, place: &Place<'_>) -> Result<Paths, String> {
    let before = parsed.before_dashes.unwrap_or(parsed.operands.len());
    let heads = usize::from(before > 0 && parsed.operands.first().is_some_and(is_head));
    let (guessed, told) = parsed.operands.split_at(before);
    let guessed = &guessed[heads..];
    if parsed.before_dashes.is_some() && !guessed.is_empty() {
        return Err("only HEAD is taken before --".to_owned());
    }
    let rev_like =
        |text: &&String| text.contains(['~', '^', '{', ':', '@']) || text.ends_with("HEAD");
    if let Some(text) = guessed.iter().find(rev_like) {
        return Err(format!(
            "{text:?} is another commit, and only HEAD is taken; put paths after --"
        ));
    }
    let mut paths = all(guessed, |text| place.pathspec(text, true))?;
    paths.iter_mut().for_each(|path| path.must_exist = true);
    paths.extend(all(told, |text| place.pathspec(text, true))?);
    if parsed.before_dashes.is_none() && !guessed.is_empty() {
        let options = parsed.words.iter().filter(|word| !parsed.operands.contains(word)).cloned();
        let mut words: Vec<String> = options.collect();
        words.extend(parsed.operands[..heads].iter().cloned());
        words.push("--".to_owned());
        words.extend(guessed.iter().cloned());
        parsed.words = words;
    }
    Ok(paths)
}
