//! The consensus: how far the families agree with each tree.

use super::doubt::Doubt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use super::ChangedFile;
use super::atoms::{Atom, Sets, sets};
use crate::model::{CandidateId, Family, TreeId};

/// With fewer families there is no consensus evidence: two can only agree or differ.
pub const FEWEST_FAMILIES: usize = 3;

/// The similarity from which one change stands behind another.
pub const AGREES: f64 = 0.5;

/// A tree that passed its gates.
#[derive(Clone, Debug)]
pub struct Contender {
    /// The candidate that stands for it.
    pub id: CandidateId,
    /// The tree: the last tie-break, since it does not depend on any order.
    pub tree: TreeId,
    /// Families of all candidates with this tree, at least one.
    pub families: Vec<Family>,
    /// Its files that differ from the base.
    pub files: Vec<ChangedFile>,
    /// A touched file that is no test and parses worse than in the base; see [`broken`](super::broken).
    pub broken: Option<String>,
    /// Whether the tests were asked for and passed.
    pub tested: bool,
    /// What its gates leave to doubt.
    pub doubt: Doubt,
}

/// Why a contender has no vote, and is chosen only where all are so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gated {
    /// A file that it touches, and that is no test, does not parse any more: this one.
    Broken(String),
    /// It changes nothing of the core.
    NoCore,
}

impl Gated {
    /// In words; the path is foreign text.
    pub fn text(&self) -> String {
        match self {
            Self::Broken(path) => format!("{path} does not parse any more"),
            Self::NoCore => "no source file is changed, only tests or notes".to_owned(),
        }
    }
}

/// A changed line, and the other families that have it, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// The file.
    pub path: String,
    /// Whether the line is added; removed otherwise.
    pub added: bool,
    /// The line, as one of its places has it: foreign text.
    pub line: String,
    /// Who else has it; nobody for an unsupported one.
    pub families: Vec<Family>,
}

/// The most similar tree of another family.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// Its candidate.
    pub id: CandidateId,
    /// Its family.
    pub family: Family,
    /// The Jaccard similarity of the token n-grams, 0 to 1.
    pub similarity: f64,
}

/// What agreement says of one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The candidate.
    pub id: CandidateId,
    /// The score, 0 to 4; `None` when there is no consensus evidence or the contender has no vote.
    pub total: Option<f64>,
    /// Its changed lines that other families have, the most supported first.
    pub supported: Vec<Support>,
    /// Its changed lines that nobody else has.
    pub unsupported: Vec<Support>,
    /// Why it has no vote, if it has none.
    pub gated: Option<Gated>,
    /// C and N over the changed lines, C and N over the token n-grams, before each is divided by the
    /// pool's maximum: `[C_A, C_S, N_A, N_S]`.
    pub parts: [f64; 4],
    /// The nearest tree of another family, when there is another family.
    pub nearest: Option<Nearest>,
    /// Families that proposed exactly this tree.
    pub same_tree: Vec<Family>,
    /// How many families stand behind it, its own included: those that proposed the same tree, and
    /// those with a tree that has at least `AGREES` in common with it.
    pub behind: usize,
    /// Changed files outside the core.
    pub outside: usize,
}

impl Score {
    /// Whether another family stands behind it.
    pub fn is_corroborated(&self) -> bool {
        self.behind > 1
    }
}

/// Weighs the pool; scores come in the order given. A contender that breaks the grammar of a file, or
/// has no core, has no vote, unless that would leave nobody.
pub fn consensus(pool: &[Contender]) -> Vec<Score> {
    let mut all: Vec<Voice> = pool.iter().map(Voice::new).collect();
    if all.iter().all(|voice| voice.gated.is_some()) {
        all.iter_mut().for_each(|voice| voice.gated = None);
    }
    let voters: Vec<&Voice> = all.iter().filter(|voice| voice.gated.is_none()).collect();
    let count = voters.iter().flat_map(|voice| &voice.families).collect::<BTreeSet<_>>().len();
    let atoms = holders(&voters, |voice| &voice.sets.atoms);
    let grams = holders(&voters, |voice| &voice.sets.grams);
    let parts: Vec<[f64; 4]> =
        all.iter().map(|voice| parts(voice, &voters, &atoms, &grams)).collect();
    let most = |k: usize| parts.iter().map(|parts| parts[k]).fold(0.0, f64::max);
    let most = [most(0), most(1), most(2), most(3)];
    let score = |(voice, parts): (&Voice, &[f64; 4])| {
        let share = |k: usize| if most[k] > 0.0 { parts[k] / most[k] } else { 0.0 };
        let counts = count >= FEWEST_FAMILIES && voice.gated.is_none();
        let total = counts.then(|| (0..4).map(share).sum());
        Score { total, parts: *parts, ..explain(voice, &voters, &atoms) }
    };
    all.iter().zip(&parts).map(score).collect()
}

/// A contender and its sets.
struct Voice<'a> {
    of: &'a Contender,
    families: BTreeSet<&'a Family>,
    sets: Sets,
    gated: Option<Gated>,
}

impl<'a> Voice<'a> {
    fn new(of: &'a Contender) -> Self {
        let sets = sets(&of.files);
        let gated = match &of.broken {
            Some(path) => Some(Gated::Broken(path.clone())),
            None => (!sets.has_core).then_some(Gated::NoCore),
        };
        Self { of, families: of.families.iter().collect(), sets, gated }
    }

    /// The family that speaks for it: which one makes no difference, since all hold the same.
    fn own(&self) -> Option<&'a Family> {
        self.families.first().copied()
    }
}

/// Which families hold an element.
type Holders<'v, T> = HashMap<&'v T, BTreeSet<&'v Family>>;

fn holders<'v, T: Eq + Hash>(
    voters: &[&'v Voice<'v>],
    set: impl Fn(&'v Voice<'v>) -> &'v BTreeSet<T>,
) -> Holders<'v, T> {
    let mut holders: Holders<'v, T> = HashMap::new();
    for voice in voters {
        for element in set(voice) {
            holders.entry(element).or_default().extend(voice.families.iter().copied());
        }
    }
    holders
}

/// `[C_A, C_S, N_A, N_S]` of a contender.
fn parts(
    voice: &Voice<'_>,
    voters: &[&Voice<'_>],
    atoms: &Holders<'_, Atom>,
    grams: &Holders<'_, String>,
) -> [f64; 4] {
    if voice.gated.is_some() {
        return [0.0; 4];
    }
    let near = |similar: &dyn Fn(&Voice<'_>) -> f64| mean_of_best(voice, voters, similar);
    [
        carried(&voice.sets.atoms, atoms),
        carried(&voice.sets.grams, grams),
        near(&|other| jaccard(&voice.sets.atoms, &other.sets.atoms)),
        near(&|other| jaccard(&voice.sets.grams, &other.sets.grams)),
    ]
}

/// C_k: every holder but one's own family counts once for each element.
fn carried<T: Eq + Hash + Ord>(set: &BTreeSet<T>, holders: &Holders<'_, T>) -> f64 {
    let others = |element| holders.get(element).map_or(0, |families| families.len() - 1);
    let sum: usize = set.iter().map(others).sum();
    if set.is_empty() { 0.0 } else { sum as f64 / (set.len() as f64).powf(0.25) }
}

/// N_k: the mean over the other families of the best similarity to one of theirs.
fn mean_of_best(
    voice: &Voice<'_>,
    voters: &[&Voice<'_>],
    similar: &dyn Fn(&Voice<'_>) -> f64,
) -> f64 {
    let mut best: BTreeMap<&Family, f64> = BTreeMap::new();
    for other in voters {
        let similarity = similar(other);
        for family in other.families.iter().filter(|family| Some(**family) != voice.own()) {
            let entry = best.entry(family).or_default();
            *entry = entry.max(similarity);
        }
    }
    if best.is_empty() { 0.0 } else { best.values().sum::<f64>() / best.len() as f64 }
}

/// The Jaccard similarity of two contenders' token n-grams, 0 to 1.
pub fn similarity(a: &Contender, b: &Contender) -> f64 {
    jaccard(&sets(&a.files).grams, &sets(&b.files).grams)
}

fn jaccard<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    let both = a.intersection(b).count();
    let either = a.len() + b.len() - both;
    if either == 0 { 0.0 } else { both as f64 / either as f64 }
}

fn explain(voice: &Voice<'_>, voters: &[&Voice<'_>], atoms: &Holders<'_, Atom>) -> Score {
    let all = voice.sets.atoms.iter().map(|atom| support(voice, atom, atoms));
    let (mut supported, unsupported): (Vec<_>, Vec<_>) =
        all.partition(|support| !support.families.is_empty());
    supported.sort_by_key(|support| std::cmp::Reverse(support.families.len()));
    Score {
        id: voice.of.id.clone(),
        total: None,
        parts: [0.0; 4],
        gated: voice.gated.clone(),
        supported,
        unsupported,
        nearest: nearest(voice, voters),
        same_tree: voice.families.iter().map(|family| (*family).clone()).collect(),
        behind: behind(voice, voters),
        outside: voice.sets.outside,
    }
}

fn behind(voice: &Voice<'_>, voters: &[&Voice<'_>]) -> usize {
    let agrees = |other: &&&Voice<'_>| jaccard(&voice.sets.grams, &other.sets.grams) >= AGREES;
    let others = voters.iter().filter(agrees).flat_map(|other| &other.families);
    voice.families.iter().chain(others).collect::<BTreeSet<_>>().len()
}

fn support(voice: &Voice<'_>, atom: &Atom, atoms: &Holders<'_, Atom>) -> Support {
    let holders = atoms.get(atom).into_iter().flatten();
    let others = holders.filter(|family| !voice.families.contains(*family));
    Support {
        path: atom.path.clone(),
        added: atom.added,
        line: voice.sets.shown.get(atom).unwrap_or(&atom.line).clone(),
        families: others.map(|family| (*family).clone()).collect(),
    }
}

/// The most similar tree that another family proposed; equal similarities by family, then by tree.
fn nearest(voice: &Voice<'_>, voters: &[&Voice<'_>]) -> Option<Nearest> {
    let others = voters.iter().filter(|other| other.of.tree != voice.of.tree);
    let each = others.flat_map(|other| {
        let similarity = jaccard(&voice.sets.grams, &other.sets.grams);
        let foreign = other.families.iter().filter(|family| !voice.families.contains(*family));
        foreign.map(move |family| (similarity, *family, other.of))
    });
    let best = each
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (b.1, &b.2.tree).cmp(&(a.1, &a.2.tree))));
    best.map(|(similarity, family, of)| Nearest {
        id: of.id.clone(),
        family: family.clone(),
        similarity,
    })
}
