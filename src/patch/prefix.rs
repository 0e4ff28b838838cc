//! What stands before the paths of a diff: `a/` and `b/`, other known pairs, nothing, or something that
//! only the base can explain.
//!
//! The rule: git's reading (one component is cut off) wins wherever it is possible. A diff made without
//! prefixes is taken as it stands only where the base shows that git's reading can't be meant.

use super::file::{FilePatch, Hunk, Patch, Prefix};
use super::header::Header;
use super::names::Name;
use super::refuse::{Detail, refuse};
use crate::model::{Refusal, Repair};

/// The two paths of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub old: Option<Vec<u8>>,
    pub new: Option<Vec<u8>>,
    pub prefix: Prefix,
}

impl Names {
    /// The path for messages.
    pub(super) fn path(&self) -> &[u8] {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()
    }
}

/// Prefixes that git writes (`diff.mnemonicPrefix` and `-R` included).
const KNOWN: [(&[u8], &[u8]); 10] = [
    (b"a/", b"b/"),
    (b"b/", b"a/"),
    (b"i/", b"w/"),
    (b"w/", b"i/"),
    (b"c/", b"i/"),
    (b"i/", b"c/"),
    (b"c/", b"w/"),
    (b"w/", b"c/"),
    (b"o/", b"w/"),
    (b"w/", b"o/"),
];

/// Finds the paths of a section from all lines that name them; they must agree.
pub(super) fn names(header: &Header) -> Result<Names, Refusal> {
    let moved = [(&header.rename_from, &header.rename_to), (&header.copy_from, &header.copy_to)];
    for (from, to) in moved {
        match (from, to) {
            (Some(from), Some(to)) => return moved_names(header, from, to),
            (None, None) => {}
            _ => {
                return Err(refuse(
                    "bad-header",
                    "a rename or copy needs its `from` and its `to` line",
                ));
            }
        }
    }
    let (old, new) = (raw(header.minus.as_ref()), raw(header.plus.as_ref()));
    let mut names = match (old, new) {
        (Some(old), Some(new)) => both(old, new)?,
        (None, Some(new)) => one_side(header, new, true)?,
        (Some(old), None) => one_side(header, old, false)?,
        (None, None) => from_pair(header)?,
    };
    check_pair(header, &names)?;
    if names.prefix == Prefix::Bare && header.pairs.is_empty() && strip(names.path()).is_none() {
        names.prefix = Prefix::Single;
    }
    Ok(names)
}

fn raw(name: Option<&Name>) -> Option<&[u8]> {
    match name {
        Some(Name::Path { raw, .. }) => Some(raw),
        _ => None,
    }
}

fn moved_names(header: &Header, from: &[u8], to: &[u8]) -> Result<Names, Refusal> {
    let fits = |raw: &[u8], path: &[u8]| raw == path || strip(raw) == Some(path);
    let pair = header.pairs.iter().any(|(left, right)| fits(left, from) && fits(right, to));
    let side = |name: Option<&Name>, path: &[u8]| match name {
        None => true,
        Some(Name::Path { raw, .. }) => fits(raw, path),
        Some(Name::Nothing) => false,
    };
    if from == to || !pair || !side(header.minus.as_ref(), from) || !side(header.plus.as_ref(), to)
    {
        return Err(mismatch(from, to));
    }
    // Rename lines have no prefix; a `---` line without one shows that the diff has none.
    let bare = raw(header.minus.as_ref()).is_some_and(|raw| raw == from);
    let prefix = if bare { Prefix::Bare } else { Prefix::Named };
    Ok(Names { old: Some(from.to_vec()), new: Some(to.to_vec()), prefix })
}

/// Both sides name a path, which must be the same one.
fn both(old: &[u8], new: &[u8]) -> Result<Names, Refusal> {
    for (left, right) in KNOWN {
        if let (Some(from), Some(to)) = (old.strip_prefix(left), new.strip_prefix(right))
            && from == to
        {
            return Ok(same(from, Prefix::Stripped));
        }
    }
    match (strip(old), strip(new)) {
        _ if old == new && strip(old).is_some() => Ok(same(old, Prefix::Unknown)),
        _ if old == new => Ok(same(old, Prefix::Bare)),
        (Some(from), Some(to)) if from == to => Ok(same(from, Prefix::Stripped)),
        _ => Err(mismatch(old, new)),
    }
}

fn same(path: &[u8], prefix: Prefix) -> Names {
    Names { old: Some(path.to_vec()), new: Some(path.to_vec()), prefix }
}

/// One side is `/dev/null` (or not named at all, in a header that says new or deleted).
fn one_side(header: &Header, raw: &[u8], added: bool) -> Result<Names, Refusal> {
    if header.minus.is_none() || header.plus.is_none() {
        return Err(refuse("bad-header", "a `---` line and a `+++` line go together"));
    }
    let known = KNOWN.iter().find_map(|(left, _)| raw.strip_prefix(*left));
    let (path, prefix) = match (known, strip(raw)) {
        (Some(path), _) => (path, Prefix::Stripped),
        (None, Some(_)) => (raw, Prefix::Unknown),
        (None, None) => (raw, Prefix::Bare),
    };
    let path = Some(path.to_vec());
    Ok(match added {
        true => Names { old: None, new: path, prefix },
        false => Names { old: path, new: None, prefix },
    })
}

/// Only the `diff --git` line names the file, once on each side.
fn from_pair(header: &Header) -> Result<Names, Refusal> {
    let mut found: Vec<Names> =
        header.pairs.iter().filter_map(|(left, right)| both(left, right).ok()).collect();
    found.dedup();
    match (found.pop(), found.is_empty()) {
        (Some(names), true) => Ok(match (header.new_file, header.deleted_file) {
            (Some(_), _) => Names { old: None, ..names },
            (_, Some(_)) => Names { new: None, ..names },
            _ => names,
        }),
        _ => Err(refuse("bad-header", "the `diff --git` line does not name one file")),
    }
}

/// The `diff --git` line, where there is one, names the same file on both sides.
fn check_pair(header: &Header, names: &Names) -> Result<(), Refusal> {
    if header.pairs.is_empty() {
        return Ok(());
    }
    let exact =
        |raw_name: Option<&Name>, in_pair: &[u8]| raw(raw_name).is_none_or(|raw| raw == in_pair);
    let fits = header.pairs.iter().any(|(left, right)| {
        exact(header.minus.as_ref(), left)
            && exact(header.plus.as_ref(), right)
            && both(left, right).is_ok_and(|pair| pair.path() == names.path())
    });
    match fits {
        true => Ok(()),
        false => {
            let (left, right) = header.pairs.first().cloned().unwrap_or_default();
            let written = [&left[..], b" ", &right[..]].concat();
            Err(refuse(
                "name-mismatch",
                "the `diff --git` line names another file than the lines below it",
            )
            .at(names.path())
            .found(&written))
        }
    }
}

fn mismatch(old: &[u8], new: &[u8]) -> Refusal {
    refuse(
        "name-mismatch",
        "the lines of one section name different files: a move needs `rename` lines",
    )
    .at(new)
    .expected(old)
    .found(new)
}

/// A path without its first component.
fn strip(path: &[u8]) -> Option<&[u8]> {
    let at = path.iter().position(|&byte| byte == b'/')?;
    Some(&path[at + 1..])
}

/// Plain `diff -N` marks an absent side by a time stamp of 1970 and an empty range.
pub(super) fn apply_epochs(header: &Header, hunks: &[Hunk], names: &mut Names) {
    let epoch = |name: &Option<Name>| matches!(name, Some(Name::Path { epoch: true, .. }));
    let [only] = hunks else { return };
    if epoch(&header.minus) && only.old().next().is_none() {
        names.old = None;
    } else if epoch(&header.plus) && only.new_lines().next().is_none() {
        names.new = None;
    }
}

/// The ways to read the paths of a diff: as they are written, and as git reads them, each where it is
/// possible.
#[derive(Debug)]
pub(super) struct Readings {
    pub whole: Option<Patch>,
    pub cut: Option<Patch>,
}

/// Tells how the prefixes of a diff can be read. A diff with `a/` and `b/` has one reading.
pub(super) fn readings(patch: Patch) -> Result<Readings, Refusal> {
    let with = |prefix: Prefix| patch.files.iter().find(|file| file.prefix == prefix);
    let open = with(Prefix::Unknown).or(with(Prefix::Bare)).or(with(Prefix::Single));
    let Some(open) = open else {
        return Ok(Readings { whole: None, cut: Some(patch) });
    };
    if with(Prefix::Stripped).is_some() {
        let why = "some paths of the diff have an `a/` and `b/` before them and some have not";
        return Err(refuse("mixed-prefixes", why).at(open.path()));
    }
    let cut = as_git_cuts(&patch);
    let mut whole = patch;
    whole.repairs.push(Repair {
        code: "no-prefix".to_owned(),
        detail: "the paths have no `a/` and `b/` before them and were taken as they are".to_owned(),
    });
    Ok(Readings { whole: Some(whole), cut })
}

/// The diff as git reads it without being told how much to cut off; `None` when git refuses it, or takes
/// every path as it is.
fn as_git_cuts(patch: &Patch) -> Option<Patch> {
    let is = |prefix: Prefix| move |file: &FilePatch| file.prefix == prefix;
    // After `diff --git` a name of one component can't lose one, so that git refuses the whole diff.
    if patch.files.iter().any(is(Prefix::Bare)) {
        return None;
    }
    // Without `diff --git` such a name teaches git that nothing is to be cut off, from there on.
    let single = patch.files.iter().position(is(Prefix::Single)).unwrap_or(patch.files.len());
    patch.files[..single].iter().any(is(Prefix::Unknown)).then(|| strip_first(patch, single))
}

/// The diff without the first component of the unknown paths in its first so many sections.
fn strip_first(patch: &Patch, sections: usize) -> Patch {
    let mut patch = patch.clone();
    let cut = |path: &mut Option<Vec<u8>>| {
        *path = path.as_deref().map(|path| strip(path).unwrap_or(path).to_vec());
    };
    let sections = patch.files.iter_mut().take(sections);
    for file in sections.filter(|file| file.prefix == Prefix::Unknown) {
        cut(&mut file.old_path);
        cut(&mut file.new_path);
    }
    patch
}

/// Refusals by which the base itself shows that a reading of the paths can't be meant.
pub(super) fn disproves(refusal: &Refusal) -> bool {
    matches!(
        refusal.code.as_str(),
        "no-such-file" | "hunk-not-found" | "hunk-anchor" | "already-exists" | "not-a-directory"
    )
}

/// Both readings are possible.
pub(super) fn ambiguous(patch: &Patch) -> Refusal {
    let path = patch.files.first().map(FilePatch::path).unwrap_or_default();
    refuse(
        "no-prefix",
        "the paths have no `a/` and `b/` before them, and the base does not tell which file is meant: \
         send the diff with these prefixes",
    )
    .at(path)
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::MemoryStore;

    const CONTENTS: &str = "a\nb\n";

    fn verdict(files: &[&str], diff: &str) -> Result<Vec<String>, String> {
        let store = MemoryStore::default();
        let files: Vec<(&str, &str)> = files.iter().map(|name| (*name, CONTENTS)).collect();
        let base = store.make(&files);
        let changed =
            |files: Vec<String>| files.into_iter().filter(|file| file.ends_with("c\n")).collect();
        store.verdict(&base, diff, &Rules::default()).map(changed)
    }

    fn diff(old: &str, new: &str) -> String {
        format!("diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    }

    fn at(path: &str) -> Result<Vec<String>, String> {
        Ok(vec![format!("100644 {path} a\nc\n")])
    }

    #[test]
    fn known_prefixes_are_cut() {
        for (old, new) in
            [("a/s/x", "b/s/x"), ("i/s/x", "w/s/x"), ("b/s/x", "a/s/x"), ("one/s/x", "two/s/x")]
        {
            assert_eq!(verdict(&["s/x", "a/s/x"], &diff(old, new)), at("s/x"), "{old}");
        }
    }

    #[test]
    fn the_base_decides_on_unknown_ones() {
        assert_eq!(verdict(&["s/x"], &diff("s/x", "s/x")), at("s/x"));
        assert_eq!(verdict(&["x"], &diff("s/x", "s/x")), at("x"));
        assert_eq!(verdict(&["s/x", "x"], &diff("s/x", "s/x")), Err("no-prefix".into()));
        assert_eq!(verdict(&["x"], &diff("x", "x")), at("x"));
        assert_eq!(verdict(&["s/z"], &diff("s/x", "s/x")), Err("no-such-file".into()));
        let added = "--- /dev/null\n+++ s/x\n@@ -0,0 +1 @@\n+c\n";
        assert_eq!(verdict(&["z"], added), Err("no-prefix".into()));
        // Git cuts nothing off once it has seen a name of one component, and the first of these before.
        let single = "--- z\n+++ z\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
        assert_eq!(verdict(&["z"], &format!("{added}{single}")), Err("no-prefix".into()));
        let both = Ok(vec!["100644 s/x c\n".to_owned(), "100644 z a\nc\n".to_owned()]);
        assert_eq!(verdict(&["z"], &format!("{single}{added}")), both);
        let git = format!("diff --git s/x s/x\nnew file mode 100644\n{added}{}", diff("z", "z"));
        assert_eq!(verdict(&["z"], &git), both, "git refuses it");
    }

    #[test]
    fn names_of_one_section_agree() {
        assert_eq!(verdict(&["x"], &diff("a/x", "b/y")), Err("name-mismatch".into()));
        let other = diff("a/x", "b/x").replace("diff --git a/x b/x", "diff --git a/y b/y");
        assert_eq!(verdict(&["x", "y"], &other), Err("name-mismatch".into()));
        let mixed = format!("{}{}", diff("a/x", "b/x"), diff("s/y", "s/y"));
        assert_eq!(verdict(&["x", "s/y"], &mixed), Err("mixed-prefixes".into()));
    }
}
