//! The two sets of a candidate that agreement is measured on.

use std::collections::{BTreeSet, HashMap};

use super::ChangedFile;
use super::core::{extension, is_core};
use super::enclosing::{enclosing, indent};
use super::hunks::{FileHunks, Hunk, hunks};
use super::tokens::tokens;

/// More tokens of one side of a hunk are not read: a person wrote none of them.
const MOST_TOKENS: usize = 100_000;

/// More lines of one side of a hunk are not read.
const MOST_LINES: usize = 10_000;

/// A changed line and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom {
    /// The file.
    pub path: String,
    /// Names of the enclosing definitions in the base.
    pub within: String,
    /// Whether the line is added; removed otherwise.
    pub added: bool,
    /// The line without white space.
    pub line: String,
}

/// A candidate's sets.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// Changed lines.
    pub atoms: BTreeSet<Atom>,
    /// How each of them is written at one of its places.
    pub shown: HashMap<Atom, String>,
    /// Token n-grams, each as one text with its path and sign.
    pub grams: BTreeSet<String>,
    /// Changed files outside the core.
    pub outside: usize,
    /// Whether there is any core file.
    pub has_core: bool,
}

/// The sets of a candidate's changed files.
pub fn sets(files: &[ChangedFile]) -> Sets {
    let mut sets = Sets::default();
    for file in files {
        if !is_core(file) {
            sets.outside += 1;
            continue;
        }
        sets.has_core = true;
        let found = hunks(file);
        for hunk in &found.hunks {
            add_atoms(&file.path, &found, hunk, &mut sets);
            add_grams(&file.path, hunk, &mut sets.grams);
        }
    }
    sets
}

/// The changed lines of one file.
pub fn atoms_of(file: &ChangedFile) -> BTreeSet<Atom> {
    let found = hunks(file);
    let mut sets = Sets::default();
    for hunk in &found.hunks {
        add_atoms(&file.path, &found, hunk, &mut sets);
    }
    sets.atoms
}

/// Lines that a hunk both removes and adds cancel each other, one for one.
fn add_atoms(path: &str, file: &FileHunks, hunk: &Hunk, sets: &mut Sets) {
    let mut balance: HashMap<String, i64> = HashMap::new();
    for line in &hunk.added {
        *balance.entry(bare(line)).or_default() += 1;
    }
    for line in &hunk.removed {
        *balance.entry(bare(line)).or_default() -= 1;
    }
    for (lines, added) in [(&hunk.removed, false), (&hunk.added, true)] {
        // What a hunk adds below a definition of its own is in no definition of the base that is deeper.
        let mut depth = usize::MAX;
        for line in lines.iter().take(MOST_LINES) {
            let bare = bare(line);
            depth = depth.min(indent(line));
            let left = balance.get(&bare).copied().unwrap_or_default();
            if (added && left > 0) || (!added && left < 0) {
                let within = enclosing(&file.base, hunk.at, depth);
                let atom = Atom { path: path.to_owned(), within, added, line: bare };
                sets.shown.entry(atom.clone()).or_insert_with(|| line.trim().to_owned());
                sets.atoms.insert(atom);
            }
        }
    }
}

fn bare(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

fn add_grams(path: &str, hunk: &Hunk, grams: &mut BTreeSet<String>) {
    let single_quotes = extension(path) != Some("rs");
    for (lines, sign) in [(&hunk.removed, '-'), (&hunk.added, '+')] {
        let mut stream = Vec::new();
        for line in lines.iter().take(MOST_LINES) {
            tokens(line, single_quotes, &mut stream);
        }
        stream.truncate(MOST_TOKENS);
        for size in [2, 3] {
            for gram in stream.windows(size) {
                grams.insert(format!("{path}\0{sign}{}", gram.join("\0")));
            }
        }
    }
}
