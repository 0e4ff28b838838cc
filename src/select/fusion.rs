//! One more change, made of the best one without a model: what nobody else supports is left out, what two
//! other families agree on is taken in.
//!
//! Whole hunks only, each with its place in the base, so that what is kept still applies: hunks of
//! different changes that touch the same or neighbouring lines don't meet. It is a proposal for the same
//! gates, and never takes the place of the best by itself. Never here: choosing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::atoms::{Atom, atoms_of};
use super::consensus::{Contender, Score};
use super::core::is_core;
use super::{ChangedFile, broken};
use crate::model::Family;

/// As many other families have to hold a hunk that the best one lacks.
const ENOUGH: usize = 2;

/// A hunk of one change of one file, as it stands.
struct Edit {
    /// Lines of the base that go.
    old: Range<usize>,
    /// What comes in their place, with line ends.
    new: Vec<Vec<u8>>,
    /// What it holds for the consensus; nothing when it is only comments.
    atoms: BTreeSet<Atom>,
}

/// The fused change of a pool whose best is `best`, or `None` when it would be the best itself, nothing,
/// or something that does not parse.
pub fn fuse(pool: &[Contender], scores: &[Score], best: usize) -> Option<Vec<ChangedFile>> {
    let top = pool.get(best)?;
    let voters: Vec<&Contender> =
        pool.iter().zip(scores).filter(|(_, s)| s.gated.is_none()).map(|(of, _)| of).collect();
    let held = Held::by(&voters);
    let mut fused = Vec::new();
    let mut differs = false;
    for path in paths(&voters, top) {
        let own = top.files.iter().find(|file| file.path == path);
        if own.is_some_and(|file| !is_core(file)) {
            fused.extend(own.cloned());
            continue;
        }
        let (file, changed) = fuse_file(&path, own, top, &voters, &held);
        differs |= changed;
        fused.extend(file);
    }
    let parses = top.broken.is_some() || broken(&fused).is_none();
    (differs && !fused.is_empty() && parses).then_some(fused)
}

/// Every core file of a voter and every file of the best.
fn paths(voters: &[&Contender], top: &Contender) -> BTreeSet<String> {
    let core = voters.iter().flat_map(|one| &one.files).filter(|file| is_core(file));
    core.chain(&top.files).map(|file| file.path.clone()).collect()
}

/// Families that hold an atom.
struct Held<'p>(BTreeMap<Atom, BTreeSet<&'p Family>>);

impl<'p> Held<'p> {
    fn by(voters: &[&'p Contender]) -> Self {
        let mut held: BTreeMap<Atom, BTreeSet<&Family>> = BTreeMap::new();
        for one in voters {
            for file in one.files.iter().filter(|file| is_core(file)) {
                for atom in atoms_of(file) {
                    held.entry(atom).or_default().extend(&one.families);
                }
            }
        }
        Self(held)
    }

    /// How many families besides those of `top` hold an atom.
    fn others(&self, atom: &Atom, top: &Contender) -> usize {
        let families = self.0.get(atom).into_iter().flatten();
        families.filter(|family| !top.families.contains(family)).count()
    }
}

/// The fused file, and whether it differs from the best's own.
fn fuse_file(
    path: &str,
    own: Option<&ChangedFile>,
    top: &Contender,
    voters: &[&Contender],
    held: &Held<'_>,
) -> (Option<ChangedFile>, bool) {
    let all = voters.iter().flat_map(|one| one.files.iter().filter(|file| file.path == path));
    let others: Vec<&ChangedFile> =
        all.filter(|file| Some(*file) != own && is_core(file)).collect();
    let Some(example) = own.or(others.first().copied()) else { return (None, false) };
    let mine = own.map(edits).unwrap_or_default();
    let count = mine.len();
    let supported = |edit: &Edit| {
        edit.atoms.is_empty() || edit.atoms.iter().any(|atom| held.others(atom, top) > 0)
    };
    let mut kept: Vec<Edit> = mine.into_iter().filter(supported).collect();
    let mut changed = kept.len() < count;
    for edit in others.iter().flat_map(|file| edits(file)) {
        let agreed = !edit.atoms.is_empty()
            && edit.atoms.iter().all(|atom| held.others(atom, top) >= ENOUGH);
        if agreed && kept.iter().all(|other| !meet(&edit.old, &other.old)) {
            kept.push(edit);
            changed = true;
        }
    }
    match (kept.is_empty(), changed) {
        (true, _) => (None, changed),
        (false, false) => (own.cloned(), false),
        (false, true) => (Some(with(example, kept)), true),
    }
}

/// Whether two places overlap or stand beside each other.
fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start <= b.end && b.start <= a.end
}

fn lines(bytes: Option<&[u8]>) -> Vec<&[u8]> {
    bytes.unwrap_or_default().split_inclusive(|byte| *byte == b'\n').collect()
}

fn edits(file: &ChangedFile) -> Vec<Edit> {
    let (base, new) = (lines(file.base.as_deref()), lines(file.new.as_deref()));
    let ops = capture_diff_slices(Algorithm::Histogram, &base, &new);
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    let edit = |op: &DiffOp| {
        let (old, fresh) = (op.old_range(), op.new_range());
        let new: Vec<Vec<u8>> = new[fresh].iter().map(|line| line.to_vec()).collect();
        let alone = with_lines(file, &base, [(&old, &new)]);
        Edit { atoms: atoms_of(&alone), old, new }
    };
    changed.map(edit).collect()
}

fn with(file: &ChangedFile, mut edits: Vec<Edit>) -> ChangedFile {
    edits.sort_by_key(|edit| edit.old.start);
    let base = lines(file.base.as_deref());
    with_lines(file, &base, edits.iter().map(|edit| (&edit.old, &edit.new)))
}

/// The base with some edits, sorted and apart from each other.
fn with_lines<'e>(
    file: &ChangedFile,
    base: &[&[u8]],
    edits: impl IntoIterator<Item = (&'e Range<usize>, &'e Vec<Vec<u8>>)>,
) -> ChangedFile {
    let mut out: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    for (old, new) in edits {
        out.extend(&base[at..old.start]);
        out.extend(new.iter().map(Vec::as_slice));
        at = old.end;
    }
    out.extend(&base[at..]);
    let gone = file.new.is_none() && out.is_empty();
    ChangedFile { new: (!gone).then(|| out.concat()), ..file.clone() }
}
