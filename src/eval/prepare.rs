//! A task made ready to be chosen from: its base, what applies, equal trees as one contender.
//!
//! Never here: what is known to be right.

use super::base::Places;
use super::pool::Task;
use super::sparse::{Nothing, base_of};
use crate::model::{Admission, CandidateId, Family, TreeId};
use crate::patch::{Rules, StoreError, TreeStore, admit};
use crate::pipeline::changed_files;
use crate::repo::Draft;
use crate::select::{Contender, Doubt, broken, group};

/// What came of a task's diffs before any choice.
pub struct Prepared {
    /// One contender for each tree.
    pub contenders: Vec<Contender>,
    /// The rows behind each contender.
    pub members: Vec<Vec<usize>>,
    /// Changed lines of each contender, as its diff counts them.
    pub sizes: Vec<u64>,
    /// Whether the base is a repository's.
    pub whole: bool,
}

impl Prepared {
    /// How many rows apply.
    pub fn applies(&self) -> usize {
        self.members.iter().map(Vec::len).sum()
    }
}

/// Finds the base, applies every diff to it in memory and groups what comes out.
pub fn prepare(task: &Task, places: &Places) -> Prepared {
    let found = places.find(task);
    match &found {
        Some(found) => fill(task, &found.peek, Some(&found.tree)),
        None => fill(task, &Nothing, None),
    }
}

fn fill(task: &Task, store: &dyn TreeStore, base: Option<&TreeId>) -> Prepared {
    let draft = Draft::over(store);
    let diffs = task.rows.iter().map(|row| row.patch.as_slice());
    let whole = base.is_some();
    let base = base.cloned().map_or_else(|| base_of(diffs, &draft), Ok);
    let mut ready = Prepared { contenders: vec![], members: vec![], sizes: vec![], whole };
    let Ok(base) = base else { return ready };
    let admitted: Vec<(usize, TreeId, u64)> = (0..task.rows.len())
        .filter_map(|at| applied(&task.rows[at].patch, &base, &draft).map(|(t, n)| (at, t, n)))
        .collect();
    let trees: Vec<&TreeId> = admitted.iter().map(|(_, tree, _)| tree).collect();
    for members in group(&trees) {
        let (_, tree, size) = &admitted[members[0]];
        let rows: Vec<usize> = members.iter().map(|at| admitted[*at].0).collect();
        let families = rows.iter().map(|at| task.rows[*at].family.clone()).collect();
        let number = ready.contenders.len();
        if let Ok(one) = contender(number, tree, families, &base, &draft, ready.whole) {
            ready.contenders.push(one);
            ready.members.push(rows);
            ready.sizes.push(*size);
        }
    }
    ready
}

/// The tree that a diff makes, and how many lines it changes. A base object that is not there is as if the
/// diff did not apply: a partial clone has only what somebody asked for.
fn applied(diff: &[u8], base: &TreeId, draft: &Draft<'_>) -> Option<(TreeId, u64)> {
    match admit(diff, base, draft, &Rules::default()) {
        Ok(Admission::Admitted { tree, files, .. }) => {
            let lines = files.iter().map(|file| u64::from(file.added) + u64::from(file.removed));
            Some((tree, lines.sum()))
        }
        Ok(Admission::Refused(_)) | Err(_) => None,
    }
}

fn contender(
    number: usize,
    tree: &TreeId,
    families: Vec<Family>,
    base: &TreeId,
    draft: &Draft<'_>,
    whole: bool,
) -> Result<Contender, StoreError> {
    let files = changed_files(draft, base, tree);
    let files = files.map_err(|error| StoreError::Backend(error.to_string()))?;
    Ok(Contender {
        id: CandidateId::nth(number),
        tree: tree.clone(),
        families,
        // A file with gaps parses no better before than after.
        broken: whole.then(|| broken(&files).map(str::to_owned)).flatten(),
        files,
        tested: false,
        doubt: Doubt::default(),
    })
}
