//! Writes a winner to the user's repository: the only place that does.
//!
//! Uncommitted work is never lost: a path in the way is a refusal that names it, and what was written
//! is taken back when a later step fails. Where the repository has moved since the run's base, the
//! change is merged in memory, and the merged tree must pass the gates before it is written.
//! Never here: hooks, filters, a model.

mod check;
mod commit;
mod stage;
mod swap;

use git2::{MergeOptions, Oid};

use self::stage::Stage;
use super::edit::{self, Change};
use super::error::{GitContext, RepoError, Result, lossy};
use super::object_db::Objects;
use super::objects::oid;
use super::store::{Store, copy_tree};
use super::user::UserRepo;
use crate::model::{CommitId, TreeId};

/// Where a winner goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyTo {
    /// The working tree alone; the index stays.
    WorkTree,
    /// A new branch with one commit on the run's base; the working tree stays.
    Branch {
        /// The branch's name.
        name: String,
        /// The commit's message.
        message: String,
    },
    /// The working tree, the index and a commit on the current branch.
    Commit {
        /// The commit's message.
        message: String,
    },
}

/// What came of applying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is written.
    Done {
        /// The changed paths, lossily decoded; none when all of it was there already.
        paths: Vec<String>,
        /// The commit that was made, if any.
        commit: Option<CommitId>,
    },
    /// Nothing is written: the repository moved, and the change still applies. `tree` has to pass the
    /// gates; then call again with it and with `onto` as what it was proved on.
    NeedsGates {
        /// The change on top of the current state; it is in the store.
        tree: TreeId,
        /// The current state's tree.
        onto: TreeId,
        /// The current state's commit.
        commit: CommitId,
    },
}

/// Writes the change that leads from `proved_on` (the run's base tree, or `onto` of an earlier answer)
/// to `tree`.
///
/// # Errors
/// Refusals that name what is in the way; nothing is changed then.
pub fn apply_tree(
    user: &UserRepo,
    store: &Store,
    tree: &TreeId,
    to: &ApplyTo,
    proved_on: &TreeId,
) -> Result<Applied> {
    let (tree, proved_on) = (oid(tree.as_str())?, oid(proved_on.as_str())?);
    let state = State::of(user, store, to)?;
    if state.tree != proved_on {
        return merge(user, store, &state, proved_on, tree);
    }
    let changes = store.with_odb(|odb| edit::compare(odb, state.tree, tree))?;
    let commit = match to {
        // What is there already is no obstacle: applying twice is as good as once.
        ApplyTo::WorkTree if check::is_made(user, store, &changes)? => {
            return Ok(Applied::Done { paths: Vec::new(), commit: None });
        }
        ApplyTo::WorkTree => {
            let stage = write_files(user, store, &changes)?;
            stage.keep()?;
            None
        }
        ApplyTo::Branch { name, message } => {
            Some(commit::branch(user, store, state.commit, tree, name, message)?)
        }
        ApplyTo::Commit { message } => {
            Some(commit::on_head(user, store, state.commit, tree, &changes, message)?)
        }
    };
    let paths = changes.iter().map(|change| lossy(&change.path)).collect();
    Ok(Applied::Done { paths, commit: commit.map(|id| CommitId::new(id.to_string())) })
}

/// Checks all paths and puts the new files in place; what is dropped before it is kept is undone.
fn write_files<'a>(user: &'a UserRepo, store: &Store, changes: &[Change]) -> Result<Stage<'a>> {
    let plan = check::plan(user, store, changes)?;
    let mut stage = Stage::open(user.top())?;
    stage.run(&plan)?;
    Ok(stage)
}

/// What the change is to be applied to.
struct State {
    commit: Oid,
    tree: Oid,
}

impl State {
    fn of(user: &UserRepo, store: &Store, to: &ApplyTo) -> Result<Self> {
        let base = store.user_commit();
        let commit = match to {
            ApplyTo::Branch { .. } => base.clone(),
            ApplyTo::WorkTree | ApplyTo::Commit { .. } => user.resolve("HEAD")?,
        };
        let mut tree = user.tree_of(&commit)?;
        match to {
            // The working tree still holds the uncommitted changes that the base was made of.
            ApplyTo::WorkTree if store.is_dirty() && commit == base => {
                tree = store.base_tree().clone()
            }
            ApplyTo::WorkTree if store.is_dirty() => {
                let paths = "the uncommitted changes that it stands on".to_owned();
                return Err(RepoError::Moved { base, now: commit, paths });
            }
            ApplyTo::Commit { .. } if store.is_dirty() => {
                let why = "the change stands on uncommitted changes; apply it to the working tree, \
                           then commit both";
                return Err(RepoError::Commit(why.into()));
            }
            _ => {}
        }
        Ok(Self { commit: oid(commit.as_str())?, tree: oid(tree.as_str())? })
    }
}

/// Merges the change into the current state, in the store.
fn merge(
    user: &UserRepo,
    store: &Store,
    state: &State,
    proved_on: Oid,
    tree: Oid,
) -> Result<Applied> {
    store.import_tree(user, state.tree)?;
    store.objects().in_memory(|repo| {
        let own = Objects::of(repo)?;
        for tree in [proved_on, state.tree, tree] {
            store.with_odb(|odb| copy_tree(odb, &own, tree))?;
        }
        let find = |id| repo.find_tree(id).doing("read a tree");
        let mut options = MergeOptions::new();
        options.find_renames(false);
        let (base, ours, theirs) = (find(proved_on)?, find(state.tree)?, find(tree)?);
        let merged = repo.merge_trees(&base, &ours, &theirs, Some(&options));
        let mut merged = merged.doing("merge the change")?;
        if merged.has_conflicts() {
            return Err(RepoError::Moved {
                base: store.user_commit(),
                now: CommitId::new(state.commit.to_string()),
                paths: conflicts(&merged)?,
            });
        }
        let merged = merged.write_tree_to(repo).doing("write the merged tree")?;
        if merged == state.tree {
            // Somebody has already made the very change.
            return Ok(Applied::Done { paths: Vec::new(), commit: None });
        }
        store.with_odb(|odb| copy_tree(&own, odb, merged))?;
        Ok(Applied::NeedsGates {
            tree: TreeId::new(merged.to_string()),
            onto: TreeId::new(state.tree.to_string()),
            commit: CommitId::new(state.commit.to_string()),
        })
    })
}

fn conflicts(index: &git2::Index) -> Result<String> {
    let mut paths = Vec::new();
    for conflict in index.conflicts().doing("read the conflicts")?.flatten() {
        let sides = [conflict.our, conflict.their, conflict.ancestor];
        paths.extend(sides.into_iter().flatten().map(|entry| lossy(&entry.path)).next());
    }
    paths.dedup();
    let more = paths.len().saturating_sub(5);
    paths.truncate(5);
    let named = paths.join(", ");
    Ok(if more > 0 { format!("{named} and {more} more") } else { named })
}
