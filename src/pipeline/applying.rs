//! From a finished run to the user's repository: the one step that writes there, and only when asked.

use std::path::{Path, PathBuf};

use super::PipelineError;
use super::decide::Standing;
use crate::journal::RunDir;
use crate::model::{CandidateId, CommitId, RunRecord, TreeId};
use crate::repo::{Applied, ApplyTo, Store, StorePaths, UserRepo, apply_tree, top_of};

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is written.
    Done {
        /// The changed paths, lossily decoded.
        paths: Vec<String>,
        /// The commit, if one was made.
        commit: Option<CommitId>,
    },
    /// Nothing is written: the repository moved on. The change still applies there, and has to pass
    /// the gates there.
    NeedsGates(Moved),
}

/// A change on top of a repository that moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The commit that it is now based on.
    pub commit: CommitId,
    /// The change against that commit.
    pub diff: Vec<u8>,
    tree: TreeId,
    onto: TreeId,
}

/// The working tree that a run was made on, by the bytes of its path.
pub fn repository_of(run: &Path) -> Option<PathBuf> {
    top_of(run)
}

/// A candidate on its way into the user's repository.
pub struct Applier {
    user: UserRepo,
    store: Store,
    tree: TreeId,
    to: ApplyTo,
}

impl Applier {
    /// Opens the run's store and the repository that holds `repo`.
    ///
    /// # Errors
    /// When the candidate may not be applied, or store or repository can't be opened.
    pub fn open(
        repo: &Path,
        cache: &Path,
        dir: &RunDir,
        record: &RunRecord,
        candidate: &CandidateId,
        to: ApplyTo,
    ) -> Result<Self, PipelineError> {
        let tree = applicable(record, candidate)?;
        let paths = StorePaths { cache: cache.to_owned(), run: dir.path().to_owned() };
        Ok(Self { user: UserRepo::discover(repo)?, store: Store::reopen(&paths)?, tree, to })
    }

    /// Applies what the run proved.
    ///
    /// # Errors
    /// Refusals that name what is in the way; nothing is changed then.
    pub fn apply(&self) -> Result<Step, PipelineError> {
        self.step(&self.tree, self.store.base_tree())
    }

    /// Applies a moved change that has passed the gates where it stands now.
    ///
    /// # Errors
    /// As [`Applier::apply`].
    pub fn apply_moved(&self, moved: &Moved) -> Result<Step, PipelineError> {
        self.step(&moved.tree, &moved.onto)
    }

    fn step(&self, tree: &TreeId, proved_on: &TreeId) -> Result<Step, PipelineError> {
        Ok(match apply_tree(&self.user, &self.store, tree, &self.to, proved_on)? {
            Applied::Done { paths, commit } => Step::Done { paths, commit },
            Applied::NeedsGates { tree, onto, commit } => {
                let diff = self.store.diff_trees(&onto, &tree)?;
                Step::NeedsGates(Moved { commit, diff, tree, onto })
            }
        })
    }
}

/// The candidate's tree, when it passed the gates. The one who decides that a refuted diff is right all
/// the same can take it from `diff` and apply it by hand.
fn applicable(record: &RunRecord, id: &CandidateId) -> Result<TreeId, PipelineError> {
    let refuse = |why: &str| {
        PipelineError::Config(format!(
            "{id} {why}; `bakeoff diff --candidate {id}` prints its diff"
        ))
    };
    let find = |id: &CandidateId| record.candidates.iter().find(|row| row.candidate.id == *id);
    let row = find(id).ok_or_else(|| refuse("is not in the run"))?;
    // An equal tree was gated once, on the candidate that stands for it.
    let stands = row.same_as.as_ref().and_then(find).unwrap_or(row);
    match (Standing::of(row.admission.tree().is_some(), &stands.gates), row.admission.tree()) {
        (Standing::Passed, Some(tree)) => Ok(tree.clone()),
        (Standing::Failed, _) => Err(refuse("failed a gate and is not applied")),
        (Standing::Unproved, Some(_)) => Err(refuse("was not proved and is not applied")),
        _ => Err(refuse("was refused: its diff does not apply")),
    }
}
