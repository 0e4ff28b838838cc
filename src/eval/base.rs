//! Where a task's base comes from: a repository, or, where there is none, what the diffs show of it.
//!
//! Never here: applying anything.

use std::path::{Path, PathBuf};

use super::pool::Task;
use crate::model::TreeId;
use crate::repo::Peek;

/// Directories in which repositories are looked for.
pub struct Places {
    dirs: Vec<PathBuf>,
}

/// A base in a repository.
pub struct Found {
    /// The repository.
    pub peek: Peek,
    /// The base's tree.
    pub tree: TreeId,
}

impl Places {
    /// The directories named, then the pool's own.
    pub fn new(named: &[PathBuf], beside: Option<&Path>) -> Self {
        let own = beside.map(|dir| [dir.join("repos"), dir.to_owned()]);
        Self { dirs: named.iter().cloned().chain(own.into_iter().flatten()).collect() }
    }

    /// The first repository that holds the task's base.
    pub fn find(&self, task: &Task) -> Option<Found> {
        let own = task.repo.iter().cloned();
        let dirs = self.dirs.iter().flat_map(|dir| names(task).into_iter().map(|n| dir.join(n)));
        let forms = |path: PathBuf| [path.clone(), path.join("repo"), path.join(".git")];
        own.chain(dirs).flat_map(forms).find_map(|path| open(&path, task))
    }
}

/// What a task's repository may be called: the task, or the repository in the ways of mirrors and clones.
fn names(task: &Task) -> Vec<String> {
    let mut names = vec![task.id.clone()];
    if let Some((owner, name)) = task.github.as_deref().and_then(|github| github.split_once('/')) {
        let whole =
            [format!("{owner}+{name}"), format!("{owner}/{name}"), format!("{owner}__{name}")];
        names.extend(whole.iter().flat_map(|whole| [whole.clone(), format!("{whole}.git")]));
        names.extend([name.to_owned(), format!("{name}.git")]);
    }
    names.retain(|name| !name.split('/').any(|part| part == ".." || part.is_empty()));
    names
}

fn open(path: &Path, task: &Task) -> Option<Found> {
    if !path.is_dir() {
        return None;
    }
    let peek = Peek::open(path).ok()?;
    // A repository of one commit made for the task has the tree and not the commit.
    let named = [task.tree.as_deref(), task.commit.as_deref()];
    let mut named = named.into_iter().flatten().peekable();
    let tree = match named.peek() {
        Some(_) => named.find_map(|name| peek.tree_of(name).ok())?,
        None => peek.tree_of("HEAD").ok()?,
    };
    // Listed is not there: a partial clone may lack what a commit names.
    crate::patch::TreeStore::tree(&peek, &tree).ok()?;
    Some(Found { peek, tree })
}
