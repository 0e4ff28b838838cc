//! The ways of choosing, as chances: where a rule can't tell several apart, a draw among them decides.
//!
//! Never here: counting.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Question;
use super::pool::Task;
use super::prepare::Prepared;
use crate::model::{CandidateId, Family, Outcome};
use crate::select::{Choice, Contender, FEWEST_FAMILIES, Score, choose, fuse, sets, similarity};

/// A way of choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// What `pick` does without gates: agreement of families.
    Consensus,
    /// The tree with the most diffs.
    Vote,
    /// The core change with the most diffs: equal but for tests, notes, comments and white space.
    Core,
    /// The fewest changed lines.
    Smallest,
    /// A draw among what applies.
    Random,
    /// The first trusted family's best, else the consensus.
    Trust,
    /// The diff nearest to the fusion of all.
    Fusion,
}

impl Selector {
    /// All of them; `trust` only says something with an order.
    pub const ALL: [Self; 7] = [
        Self::Consensus,
        Self::Vote,
        Self::Core,
        Self::Smallest,
        Self::Random,
        Self::Trust,
        Self::Fusion,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Consensus => "consensus",
            Self::Vote => "vote",
            Self::Core => "core",
            Self::Smallest => "smallest",
            Self::Random => "random",
            Self::Trust => "trust",
            Self::Fusion => "fusion",
        }
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("there is no selector {name:?}; there are {known}"))
    }
}

/// What a way of choosing gives for one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pick {
    /// The id of the row that is chosen, where no draw decides.
    pub row: Option<String>,
    /// The chance that what is chosen is right.
    pub right: f64,
    /// How sure it is, comparable between tasks; 0 without a choice.
    pub surety: f64,
}

/// One task's picks, and what is known of its diffs.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// The task.
    pub task: String,
    /// Diffs, those that apply, and those that pass the consensus' gate.
    pub counts: [usize; 3],
    /// Whether any diff is right, and whether any that applies is.
    pub any_right: [bool; 2],
    /// Systems with a right diff.
    pub right_systems: Vec<String>,
    /// Whether the base is a repository's.
    pub whole: bool,
    /// Whether the fusion is a change that nobody proposed, so that its outcome is not known.
    pub fused_new: bool,
    /// The picks.
    pub picks: BTreeMap<Selector, Pick>,
}

/// Lets every selector choose.
pub fn choices(task: &Task, ready: &Prepared, question: &Question) -> TaskResult {
    let chooser = Chooser::new(task, ready, question);
    let picks = question.selectors.iter().map(|one| (*one, chooser.pick(*one))).collect();
    let is_right = |at: &usize| task.rows[*at].right == Some(true);
    let right = || task.rows.iter().filter(|row| row.right == Some(true));
    let mut right_systems: Vec<String> = right().map(|row| row.system.clone()).collect();
    right_systems.sort();
    right_systems.dedup();
    let passes = chooser.choice.scores.iter().zip(&ready.members);
    let passes = passes.filter(|(score, _)| score.gated.is_none()).map(|(_, rows)| rows.len());
    TaskResult {
        task: task.id.clone(),
        counts: [task.rows.len(), ready.applies(), passes.sum()],
        any_right: [right().next().is_some(), ready.members.iter().flatten().any(is_right)],
        right_systems,
        whole: ready.whole,
        fused_new: chooser.fused_is_new(),
        picks,
    }
}

struct Chooser<'a> {
    task: &'a Task,
    ready: &'a Prepared,
    question: &'a Question,
    choice: Choice,
}

impl<'a> Chooser<'a> {
    fn new(task: &'a Task, ready: &'a Prepared, question: &'a Question) -> Self {
        Self { task, ready, question, choice: choose(&ready.contenders, &[]) }
    }

    fn pick(&self, selector: Selector) -> Pick {
        if self.ready.contenders.is_empty() {
            return Pick::default();
        }
        let all = || 0..self.ready.contenders.len();
        match selector {
            Selector::Consensus => self.chosen(&self.choice),
            Selector::Trust => self.chosen(&choose(&self.ready.contenders, &self.question.trust)),
            Selector::Random => self.draw(all().collect(), true, 0.0),
            Selector::Vote => self.most(all().map(|at| vec![at]).collect()),
            Selector::Core => self.most(self.by_core()),
            Selector::Smallest => {
                let least = self.ready.sizes.iter().min().copied().unwrap_or_default();
                let fits = |at: &usize| self.ready.sizes[*at] == least;
                self.draw(all().filter(fits).collect(), true, 1.0 / (least as f64 + 1.0))
            }
            Selector::Fusion => self.fusion(),
        }
    }

    /// A contender of several rows is one tree: which of them is applied makes no difference, and their
    /// reports may still differ.
    fn tree(&self, at: usize) -> f64 {
        let rows = &self.ready.members[at];
        let right = rows.iter().filter(|row| self.task.rows[**row].right == Some(true)).count();
        right as f64 / rows.len().max(1) as f64
    }

    /// A draw among contenders, or among the rows behind them.
    fn draw(&self, among: Vec<usize>, rows: bool, surety: f64) -> Pick {
        let weight = |at: &usize| if rows { self.ready.members[*at].len() as f64 } else { 1.0 };
        let all: f64 = among.iter().map(weight).sum();
        let right: f64 = among.iter().map(|at| weight(at) * self.tree(*at)).sum();
        let row = match among.as_slice() {
            [one] => self.ready.members[*one].first().map(|row| self.task.rows[*row].id.clone()),
            _ => None,
        };
        Pick { row, right: if all > 0.0 { right / all } else { 0.0 }, surety }
    }

    /// The groups of contenders with the most rows.
    fn most(&self, groups: Vec<Vec<usize>>) -> Pick {
        let size = |group: &Vec<usize>| {
            group.iter().map(|at| self.ready.members[*at].len()).sum::<usize>()
        };
        let most = groups.iter().map(size).max().unwrap_or_default();
        let tied: Vec<&Vec<usize>> = groups.iter().filter(|group| size(group) == most).collect();
        let picks: Vec<Pick> =
            tied.iter().map(|group| self.draw((*group).clone(), true, 0.0)).collect();
        let right = picks.iter().map(|pick| pick.right).sum::<f64>() / picks.len().max(1) as f64;
        let row = if picks.len() == 1 { picks[0].row.clone() } else { None };
        Pick { row, right, surety: most as f64 / self.ready.applies().max(1) as f64 }
    }

    fn by_core(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<Vec<_>, Vec<usize>> = BTreeMap::new();
        for (at, one) in self.ready.contenders.iter().enumerate() {
            let atoms = sets(&one.files).atoms.into_iter().collect();
            groups.entry(atoms).or_default().push(at);
        }
        groups.into_values().collect()
    }

    /// The rule's own choice; where it sees two camps, the better one with no surety.
    fn chosen(&self, choice: &Choice) -> Pick {
        let Some((id, sure)) = first(choice) else { return Pick::default() };
        let Some(at) = self.place(id) else { return Pick::default() };
        let whole = fuse(&self.ready.contenders, &choice.scores, at).is_none();
        let surety = if sure { surety(&choice.scores[at], whole) } else { 0.0 };
        self.draw(vec![at], false, surety)
    }

    fn place(&self, id: &CandidateId) -> Option<usize> {
        self.ready.contenders.iter().position(|one| one.id == *id)
    }

    fn fused(&self) -> Option<Contender> {
        let best = self.place(first(&self.choice)?.0)?;
        let files = fuse(&self.ready.contenders, &self.choice.scores, best)?;
        Some(Contender { files, ..self.ready.contenders[best].clone() })
    }

    fn fused_is_new(&self) -> bool {
        let equal = |fused: &Contender| {
            self.ready
                .contenders
                .iter()
                .any(|one| sets(&one.files).atoms == sets(&fused.files).atoms)
        };
        self.fused().is_some_and(|fused| !equal(&fused))
    }

    /// The outcome of a change that nobody proposed is not known; the diff nearest to it stands for it.
    fn fusion(&self) -> Pick {
        let Some(fused) = self.fused() else { return self.chosen(&self.choice) };
        let near = |at: &usize| similarity(&self.ready.contenders[*at], &fused);
        let all: Vec<usize> = (0..self.ready.contenders.len()).collect();
        let most = all.iter().map(near).fold(0.0, f64::max);
        self.draw(all.into_iter().filter(|at| near(at) >= most).collect(), false, most)
    }
}

/// The choice, or the first of the two camps, and whether it is one.
fn first(choice: &Choice) -> Option<(&CandidateId, bool)> {
    match &choice.decision.as_ref()?.outcome {
        Outcome::Winner { candidate, .. } => Some((candidate, true)),
        Outcome::NoWinner { closest, .. } => closest.first().map(|id| (id, false)),
        Outcome::Gated { .. } => None,
    }
}

/// How far a choice is to be believed: first, whether no hunk of it stands alone and none is missing on
/// which two others agree (there is nothing to fuse); then families with the very same tree, then how near
/// the other families are.
fn surety(score: &Score, whole: bool) -> f64 {
    let same: Vec<&Family> = score.same_tree.iter().collect();
    let alike = same.len().min(FEWEST_FAMILIES) as f64;
    let [_, _, near_atoms, near_grams] = score.parts;
    let whole = if whole { FEWEST_FAMILIES as f64 + 1.0 } else { 0.0 };
    whole + alike + (near_atoms + near_grams) / 2.0
}
